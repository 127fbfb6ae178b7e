//! Peers that are not the program: they speak its protocol up to a chosen step, or none at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use efa::bench::args::PingPongCli;
use efa::bench::control::{Accept, Control, Hello, Listener, Message, Stop, Target, connect};
use efa::bench::environment::Environment;
use efa::bench::plan::Plan;

use super::DEADLINE;

/// How far a fake peer goes along with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The sides know who they are.
    Hello,
    /// The plan has been sent, or heard.
    Plan,
    /// It has been accepted.
    Accept,
    /// Addresses have been exchanged.
    Address,
    /// Both have receives posted.
    Barrier,
    /// A batch is announced and its server ready: data is due.
    Batch,
}

impl Step {
    pub(crate) const ALL: [Step; 6] =
        [Step::Hello, Step::Plan, Step::Accept, Step::Address, Step::Barrier, Step::Batch];
}

/// A peer of the program inside the test, whose end looks like that of a killed process.
pub(crate) struct Fake {
    control: Control,
    /// Takes connections for data and never answers on them.
    _data: TcpListener,
}

impl Fake {
    /// Serves one client up to a step.
    pub(crate) fn server(listener: &mut Listener, step: Step) -> Fake {
        let mut stranger = |from, why: &str| panic!("{from} {why}");
        let control = listener
            .accept(&hello(), Some(Instant::now() + DEADLINE), &Stop::new(), &mut stranger)
            .expect("the client greets");
        let (data, address) = silent_endpoint();
        let mut fake = Fake { control, _data: data };
        if step >= Step::Plan {
            fake.expect("Plan");
            fake.expect("Environment");
        }
        if step >= Step::Accept {
            let accept = Accept {
                provider: super::TCP.into(),
                fabric: "127.0.0.0/8".into(),
                domain: "lo".into(),
                nic: None,
                environment: Box::new(Environment::collect(Path::new("/"))),
            };
            fake.send(Message::Accept(Box::new(accept)));
        }
        fake.meet(step, address);
        if step >= Step::Batch {
            fake.expect("Batch");
            fake.send(Message::Ready);
        }
        fake
    }

    /// Is a client of the server on `port` up to a step.
    pub(crate) fn client(port: u16, step: Step, flags: &[&str]) -> Fake {
        let target = Target { host: "127.0.0.1", port, local: None, local_port: 0, ipv6_only: false };
        let control =
            connect(&target, &hello(), Instant::now() + DEADLINE, &Stop::new()).expect("the server can be reached");
        let (data, address) = silent_endpoint();
        let mut fake = Fake { control, _data: data };
        if step >= Step::Plan {
            fake.send(Message::Plan(Box::new(Self::plan(flags))));
            fake.send(Message::Environment(Box::new(Environment::collect(Path::new("/")))));
        }
        if step >= Step::Accept {
            fake.expect("Accept");
        }
        fake.meet(step, address);
        if step >= Step::Batch {
            fake.send(Message::Batch { point: 0, size: 64, iterations: 1, warmup: false });
            fake.expect("Ready");
        }
        fake
    }

    fn meet(&mut self, step: Step, address: Vec<u8>) {
        if step >= Step::Address {
            self.send(Message::Address(address));
            self.expect("Address");
        }
        if step >= Step::Barrier {
            self.control.barrier(1, Instant::now() + DEADLINE).expect("the peer posts its receives");
        }
    }

    /// Sends a plan that no command line may make.
    pub(crate) fn send_plan(&mut self, spoil: impl FnOnce(&mut Plan)) {
        let mut plan = Self::plan(&[]);
        spoil(&mut plan);
        self.send(Message::Plan(Box::new(plan)));
        self.send(Message::Environment(Box::new(Environment::collect(Path::new("/")))));
    }

    fn plan(flags: &[&str]) -> Plan {
        let words = ["efa-pingpong", "127.0.0.1"].iter().chain(flags);
        Plan::from_args(&PingPongCli::try_from_args(words).expect("the test's own flags").pingpong)
    }

    /// Sends a message, in turn or not.
    pub(crate) fn send(&mut self, message: Message) {
        self.control.send(&message).unwrap_or_else(|error| panic!("{}: {error}", message.name()));
    }

    /// Waits for a message of this name.
    pub(crate) fn expect(&mut self, name: &str) -> Message {
        let message = self.control.recv(Instant::now() + DEADLINE).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.name(), name, "{message:?}");
        message
    }

    /// Waits until the program gives up, and returns why.
    pub(crate) fn abort(mut self) -> String {
        loop {
            match self.control.recv(Instant::now() + DEADLINE) {
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
        }
    }
}

/// This side's greeting.
fn hello() -> Hello {
    Hello::new("1.17.0", "1.17", "/nowhere/libfabric.so.1", &Environment::collect(Path::new("/")))
}

/// A port that takes connections and never answers, and its address as a provider writes it: sockaddr_in.
fn silent_endpoint() -> (TcpListener, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut address = vec![2, 0];
    address.extend(port.to_be_bytes());
    address.extend([127, 0, 0, 1]);
    address.extend([0; 8]);
    (listener, address)
}

/// A TCP connection to the control port that speaks whatever it likes.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(port: u16) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a time-out can be set");
        Raw(stream)
    }

    pub(crate) fn say(mut self, bytes: &[u8]) -> Raw {
        self.0.write_all(bytes).expect("the server takes it");
        self
    }

    /// What comes back until the other side closes.
    pub(crate) fn answer(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end as well.
        let _ = self.0.read_to_end(&mut bytes);
        bytes
    }
}

/// A first frame of a tool of another protocol version.
pub(crate) fn greeting_of_protocol(protocol: u16) -> Vec<u8> {
    let mut content = b"EFAB".to_vec();
    content.extend(protocol.to_le_bytes());
    content.push(5);
    content.extend(b"9.9.9");
    content.extend(b"something newer");
    let mut frame = (content.len() as u32).to_le_bytes().to_vec();
    frame.extend(content);
    frame
}
