//! Addresses of endpoints, as bytes that travel.

use std::fmt;
use std::net::SocketAddr;

/// The address of an endpoint, in the provider's own format: send it to a peer over any channel.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(Vec<u8>);

impl Address {
    /// An address received from a peer.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Address {
        Address(bytes.into())
    }

    /// The bytes to send to a peer.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The IP address and port, where the provider's addresses are such.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        crate::info::socket_address(&self.0)
    }
}

impl fmt::Display for Address {
    /// An IP address and port, a printable string such as shm's, or hexadecimal bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.socket_addr() {
            return write!(f, "{address}");
        }
        let text = self.0.strip_suffix(b"\0").unwrap_or(&self.0);
        if !text.is_empty() && text.iter().all(|b| b.is_ascii_graphic()) {
            return f.write_str(&String::from_utf8_lossy(text));
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_readable_in_every_format() {
        let mut v4 = vec![2, 0, 0x1f, 0x90, 10, 0, 0, 7];
        v4.resize(16, 0);
        assert_eq!(Address::from_bytes(v4).to_string(), "10.0.0.7:8080");
        assert_eq!(Address::from_bytes(*b"fi_shm://77:0:ep\0").to_string(), "fi_shm://77:0:ep");
        assert_eq!(Address::from_bytes([0xfe, 0x80, 0]).to_string(), "fe8000");
        assert_eq!(Address::from_bytes([]).to_string(), "");
    }
}
