//! Command lines: what is taken exactly, what is refused, and what needs no fabric at all.

use std::time::Duration;

use crate::harness::{Ended, efa, pingpong};

/// Usage errors and dry runs touch no network, so this is a matter of starting a program.
const AT_ONCE: Duration = Duration::from_secs(20);

#[track_caller]
fn refused(flags: &[&str]) -> Ended {
    pingpong().args(flags).ended().exits(2).quickly(AT_ONCE)
}

#[track_caller]
fn planned(flags: &[&str]) -> Ended {
    pingpong().args(["--dry-run", "nodeb"]).args(flags).ended().exits(0)
}

#[test]
fn sizes_are_parsed_exactly_or_refused_with_the_flag_and_both_readings() {
    refused(&["nodeb", "-S", "64k"]).says(&["--size", "64k", "64KiB", "64kB"]);
    for wrong in ["-1", "0x40", "6.4", "", "64KIB", "1..", "8..4", "8,8", "18446744073709551616", "16777216TiB"] {
        refused(&["nodeb", "-S", wrong]).says(&["--size"]);
    }
    planned(&["-S", "5000000000"]).prints(&["5000000000 "]);
    planned(&["-S", "4kB,64KiB,8..32"]).prints(&["sizes: 4000, 64 KiB, 8, 16, 32"]);
    planned(&["-S", "all"]).prints(&["1 MiB"]);
}

#[test]
fn a_size_beyond_any_memory_is_refused_with_the_footprint_before_anything_is_allocated() {
    pingpong().args(["--loopback", "-S", "1000000GiB", "-I", "1"]).ended().exits(2).says(&[
        "buffers",
        "memory available",
        "-S",
    ]);
}

#[test]
fn iterations_are_parsed_exactly_or_refused() {
    for wrong in ["0", "-5", "1.5", "10k", "18446744073709551616", "", "+3"] {
        refused(&["nodeb", "-I", wrong]).says(&["--iterations"]);
    }
    planned(&["-I", "4294967297"]).prints(&["iterations of each size: 4294967297"]);
}

#[test]
fn other_values_that_make_no_sense_are_refused_with_their_flag() {
    for (flag, wrong) in [
        ("--duration", "0"),
        ("--duration", "-2s"),
        ("--timeout", "0s"),
        ("--connect-timeout", "never"),
        ("--warmup", "-1"),
        ("--percentiles", "101"),
        ("--percentiles", "NaN"),
        ("--seed", "-1"),
        ("--pin", "x"),
        ("--port", "65536"),
        ("--mode", "stream"),
        ("--endpoint", "dgram"),
        ("--wait", "sleep"),
    ] {
        refused(&["nodeb", flag, wrong]).says(&[flag]);
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    refused(&["nodeb", "-I", "10", "--duration", "1s"]).says(&["--duration"]);
    refused(&["nodeb", "--loopback"]).says(&["--loopback"]);
    refused(&["nodeb", "--persist"]).says(&["--persist"]);
    refused(&["nodeb", "--port", "0"]).says(&["--port 0"]);
    refused(&["--loopback", "--json", "--csv"]).says(&["--csv=FILE"]);
}

#[test]
fn a_core_that_is_not_there_is_refused_with_its_number() {
    for core in ["4095", "100000"] {
        pingpong().args(["--loopback", "--pin", core, "-I", "1", "-S", "8"]).ended().exits(2).says(&[core]);
    }
}

#[test]
fn a_server_refuses_report_flags_because_the_client_writes_the_report() {
    refused(&["--json=never-made.json"]).says(&["--json", "client"]);
    assert!(!std::path::Path::new("never-made.json").exists());
}

#[test]
fn a_dry_run_prints_the_plan_and_its_footprint_and_connects_to_nobody() {
    planned(&["-S", "1MiB", "-c", "-m", "tagged", "--seed", "7", "--warmup", "3", "--percentiles", "25"])
        .prints(&["tagged messages", "1 MiB", "verification: on", "seed: 7", "3 round trips", "25", "3 MiB"])
        .quickly(AT_ONCE);
    pingpong().args(["--loopback", "--dry-run", "--duration", "500ms"]).ended().exits(0).prints(&["500ms"]);
    pingpong().args(["--dry-run"]).ended().exits(0).prints(&["serve"]);
}

#[test]
fn help_and_version_go_to_standard_output_and_succeed() {
    for program in [pingpong, efa] {
        let help = program().arg("--help").ended().exits(0).prints(&["Usage:"]);
        assert!(help.stderr.is_empty(), "{}", help.told());
        program().arg("--version").ended().exits(0).prints(&[env!("CARGO_PKG_VERSION")]);
    }
    efa().args(["pingpong", "--help"]).ended().exits(0).prints(&["--loopback"]);
}

#[test]
fn efa_without_a_command_is_a_usage_error_that_shows_the_commands() {
    efa().ended().exits(2).says(&["pingpong"]);
    efa().arg("pingpang").ended().exits(2).says(&["pingpong"]);
}

#[test]
fn completions_are_printed_for_each_shell_and_program() {
    for shell in ["bash", "zsh", "fish"] {
        for binary in ["efa", "efa-pingpong"] {
            efa().args(["completions", shell, "--binary", binary]).ended().exits(0).prints(&[binary, "loopback"]);
        }
    }
    efa().args(["completions", "csh"]).ended().exits(2).says(&["csh"]);
}

#[test]
fn manual_pages_are_written_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    efa().args(["man", "--out"]).arg(folder.path()).ended().exits(0);
    let page = std::fs::read_to_string(folder.path().join("efa-pingpong.1")).unwrap();
    assert!(page.contains("efa\\-pingpong"), "{page}");
    efa().args(["man", "--out", "/proc/none"]).ended().exits(2).says(&["/proc/none"]);
}

#[test]
fn a_program_by_another_name_starts_the_server_of_a_loopback_run() {
    let folder = tempfile::tempdir().unwrap();
    for (program, other, words) in
        [(env!("CARGO_BIN_EXE_efa"), "fabric", &["pingpong"][..]), (env!("CARGO_BIN_EXE_efa-pingpong"), "efa", &[])]
    {
        let copy = folder.path().join(other);
        std::fs::copy(program, &copy).unwrap();
        let flags = ["--loopback", "-S", "8", "-I", "5", "--wait", "yield"];
        let run = crate::harness::program(&copy).args(words).args(flags).ended().exits(0);
        assert_eq!(run.rows().len(), 1, "{}", run.told());
    }
}

#[test]
fn the_program_efa_runs_the_same_ping_pong() {
    let run = efa().args(["pingpong", "--loopback", "-S", "8", "-I", "5", "--wait", "yield"]).ended().exits(0);
    assert_eq!(run.rows()[0][..2], ["8", "5"], "{}", run.told());
}
