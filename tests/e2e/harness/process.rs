//! Programs: started, read, signalled, waited for, and gone when their value is.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::{DEADLINE, Namespace};

/// The program `efa-pingpong`.
pub(crate) fn pingpong() -> Run {
    program(env!("CARGO_BIN_EXE_efa-pingpong"))
}

/// The program `efa`.
pub(crate) fn efa() -> Run {
    program(env!("CARGO_BIN_EXE_efa"))
}

/// Any program.
pub(crate) fn program(path: impl Into<OsString>) -> Run {
    Run { words: vec![path.into()], before: Vec::new(), changes: Vec::new(), stdout: None }
}

/// A command line that has not been started.
#[must_use]
pub(crate) struct Run {
    words: Vec<OsString>,
    /// Words of other programs that end by executing what follows, outermost first.
    before: Vec<OsString>,
    changes: Vec<(OsString, Option<OsString>)>,
    stdout: Option<Stdio>,
}

impl Run {
    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().into());
        self
    }

    pub(crate) fn args(mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.words.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.changes.push((name.into(), Some(value.as_ref().into())));
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.changes.push((name.into(), None));
        self
    }

    /// Runs it through other programs, such as `taskset -c 0`, which execute it in their place.
    pub(crate) fn through(mut self, words: &[&str]) -> Self {
        let words = words.iter().map(OsString::from);
        self.before.splice(0..0, words);
        self
    }

    /// Runs it through a line of shell, which ends with `exec "$@"`.
    pub(crate) fn through_shell(self, line: &str) -> Self {
        self.through(&["sh", "-c", line, "sh"])
    }

    pub(crate) fn within(self, namespace: &Namespace) -> Self {
        self.through(&["ip", "netns", "exec", namespace.name()])
    }

    /// Gives it another standard output than a pipe that is read.
    pub(crate) fn stdout(mut self, to: Stdio) -> Self {
        self.stdout = Some(to);
        self
    }

    /// Starts it as the leader of a process group of its own.
    #[track_caller]
    pub(crate) fn spawn(self) -> Process {
        let words: Vec<OsString> = self.before.into_iter().chain(self.words).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        command.stdout(self.stdout.unwrap_or_else(Stdio::piped));
        for (name, value) in self.changes {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let out = Text::of(child.stdout.take());
        let err = Text::of(child.stderr.take());
        Process { child, out, err, words, start: Instant::now(), status: None }
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub(crate) fn ended(self) -> Ended {
        self.spawn().ended()
    }
}

/// A running program.
pub(crate) struct Process {
    child: Child,
    out: Text,
    err: Text,
    words: Vec<OsString>,
    start: Instant,
    status: Option<ExitStatus>,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of standard error that holds `text`.
    #[track_caller]
    pub(crate) fn line(&self, text: &str) -> String {
        self.wait_for(&self.err, text, 1)
    }

    /// Waits for the `count`th line of standard error that holds `text`.
    #[track_caller]
    pub(crate) fn nth_line(&self, text: &str, count: usize) -> String {
        self.wait_for(&self.err, text, count)
    }

    /// Waits for a line of standard output that holds `text`.
    #[track_caller]
    pub(crate) fn out_line(&self, text: &str) -> String {
        self.wait_for(&self.out, text, 1)
    }

    #[track_caller]
    fn wait_for(&self, stream: &Text, text: &str, count: usize) -> String {
        let found = stream.wait(Instant::now() + DEADLINE, |so_far, _| {
            let whole = &so_far[..so_far.rfind('\n').map_or(0, |end| end + 1)];
            whole.lines().filter(|line| line.contains(text)).nth(count - 1).map(str::to_owned)
        });
        found.unwrap_or_else(|| panic!("no line with {text:?} from {}", self.told()))
    }

    /// The port that a server says it listens on.
    #[track_caller]
    pub(crate) fn port(&self) -> u16 {
        let line = self.line("listening on port ");
        let rest = line.split("listening on port ").nth(1).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("no port in {line:?}"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended by itself; it is not reaped before `ended`, so the id is still its own.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Signals its whole process group, as a terminal does on Ctrl-C.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end, and for its standard output and error to be closed.
    #[track_caller]
    pub(crate) fn ended(self) -> Ended {
        self.ended_within(DEADLINE)
    }

    #[track_caller]
    pub(crate) fn ended_within(mut self, limit: Duration) -> Ended {
        assert!(self.has_ended(limit), "still running {limit:?} later: {}", self.told());
        let status = self.child.wait().unwrap_or_else(|error| panic!("{error}: {}", self.told()));
        self.status = Some(status);
        let closed = |stream: &Text| {
            stream.wait(Instant::now() + Duration::from_secs(10), |_, closed| closed.then_some(())).is_some()
        };
        assert!(
            closed(&self.out) && closed(&self.err),
            "a process that it left behind holds its output open: {}",
            self.told()
        );
        Ended {
            status,
            stdout: self.out.so_far(),
            stderr: self.err.so_far(),
            took: self.start.elapsed(),
            words: std::mem::take(&mut self.words),
        }
    }

    fn has_ended(&self, limit: Duration) -> bool {
        ends_within(self.id(), limit)
    }

    fn told(&self) -> String {
        describe(&self.words, &self.out.so_far(), &self.err.so_far())
    }
}

/// Waits until a process has ended, reaped or not; whether it has within this time.
pub(crate) fn ends_within(pid: u32, limit: Duration) -> bool {
    let pid = Pid::from_raw(pid as i32).expect("ids of processes are positive");
    let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(error) => return error == rustix::io::Errno::SRCH,
        Ok(pidfd) => pidfd,
    };
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.is_ok_and(|ready| ready > 0),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            // The group holds the server of a loopback run as well.
            self.signal_group(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A program that has ended.
pub(crate) struct Ended {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// From its start to its end.
    pub(crate) took: Duration,
    words: Vec<OsString>,
}

impl Ended {
    /// Checks the exit status.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{} (signal {:?})", self.told(), self.status.signal());
        self
    }

    /// Checks that it ended by itself, with a status that means failure.
    #[track_caller]
    pub(crate) fn fails(self) -> Self {
        assert!(self.status.code().is_some_and(|code| code != 0), "{} ({})", self.told(), self.status);
        self
    }

    /// Checks that standard error has each of the texts.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} from {}", self.told());
        }
        self
    }

    /// Checks that standard output has each of the texts.
    #[track_caller]
    pub(crate) fn prints(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stdout.contains(text), "no {text:?} printed by {}", self.told());
        }
        self
    }

    /// Checks that it ended within `limit` after its start.
    #[track_caller]
    pub(crate) fn quickly(self, limit: Duration) -> Self {
        assert!(self.took < limit, "took {:?}: {}", self.took, self.told());
        self
    }

    /// The rows of its table, split into columns.
    pub(crate) fn rows(&self) -> Vec<Vec<&str>> {
        let rows = self.stdout.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        rows.map(|line| line.split_whitespace().collect()).collect()
    }

    pub(crate) fn told(&self) -> String {
        describe(&self.words, &self.stdout, &self.stderr)
    }
}

fn describe(words: &[OsString], out: &str, err: &str) -> String {
    let line: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
    format!("`{}`\n--- standard output\n{out}\n--- standard error\n{err}\n---", line.join(" "))
}

/// What a process has written so far, kept by a thread that reads it.
struct Text(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    closed: bool,
}

impl Text {
    fn of(stream: Option<impl Read + Send + 'static>) -> Text {
        let text = Text(Arc::default());
        let shared = Arc::clone(&text.0);
        let Some(mut stream) = stream else {
            text.0.0.lock().unwrap().closed = true;
            return text;
        };
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            loop {
                let read = stream.read(&mut chunk).unwrap_or(0);
                let mut state = shared.0.lock().unwrap();
                state.bytes.extend_from_slice(&chunk[..read]);
                state.closed = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        text
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().unwrap().bytes).into_owned()
    }

    /// Waits until `found` finds something in the text, with whether it is complete.
    fn wait<T>(&self, deadline: Instant, found: impl Fn(&str, bool) -> Option<T>) -> Option<T> {
        let mut state = self.0.0.lock().unwrap();
        loop {
            if let Some(value) = found(&String::from_utf8_lossy(&state.bytes), state.closed) {
                return Some(value);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return None;
            }
            state = self.0.1.wait_timeout(state, left).unwrap().0;
        }
    }
}
