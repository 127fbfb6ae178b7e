//! `cargo xtask lint`: what can be said about the code without running it.

mod deny;
mod files;
mod layers;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::command::Command;
use crate::paths::{Workspace, on_path};
use crate::steps::{Steps, Verdict};

/// The oldest toolchain that the workspace promises to build with (`rust-version`).
const MSRV: &str = "1.88.0";

/// Options of `cargo xtask lint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave out cargo-deny and the oldest supported toolchain
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> ExitCode {
    let mut steps = Steps::default();
    add_steps(workspace, &mut steps);
    if !args.quick {
        add_slow_steps(workspace, &mut steps);
    }
    steps.finish()
}

/// The checks that a change is likely to fail.
pub(crate) fn add_steps(workspace: &Workspace, steps: &mut Steps) {
    let cargo = || Command::cargo(workspace.root());
    component(steps, "rustfmt", "fmt", &cargo().args(["fmt", "--all", "--check"]));
    steps.step("layers of efa-bench", || layers::check(workspace));
    steps.step("files", || files::check(workspace));
    let clippy = cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).minutes(20);
    component(steps, "clippy", "clippy", &clippy);
    let docs = cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").minutes(10);
    steps.command("documentation", &docs);
}

/// The checks that need another tool or another toolchain.
pub(crate) fn add_slow_steps(workspace: &Workspace, steps: &mut Steps) {
    steps.step("licences, bans, sources", || deny::check(workspace));
    steps.step("advisories", || deny::advisories(workspace));
    steps.step("oldest supported toolchain", || msrv(workspace));
}

/// A step that needs a component of the toolchain, which a minimal one lacks.
fn component(steps: &mut Steps, name: &str, subcommand: &str, command: &Command) {
    steps.step(name, || {
        let probe = Command::new("cargo").args([subcommand, "--version"]);
        if !probe.succeeds() && Command::new("rustup").args(["component", "add", name]).run()?.ok().is_err() {
            bail!("{name} is missing and could not be added: rustup component add {name}");
        }
        command.run()?.ok().map(|()| Verdict::Done)
    });
}

/// Builds with the promised toolchain. Clippy's `incompatible_msrv` stands in where it is missing.
fn msrv(workspace: &Workspace) -> Result<Verdict> {
    let installed =
        on_path("rustup").is_some() && Command::new("rustup").args(["run", MSRV, "cargo", "--version"]).succeeds();
    if !installed {
        let reason = format!(
            "Rust {MSRV} is not installed (rustup toolchain install {MSRV} --profile minimal); \
             clippy's incompatible_msrv has looked at the standard library's items instead"
        );
        return Ok(Verdict::LeftOut(reason));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    Command::new("rustup")
        .args(["run", MSRV, "cargo", "check", "--workspace", "--all-targets", "--locked"])
        // The variables of the cargo that runs this program would lead back to its toolchain.
        .env_remove("CARGO")
        .env_remove("RUSTC")
        .env_remove("RUSTDOC")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", workspace.ours("msrv"))
        .dir(workspace.root())
        .minutes(20)
        .run()?
        .ok()
        .map(|()| Verdict::Done)
}
