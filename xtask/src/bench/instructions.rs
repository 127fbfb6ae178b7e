//! `cargo xtask bench instructions`: what efa-core's send and poll cost beyond the raw calls.
//!
//! callgrind counts every instruction of a program. The difference between two runs that differ
//! only in the number of operations, divided by that number, is the cost of one operation; start
//! and end of the program cancel out.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::command::Command;
use crate::libfabric::Scratch;
use crate::paths::{Workspace, on_path};

/// The most instructions that safety may cost per operation.
const LIMIT: f64 = 25.0;

/// Options of `cargo xtask bench instructions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Operations of the shorter run
    #[arg(long, default_value_t = 2_000)]
    few: u64,
    /// Operations of the longer run
    #[arg(long, default_value_t = 202_000)]
    many: u64,
    /// Runs of each; the smallest count is taken, because only waiting adds to it
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    ensure!(args.few < args.many && args.rounds > 0, "--few is below --many, --rounds at least 1");
    ensure!(on_path("valgrind").is_some(), "valgrind is needed: `cargo xtask setup` installs it");
    Command::cargo(workspace.root())
        .args(["build", "--release", "--package", "efa-core", "--example", "instructions"])
        .minutes(20)
        .run_ok()?;
    let program = workspace.built().join("release/examples/instructions");
    let scratch = Scratch::new(&workspace.ours("bench"), "instructions")?;
    let cost = |mode: &str| -> Result<f64> {
        let smallest = |count: u64| -> Result<u64> {
            let mut best = None;
            for _ in 0..args.rounds {
                let instructions = callgrind(&program, mode, count, scratch.path())?;
                best = Some(best.map_or(instructions, |best: u64| best.min(instructions)));
            }
            best.context("no round")
        };
        let (few, many) = (smallest(args.few)?, smallest(args.many)?);
        let difference = many.checked_sub(few).context("the longer run took fewer instructions")?;
        Ok(difference as f64 / (args.many - args.few) as f64)
    };
    let (raw, safe) = (cost("raw")?, cost("safe")?);
    let more = safe - raw;
    println!("Instructions per send and poll, by callgrind ({} to {} operations):", args.few, args.many);
    println!("| raw calls through efa-sys | efa-core | more | at most | met |");
    println!("|---:|---:|---:|---:|---|");
    let met = if more <= LIMIT { "yes" } else { "**no**" };
    println!("| {raw:.1} | {safe:.1} | {more:.1} | {LIMIT:.0} | {met} |");
    Ok(())
}

/// All instructions of one run.
fn callgrind(program: &Path, mode: &str, count: u64, scratch: &Path) -> Result<u64> {
    let out = scratch.join("callgrind.out");
    Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args([mode, &count.to_string()])
        .minutes(5)
        .output()?;
    let text = fs::read_to_string(&out)?;
    total(&text).with_context(|| format!("no total in {}", out.display()))
}

/// The `summary:` or `totals:` line of callgrind's file.
fn total(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")))
        .and_then(|number| number.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_callgrinds_file() {
        assert_eq!(total("events: Ir\nsummary: 123456\nfn=(1)\ntotals: 123456\n"), Some(123_456));
        assert_eq!(total("events: Ir\n"), None);
    }
}
