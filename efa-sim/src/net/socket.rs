//! The UDP socket of a queue pair: its port is the queue pair's number.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::{RecvBatch, SendBatch, refused};

/// Bytes of socket buffer asked for: the window of many senders at once.
const BUFFER: libc::c_int = 16 << 20;

/// Attempts to get a port. The kernel picks a free one, so more than one attempt means that none is.
const ATTEMPTS: usize = 8;

/// A bound socket that never blocks.
#[derive(Debug)]
pub struct QpSocket {
    socket: UdpSocket,
    port: u16,
}

impl QpSocket {
    /// Binds a port of `ip` that nobody else has.
    ///
    /// # Errors
    ///
    /// The address is not of this host, or all ports are taken.
    pub fn bind(ip: IpAddr) -> io::Result<Self> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::try_bind(ip) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
    }

    fn try_bind(ip: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(ip, 0))?;
        socket.set_nonblocking(true)?;
        enlarge(&socket, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE);
        enlarge(&socket, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE);
        refused::keep_errors(socket.as_raw_fd(), ip);
        let port = socket.local_addr()?.port();
        Ok(QpSocket { socket, port })
    }

    /// The port, which is the number of the queue pair.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends the packets of a batch and empties it; how many left.
    ///
    /// What the kernel does not take is lost: the protocol above sends again. A full socket buffer, an
    /// unreachable network and a filter all look like a lossy network, as they should.
    pub fn send(&self, batch: &mut SendBatch) -> usize {
        batch.send(self.socket.as_raw_fd())
    }

    /// Receives what is there, up to a batch; how many packets.
    pub fn receive(&self, batch: &mut RecvBatch) -> usize {
        batch.receive(self.socket.as_raw_fd())
    }

    /// The next peer whose host says that the port is closed; none when all were told.
    pub fn next_refused(&self) -> Option<SocketAddr> {
        refused::next_refused(self.socket.as_raw_fd())
    }
}

impl AsFd for QpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Asks for a large buffer: past the system's limit where this process may, up to it otherwise.
fn enlarge(socket: &UdpSocket, option: libc::c_int, forced: libc::c_int) {
    for option in [forced, option] {
        let value = BUFFER;
        // SAFETY: the descriptor is open, and the value is an int of the given size.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if result == 0 {
            return;
        }
    }
}
