//! Development tasks of the efa workspace: `cargo xtask <COMMAND>`.
//!
//! Depends on no other member, so that it works on a machine where the rest cannot be built yet:
//! finding and installing what is missing is its first job.
#![forbid(unsafe_code)]

mod apt;
mod bench;
mod command;
mod demo;
mod headers;
mod libfabric;
mod libtest;
mod lint;
mod man;
mod needs;
mod package_manager;
mod paths;
mod process;
mod setup;
mod steps;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::paths::Workspace;

/// Development tasks of the efa workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Find what is missing on this machine and install it through its package manager
    Setup(setup::Args),
    /// Build in release mode and show a loopback table over tcp;ofi_rxm and over shm
    Demo(demo::Args),
    /// Run every check and test, with both libfabric versions; ends with a line of counts
    Test(test::Args),
    /// Formatting, clippy, layers, file sizes, licences, documentation
    Lint(lint::Args),
    /// Fetch libfabric 2.5.1 (run time) into target/libfabric/2.5.1
    Libfabric(libfabric::Args),
    /// Write the man pages into target/man
    Man(man::Args),
    /// Benchmarks of the tools themselves (they report; they do not fail)
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    let done = Workspace::locate().and_then(|workspace| match task {
        Task::Setup(args) => setup::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Demo(args) => demo::run(&workspace, &args).map(|()| ExitCode::SUCCESS),
        Task::Test(args) => Ok(test::run(&workspace, &args)),
        Task::Lint(args) => Ok(lint::run(&workspace, &args)),
        Task::Libfabric(args) => libfabric::run(&workspace, &args).map(|()| ExitCode::SUCCESS),
        Task::Man(args) => man::run(&workspace, &args).map(|()| ExitCode::SUCCESS),
        Task::Bench(bench) => bench::run(&workspace, &bench).map(|()| ExitCode::SUCCESS),
    });
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
