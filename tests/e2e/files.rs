//! Report files: made before the run, whole at every moment, named when they cannot be written.

use std::os::unix::fs::PermissionsExt;

use crate::harness::{ENDLESS, QUICK, TCP, client, pingpong, report_at, server};

fn loopback() -> crate::harness::Run {
    pingpong().args(["--loopback", "-p", TCP]).args(QUICK)
}

#[test]
fn every_format_is_written_beside_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name| folder.path().join(name);
    let run = loopback()
        .args([format!("--json={}", file("run.json").display()), format!("--csv={}", file("run.csv").display())])
        .arg("--markdown")
        .arg(file("run.md"))
        .ended()
        .exits(0);
    assert_eq!(run.rows().len(), 1, "{}", run.told());
    assert_eq!(report_at(&file("run.json"))["outcome"]["status"], "complete");
    let csv = std::fs::read_to_string(file("run.csv")).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let markdown = std::fs::read_to_string(file("run.md")).unwrap();
    assert!(markdown.lines().any(|line| line.starts_with("| ") && line.contains("64")), "{markdown}");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "no temporary file is left: {names:?}");
}

#[test]
fn an_earlier_report_is_replaced_and_keeps_its_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    loopback().arg("--json").arg(&file).ended().exits(0);
    report_at(&file);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_cannot_be_made_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["/nosuch/run.json", "/proc/run.json", folder.path().to_str().unwrap()] {
        let run = loopback().arg(format!("--json={path}")).ended().exits(2).says(&[path]);
        assert!(run.rows().is_empty(), "{}", run.told());
        // A client says so before it waits for anybody.
        client(1).args([&format!("--csv={path}")]).ended().exits(2).says(&[path]);
    }
}

#[test]
fn the_file_is_a_whole_report_after_each_point() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let served = server().spawn();
    let flags = ["-S", "8,64", "--duration", "4s", "--warmup", "0", "--wait", "yield", "-v"];
    let run = client(served.port()).args(flags).arg("--json").arg(&file).spawn();
    run.line("size: 64");
    let report = report_at(&file);
    assert_eq!(report["outcome"]["status"], "partial");
    assert_eq!(report["points"].as_array().unwrap().len(), 1);
    run.ended().exits(0);
    assert_eq!(report_at(&file)["points"].as_array().unwrap().len(), 2);
}

#[test]
fn the_file_exists_while_nothing_is_measured_yet() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let run = client(listener.local_addr().unwrap().port()).args(ENDLESS).args(["-v"]).arg("--json").arg(&file).spawn();
    run.line("phase: control");
    assert!(file.exists());
    run.signal(rustix::process::Signal::INT);
    run.ended().exits(130);
    assert_eq!(report_at(&file)["outcome"]["status"], "failed");
}

#[test]
fn a_named_pipe_gets_the_report_and_one_without_a_reader_is_refused() {
    let Some(_) = crate::harness::tool("mkfifo") else { crate::skip!("`mkfifo` is not on PATH (package coreutils)") };
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("run.json");
    crate::harness::program("mkfifo").arg(&pipe).ended().exits(0);
    let to_pipe = || loopback().arg(format!("--json={}", pipe.display()));
    let run = to_pipe().ended().exits(2).says(&["run.json", "nobody reads"]);
    assert!(run.rows().is_empty(), "{}", run.told());
    // Opened for both directions, which waits for nobody.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    to_pipe().ended().exits(0);
    let mut bytes = vec![0; 1 << 16];
    let length = std::io::Read::read(&mut &reader, &mut bytes).unwrap();
    crate::harness::checked(std::str::from_utf8(&bytes[..length]).unwrap());
}

#[test]
fn two_formats_in_one_file_are_refused_however_it_is_spelt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.txt");
    let again = folder.path().join(".").join("run.txt");
    for second in [&file, &again] {
        loopback()
            .arg(format!("--json={}", file.display()))
            .arg(format!("--csv={}", second.display()))
            .ended()
            .exits(2)
            .says(&["run.txt"]);
    }
}
