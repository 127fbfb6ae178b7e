//! One open control connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use socket2::{SockRef, TcpKeepalive};

use super::error::printable;
use super::frame::{self, FRAME_LIMIT, FrameDecoder};
use super::message::{HELLO_LIMIT, Hello, HelloError, Message};
use super::wait::{self, Wake};
use super::{ControlError, Stop};

/// How long a message may take to leave this host.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a host may be silent to the kernel's probes and retransmissions before it counts as gone.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// How long a side that gives up tries to say so.
const ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// An open connection to the other side, after both said hello.
#[derive(Debug)]
pub struct Control {
    link: Link,
    hello: Hello,
}

impl Control {
    pub(super) fn new(mut link: Link, hello: Hello) -> Self {
        link.decoder.set_limit(FRAME_LIMIT);
        link.phase = "agreeing on the plan";
        Control { link, hello }
    }

    /// Names what is being done, for the errors of what follows, as in "exchanging addresses".
    pub fn phase(&mut self, phase: &'static str) {
        self.link.phase = phase;
    }

    /// Sends a message.
    ///
    /// Where the peer does not read, what it sends meanwhile is kept, so that two sides that send at
    /// the same time cannot block each other.
    ///
    /// # Errors
    /// Where the peer is gone, does not read for 10 s, or a stop is requested.
    pub fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        self.link.send(message, Instant::now() + SEND_TIMEOUT)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Where the deadline passes, the peer is gone or gave up ([`Message::Abort`]), sends what is no
    /// message, or a stop is requested.
    pub fn recv(&mut self, deadline: Instant) -> Result<Message, ControlError> {
        let content = self.link.frame(deadline)?;
        match Message::decode(&content) {
            Ok(Message::Abort { reason }) => Err(self.link.aborted(&reason)),
            Ok(message) => Ok(message),
            Err(_) => Err(self.link.malformed("sent a frame that is no message".into())),
        }
    }

    /// Sends a message and waits for the peer's, which does the same.
    ///
    /// # Errors
    /// Those of [`Control::send`] and [`Control::recv`].
    pub fn exchange(&mut self, message: &Message, deadline: Instant) -> Result<Message, ControlError> {
        self.send(message)?;
        self.recv(deadline)
    }

    /// Waits until both sides reached the barrier `id`.
    ///
    /// # Errors
    /// Those of [`Control::exchange`], and where the peer is at another point.
    pub fn barrier(&mut self, id: u32, deadline: Instant) -> Result<(), ControlError> {
        match self.exchange(&Message::Barrier(id), deadline)? {
            Message::Barrier(theirs) if theirs == id => Ok(()),
            other => Err(self.unexpected(&format!("barrier {id}"), &other)),
        }
    }

    /// Checks, without waiting, that the peer is still there and has not given up.
    ///
    /// One system call where nothing arrived. Messages that did arrive are kept for
    /// [`Control::recv`]; an end of file after [`Message::Bye`] is no failure.
    ///
    /// # Errors
    /// [`ControlError::PeerDied`] or [`ControlError::PeerAborted`].
    pub fn alive(&mut self) -> Result<(), ControlError> {
        let arrived = self.link.fill();
        if !arrived && self.link.end.is_none() {
            return Ok(());
        }
        while self.link.fill() {}
        let last_word = self.link.decoder.find(|content| match Message::decode(content) {
            Ok(message @ (Message::Abort { .. } | Message::Bye)) => Some(message),
            _ => None,
        });
        match (last_word, &self.link.end) {
            (Err(error), _) => Err(self.link.malformed(error.to_string())),
            (Ok(Some(Message::Abort { reason })), _) => Err(self.link.aborted(&reason)),
            (Ok(None), Some(_)) => Err(self.link.died()),
            (Ok(_), _) => Ok(()),
        }
    }

    /// Tells the peer that this side gives up, as well as that can be done in half a second.
    pub fn abort(&mut self, reason: &str) {
        let message = Message::Abort { reason: reason.into() };
        // A stop must not keep the peer from hearing of it.
        self.link.stop = Stop::new();
        let deadline = Instant::now() + ABORT_TIMEOUT;
        if self.link.send(&message, deadline).is_ok() {
            self.link.finish(deadline);
        }
    }

    /// Says goodbye and waits until the peer has closed too, so that nothing in flight is lost.
    ///
    /// # Errors
    /// Those of [`Control::send`]; a peer that does not close in time is none.
    pub fn close(mut self, deadline: Instant) -> Result<(), ControlError> {
        self.send(&Message::Bye)?;
        self.finish(deadline);
        Ok(())
    }

    /// Waits until the peer has closed too, after this side's goodbye.
    pub fn finish(mut self, deadline: Instant) {
        self.link.finish(deadline);
    }

    /// The error for a message that does not belong here.
    pub fn unexpected(&self, expected: &str, got: &Message) -> ControlError {
        ControlError::Unexpected {
            phase: self.link.phase,
            peer: self.link.peer,
            expected: expected.into(),
            got: match got {
                Message::Barrier(id) => format!("barrier {id}"),
                other => other.name().into(),
            },
        }
    }

    /// What the peer said about itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Address of this side.
    pub fn local_addr(&self) -> SocketAddr {
        self.link.local
    }

    /// Address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.link.peer
    }
}

/// A connection below the hellos: bytes in, frames out.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) decoder: FrameDecoder,
    pub(super) peer: SocketAddr,
    local: SocketAddr,
    pub(super) phase: &'static str,
    /// Why no more bytes will come.
    pub(super) end: Option<String>,
    stop: Stop,
}

impl Link {
    /// Takes a connected stream over: no waiting, no delay, and a vanished host is noticed.
    pub(super) fn new(stream: TcpStream, stop: &Stop) -> Result<Self, ControlError> {
        let io = |what| move |source| ControlError::Io { what, source };
        stream.set_nonblocking(true).map_err(io("set up the control connection"))?;
        // These fail only where the peer has closed already, which the next read reports better.
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(&stream);
        let probes =
            TcpKeepalive::new().with_time(Duration::from_secs(2)).with_interval(Duration::from_secs(1)).with_retries(3);
        let _ = socket.set_tcp_keepalive(&probes);
        let _ = socket.set_tcp_user_timeout(Some(DEAD_AFTER));
        Ok(Link {
            peer: canonical(stream.peer_addr().map_err(io("read the peer's address"))?),
            local: canonical(stream.local_addr().map_err(io("read the local address"))?),
            stream,
            decoder: FrameDecoder::new(HELLO_LIMIT),
            phase: "greeting",
            end: None,
            stop: stop.clone(),
        })
    }

    pub(super) fn send_hello(&mut self, hello: &Hello, deadline: Instant) -> Result<(), ControlError> {
        let encoded = hello.encode().map_err(|e| e.to_string());
        self.write_frame("Hello", encoded, deadline)
    }

    pub(super) fn recv_hello(&mut self, ours: &Hello, deadline: Instant) -> Result<Hello, ControlError> {
        let not_ours = |peer, detail| ControlError::NotOurs { peer, detail };
        let content = match self.frame(deadline) {
            Err(ControlError::Malformed { peer, .. }) => {
                return Err(not_ours(peer, describe(self.decoder.buffered())));
            }
            other => other?,
        };
        Hello::decode(&content).map_err(|e| match e {
            HelloError::Stranger => not_ours(self.peer, describe(&content)),
            HelloError::Version(theirs) => ControlError::Version { peer: self.peer, ours: ours.version_text(), theirs },
        })
    }

    pub(super) fn send(&mut self, m: &Message, deadline: Instant) -> Result<(), ControlError> {
        self.write_frame(m.name(), m.encode().map_err(|e| e.to_string()), deadline)
    }

    fn write_frame(
        &mut self,
        message: &'static str,
        encoded: Result<Vec<u8>, String>,
        deadline: Instant,
    ) -> Result<(), ControlError> {
        let bytes = encoded
            .and_then(|content| frame::encode(&content).map_err(|e| e.to_string()))
            .map_err(|detail| ControlError::Encode { message, detail })?;
        let start = Instant::now();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let mut interest = PollFlags::OUT;
                    if self.end.is_none() && !self.decoder.is_full() {
                        interest |= PollFlags::IN;
                    }
                    self.wait(interest, start, deadline)?;
                    if interest.contains(PollFlags::IN) {
                        self.fill();
                    }
                }
                Err(e) => {
                    // What the peer said before it left explains more than the broken pipe does.
                    while self.fill() {}
                    self.end.get_or_insert_with(|| e.to_string());
                    return Err(self.last_words());
                }
            }
        }
        Ok(())
    }

    /// Waits for the next whole frame.
    fn frame(&mut self, deadline: Instant) -> Result<Vec<u8>, ControlError> {
        let start = Instant::now();
        loop {
            match self.decoder.next_frame() {
                Ok(Some(content)) => return Ok(content),
                Ok(None) => {}
                Err(error) => return Err(self.malformed(error.to_string())),
            }
            if self.end.is_some() {
                return Err(self.died());
            }
            if !self.fill() && self.end.is_none() {
                self.wait(PollFlags::IN, start, deadline)?;
            }
        }
    }

    /// Reads once what has arrived, without waiting, and says whether anything had.
    pub(super) fn fill(&mut self) -> bool {
        // What is there has to be taken first, so that a flood cannot fill the memory.
        if self.end.is_some() || self.decoder.is_full() {
            return false;
        }
        let mut chunk = [0; 4096];
        loop {
            return match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.end = Some("end of file on the control connection".into());
                    false
                }
                Ok(n) => {
                    self.decoder.extend(&chunk[..n]);
                    true
                }
                Err(e) => match e.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => false,
                    _ => {
                        self.end = Some(e.to_string());
                        false
                    }
                },
            };
        }
    }

    /// Ends this side's direction and reads until the peer ends its own.
    ///
    /// Closing a socket with unread bytes would reset the connection, and take with it what the peer
    /// has not read yet.
    pub(super) fn finish(&mut self, deadline: Instant) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let start = Instant::now();
        while self.end.is_none() {
            self.decoder = FrameDecoder::new(FRAME_LIMIT);
            if !self.fill() && self.end.is_none() && self.wait(PollFlags::IN, start, deadline).is_err() {
                return;
            }
        }
    }

    fn wait(&self, interest: PollFlags, start: Instant, deadline: Instant) -> Result<(), ControlError> {
        let mut fds = [PollFd::new(&self.stream, interest)];
        match wait::wait(&mut fds, Some(deadline), &self.stop) {
            Ok(Wake::Ready) => Ok(()),
            Ok(Wake::Stopped) => Err(ControlError::Interrupted),
            Ok(Wake::Deadline) => {
                Err(ControlError::Timeout { phase: self.phase, peer: self.peer, waited: start.elapsed() })
            }
            Err(source) => Err(ControlError::Io { what: "wait on the control connection", source }),
        }
    }

    /// The error for a broken connection: the abort that came before its end, or the end itself.
    fn last_words(&self) -> ControlError {
        let abort = self.decoder.find(|content| match Message::decode(content) {
            Ok(Message::Abort { reason }) => Some(reason),
            _ => None,
        });
        match abort {
            Ok(Some(reason)) => self.aborted(&reason),
            _ => self.died(),
        }
    }

    fn died(&self) -> ControlError {
        ControlError::PeerDied { phase: self.phase, peer: self.peer, detail: self.end.clone().unwrap_or_default() }
    }

    fn aborted(&self, reason: &str) -> ControlError {
        ControlError::PeerAborted { phase: self.phase, peer: self.peer, reason: printable(reason) }
    }

    fn malformed(&self, detail: String) -> ControlError {
        ControlError::Malformed { phase: self.phase, peer: self.peer, detail }
    }
}

/// Shows what a stranger sent, in one short line.
pub(super) fn describe(bytes: &[u8]) -> String {
    const MOST: usize = 24;
    let head = &bytes[..bytes.len().min(MOST)];
    if head.is_empty() {
        return "sent an empty frame".into();
    }
    format!("sent '{}', which is no greeting", head.escape_ascii())
}

/// An IPv4 address that came in over an IPv6 socket, in its usual form.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => SocketAddr::new(v6.ip().to_canonical(), v6.port()),
        other => other,
    }
}
