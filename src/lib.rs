//! Benchmark and use libfabric fabrics, AWS EFA first.
//!
//! The safe objects of [`efa_core`] are re-exported here as they are; the benchmarks behind the programs
//! `efa` and `efa-pingpong` are in `efa::bench` ([`efa_bench`]).

pub use efa_bench as bench;
pub use efa_core::*;

/// Variables of libfabric that the programs set where the user has not, with the reason for each.
const PROVIDER_DEFAULTS: [(&str, &str); 1] = [
    // ofi_rxm fills 4096 receive buffers of 16 KiB for each endpoint, 64 MiB, before the first message. A pair of
    // processes with one message under way at a time needs a few.
    ("FI_OFI_RXM_MSG_RX_SIZE", "128"),
];

/// Sets the variables of libfabric that suit programs with few peers, where the user has not set them.
///
/// What is set shows in every report, among the environment's variables.
///
/// # Safety
///
/// No other thread may run: the environment of a process is not protected against reading while it is
/// written (`setenv(3)`). Right at the beginning of `main` that holds.
pub unsafe fn set_provider_defaults() {
    for (name, value) in PROVIDER_DEFAULTS {
        if std::env::var_os(name).is_none() {
            // SAFETY: the caller says that no other thread runs.
            unsafe { std::env::set_var(name, value) };
        }
    }
}
