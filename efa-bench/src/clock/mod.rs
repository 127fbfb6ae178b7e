//! Clocks for timed regions: the calibrated time-stamp counter and the system's monotonic clock.
//!
//! Durations never come from the wall clock, so setting the time of day during a run has no effect.
//! Reading a clock costs time itself. What one read costs is measured once, when the clock is made, is
//! subtracted from each sample, and is part of every report. A pair of readings that does not go
//! forward has no duration: [`Clock::nanos`] answers `None`, and the sample is counted as invalid.
//!
//! A timed loop is generic over [`Clock`]; which clock it is, is decided once by [`open`].

mod monotonic;
mod scripted;
mod tsc;

use std::fmt;

use crate::args::ClockChoice;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::monotonic::MonotonicClock;
pub use self::scripted::ScriptedClock;
pub use self::tsc::TscClock;

/// Pairs of back-to-back reads that the measured overhead is the median of.
const OVERHEAD_READS: usize = 10_001;

/// One reading of a clock, in units that only that clock can turn into time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// A source of readings for a timed loop.
pub trait Clock {
    /// Reads the clock; costs the read and nothing else.
    fn now(&self) -> Ticks;

    /// The time from one reading to a later one in nanoseconds, rounded down.
    ///
    /// `None` when it is not positive: such a sample is invalid and must be counted as that.
    fn nanos(&self, from: Ticks, to: Ticks) -> Option<u64>;

    /// What one read costs in nanoseconds, as measured when the clock was made.
    fn overhead_ns(&self) -> u64;

    /// What this clock is, for the report; to be asked at the end of a run, when the drift is known.
    fn describe(&self) -> ClockInfo;
}

/// Which kind of clock a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClockKind {
    /// The processor's counter, calibrated against the monotonic clock.
    Tsc,
    /// The operating system's monotonic clock.
    Monotonic,
    /// Readings written down beforehand: tests only.
    Scripted,
}

impl fmt::Display for ClockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tsc => "tsc",
            Self::Monotonic => "monotonic",
            Self::Scripted => "scripted",
        })
    }
}

/// A clock described for a report. No field is left out, so that it can travel in any format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// The kind of clock.
    pub kind: ClockKind,
    /// What is read, and why this clock where `auto` had to choose.
    pub source: String,
    /// The cost of one read in nanoseconds, subtracted from each sample.
    pub overhead_ns: u64,
    /// The smallest step in nanoseconds that two readings can differ by.
    pub resolution_ns: Option<f64>,
    /// Ticks a second of a counter; `None` for a clock that counts nanoseconds.
    pub frequency_hz: Option<u64>,
    /// How much faster (or, negative, slower) than the monotonic clock it ran since it was made, in
    /// millionths; `None` for the monotonic clock itself and for less than ten milliseconds.
    pub drift_ppm: Option<f64>,
}

/// Makes the clock that was asked for: calibrates it where that is needed and measures its overhead.
///
/// Takes up to 0.3 s for the counter.
///
/// # Errors
/// [`ClockError::NoSteadyCounter`] when the counter is demanded and is not known to be steady.
pub fn open(choice: ClockChoice) -> Result<OpenClock, ClockError> {
    match (choice, tsc::steady_counter()) {
        (ClockChoice::Monotonic, _) => Ok(OpenClock::Monotonic(MonotonicClock::new("as asked"))),
        (_, Ok(counter)) => Ok(OpenClock::Tsc(TscClock::new(&counter))),
        (ClockChoice::Auto, Err(reason)) => Ok(OpenClock::Monotonic(MonotonicClock::new(&reason))),
        (ClockChoice::Tsc, Err(reason)) => Err(ClockError::NoSteadyCounter { reason }),
    }
}

/// A clock that is ready, to be matched on once, outside every timed loop.
#[derive(Debug)]
pub enum OpenClock {
    /// The counter.
    Tsc(TscClock),
    /// The monotonic clock.
    Monotonic(MonotonicClock),
}

impl OpenClock {
    /// What this clock is, as [`Clock::describe`] says.
    pub fn describe(&self) -> ClockInfo {
        match self {
            OpenClock::Tsc(clock) => clock.describe(),
            OpenClock::Monotonic(clock) => clock.describe(),
        }
    }
}

/// A clock that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The counter was demanded where it is not known to tick steadily.
    #[error("clock `tsc` cannot be used here: {reason}; use `auto` or `monotonic`")]
    NoSteadyCounter {
        /// What is missing.
        reason: String,
    },
}

/// The median of many back-to-back reads in nanoseconds, rounded to the nearest.
///
/// The median, because an interrupt in the middle of one pair must not count; readings, rather than
/// nanoseconds, are what is sorted, because a read takes few of the latter.
fn measured_overhead(clock: &impl Clock) -> u64 {
    let readings: Vec<Ticks> = (0..=OVERHEAD_READS).map(|_| clock.now()).collect();
    let mut steps: Vec<u64> = readings.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
    steps.sort_unstable();
    // A thousand of them are converted, so that the fraction of a nanosecond is rounded, not cut.
    let thousand = steps[steps.len() / 2].saturating_mul(1_000);
    (clock.nanos(Ticks(0), Ticks(thousand)).unwrap_or(0) + 500) / 1_000
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn check(clock: &impl Clock, kind: ClockKind) {
        let info = clock.describe();
        assert_eq!(info.kind, kind);
        assert_eq!(info.overhead_ns, clock.overhead_ns());
        assert!(info.overhead_ns < 10_000, "one read takes {} ns", info.overhead_ns);
        let resolution = info.resolution_ns.expect("a real clock has a resolution");
        assert!(resolution > 0.0 && resolution < 1e7, "{resolution}");

        let (outside, from) = (Instant::now(), clock.now());
        let mut to = clock.now();
        while clock.nanos(from, to).is_none_or(|ns| ns < 20_000_000) {
            to = clock.now();
        }
        let outside = outside.elapsed();
        assert!(outside > Duration::from_micros(19_900), "20 ms took {outside:?}");
        assert_eq!(clock.nanos(to, from), None, "backwards is no duration");
        assert_eq!(clock.nanos(from, from), None, "nothing is no duration");
        if let Some(ppm) = clock.describe().drift_ppm {
            assert!(ppm.is_finite() && ppm.abs() < 10_000.0, "{ppm}");
        }
    }

    #[test]
    fn the_monotonic_clock_measures_time() {
        let Ok(OpenClock::Monotonic(clock)) = open(ClockChoice::Monotonic) else {
            panic!("the monotonic clock is always there");
        };
        check(&clock, ClockKind::Monotonic);
        assert_eq!(clock.describe().drift_ppm, None);
    }

    #[test]
    fn the_counter_agrees_with_the_monotonic_clock_or_is_refused_with_a_reason() {
        match open(ClockChoice::Tsc) {
            Ok(OpenClock::Tsc(clock)) => check(&clock, ClockKind::Tsc),
            Ok(OpenClock::Monotonic(_)) => panic!("another clock than the one demanded"),
            Err(error) => assert!(error.to_string().contains("use `auto` or `monotonic`")),
        }
    }

    #[test]
    fn the_overhead_is_the_median_step_in_nanoseconds() {
        assert_eq!(measured_overhead(&ScriptedClock::steady(7)), 7);
        // One read that an interrupt stretched does not count.
        let mut readings: Vec<u64> = (0..9_000).map(|i| i * 5).collect();
        readings.push(1_000_000_000);
        assert!(measured_overhead(&ScriptedClock::new(readings)) <= 5);
    }
}
