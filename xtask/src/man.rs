//! `cargo xtask man`: the man pages, written by the tool that knows its own options.

use std::fs;

use anyhow::{Result, ensure};

use crate::command::Command;
use crate::paths::Workspace;

/// Options of `cargo xtask man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(workspace: &Workspace, _: &Args) -> Result<()> {
    let out = workspace.ours("man");
    fs::create_dir_all(&out)?;
    Command::cargo(workspace.root())
        .args(["run", "--quiet", "--bin", "efa", "--", "man", "--out"])
        .arg(&out)
        .minutes(20)
        .run_ok()?;
    let mut pages: Vec<String> = fs::read_dir(&out)?
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.ends_with(".1"))
        .collect();
    pages.sort();
    ensure!(!pages.is_empty(), "`efa man` wrote no page into {}", out.display());
    pages.iter().for_each(|page| println!("{page}"));
    Ok(())
}
