//! Benchmarks of libfabric fabrics: everything between a parsed command line and a written report.
#![forbid(unsafe_code)]

