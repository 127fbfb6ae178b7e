//! Two sides that were started differently, and servers that serve.

use crate::harness::{QUICK, SHM, TCP, checked, client, pingpong, server};

/// Starts a server with some flags and a client with others: both print each difference and exit with 2.
#[track_caller]
fn differ(server_flags: &[&str], client_flags: &[&str], texts: &[&str]) {
    let served = server().args(server_flags).spawn();
    let run = client(served.port()).args(client_flags).arg("--json").ended();
    let run = run.exits(2).says(&["started differently"]).says(texts);
    served.ended().exits(2).says(&["started differently"]).says(texts);
    assert_eq!(checked(&run.stdout)["outcome"]["status"], "failed");
}

#[test]
fn different_sizes_are_printed_on_both_sides() {
    differ(&["-S", "64"], &["-S", "128"], &["size: client 128, server 64"]);
}

#[test]
fn different_iterations_are_printed_on_both_sides() {
    differ(&["-I", "10"], &["-I", "20"], &["iterations: client 20, server 10"]);
    differ(&["-I", "10"], &["--duration", "1s"], &["iterations: client 1s, server 10"]);
}

#[test]
fn different_providers_are_printed_on_both_sides() {
    differ(&["-p", TCP], &["-p", SHM], &["provider: client shm, server tcp;ofi_rxm"]);
}

#[test]
fn different_verification_modes_seeds_and_warm_ups_are_printed_together() {
    let theirs = ["-c", "-m", "tagged", "--seed", "2", "--warmup", "7"];
    let texts = [
        "verification: client off, server on",
        "mode: client msg, server tagged",
        "seed: client 1, server 2",
        "warmup: client 9 round trips, server 7 round trips",
    ];
    differ(&theirs, &["--warmup", "9"], &texts);
}

#[test]
fn equal_flags_on_both_sides_are_no_difference() {
    let flags = ["-p", TCP, "-S", "64", "-I", "5", "-c", "-m", "tagged"];
    let served = server().args(flags).spawn();
    client(served.port()).args(flags).args(["--wait", "yield"]).ended().exits(0);
    served.ended().exits(0);
}

#[test]
fn a_server_without_flags_takes_the_clients_plan_and_prints_it() {
    let served = server().spawn();
    let flags = ["-p", TCP, "-S", "8,100", "-I", "5", "-c", "-m", "tagged", "--seed", "99", "--warmup", "3"];
    let run = client(served.port()).args(flags).args(["--wait", "yield"]).ended().exits(0);
    assert_eq!(run.rows().len(), 2, "{}", run.told());
    let texts = [
        "client 127.0.0.1:",
        "tagged messages",
        "sizes: 8, 100",
        "iterations of each size: 5",
        "verification: on",
        "seed: 99",
        "3 round trips",
        "chosen: provider tcp;ofi_rxm",
    ];
    served.ended().exits(0).says(&texts);
}

#[test]
fn a_server_serves_one_client_and_ends() {
    let served = server().spawn();
    client(served.port()).args(QUICK).ended().exits(0);
    let served = served.ended().exits(0);
    assert!(served.stdout.is_empty(), "what a server says is no result: {}", served.told());
}

#[test]
fn a_server_that_persists_serves_many_and_survives_one_that_fails() {
    let served = server().args(["--persist", "-p", TCP]).spawn();
    let port = served.port();
    client(port).args(QUICK).ended().exits(0);
    served.nth_line("waiting for the next client", 1);
    client(port).args(QUICK).args(["-p", SHM]).ended().exits(2).says(&["provider: client shm"]);
    served.nth_line("this client failed", 1);
    for round in 2..=3 {
        client(port).args(QUICK).ended().exits(0);
        served.nth_line("waiting for the next client", round);
    }
    served.signal(rustix::process::Signal::TERM);
    served.ended().exits(130);
}

#[test]
fn a_free_port_is_chosen_and_printed_with_the_clients_command_line() {
    let served = server().spawn();
    let port = served.port();
    assert_ne!(port, 0);
    served.line(&format!("efa-pingpong HOST --port {port}"));
    client(port).args(QUICK).ended().exits(0);
    served.ended().exits(0);
}

#[test]
fn fi_pingpongs_port_flags_mean_what_they_mean_there() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    let served = pingpong().args(["-B", &port]).spawn();
    served.line(&format!("listening on port {port} "));
    pingpong().args(["127.0.0.1", "-P", &port, "-e", "rdm"]).args(QUICK).ended().exits(0);
    served.ended().exits(0);
}
