//! A command with its environment and its time limit, printed before it runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::Running;

const MINUTE: Duration = Duration::from_secs(60);
/// How long output may trickle in after the process that wrote it has exited. A descendant that
/// outlives it holds the pipe open; waiting for that one without end would be a hang.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// A program, its arguments, its environment and how long it may take.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    program: OsString,
    args: Vec<OsString>,
    env: BTreeMap<OsString, Option<OsString>>,
    dir: Option<PathBuf>,
    limit: Duration,
}

/// Which of its two outputs a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Exited(ExitStatus),
    TimedOut(Duration),
}

/// What a command wrote, and how it ended.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Command {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Command {
        Command {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            dir: None,
            limit: 10 * MINUTE,
        }
    }

    /// The cargo that runs this program, so that `cargo +toolchain xtask` stays on its toolchain.
    pub(crate) fn cargo(root: &Path) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Command::new(cargo).dir(root)
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Command {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Command {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Command {
        self.env.insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    pub(crate) fn env_remove(mut self, name: impl AsRef<OsStr>) -> Command {
        self.env.insert(name.as_ref().to_owned(), None);
        self
    }

    /// Makes this command the arguments of another, which sets something up and becomes it.
    pub(crate) fn before(mut self, program: &str, args: &[&str]) -> Command {
        let mut all: Vec<OsString> = args.iter().map(OsString::from).collect();
        all.push(std::mem::replace(&mut self.program, program.into()));
        all.append(&mut self.args);
        self.args = all;
        self
    }

    /// Puts a folder of libraries before the system's; `None` leaves the choice to the loader.
    pub(crate) fn libraries(self, dir: Option<&Path>) -> Command {
        match dir {
            Some(dir) => self.env("LD_LIBRARY_PATH", dir),
            None => self,
        }
    }

    pub(crate) fn dir(mut self, dir: impl Into<PathBuf>) -> Command {
        self.dir = Some(dir.into());
        self
    }

    pub(crate) fn minutes(self, minutes: u32) -> Command {
        self.limit(minutes * MINUTE)
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Command {
        self.limit = limit;
        self
    }

    /// Runs with the terminal's own input and output.
    pub(crate) fn run(&self) -> Result<Ending> {
        self.announce();
        let mut running = self.spawn(Stdio::inherit(), Stdio::inherit())?;
        let status = running.wait_until(Instant::now() + self.limit)?;
        Ok(Ending::new(status, self.limit))
    }

    /// Runs with the terminal's own input and output, and makes an error of any failure.
    pub(crate) fn run_ok(&self) -> Result<()> {
        self.run()?.ok().with_context(|| format!("`{self}` failed"))
    }

    /// Runs, passes the output on as it comes, and shows each line to `watch`.
    pub(crate) fn stream(&self, watch: &mut dyn FnMut(Stream, &str)) -> Result<Ending> {
        self.announce();
        let mut running = self.spawn(Stdio::piped(), Stdio::piped())?;
        let (lines, incoming) = mpsc::channel::<(Stream, Vec<u8>)>();
        if let Some(output) = running.child().stdout.take() {
            forward(output, Stream::Stdout, lines.clone());
        }
        if let Some(output) = running.child().stderr.take() {
            forward(output, Stream::Stderr, lines.clone());
        }
        drop(lines);
        let mut deadline = Instant::now() + self.limit;
        let mut ending = None;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now()).min(MINUTE / 600);
            match incoming.recv_timeout(wait) {
                Ok((stream, line)) => {
                    pass_on(stream, &line);
                    watch(stream, String::from_utf8_lossy(&line).trim_end());
                    continue;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) if ending.is_some() => break,
                // The outputs are closed but the process goes on: look again in a moment.
                Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(MINUTE / 6000),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let late = Instant::now() >= deadline;
            if ending.is_some() && late {
                break;
            }
            if ending.is_none() {
                let status = running.exited()?;
                if status.is_none() && late {
                    running.end();
                }
                if status.is_some() || late {
                    ending = Some(Ending::new(status, self.limit));
                    deadline = Instant::now() + LAST_WORDS;
                }
            }
        }
        ending.context("the process was not waited for")
    }

    /// Runs without showing anything and returns what was written.
    pub(crate) fn capture(&self) -> Result<Captured> {
        let mut running = self.spawn(Stdio::piped(), Stdio::piped())?;
        let stdout = running.child().stdout.take().map(collect);
        let stderr = running.child().stderr.take().map(collect);
        let status = running.wait_until(Instant::now() + self.limit)?;
        let text = |incoming: Option<mpsc::Receiver<String>>| {
            incoming.and_then(|incoming| incoming.recv_timeout(LAST_WORDS).ok()).unwrap_or_default()
        };
        Ok(Captured { ending: Ending::new(status, self.limit), stdout: text(stdout), stderr: text(stderr) })
    }

    /// Runs without showing anything; the standard output where the command succeeded.
    pub(crate) fn output(&self) -> Result<String> {
        let captured = self.capture()?;
        captured.ending.ok().with_context(|| format!("`{self}` failed: {}", captured.stderr.trim_end()))?;
        Ok(captured.stdout)
    }

    /// Whether the program exists, runs and succeeds, silently.
    pub(crate) fn succeeds(&self) -> bool {
        self.capture().is_ok_and(|captured| captured.ending.ok().is_ok())
    }

    /// Starts the command without input.
    pub(crate) fn start(&self, stdout: Stdio, stderr: Stdio) -> Result<Running> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child = command.spawn().with_context(|| format!("cannot start `{self}`"))?;
        Ok(Running::new(child))
    }

    pub(crate) fn announce(&self) {
        eprintln!("$ {self}");
    }

    fn spawn(&self, stdout: Stdio, stderr: Stdio) -> Result<Running> {
        let mut command = self.command();
        command.stdout(stdout).stderr(stderr);
        let child = command.spawn().with_context(|| format!("cannot start `{self}`"))?;
        Ok(Running::new(child))
    }

    fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }
}

/// The command as one would type it in a shell.
impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = Vec::new();
        for (name, value) in &self.env {
            if let Some(value) = value {
                words.push(format!("{}={}", name.to_string_lossy(), quoted(value)));
            }
        }
        let program = Path::new(&self.program);
        // A full path to cargo says less than its name, and differs from machine to machine.
        let shown = match program.file_name() {
            Some(name) if name == "cargo" => name,
            _ => program.as_os_str(),
        };
        words.push(quoted(shown));
        words.extend(self.args.iter().map(|arg| quoted(arg)));
        f.write_str(&words.join(" "))
    }
}

impl Ending {
    fn new(status: Option<ExitStatus>, limit: Duration) -> Ending {
        match status {
            Some(status) => Ending::Exited(status),
            None => Ending::TimedOut(limit),
        }
    }

    /// Nothing on success; what happened otherwise.
    pub(crate) fn ok(self) -> Result<()> {
        match self {
            Ending::Exited(status) if status.success() => Ok(()),
            Ending::Exited(status) => bail!("{status}"),
            Ending::TimedOut(limit) => bail!("ended after its limit of {} s", limit.as_secs()),
        }
    }
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn forward(output: impl Read + Send + 'static, stream: Stream, lines: mpsc::Sender<(Stream, Vec<u8>)>) {
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if lines.send((stream, std::mem::take(&mut line))).is_err() {
                break;
            }
        }
    });
}

fn collect(mut output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (text, incoming) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = output.read_to_end(&mut bytes);
        let _ = text.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    incoming
}

/// A reader that has gone away (`| head`) is no reason to stop the command.
fn pass_on(stream: Stream, line: &[u8]) {
    // What a test of this program makes up must not reach whoever counts the lines of that test.
    if cfg!(test) {
        return;
    }
    let _ = match stream {
        Stream::Stdout => io::stdout().write_all(line),
        Stream::Stderr => io::stderr().write_all(line),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let command = Command::new("tool").env("FI_PROVIDER", "tcp;ofi_rxm").args(["-p", "tcp;ofi_rxm", "it's", ""]);
        assert_eq!(command.to_string(), r"FI_PROVIDER='tcp;ofi_rxm' tool -p 'tcp;ofi_rxm' 'it'\''s' ''");
    }

    #[test]
    fn lines_of_both_streams_are_seen_with_the_status() {
        let command = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]);
        let mut seen = Vec::new();
        let ending = command.stream(&mut |stream, line| seen.push((stream, line.to_owned()))).unwrap();
        assert!(matches!(ending, Ending::Exited(status) if status.code() == Some(3)));
        assert!(seen.contains(&(Stream::Stdout, "out".to_owned())));
        assert!(seen.contains(&(Stream::Stderr, "err".to_owned())));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let command = Command::new("sh").args(["-c", "echo begun; exec sleep 600"]).limit(Duration::from_millis(300));
        let mut lines = 0;
        let ending = command.stream(&mut |_, _| lines += 1).unwrap();
        assert!(matches!(ending, Ending::TimedOut(_)));
        assert_eq!(lines, 1);
        assert!(ending.ok().unwrap_err().to_string().contains("limit"));
    }

    #[test]
    fn what_a_failed_command_wrote_is_in_the_error() {
        let command = Command::new("sh").args(["-c", "echo the reason >&2; exit 1"]);
        let error = command.output().unwrap_err();
        assert!(format!("{error:#}").contains("the reason"));
    }
}
