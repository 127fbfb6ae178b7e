//! What a device is like.

use super::super::pace::{RtoBounds, WindowBounds};
use super::super::packet::FabricKey;
use super::super::types::Gid;

/// Operations that a generation of EFA has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// RDMA read.
    pub read: bool,
    /// RDMA write, with and without immediate data.
    pub write: bool,
    /// Writes with immediate data that use up no receive.
    pub unsolicited_writes: bool,
}

/// The fixed properties of a device. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its name on the fabric.
    pub gid: Gid,
    /// The secret shared by the fabric.
    pub key: FabricKey,
    /// Seed of packet numbers, incarnations and registration keys.
    pub seed: u64,
    /// Payload bytes of a packet at most, the longest send.
    pub mtu: u32,
    /// Longest RDMA operation.
    pub max_rdma: u32,
    /// Queue pairs at most, a power of two: their numbers are unique modulo this.
    pub max_qp: u32,
    /// Operations that exist.
    pub features: Features,
    /// Bounds of the retransmission time-out.
    pub rto: RtoBounds,
    /// Packets under way to one peer.
    pub window: WindowBounds,
    /// After this long without an answer a peer counts as gone.
    pub timeout_ns: u64,
    /// An acknowledgement waits this long for others, or for a packet that carries it.
    pub ack_delay_ns: u64,
    /// This many packets are acknowledged at once, whatever the delay.
    pub ack_every: u32,
    /// First delay before a message that met no receive is sent again; doubled each time.
    pub rnr_delay_ns: u64,
    /// The longest such delay.
    pub rnr_delay_max_ns: u64,
    /// Flows over which packets are spread, at least 1.
    pub flows: u8,
    /// RDMA needs an address handle for the initiator at the target, as on EFA.
    pub rdma_needs_ah: bool,
    /// The first packet number of every connection, for tests of the wrap; random where `None`.
    pub first_psn: Option<u32>,
}

impl DeviceConfig {
    /// A device with the limits of the last EFA generation, and times that suit a machine whose processes
    /// share cores.
    pub fn new(gid: Gid, key: FabricKey, seed: u64) -> DeviceConfig {
        DeviceConfig {
            gid,
            key,
            seed,
            mtu: 8928,
            max_rdma: 1 << 30,
            max_qp: 256,
            features: Features { read: true, write: true, unsolicited_writes: true },
            rto: RtoBounds { first_ns: 20_000_000, min_ns: 4_000_000, max_ns: 100_000_000 },
            window: WindowBounds { first: 64, max: 512 },
            timeout_ns: 5_000_000_000,
            ack_delay_ns: 20_000,
            ack_every: 16,
            rnr_delay_ns: 100_000,
            rnr_delay_max_ns: 10_000_000,
            flows: 1,
            rdma_needs_ah: true,
            first_psn: None,
        }
    }
}
