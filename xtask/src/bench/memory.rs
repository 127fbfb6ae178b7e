//! `cargo xtask bench memory`: what a whole sweep takes beyond the buffers that its plan states.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::pingpong::libraries;
use crate::command::Command;
use crate::demo::build_release;
use crate::paths::Workspace;
use crate::process;

const MIB: f64 = 1024.0 * 1024.0;
/// The most that a process may take beyond its buffers.
const LIMIT_MIB: f64 = 64.0;
const SIZES: &str = "8..4MiB";
/// How often the processes are looked at. A peak that comes in the last instants may be missed.
const GLANCE: Duration = Duration::from_millis(2);

/// Options of `cargo xtask bench memory`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Providers
    #[arg(long, value_delimiter = ',', default_values_t = ["tcp;ofi_rxm".to_owned(), "shm".to_owned()])]
    providers: Vec<String>,
    /// Use the programs in target/release as they are
    #[arg(long)]
    no_build: bool,
    /// Round trips of each size
    #[arg(long, short = 'I', default_value_t = 200)]
    iterations: u64,
    /// The library: `system`, `2.5.1` (fetched) or a folder with libfabric.so.1
    #[arg(long, default_value = "system")]
    libfabric: String,
}

pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if !args.no_build {
        build_release(workspace)?;
    }
    let dir = libraries(workspace, &args.libfabric)?;
    println!("| provider | process | peak, MiB | stated buffers, MiB | more, MiB | at most | met |");
    println!("|---|---|---:|---:|---:|---:|---|");
    for provider in &args.providers {
        let tool = Command::new(workspace.release_binary("efa-pingpong"))
            .args(["--loopback", "-p", provider, "-S", SIZES, "-I", &args.iterations.to_string()])
            .libraries(dir.as_deref());
        let plan = tool.clone().arg("--dry-run").output()?;
        let stated = stated_bytes(&plan).with_context(|| format!("--dry-run states no buffers in bytes:\n{plan}"))?;
        for (index, peak) in peaks(&tool)?.into_iter().enumerate() {
            let (peak, stated) = (peak as f64 / MIB, stated as f64 / MIB);
            let more = peak - stated;
            let met = if more <= LIMIT_MIB { "yes" } else { "**no**" };
            println!("| `{provider}` | {} | {peak:.1} | {stated:.1} | {more:.1} | {LIMIT_MIB:.0} | {met} |", index + 1);
        }
    }
    Ok(())
}

/// The largest resident size of each process of a run, in bytes, in the order of their ids.
fn peaks(tool: &Command) -> Result<Vec<u64>> {
    tool.announce();
    let mut running = tool.start(Stdio::null(), Stdio::inherit())?;
    let deadline = Instant::now() + Duration::from_secs(180);
    let mut peaks: BTreeMap<u32, u64> = BTreeMap::new();
    let id = running.child().id();
    loop {
        for process in process::tree(id) {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            if let Some(peak) = high_water_mark(&status) {
                peaks.insert(process, peak);
            }
        }
        match running.exited()? {
            Some(status) if status.success() => return Ok(peaks.into_values().collect()),
            Some(status) => bail!("`{tool}` failed: {status}"),
            None if Instant::now() > deadline => bail!("`{tool}` took too long"),
            None => thread::sleep(GLANCE),
        }
    }
}

/// `VmHWM` of `/proc/<id>/status`, which is in units of 1024 bytes (proc(5)).
fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The number before ` bytes` on the plan's line about buffers.
fn stated_bytes(plan: &str) -> Option<u64> {
    let line = plan.lines().find(|line| line.to_lowercase().contains("buffers"))?;
    let (before, _) = line.split_once(" bytes").or_else(|| line.split_once(" B"))?;
    let number = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_the_status() {
        let status = "Name:\tefa-pingpong\nVmHWM:\t   12345 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(high_water_mark(status), Some(12_345 * 1024));
        assert_eq!(high_water_mark("Name:\tzombie\n"), None);
    }

    #[test]
    fn the_stated_buffers_are_read_from_the_plan() {
        assert_eq!(stated_bytes("sizes: 8\nbuffers: 8388608 bytes (8 MiB)\n"), Some(8_388_608));
        assert_eq!(stated_bytes("sizes: 8\n"), None);
    }
}
