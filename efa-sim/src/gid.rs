//! What a GID means here: the IP address that a device is bound to.
//!
//! libfabric carries the 16 bytes in its addresses and otherwise leaves them alone, so they hold an
//! IPv6 address as it is, or an IPv4 address in the mapped form `::ffff:a.b.c.d` (RFC 4291, section
//! 2.5.5.2). Whoever holds a peer's address can reach it.

use std::net::{IpAddr, Ipv6Addr};

use crate::model::Gid;

impl Gid {
    /// The IP address of the device.
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Gid(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Gid(v6.octets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_come_back_from_a_gid() {
        for text in ["127.0.0.2", "10.1.2.3", "::1", "fe80::1", "2001:db8::5"] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(Gid::from(ip).ip(), ip);
        }
    }
}
