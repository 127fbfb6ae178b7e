//! The thread that keeps a device going while the application does not poll.
//!
//! A target of remote reads and writes need not call anything, so somebody else must receive. The
//! thread sleeps in the kernel until a packet or a timer comes. As long as the application polls, it
//! stays out of the way: it would only wake for packets that the application is about to take, and
//! compete with it for a core. It then looks once in a while whether the application still polls.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::Server;
use crate::runtime::{Runtime, now};

/// How often the thread looks whether the application still polls.
const LOOK: Duration = Duration::from_millis(1);

/// Time between two updates of the counters' files.
const SHOW_NS: u64 = 100_000_000;

/// Longest sleep: a bound on the harm of a wake-up that was missed.
const LONGEST: Duration = Duration::from_secs(10);

/// The running thread.
pub(crate) struct Helper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Helper {
    /// Starts the thread. It holds no reference to the device while it sleeps longer than a look.
    pub(crate) fn start(runtime: &Arc<Runtime>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            let runtime = Arc::downgrade(runtime);
            let _blocked = BlockedSignals::new();
            thread::Builder::new()
                .name("efa-sim".to_owned())
                .stack_size(256 << 10)
                .spawn(move || run(&runtime, &stop))?
        };
        Ok(Helper { stop, thread })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self, runtime: &Runtime) {
        self.stop.store(true, Ordering::SeqCst);
        runtime.wake_helper();
        // A panic in the thread was reported when it happened.
        let _ = self.thread.join();
    }
}

fn run(runtime: &Weak<Runtime>, stop: &AtomicBool) {
    let mut server = runtime.upgrade().and_then(|runtime| listen(&runtime));
    let mut polls = 0;
    let mut show_at = 0;
    let mut shown = None;
    while !stop.load(Ordering::SeqCst) {
        let Some(runtime) = runtime.upgrade() else {
            return;
        };
        let seen = runtime.polls();
        // Whoever arms a queue looks at this flag afterwards, so that an armed queue is never dozed over.
        runtime.set_dozing(true);
        let doze = seen != polls && !runtime.lock().is_armed();
        polls = seen;
        let commanded = if doze {
            let commanded = wait(&runtime, None, server.as_ref(), LOOK);
            runtime.set_dozing(false);
            commanded
        } else {
            runtime.set_dozing(false);
            let longest = {
                let mut core = runtime.lock();
                core.turn(now(), runtime.epoll_fd());
                // What has not been shown yet is, once the device has been quiet for a moment.
                let counters = core.device.counters();
                let seen = Some((counters.tx_pkts, counters.rx_pkts));
                let longest = if seen == shown { LONGEST } else { Duration::from_nanos(SHOW_NS) };
                core.sleep_until_turn(now(), longest)
            };
            wait(&runtime, Some(runtime.epoll_fd()), server.as_ref(), longest)
        };
        if now() >= show_at {
            let counters = runtime.show_counters();
            shown = Some((counters.tx_pkts, counters.rx_pkts));
            show_at = now().saturating_add(SHOW_NS);
        }
        if commanded && let Some(server) = &mut server {
            server.serve(|command| runtime.lock().execute(command, runtime.epoll_fd()));
        }
    }
}

/// Opens the control socket. A device without one works on, and says why it has none.
fn listen(runtime: &Runtime) -> Option<Server> {
    let path = runtime.control_path()?;
    Server::bind(path).map_err(|error| eprintln!("efa-sim: no control socket at {}: {error}", path.display())).ok()
}

/// Waits to be woken, for a command, for a packet if there are `sockets`, or for the end of a time; whether
/// there is a command.
fn wait(runtime: &Runtime, sockets: Option<&OwnedFd>, server: Option<&Server>, longest: Duration) -> bool {
    let mut fds = Vec::with_capacity(16);
    fds.push(PollFd::new(runtime.wake_fd(), PollFlags::IN));
    fds.extend(sockets.map(|sockets| PollFd::new(sockets, PollFlags::IN)));
    let first = fds.len();
    for descriptor in server.iter().flat_map(|server| server.descriptors()) {
        fds.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
    }
    // An interruption ends the wait early, which does no harm.
    let _ = poll(&mut fds, Some(&timespec(longest)));
    drain(runtime);
    fds.iter().skip(first).any(|fd| !fd.revents().is_empty())
}

fn drain(runtime: &Runtime) {
    let mut count = [0; 8];
    // Nothing to read means that nobody woke us.
    let _ = rustix::io::read(runtime.wake_fd(), &mut count);
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos() as _ }
}

/// Blocks all signals of this thread while it exists: a thread started meanwhile inherits that, so that
/// the application's handlers never run on it.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is valid for a write.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` was filled just now, `before` is valid for a write.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: with valid arguments the call does not fail, and then it wrote the old mask.
        let before = unsafe { before.assume_init() };
        BlockedSignals { before }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
