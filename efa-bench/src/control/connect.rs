//! The client's side: from a name to an open connection.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::channel::Link;
use super::wait::{self, Wake};
use super::{Control, ControlError, Hello, Stop};

/// Head start of one address before the next is tried beside it (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Pause between two rounds over all addresses, while a server may still be starting.
const RETRY: Duration = Duration::from_millis(100);

/// Longest time for one round, so that a packet filter that opens later is noticed.
const ROUND: Duration = Duration::from_secs(5);

/// Where to connect to, and from.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Name, IPv4 address, or IPv6 address with or without brackets and scope.
    pub host: &'a str,
    /// Control port of the server.
    pub port: u16,
    /// Address of this host to connect from.
    pub local: Option<IpAddr>,
    /// Port to connect from; 0 is any.
    pub local_port: u16,
    /// Whether to leave IPv4 addresses out.
    pub ipv6_only: bool,
}

/// Connects to a server, which may start later, and greets it.
///
/// All addresses of the host are tried, each with a head start over the next, again and again until
/// the deadline: a refusal often means only that the server is not up yet.
///
/// # Errors
/// Where the name has no address, no address answers in time (each is named with its answer), what
/// answers is no server of this tool or one of another version, or a stop is requested.
pub fn connect(target: &Target<'_>, hello: &Hello, deadline: Instant, stop: &Stop) -> Result<Control, ControlError> {
    let start = Instant::now();
    let addresses = resolve(target, deadline, stop)?;
    let mut answers: BTreeMap<SocketAddr, String> = BTreeMap::new();
    loop {
        let round_end = deadline.min(Instant::now() + ROUND);
        let round = dial(target, &addresses, &mut answers, round_end, stop)?;
        if let Some(stream) = round.stream {
            match greet(stream, hello, deadline, stop) {
                // A server that is just ending takes connections that it never answers.
                Err(ControlError::PeerDied { peer, detail, .. }) => {
                    answers.insert(peer, format!("closed before greeting ({detail})"));
                }
                other => return other,
            }
        }
        let retry = Instant::now() + RETRY;
        if round.hopeless || retry >= deadline {
            return Err(unreachable(target, &addresses, &answers, start));
        }
        match wait::pause(retry, stop) {
            Ok(Wake::Stopped) => return Err(ControlError::Interrupted),
            Ok(_) => {}
            Err(source) => return Err(io_error("wait for the server", source)),
        }
    }
}

/// The warning for a host's name that means this host's loopback here.
///
/// Distributions map the own host name to 127.0.1.1 in /etc/hosts, which is right only on that host:
/// the address must not be handed to a remote peer.
pub fn loopback_note(host: &str, peer: IpAddr) -> Option<String> {
    let literal = strip_brackets(host).parse::<IpAddr>().is_ok();
    if literal || host.eq_ignore_ascii_case("localhost") || !peer.to_canonical().is_loopback() {
        return None;
    }
    Some(format!(
        "'{host}' is {peer} here, a loopback address from /etc/hosts: both sides run on this host; \
         to measure another host, or this host's network, give its address or correct /etc/hosts"
    ))
}

fn strip_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

fn resolve(target: &Target<'_>, deadline: Instant, stop: &Stop) -> Result<Vec<SocketAddr>, ControlError> {
    let host = strip_brackets(target.host);
    let failed = |detail: String| ControlError::Resolve { host: target.host.into(), detail };
    let found = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, target.port)],
        Err(_) => lookup(host, target.port, deadline, stop)?.map_err(failed)?,
    };
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        let family_fits = match target.local {
            Some(local) => local.is_ipv6() == address.is_ipv6(),
            None => true,
        };
        let wanted = family_fits && (!target.ipv6_only || address.is_ipv6());
        if wanted && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(failed(match (target.ipv6_only, target.local) {
            (true, _) => "it has no IPv6 address, and -6 asks for one".into(),
            (_, Some(local)) => format!("it has no address of the kind of --source-address {local}"),
            _ => "it has no address".into(),
        }));
    }
    Ok(addresses)
}

/// Asks the system's resolver, which knows neither deadlines nor signals, from a thread that is left
/// behind where it takes too long.
fn lookup(
    host: &str,
    port: u16,
    deadline: Instant,
    stop: &Stop,
) -> Result<Result<Vec<SocketAddr>, String>, ControlError> {
    let (sender, receiver) = channel();
    let name = host.to_owned();
    std::thread::Builder::new()
        .name("resolve".into())
        .spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs();
            let found = found.map(Vec::from_iter).map_err(|e| e.to_string());
            // The receiver is gone where the deadline has passed.
            let _ = sender.send(found);
        })
        .map_err(|source| io_error("start a thread for the name's look-up", source))?;
    loop {
        if stop.requested() {
            return Err(ControlError::Interrupted);
        }
        match receiver.recv_timeout(Duration::from_millis(50)) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => return Ok(Err("the resolver did not answer in time".into())),
        }
    }
}

/// How one round over the addresses ended.
struct Round {
    stream: Option<TcpStream>,
    /// Every address failed in a way that waiting does not cure.
    hopeless: bool,
}

fn dial(
    target: &Target<'_>,
    addresses: &[SocketAddr],
    answers: &mut BTreeMap<SocketAddr, String>,
    end: Instant,
    stop: &Stop,
) -> Result<Round, ControlError> {
    let mut queue = addresses.iter().copied();
    let mut flying: Vec<(Socket, SocketAddr)> = Vec::new();
    let mut hopeless = true;
    let mut next_start = Instant::now();
    let mut fail = |address: SocketAddr, error: io::Error, hopeless: &mut bool| {
        *hopeless &= is_final(&error);
        answers.insert(address, error.to_string());
    };
    let mut all_started = false;
    loop {
        if !all_started && (flying.is_empty() || Instant::now() >= next_start) {
            match queue.next() {
                Some(address) => match launch(target, address) {
                    Ok(socket) => flying.push((socket, address)),
                    Err(error) => fail(address, error, &mut hopeless),
                },
                None => all_started = true,
            }
            next_start = Instant::now() + STAGGER;
            if !all_started && flying.is_empty() {
                continue;
            }
        }
        if all_started && flying.is_empty() {
            return Ok(Round { stream: None, hopeless });
        }
        let until = if all_started { end } else { end.min(next_start) };
        let mut fds: Vec<_> = flying.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::OUT)).collect();
        let wake = wait::wait(&mut fds, Some(until), stop).map_err(|source| io_error("wait for the server", source))?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        match wake {
            Wake::Stopped => return Err(ControlError::Interrupted),
            Wake::Deadline if Instant::now() >= end => {
                for (_, address) in flying {
                    let error = io::Error::new(io::ErrorKind::TimedOut, "no answer");
                    fail(address, error, &mut hopeless);
                }
                return Ok(Round { stream: None, hopeless: false });
            }
            Wake::Deadline | Wake::Ready => {}
        }
        let mut still = Vec::new();
        for ((socket, address), ready) in flying.into_iter().zip(ready) {
            if !ready {
                still.push((socket, address));
                continue;
            }
            match landed(&socket) {
                Ok(()) => {
                    return Ok(Round { stream: Some(socket.into()), hopeless: false });
                }
                Err(error) => fail(address, error, &mut hopeless),
            }
        }
        flying = still;
    }
}

/// Starts a connection without waiting for it.
fn launch(target: &Target<'_>, address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if target.local.is_some() || target.local_port != 0 {
        let local = local_end(target, address);
        socket.set_reuse_address(true)?;
        socket
            .bind(&local.into())
            .map_err(|e| io::Error::new(e.kind(), format!("cannot connect from {local}: {e}")))?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => Ok(socket),
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok(socket),
        Err(e) => Err(e),
    }
}

/// The end to connect from; a link-local address is on the link over which the peer is reached.
fn local_end(target: &Target<'_>, peer: SocketAddr) -> SocketAddr {
    let (any, scope) = match peer {
        SocketAddr::V4(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        SocketAddr::V6(peer) => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), peer.scope_id()),
    };
    match target.local.unwrap_or(any) {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, target.local_port, 0, scope).into(),
        ip => SocketAddr::new(ip, target.local_port),
    }
}

fn landed(socket: &Socket) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
    // Where the port is one that the system hands out and nobody listens, a retried connection can
    // meet itself.
    if local.as_socket() == peer.as_socket() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}

fn greet(stream: TcpStream, hello: &Hello, deadline: Instant, stop: &Stop) -> Result<Control, ControlError> {
    let mut link = Link::new(stream, stop)?;
    link.phase = "waiting for the server's greeting (it may be busy with another client)";
    link.send_hello(hello, deadline)?;
    let theirs = link.recv_hello(hello, deadline)?;
    Ok(Control::new(link, theirs))
}

/// Whether an error stays, however long one waits.
fn is_final(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::AddrNotAvailable
            | Kind::AddrInUse
            | Kind::InvalidInput
            | Kind::PermissionDenied
            | Kind::NetworkUnreachable
            | Kind::Unsupported
    )
}

fn unreachable(
    target: &Target<'_>,
    addresses: &[SocketAddr],
    answers: &BTreeMap<SocketAddr, String>,
    start: Instant,
) -> ControlError {
    let attempts: Vec<String> = addresses
        .iter()
        .map(|address| {
            let answer = answers.get(address).map_or("not tried", String::as_str);
            format!("{address}: {answer}")
        })
        .collect();
    ControlError::Connect {
        host: target.host.into(),
        port: target.port,
        waited: start.elapsed(),
        attempts: attempts.join("; "),
    }
}

fn io_error(what: &'static str, source: io::Error) -> ControlError {
    ControlError::Io { what, source }
}
