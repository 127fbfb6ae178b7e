//! The control port is open to anybody: whoever speaks something else is dropped with one line.

use std::io::Write;

use efa::bench::control::Message;

use crate::harness::{Fake, QUICK, Raw, Step, TCP, client, greeting_of_protocol, listens, pingpong, server};

#[test]
fn strangers_are_dropped_one_line_each_and_a_client_is_served_meanwhile() {
    let served = server().spawn();
    let port = served.port();
    // It says nothing at all, and is still connected when the client comes.
    let silent = Raw::connect(port);
    let http = Raw::connect(port).say(b"GET / HTTP/1.1\r\nHost: nodeb\r\n\r\n");
    let random = Raw::connect(port).say(&(0..=255).map(|i: u8| i.wrapping_mul(167) ^ 0x5a).collect::<Vec<_>>());
    let giant = Raw::connect(port).say(&u32::MAX.to_le_bytes());
    let empty = Raw::connect(port).say(&0_u32.to_le_bytes());
    let short = Raw::connect(port).say(&[8, 0, 0, 0, b'E', b'F', b'A', b'B', 1, 0, 200, 1]);
    for (stranger, said) in [(http, "GET / HTTP"), (random, ""), (giant, "4294967295"), (empty, ""), (short, "")] {
        let from = stranger.0.local_addr().unwrap().to_string();
        assert!(stranger.answer().is_empty(), "a stranger is told nothing");
        let line = served.line(&format!("dropped {from}"));
        assert!(line.contains(said), "{line}");
    }
    let run = client(port).args(QUICK).ended().exits(0);
    assert_eq!(run.rows().len(), 1, "{}", run.told());
    let served = served.ended().exits(0);
    assert!(served.stderr.lines().all(|line| line.len() < 400), "{}", served.told());
    drop(silent);
}

#[test]
fn a_silent_stranger_is_dropped_after_its_time() {
    let served = server().spawn();
    let silent = Raw::connect(served.port());
    served.line("said nothing");
    assert!(silent.answer().is_empty());
    client(served.port()).args(QUICK).ended().exits(0);
    served.ended().exits(0);
}

#[test]
fn a_stranger_that_drips_bytes_is_dropped_all_the_same() {
    let served = server().spawn();
    let mut dripping = Raw::connect(served.port());
    // A frame that would be complete after a minute.
    let _ = dripping.0.write_all(&1000_u32.to_le_bytes());
    let _ = dripping.0.write_all(b"EFAB");
    let from = dripping.0.local_addr().unwrap().to_string();
    served.line(&format!("dropped {from}"));
    drop(dripping);
    client(served.port()).args(QUICK).ended().exits(0);
    served.ended().exits(0);
}

#[test]
fn a_crowd_of_strangers_does_not_keep_the_client_out() {
    let served = server().spawn();
    let crowd: Vec<Raw> = (0..100).map(|_| Raw::connect(served.port())).collect();
    client(served.port()).args(QUICK).ended().exits(0);
    served.ended().exits(0);
    drop(crowd);
}

#[test]
fn another_protocol_version_is_named_on_both_sides() {
    let served = server().spawn();
    let answer = Raw::connect(served.port()).say(&greeting_of_protocol(900)).answer();
    assert!(answer.windows(4).any(|w| w == b"EFAB"), "the server greets, so that the other can say its version");
    served.line("version 9.9.9 (protocol 900)");
    client(served.port()).args(QUICK).ended().exits(0);
    served.ended().exits(0);

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let run = client(listener.local_addr().unwrap().port()).spawn();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&greeting_of_protocol(900)).unwrap();
    run.ended().exits(2).says(&["version 9.9.9 (protocol 900)", env!("CARGO_PKG_VERSION"), "install the same"]);
}

#[test]
fn a_client_of_something_else_than_a_server_says_what_it_found() {
    for (answer, shown) in [(&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "SSH-2.0"), (&[0xff; 64], "")] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let run = client(listener.local_addr().unwrap().port()).args(["--connect-timeout", "5s"]).spawn();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(answer).unwrap();
        run.ended().exits(2).says(&["is no server of this tool", shown]);
    }
}

#[test]
fn nonsense_after_the_greeting_ends_the_session_and_names_it() {
    let served = server().arg("--persist").spawn();
    let port = served.port();
    let mut out_of_turn = Fake::client(port, Step::Hello, &[]);
    out_of_turn.send(Message::Ready);
    let line = served.nth_line("this client failed", 1);
    assert!(line.contains("expected Plan") && line.contains("got Ready"), "{line}");
    assert!(out_of_turn.abort().contains("expected Plan"), "the client is told");

    // Values that no command line makes.
    let mut broken = Fake::client(port, Step::Hello, &[]);
    broken.send_plan(|plan| plan.sizes.clear());
    assert!(served.nth_line("this client failed", 2).contains("sizes are empty"));
    let mut vast = Fake::client(port, Step::Hello, &[]);
    vast.send_plan(|plan| plan.sizes = vec![1 << 62]);
    assert!(served.nth_line("this client failed", 3).contains("available"));
    drop((broken, vast));

    client(port).args(QUICK).args(["-p", TCP]).ended().exits(0);
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let served = server().spawn();
    let port = served.port();
    let first = client(port).args(["-S", "64", "--duration", "4s", "--wait", "yield", "-v"]).spawn();
    first.line("phase: measure");
    client(port).args(QUICK).ended().exits(2).says(&["busy with", "try again"]);
    first.ended().exits(0);
    served.ended().exits(0);
}

#[test]
fn a_port_in_use_is_named_with_port_0_as_the_way_out() {
    let served = server().spawn();
    let port = served.port();
    pingpong().args(["--port", &port.to_string()]).ended().exits(2).says(&[&port.to_string(), "in use", "--port 0"]);
    client(port).args(QUICK).ended().exits(0);
    served.ended().exits(0);
    assert!(!listens(port), "the port is free again");
}
