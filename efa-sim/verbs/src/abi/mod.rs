//! The C interface of libibverbs and libefa: structures and constants.
//!
//! Written from the facts of rdma-core's headers (names of fields, their order and their types), as far
//! as libfabric's EFA provider and a few other users look at them. The test `tests/layout.rs` compares
//! sizes and offsets with the headers that a C compiler sees.

mod attributes;
mod efadv;
#[cfg(test)]
mod layout;
mod objects;

pub(crate) use attributes::*;
pub(crate) use efadv::*;
pub(crate) use objects::*;

/// A function pointer that nobody calls, or that is null.
pub(crate) type Slot = Option<unsafe extern "C" fn() -> core::ffi::c_int>;
