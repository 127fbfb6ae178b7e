//! Samples of a timed loop: raw pairs of clock readings while it runs, nanoseconds afterwards.
//!
//! A [`Recorder`] owns all the memory it will ever write before the loop starts: recording one sample
//! is a bounds check and a store. Conversion to nanoseconds, subtraction of the clock's own cost and
//! counting into a histogram happen in [`Recorder::fold`], between batches and outside of timed regions.
//!
//! Samples are *round trips*. Halving them is the business of [`crate::stats`], once.
//! Nothing is lost silently: what cannot be used is counted as invalid, clamped or dropped.

use hdrhistogram::Histogram;

use crate::clock::{Clock, Ticks};

/// The least value that the histogram tells apart, in nanoseconds.
pub const HISTOGRAM_LOW_NS: u64 = 1;
/// The largest value that the histogram holds, in nanoseconds (100 s).
pub const HISTOGRAM_HIGH_NS: u64 = 100_000_000_000;
/// The significant digits that the histogram keeps.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// The samples of one point, as nanoseconds of whole round trips.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSamples {
    /// How often each duration occurred, to three significant digits.
    pub histogram: Histogram<u64>,
    /// The exact sum of all durations.
    pub total_ns: u128,
    /// How many durations there are.
    pub count: u64,
    /// Samples whose end was not after their beginning; in no other figure.
    pub invalid: u64,
    /// Samples that were moved to the nearest value that the histogram holds, or to 1 ns because the clock
    /// itself would have taken longer.
    pub clamped: u64,
    /// Samples beyond the recorder's capacity; in no other figure.
    pub dropped: u64,
    /// The first message's round trip, which sets up connections and is in no other figure.
    pub first_message_ns: Option<u64>,
    /// The exact shortest duration.
    pub min_ns: Option<u64>,
    /// The exact longest duration.
    pub max_ns: Option<u64>,
}

impl RunSamples {
    /// No samples yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(HISTOGRAM_LOW_NS, HISTOGRAM_HIGH_NS, HISTOGRAM_DIGITS);
        Self {
            histogram: histogram.expect("the bounds are constants that the crate accepts"),
            total_ns: 0,
            count: 0,
            invalid: 0,
            clamped: 0,
            dropped: 0,
            first_message_ns: None,
            min_ns: None,
            max_ns: None,
        }
    }

    /// Samples of the given durations in nanoseconds.
    pub fn from_nanos(durations: impl IntoIterator<Item = u64>) -> Self {
        let mut samples = Self::new();
        for ns in durations {
            samples.add(ns);
        }
        samples
    }

    /// Adds one duration in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let held = ns.clamp(HISTOGRAM_LOW_NS, HISTOGRAM_HIGH_NS);
        self.clamped += u64::from(held != ns);
        self.histogram.saturating_record(held);
        // The exact figures keep the value that did not fit; only a zero has no meaning in them.
        let exact = ns.max(HISTOGRAM_LOW_NS);
        self.total_ns += u128::from(exact);
        self.count += 1;
        self.min_ns = Some(self.min_ns.map_or(exact, |min| min.min(exact)));
        self.max_ns = Some(self.max_ns.map_or(exact, |max| max.max(exact)));
    }

    /// The exact mean in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns as f64 / self.count as f64)
    }
}

impl Default for RunSamples {
    fn default() -> Self {
        Self::new()
    }
}

/// Keeps the samples of a timed loop without allocating in it.
#[derive(Debug)]
pub struct Recorder {
    pairs: Vec<(Ticks, Ticks)>,
    used: usize,
    armed: bool,
    dropped: u64,
    samples: RunSamples,
}

impl Recorder {
    /// A disarmed recorder that holds up to `capacity` samples between two folds.
    ///
    /// The memory (16 bytes a sample) is written to here, so that no page fault falls into a timed region.
    pub fn new(capacity: usize) -> Self {
        // Zeros would come from pages that do not exist until they are first written.
        let untouched = (Ticks(u64::MAX), Ticks(u64::MAX));
        Self { pairs: vec![untouched; capacity], used: 0, armed: false, dropped: 0, samples: RunSamples::new() }
    }

    /// Starts to keep what is pushed.
    pub fn arm(&mut self) {
        self.armed = true;
    }

    /// Stops keeping what is pushed, as for a warm-up.
    pub fn disarm(&mut self) {
        self.armed = false;
    }

    /// Keeps one sample while armed; the one for which there is no room is counted as dropped.
    #[inline]
    pub fn push(&mut self, from: Ticks, to: Ticks) {
        if !self.armed {
            return;
        }
        match self.pairs.get_mut(self.used) {
            Some(pair) => {
                *pair = (from, to);
                self.used += 1;
            }
            None => self.dropped += 1,
        }
    }

    /// Turns what was pushed into nanoseconds, less what one clock reading costs, and makes room again.
    ///
    /// Each sample spans exactly one reading beyond the operation: the reading at its end.
    pub fn fold(&mut self, clock: &impl Clock) {
        let overhead_ns = clock.overhead_ns();
        for &(from, to) in &self.pairs[..self.used] {
            match clock.nanos(from, to) {
                Some(ns) => self.samples.add(ns.saturating_sub(overhead_ns)),
                None => self.samples.invalid += 1,
            }
        }
        self.used = 0;
        self.samples.dropped += std::mem::take(&mut self.dropped);
    }

    /// Takes the folded samples and leaves the recorder empty and disarmed, for the next point.
    pub fn take(&mut self) -> RunSamples {
        self.used = 0;
        self.armed = false;
        self.dropped = 0;
        std::mem::take(&mut self.samples)
    }

    /// The samples folded so far.
    pub fn samples(&self) -> &RunSamples {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ScriptedClock;

    fn push(recorder: &mut Recorder, from: u64, to: u64) {
        recorder.push(Ticks(from), Ticks(to));
    }

    #[test]
    fn only_what_is_pushed_while_armed_is_kept() {
        let (clock, mut recorder) = (ScriptedClock::steady(1), Recorder::new(8));
        push(&mut recorder, 0, 100);
        recorder.arm();
        push(&mut recorder, 0, 10);
        push(&mut recorder, 10, 30);
        recorder.disarm();
        push(&mut recorder, 0, 500);
        recorder.fold(&clock);
        let samples = recorder.take();
        assert_eq!((samples.count, samples.total_ns), (2, 30));
        assert_eq!((samples.min_ns, samples.max_ns), (Some(10), Some(20)));
        assert_eq!(samples.mean_ns(), Some(15.0));
        assert_eq!(recorder.samples().count, 0);
        assert!(!recorder.armed);
    }

    #[test]
    fn a_sample_beyond_the_capacity_is_counted_and_nothing_grows() {
        let (clock, mut recorder) = (ScriptedClock::steady(1), Recorder::new(2));
        let memory = recorder.pairs.as_ptr();
        recorder.arm();
        for _ in 0..5 {
            push(&mut recorder, 0, 10);
        }
        recorder.fold(&clock);
        assert_eq!((recorder.used, recorder.pairs.len()), (0, 2));
        assert_eq!((recorder.samples().count, recorder.samples().dropped), (2, 3));
        assert_eq!(recorder.pairs.as_ptr(), memory);
    }

    #[test]
    fn a_time_that_does_not_go_forward_is_invalid_and_in_no_figure() {
        let (clock, mut recorder) = (ScriptedClock::steady(1), Recorder::new(4));
        recorder.arm();
        push(&mut recorder, 50, 40);
        push(&mut recorder, 50, 50);
        push(&mut recorder, 50, 60);
        recorder.fold(&clock);
        let samples = recorder.take();
        assert_eq!((samples.invalid, samples.count, samples.histogram.len()), (2, 1, 1));
        assert_eq!((samples.min_ns, samples.total_ns), (Some(10), 10));
    }

    #[test]
    fn the_clocks_own_cost_is_subtracted_and_never_below_a_nanosecond() {
        let clock = ScriptedClock::steady(1).with_overhead_ns(20);
        let mut recorder = Recorder::new(4);
        recorder.arm();
        push(&mut recorder, 0, 120);
        push(&mut recorder, 0, 15);
        recorder.fold(&clock);
        let samples = recorder.take();
        assert_eq!((samples.min_ns, samples.max_ns), (Some(1), Some(100)));
        assert_eq!((samples.clamped, samples.total_ns), (1, 101));
    }

    #[test]
    fn a_value_past_the_histogram_is_clamped_there_and_exact_elsewhere() {
        let samples = RunSamples::from_nanos([HISTOGRAM_HIGH_NS + 5, 3]);
        assert_eq!((samples.clamped, samples.count), (1, 2));
        assert_eq!(samples.max_ns, Some(HISTOGRAM_HIGH_NS + 5));
        assert_eq!(samples.histogram.len(), 2);
        assert_eq!(RunSamples::new().mean_ns(), None);
    }

    #[test]
    fn a_recorder_without_room_and_without_samples_is_harmless() {
        let mut recorder = Recorder::new(0);
        recorder.arm();
        push(&mut recorder, 0, 1);
        recorder.fold(&ScriptedClock::steady(1));
        assert_eq!(recorder.take().dropped, 1);
    }
}
