//! Faults that a device has on demand.

use super::types::Gid;

/// A set of peers that a fault applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// To none: no fault.
    #[default]
    None,
    /// To all.
    All,
    /// To these devices.
    Some(Vec<Gid>),
}

impl Peers {
    /// Whether `gid` is in the set.
    pub fn contains(&self, gid: &Gid) -> bool {
        match self {
            Peers::None => false,
            Peers::All => true,
            Peers::Some(gids) => gids.contains(gid),
        }
    }
}

/// What is broken about a device just now. The defaults break nothing.
///
/// Loss, duplication, reordering, latency and bandwidth belong to [`Link`](super::link::Link).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Packets to these peers vanish, as with a security group that lacks the egress rule.
    pub drop_egress: Peers,
    /// Packets from these peers vanish.
    pub drop_ingress: Peers,
    /// Every message that needs a posted receive is answered "not ready".
    pub receiver_not_ready: bool,
    /// Least nanoseconds between two messages taken in by one queue pair; those between are answered "not
    /// ready". 0 is no limit.
    pub receive_interval_ns: u64,
    /// The next completion finds its queue full, once.
    pub overrun_completions: bool,
}
