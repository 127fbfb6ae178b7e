//! The figures of one size.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::stats::{self, EndedBy, PointResult, Summary};

/// The probability with which `median_ci_ns` holds the true median.
pub const MEDIAN_CONFIDENCE: f64 = 0.95;

/// The figures of one size of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The operation: `msg`, `tagged`.
    pub op: String,
    /// Bytes of one message.
    pub size_bytes: u64,
    /// Round trips that the figures come from.
    pub iterations: u64,
    /// Independent exchanges at a time; a ping-pong is one.
    pub streams: u32,
    /// Half round trips in nanoseconds; null when there is no valid sample, see `reason`.
    pub half_rtt_ns: Option<Summary>,
    /// The percentiles that were asked for, of half round trips in nanoseconds, by their number (`99.99`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub percentiles_ns: BTreeMap<String, f64>,
    /// The interval that holds the median with 95 % confidence, in nanoseconds of half round trips; null for
    /// fewer than six samples.
    pub median_ci_ns: Option<[f64; 2]>,
    /// The whole round trip of the first message, connection set-up included; in no other figure.
    pub first_message_ns: Option<u64>,
    /// Wall time of the timed loops in nanoseconds: the samples, and what lies between them. Half of it for each
    /// iteration is what programs that read the clock once for all iterations call a half round trip.
    pub elapsed_ns: u64,
    /// Payload bytes a second: the size divided by the mean half round trip.
    pub bytes_per_sec: Option<f64>,
    /// Messages a second: two in each round trip.
    pub messages_per_sec: Option<f64>,
    /// Whole round trips in nanoseconds: an HdrHistogram, V2 compressed, in base64; null without samples.
    pub histogram: Option<String>,
    /// Samples that had no positive duration; in no other figure.
    pub invalid_samples: u64,
    /// Samples that were moved to the nearest value that the histogram holds.
    pub clamped_samples: u64,
    /// Samples for which there was no room; in no other figure.
    pub dropped_samples: u64,
    /// Messages that were compared byte by byte, outside of the timed region; null when none was to be.
    pub verified_messages: Option<u64>,
    /// What ended the measurement.
    pub ended_by: EndedBy,
    /// Why a figure is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Point {
    /// The figures of one result, with the given percentiles (0 to 100) beside the usual ones.
    pub fn new(result: &PointResult, percentiles: &[f64]) -> Self {
        let samples = &result.samples;
        let finite = |figure: Option<f64>| figure.filter(|value| value.is_finite());
        let half_rtt_ns = stats::summary(samples);
        let histogram = (samples.count > 0).then(|| encode_histogram(&samples.histogram));
        let reason = match (&half_rtt_ns, &histogram) {
            (None, _) => Some(format!("no valid sample ({} were invalid)", samples.invalid)),
            (_, Some(Err(error))) => Some(format!("the histogram cannot be encoded: {error}")),
            _ => None,
        };
        Self {
            op: result.op.clone(),
            size_bytes: result.size_bytes,
            iterations: samples.count,
            streams: 1,
            half_rtt_ns,
            percentiles_ns: stats::half_rtt_percentiles(samples, percentiles)
                .into_iter()
                .map(|(percentile, ns)| (percentile.to_string(), ns))
                .collect(),
            median_ci_ns: stats::half_rtt_median_ci(samples, MEDIAN_CONFIDENCE).map(|(low, high)| [low, high]),
            first_message_ns: samples.first_message_ns,
            elapsed_ns: u64::try_from(result.elapsed.as_nanos()).unwrap_or(u64::MAX),
            bytes_per_sec: finite(stats::bytes_per_sec(result.size_bytes, samples)),
            messages_per_sec: finite(stats::messages_per_sec(samples)),
            histogram: histogram.and_then(Result::ok),
            invalid_samples: samples.invalid,
            clamped_samples: samples.clamped,
            dropped_samples: samples.dropped,
            verified_messages: result.verified,
            ended_by: result.ended_by,
            reason,
        }
    }
}

/// Reads the `histogram` of a point back: whole round trips in nanoseconds.
///
/// # Errors
/// A text that says at which step (base64, HdrHistogram) the reading failed.
pub fn decode_histogram(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))?;
    HdrDeserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| format!("not an HdrHistogram: {error}"))
}

fn encode_histogram(histogram: &Histogram<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(|error| error.to_string())?;
    Ok(STANDARD.encode(bytes))
}
