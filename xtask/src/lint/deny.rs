//! cargo-deny: the one on `PATH`, or one built into `target/tools`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::Command;
use crate::paths::{Workspace, on_path};
use crate::steps::Verdict;

const VERSION: &str = "0.18.9";

/// Licences, banned and double dependencies, and where dependencies come from.
pub(crate) fn check(workspace: &Workspace) -> Result<Verdict> {
    let deny = tool(workspace)?;
    Command::new(deny).args(["--workspace", "check", "bans", "licenses", "sources"]).dir(workspace.root()).run_ok()?;
    Ok(Verdict::Done)
}

/// Known vulnerabilities, where their database can be had.
pub(crate) fn advisories(workspace: &Workspace) -> Result<Verdict> {
    let deny = tool(workspace)?;
    let fetch = Command::new(&deny).args(["fetch", "db"]).dir(workspace.root()).limit(Duration::from_secs(90));
    fetch.announce();
    let fetched = fetch.capture()?;
    if let Err(error) = fetched.ending.ok() {
        let message = fetched.stderr.lines().find(|line| !line.trim().is_empty());
        let reason =
            format!("the advisory database cannot be fetched here ({error}): {}", message.unwrap_or("no message"));
        return Ok(Verdict::LeftOut(reason));
    }
    Command::new(deny)
        .args(["--workspace", "check", "--disable-fetch", "advisories"])
        .dir(workspace.root())
        .run_ok()?;
    Ok(Verdict::Done)
}

/// Finds the tool, or builds it without optimization: it runs for seconds and compiles for minutes.
fn tool(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(tool) = on_path("cargo-deny") {
        return Ok(tool);
    }
    let tools = workspace.ours("tools");
    let tool = tools.join("bin/cargo-deny");
    if tool.is_file() {
        return Ok(tool);
    }
    Command::cargo(workspace.root())
        .args(["install", "--locked", "--debug", "--root"])
        .arg(&tools)
        .arg(format!("cargo-deny@{VERSION}"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Else the build would share the workspace's folder, and its settings would rebuild it.
        .env("CARGO_TARGET_DIR", tools.join("build"))
        .minutes(20)
        .run_ok()
        .context("cannot install cargo-deny")?;
    // Hundreds of megabytes that nothing needs once the program is installed.
    let _ = std::fs::remove_dir_all(tools.join("build"));
    Ok(tool)
}
