//! Both sides on this host: the server is a child process, this process is the client.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::{Exit, Failure, client};
use crate::args::PingPongArgs;
use crate::control::Stop;
use crate::observer::Phase;

/// What the child may take to end after its client has failed.
const FAILING: Duration = Duration::from_secs(1);
/// What the child may take to listen.
const STARTING: Duration = Duration::from_secs(20);
/// How often a wait looks whether to stop.
const LOOK_AT_STOP: Duration = Duration::from_millis(50);
/// What the child may take to end after its client has.
const ENDING: Duration = Duration::from_secs(6);

/// Runs both sides; `words` make this program a ping-pong.
pub(super) fn run(args: &PingPongArgs, words: &[&str], stop: &Stop) -> Result<(), Failure> {
    if args.dry_run {
        return client::dry_run(args);
    }
    let host =
        args.source_address.map_or_else(|| if args.ipv6 { "::1" } else { "127.0.0.1" }.into(), |a| a.to_string());
    let mut server = None;
    let port = || {
        let started = server.insert(Server::start(args, words, &host)?);
        started.port(stop)
    };
    let ended = client::run_at(args, &host, port, args.last_core(), stop);
    if let Some(mut server) = server {
        // A client that failed may never have spoken to the server, which then waits for it.
        server.end(if ended.is_ok() { ENDING } else { FAILING });
    }
    ended
}

/// The child; whatever happens here, it ends with this value.
struct Server {
    child: Child,
    stdout: Option<ChildStdout>,
}

impl Server {
    /// Starts the child before anything of libfabric is: a fork afterwards may abort on EFA.
    fn start(args: &PingPongArgs, words: &[&str], host: &str) -> Result<Server, Failure> {
        let failed = |error| Failure::setup(Phase::Control, format!("the server process cannot be started: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(&program);
        child.args(words).args(server_args(args, host)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = child.spawn().map_err(failed)?;
        let stdout = child.stdout.take();
        Ok(Server { child, stdout })
    }

    /// The port that the child says it listens on.
    fn port(&mut self, stop: &Stop) -> Result<u16, Failure> {
        let (tell, told) = mpsc::channel();
        let stdout = self.stdout.take();
        // The read has no deadline, but it ends with the child, which this value ends.
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(stdout) = stdout {
                let _ = BufReader::new(stdout).read_line(&mut line);
            }
            let _ = tell.send(line);
        });
        let deadline = Instant::now() + STARTING;
        let line = loop {
            match told.recv_timeout(LOOK_AT_STOP) {
                _ if stop.requested() => {
                    return Err(Failure::new(Exit::Interrupted, format!("phase {}: interrupted", Phase::Control)));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                ended => break ended.unwrap_or_default(),
            }
        };
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(port) = said["control_port"].as_u64().and_then(|port| u16::try_from(port).ok()) {
            return Ok(port);
        }
        self.wait(Duration::from_secs(1));
        let Ok(Some(status)) = self.child.try_wait() else {
            return Err(Failure::setup(Phase::Control, format!("the server process did not listen in {STARTING:?}")));
        };
        let interrupted = status.code() == Some(i32::from(Exit::Interrupted.code()));
        let exit = if interrupted { Exit::Interrupted } else { Exit::Usage };
        let text = match said["error"].as_str() {
            Some(why) => format!("the server process: {why}"),
            // Whatever it had to say is on standard error, which is this process's own.
            None => format!("phase {}: the server process ended with {status}", Phase::Control),
        };
        Err(Failure::new(exit, text))
    }

    /// Waits until the child has ended; whether it has.
    fn wait(&mut self, limit: Duration) -> bool {
        let Ok(Some(pid)) = i32::try_from(self.child.id()).map(Pid::from_raw) else { return false };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
            // Ended and reaped, or a kernel without pidfd, where `end` asks once more.
            return matches!(self.child.try_wait(), Ok(Some(_)));
        };
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => {}
                _ => return matches!(self.child.try_wait(), Ok(Some(_))),
            }
        }
    }

    /// Ends the child: it has its own reasons to end, then SIGTERM, then SIGKILL.
    fn end(&mut self, limit: Duration) {
        if matches!(self.child.try_wait(), Ok(Some(_))) || self.wait(limit) {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if !self.wait(Duration::from_secs(2)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// The server's command line: where it listens, where it runs; the rest comes with the plan.
fn server_args(args: &PingPongArgs, host: &str) -> Vec<OsString> {
    let mut list: Vec<OsString> = vec!["--announce".into(), "--port".into(), "0".into(), "-s".into(), host.into()];
    let mut give = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            list.push(flag.into());
            list.push(value.into());
        }
    };
    give("--provider", args.provider.clone());
    give("--fabric", args.fabric.clone());
    give("--domain", args.domain.clone());
    give("--pin", args.first_core().map(|core| core.to_string()));
    list
}
