//! The processor's time-stamp counter.

use std::fs;
use std::time::{Duration, Instant};

use super::{Clock, ClockInfo, ClockKind, Ticks, measured_overhead};

/// Below this much time, an error in reading either clock would pass for drift.
const DRIFT_NEEDS: Duration = Duration::from_millis(10);

/// For how long the counter is compared with the monotonic clock. Both are read within some 50 ns of each other,
/// which over this time is an error of about a millionth; quanta's own calibration was seen to be off by 130.
const CALIBRATION: Duration = Duration::from_millis(50);

/// The binary places of a tick's length in nanoseconds: an error of 10^-9 at the most.
const SCALE_BITS: u32 = 32;

/// The processor's counter, read through the crate quanta and calibrated against the monotonic clock.
///
/// The read is not ordered with the instructions around it. What stands between two reads in a
/// benchmark is a round trip through a library and a kernel or device, which no processor reorders away;
/// an ordered read would cost more than the error that it removes.
#[derive(Debug)]
pub struct TscClock {
    clock: quanta::Clock,
    source: String,
    overhead_ns: u64,
    /// A tick in units of 2^-32 ns.
    scale: u128,
    started: Instant,
    started_ticks: Ticks,
}

impl TscClock {
    /// Calibrates the counter and measures what a read costs.
    ///
    /// Only [`open`](super::open) makes one, with what says that it is steady.
    pub(super) fn new(counter: &str) -> Self {
        let mut this = Self {
            clock: quanta::Clock::new(),
            source: counter.to_owned(),
            overhead_ns: 0,
            scale: 0,
            started: Instant::now(),
            started_ticks: Ticks(0),
        };
        let (began, first) = this.both_clocks();
        while began.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        (this.started, this.started_ticks) = this.both_clocks();
        let elapsed_ns = this.started.duration_since(began).as_nanos();
        let ticks = this.started_ticks.0.saturating_sub(first.0).max(1);
        this.scale = (elapsed_ns << SCALE_BITS) / u128::from(ticks);
        this.overhead_ns = measured_overhead(&this);
        this
    }

    fn frequency_hz(&self) -> u64 {
        ((1_000_000_000_u128 << SCALE_BITS) / self.scale.max(1)) as u64
    }

    fn drift_ppm(&self) -> Option<f64> {
        let (now, ticks) = self.both_clocks();
        let elapsed = now.duration_since(self.started);
        if elapsed < DRIFT_NEEDS {
            return None;
        }
        let counted = self.nanos(self.started_ticks, ticks)? as f64;
        let true_ns = elapsed.as_nanos() as f64;
        Some((counted - true_ns) / true_ns * 1e6)
    }

    /// Both clocks at one moment: the closest of several tries, as an interrupt may fall in between.
    fn both_clocks(&self) -> (Instant, Ticks) {
        let attempt = || {
            let before = self.now();
            let instant = Instant::now();
            let after = self.now();
            let gap = after.0.saturating_sub(before.0);
            (gap, (instant, Ticks(before.0 + gap / 2)))
        };
        let mut best = attempt();
        for _ in 0..16 {
            let next = attempt();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Ticks {
        Ticks(self.clock.raw())
    }

    #[inline]
    fn nanos(&self, from: Ticks, to: Ticks) -> Option<u64> {
        let ticks = to.0.checked_sub(from.0)?;
        Some(((u128::from(ticks) * self.scale) >> SCALE_BITS) as u64).filter(|&ns| ns > 0)
    }

    fn overhead_ns(&self) -> u64 {
        self.overhead_ns
    }

    fn describe(&self) -> ClockInfo {
        ClockInfo {
            kind: ClockKind::Tsc,
            source: self.source.clone(),
            overhead_ns: self.overhead_ns,
            resolution_ns: Some(self.scale as f64 / (1_u64 << SCALE_BITS) as f64),
            frequency_hz: Some(self.frequency_hz()),
            drift_ppm: self.drift_ppm(),
        }
    }
}

/// Names the counter of this machine if it ticks at one rate in every power state, or says why not.
pub(super) fn steady_counter() -> Result<String, String> {
    if cfg!(target_arch = "aarch64") {
        // The architecture fixes the rate of the generic timer, and it never stops.
        return Ok("cntvct_el0".to_owned());
    }
    if !cfg!(target_arch = "x86_64") {
        return Err("no counter is known for this processor architecture".to_owned());
    }
    let cpuinfo =
        fs::read_to_string("/proc/cpuinfo").map_err(|error| format!("/proc/cpuinfo cannot be read ({error})"))?;
    steady_flags(&cpuinfo).map(|()| "rdtsc, constant_tsc and nonstop_tsc".to_owned())
}

fn steady_flags(cpuinfo: &str) -> Result<(), String> {
    let mut flags = cpuinfo.lines().filter_map(|line| {
        let (key, values) = line.split_once(':')?;
        (key.trim() == "flags").then_some(values)
    });
    let Some(first) = flags.next() else {
        return Err("/proc/cpuinfo names no processor flags".to_owned());
    };
    for values in std::iter::once(first).chain(flags) {
        for needed in ["constant_tsc", "nonstop_tsc", "rdtscp"] {
            if !values.split_whitespace().any(|flag| flag == needed) {
                return Err(format!("/proc/cpuinfo has no {needed}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_needs_a_steady_counter() {
        let good = "processor\t: 0\nflags\t\t: fpu rdtscp constant_tsc nonstop_tsc\n";
        assert_eq!(steady_flags(good), Ok(()));
        let second = format!("{good}\nprocessor\t: 1\nflags\t\t: fpu rdtscp constant_tsc\n");
        assert_eq!(steady_flags(&second), Err("/proc/cpuinfo has no nonstop_tsc".to_owned()));
        assert!(steady_flags("processor : 0\n").unwrap_err().contains("no processor flags"));
        // `tsc` alone, or a longer word, is not the flag.
        let longer = "flags : tsc rdtscp constant_tsc nonstop_tsc_s3\n";
        assert!(steady_flags(longer).unwrap_err().contains("nonstop_tsc"));
    }
}
