//! The control connection between real sockets, with strangers, silence and death on the other side.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use efa_bench::control::{
    Control, ControlError, Counts, Hello, Listener, Message, Refusal, Stop, Target, connect, encode, loopback_note,
};
use efa_bench::environment::Environment;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn hello(version: &str) -> Hello {
    let mut hello = Hello::new("1.17.0", "2.5.1", "/usr/lib/libfabric.so.1", &Environment::default());
    hello.tool_version = version.into();
    hello
}

/// A deadline that no passing test comes near.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn target(host: &str, port: u16) -> Target<'_> {
    Target { host, port, local: None, local_port: 0, ipv6_only: false }
}

fn listener() -> Listener {
    Listener::bind(Some(LOCALHOST), 0, false).unwrap()
}

fn accept(listener: &mut Listener, strangers: &mut Vec<String>) -> Result<Control, ControlError> {
    let mut note = |_: SocketAddr, why: &str| strangers.push(why.into());
    listener.accept(&hello("1.0.0"), Some(soon()), &Stop::new(), &mut note)
}

/// Listens until `count` strangers were dropped, and returns the line of each.
fn strangers(listener: &mut Listener, count: usize) -> Vec<String> {
    let stop = Stop::new();
    let mut lines = Vec::new();
    let mut note = |_: SocketAddr, why: &str| {
        lines.push(why.to_owned());
        if lines.len() == count {
            stop.request();
        }
    };
    let end = listener.accept(&hello("1.0.0"), Some(soon()), &stop, &mut note);
    assert!(matches!(end, Err(ControlError::Interrupted)), "{end:?}");
    lines
}

fn dial(port: u16) -> Result<Control, ControlError> {
    let target = target("127.0.0.1", port);
    connect(&target, &hello("1.0.0"), soon(), &Stop::new())
}

/// The server's and the client's end of one connection.
fn pair() -> (Control, Control) {
    let mut listener = listener();
    let port = listener.local_addr().port();
    let client = thread::spawn(move || dial(port).unwrap());
    let server = accept(&mut listener, &mut Vec::new()).unwrap();
    (server, client.join().unwrap())
}

/// A greeting as another version of this tool would send it.
fn foreign_greeting(protocol: u16, version: &str) -> Vec<u8> {
    let mut content = b"EFAB".to_vec();
    content.extend_from_slice(&protocol.to_le_bytes());
    content.push(version.len() as u8);
    content.extend_from_slice(version.as_bytes());
    content.extend_from_slice(b"whatever that version says of itself");
    encode(&content).unwrap()
}

#[test]
fn two_sides_greet_and_agree() {
    let mut listener = listener();
    let port = listener.local_addr().port();
    let client = thread::spawn(move || {
        let mut control = connect(&target("127.0.0.1", port), &hello("1.0.1"), soon(), &Stop::new()).unwrap();
        assert_eq!(control.hello().tool_version, "1.0.0");
        control.send(&Message::Ready).unwrap();
        let theirs = control.exchange(&Message::Address(vec![1]), soon()).unwrap();
        assert_eq!(theirs, Message::Address(vec![2]));
        control.barrier(7, soon()).unwrap();
        control.close(soon()).unwrap();
    });
    let mut strangers = Vec::new();
    let mut control = accept(&mut listener, &mut strangers).unwrap();
    assert_eq!(control.hello().tool_version, "1.0.1");
    assert_eq!(control.local_addr().port(), port);
    assert!(control.peer_addr().ip().is_loopback());
    assert_eq!(control.recv(soon()).unwrap(), Message::Ready);
    let theirs = control.exchange(&Message::Address(vec![2]), soon()).unwrap();
    assert_eq!(theirs, Message::Address(vec![1]));
    control.barrier(7, soon()).unwrap();
    assert_eq!(control.recv(soon()).unwrap(), Message::Bye);
    control.close(soon()).unwrap();
    client.join().unwrap();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn strangers_are_dropped_with_a_line_each_while_a_client_is_served() {
    let mut listener = listener();
    let address = listener.local_addr();
    let mut silent = TcpStream::connect(address).unwrap();
    let mut http = TcpStream::connect(address).unwrap();
    http.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut noise = TcpStream::connect(address).unwrap();
    noise.write_all(&encode(&[0x9d, 0, 0xff, 0x7f, 3, 3, 3, 3]).unwrap()).unwrap();
    let mut giant = TcpStream::connect(address).unwrap();
    giant.write_all(&[0xff; 4]).unwrap();
    drop(TcpStream::connect(address).unwrap());
    let start = Instant::now();
    let client = thread::spawn(move || dial(address.port()).unwrap());
    let mut strangers = Vec::new();
    let mut control = accept(&mut listener, &mut strangers).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "the silent connection held the client up");
    let mut client = client.join().unwrap();
    client.send(&Message::Ready).unwrap();
    assert_eq!(control.recv(soon()).unwrap(), Message::Ready);

    let expected = ["GET / HTTP", "no greeting", "4294967295 bytes", "closed without a word"];
    for text in expected {
        let lines = strangers.iter().filter(|s| s.contains(text)).count();
        assert!(lines >= 1, "{text}: {strangers:?}");
    }
    assert_eq!(strangers.len(), 4, "{strangers:?}");
    drop(listener);
    // The end of the listener ends the connection that never spoke, too.
    silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn a_silent_or_dripping_connection_is_dropped_after_two_seconds() {
    let mut listener = listener();
    let address = listener.local_addr();
    let _silent = TcpStream::connect(address).unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(&[200, 0]).unwrap();
    let lines = strangers(&mut listener, 2);
    assert!(lines.iter().all(|s| s.contains("in 2s")), "{lines:?}");
}

#[test]
fn a_greeting_in_single_bytes_is_a_greeting() {
    let mut listener = listener();
    let mut raw = TcpStream::connect(listener.local_addr()).unwrap();
    raw.set_nodelay(true).unwrap();
    let writer = thread::spawn(move || {
        let greeting = greeting_of_a_client();
        for byte in greeting {
            raw.write_all(&[byte]).unwrap();
        }
        raw
    });
    let control = accept(&mut listener, &mut Vec::new()).unwrap();
    assert_eq!(control.hello().libfabric_run, "2.5.1");
    drop(writer.join().unwrap());
}

#[test]
fn a_client_of_another_version_and_its_server_name_both_versions() {
    let mut listener = listener();
    let mut raw = TcpStream::connect(listener.local_addr()).unwrap();
    raw.write_all(&foreign_greeting(9, "7.8.9")).unwrap();
    let lines = strangers(&mut listener, 1);
    for version in ["7.8.9", "protocol 9", "1.0.0"] {
        assert!(lines[0].contains(version), "{lines:?}");
    }
    raw.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 16];
    raw.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], *b"EFAB");
    assert_eq!(answer[11..16], *b"1.0.0");
}

#[test]
fn a_server_of_another_version_is_named_with_ours() {
    let raw = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = raw.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = raw.accept().unwrap();
        stream.write_all(&foreign_greeting(9, "7.8.9")).unwrap();
        stream
    });
    let error = dial(port).unwrap_err();
    assert!(matches!(error, ControlError::Version { .. }), "{error}");
    for version in ["7.8.9", "protocol 9", "1.0.0"] {
        assert!(error.to_string().contains(version), "{error}");
    }
    drop(server.join().unwrap());
}

#[test]
fn another_protocol_on_the_port_is_quoted() {
    let raw = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = raw.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = raw.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
        stream
    });
    let error = dial(port).unwrap_err();
    assert!(matches!(error, ControlError::NotOurs { .. }), "{error}");
    assert!(error.to_string().contains("SSH-2.0-OpenSSH"), "{error}");
    drop(server.join().unwrap());
}

#[test]
fn a_client_started_first_finds_the_server_that_comes_later() {
    let early = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = early.local_addr().unwrap().port();
    let client = thread::spawn(move || dial(port));
    // The client has tried once for certain when this returns, and got nothing.
    drop(early.accept().unwrap());
    drop(early);
    let mut listener = Listener::bind(Some(LOCALHOST), port, false).unwrap();
    accept(&mut listener, &mut Vec::new()).unwrap();
    client.join().unwrap().unwrap();
}

#[test]
fn a_refused_connection_names_each_address_and_the_remedy() {
    let port = {
        let unused = TcpListener::bind((LOCALHOST, 0)).unwrap();
        unused.local_addr().unwrap().port()
    };
    let start = Instant::now();
    let deadline = start + Duration::from_millis(300);
    let target = target("127.0.0.1", port);
    let error = connect(&target, &hello("1"), deadline, &Stop::new()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ControlError::Connect { .. }), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    assert!(text.contains("start the server"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_never_answers_ends_at_the_deadline() {
    let silent = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let deadline = Instant::now() + Duration::from_millis(300);
    let target = target("127.0.0.1", port);
    let error = connect(&target, &hello("1"), deadline, &Stop::new()).unwrap_err();
    assert!(matches!(error, ControlError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("greeting"), "{error}");
}

#[test]
fn an_unknown_name_is_named() {
    let deadline = Instant::now() + Duration::from_secs(2);
    let host = "no-such-host.invalid";
    let error = connect(&target(host, 1), &hello("1"), deadline, &Stop::new()).unwrap_err();
    assert!(matches!(error, ControlError::Resolve { .. }), "{error}");
    assert!(error.to_string().contains(host), "{error}");
}

#[test]
fn a_port_in_use_says_so_with_the_way_out() {
    let first = listener();
    let port = first.local_addr().port();
    let error = Listener::bind(Some(LOCALHOST), port, false).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ControlError::InUse { .. }), "{text}");
    assert!(text.contains(&port.to_string()) && text.contains("--port 0"), "{text}");
    let error = Listener::bind(None, port, false).unwrap_err();
    assert!(matches!(error, ControlError::InUse { .. }), "{error}");
}

#[test]
fn ipv6_literals_work_in_every_form() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this host has no IPv6 loopback address");
        return;
    }
    for (host, ipv6_only) in [("::1", false), ("[::1]", true), ("127.0.0.1", false)] {
        let mut listener = Listener::bind(None, 0, ipv6_only).unwrap();
        let port = listener.local_addr().port();
        let client = thread::spawn(move || {
            let target = Target { ipv6_only, ..target(host, port) };
            connect(&target, &hello("1"), soon(), &Stop::new()).unwrap()
        });
        let server = accept(&mut listener, &mut Vec::new()).unwrap();
        let client = client.join().unwrap();
        assert_eq!(server.peer_addr(), client.local_addr(), "{host}");
        let ipv6 = host.contains(':');
        assert_eq!(server.peer_addr().is_ipv6(), ipv6, "an IPv4 peer stays one");
        assert!(server.peer_addr().ip().is_loopback() && client.peer_addr().ip().is_loopback());
    }
    let deadline = Instant::now() + Duration::from_millis(200);
    let scoped = target("fe80::1%lo", 1);
    let error = connect(&scoped, &hello("1"), deadline, &Stop::new()).unwrap_err();
    assert!(matches!(error, ControlError::Connect { .. }), "a scope is understood: {error}");
    let only = Target { ipv6_only: true, ..target("127.0.0.1", 1) };
    let error = connect(&only, &hello("1"), soon(), &Stop::new()).unwrap_err();
    assert!(error.to_string().contains("-6"), "{error}");
}

#[test]
fn a_client_connects_from_the_address_and_port_that_it_was_given() {
    let mut listener = listener();
    let port = listener.local_addr().port();
    let free = TcpListener::bind("127.0.0.2:0").unwrap();
    let local = free.local_addr().unwrap();
    drop(free);
    let client = thread::spawn(move || {
        let target = Target { local: Some(local.ip()), local_port: local.port(), ..target("127.0.0.1", port) };
        connect(&target, &hello("1"), soon(), &Stop::new()).unwrap()
    });
    let server = accept(&mut listener, &mut Vec::new()).unwrap();
    assert_eq!(server.peer_addr(), local);
    drop(client.join().unwrap());

    let elsewhere = Target { local: Some("192.0.2.1".parse().unwrap()), ..target("127.0.0.1", port) };
    let start = Instant::now();
    let error = connect(&elsewhere, &hello("1"), soon(), &Stop::new()).unwrap_err();
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "waiting does not cure it");
}

#[test]
fn a_loopback_address_behind_a_name_is_explained() {
    let peer = "127.0.1.1".parse().unwrap();
    assert!(loopback_note("nodeb", peer).unwrap().contains("/etc/hosts"));
    assert_eq!(loopback_note("localhost", peer), None);
    assert_eq!(loopback_note("127.0.1.1", peer), None);
    assert_eq!(loopback_note("[::1]", "::1".parse().unwrap()), None);
    assert_eq!(loopback_note("nodeb", "10.0.0.1".parse().unwrap()), None);
}

#[test]
fn the_end_of_the_connection_is_the_death_of_the_peer() {
    let (mut server, client) = pair();
    server.alive().unwrap();
    server.phase("measuring 64 B");
    drop(client);
    let error = server.recv(soon()).unwrap_err();
    assert!(matches!(error, ControlError::PeerDied { .. }) && error.is_peer_gone());
    assert!(error.to_string().contains("measuring 64 B"), "{error}");
    assert!(matches!(server.alive(), Err(ControlError::PeerDied { .. })));

    let (server, mut client) = pair();
    drop(server);
    let deadline = soon();
    while client.alive().is_ok() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    assert!(matches!(client.alive(), Err(ControlError::PeerDied { .. })));
}

#[test]
fn an_abort_is_seen_by_whoever_waits_or_looks() {
    let (mut server, mut client) = pair();
    client.send(&Message::Ready).unwrap();
    let aborting = thread::spawn(move || client.abort("wrong\u{7} data"));
    let deadline = soon();
    let error = loop {
        assert!(Instant::now() < deadline);
        match server.alive() {
            Ok(()) => thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ControlError::PeerAborted { .. }), "{error}");
    assert!(error.to_string().contains("wrong? data"), "{error}");
    assert_eq!(server.recv(soon()).unwrap(), Message::Ready, "kept in order");
    let error = server.recv(soon()).unwrap_err();
    assert!(matches!(error, ControlError::PeerAborted { .. }), "{error}");
    drop(server);
    aborting.join().unwrap();
}

#[test]
fn a_peer_that_said_goodbye_is_not_dead_and_its_last_words_arrive() {
    let (mut server, mut client) = pair();
    // The client leaves without reading this, which would reset the connection if it just closed it.
    server.send(&Message::Address(vec![7; 1000])).unwrap();
    let counts = Counts { sent: 3, ..Counts::default() };
    client.send(&Message::Done(counts)).unwrap();
    let closing = thread::spawn(move || client.close(soon()).unwrap());
    assert_eq!(server.recv(soon()).unwrap(), Message::Done(counts));
    assert_eq!(server.recv(soon()).unwrap(), Message::Bye);
    server.close(soon()).unwrap();
    closing.join().unwrap();

    let (mut server, mut client) = pair();
    client.send(&Message::Bye).unwrap();
    drop(client);
    // Seen or not yet seen, a goodbye is no death.
    for _ in 0..1000 {
        server.alive().unwrap();
    }
    assert_eq!(server.recv(soon()).unwrap(), Message::Bye);
}

#[test]
fn a_deadline_names_the_phase() {
    let (mut server, _client) = pair();
    server.phase("exchanging addresses");
    let start = Instant::now();
    let error = server.recv(start + Duration::from_millis(120)).unwrap_err();
    assert!(matches!(error, ControlError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("exchanging addresses"), "{error}");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(120) && took < Duration::from_secs(5));
}

#[test]
fn a_stop_ends_every_wait() {
    let stopped_by_another_thread = || {
        let stop = Stop::new();
        let other = stop.clone();
        (stop, thread::spawn(move || other.request()))
    };
    let (stop, thread) = stopped_by_another_thread();
    let error = listener().accept(&hello("1"), None, &stop, &mut |_, _| {});
    assert!(matches!(error, Err(ControlError::Interrupted)));
    thread.join().unwrap();

    let silent = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let (stop, thread) = stopped_by_another_thread();
    let error = connect(&target("127.0.0.1", port), &hello("1"), soon(), &stop);
    assert!(matches!(error, Err(ControlError::Interrupted)));
    thread.join().unwrap();

    let mut listener = listener();
    let port = listener.local_addr().port();
    let client = thread::spawn(move || dial(port).unwrap());
    let stop = Stop::new();
    let mut server = listener.accept(&hello("1"), Some(soon()), &stop, &mut |_, _| {}).unwrap();
    let mut client = client.join().unwrap();
    stop.request();
    assert!(matches!(server.recv(soon()), Err(ControlError::Interrupted)));
    // The peer still hears of it.
    let aborting = thread::spawn(move || server.abort("interrupted"));
    let error = client.recv(soon()).unwrap_err();
    assert!(matches!(error, ControlError::PeerAborted { .. }), "{error}");
    drop(client);
    aborting.join().unwrap();
}

#[test]
fn barriers_of_different_numbers_do_not_meet() {
    let (mut server, mut client) = pair();
    client.send(&Message::Barrier(2)).unwrap();
    let error = server.barrier(1, soon()).unwrap_err();
    assert!(error.to_string().contains("expected barrier 1"), "{error}");
    assert!(error.to_string().contains("got barrier 2"), "{error}");
}

#[test]
fn two_sides_that_send_much_at_once_do_not_block_each_other() {
    let (mut server, mut client) = pair();
    const ROUNDS: usize = 3;
    let run = |control: &mut Control, byte: u8| {
        for _ in 0..ROUNDS {
            let message = Message::Address(vec![byte; (1 << 20) - 16]);
            let theirs = control.exchange(&message, soon()).unwrap();
            assert!(matches!(theirs, Message::Address(b) if b.len() == (1 << 20) - 16));
        }
    };
    let other = thread::spawn(move || run(&mut client, 1));
    run(&mut server, 2);
    other.join().unwrap();
}

#[test]
fn a_message_above_the_limit_is_not_sent() {
    let (mut server, _client) = pair();
    let error = server.send(&Message::Address(vec![0; 1 << 20])).unwrap_err();
    assert!(matches!(error, ControlError::Encode { .. }), "{error}");
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let mut listener = listener();
    let port = listener.local_addr().port();
    let first = thread::spawn(move || dial(port).unwrap());
    let served = accept(&mut listener, &mut Vec::new()).unwrap();
    let second = thread::spawn(move || dial(port).unwrap().recv(soon()).unwrap());
    let deadline = soon();
    let mut noted = Vec::new();
    while noted.is_empty() {
        assert!(Instant::now() < deadline);
        listener
            .refuse_busy(&hello("1"), "10.0.0.1", &Stop::new(), &mut |_, why| {
                noted.push(why.to_owned());
            })
            .unwrap();
        thread::yield_now();
    }
    let Message::Refuse(refusal) = second.join().unwrap() else { panic!("no refusal") };
    assert!(matches!(refusal, Refusal::Busy { .. }));
    assert!(refusal.lines()[0].contains("10.0.0.1"), "{refusal:?}");
    drop((served, first.join().unwrap()));
}

#[test]
fn a_peer_that_turns_to_nonsense_is_an_error_and_no_panic() {
    for junk in [vec![0xff; 4], encode(&[0xff; 64]).unwrap()] {
        let mut listener = listener();
        let address = listener.local_addr();
        let raw = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let greeting = greeting_of_a_client();
            stream.write_all(&greeting).unwrap();
            stream.write_all(&junk).unwrap();
            stream
        });
        let mut control = accept(&mut listener, &mut Vec::new()).unwrap();
        let error = control.recv(soon()).unwrap_err();
        assert!(matches!(error, ControlError::Malformed { .. }), "{error}");
        drop(raw.join().unwrap());
    }
}

/// Records what a real client sends first.
fn greeting_of_a_client() -> Vec<u8> {
    let raw = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = raw.local_addr().unwrap().port();
    let client = thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(2);
        connect(&target("127.0.0.1", port), &hello("1.0.0"), deadline, &Stop::new())
    });
    let (mut stream, _) = raw.accept().unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut content = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut content).unwrap();
    stream.write_all(&foreign_greeting(9, "9")).unwrap();
    assert!(client.join().unwrap().is_err());
    encode(&content).unwrap()
}
