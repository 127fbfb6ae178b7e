//! The device model: pure, without clock, sockets or threads.
#![forbid(unsafe_code)]
