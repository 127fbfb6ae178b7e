//! What each program prints, read as half a round trip in microseconds.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// One run's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// The mean, which is all that the other programs print.
    pub(super) mean_usec: f64,
    pub(super) median_usec: Option<f64>,
}

impl Sample {
    fn mean(mean_usec: f64) -> Result<Sample> {
        ensure!(mean_usec.is_finite() && mean_usec > 0.0, "{mean_usec} us is no time");
        Ok(Sample { mean_usec, median_usec: None })
    }
}

/// The last line of fi_pingpong's table.
///
/// Its `usec/xfer` has two decimals, too few for shared memory. Its `MB/sec`, the same figure as
/// bytes per microsecond, has more digits there, so the one with more digits is taken.
pub(super) fn fi_pingpong(text: &str, size: u64) -> Result<Sample> {
    let row = text
        .lines()
        .rfind(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .context("fi_pingpong printed no row")?;
    let fields: Vec<&str> = row.split_whitespace().collect();
    let number = |at: usize| -> Result<f64> {
        let field = fields.get(at).with_context(|| format!("no column {at} in `{row}`"))?;
        field.parse().with_context(|| format!("column {at} of `{row}` is no number"))
    };
    let (megabytes_per_sec, usec) = (number(5)?, number(6)?);
    if megabytes_per_sec > usec { Sample::mean(size as f64 / megabytes_per_sec) } else { Sample::mean(usec) }
}

/// The machine-readable line of fabtests (`-m`): `- { xfer_size: 64, ..., usec/xfer: 0.23, ... }`.
pub(super) fn fabtests(text: &str) -> Result<Sample> {
    let (_, rest) = text.rsplit_once("usec/xfer: ").context("fi_rdm_pingpong printed no usec/xfer")?;
    let number = rest.split([',', ' ', '\n']).next().unwrap_or_default();
    Sample::mean(number.parse().with_context(|| format!("`{number}` is no number"))?)
}

/// A report of ours, schema `efa-report/1`.
pub(super) fn report(text: &str, size: u64) -> Result<Sample> {
    let report: Value = serde_json::from_str(text).context("the report is not JSON")?;
    let point = report["points"]
        .as_array()
        .and_then(|points| points.iter().find(|point| point["size_bytes"] == size))
        .with_context(|| format!("no point of {size} bytes: outcome {}", report["outcome"]))?;
    // The wall time of the whole loop, as the others count: what lies between our samples is part of it.
    let elapsed_ns = point["elapsed_ns"].as_f64().context("no elapsed_ns in the report")?;
    let iterations = point["iterations"].as_f64().context("no iterations in the report")?;
    let median_usec = point["half_rtt_ns"]["p50"].as_f64().map(|ns| ns / 1000.0);
    Ok(Sample { median_usec, ..Sample::mean(elapsed_ns / (2.0 * iterations) / 1000.0)? })
}

/// The line of the raw TCP ping-pong.
pub(super) fn raw_tcp(text: &str) -> Result<Sample> {
    let number = text.trim().strip_prefix("half_rtt_usec ").context("no half_rtt_usec line")?;
    Sample::mean(number.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n";

    #[test]
    fn fi_pingpong_over_tcp_is_read_from_its_time() {
        // fi_pingpong -p "tcp;ofi_rxm" -e rdm -I 2000 -S 64, libfabric 1.17.
        let row = "64      2k      =2k      250k        0.09s      2.83      22.64       0.04\n";
        let sample = fi_pingpong(&format!("{HEADER}{row}"), 64).unwrap();
        assert_eq!(sample.mean_usec, 22.64);
    }

    #[test]
    fn fi_pingpong_over_shared_memory_is_read_from_its_rate() {
        // fi_pingpong -p shm -e rdm -I 10000 -S 64, libfabric 1.17.
        let row = "64      10k     =10k     1.2m        0.01s    148.25       0.43       2.32\n";
        let sample = fi_pingpong(&format!("{HEADER}{row}"), 64).unwrap();
        assert!((sample.mean_usec - 64.0 / 148.25).abs() < 1e-9);
        assert!((sample.mean_usec - 0.43).abs() < 0.005);
    }

    #[test]
    fn large_messages_of_fi_pingpong_are_read() {
        // fi_pingpong -p "tcp;ofi_rxm" -e rdm -I 1000 -S 1048576, libfabric 1.17.
        let row = "1m      1k      =1k      1.9g        0.57s   3656.27     286.79       0.00\n";
        let sample = fi_pingpong(&format!("{HEADER}{row}"), 1 << 20).unwrap();
        assert!((sample.mean_usec - 286.79).abs() < 0.01);
    }

    #[test]
    fn output_without_a_row_is_an_error() {
        assert!(fi_pingpong(HEADER, 8).is_err());
        assert!(fabtests("").is_err());
        assert!(raw_tcp("").is_err());
    }

    #[test]
    fn fabtests_are_read_from_their_machine_readable_line() {
        // fi_rdm_pingpong -p shm -I 10000 -S 64 -m -b=47811, fabtests and libfabric 2.5.1.
        let text = "---\nfi_rdm_pingpong -p shm -I 10000 -S 64 -m -b=47811 127.0.0.1 :\n\
                    - { xfer_size: 64, iterations: 10000, total: 1280000, time: 0.005651, \
                    MB/sec: 226.508583, usec/xfer: 0.282550, Mxfers/sec: 3.539197 }\n";
        assert_eq!(fabtests(text).unwrap().mean_usec, 0.28255);
    }

    #[test]
    fn our_report_has_mean_and_median() {
        let text = r#"{"schema":"efa-report/1","points":[{"size_bytes":8,"iterations":10,"elapsed_ns":80000,"half_rtt_ns":{"mean":3900.0,"p50":3500.0}}]}"#;
        let sample = report(text, 8).unwrap();
        assert_eq!(sample, Sample { mean_usec: 4.0, median_usec: Some(3.5) });
        assert!(report(text, 64).is_err());
    }
}
