//! Which libfabric runs: the one that the loader finds first, said with its path, or refused.

use std::path::Path;
use std::process::Command;

use crate::harness::{QUICK, Run, TCP, checked, client, new_libfabric, pingpong, server, shared_library, tool};
use crate::skip;

#[test]
fn a_second_libfabric_first_on_the_path_is_named_with_its_version_and_file() {
    let Some(folder) = new_libfabric() else { skip!("`cargo xtask libfabric` has not fetched the other library") };
    let run = pingpong().arg("--loopback").args(QUICK).args(["-p", TCP, "--json"]).env("LD_LIBRARY_PATH", &folder);
    let report = checked(&run.ended().exits(0).stdout);
    for side in ["local", "peer"] {
        let library = &report["run"]["sides"][side]["libfabric"];
        assert_eq!(library["run_version"], "2.5.1", "{library}");
        assert_ne!(library["build_version"], "", "{library}");
        let file = folder.join("libfabric.so.1").canonicalize().unwrap();
        assert_eq!(library["path"], file.to_str().unwrap(), "{library}");
    }
    assert_eq!(
        report["environment"]["local"]["variables"]["LD_LIBRARY_PATH"],
        folder.to_str().unwrap(),
        "what made the loader find it"
    );
}

#[test]
fn two_sides_with_different_libfabrics_say_so_and_work() {
    let Some(folder) = new_libfabric() else { skip!("`cargo xtask libfabric` has not fetched the other library") };
    let old = |run: Run| run.without_env("LD_LIBRARY_PATH");
    let new = |run: Run| run.env("LD_LIBRARY_PATH", &folder);
    for server_is_new in [false, true] {
        let (of_server, of_client): (&dyn Fn(Run) -> Run, &dyn Fn(Run) -> Run) =
            if server_is_new { (&new, &old) } else { (&old, &new) };
        let served = of_server(server()).spawn();
        let flags = ["-p", TCP, "-c", "-S", "8,64KiB", "-I", "10", "--wait", "yield", "--json"];
        let one = of_client(client(served.port()).args(flags));
        let ended = one.ended().exits(0).says(&["libfabric version: ", "2.5"]);
        let report = checked(&ended.stdout);
        let warned = report["warnings"].as_array().unwrap().iter().any(|w| w["id"] == "versions-differ");
        assert!(warned, "{report}");
        served.ended().exits(0).says(&["libfabric version: "]);
    }
}

/// A library with the symbols that the program asks for, of a release long before its headers.
fn old_library(folder: &Path) -> Option<()> {
    let symbols = Command::new(tool("nm")?).args(["-D", env!("CARGO_BIN_EXE_efa-pingpong")]).output().ok()?;
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let mut code = String::new();
    let mut versions = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for line in symbols.lines() {
        let Some((name, version)) = line.trim().strip_prefix("U ").and_then(|s| s.split_once('@')) else { continue };
        if name.starts_with("fi_") {
            let answer = if name == "fi_version" { "(1 << 16) | 5" } else { "-38" };
            code.push_str(&format!("unsigned {name}() {{ return {answer}; }}\n"));
            versions.entry(version).or_default().push(name);
        }
    }
    let script: String =
        versions.iter().map(|(version, names)| format!("{version} {{ global: {}; }};\n", names.join("; "))).collect();
    let map = folder.join("versions");
    std::fs::write(&map, script).unwrap();
    let map = format!("-Wl,--version-script={}", map.display());
    shared_library(folder, "libfabric.so.1", &code, &["-Wl,-soname,libfabric.so.1", &map, "-w"]).map(|_| ())
}

#[test]
fn a_libfabric_older_than_the_headers_is_refused_with_both_versions_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = old_library(folder.path()) else { skip!("no C compiler or `nm` on PATH") };
    let old = |run: Run| run.env("LD_LIBRARY_PATH", folder.path());
    let file = folder.path().join("libfabric.so.1");
    let texts = ["1.5", efa_sys_version(), file.to_str().unwrap()];
    old(server()).ended().exits(2).says(&texts);
    old(pingpong().arg("--loopback")).ended().exits(2).says(&texts);
    let run = old(client(1).arg("--json")).ended().exits(2).says(&texts);
    assert_eq!(checked(&run.stdout)["outcome"]["status"], "failed");
}

fn efa_sys_version() -> &'static str {
    let release = efa_sys::BUILD_VERSION;
    release.rsplit_once('.').map_or(release, |(major_minor, _)| major_minor)
}

#[test]
fn the_tests_run_with_the_library_that_they_were_told() {
    let Ok(told) = std::env::var("EFA_TEST_LIBFABRIC") else { skip!("EFA_TEST_LIBFABRIC is not set") };
    let run = pingpong().arg("--loopback").args(QUICK).args(["-p", TCP, "--json"]).ended().exits(0);
    let report = checked(&run.stdout);
    let library = &report["run"]["sides"]["local"]["libfabric"];
    if told == "system" {
        // What the program was linked with is what the system has.
        assert_eq!(library["run_version"], library["build_version"], "{library}");
    } else {
        assert_eq!(library["run_version"], told.as_str(), "{library}");
    }
}
