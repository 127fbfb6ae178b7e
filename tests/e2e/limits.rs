//! Limits of the host: said before or instead of a strange failure.

use crate::harness::{QUICK, SHM, TCP, checked, client, pingpong, server, tool};
use crate::{needs_root, skip};

/// A line of shell that gives what follows a /dev/shm of its own.
fn own_shm(size: &str) -> String {
    format!(r#"mount -t tmpfs -o size={size} none /dev/shm && exec "$@""#)
}

#[test]
fn a_small_dev_shm_is_named_with_what_is_there_what_is_needed_and_the_remedy() {
    needs_root!();
    let run = pingpong()
        .args(["--loopback", "-p", SHM, "--json"])
        .args(QUICK)
        .through_shell(&own_shm("8m"))
        .through(&["unshare", "-m"])
        .ended()
        .exits(2)
        .says(&["/dev/shm has", "8 MiB", "--shm-size"]);
    let report = checked(&run.stdout);
    assert_eq!(report["outcome"]["status"], "failed");
    assert!(report["outcome"]["reason"].as_str().unwrap().contains("/dev/shm"), "{report}");
}

#[test]
fn a_dev_shm_that_is_large_enough_for_one_side_only_is_named_too() {
    needs_root!();
    let run = pingpong()
        .args(["--loopback", "-p", SHM])
        .args(QUICK)
        .through_shell(&own_shm("20m"))
        .through(&["unshare", "-m"])
        .ended()
        .fails();
    run.says(&["/dev/shm has", "--shm-size"]);
}

#[test]
fn a_private_dev_shm_is_empty_after_a_run_and_after_an_interrupt() {
    needs_root!();
    let line = r#"mount -t tmpfs -o size=256m none /dev/shm; "$@" >/dev/null; echo "$?"; ls -A /dev/shm | wc -l"#;
    let run = pingpong()
        .args(["--loopback", "-p", SHM])
        .args(QUICK)
        .through_shell(line)
        .through(&["unshare", "-m"])
        .ended()
        .exits(0);
    assert_eq!(run.stdout.split_whitespace().collect::<Vec<_>>(), ["0", "0"], "{}", run.told());
    let shell = pingpong()
        .args(["--loopback", "-p", SHM, "-v"])
        .args(crate::harness::ENDLESS)
        .through_shell(line)
        .through(&["unshare", "-m"])
        .spawn();
    shell.line("phase: measure");
    let [run] = crate::harness::children_of(shell.id())[..] else { panic!("the shell runs one program at a time") };
    let run = rustix::process::Pid::from_raw(run as i32).unwrap();
    rustix::process::kill_process(run, rustix::process::Signal::INT).unwrap();
    let shell = shell.ended().exits(0);
    assert_eq!(shell.stdout.split_whitespace().collect::<Vec<_>>(), ["130", "0"], "{}", shell.told());
}

#[test]
fn too_few_open_files_end_with_a_reason_and_no_hang() {
    for files in ["10", "16", "20"] {
        for provider in [TCP, SHM] {
            let run = pingpong()
                .args(["--loopback", "-p", provider, "--json", "--timeout", "5s"])
                .args(QUICK)
                .through_shell(&format!(r#"ulimit -n {files}; exec "$@""#))
                .ended()
                .exits(2)
                .says(&[files, "may be open", "ulimit -n"]);
            checked(&run.stdout);
        }
    }
}

#[test]
fn as_many_open_files_as_are_asked_for_are_enough() {
    for provider in [TCP, SHM] {
        let run = pingpong().args(["--loopback", "-p", provider]).args(QUICK);
        run.through_shell(r#"ulimit -n 32; exec "$@""#).ended().exits(0);
    }
}

#[test]
fn no_memory_may_be_locked_and_what_needs_none_runs_and_records_the_limit() {
    let Some(_) = tool("prlimit") else { skip!("`prlimit` is not on PATH (package util-linux)") };
    for provider in [TCP, SHM] {
        let run = pingpong()
            .args(["--loopback", "-p", provider, "--json"])
            .args(QUICK)
            .through(&["prlimit", "--memlock=0:0"])
            .ended()
            .exits(0);
        let report = checked(&run.stdout);
        assert_eq!(report["environment"]["local"]["memlock_bytes"]["soft"], 0, "{report}");
    }
}

#[test]
fn memory_that_is_not_there_is_refused_with_the_footprint_by_the_side_that_lacks_it() {
    let served = server().spawn();
    let run = client(served.port()).args(["-S", "900000GiB", "-I", "1", "--json"]).ended().exits(2);
    checked(&run.says(&["buffers of", "available", "(-S)"]).stdout);
}

#[test]
fn both_sides_on_one_core_yield_to_each_other_and_say_so() {
    let Some(_) = tool("taskset") else { skip!("`taskset` is not on PATH (package util-linux)") };
    for provider in [TCP, SHM] {
        let run = pingpong()
            .args(["--loopback", "-p", provider, "-S", "64", "-I", "50", "--json"])
            .through(&["taskset", "-c", "0"])
            .ended()
            .exits(0);
        let report = checked(&run.stdout);
        assert_eq!(report["run"]["wait"], "yield", "{report}");
        let ids: Vec<_> = report["warnings"].as_array().unwrap().iter().map(|w| w["id"].as_str().unwrap()).collect();
        assert!(ids.contains(&"shared-core"), "{ids:?}");
    }
}

#[test]
fn pinned_sides_are_recorded_with_their_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pin = if cores > 1 { "0,1" } else { "0" };
    let run = pingpong().args(["--loopback", "-p", TCP, "--pin", pin, "--json"]).args(QUICK).ended().exits(0);
    let report = checked(&run.stdout);
    let last = if cores > 1 { 1 } else { 0 };
    assert_eq!(report["run"]["sides"]["peer"]["pinned_core"], 0, "the server comes first");
    assert_eq!(report["run"]["sides"]["local"]["pinned_core"], last);
}
