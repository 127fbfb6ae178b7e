//! `cargo xtask bench`: how the tools compare with others, and what safety costs.
//!
//! These report; they fail only where they cannot run.

mod host;
mod instructions;
mod memory;
mod pingpong;
mod raw_tcp;
mod sample;
mod summary;
mod tool;

use anyhow::Result;

use crate::paths::Workspace;

/// The benchmarks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// efa-pingpong against fi_pingpong, fi_rdm_pingpong (where on PATH) and raw TCP
    Pingpong(pingpong::Args),
    /// Instructions of efa-core's send and poll beyond the raw calls, by callgrind
    Instructions(instructions::Args),
    /// Memory of a sweep 8 B to 4 MiB beyond the buffers that its plan states
    Memory(memory::Args),
    /// One side of the raw TCP ping-pong
    #[command(hide = true)]
    RawTcp(raw_tcp::Args),
}

pub(crate) fn run(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Pingpong(args) => pingpong::run(workspace, args),
        Bench::Instructions(args) => instructions::run(workspace, args),
        Bench::Memory(args) => memory::run(workspace, args),
        Bench::RawTcp(args) => raw_tcp::run(args),
    }
}
