//! How the end-to-end tests run programs, and what they may rely on.
//!
//! - [`pingpong`] and [`efa`] make a command line; [`Run::spawn`] starts it, [`Run::ended`] waits for its end.
//! - Nothing sleeps: a test waits for a line of output ([`Process::line`]) or for the end of a process
//!   ([`Process::ended`], [`ends_within`]). Every wait ends after [`DEADLINE`],
//!   which is generous because other work may share the cores; a test that is about time names its own.
//! - A process is killed by its id when its value is dropped, so a failed test leaves nothing running.
//! - The end of a process counts only when its standard output and error are closed as well: a child that it
//!   left behind would hold them open, and the test fails.
//! - Servers are started with `--port 0`, and tests read the port from what the server says.
//! - What a machine does not offer (root, a compiler, another libfabric) makes a test print
//!   `SKIPPED: <test>: <reason>` on the real standard error and return; see [`skip`](crate::skip).
//! - The programs take libfabric from where this test process finds it, so the whole suite runs against another
//!   library with `LD_LIBRARY_PATH`.

mod namespace;
mod peer;
mod process;
mod report;
mod stub;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use namespace::{Cable, Namespace};
pub(crate) use peer::{Fake, Raw, Step, greeting_of_protocol};
pub(crate) use process::{Ended, Process, Run, efa, ends_within, pingpong, program};
pub(crate) use report::{checked, report_at};
pub(crate) use stub::shared_library;

/// How long a test waits for anything that is not about time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// How long after the death of its peer a side may go on (a peer's end is seen at once; the rest is the load).
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// The providers that every libfabric has, and that need no hardware.
pub(crate) const TCP: &str = "tcp;ofi_rxm";
/// Shared memory, for two processes of one host.
pub(crate) const SHM: &str = "shm";

/// A short measurement that leaves the other processes of this machine some time.
pub(crate) const QUICK: [&str; 8] = ["-S", "64", "-I", "20", "--warmup", "5", "--wait", "yield"];

/// A measurement that only a signal, a death or a time-out ends.
pub(crate) const ENDLESS: [&str; 8] = ["-S", "64", "--duration", "10m", "--warmup", "0", "--wait", "yield"];

/// A server on a port of its own; it takes whatever plan its client brings.
pub(crate) fn server() -> Run {
    pingpong().args(["--port", "0"])
}

/// A client of the server on this host that listens on `port`.
pub(crate) fn client(port: u16) -> Run {
    client_of("127.0.0.1", port)
}

/// A client of the server that listens on `port` of `host`.
pub(crate) fn client_of(host: &str, port: u16) -> Run {
    pingpong().args([host, "--port", &port.to_string()])
}

/// Whether anybody of this network namespace listens on the TCP port.
pub(crate) fn listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().and_then(|l| l.rsplit(':').next());
            let state = fields.nth(1);
            state == Some(LISTEN) && local.and_then(|l| u16::from_str_radix(l, 16).ok()) == Some(port)
        })
    })
}

/// Files in /dev/shm that belong to this process: the shm provider names them `PID:UID:NUMBER`.
///
/// Other processes of the machine have files there as well, which come and go while a test runs.
pub(crate) fn shm_files_of(pid: u32) -> Vec<String> {
    let pid = pid.to_string();
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.split(':').next() == Some(&pid))
        .collect()
}

/// Processes whose parent is this one.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            // The name, in parentheses, may hold anything; state and parent follow it.
            let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
            parent == Some(&pid.to_string())
        })
        .collect()
}

/// Whether this process may make network namespaces and mount file systems.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program on PATH.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The folder of the libfabric that `cargo xtask libfabric` fetches, if it did.
pub(crate) fn new_libfabric() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/libfabric/2.5.1"));
    folder.join("libfabric.so.1").is_file().then_some(folder)
}

/// Ends a test that this machine cannot run, saying why on the real standard error, past libtest's capture.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        fn here() {}
        let test = std::any::type_name_of_val(&here).trim_end_matches("::here").trim_start_matches("e2e::");
        let line = format!("\nSKIPPED: {test}: {}\n", format_args!($($reason)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return;
    }};
}

/// Skips a test that needs root.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !$crate::harness::is_root() {
            $crate::skip!("only root may make namespaces and mounts");
        }
        if $crate::harness::tool("ip").is_none() || $crate::harness::tool("unshare").is_none() {
            $crate::skip!("`ip` or `unshare` is not on PATH (packages iproute2, util-linux)");
        }
    };
}
