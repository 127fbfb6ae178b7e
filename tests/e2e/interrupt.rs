//! Signals at any moment: a partial report, exit 130, and nothing left behind.

use std::time::{Duration, Instant};

use efa::bench::control::Listener;
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    DEADLINE, ENDLESS, Ended, Fake, Process, Raw, SHM, Step, TCP, checked, children_of, client, ends_within, listens,
    pingpong, report_at, server, shared_library, shm_files_of,
};

/// From the signal to the end: a wait looks at the flag every 50 ms, closing is bounded, the rest is the load.
const AT_ONCE: Duration = Duration::from_secs(20);

#[track_caller]
fn interrupted(run: Process) -> Ended {
    let pid = run.id();
    run.signal(Signal::INT);
    let ended = run.ended_within(AT_ONCE).exits(130);
    assert_eq!(shm_files_of(pid), Vec::<String>::new(), "{}", ended.told());
    ended
}

/// The report on standard output says that a signal ended the run.
#[track_caller]
fn reported(ended: &Ended, status: &str) -> Value {
    let report = checked(&ended.stdout);
    assert_eq!(report["outcome"]["status"], status, "{report}");
    assert!(report["outcome"]["reason"].as_str().unwrap().contains("interrupted"), "{report}");
    report
}

#[test]
fn a_client_that_still_tries_to_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let run = client(port).args(["-v", "--json"]).spawn();
    run.line("phase: control");
    reported(&interrupted(run), "failed");
}

#[test]
fn a_client_that_waits_for_a_greeting() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let run = client(listener.local_addr().unwrap().port()).args(["-v", "--json"]).spawn();
    let _silent = listener.accept().unwrap();
    reported(&interrupted(run), "failed");
}

#[test]
fn a_client_at_any_step_with_its_server() {
    for step in Step::ALL {
        let mut listener = Listener::bind(Some([127, 0, 0, 1].into()), 0, false).unwrap();
        let run = client(listener.local_addr().port()).args(ENDLESS).args(["-p", TCP, "--json"]).spawn();
        let fake = Fake::server(&mut listener, step);
        reported(&interrupted(run), "failed");
        let reason = fake.abort();
        assert!(reason.contains("interrupted") || reason.contains("gone"), "{step:?}: {reason}");
    }
}

#[test]
fn a_server_at_any_step_with_its_client() {
    for step in Step::ALL {
        let served = server().spawn();
        let port = served.port();
        let fake = Fake::client(port, step, &["-p", TCP, "-S", "64", "--timeout", "60s"]);
        interrupted(served).says(&["interrupted"]);
        assert!(!listens(port), "{step:?}");
        let reason = fake.abort();
        assert!(reason.contains("interrupted") || reason.contains("gone"), "{step:?}: {reason}");
    }
}

#[test]
fn a_server_that_waits_for_clients() {
    let served = server().spawn();
    let port = served.port();
    assert!(listens(port));
    let stranger = Raw::connect(port);
    interrupted(served);
    assert!(!listens(port));
    drop(stranger);
}

/// A library that never comes back from libfabric.
const STUCK: &str = r#"
#include <stdio.h>
#include <unistd.h>
int fi_getinfo() {
    fprintf(stderr, "stuck\n");
    for (;;) pause();
}
"#;

#[test]
fn a_process_that_is_stuck_inside_libfabric_ends_all_the_same_and_at_once_when_asked_twice() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = shared_library(folder.path(), "stuck.so", STUCK, &[]) else {
        crate::skip!("no C compiler (`cc`) on PATH");
    };
    let stuck = || {
        let run = client(1).env("LD_PRELOAD", &library).spawn();
        run.line("stuck");
        run
    };
    interrupted(stuck());
    let run = stuck();
    let start = Instant::now();
    run.signal(Signal::TERM);
    while !ends_within(run.id(), Duration::from_millis(400)) {
        run.signal(Signal::TERM);
    }
    // Well before the 5 s after which one signal is enough.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    run.ended().exits(130);
}

fn measuring_client(provider: &str) {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("run.csv");
    let served = server().spawn();
    let flags = ["-p", provider, "-v", "--json", "--csv", csv.to_str().unwrap()];
    let run = client(served.port()).args(ENDLESS).args(flags).spawn();
    run.line("phase: measure");
    let report = reported(&interrupted(run), "partial");
    let point = &report["points"][0];
    assert_eq!(point["ended_by"], "interrupted", "{point}");
    assert!(std::fs::read_to_string(csv).unwrap().lines().count() >= 2);
    let served_pid = served.id();
    served.ended_within(AT_ONCE).exits(3).says(&["gave up", "interrupted"]);
    assert_eq!(shm_files_of(served_pid), Vec::<String>::new());
}

#[test]
fn a_client_that_measures_over_tcp() {
    measuring_client(TCP);
}

#[test]
fn a_client_that_measures_over_shm() {
    measuring_client(SHM);
}

fn measuring_server(provider: &str) {
    let served = server().spawn();
    let run = client(served.port()).args(ENDLESS).args(["-p", provider, "-v", "--json"]).spawn();
    run.line("phase: measure");
    interrupted(served);
    let pid = run.id();
    let run = run.ended_within(AT_ONCE).exits(3).says(&["gave up", "interrupted"]);
    assert_eq!(checked(&run.stdout)["outcome"]["status"], "partial");
    assert_eq!(shm_files_of(pid), Vec::<String>::new());
}

#[test]
fn a_server_that_measures_over_tcp() {
    measuring_server(TCP);
}

#[test]
fn a_server_that_measures_over_shm() {
    measuring_server(SHM);
}

/// A loopback run, signalled at a moment by itself or with its whole process group.
fn loopback(provider: &str, moment: &str, group: bool, signal: Signal) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let run = pingpong().arg("--loopback").args(ENDLESS).args(["-p", provider, "-v"]).arg("--json").arg(&file).spawn();
    run.line(moment);
    let processes = [vec![run.id()], children_of(run.id())].concat();
    assert_eq!(processes.len(), 2, "a loopback run is two processes");
    if group {
        run.signal_group(signal)
    } else {
        run.signal(signal)
    }
    // Its end is that of the server as well: both write to the same standard error, which is closed.
    let ended = run.ended_within(AT_ONCE).exits(130);
    for pid in processes {
        assert!(ends_within(pid, DEADLINE), "both processes end");
        assert_eq!(shm_files_of(pid), Vec::<String>::new(), "{}", ended.told());
    }
    let report = report_at(&file);
    assert_ne!(report["outcome"]["status"], "complete", "{report}");
}

#[test]
fn a_loopback_run_that_measures() {
    for provider in [TCP, SHM] {
        for group in [false, true] {
            loopback(provider, "phase: measure", group, Signal::INT);
        }
    }
}

#[test]
fn a_loopback_run_in_any_earlier_phase() {
    for (provider, phase, group) in [
        (TCP, "phase: resolve", false),
        (SHM, "phase: resolve", true),
        (SHM, "phase: handshake", true),
        (TCP, "phase: fabric open", true),
        (SHM, "phase: fabric open", false),
        (SHM, "phase: first message", true),
        (TCP, "phase: first message", false),
    ] {
        loopback(provider, phase, group, Signal::INT);
    }
}

#[test]
fn a_loopback_run_that_is_terminated_or_loses_its_terminal() {
    loopback(TCP, "phase: measure", false, Signal::TERM);
    loopback(SHM, "phase: measure", true, Signal::HUP);
}

#[test]
fn a_loopback_run_that_is_killed_takes_its_server_along() {
    for provider in [TCP, SHM] {
        let run = pingpong().arg("--loopback").args(ENDLESS).args(["-p", provider, "-v"]).spawn();
        run.line("phase: measure");
        let servers = children_of(run.id());
        assert_eq!(servers.len(), 1);
        run.signal(Signal::KILL);
        assert!(ends_within(servers[0], DEADLINE), "the server of a killed client ends");
        assert_eq!(shm_files_of(servers[0]), Vec::<String>::new());
        assert_eq!(shm_files_of(run.id()), Vec::<String>::new(), "the server removes what its client could not");
    }
}

#[test]
fn a_loopback_run_whose_server_is_killed_ends_soon() {
    let run = pingpong().arg("--loopback").args(ENDLESS).args(["-p", TCP, "-v", "--json"]).spawn();
    run.line("phase: measure");
    let servers = children_of(run.id());
    let pid = rustix::process::Pid::from_raw(servers[0] as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let run = run.ended_within(AT_ONCE).exits(3).says(&["is gone"]);
    assert_eq!(checked(&run.stdout)["outcome"]["status"], "partial");
}

#[test]
fn a_run_that_ends_by_itself_leaves_nothing_either() {
    for provider in [TCP, SHM] {
        let served = server().spawn();
        let (port, server_pid) = (served.port(), served.id());
        let run = client(port).args(crate::harness::QUICK).args(["-p", provider]).spawn();
        let client_pid = run.id();
        run.ended().exits(0);
        served.ended().exits(0);
        assert!(!listens(port));
        assert_eq!([shm_files_of(server_pid), shm_files_of(client_pid)].concat(), Vec::<String>::new());
    }
}
