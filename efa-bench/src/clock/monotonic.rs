//! The operating system's monotonic clock.

use std::time::Instant;

use rustix::time::{ClockId, clock_getres};

use super::{Clock, ClockInfo, ClockKind, Ticks, measured_overhead};

/// The monotonic clock of the operating system, in nanoseconds since this value was made.
#[derive(Debug)]
pub struct MonotonicClock {
    origin: Instant,
    source: String,
    overhead_ns: u64,
}

impl MonotonicClock {
    /// Makes the clock and measures what a read costs; `why` goes into its description.
    pub fn new(why: &str) -> Self {
        let source = format!("CLOCK_MONOTONIC ({why})");
        let mut clock = Self { origin: Instant::now(), source, overhead_ns: 0 };
        clock.overhead_ns = measured_overhead(&clock);
        clock
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Ticks {
        // 64 bits of nanoseconds last for 584 years.
        Ticks(self.origin.elapsed().as_nanos() as u64)
    }

    #[inline]
    fn nanos(&self, from: Ticks, to: Ticks) -> Option<u64> {
        to.0.checked_sub(from.0).filter(|&ns| ns > 0)
    }

    fn overhead_ns(&self) -> u64 {
        self.overhead_ns
    }

    fn describe(&self) -> ClockInfo {
        let resolution = clock_getres(ClockId::Monotonic);
        ClockInfo {
            kind: ClockKind::Monotonic,
            source: self.source.clone(),
            overhead_ns: self.overhead_ns,
            resolution_ns: Some(resolution.tv_sec as f64 * 1e9 + resolution.tv_nsec as f64),
            frequency_hz: None,
            drift_ppm: None,
        }
    }
}
