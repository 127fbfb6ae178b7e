//! Comma-separated values (RFC 4180): one record for each point, which stands on its own.
//!
//! Files of many runs can be put together and still be told apart, because each record says which run, provider,
//! libfabric and hosts it came from. A field that cannot be had is empty.

use ::csv::{Terminator, WriterBuilder};

use crate::report::{Point, Report, ReportError};

use super::{OutputError, extra_percentiles};

const RUN_COLUMNS: [&str; 19] = [
    "schema",
    "simulated",
    "benchmark",
    "started",
    "tool_version",
    "provider",
    "fabric",
    "domain",
    "nic",
    "libfabric_version",
    "libfabric_path",
    "peer_libfabric_version",
    "local_host",
    "peer_host",
    "local_address",
    "peer_address",
    "intra_node",
    "outcome_status",
    "outcome_reason",
];

const POINT_COLUMNS: [&str; 22] = [
    "op",
    "size_bytes",
    "iterations",
    "streams",
    "half_rtt_min_ns",
    "half_rtt_mean_ns",
    "half_rtt_p50_ns",
    "half_rtt_p90_ns",
    "half_rtt_p99_ns",
    "half_rtt_p999_ns",
    "half_rtt_max_ns",
    "median_ci_low_ns",
    "median_ci_high_ns",
    "first_message_ns",
    "bytes_per_sec",
    "messages_per_sec",
    "invalid_samples",
    "clamped_samples",
    "dropped_samples",
    "verified_messages",
    "ended_by",
    "reason",
];

/// The percentiles among [`POINT_COLUMNS`].
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Writes the report as CSV: a header, then one record for each point.
///
/// Percentiles that were asked for beside those that each record has follow as columns `half_rtt_p99.99_ns`.
///
/// # Errors
/// [`OutputError::Format`] when a value has no form in it, which none of its types allows.
pub fn to_csv(report: &Report) -> Result<String, OutputError> {
    write_records(report).map_err(|error| OutputError::Format(ReportError::Csv(error)))
}

fn write_records(report: &Report) -> Result<String, ::csv::Error> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    let percentiles = extra_percentiles(report, &PERCENTILES);
    let extra = percentiles.iter().map(|percentile| format!("half_rtt_p{percentile}_ns"));
    let header = RUN_COLUMNS.into_iter().chain(POINT_COLUMNS).map(str::to_owned).chain(extra);
    writer.write_record(header)?;
    let run = run_fields(report);
    for point in &report.points {
        let extra = percentiles.iter().map(|p| number(point.percentiles_ns.get(&p.to_string())));
        writer.write_record(run.iter().cloned().chain(point_fields(point)).chain(extra))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    // Every field is a String, and what the format adds is ASCII.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn run_fields(report: &Report) -> [String; 19] {
    let run = &report.run;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (local, peer) = (run.sides.local.as_ref(), run.sides.peer.as_ref());
    let address = |side: &Option<crate::report::Addresses>| {
        side.as_ref().and_then(|addresses| addresses.fabric.clone()).unwrap_or_default()
    };
    [
        report.schema.clone(),
        report.simulated.to_string(),
        run.benchmark.clone(),
        run.started.clone(),
        local.map(|side| side.tool_version.clone()).unwrap_or_default(),
        text(&run.provider),
        text(&run.fabric),
        text(&run.domain),
        text(&run.nic),
        local.map(|side| side.libfabric.run_version.clone()).unwrap_or_default(),
        local.and_then(|side| side.libfabric.path.clone()).unwrap_or_default(),
        peer.map(|side| side.libfabric.run_version.clone()).unwrap_or_default(),
        local.and_then(|side| side.host.clone()).unwrap_or_default(),
        peer.and_then(|side| side.host.clone()).unwrap_or_default(),
        address(&run.addresses.local),
        address(&run.addresses.peer),
        number(run.intra_node),
        report.outcome.status.name().to_owned(),
        text(&report.outcome.reason),
    ]
}

fn point_fields(point: &Point) -> [String; 22] {
    let half = point.half_rtt_ns;
    let ci = point.median_ci_ns;
    [
        point.op.clone(),
        point.size_bytes.to_string(),
        point.iterations.to_string(),
        point.streams.to_string(),
        number(half.map(|s| s.min)),
        number(half.map(|s| s.mean)),
        number(half.map(|s| s.p50)),
        number(half.map(|s| s.p90)),
        number(half.map(|s| s.p99)),
        number(half.map(|s| s.p999)),
        number(half.map(|s| s.max)),
        number(ci.map(|[low, _]| low)),
        number(ci.map(|[_, high]| high)),
        number(point.first_message_ns),
        number(point.bytes_per_sec),
        number(point.messages_per_sec),
        point.invalid_samples.to_string(),
        point.clamped_samples.to_string(),
        point.dropped_samples.to_string(),
        number(point.verified_messages),
        point.ended_by.name().to_owned(),
        point.reason.clone().unwrap_or_default(),
    ]
}

/// A figure with every digit it has, or nothing.
fn number(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}
