//! What a benchmark holds while it runs: the link, the control connection, the clock, and every wait.

mod error;
mod link;
mod pattern;

use std::time::{Duration, Instant};

use efa_core::Buf;

pub use error::RunError;
pub use link::{BUFFERS_PER_SIDE, Link, LinkConfig};
pub use pattern::Pattern;

use crate::clock::Clock;
use crate::control::{Control, Mismatch, Stop};

/// Which end of the pair this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Asks, measures, reports.
    Client,
    /// Answers.
    Server,
}

/// How an idle side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// Polls without a pause.
    Spin,
    /// Gives the core away after some tens of empty polls: for two sides on one core.
    Yield,
}

impl WaitMode {
    /// Empty polls between two looks at the deadline, a power of two. A look costs a clock read and a
    /// system call, a poll some tens of nanoseconds.
    fn polls_between_looks(self) -> u32 {
        match self {
            WaitMode::Spin => 4096,
            WaitMode::Yield => 64,
        }
    }
}

/// Time between two looks at the control connection while nothing arrives.
const LOOK_AT_PEER: Duration = Duration::from_millis(5);

/// Everything that one side of a running benchmark works with.
pub struct Rig<'a, C> {
    /// The fabric.
    pub link: Link,
    /// The clock of the samples.
    pub clock: &'a C,
    role: Role,
    watch: Watch<'a>,
    verify: Option<Verification>,
    message: u64,
    peer_cpu: Duration,
}

/// What verification needs and what it found.
struct Verification {
    ours: Pattern,
    theirs: Pattern,
    verified: u64,
    mismatch: Option<Mismatch>,
}

impl<'a, C: Clock> Rig<'a, C> {
    /// A rig of two sides that have been introduced; `verify` is the seed when bytes are verified.
    pub fn new(link: Link, clock: &'a C, role: Role, watch: Watch<'a>, verify: Option<u64>) -> Rig<'a, C> {
        let patterns = |seed| {
            let (client, server) = (Pattern::new(seed, 0), Pattern::new(seed, 1));
            if role == Role::Client { (client, server) } else { (server, client) }
        };
        let verify = verify.map(|seed| {
            let (ours, theirs) = patterns(seed);
            Verification { ours, theirs, verified: 0, mismatch: None }
        });
        Rig { link, clock, role, watch, verify, message: 0, peer_cpu: Duration::ZERO }
    }

    /// Which side this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The control connection, for what happens between batches.
    pub fn control(&mut self) -> &mut Control {
        self.watch.control
    }

    /// How long either side waits for the other.
    pub fn timeout(&self) -> Duration {
        self.watch.timeout
    }

    /// Keeps what the peer said of its processor time.
    pub fn note_peer_cpu(&mut self, time: Duration) {
        self.peer_cpu = time;
    }

    /// Processor time that the peer used from the beginning of the benchmark to the end of the last batch.
    pub fn peer_cpu(&self) -> Duration {
        self.peer_cpu
    }

    /// Messages verified so far, where verification is on.
    pub fn verified(&self) -> Option<u64> {
        self.verify.as_ref().map(|v| v.verified)
    }

    /// The first wrong byte that this side found.
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.verify.as_ref().and_then(|v| v.mismatch)
    }

    /// Starts the time-out anew at the beginning of a batch: waits on the control connection do not count.
    pub fn start_batch(&mut self) {
        self.watch.progress = None;
    }

    /// Gives the link back, to be closed.
    pub fn into_link(self) -> Link {
        self.link
    }

    /// Starts a point: messages of this size, numbered from 0.
    pub fn start_point(&mut self, size: usize) {
        self.message = 0;
        if let Some(verify) = &mut self.verify {
            verify.verified = 0;
        }
        self.link.set_size(size);
    }

    /// Writes the next outgoing message, when its bytes matter; whether they do. Never inside a timed region.
    #[inline]
    pub fn prepare(&mut self) -> bool {
        let Some(verify) = &self.verify else { return false };
        verify.ours.fill(self.message, self.link.outgoing());
        true
    }

    /// Sends the outgoing message; polls while a queue is full or the provider still connects.
    ///
    /// # Errors
    /// As for [`until`](Rig::until), or the provider's refusal.
    #[inline]
    pub fn send(&mut self) -> Result<(), RunError> {
        let mut idle = 0;
        while !self.link.try_send()? {
            self.turn(&mut idle)?;
        }
        Ok(())
    }

    /// Polls until `done`, with a look at the deadline, the peer and the stop flag now and then.
    ///
    /// # Errors
    /// [`RunError::Stalled`] after the time-out without any completion, [`RunError::Control`] when the peer
    /// died or gave up, [`RunError::Interrupted`], or what a completion reported.
    #[inline]
    pub fn until(&mut self, done: impl Fn(&Link) -> bool) -> Result<(), RunError> {
        let mut idle = 0;
        while !done(&self.link) {
            self.turn(&mut idle)?;
        }
        Ok(())
    }

    /// One poll, and after many empty ones a look around.
    #[inline]
    fn turn(&mut self, idle: &mut u32) -> Result<(), RunError> {
        if !self.link.poll()? {
            *idle = idle.wrapping_add(1);
            if *idle & self.watch.idle_mask == 0 {
                self.watch.look(&self.link)?;
            }
        }
        Ok(())
    }

    /// Takes the message that arrived: checks its length, and verifies it where asked. Never inside a timed
    /// region. The buffer is to be given to [`post`](Rig::post).
    ///
    /// # Errors
    /// [`RunError::Length`], and [`RunError::Mismatch`] on the client; the server keeps its finding for the
    /// end of the batch, so that the client learns of it.
    #[inline]
    pub fn take(&mut self) -> Result<Buf, RunError> {
        let expected = self.link.size();
        let (buf, len) = self.link.take_arrived()?;
        if self.role == Role::Client && self.link.arrived() {
            // Nobody asked for a second answer.
            return Err(RunError::Surplus);
        }
        if len != expected {
            return Err(RunError::Length { expected, received: len });
        }
        if let Some(verify) = &mut self.verify {
            let found = verify.theirs.first_difference(self.message, &buf[..len]);
            verify.verified += 1;
            if let Some((offset, expected, found)) = found {
                let mismatch = Mismatch { message: self.message, offset: offset as u64, expected, found };
                verify.mismatch.get_or_insert(mismatch);
                if self.role == Role::Client {
                    return Err(RunError::Mismatch { at: "client", mismatch });
                }
            }
        }
        self.message += 1;
        Ok(buf)
    }

    /// Posts the buffer of a message that was taken for the next one to come; best while a message is under way.
    ///
    /// # Errors
    /// The provider's refusal.
    #[inline]
    pub fn post(&mut self, buf: Buf) -> Result<(), RunError> {
        self.link.post_receive(buf)
    }
}

/// Looks at everything that can end a wait.
pub struct Watch<'a> {
    control: &'a mut Control,
    stop: &'a Stop,
    timeout: Duration,
    mode: WaitMode,
    idle_mask: u32,
    /// Completions at the last look, and when that number was first seen.
    progress: Option<(u64, Instant)>,
    looked_at_peer: Instant,
}

impl<'a> Watch<'a> {
    /// A watch that gives up after `timeout` without a completion.
    pub fn new(control: &'a mut Control, stop: &'a Stop, timeout: Duration, mode: WaitMode) -> Watch<'a> {
        let idle_mask = mode.polls_between_looks() - 1;
        Watch { control, stop, timeout, mode, idle_mask, progress: None, looked_at_peer: Instant::now() }
    }

    #[cold]
    fn look(&mut self, link: &Link) -> Result<(), RunError> {
        if self.mode == WaitMode::Yield {
            std::thread::yield_now();
        }
        if self.stop.requested() {
            return Err(RunError::Interrupted);
        }
        let now = Instant::now();
        match self.progress {
            Some((seen, since)) if seen == link.completions() => {
                if now.duration_since(since) >= self.timeout {
                    return Err(RunError::Stalled { waited: self.timeout, completions: seen });
                }
            }
            _ => self.progress = Some((link.completions(), now)),
        }
        if now.duration_since(self.looked_at_peer) >= LOOK_AT_PEER {
            self.looked_at_peer = now;
            self.control.alive()?;
        }
        Ok(())
    }
}
