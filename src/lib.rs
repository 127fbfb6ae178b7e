//! Benchmark and use libfabric fabrics, AWS EFA first.
//!
//! The safe objects of [`efa_core`] are re-exported here as they are; the benchmarks behind the programs
//! `efa` and `efa-pingpong` are in `efa::bench` ([`efa_bench`]).

pub use efa_bench as bench;
pub use efa_core::*;
