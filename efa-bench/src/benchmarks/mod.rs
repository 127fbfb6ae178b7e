//! The benchmarks, one file each.

mod pingpong;

pub use pingpong::PingPong;
