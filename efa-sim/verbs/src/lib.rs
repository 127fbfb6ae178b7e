//! `libibverbs.so.1` of the software EFA device.
//!
//! Programs that were linked with rdma-core's library find the same names, symbol versions and
//! structures here, and EFA devices that [`efa_sim`] simulates. Verbs that EFA does not have are
//! there, so that programs load, and answer `ENOSYS`.
//!
//! # Panics
//!
//! None is expected. Functions with the C calling convention abort the process instead of unwinding
//! into the caller.

mod abi;
#[macro_use]
mod export;
mod channel;
mod completion;
mod context;
mod efadv;
mod errno;
mod host;
mod memory;
mod names;
mod posting;
mod queue_pair;
mod stubs;
