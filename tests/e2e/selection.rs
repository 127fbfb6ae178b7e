//! Which provider carries the bytes: what was asked for, or a refusal that lists what there is.

use std::time::Duration;

use crate::harness::{QUICK, SHM, TCP, checked, client, pingpong, server};

/// Nobody is waited for: this is a matter of looking at the host.
const AT_ONCE: Duration = Duration::from_secs(30);

#[test]
fn misspelt_names_are_refused_with_the_valid_ones_nearest_first_on_either_side() {
    for (flags, texts) in [
        (&["-p", "smh"][..], ["provider 'smh'", "there is shm"]),
        (&["-p", "tcp;ofi_rmx"], ["provider 'tcp;ofi_rmx'", "there is tcp;ofi_rxm"]),
        (&["-p", SHM, "-f", "shn"], ["fabric 'shn'", "there is shm"]),
        (&["-p", TCP, "-d", "l0"], ["domain 'l0'", "there is lo"]),
    ] {
        server().args(flags).ended().exits(2).quickly(AT_ONCE).says(&texts);
        // Port 1 has no server: the name is refused before anybody is waited for.
        client(1).args(flags).ended().exits(2).quickly(AT_ONCE).says(&texts);
        pingpong().arg("--loopback").args(flags).ended().exits(2).quickly(AT_ONCE).says(&texts);
    }
}

#[test]
fn efa_on_a_host_without_it_is_refused_at_once_with_the_reason_on_either_side() {
    if std::path::Path::new("/sys/class/infiniband").exists() {
        crate::skip!("this host has RDMA devices, one of which may be EFA");
    }
    let texts = ["provider 'efa'", "EFA device", "/opt/amazon/efa"];
    for flags in [&["-p", "efa"][..], &["-p", "efa", "-f", "efa-direct"]] {
        server().args(flags).ended().exits(2).quickly(AT_ONCE).says(&texts);
        client(1).args(flags).ended().exits(2).quickly(AT_ONCE).says(&texts);
        pingpong().arg("--loopback").args(flags).ended().exits(2).quickly(AT_ONCE).says(&texts);
    }
}

#[test]
fn a_variable_that_leaves_no_provider_is_named_with_the_providers_there_are() {
    for value in ["efaa", "efaa,smh"] {
        let texts = ["FI_PROVIDER", value, "efa"];
        server().env("FI_PROVIDER", value).ended().exits(2).quickly(AT_ONCE).says(&texts);
        client(1).env("FI_PROVIDER", value).ended().exits(2).quickly(AT_ONCE).says(&texts);
        pingpong().arg("--loopback").env("FI_PROVIDER", value).ended().exits(2).quickly(AT_ONCE).says(&texts);
        // Asked for by name as well: the variable is what stands in the way.
        client(1).env("FI_PROVIDER", value).args(["-p", TCP]).ended().exits(2).says(&texts);
    }
}

#[test]
fn a_variable_that_leaves_only_what_has_to_be_asked_for_says_so() {
    let run = pingpong().arg("--loopback").args(QUICK).env("FI_PROVIDER", SHM).ended().exits(2);
    run.says(&["only when asked for with -p 'shm'"]);
    pingpong().arg("--loopback").args(QUICK).args(["-p", SHM]).env("FI_PROVIDER", SHM).ended().exits(0);
}

#[test]
fn the_default_is_tcp_where_there_is_no_efa_and_the_report_says_what_it_was() {
    if std::path::Path::new("/sys/class/infiniband").exists() {
        crate::skip!("this host has RDMA devices, one of which may be EFA");
    }
    let report = checked(&pingpong().arg("--loopback").args(QUICK).arg("--json").ended().exits(0).stdout);
    assert_eq!(report["run"]["provider"], TCP);
    assert_eq!(report["run"]["plan"]["provider"], TCP, "the plan that was agreed on names it");
    assert!(report["run"]["domain"].is_string() && report["run"]["fabric"].is_string());
    let local = report["run"]["addresses"]["local"]["fabric"].as_str().unwrap();
    assert!(local.starts_with("127.0.0.1:"), "{local}");
}

#[test]
fn names_are_taken_without_regard_to_case() {
    let report =
        checked(&pingpong().arg("--loopback").args(QUICK).args(["-p", "SHM", "--json"]).ended().exits(0).stdout);
    assert_eq!(report["run"]["provider"], SHM);
}

#[test]
fn a_server_with_a_provider_gives_it_to_a_client_without() {
    for provider in [TCP, SHM] {
        let served = server().args(["-p", provider]).spawn();
        let report = checked(&client(served.port()).args(QUICK).arg("--json").ended().exits(0).stdout);
        assert_eq!(report["run"]["provider"], provider);
        served.ended().exits(0);
    }
}

#[test]
fn a_source_address_of_this_host_is_where_data_and_control_are_bound() {
    let report =
        checked(&pingpong().arg("--loopback").args(QUICK).args(["-s", "127.0.0.3", "--json"]).ended().exits(0).stdout);
    for (side, kind) in [("local", "fabric"), ("peer", "fabric"), ("local", "control"), ("peer", "control")] {
        let address = report["run"]["addresses"][side][kind].as_str().unwrap();
        assert!(address.starts_with("127.0.0."), "{side} {kind}: {address}");
    }
    pingpong().args(["--loopback", "-s", "203.0.113.7"]).ended().exits(2).says(&["203.0.113.7"]);
}

#[test]
fn unknown_and_loud_variables_are_warned_of() {
    let run = pingpong()
        .arg("--loopback")
        .args(QUICK)
        .arg("--json")
        .env("FI_EFA_DEVICE_NAME", "rdmap0s6")
        .env("FI_LOG_LEVEL", "debug")
        .env("SECRET_TOKEN", "do-not-tell")
        .ended()
        .exits(0);
    assert!(!run.stdout.contains("do-not-tell"), "variables are on an allow-list");
    let report = checked(&run.stdout);
    let text = |id: &str| -> String {
        let all = report["warnings"].as_array().unwrap();
        all.iter().filter(|w| w["id"] == id).map(|w| w["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
    };
    assert!(text("unknown-variable").contains("FI_EFA_DEVICE_NAME"), "{report}");
    assert!(text("log-level").contains("FI_LOG_LEVEL=debug"), "{report}");
    assert_eq!(report["environment"]["local"]["variables"]["FI_LOG_LEVEL"], "debug");
}
