//! Datagrams between processes: sockets, and system calls in batches.

mod batch;
mod refused;
mod socket;

pub use batch::{BATCH, RecvBatch, SendBatch};
pub use socket::QpSocket;
