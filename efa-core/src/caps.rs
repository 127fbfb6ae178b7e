//! Capability and mode bits, by their libfabric names.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// What an endpoint must be able to do (`caps` of `fi_getinfo(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caps(u64);

impl Caps {
    /// Send and receive messages.
    pub const MSG: Caps = Caps(efa_sys::FI_MSG);
    /// Send and receive messages matched by tag.
    pub const TAGGED: Caps = Caps(efa_sys::FI_TAGGED);
    /// Receive from one named peer only.
    pub const DIRECTED_RECV: Caps = Caps(efa_sys::FI_DIRECTED_RECV);
    /// Report who sent a message.
    pub const SOURCE: Caps = Caps(efa_sys::FI_SOURCE);

    const NAMES: [(u64, &'static str); 18] = [
        (efa_sys::FI_MSG, "FI_MSG"),
        (efa_sys::FI_RMA, "FI_RMA"),
        (efa_sys::FI_TAGGED, "FI_TAGGED"),
        (efa_sys::FI_ATOMIC, "FI_ATOMIC"),
        (efa_sys::FI_MULTICAST, "FI_MULTICAST"),
        (efa_sys::FI_COLLECTIVE, "FI_COLLECTIVE"),
        (efa_sys::FI_READ, "FI_READ"),
        (efa_sys::FI_WRITE, "FI_WRITE"),
        (efa_sys::FI_RECV, "FI_RECV"),
        (efa_sys::FI_SEND, "FI_SEND"),
        (efa_sys::FI_REMOTE_READ, "FI_REMOTE_READ"),
        (efa_sys::FI_REMOTE_WRITE, "FI_REMOTE_WRITE"),
        (efa_sys::FI_MULTI_RECV, "FI_MULTI_RECV"),
        (efa_sys::FI_DIRECTED_RECV, "FI_DIRECTED_RECV"),
        (efa_sys::FI_SOURCE, "FI_SOURCE"),
        (efa_sys::FI_LOCAL_COMM, "FI_LOCAL_COMM"),
        (efa_sys::FI_REMOTE_COMM, "FI_REMOTE_COMM"),
        (efa_sys::FI_HMEM, "FI_HMEM"),
    ];

    /// The bits of a C `caps` field.
    pub const fn from_bits(bits: u64) -> Caps {
        Caps(bits)
    }

    /// The bits, for a C `caps` field.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Caps) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Caps {
    type Output = Caps;
    fn bitor(self, other: Caps) -> Caps {
        Caps(self.0 | other.0)
    }
}

impl BitAnd for Caps {
    type Output = Caps;
    fn bitand(self, other: Caps) -> Caps {
        Caps(self.0 & other.0)
    }
}

impl BitOrAssign for Caps {
    fn bitor_assign(&mut self, other: Caps) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (_, name) in Caps::NAMES.iter().filter(|(bit, _)| self.0 & bit == *bit) {
            if !std::mem::replace(&mut first, false) {
                f.write_str("|")?;
            }
            f.write_str(name)?;
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caps({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_read_as_their_c_names() {
        assert_eq!((Caps::MSG | Caps::TAGGED).to_string(), "FI_MSG|FI_TAGGED");
        assert_eq!(Caps::default().to_string(), "none");
        assert!((Caps::MSG | Caps::TAGGED).contains(Caps::MSG));
        assert!(!Caps::MSG.contains(Caps::TAGGED));
    }
}
