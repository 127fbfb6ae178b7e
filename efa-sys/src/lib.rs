//! Raw libfabric bindings.
#![no_std]

mod bindings;

pub use bindings::*;

/// No address: receive from any peer (`FI_ADDR_UNSPEC`).
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
/// An address that does not exist, as `fi_av_insert` reports it (`FI_ADDR_NOTAVAIL`).
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
/// A memory region without a key (`FI_KEY_NOTAVAIL`).
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;

/// The version of the headers that this crate was built from, as `major.minor.revision`.
pub const BUILD_VERSION: &str = env!("EFA_SYS_BUILD_VERSION");

/// The C macro `FI_VERSION(major, minor)`.
pub const fn fi_version_code(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}
