//! Waits that end: by readiness, by a deadline, or by a request to stop.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

use super::Stop;

/// Longest time without a look at [`Stop`].
const SLICE: Duration = Duration::from_millis(50);

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    Ready,
    Deadline,
    Stopped,
}

/// Waits until one of `fds` is ready; no deadline means for as long as it takes.
///
/// What is ready counts even where the deadline has passed, so that a busy host does not turn an answer
/// that came in time into a time-out.
pub(super) fn wait(fds: &mut [PollFd<'_>], deadline: Option<Instant>, stop: &Stop) -> io::Result<Wake> {
    loop {
        if stop.requested() {
            return Ok(Wake::Stopped);
        }
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        let timeout = Timespec { tv_sec: 0, tv_nsec: slice.as_nanos() as _ };
        match poll(fds, Some(&timeout)) {
            Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(Wake::Deadline),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(Wake::Ready),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Lets time pass until the deadline or a request to stop.
pub(super) fn pause(deadline: Instant, stop: &Stop) -> io::Result<Wake> {
    wait(&mut [], Some(deadline), stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_ends_a_wait_and_a_stop_does_so_first() {
        let stop = Stop::new();
        let start = Instant::now();
        let deadline = start + Duration::from_millis(60);
        assert_eq!(pause(deadline, &stop).unwrap(), Wake::Deadline);
        assert!(Instant::now() >= deadline);
        stop.request();
        let far = Instant::now() + Duration::from_secs(60);
        assert_eq!(pause(far, &stop).unwrap(), Wake::Stopped);
    }
}
