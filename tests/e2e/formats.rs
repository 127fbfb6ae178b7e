//! What is printed: one strict document or a table, whatever the locale, the reader or the ending.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{QUICK, TCP, checked, client, pingpong, program, server};

fn loopback() -> crate::harness::Run {
    pingpong().args(["--loopback", "-p", TCP]).args(QUICK)
}

#[test]
fn the_table_has_the_columns_people_know_and_a_row_for_each_size() {
    let run = loopback().args(["--percentiles", "25,99.99"]).ended().exits(0);
    let heading = run.stdout.lines().filter(|l| l.starts_with('#')).find(|l| l.contains("MB/s")).unwrap();
    for name in ["bytes", "iterations", "MB/s", "usec", "min", "p50", "p99", "p99.9", "max", "Gbit/s", "p25", "p99.99"]
    {
        assert!(heading.split_whitespace().any(|word| word.trim_start_matches('#') == name), "{name}: {heading}");
    }
    let rows = run.rows();
    assert_eq!((rows.len(), rows[0].len()), (1, 12), "{}", run.told());
    for cell in &rows[0] {
        cell.parse::<f64>().unwrap_or_else(|_| panic!("{cell} in {}", run.told()));
    }
    run.prints(&[
        "provider   tcp;ofi_rxm",
        "libfabric",
        "domain",
        "intra-node",
        "first message, not in the table",
        "complete",
    ]);
}

#[test]
fn json_is_one_document_that_holds_all_that_a_run_is_made_of() {
    let report = checked(&loopback().args(["--json", "--percentiles", "25"]).ended().exits(0).stdout);
    for (pointer, expected) in [
        ("/schema", "efa-report/1"),
        ("/outcome/status", "complete"),
        ("/run/provider", TCP),
        ("/run/wait", "yield"),
        ("/run/sides/local/role", "client"),
        ("/run/sides/peer/role", "server"),
    ] {
        assert_eq!(report.pointer(pointer).and_then(|v| v.as_str()), Some(expected), "{pointer}: {report}");
    }
    for pointer in [
        "/run/fabric",
        "/run/domain",
        "/run/plan/seed",
        "/run/clock/overhead_ns",
        "/run/addresses/local/fabric",
        "/run/addresses/peer/control",
        "/run/sides/local/libfabric/path",
        "/run/sides/peer/libfabric/run_version",
        "/environment/local/kernel",
        "/environment/peer/host",
        "/points/0/half_rtt_ns/p999",
        "/points/0/histogram",
        "/points/0/percentiles_ns/25",
        "/points/0/first_message_ns",
        "/points/0/bytes_per_sec",
    ] {
        assert!(report.pointer(pointer).is_some_and(|v| !v.is_null()), "{pointer}: {report}");
    }
    assert_eq!(report["run"]["intra_node"], true);
    let ids: Vec<_> = report["warnings"].as_array().unwrap().iter().map(|w| w["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"intra-node"), "{ids:?}");
    assert_eq!(ids.contains(&"debug-build"), cfg!(debug_assertions), "{ids:?}");
}

#[test]
fn the_statistics_are_of_the_measured_round_trips_alone() {
    let report = checked(&loopback().arg("--json").ended().exits(0).stdout);
    let point = &report["points"][0];
    let text = point["histogram"].as_str().unwrap();
    let histogram = efa::bench::report::decode_histogram(text).unwrap();
    assert_eq!((point["iterations"].as_u64(), histogram.len()), (Some(20), 20), "first message and warm-up are apart");
    let half = &point["half_rtt_ns"];
    let [min, p50, max] = ["min", "p50", "max"].map(|name| half[name].as_f64().unwrap());
    assert!(0.0 < min && min <= p50 && p50 <= max, "{half}");
}

#[test]
fn a_duration_ends_each_size_by_time() {
    let flags = ["--loopback", "-p", TCP, "-S", "8,64", "--duration", "300ms", "--warmup", "10ms", "--wait", "yield"];
    let report = checked(&pingpong().args(flags).arg("--json").ended().exits(0).stdout);
    for point in report["points"].as_array().unwrap() {
        assert_eq!(point["ended_by"], "time");
        assert!(point["iterations"].as_u64().unwrap() > 0);
    }
}

#[test]
fn figures_have_a_point_in_every_locale() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("run.csv");
    let run = loopback()
        .env("LC_ALL", "de_DE.UTF-8")
        .env("LC_NUMERIC", "de_DE.UTF-8")
        .env("LANG", "de_DE.UTF-8")
        .args(["--csv", csv.to_str().unwrap()])
        .ended()
        .exits(0);
    assert!(run.rows()[0][3].contains('.') && !run.rows()[0].concat().contains(','), "{}", run.told());
    let text = std::fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert_eq!(lines.next().unwrap().split(',').count(), columns, "{text}");
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    // `head -1`: takes one line and goes.
    let run = pingpong()
        .args(["--loopback", "-p", TCP, "-S", "8..64KiB", "-I", "50", "--wait", "yield"])
        .through_shell(r#"{ "$@"; echo "status $?" >&2; } | head -1"#)
        .ended()
        .exits(0)
        .says(&["status 0"]);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.told());
    assert!(!run.stderr.contains("anic") && !run.stderr.contains("roken"), "{}", run.told());

    let (mut reader, writer) = std::io::pipe().unwrap();
    let run = loopback().stdout(Stdio::from(writer)).spawn();
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    drop(reader);
    let run = run.ended().exits(0);
    assert!(run.stderr.is_empty(), "{}", run.told());
}

#[test]
fn a_json_report_whose_reader_left_ends_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = loopback().arg("--json").stdout(Stdio::from(writer)).ended().exits(0);
    assert!(!run.stderr.contains("anic"), "{}", run.told());
    for flags in [["--help"], ["--dry-run"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        pingpong().args(flags).stdout(Stdio::from(writer)).ended().exits(0);
    }
}

#[test]
fn a_closed_standard_output_or_error_is_no_reason_to_crash() {
    let run = loopback().through_shell(r#"exec "$@" >&-"#).ended();
    assert!(!run.stderr.contains("anic"), "{}", run.told());
    let run = loopback().through_shell(r#"exec "$@" 2>&-"#).ended().exits(0);
    assert_eq!(run.rows().len(), 1, "{}", run.told());
    let run = loopback().through_shell(r#"exec "$@" <&-"#).ended().exits(0);
    assert_eq!(run.rows().len(), 1, "{}", run.told());
}

#[test]
fn a_full_disk_is_said() {
    let run = loopback().stdout(Stdio::from(std::fs::File::create("/dev/full").unwrap())).ended();
    run.fails().says(&["No space left"]);
    let run = loopback().args(["--json=/dev/full"]).ended();
    run.fails().says(&["/dev/full", "No space left"]);
}

#[test]
fn nothing_but_the_result_is_on_standard_output() {
    for flag in ["--json", "--csv", "--markdown"] {
        let served = server().arg("-v").spawn();
        let run = client(served.port()).args(QUICK).args(["-v", flag]).ended().exits(0);
        served.ended().exits(0);
        match flag {
            "--json" => drop(checked(&run.stdout)),
            "--csv" => assert!(run.stdout.lines().count() == 2, "{}", run.told()),
            _ => assert!(run.stdout.contains('|') && !run.stdout.contains("phase:"), "{}", run.told()),
        }
    }
}

#[test]
fn offers_that_were_not_taken_are_said_when_verbose() {
    let quiet = loopback().ended().exits(0);
    assert!(quiet.stderr.is_empty(), "{}", quiet.told());
    pingpong()
        .arg("--loopback")
        .args(QUICK)
        .arg("-v")
        .ended()
        .exits(0)
        .says(&["\nnot ", ", and the route to the peer leaves from 127.0.0.1"]);
}

#[test]
fn a_row_is_printed_as_soon_as_its_size_is_done() {
    let flags = ["-S", "8,64", "--duration", "1s", "--wait", "yield", "--warmup", "0", "-p", TCP];
    let run = pingpong().arg("--loopback").args(flags).arg("-v").spawn();
    run.line("size: 64");
    run.out_line("         8 ");
    run.ended().exits(0);
}

#[test]
fn an_error_before_anything_is_still_one_json_document() {
    for flags in [["-p", "nosuch"], ["--pin", "4000"], ["-S", "1000000GiB"]] {
        let served = server().spawn();
        let run = client(served.port()).args(flags).arg("--json").ended().exits(2);
        let report = checked(&run.stdout);
        assert_eq!(report["outcome"]["status"], "failed");
        assert!(!report["outcome"]["reason"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_loopback_run_whose_server_cannot_start_still_writes_its_report() {
    let run =
        pingpong().args(["--loopback", "--json", "-p", "nosuch"]).ended().exits(2).quickly(Duration::from_secs(40));
    let report = checked(&run.stdout);
    assert_eq!(report["outcome"]["status"], "failed");
}

#[test]
fn a_line_reader_gets_whole_lines() {
    let (reader, writer) = std::io::pipe().unwrap();
    let run = loopback().stdout(Stdio::from(writer)).spawn();
    let lines: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    run.ended().exits(0);
    assert!(lines.iter().all(|line| !line.is_empty()));
}

#[test]
fn other_programs_can_read_the_json() {
    let Some(python) = crate::harness::tool("python3") else {
        crate::skip!("python3 is not on PATH");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    loopback().arg("--json").arg(&file).ended().exits(0);
    let code =
        "import json,sys; d=json.load(open(sys.argv[1]), parse_constant=lambda c: sys.exit(c)); print(d['schema'])";
    program(python).args(["-c", code]).arg(&file).ended().exits(0).prints(&["efa-report/1"]);
}
