//! Macros that are not constants to bindgen, and the version function.

/// Any peer, or an address not given: `(uint64_t) -1`.
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

/// What an address vector reports for an address that it could not insert: `(uint64_t) -1`.
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;

/// The key of a memory region that has none yet: `(uint64_t) -1`.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;

/// No registration mode given. An enumerator in 1.x and a macro in 2.x; a bit mask here, like the
/// other `FI_MR_*` bits.
pub const FI_MR_UNSPEC: u64 = 0;

/// The registration mode of libfabric before 1.5 with allocated memory and keys by the provider.
pub const FI_MR_BASIC: u64 = 1;

/// The registration mode of libfabric before 1.5 with offsets and keys by the program.
pub const FI_MR_SCALABLE: u64 = 2;

/// Packs an interface version as `fi_getinfo` takes it: the C macro `FI_VERSION(major, minor)`.
///
/// ```
/// assert_eq!(efa_sys::fi_version_code(1, 17), 0x1_0011);
/// ```
#[must_use]
pub const fn fi_version_code(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}
