//! The peer lives but says nothing: every wait ends with the time-out, and its text says what was silent.

use std::net::TcpListener;
use std::time::Duration;

use efa::bench::control::Listener;
use rustix::process::Signal;

use crate::harness::{DEADLINE, ENDLESS, Fake, QUICK, Raw, SHM, SOON, Step, TCP, checked, client, pingpong, server};

/// The time-out of the runs here; the load may stretch what comes around it.
const TIMEOUT: &str = "2s";
/// A silent peer is noticed by then.
const NOTICED: Duration = Duration::from_secs(30);

#[test]
fn a_client_without_a_server_gives_up_at_the_connect_timeout_and_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let run = client(port).args(["--connect-timeout", "1s", "--json"]).ended().exits(2).quickly(NOTICED);
    assert!(run.took >= Duration::from_secs(1) - Duration::from_millis(200), "{:?}", run.took);
    let run = run.says(&["phase control", &format!("127.0.0.1:{port}"), "refused", "--port"]);
    let report = checked(&run.stdout);
    assert_eq!(report["outcome"]["status"], "failed");
    assert_eq!(report["points"].as_array().unwrap().len(), 0);
}

#[test]
fn a_client_that_comes_first_waits_for_its_server() {
    // A port that was free a moment ago; the server takes it when the client has been refused at least once.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let run = client(port).args(QUICK).args(["-v", "--connect-timeout", "60s"]).spawn();
    run.line("phase: control");
    let served = pingpong().args(["--port", &port.to_string()]).spawn();
    run.ended().exits(0);
    served.ended().exits(0);
}

#[test]
fn a_server_that_never_greets_is_given_up_at_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let run = client(port).args(["--connect-timeout", TIMEOUT]).spawn();
    let _silent = listener.accept().unwrap();
    run.ended_within(NOTICED).fails().says(&["phase control", "greeting"]);
}

#[test]
fn a_client_whose_server_falls_silent_at_any_step_ends_at_the_timeout() {
    for step in Step::ALL {
        let mut listener = Listener::bind(Some([127, 0, 0, 1].into()), 0, false).unwrap();
        let flags = ["-p", TCP, "--timeout", TIMEOUT, "--json"];
        let run = client(listener.local_addr().port()).args(QUICK).args(flags).spawn();
        let fake = Fake::server(&mut listener, step);
        let run = run.ended_within(NOTICED).exits(3).says(&["phase"]);
        assert_eq!(checked(&run.stdout)["outcome"]["status"], "failed", "{step:?}");
        if step == Step::Batch {
            // The control connection lives and no data comes: what a firewall between the data ports does.
            let texts = ["control connected, no data completion in 2", TCP, "127.0.0.1", "firewall"];
            let run = run.says(&texts);
            let reason = fake.abort();
            assert!(reason.contains("no data completion"), "{reason}: {}", run.told());
        }
    }
}

#[test]
fn a_server_whose_client_falls_silent_at_any_step_ends_by_itself() {
    for step in [Step::Hello, Step::Accept, Step::Address, Step::Batch] {
        let served = server().spawn();
        let flags = ["-p", TCP, "-S", "64", "--timeout", TIMEOUT];
        let fake = Fake::client(served.port(), step, &flags);
        served.ended_within(NOTICED).exits(3).says(&["phase"]);
        drop(fake);
    }
}

fn stopped_peer(provider: &str, stop_server: bool) {
    let served = server().arg("-v").spawn();
    let flags = ["-p", provider, "-v", "--timeout", TIMEOUT, "--json"];
    let run = client(served.port()).args(ENDLESS).args(flags).spawn();
    run.line("phase: measure");
    let (stopped, living) = if stop_server { (served, run) } else { (run, served) };
    stopped.signal(Signal::STOP);
    // A server that waits for its client's next batch is more patient: the client may be writing its files.
    let living = living.ended_within(NOTICED + Duration::from_secs(30)).exits(3).says(&["phase", " in "]);
    if stop_server {
        assert_eq!(checked(&living.stdout)["outcome"]["status"], "partial");
    }
    // It wakes up alone, and ends as well.
    stopped.signal(Signal::CONT);
    stopped.ended_within(NOTICED).fails();
}

#[test]
fn a_client_whose_server_is_stopped_ends_at_the_timeout_over_tcp() {
    stopped_peer(TCP, true);
}

#[test]
fn a_client_whose_server_is_stopped_ends_at_the_timeout_over_shm() {
    stopped_peer(SHM, true);
}

#[test]
fn a_server_whose_client_is_stopped_ends_at_the_timeout_over_tcp() {
    stopped_peer(TCP, false);
}

#[test]
fn a_stopped_server_that_wakes_within_the_timeout_goes_on() {
    let served = server().arg("-v").spawn();
    let flags = ["-S", "64", "--duration", "1s", "--wait", "yield", "-v", "--timeout", "60s", "-p", TCP];
    let run = client(served.port()).args(flags).spawn();
    run.line("phase: measure");
    served.signal(Signal::STOP);
    // Ten looks of another process at the connection, each answered by the kernel alone.
    for _ in 0..10 {
        drop(Raw::connect(served.port()));
    }
    served.signal(Signal::CONT);
    run.ended_within(DEADLINE).exits(0);
    served.ended_within(SOON * 3).exits(0);
}
