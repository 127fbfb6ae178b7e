//! Benchmarks of libfabric fabrics: everything between a parsed command line and a written report.
#![forbid(unsafe_code)]

pub mod app;
pub mod args;
pub mod benchmark;
pub mod benchmarks;
pub mod clock;
pub mod control;
pub mod environment;
pub mod observer;
pub mod plan;
pub mod record;
pub mod report;
pub mod rig;
pub mod runner;
pub mod select;
pub mod stats;
pub mod units;
pub mod writers;
