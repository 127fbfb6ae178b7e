//! The nouns that cross the boundary of the model: names, work requests, completions, errors.

use std::fmt;

/// The 16 bytes that name a device on the fabric.
///
/// The adapter decides what they mean (it embeds an IPv4 or IPv6 address); the model only compares them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::net::Ipv6Addr::from(self.0))
    }
}

/// The number of a queue pair, chosen by the adapter and unique on its [`Gid`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Qpn(pub u32);

/// The number of a completion queue of one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cqn(pub u32);

/// The number of an address handle, 16 bits as in EFA's completion entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AhNumber(pub u16);

impl AhNumber {
    /// What a receive completion carries where the sender has no address handle here.
    pub const UNKNOWN: AhNumber = AhNumber(0xffff);
}

/// The key of a registration, local and remote key in one as on EFA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MrKey(pub u32);

/// A protection domain: registrations serve only the queue pairs of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pd(pub u32);

/// How an operation ended: the `efa_io_comp_status` codes, which the provider shows as `prov_errno`.
///
/// Source of the numbers: `efa_errno.h` of libfabric 2.5.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The queue pair went away or into its error state first.
    Flushed = 1,
    /// The queue pair is broken.
    QpInternalError = 2,
    /// This generation of the device has no such operation.
    UnsupportedOp = 3,
    /// No such address handle.
    InvalidAh = 4,
    /// A local buffer is outside its registration, or lacks the access.
    InvalidLkey = 5,
    /// Longer than the device carries.
    BadLength = 6,
    /// The remote memory is not registered for this.
    RemoteBadAddress = 7,
    /// The peer gave up.
    RemoteAbort = 8,
    /// The peer's queue pair is gone or in its error state.
    RemoteBadDestQpn = 9,
    /// The peer had no receive posted for as long as the retries lasted.
    RemoteRnr = 10,
    /// The peer's receive buffer is too short.
    RemoteBadLength = 11,
    /// The peer answered something that cannot be.
    RemoteBadStatus = 12,
    /// The peer answered before and no longer does.
    UnresponsiveRemote = 13,
    /// The target of an RDMA operation has no address handle for the initiator.
    RemoteUnknownPeer = 14,
    /// The peer never answered.
    UnreachableRemote = 15,
    /// The peer's device lacks the feature.
    RemoteFeatureMismatch = 18,
}

impl Status {
    /// The code as in a completion entry.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The status of a code, `None` for a code that no device gives.
    pub fn from_code(code: u8) -> Option<Status> {
        use Status::*;
        const ALL: [Status; 17] = [
            Ok,
            Flushed,
            QpInternalError,
            UnsupportedOp,
            InvalidAh,
            InvalidLkey,
            BadLength,
            RemoteBadAddress,
            RemoteAbort,
            RemoteBadDestQpn,
            RemoteRnr,
            RemoteBadLength,
            RemoteBadStatus,
            UnresponsiveRemote,
            RemoteUnknownPeer,
            UnreachableRemote,
            RemoteFeatureMismatch,
        ];
        ALL.into_iter().find(|status| status.code() == code)
    }
}

/// What a registration allows, with the bits of `IBV_ACCESS_*`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access(pub u32);

impl Access {
    /// Reading by the local device, which every registration allows.
    pub const LOCAL_READ: Access = Access(0);
    /// Receives and RDMA read results may be written.
    pub const LOCAL_WRITE: Access = Access(1);
    /// Peers may write.
    pub const REMOTE_WRITE: Access = Access(2);
    /// Peers may read.
    pub const REMOTE_READ: Access = Access(4);

    /// Both.
    #[must_use]
    pub fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Whether everything in `wanted` is allowed.
    pub fn allows(self, wanted: Access) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// A piece of registered local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Its address, in the registration's own (IOVA) addresses.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The key of its registration.
    pub lkey: u32,
}

/// A receive to post.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes, at most [`MAX_RECV_SGES`] pieces.
    pub sges: &'a [Sge],
}

/// Most pieces of a receive.
pub const MAX_RECV_SGES: usize = 3;
/// Most pieces of a send, RDMA write or read.
pub const MAX_SEND_SGES: usize = 2;
/// Most bytes sent inline.
pub const MAX_INLINE: usize = 32;
/// Bytes that a datagram queue pair's receive buffer has in front of the message.
pub const UD_PREFIX: u32 = 40;

/// What a send queue entry does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SendOp {
    /// A message, at most one MTU, into a posted receive.
    Send,
    /// RDMA write; with immediate data it also completes at the target.
    Write,
    /// RDMA read.
    Read,
}

/// The bytes of a send queue entry.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Registered memory, which belongs to the device until the completion.
    Sges(&'a [Sge]),
    /// Copied when posted, at most [`MAX_INLINE`] bytes.
    Inline(&'a [u8]),
}

/// Where a send queue entry goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The address handle of the peer's device.
    pub ah: AhNumber,
    /// The peer's queue pair.
    pub qpn: Qpn,
    /// The key that the peer's queue pair was given.
    pub qkey: u32,
}

/// The remote memory of an RDMA operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remote {
    /// Its address as the target's registration counts.
    pub addr: u64,
    /// The key of the target's registration.
    pub rkey: u32,
}

/// A send queue entry to post.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What it does.
    pub op: SendOp,
    /// The local bytes: source of a send or write, target of a read.
    pub payload: Payload<'a>,
    /// Immediate data, as the 32 bits that the peer will read.
    pub imm: Option<u32>,
    /// The peer.
    pub dest: Destination,
    /// The remote memory; unused by a send.
    pub remote: Remote,
}

/// What completed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompletionOp {
    /// A send was acknowledged.
    Send,
    /// An RDMA write is in the target's memory.
    Write,
    /// An RDMA read has arrived. EFA reports it as a send.
    Read,
    /// A message has arrived.
    Recv,
    /// A peer's RDMA write with immediate data is in memory here.
    RecvWriteImm,
}

/// An entry of a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The number given when it was posted; 0 where `unsolicited`.
    pub wr_id: u64,
    /// The local queue pair.
    pub qpn: Qpn,
    /// How it ended.
    pub status: Status,
    /// What ended.
    pub op: CompletionOp,
    /// Bytes of the message or write (with [`UD_PREFIX`] on a datagram queue pair); 0 on errors.
    pub byte_len: u32,
    /// The sender's immediate data.
    pub imm: Option<u32>,
    /// The sender's queue pair, for receives.
    pub src_qpn: Qpn,
    /// The address handle of the sender's device, or [`AhNumber::UNKNOWN`].
    pub src_ah: AhNumber,
    /// The sender's device, for receives.
    pub src_gid: Gid,
    /// Whether it used up no receive.
    pub unsolicited: bool,
}

/// Why the device refused a call at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The number names nothing.
    #[error("no such queue pair, completion queue, registration or address handle on this device")]
    NotFound,
    /// Another queue pair has this number, or one that differs by a multiple of the table's size.
    #[error("the queue pair number is taken, choose one whose low bits are free")]
    QpnTaken,
    /// The state of the queue pair does not allow this.
    #[error("the queue pair is not in a state that allows this")]
    BadState,
    /// The queue is full until completions are polled.
    #[error("the work queue is full, poll completions first")]
    QueueFull,
    /// An argument is outside the device's limits.
    #[error("an argument is outside the limits of the device")]
    Invalid,
    /// The completion queue still serves queue pairs.
    #[error("the object is still in use")]
    Busy,
}

/// The state of a queue pair, as `ibv_qp_state` counts on EFA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpState {
    /// Made.
    Reset,
    /// Has its key; receives may be posted.
    Init,
    /// Receives.
    Rtr,
    /// Receives and sends.
    Rts,
    /// Broken or being taken down: everything posted is flushed.
    Error,
}

/// The protocol of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpKind {
    /// Scalable reliable datagrams.
    Srd,
    /// Unreliable datagrams.
    Ud,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_come_back_as_they_went() {
        for code in 0..=255 {
            if let Some(status) = Status::from_code(code) {
                assert_eq!(status.code(), code);
            }
        }
        assert_eq!(Status::from_code(13), Some(Status::UnresponsiveRemote));
        assert_eq!(Status::from_code(16), None);
    }
}
