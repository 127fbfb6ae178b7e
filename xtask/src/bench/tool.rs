//! The programs that are compared, and one run of each: two pinned processes and a time limit.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::sample::{self, Sample};
use crate::command::Command;

/// How long a server may take until its port listens.
const START: Duration = Duration::from_secs(10);

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Ours,
    FiPingpong,
    FiRdmPingpong,
    RawTcp,
}

/// What all programs are given alike.
#[derive(Debug)]
pub(super) struct Setting {
    /// Our program.
    pub(super) pingpong: PathBuf,
    /// The folder for `LD_LIBRARY_PATH`; the system's library where there is none.
    pub(super) libraries: Option<PathBuf>,
    /// The cores of server and client.
    pub(super) cores: [u32; 2],
    pub(super) iterations: u64,
    /// Where reports go, and how long one run may take.
    pub(super) scratch: PathBuf,
    pub(super) limit: Duration,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Ours => "efa-pingpong",
            Tool::FiPingpong => "fi_pingpong",
            Tool::FiRdmPingpong => "fi_rdm_pingpong",
            Tool::RawTcp => "raw TCP",
        }
    }

    /// Runs once; the time of half a round trip.
    pub(super) fn run(self, setting: &Setting, provider: &str, size: u64) -> Result<Sample> {
        let size_arg = size.to_string();
        let iterations = setting.iterations.to_string();
        let common = ["-p", provider, "-I", &iterations, "-S", &size_arg];
        match self {
            Tool::Ours => {
                let file = setting.scratch.join("report.json");
                let [server, client] = setting.cores;
                setting
                    .with_libraries(Command::new(&setting.pingpong))
                    .arg("--loopback")
                    .args(common)
                    .args(["--pin", &format!("{server},{client}"), "--json"])
                    .arg(&file)
                    .limit(setting.limit)
                    .output()?;
                sample::report(&fs::read_to_string(&file)?, size)
            }
            Tool::FiPingpong => {
                let port = free_port()?;
                let program = |flag: &str| {
                    let common = ["-e", "rdm"].iter().chain(&common);
                    setting.with_libraries(Command::new("fi_pingpong")).args(common).args([flag, &port.to_string()])
                };
                let client = program("-P").arg("127.0.0.1");
                sample::fi_pingpong(&setting.pair(&program("-B"), &client, port)?, size)
            }
            Tool::FiRdmPingpong => {
                let port = free_port()?;
                let program = || {
                    setting
                        .with_libraries(Command::new("fi_rdm_pingpong"))
                        .args(common)
                        .args(["-m", &format!("-b={port}")])
                };
                sample::fabtests(&setting.pair(&program(), &program().arg("127.0.0.1"), port)?)
            }
            Tool::RawTcp => {
                let port = free_port()?;
                let program = || -> Result<Command> {
                    Ok(Command::new(env::current_exe()?).args(["bench", "raw-tcp", "--port"]).args([
                        &port.to_string(),
                        "--size",
                        &size_arg,
                        "--iterations",
                        &iterations,
                    ]))
                };
                sample::raw_tcp(&setting.pair(&program()?.arg("--server"), &program()?, port)?)
            }
        }
    }
}

impl Setting {
    /// The command with the library that is asked for, and with the setting of it that our programs make.
    fn with_libraries(&self, command: Command) -> Command {
        let command = command.env("FI_OFI_RXM_MSG_RX_SIZE", "128");
        match &self.libraries {
            Some(dir) => command.libraries(Some(dir)),
            // The system's own, whatever the caller's shell says.
            None => command.env_remove("LD_LIBRARY_PATH"),
        }
    }

    /// Starts the server, waits until it listens, runs the client; what the client printed.
    fn pair(&self, server: &Command, client: &Command, port: u16) -> Result<String> {
        let errors = fs::File::create(self.scratch.join("server.log"))?;
        let mut server_side = server.pinned(self.cores[0]).start(Stdio::null(), errors.into())?;
        let deadline = Instant::now() + START;
        while !listens(port) {
            if let Some(status) = server_side.exited()? {
                let log = fs::read_to_string(self.scratch.join("server.log")).unwrap_or_default();
                bail!("`{server}` ended before it listened ({status}): {}", log.trim());
            }
            if Instant::now() > deadline {
                bail!("`{server}` does not listen on port {port} after {} s", START.as_secs());
            }
            thread::sleep(Duration::from_millis(2));
        }
        let printed = client.pinned(self.cores[1]).limit(self.limit).output()?;
        // It has nothing left to do; one that does not end by itself is ended when dropped.
        server_side.wait_until(Instant::now() + Duration::from_secs(2))?;
        Ok(printed)
    }
}

impl Command {
    /// The same command on one core. `taskset` becomes the program, so the process stays the same.
    fn pinned(&self, core: u32) -> Command {
        self.clone().before("taskset", &["--cpu-list", &core.to_string()])
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Whether some process listens on the port (proc(5), `/proc/net/tcp`).
fn listens(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|table| table_has(&fs::read_to_string(Path::new(table)).unwrap_or_default(), port))
}

fn table_has(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&port));
        // 0A is TCP_LISTEN.
        local && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use crate::libfabric::Scratch;
    use crate::paths::{Workspace, on_path};

    #[test]
    fn a_listening_port_is_told_from_a_connected_one() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     0: 00000000:BA54 00000000:0000 0A 00000000:00000000\n\
                     1: 0100007F:97D0 0100007F:BA56 06 00000000:00000000\n";
        assert!(table_has(table, 0xBA54));
        assert!(!table_has(table, 0x97D0));
        assert!(!table_has(table, 0xBA56));
    }

    #[test]
    fn a_port_of_this_process_is_seen_to_listen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listens(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn fi_pingpong_is_run_by_two_pinned_processes() {
        if on_path("fi_pingpong").is_none() {
            // Written past the harness's capture, so that the summary of the tests sees it.
            let reason = "fi_pingpong is not on PATH";
            let test = "fi_pingpong_is_run_by_two_pinned_processes";
            let _ = writeln!(io::stderr(), "SKIPPED: {test}: {reason}");
            return;
        }
        let workspace = Workspace::locate().unwrap();
        let scratch = Scratch::new(&workspace.ours("bench"), "tool-test").unwrap();
        let setting = Setting {
            pingpong: PathBuf::new(),
            libraries: None,
            cores: [0, 0],
            iterations: 3,
            scratch: scratch.path().to_path_buf(),
            limit: Duration::from_secs(60),
        };
        let sample = Tool::FiPingpong.run(&setting, "tcp;ofi_rxm", 64).unwrap();
        assert!(sample.mean_usec > 0.0);
        let error = Tool::FiPingpong.run(&setting, "no-such-provider", 64).unwrap_err();
        assert!(format!("{error:#}").contains("fi_pingpong"), "{error:#}");
    }
}
