//! Packets that go through one system call together.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::ptr;

use libc::{iovec, mmsghdr, msghdr, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// Packets of one system call at most.
pub const BATCH: usize = 32;

/// Packets to send: storage that is made once, and filled again and again.
///
/// The kernel's structures point into the other arrays of the batch. None of the arrays ever moves or
/// grows, for they are boxed slices that no method hands out.
pub struct SendBatch {
    slots: Box<[u8]>,
    slot_len: usize,
    iovecs: Box<[iovec]>,
    names: Box<[sockaddr_storage]>,
    headers: Box<[mmsghdr]>,
    filled: usize,
    failed: bool,
}

/// Packets received: as [`SendBatch`].
pub struct RecvBatch {
    slots: Box<[u8]>,
    slot_len: usize,
    iovecs: Box<[iovec]>,
    headers: Box<[mmsghdr]>,
    /// Whether packets come faster than one per call.
    busy: bool,
    /// Whether the last call for a single packet got one.
    hit: bool,
    /// Whether the last call told of an error, of an earlier packet maybe.
    failed: bool,
}

// SAFETY: the raw pointers inside point into the batch's own boxes, which move with it.
unsafe impl Send for SendBatch {}
// SAFETY: as for `SendBatch`.
unsafe impl Send for RecvBatch {}

impl SendBatch {
    /// A batch for packets of at most `slot_len` bytes.
    pub fn new(slot_len: usize) -> Self {
        let mut slots = vec![0; slot_len * BATCH].into_boxed_slice();
        let mut iovecs = iovecs(&mut slots, slot_len);
        let mut names: Box<[sockaddr_storage]> = (0..BATCH).map(|_| no_address()).collect();
        let mut headers = headers(&mut iovecs);
        for (header, name) in headers.iter_mut().zip(&mut names) {
            header.msg_hdr.msg_name = ptr::from_mut(name).cast();
        }
        SendBatch { slots, slot_len, iovecs, names, headers, filled: 0, failed: false }
    }

    /// Room for the next packet, none when the batch is full.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.filled >= BATCH {
            return None;
        }
        let start = self.filled * self.slot_len;
        self.slots.get_mut(start..start + self.slot_len)
    }

    /// Takes the first `len` bytes of the slot into the batch, for a peer.
    pub fn push(&mut self, len: usize, ip: IpAddr, port: u16) {
        let index = self.filled;
        if let (Some(iovec), Some(name), Some(header)) =
            (self.iovecs.get_mut(index), self.names.get_mut(index), self.headers.get_mut(index))
        {
            iovec.iov_len = len.min(self.slot_len);
            header.msg_hdr.msg_namelen = set_address(name, ip, port);
            self.filled = index + 1;
        }
    }

    /// Packets in the batch.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether the batch has no packets.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whether the last call told of an error: more is known from the socket.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Throws the packets away.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    pub(super) fn send(&mut self, fd: RawFd) -> usize {
        self.failed = false;
        if self.filled == 1 {
            self.filled = 0;
            return self.send_one(fd);
        }
        let mut done = 0;
        let mut lost = 0;
        while done < self.filled {
            let Some(rest) = self.headers.get_mut(done..self.filled) else {
                break;
            };
            // SAFETY: each header points to an address and to one piece of memory of this batch, all
            // valid for the length of the call, and there are as many as said.
            let sent =
                unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as libc::c_uint, libc::MSG_DONTWAIT as _) };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                // The first packet is refused: it is lost, the others may still go.
                _ => {
                    self.failed |= is_error();
                    done += 1;
                    lost += 1;
                }
            }
        }
        let total = self.filled;
        self.filled = 0;
        total - lost
    }

    fn send_one(&mut self, fd: RawFd) -> usize {
        let (Some(iovec), Some(header)) = (self.iovecs.first(), self.headers.first()) else {
            return 0;
        };
        // SAFETY: the piece of memory and the address are those of this batch, valid with their lengths.
        let sent = unsafe {
            libc::sendto(
                fd,
                iovec.iov_base,
                iovec.iov_len,
                libc::MSG_DONTWAIT,
                header.msg_hdr.msg_name.cast(),
                header.msg_hdr.msg_namelen,
            )
        };
        self.failed = sent < 0 && is_error();
        usize::from(sent >= 0)
    }
}

impl RecvBatch {
    /// A batch for packets of at most `slot_len` bytes; longer ones are cut off, and so not understood.
    pub fn new(slot_len: usize) -> Self {
        let mut slots = vec![0; slot_len * BATCH].into_boxed_slice();
        let mut iovecs = iovecs(&mut slots, slot_len);
        let headers = headers(&mut iovecs);
        RecvBatch { slots, slot_len, iovecs, headers, busy: false, hit: false, failed: false }
    }

    /// A packet of the last [`QpSocket::receive`](super::QpSocket::receive).
    pub fn packet(&self, index: usize) -> &[u8] {
        let len = self.headers.get(index).map_or(0, |header| header.msg_len as usize);
        let start = index * self.slot_len;
        self.slots.get(start..start + len.min(self.slot_len)).unwrap_or(&[])
    }

    /// Receives one packet while they come one by one, which is what latency is made of: the call for a
    /// single packet is shorter, and it does not look for a second one. Receives a batch otherwise.
    pub(super) fn receive(&mut self, fd: RawFd) -> usize {
        self.failed = false;
        if self.busy {
            let count = self.receive_batch(fd);
            self.busy = count > 1;
            return count;
        }
        let hit = self.receive_one(fd);
        self.busy = hit && self.hit;
        self.hit = hit;
        usize::from(hit)
    }

    fn receive_one(&mut self, fd: RawFd) -> bool {
        // SAFETY: the batch has at least one slot of this length, used by nobody else.
        let received = unsafe { libc::recv(fd, self.slots.as_mut_ptr().cast(), self.slot_len, libc::MSG_DONTWAIT) };
        match (u32::try_from(received), self.headers.first_mut()) {
            (Ok(length), Some(header)) => {
                header.msg_len = length;
                true
            }
            _ => {
                self.failed = is_error();
                false
            }
        }
    }

    /// Whether the last call told of an error: more is known from the socket.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn receive_batch(&mut self, fd: RawFd) -> usize {
        debug_assert_eq!(self.iovecs.len(), BATCH);
        // SAFETY: each header points to one piece of memory of this batch, valid for the length of the
        // call and used by nobody else, and there are as many as said; the time-out may be null.
        let received = unsafe {
            libc::recvmmsg(
                fd,
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).unwrap_or_else(|_| {
            self.failed = is_error();
            0
        })
    }
}

/// Whether the call that just failed did so for more than lack of packets or of room.
fn is_error() -> bool {
    std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock
}

fn iovecs(slots: &mut [u8], slot_len: usize) -> Box<[iovec]> {
    slots
        .chunks_exact_mut(slot_len)
        .map(|slot| iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot_len })
        .collect()
}

fn headers(iovecs: &mut [iovec]) -> Box<[mmsghdr]> {
    iovecs.iter_mut().map(|iovec| mmsghdr { msg_hdr: header(iovec), msg_len: 0 }).collect()
}

fn header(iovec: &mut iovec) -> msghdr {
    // SAFETY: null pointers, zero lengths and zero flags are a valid header; some C libraries have
    // padding fields with names of their own, so that it cannot be written as a literal.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = ptr::from_mut(iovec);
    header.msg_iovlen = 1;
    header
}

fn no_address() -> sockaddr_storage {
    // SAFETY: zeros are a valid address structure, of family AF_UNSPEC.
    unsafe { std::mem::zeroed() }
}

/// Writes an address; its length.
fn set_address(name: &mut sockaddr_storage, ip: IpAddr, port: u16) -> libc::socklen_t {
    match ip {
        IpAddr::V4(v4) => {
            let address = sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every kind of address.
            unsafe { ptr::from_mut(name).cast::<sockaddr_in>().write(address) };
            size_of::<sockaddr_in>() as libc::socklen_t
        }
        IpAddr::V6(v6) => {
            let address = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.octets() },
                sin6_scope_id: 0,
            };
            // SAFETY: the storage is large enough and aligned for every kind of address.
            unsafe { ptr::from_mut(name).cast::<sockaddr_in6>().write(address) };
            size_of::<sockaddr_in6>() as libc::socklen_t
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::QpSocket;
    use super::*;

    fn round_trip(ip: IpAddr) {
        let (Ok(from), Ok(to)) = (QpSocket::bind(ip), QpSocket::bind(ip)) else {
            eprintln!("SKIPPED: round_trip: {ip} is not of this host");
            return;
        };
        let mut sends = SendBatch::new(9216);
        let mut receives = RecvBatch::new(9216);
        assert_eq!(to.receive(&mut receives), 0);
        for index in 0..BATCH {
            let slot = sends.slot().unwrap();
            slot[..index].fill(index as u8);
            sends.push(index, ip, to.port());
        }
        assert!(sends.slot().is_none());
        assert_eq!(from.send(&mut sends), BATCH);
        assert!(sends.is_empty());
        let mut arrived = 0;
        while arrived < BATCH {
            let count = to.receive(&mut receives);
            assert_ne!(count, 0);
            for index in 0..count {
                assert_eq!(receives.packet(index), vec![(arrived + index) as u8; arrived + index]);
            }
            arrived += count;
        }
    }

    #[test]
    fn a_batch_arrives_in_both_families() {
        round_trip(IpAddr::from([127, 0, 0, 1]));
        round_trip(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn a_packet_that_the_kernel_refuses_does_not_hold_up_the_others() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        let (from, to) = (QpSocket::bind(ip).unwrap(), QpSocket::bind(ip).unwrap());
        let mut sends = SendBatch::new(64);
        for port in [to.port(), 0, to.port()] {
            sends.push(8, ip, port);
        }
        assert_eq!(from.send(&mut sends), 2);
        let mut receives = RecvBatch::new(64);
        assert_eq!((to.receive(&mut receives), to.receive(&mut receives), to.receive(&mut receives)), (1, 1, 0));
    }
}
