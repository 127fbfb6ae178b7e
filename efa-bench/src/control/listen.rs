//! The server's side: a port on which clients are told from strangers.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};

use super::channel::{Link, canonical, describe};
use super::message::{HelloError, Refusal};
use super::wait::{self, Wake};
use super::{Control, ControlError, Hello, Message, Stop};

/// How long a new connection may take to greet, however it drips its bytes.
const GREETING_TIME: Duration = Duration::from_secs(2);

/// Connections that may be about to greet at the same time; the oldest goes where there are more.
const MOST_PENDING: usize = 64;

/// A port on which a server waits for its client.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    local: SocketAddr,
    pending: Vec<Pending>,
}

/// A connection that has not greeted yet.
#[derive(Debug)]
struct Pending {
    link: Link,
    expires: Instant,
}

/// What became of a pending connection.
enum Fate {
    Waits(Pending),
    Client(Link, Hello),
    Stranger(SocketAddr, String),
}

impl Listener {
    /// Listens on an address of this host, or on all of them, IPv6 and IPv4.
    ///
    /// Port 0 has the system choose; [`Listener::local_addr`] says which.
    ///
    /// # Errors
    /// [`ControlError::InUse`] where another process has the port, [`ControlError::Listen`] else.
    pub fn bind(addr: Option<IpAddr>, port: u16, ipv6_only: bool) -> Result<Self, ControlError> {
        let any6 = IpAddr::from(Ipv6Addr::UNSPECIFIED);
        let first = SocketAddr::new(addr.unwrap_or(any6), port);
        let bound = match listen(first, ipv6_only) {
            // A kernel without IPv6 refuses the socket or the address.
            Err(e) if addr.is_none() && !ipv6_only && e.kind() != ErrorKind::AddrInUse => {
                listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false)
            }
            other => other,
        };
        let address = addr.map_or_else(|| "this host".into(), |a| a.to_string());
        let listener = bound.map_err(|source| match source.kind() {
            ErrorKind::AddrInUse => ControlError::InUse { address: address.clone(), port },
            _ => ControlError::Listen { address: address.clone(), port, source },
        })?;
        let local = listener.local_addr();
        let local = local.map_err(|source| ControlError::Listen { address, port, source })?;
        Ok(Listener { listener, local, pending: Vec::new() })
    }

    /// Waits for a client and greets it.
    ///
    /// Strangers are dropped, each with a call of `on_stranger` that names the address and the reason;
    /// they neither end nor delay the wait for a client.
    ///
    /// # Errors
    /// Where the deadline passes, a stop is requested, or the system has no more file descriptors.
    pub fn accept(
        &mut self,
        hello: &Hello,
        deadline: Option<Instant>,
        stop: &Stop,
        on_stranger: &mut dyn FnMut(SocketAddr, &str),
    ) -> Result<Control, ControlError> {
        let start = Instant::now();
        loop {
            if let Some((mut link, theirs)) = self.step(hello, stop, on_stranger)? {
                match link.send_hello(hello, Instant::now() + GREETING_TIME) {
                    Ok(()) => return Ok(Control::new(link, theirs)),
                    Err(ControlError::Interrupted) => return Err(ControlError::Interrupted),
                    Err(error) => on_stranger(link.peer, &error.to_string()),
                }
                continue;
            }
            let expiry = self.pending.iter().map(|p| p.expires).min();
            let until = [deadline, expiry].into_iter().flatten().min();
            match self.wait(until, stop)? {
                Wake::Stopped => return Err(ControlError::Interrupted),
                Wake::Deadline if deadline.is_some_and(|d| Instant::now() >= d) => {
                    return Err(ControlError::Timeout {
                        phase: "waiting for a client",
                        peer: self.local,
                        waited: start.elapsed(),
                    });
                }
                Wake::Deadline | Wake::Ready => {}
            }
        }
    }

    /// Sends away, without waiting, whoever else connected while a client is being served.
    ///
    /// To be called now and then, outside timed regions; `with` names the client that is served.
    ///
    /// # Errors
    /// Where the system has no more file descriptors.
    pub fn refuse_busy(
        &mut self,
        hello: &Hello,
        with: &str,
        stop: &Stop,
        on_stranger: &mut dyn FnMut(SocketAddr, &str),
    ) -> Result<(), ControlError> {
        while let Some((mut link, _)) = self.step(hello, stop, on_stranger)? {
            let refusal = Message::Refuse(Refusal::Busy { with: with.into() });
            // Both fit into a fresh socket's buffer, so neither send waits.
            let now = Instant::now();
            if link.send_hello(hello, now).is_ok() {
                let _ = link.send(&refusal, now);
                link.finish(now);
            }
            on_stranger(link.peer, "came while another client is served");
        }
        Ok(())
    }

    /// Address and port that are listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Takes new connections and looks at each pending one once, until one of them is a client.
    fn step(
        &mut self,
        hello: &Hello,
        stop: &Stop,
        on_stranger: &mut dyn FnMut(SocketAddr, &str),
    ) -> Result<Option<(Link, Hello)>, ControlError> {
        self.take_new(stop, on_stranger)?;
        let mut client = None;
        for pending in std::mem::take(&mut self.pending) {
            if client.is_some() {
                self.pending.push(pending);
                continue;
            }
            match pending.look(hello)? {
                Fate::Waits(pending) => self.pending.push(pending),
                Fate::Client(link, theirs) => client = Some((link, theirs)),
                Fate::Stranger(peer, reason) => on_stranger(peer, &reason),
            }
        }
        Ok(client)
    }

    fn take_new(&mut self, stop: &Stop, on_stranger: &mut dyn FnMut(SocketAddr, &str)) -> Result<(), ControlError> {
        // Bounded, so that a flood cannot keep the pending ones from being looked at.
        for _ in 0..MOST_PENDING {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    let Ok(link) = Link::new(stream, stop) else {
                        on_stranger(canonical(peer), "closed without a word");
                        continue;
                    };
                    if self.pending.len() == MOST_PENDING {
                        let oldest = self.pending.remove(0);
                        on_stranger(oldest.link.peer, "made room for newer connections");
                    }
                    self.pending.push(Pending { link, expires: Instant::now() + GREETING_TIME });
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if is_of_one_connection(&e) => {}
                Err(source) => {
                    return Err(ControlError::Io { what: "accept a connection", source });
                }
            }
        }
        Ok(())
    }

    fn wait(&self, until: Option<Instant>, stop: &Stop) -> Result<Wake, ControlError> {
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.pending.iter().map(|p| PollFd::new(&p.link.stream, PollFlags::IN)));
        wait::wait(&mut fds, until, stop).map_err(|source| ControlError::Io { what: "wait for a client", source })
    }
}

impl Pending {
    fn look(mut self, hello: &Hello) -> Result<Fate, ControlError> {
        while self.link.fill() {}
        let peer = self.link.peer;
        let content = match self.link.decoder.next_frame() {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(self.not_yet()),
            Err(too_long) => {
                // Text of another protocol reads as an absurd length: show the text.
                let sent = self.link.decoder.buffered();
                let text = sent.iter().take(4).all(|b| b.is_ascii_graphic() || *b == b' ');
                let reason = if text { describe(sent) } else { too_long.to_string() };
                return Ok(Fate::Stranger(peer, reason));
            }
        };
        Ok(match Hello::decode(&content) {
            Ok(theirs) => Fate::Client(self.link, theirs),
            Err(HelloError::Stranger) => Fate::Stranger(peer, describe(&content)),
            Err(HelloError::Version(theirs)) => {
                // So that the client, too, can say which versions met.
                let now = Instant::now();
                if self.link.send_hello(hello, now).is_ok() {
                    self.link.finish(now);
                }
                let ours = hello.version_text();
                Fate::Stranger(
                    peer,
                    format!(
                        "a client of {theirs}, and this server is {ours}; install the same \
                         version on both"
                    ),
                )
            }
        })
    }

    fn not_yet(self) -> Fate {
        let peer = self.link.peer;
        let sent = self.link.decoder.buffered();
        if self.link.end.is_some() {
            let reason =
                if sent.is_empty() { "closed without a word".into() } else { format!("{} and closed", describe(sent)) };
            return Fate::Stranger(peer, reason);
        }
        if Instant::now() >= self.expires {
            let reason = if sent.is_empty() {
                format!("said nothing in {GREETING_TIME:?}")
            } else {
                format!("{} in {GREETING_TIME:?}", describe(sent))
            };
            return Fate::Stranger(peer, reason);
        }
        Fate::Waits(self)
    }
}

fn listen(address: SocketAddr, ipv6_only: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(ipv6_only)?;
    }
    // A server that was just ended leaves connections behind that would block its port for a minute.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// Errors that accept(2) passes on from a connection that ended before it was taken.
fn is_of_one_connection(error: &io::Error) -> bool {
    use ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::Interrupted
            | Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::NetworkDown
            | Kind::NetworkUnreachable
            | Kind::HostUnreachable
            | Kind::TimedOut
    )
}
