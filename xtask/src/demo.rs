//! `cargo xtask demo`: the main job on one machine, from nothing.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::Command;
use crate::needs::Purpose;
use crate::paths::Workspace;
use crate::setup;
use crate::steps::heading;

/// How long one table may take: at most 2 s a size, and room for a slow machine.
const LIMIT: Duration = Duration::from_secs(180);
const PROVIDERS: [(&str, &str); 2] = [
    ("tcp;ofi_rxm", "TCP, as MPI and NCCL use it where there is no EFA"),
    ("shm", "shared memory, between two processes of one host"),
];

/// Options of `cargo xtask demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install what is missing without asking (implied where standard input is not a terminal)
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    heading("Set-up");
    setup::ensure(Purpose::Build, args.yes)?;
    heading("Build");
    build_release(workspace)?;
    let tool = workspace.release_binary("efa-pingpong");
    for (provider, about) in PROVIDERS {
        heading(&format!("Latency and bandwidth over {provider}: {about}"));
        Command::new(&tool)
            .args(["--loopback", "-p", provider])
            .limit(LIMIT)
            .run_ok()
            .with_context(|| format!("the demo over {provider} did not end well"))?;
    }
    let shown = tool.display();
    eprintln!(
        "\nNext:\n\
         \x20   {shown}               on one host, and\n\
         \x20   {shown} HOST          on another: the same table between the two\n\
         \x20   {shown} --help        sizes, durations, JSON, CSV, Markdown\n\
         \x20   cargo install --path .           puts efa and efa-pingpong on your PATH\n\
         \x20   README.md                        how to read the table"
    );
    Ok(())
}

/// Builds the tools of the root package with optimization.
pub(crate) fn build_release(workspace: &Workspace) -> Result<()> {
    Command::cargo(workspace.root()).args(["build", "--release", "--bins"]).minutes(20).run_ok()
}
