//! `cargo xtask bench pingpong`: our half round trip against that of the tools in use today.
//!
//! The tools take turns (A B A B), on the same two cores, with the same library, provider, size and
//! number of iterations, so that what changes on the machine meanwhile meets all of them.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::host;
use super::summary::{self, Cell, Rival};
use super::tool::{Setting, Tool};
use crate::command::Command;
use crate::demo::build_release;
use crate::libfabric::{self, Scratch};
use crate::paths::{NEW_LIBFABRIC, Workspace, on_path};

const TCP: &str = "tcp;ofi_rxm";

/// Options of `cargo xtask bench pingpong`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Providers
    #[arg(long, value_delimiter = ',', default_values_t = [TCP.to_owned(), "shm".to_owned()])]
    providers: Vec<String>,
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64, 1024, 4096, 65536, 1_048_576])]
    sizes: Vec<u64>,
    /// Round trips of each run, the same for every tool
    #[arg(long, short = 'I', default_value_t = 10_000)]
    iterations: u64,
    /// Runs of each tool for each provider and size
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The two cores, of server and client
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    pin: Vec<u32>,
    /// The library for every tool: `system`, `2.5.1` (fetched) or a folder with libfabric.so.1
    #[arg(long, default_value = "system")]
    libfabric: String,
    /// Use the programs in target/release as they are
    #[arg(long)]
    no_build: bool,
    /// Seconds after which a run is given up (fi_pingpong hangs on some errors)
    #[arg(long, default_value_t = 120)]
    limit: u64,
}

pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let &[server, client] = args.pin.as_slice() else {
        anyhow::bail!("--pin takes two cores, of server and client, as in `--pin 0,1`");
    };
    ensure!(args.rounds > 0 && args.iterations > 0, "--rounds and --iterations are at least 1");
    ensure!(
        on_path("fi_pingpong").is_some() && on_path("taskset").is_some(),
        "fi_pingpong and taskset are needed: `cargo xtask setup` installs the first; the second is \
         part of util-linux"
    );
    if !args.no_build {
        build_release(workspace)?;
    }
    let scratch = Scratch::new(&workspace.ours("bench"), "pingpong")?;
    let setting = Setting {
        pingpong: workspace.release_binary("efa-pingpong"),
        libraries: libraries(workspace, &args.libfabric)?,
        cores: [server, client],
        iterations: args.iterations,
        scratch: scratch.path().to_path_buf(),
        limit: Duration::from_secs(args.limit),
    };
    let mut log = RawData::create(workspace)?;
    log.line(&environment(args, &setting))?;
    let mut rows = Vec::new();
    for provider in &args.providers {
        for &size in &args.sizes {
            warn_of_foreign_load();
            let cell = compare(args, &setting, provider, size, &mut log)?;
            rows.push((provider.clone(), size, cell));
        }
    }
    println!(
        "Half round trip, mean of {} iterations; medians of {} rounds taken in turns; server on core \
         {server}, client on core {client}; libfabric: {}.",
        args.iterations, args.rounds, args.libfabric
    );
    print!("{}", summary::table(Tool::Ours.name(), &rows, &rivals));
    println!("\nRaw data: {}", log.path.display());
    Ok(())
}

/// All rounds of one provider and size.
fn compare(args: &Args, setting: &Setting, provider: &str, size: u64, log: &mut RawData) -> Result<Cell> {
    let mut cell = Cell::default();
    let mut failed = Vec::new();
    for round in 1..=args.rounds {
        for tool in tools(provider) {
            let outcome = tool.run(setting, provider, size);
            let mut line = json!({
                "kind": "run", "provider": provider, "size_bytes": size, "round": round,
                "tool": tool.name(), "iterations": args.iterations,
            });
            match outcome {
                Ok(sample) => {
                    cell.rounds.entry(tool.name()).or_default().push(sample.mean_usec);
                    line["half_rtt_mean_usec"] = json!(sample.mean_usec);
                    line["half_rtt_p50_usec"] = json!(sample.median_usec);
                }
                Err(error) => {
                    // The raw data has every failure; the terminal the first of its kind.
                    if !failed.contains(&tool) {
                        failed.push(tool);
                        eprintln!("warning: {}, {provider}, {size} B: {error:#}", tool.name());
                    }
                    line["error"] = json!(format!("{error:#}"));
                }
            }
            log.line(&line)?;
        }
    }
    let medians: Vec<String> = tools(provider)
        .iter()
        .filter_map(|tool| Some(format!("{} {:.3}", tool.name(), cell.median(tool.name())?)))
        .collect();
    eprintln!("{provider}, {size} B, us: {}", medians.join(", "));
    Ok(cell)
}

/// Who takes part, in the order of their turns.
fn tools(provider: &str) -> Vec<Tool> {
    let mut tools = vec![Tool::Ours, Tool::FiPingpong];
    if on_path("fi_rdm_pingpong").is_some() {
        tools.push(Tool::FiRdmPingpong);
    }
    if provider.starts_with("tcp") {
        tools.push(Tool::RawTcp);
    }
    tools
}

/// The other tools, with the ratio that the project has set itself.
fn rivals(provider: &str) -> Vec<Rival> {
    let target = |tool: Tool| match tool {
        Tool::FiPingpong if provider == TCP => Some(0.80),
        Tool::FiPingpong if provider == "shm" => Some(0.90),
        Tool::FiRdmPingpong => Some(1.00),
        _ => None,
    };
    tools(provider)
        .into_iter()
        .filter(|&tool| tool != Tool::Ours)
        .map(|tool| Rival { name: tool.name(), target: target(tool) })
        .collect()
}

/// The folder of the library that was asked for.
pub(super) fn libraries(workspace: &Workspace, choice: &str) -> Result<Option<PathBuf>> {
    match choice {
        "system" => Ok(None),
        NEW_LIBFABRIC => {
            libfabric::fetch(workspace)?;
            Ok(Some(workspace.new_libfabric()))
        }
        dir => {
            let dir = fs::canonicalize(dir).with_context(|| format!("no folder {dir}"))?;
            ensure!(
                dir.join("libfabric.so.1").exists(),
                "no libfabric.so.1 in {}; --libfabric takes `system`, `{NEW_LIBFABRIC}` or a folder",
                dir.display()
            );
            Ok(Some(dir))
        }
    }
}

fn warn_of_foreign_load() {
    if let Some(busy) = host::foreign_load().filter(|&busy| busy > host::DOUBTFUL) {
        eprintln!("warning: others keep {:.0} % of the processors busy: the figures will be doubtful", busy * 100.0);
    }
}

/// The first line of the raw data: everything the figures depend on.
fn environment(args: &Args, setting: &Setting) -> Value {
    let says = |command: Command| {
        let command = command.libraries(setting.libraries.as_deref());
        command.output().ok().map(|text| text.trim().to_owned())
    };
    json!({
        "kind": "environment",
        "host": host::describe(),
        "foreign_load": host::foreign_load(),
        "libfabric": args.libfabric,
        "libfabric_dir": setting.libraries,
        "fi_info": says(Command::new("fi_info").arg("--version")),
        "efa_pingpong": says(Command::new(&setting.pingpong).arg("--version")),
        "iterations": args.iterations,
        "rounds": args.rounds,
        "cores": setting.cores,
    })
}

/// Lines of JSON, each complete when it is written.
struct RawData {
    path: PathBuf,
    file: File,
}

impl RawData {
    fn create(workspace: &Workspace) -> Result<RawData> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let dir = workspace.ours("bench");
        fs::create_dir_all(&dir)?;
        let path = dir.join(format!("pingpong-{seconds}.jsonl"));
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(RawData { path, file })
    }

    fn line(&mut self, value: &Value) -> Result<()> {
        writeln!(self.file, "{value}").with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_its_own_target() {
        let target = |provider: &str| rivals(provider)[0].target;
        assert_eq!(target(TCP), Some(0.80));
        assert_eq!(target("shm"), Some(0.90));
        assert_eq!(target("tcp"), None);
        assert!(rivals(TCP).iter().any(|rival| rival.name == "raw TCP"));
        assert!(!rivals("shm").iter().any(|rival| rival.name == "raw TCP"));
    }
}
