//! The peer dies: at whichever step, the other side ends soon, says in which phase, and keeps what it has.

use efa::bench::control::Listener;
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    ENDLESS, Fake, QUICK, Raw, SHM, SOON, Step, TCP, checked, client, report_at, server, shm_files_of,
};

fn listener() -> Listener {
    Listener::bind(Some([127, 0, 0, 1].into()), 0, false).expect("a free port")
}

#[test]
fn a_client_whose_server_vanishes_at_any_step_ends_soon_with_a_report() {
    for step in Step::ALL {
        let mut listener = listener();
        let flags = ["-p", TCP, "--json", "--timeout", "60s"];
        let run = client(listener.local_addr().port()).args(QUICK).args(flags).spawn();
        let fake = Fake::server(&mut listener, step);
        drop(fake);
        let run = run.ended_within(SOON).exits(3).says(&["phase", "is gone"]);
        let report = checked(&run.stdout);
        assert_eq!(report["outcome"]["status"], "failed", "{step:?}");
        assert!(report["outcome"]["reason"].as_str().unwrap().contains("phase"), "{step:?}: {report}");
    }
}

#[test]
fn a_server_whose_client_vanishes_at_any_step_ends_soon() {
    for step in Step::ALL {
        let served = server().spawn();
        let fake = Fake::client(served.port(), step, &["-p", TCP, "-S", "64", "--timeout", "60s"]);
        drop(fake);
        served.ended_within(SOON).exits(3).says(&["phase", "is gone"]);
    }
}

#[test]
fn a_client_whose_server_vanishes_before_greeting_tries_again_until_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let run = client(listener.local_addr().unwrap().port()).args(["--connect-timeout", "2s", "--json"]).spawn();
    drop(listener.accept().unwrap());
    drop(listener);
    let run = run.ended_within(2 * SOON).exits(2).says(&["cannot reach the server", "127.0.0.1"]);
    assert_eq!(checked(&run.stdout)["outcome"]["status"], "failed");
}

#[test]
fn a_client_that_vanishes_before_greeting_is_forgotten_and_the_next_is_served() {
    let served = server().spawn();
    drop(Raw::connect(served.port()));
    served.line("dropped");
    client(served.port()).args(QUICK).ended().exits(0);
    served.ended().exits(0);
}

fn kill_the_server(provider: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let served = server().arg("-v").spawn();
    // The first size ends, so that there is something to keep; the second does not within the time it takes.
    let flags = ["-p", provider, "-v", "--timeout", "60s", "-S", "8,64", "--duration", "3s", "--wait", "yield"];
    let run = client(served.port()).args(flags).arg("--json").arg(&file).spawn();
    run.line("size: 64");
    served.signal(Signal::KILL);
    run.ended_within(SOON).exits(3).says(&["phase", "is gone"]);
    let report = report_at(&file);
    assert_eq!(report["outcome"]["status"], "partial", "{report}");
    assert_eq!(report["points"][0]["size_bytes"], 8);
    assert_eq!(shm_files_of(served.id()), Vec::<String>::new(), "the client removes what its server could not");
}

#[test]
fn the_client_ends_soon_after_its_server_is_killed_over_tcp() {
    kill_the_server(TCP);
}

#[test]
fn the_client_ends_soon_after_its_server_is_killed_over_shm() {
    kill_the_server(SHM);
}

fn kill_the_client(provider: &str) {
    let served = server().arg("-v").spawn();
    let run = client(served.port()).args(ENDLESS).args(["-p", provider, "-v", "--timeout", "60s"]).spawn();
    run.line("phase: measure");
    served.line("phase: measure");
    let (ours, theirs) = (served.id(), run.id());
    run.signal(Signal::KILL);
    served.ended_within(SOON).exits(3).says(&["phase measure", "is gone"]);
    assert_eq!(shm_files_of(ours), Vec::<String>::new(), "the server lives to remove its own");
    assert_eq!(shm_files_of(theirs), Vec::<String>::new(), "the server removes what its client could not");
    drop(run);
}

#[test]
fn the_server_ends_soon_after_its_client_is_killed_over_tcp() {
    kill_the_client(TCP);
}

#[test]
fn the_server_ends_soon_after_its_client_is_killed_over_shm() {
    kill_the_client(SHM);
}

#[test]
fn a_side_killed_in_any_phase_ends_the_other() {
    // The phases as they are announced; the kill lands in it or shortly after.
    for phase in ["handshake", "fabric open", "addresses", "first message", "warm-up"] {
        for kill_server in [true, false] {
            let served = server().arg("-v").spawn();
            let run = client(served.port()).args(ENDLESS).args(["-v", "-p", TCP, "--json"]).spawn();
            run.line(&format!("phase: {phase}"));
            let (dead, living) = if kill_server { (served, run) } else { (run, served) };
            dead.signal(Signal::KILL);
            let living = living.ended_within(SOON).exits(3).says(&["is gone"]);
            if kill_server {
                assert_ne!(checked(&living.stdout)["outcome"]["status"], Value::from("complete"), "{phase}");
            }
        }
    }
}

#[test]
fn a_server_that_persists_outlives_clients_that_die() {
    let served = server().args(["--persist", "-v"]).spawn();
    let port = served.port();
    for (count, step) in [Step::Hello, Step::Accept, Step::Batch].into_iter().enumerate() {
        drop(Fake::client(port, step, &["-p", TCP, "-S", "64"]));
        served.nth_line("this client failed", count + 1);
    }
    let run = client(port).args(ENDLESS).args(["-v", "-p", TCP]).spawn();
    run.line("phase: measure");
    run.signal(Signal::KILL);
    served.nth_line("this client failed", 4);
    client(port).args(QUICK).ended().exits(0);
    served.signal(Signal::INT);
    served.ended().exits(130);
}
