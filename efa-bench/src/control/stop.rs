//! The flag by which a signal, or any thread, ends every wait.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use super::wait::{self, Wake};

/// How long after the first signal the process may take to end by itself: every wait of its own is shorter.
const GRACE: Duration = Duration::from_secs(5);
/// Signals this close to the first are the same request: `timeout` signals the process and then its group, and a
/// terminal that closes can tell it more than once.
const SAME_REQUEST: Duration = Duration::from_millis(300);
/// What the libraries' own exit handlers, which remove shared memory, may take while another thread is inside them.
const EXIT_HANDLERS: Duration = Duration::from_secs(1);
/// The exit status after a signal.
const INTERRUPTED: i32 = 130;

/// A shared request to stop, which every wait looks at within 50 ms.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// 0 while running, else the number of the signal.
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Makes a flag that no signal raises.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a flag that SIGINT, SIGTERM and SIGHUP raise, for the whole process.
    ///
    /// The signals are blocked and a thread waits for them, so that no handler runs, whoever installed it and
    /// whenever: libinfinipath, which Debian's libfabric is linked with, installs some before `main` that call
    /// `exit(1)`, and the shm provider installs others. To be called before any other thread is started, for
    /// threads inherit what is blocked. A SIGHUP that is ignored, as under nohup, stays so.
    ///
    /// A thread that is stuck in a library never looks at the flag. So a second signal ends the process at once, and
    /// the first one does after 5 s, both with status 130.
    ///
    /// # Errors
    /// Where the signals cannot be blocked or the thread cannot be started.
    pub fn on_signals() -> io::Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        if !hangup_is_ignored(Path::new("/proc/self/status")) {
            set.add(Signal::SIGHUP);
        }
        set.thread_block()?;
        let stop = Self::new();
        let flag = Arc::clone(&stop.signal);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            // It fails only for a set that holds no signal at all.
            let mut first: Option<Instant> = None;
            while let Ok(signal) = set.wait() {
                match first {
                    None => {
                        flag.store(usize::try_from(signal as i32).unwrap_or(1), Ordering::SeqCst);
                        first = Some(Instant::now());
                        end_after(GRACE, exit);
                    }
                    Some(then) if then.elapsed() < SAME_REQUEST => {}
                    Some(_) => {
                        exit();
                    }
                }
            }
        })?;
        Ok(stop)
    }

    /// Raises the flag, as SIGINT would.
    pub fn request(&self) {
        self.signal.store(Signal::SIGINT as usize, Ordering::SeqCst);
    }

    /// Whether to stop. One relaxed load: cheap enough for a polling loop.
    pub fn requested(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Whether to stop, after a wait of at most `limit` for it.
    pub fn requested_within(&self, limit: Duration) -> bool {
        matches!(wait::pause(Instant::now() + limit, self), Ok(Wake::Stopped))
    }

    /// Number of the signal that raised the flag.
    pub fn signal(&self) -> Option<usize> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|s| *s != 0)
    }
}

/// Ends the process if it still runs after `limit`; without a thread to do so, a second signal has to.
fn end_after(limit: Duration, end: impl FnOnce() + Send + 'static) {
    let _ = std::thread::Builder::new().name("end".into()).spawn(move || {
        std::thread::sleep(limit);
        end();
    });
}

/// Ends the process with its exit handlers, or without them where one hangs.
fn exit() {
    use rustix::process::{Signal, getpid, kill_process};
    end_after(EXIT_HANDLERS, || {
        let _ = kill_process(getpid(), Signal::KILL);
    });
    std::process::exit(INTERRUPTED);
}

/// Whether SIGHUP is ignored, by the mask of ignored signals in a file as /proc/self/status (proc(5)).
fn hangup_is_ignored(status: &Path) -> bool {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (Signal::SIGHUP as u32 - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_seen_by_every_clone() {
        let stop = Stop::new();
        let other = stop.clone();
        assert!(!other.requested());
        stop.request();
        assert!(other.requested() && other.requested_within(Duration::ZERO));
        assert_eq!(other.signal(), Some(2));
    }

    #[test]
    fn an_ignored_hangup_is_seen_in_the_mask() {
        let folder = tempfile::tempdir().unwrap();
        let status = folder.path().join("status");
        for (mask, ignored) in [("0000000000001001", true), ("0000000000001000", false), ("nonsense", false)] {
            std::fs::write(&status, format!("Name:\tx\nSigIgn:\t{mask}\nSigCgt:\t00000001\n")).unwrap();
            assert_eq!(hangup_is_ignored(&status), ignored, "{mask}");
        }
        assert!(!hangup_is_ignored(&folder.path().join("none")));
    }
}
