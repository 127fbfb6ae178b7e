//! The device model: pure, without clock, sockets or threads.
//!
//! [`Device`] is the whole of it: it takes datagrams, work requests and the time, and gives datagrams,
//! completions and the time of its next wish. Memory is behind [`Memory`], randomness comes from a seed.
//!
//! # The protocol
//! Between two queue pairs there is one connection for each direction, made by the first packet. Sends and
//! pieces of RDMA writes are numbered; the receiver takes each number once, in any order, and acknowledges
//! with a map of what arrived. The sender repeats what a later packet overtook by more than half a round trip,
//! or what got no answer within an adaptive time-out, and gives up after a total time-out. A message that
//! meets no posted receive is answered "not ready" and repeated on a timer of its own, or when the receiver
//! says that it has receives again. Messages do not wait for each other. RDMA reads are not numbered: the
//! initiator asks for pieces and asks again for those that do not come.
//!
//! Incarnations tell a queue pair from an earlier one of the same number. A packet for a queue pair that is
//! gone is answered so, and everything that waits for it ends. Until a sender has heard from a queue pair it
//! does not know its incarnation; so far the queue key, which the provider draws at random, tells old from new.
#![forbid(unsafe_code)]

mod ah;
mod conn;
mod counters;
mod cq;
mod device;
mod faults;
pub mod link;
mod memory;
mod pace;
pub mod packet;
mod qp;
pub mod rng;
mod slab;
mod types;
mod window;

pub use self::counters::Counters;
pub use self::device::{Device, DeviceConfig, Features, Transmit};
pub use self::faults::{Faults, Peers};
pub use self::memory::{FlatMemory, Memory, MrConfig};
pub use self::pace::{RtoBounds, WindowBounds};
pub use self::qp::{QpChange, QpConfig, QpInfo};
pub use self::types::{
    Access, AhNumber, Completion, CompletionOp, Cqn, Destination, DeviceError, Gid, MAX_INLINE, MAX_RECV_SGES,
    MAX_SEND_SGES, MrKey, Payload, Pd, QpKind, QpState, Qpn, RecvWr, Remote, SendOp, SendWr, Sge, Status, UD_PREFIX,
};

#[cfg(test)]
mod tests;
