//! Statistics of recorded round trips: pure functions from samples to figures.
//!
//! Samples are whole round trips; this is the one place where they are halved. Percentiles are nearest-rank:
//! the p-th is the smallest sample with at least p % of all samples at or below it. They come from a histogram of
//! three significant digits, as the middle of the bucket, so each is within 0.05 % of the sample itself and
//! exact below 2 us; minimum, maximum, mean and rates come from exact figures.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::record::RunSamples;

/// Up to this many samples the binomial distribution is summed; past it the normal one stands in for it.
const EXACT_BINOMIAL_UP_TO: u64 = 1_000;

/// Half round trips in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The shortest.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// What one size of one operation yielded.
#[derive(Debug, Clone, PartialEq)]
pub struct PointResult {
    /// The operation: `msg`, `tagged`.
    pub op: String,
    /// Bytes of one message.
    pub size_bytes: u64,
    /// The round trips.
    pub samples: RunSamples,
    /// Wall time of the timed loops: the samples, and what lies between them.
    pub elapsed: Duration,
    /// How many messages were compared byte by byte, where that was asked for.
    pub verified: Option<u64>,
    /// What ended the measurement.
    pub ended_by: EndedBy,
}

/// What ended the measurement of one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndedBy {
    /// The number of iterations that was asked for.
    Iterations,
    /// The confidence interval of the median became as narrow as asked.
    Confidence,
    /// The largest number of iterations of an adaptive run.
    MaxIterations,
    /// The time that was asked for, or the largest time of an adaptive run.
    Time,
    /// A signal or a failure: the point is partial.
    Interrupted,
}

impl EndedBy {
    /// The word for it in every format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iterations => "iterations",
            Self::Confidence => "confidence",
            Self::MaxIterations => "max_iterations",
            Self::Time => "time",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Summarises the half round trips; `None` without samples.
pub fn summary(samples: &RunSamples) -> Option<Summary> {
    let at = |percentile| half_rtt_percentile(samples, percentile);
    Some(Summary {
        min: half(samples.min_ns?),
        mean: samples.mean_ns()? / 2.0,
        p50: at(50.0)?,
        p90: at(90.0)?,
        p99: at(99.0)?,
        p999: at(99.9)?,
        max: half(samples.max_ns?),
    })
}

/// One percentile (0 to 100) of the half round trips in nanoseconds; `None` without samples.
pub fn half_rtt_percentile(samples: &RunSamples, percentile: f64) -> Option<f64> {
    let count = samples.histogram.len();
    let rank = rank_of_percentile(percentile, count)?;
    let (min, max) = (samples.min_ns?, samples.max_ns?);
    // The extremes are known exactly, and the bucket of a value next to one reaches past it.
    if rank == count {
        return Some(half(max));
    }
    let value = value_at_rank(&samples.histogram, rank)?;
    let middle = samples.histogram.median_equivalent(value);
    Some(half(middle.clamp(min, max)))
}

/// Percentiles (0 to 100) of the half round trips in nanoseconds, each with what was asked for.
pub fn half_rtt_percentiles(samples: &RunSamples, percentiles: &[f64]) -> Vec<(f64, f64)> {
    percentiles.iter().filter_map(|&p| Some((p, half_rtt_percentile(samples, p)?))).collect()
}

/// A confidence interval of the half round trip's median in nanoseconds.
pub fn half_rtt_median_ci(samples: &RunSamples, confidence: f64) -> Option<(f64, f64)> {
    median_ci(&samples.histogram, confidence).map(|(low, high)| (half(low), half(high)))
}

/// A confidence interval of the median, from the samples' own order: it assumes nothing of their distribution.
///
/// With n independent samples the count of those below the true median is binomial (n, 1/2), so the r-th
/// smallest and the r-th largest enclose it with the probability 1 - 2 P(B < r) (W. J. Conover, Practical
/// Nonparametric Statistics, 3rd ed., section 3.2). r is the largest rank for which that is at least
/// `confidence`. Past 1000 samples B is taken as normal with mean n/2 and variance n/4 and the ranks are
/// rounded outwards (M. J. Campbell and M. J. Gardner, BMJ 296:1454, 1988). The interval ends at the outer
/// edges of its buckets. Samples that depend on each other make the true interval wider.
///
/// `None` when the samples are too few for any such interval: below 6 for 95 %.
pub fn median_ci(histogram: &Histogram<u64>, confidence: f64) -> Option<(u64, u64)> {
    let count = histogram.len();
    let rank = lower_rank(count, confidence)?;
    let low = value_at_rank(histogram, rank)?;
    let high = value_at_rank(histogram, count + 1 - rank)?;
    Some((histogram.lowest_equivalent(low), histogram.highest_equivalent(high)))
}

/// Half the width of an interval as a fraction of the median; `None` for a median of zero.
///
/// All three are to be in one unit: whole round trips or half ones.
pub fn relative_half_width(ci: (u64, u64), median: u64) -> Option<f64> {
    (median > 0).then(|| ci.1.saturating_sub(ci.0) as f64 / 2.0 / median as f64)
}

/// How precisely the median is known: [`relative_half_width`] of its own confidence interval.
///
/// `None` while there are too few samples to say.
pub fn median_precision(histogram: &Histogram<u64>, confidence: f64) -> Option<f64> {
    let ci = median_ci(histogram, confidence)?;
    relative_half_width(ci, histogram.value_at_quantile(0.5))
}

/// Payload bytes a second; `None` without samples.
///
/// Each round trip carries the size twice, once in each direction, one after the other: this is
/// 2 x size x count / total time, which is the size divided by the mean half round trip, and the same as MB/sec in
/// fi_pingpong's table but for the unit.
pub fn bytes_per_sec(size_bytes: u64, samples: &RunSamples) -> Option<f64> {
    messages_per_sec(samples).map(|messages| messages * size_bytes as f64)
}

/// Messages a second, both directions together: two in each round trip; `None` without samples.
pub fn messages_per_sec(samples: &RunSamples) -> Option<f64> {
    (samples.count > 0 && samples.total_ns > 0).then(|| 2e9 * samples.count as f64 / samples.total_ns as f64)
}

/// Half of a round trip in nanoseconds.
fn half(round_trip_ns: u64) -> f64 {
    round_trip_ns as f64 / 2.0
}

/// The nearest rank, from 1 to `count`, of a percentile.
fn rank_of_percentile(percentile: f64, count: u64) -> Option<u64> {
    if count == 0 || percentile.is_nan() {
        return None;
    }
    let exact = percentile / 100.0 * count as f64;
    // 99.9 % of 1000 comes out as 999.0000000000001, whose ceiling would be one sample too far.
    let rank = (exact - exact * 1e-12).ceil();
    // A float that is out of range saturates.
    Some((rank as u64).clamp(1, count))
}

/// The top of the bucket of the `rank`-th smallest sample, counted from 1.
fn value_at_rank(histogram: &Histogram<u64>, rank: u64) -> Option<u64> {
    let mut below = 0;
    for bucket in histogram.iter_recorded() {
        below += bucket.count_at_value();
        if below >= rank {
            return Some(bucket.value_iterated_to());
        }
    }
    None
}

/// The largest r with 2 P(B(count, 1/2) < r) <= 1 - confidence, if one is at least 1.
fn lower_rank(count: u64, confidence: f64) -> Option<u64> {
    let tail = (1.0 - confidence) / 2.0;
    // Also refuses what is not a number. At and above one half the "interval" would be inside out.
    if !(tail > 0.0 && tail < 0.5) {
        return None;
    }
    if count > EXACT_BINOMIAL_UP_TO {
        let n = count as f64;
        let rank = ((n - normal_upper_quantile(tail) * n.sqrt()) / 2.0).floor();
        return (rank >= 1.0).then_some(rank as u64);
    }
    // P(B = 0) = 2^-n, which is a normal float up to n = 1022; then each term from the one before it.
    let mut term = 0.5_f64.powi(count as i32);
    let mut below = 0.0;
    let mut rank = 0;
    while rank < count {
        below += term;
        if below > tail {
            break;
        }
        rank += 1;
        term *= (count - rank + 1) as f64 / rank as f64;
    }
    (rank >= 1).then_some(rank)
}

/// The z that a standard normal variable exceeds with this probability (0 < `tail` < 1/2).
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23; absolute error below 4.5e-4.
fn normal_upper_quantile(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - numerator / denominator
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A small generator with a fixed seed, so that the tests are the same everywhere (splitmix64).
    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    fn exact_percentile(sorted: &[u64], percentile: f64) -> u64 {
        // By its definition: the smallest sample with enough samples at or below it.
        let needed = percentile * sorted.len() as f64 / 100.0 - 1e-9;
        sorted[(0..sorted.len()).find(|i| (i + 1) as f64 >= needed).unwrap_or(sorted.len() - 1)]
    }

    #[test]
    fn nothing_has_no_statistics() {
        let none = RunSamples::new();
        assert_eq!(summary(&none), None);
        assert_eq!(bytes_per_sec(64, &none), None);
        assert_eq!(messages_per_sec(&none), None);
        assert_eq!(half_rtt_percentiles(&none, &[50.0]), vec![]);
        assert_eq!(median_ci(&none.histogram, 0.95), None);
        assert_eq!(median_precision(&none.histogram, 0.95), None);
    }

    #[test]
    fn a_known_set_is_summarised_as_half_round_trips() {
        let samples = RunSamples::from_nanos((1..=1000).map(|i| 2 * i));
        let summary = summary(&samples).unwrap();
        assert_eq!((summary.min, summary.mean, summary.max), (1.0, 500.5, 1000.0));
        assert_eq!((summary.p50, summary.p90), (500.0, 900.0));
        assert_eq!((summary.p99, summary.p999), (990.0, 999.0));
        assert_eq!(half_rtt_percentile(&samples, 0.0), Some(1.0));
        assert_eq!(half_rtt_percentile(&samples, 100.0), Some(1000.0));
        assert_eq!(half_rtt_percentile(&samples, 250.0), Some(1000.0));
        assert_eq!(half_rtt_percentile(&samples, -1.0), Some(1.0));
        assert_eq!(half_rtt_percentile(&samples, f64::NAN), None);
    }

    #[test]
    fn rates_equal_the_size_over_the_mean_half_round_trip() {
        let samples = RunSamples::from_nanos([10_000, 30_000]);
        assert_eq!(messages_per_sec(&samples), Some(100_000.0));
        assert_eq!(bytes_per_sec(1_000, &samples), Some(1e8));
        let from_mean = 1_000.0 / (samples.mean_ns().unwrap() / 2.0 / 1e9);
        assert!((from_mean / 1e8 - 1.0).abs() < 1e-12, "{from_mean}");
        assert_eq!(bytes_per_sec(0, &samples), Some(0.0));
    }

    #[test]
    fn ranks_of_the_median_agree_with_published_tables() {
        // Conover, table A3, and any table of the sign test: n and the lower rank at 95 %.
        for (count, rank) in [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)]
        {
            assert_eq!(lower_rank(count, 0.95), Some(rank), "n = {count}");
        }
        for count in 0..6 {
            assert_eq!(lower_rank(count, 0.95), None, "n = {count}");
        }
        assert_eq!(lower_rank(8, 0.99), Some(1));
        assert_eq!(lower_rank(7, 0.99), None);
        for confidence in [f64::NAN, 1.0, 0.0, -1.0, 2.0] {
            assert_eq!(lower_rank(100, confidence), None, "{confidence}");
        }
    }

    #[test]
    fn the_normal_ranks_continue_the_exact_ones() {
        let exact = lower_rank(EXACT_BINOMIAL_UP_TO, 0.95).unwrap();
        let normal = lower_rank(EXACT_BINOMIAL_UP_TO + 1, 0.95).unwrap();
        assert!(exact.abs_diff(normal) <= 1, "{exact} and {normal}");
        assert!((normal_upper_quantile(0.025) - 1.959_964).abs() < 4.5e-4);
        assert!((normal_upper_quantile(0.005) - 2.575_829).abs() < 4.5e-4);
        assert_eq!(lower_rank(10_000, 0.95), Some(4_901));
    }

    #[test]
    fn the_interval_covers_the_true_median_as_often_as_it_says() {
        // Exponential samples with the median 20000 ns: skewed, as latencies are.
        let true_median = 20_000.0;
        let mut random = Random(42);
        for (count, runs) in [(6, 2_000), (25, 2_000), (200, 1_000), (1_500, 300)] {
            let covered = (0..runs)
                .filter(|_| {
                    let draw = |_| (-random.unit().ln() * true_median / 2.0_f64.ln()).max(1.0) as u64;
                    let samples = RunSamples::from_nanos((0..count).map(draw));
                    let (low, high) = median_ci(&samples.histogram, 0.95).unwrap();
                    low as f64 <= true_median && true_median <= high as f64
                })
                .count();
            let fraction = covered as f64 / runs as f64;
            // Three standard errors below the nominal value; above it only by what discrete ranks give.
            let error = (0.95 * 0.05 / runs as f64).sqrt();
            assert!(fraction > 0.95 - 3.0 * error, "n = {count}: covered {fraction}");
            assert!(fraction < 0.985, "n = {count}: covered {fraction}, wider than it must be");
        }
    }

    #[test]
    fn the_precision_is_half_the_width_over_the_median() {
        assert_eq!(relative_half_width((90, 110), 100), Some(0.1));
        assert_eq!(relative_half_width((90, 110), 0), None);
        let same = RunSamples::from_nanos([1_000; 100]);
        assert_eq!(median_precision(&same.histogram, 0.95), Some(0.0));
        assert_eq!(half_rtt_median_ci(&same, 0.95), Some((500.0, 500.0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn percentiles_are_those_of_the_sorted_samples(
            mut durations in prop::collection::vec(1_u64..10_000_000_000, 1..400),
            percentile in 0.0_f64..=100.0,
        ) {
            let samples = RunSamples::from_nanos(durations.iter().copied());
            durations.sort_unstable();
            for p in [percentile, 50.0, 90.0, 99.0, 99.9, 100.0] {
                let exact = exact_percentile(&durations, p) as f64 / 2.0;
                let found = half_rtt_percentile(&samples, p).unwrap();
                let error = (found - exact).abs() / exact;
                prop_assert!(error <= 0.000_5, "p{}: {} for {}", p, found, exact);
            }
        }

        #[test]
        fn a_summary_is_finite_and_in_order(
            durations in prop::collection::vec(0_u64..200_000_000_000, 1..200),
        ) {
            let s = summary(&RunSamples::from_nanos(durations)).unwrap();
            let order = [s.min, s.p50, s.p90, s.p99, s.p999, s.max];
            prop_assert!(order.is_sorted(), "{:?}", order);
            prop_assert!(order.iter().all(|v| v.is_finite() && *v > 0.0));
            prop_assert!(s.min <= s.mean && s.mean <= s.max);
        }

        #[test]
        fn the_interval_holds_the_samples_median(
            durations in prop::collection::vec(1_u64..10_000_000_000, 6..300),
        ) {
            let samples = RunSamples::from_nanos(durations);
            let (low, high) = median_ci(&samples.histogram, 0.95).unwrap();
            let median = samples.histogram.value_at_quantile(0.5);
            prop_assert!(low <= median && median <= high);
            prop_assert!(low >= samples.histogram.min() && high <= samples.histogram.max());
        }

        #[test]
        fn the_total_and_the_extremes_are_exact(
            durations in prop::collection::vec(1_u64..u64::MAX, 1..100),
        ) {
            let samples = RunSamples::from_nanos(durations.iter().copied());
            prop_assert_eq!(samples.total_ns, durations.iter().map(|&d| u128::from(d)).sum::<u128>());
            prop_assert_eq!(samples.min_ns, durations.iter().min().copied());
            prop_assert_eq!(samples.max_ns, durations.iter().max().copied());
        }
    }
}
