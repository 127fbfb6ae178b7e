//! What can go wrong on the control connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// An error of the control connection, with the phase and the peer where they are known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The host's name has no address.
    #[error(
        "cannot find an address of '{host}': {detail}; check the spelling (`getent hosts {host}`), \
         or give the address itself"
    )]
    Resolve {
        /// Name as it was typed.
        host: String,
        /// What the resolver said.
        detail: String,
    },
    /// No address of the server took the connection.
    #[error(
        "cannot reach the server on '{host}', port {port}, in {waited:.1?}: {attempts}; start the \
         server there first, check --port, and see that no firewall is in between"
    )]
    Connect {
        /// Name as it was typed.
        host: String,
        /// Port of the server.
        port: u16,
        /// How long it was tried.
        waited: Duration,
        /// Each address with what it answered last.
        attempts: String,
    },
    /// Another process listens on the port.
    #[error(
        "port {port} is in use on {address}: another server is running there (`ss -ltnp` shows \
         it); use another port on both sides (--port N), or --port 0 to have a free one chosen \
         and printed"
    )]
    InUse {
        /// Address that was asked for.
        address: String,
        /// Port that was asked for.
        port: u16,
    },
    /// The server cannot listen.
    #[error("cannot listen on {address}, port {port}: {source}")]
    Listen {
        /// Address that was asked for.
        address: String,
        /// Port that was asked for.
        port: u16,
        /// Answer of the system.
        source: io::Error,
    },
    /// The two sides are of versions that do not understand each other.
    #[error(
        "the versions do not fit: this side is {ours}, {peer} is {theirs}; install the same \
         version on both"
    )]
    Version {
        /// The other side.
        peer: SocketAddr,
        /// Protocol and tool version of this side.
        ours: String,
        /// Protocol and tool version of the other side.
        theirs: String,
    },
    /// Something else answers on that port.
    #[error("{peer} is no server of this tool: it {detail}; check the host and --port")]
    NotOurs {
        /// The other side.
        peer: SocketAddr,
        /// What it did.
        detail: String,
    },
    /// A deadline passed.
    #[error("{phase}: nothing from {peer} on the control connection in {waited:.1?}")]
    Timeout {
        /// What was being done.
        phase: &'static str,
        /// The other side.
        peer: SocketAddr,
        /// How long it was waited.
        waited: Duration,
    },
    /// The connection ended although the peer had more to do.
    #[error(
        "{phase}: the peer {peer} is gone ({detail}): it was killed, it failed, or its host is \
         no longer reachable"
    )]
    PeerDied {
        /// What was being done.
        phase: &'static str,
        /// The other side.
        peer: SocketAddr,
        /// End of file, or the system's error.
        detail: String,
    },
    /// The peer said that it gives up.
    #[error("{phase}: the peer {peer} gave up: {reason}")]
    PeerAborted {
        /// What was being done.
        phase: &'static str,
        /// The other side.
        peer: SocketAddr,
        /// In its words.
        reason: String,
    },
    /// The peer is at another point of the protocol.
    #[error("{phase}: expected {expected} from {peer} and got {got}; this is a bug in this tool")]
    Unexpected {
        /// What was being done.
        phase: &'static str,
        /// The other side.
        peer: SocketAddr,
        /// Message that had to come.
        expected: String,
        /// Message that came.
        got: String,
    },
    /// The peer sent what is no message.
    #[error("{phase}: {peer} {detail}; use the same version of this tool on both sides")]
    Malformed {
        /// What was being done.
        phase: &'static str,
        /// The other side.
        peer: SocketAddr,
        /// What is wrong.
        detail: String,
    },
    /// A message of this side is too long or cannot be written.
    #[error("cannot send the message {message}: {detail}; this is a bug in this tool")]
    Encode {
        /// Name of the message.
        message: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// A signal, or another thread, asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Answer of the system.
        source: io::Error,
    },
}

impl ControlError {
    /// Whether the peer is to blame for the end: it is gone or gave up.
    pub fn is_peer_gone(&self) -> bool {
        matches!(self, ControlError::PeerDied { .. } | ControlError::PeerAborted { .. })
    }
}

/// Makes text from a peer safe to print: no control characters, and not endless.
pub(super) fn printable(text: &str) -> String {
    const MOST: usize = 2000;
    text.chars().take(MOST).map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}
