//! The flag by which a signal, or any thread, ends every wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A shared request to stop, which every wait looks at within 50 ms.
///
/// Signals have to be registered before libfabric is called: the shm provider installs handlers of
/// its own, saves those it finds and calls them after its clean-up.
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

    /// Makes a flag that SIGINT, SIGTERM and SIGHUP raise.
    ///
    /// # Errors
    /// Where a handler cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        Self::on(&[SIGINT, SIGTERM, SIGHUP])
    }

    fn on(signals: &[i32]) -> io::Result<Self> {
        let stop = Self::new();
        for &signal in signals {
            let value = usize::try_from(signal).unwrap_or(1);
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), value)?;
        }
        Ok(stop)
    }

    /// Raises the flag, as SIGINT would.
    pub fn request(&self) {
        self.signal.store(usize::try_from(SIGINT).unwrap_or(2), Ordering::SeqCst);
    }

    /// Whether to stop. One relaxed load: cheap enough for a polling loop.
    pub fn requested(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Number of the signal that raised the flag.
    pub fn signal(&self) -> Option<usize> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|s| *s != 0)
    }
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
        assert!(other.requested());
        assert_eq!(other.signal(), Some(2));
    }

    #[test]
    fn a_signal_raises_the_flag() {
        // Not one of the real three: the test process must go on ending at them.
        let signal = signal_hook::consts::SIGUSR1;
        let stop = Stop::on(&[signal]).unwrap();
        signal_hook::low_level::raise(signal).unwrap();
        assert_eq!(stop.signal(), usize::try_from(signal).ok());
    }
}
