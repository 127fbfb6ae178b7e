//! A software EFA device.
//!
//! The crate has two halves. [`model`] is the device itself, a pure state machine: packets, queue
//! pairs that speak a reliable datagram protocol, registered memory, completion queues, and a
//! simulated link for tests; time and randomness are arguments. Everything that touches the
//! system (sockets, threads, the C interface of libibverbs) is an adapter around it.

pub mod config;
pub mod control;
mod counter_files;
mod generation;
mod gid;
mod helper;
mod memory;
pub mod model;
pub mod net;
mod runtime;
pub mod state;
pub mod sysfs;

pub use generation::Generation;
pub use memory::ProcessMemory;
pub use runtime::{Completions, Notify, Paths, QpRequest, Runtime, RuntimeError};
