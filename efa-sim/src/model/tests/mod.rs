//! The model under test: devices in one process, joined by simulated links.

mod delivery;
mod failures;
mod harness;
mod lifecycle;
mod operations;
mod protection;
mod recovery;
mod smoke;
