//! Ports that the peer's host says are closed.

use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::ptr;

/// Asks the kernel to keep the errors that come back for packets of a socket.
pub(super) fn keep_errors(fd: RawFd, ip: IpAddr) {
    let (level, option) = match ip {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    };
    let on: libc::c_int = 1;
    // Without it a closed port shows only as silence.
    // SAFETY: the descriptor is open, and the value is an int of the given size.
    unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), size_of_val(&on) as libc::socklen_t) };
}

/// The next port that was refused; none when all were told.
pub(super) fn next_refused(fd: RawFd) -> Option<SocketAddr> {
    loop {
        let (address, error) = next_error(fd)?;
        if error == Some(libc::ECONNREFUSED)
            && let Some(address) = address
        {
            return Some(address);
        }
    }
}

/// Takes one error: where the packet went, and what became of it.
fn next_error(fd: RawFd) -> Option<(Option<SocketAddr>, Option<libc::c_int>)> {
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    // Aligned for the headers in it, and large enough for the error and the offender's address.
    let mut control = [0u64; 32];
    // SAFETY: null pointers, zero lengths and zero flags are a valid header.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points to an address and to a buffer that are valid for their lengths.
    let result = unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if result < 0 {
        return None;
    }
    // SAFETY: the storage was zeroed, and zeros are an address of no family; the kernel wrote over it.
    let name = unsafe { name.assume_init() };
    Some((socket_address(&name), error_number(&header)))
}

/// The error number in the first control message, where the kernel puts it.
fn error_number(header: &libc::msghdr) -> Option<libc::c_int> {
    // SAFETY: the header was filled in by the kernel.
    let first = unsafe { libc::CMSG_FIRSTHDR(ptr::from_ref(header)) };
    if first.is_null() {
        return None;
    }
    // SAFETY: not null, so it points into the control buffer.
    let message = unsafe { first.read() };
    let known = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    if !known.contains(&(message.cmsg_level, message.cmsg_type)) {
        return None;
    }
    // SAFETY: a message of the kernel's, which has data.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: messages of these types start with `struct sock_extended_err`, whose first field this is.
    let number = unsafe { data.cast::<u32>().read_unaligned() };
    libc::c_int::try_from(number).ok()
}

/// An address of the C library as one of ours.
fn socket_address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage is large enough, and the family says what is in it.
            let v4 = unsafe { ptr::from_ref(name).cast::<libc::sockaddr_in>().read() };
            let ip = IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the storage is large enough, and the family says what is in it.
            let v6 = unsafe { ptr::from_ref(name).cast::<libc::sockaddr_in6>().read() };
            Some(SocketAddr::new(IpAddr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{QpSocket, RecvBatch, SendBatch};
    use super::*;

    #[test]
    fn a_closed_port_is_told() {
        for ip in [IpAddr::from([127, 0, 0, 1]), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)] {
            let (Ok(from), Ok(to)) = (QpSocket::bind(ip), QpSocket::bind(ip)) else {
                eprintln!("SKIPPED: a_closed_port_is_told: {ip} is not of this host");
                continue;
            };
            let port = to.port();
            drop(to);
            let mut sends = SendBatch::new(64);
            sends.push(8, ip, port);
            from.send(&mut sends);
            // Loopback has the answer back before the call returns.
            assert_eq!(from.receive(&mut RecvBatch::new(64)), 0);
            assert_eq!(from.next_refused(), Some(SocketAddr::new(ip, port)));
            assert_eq!(from.next_refused(), None);
        }
    }
}
