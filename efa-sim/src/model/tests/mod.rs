//! The model under test: devices in one process, joined by simulated links.

mod harness;
mod smoke;
