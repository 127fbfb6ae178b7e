//! Benchmarks of libfabric fabrics: everything between a parsed command line and a written report.
#![forbid(unsafe_code)]

pub mod args;
pub mod clock;
pub mod control;
pub mod environment;
pub mod plan;
pub mod record;
pub mod stats;
pub mod units;
