//! Writers: a [`Report`] in, bytes out.
//!
//! Each format is a pure function of the report. [`Outputs`] knows where the bytes go: it creates files before the
//! run, so that a path that cannot be written fails before anything is measured, streams the table to
//! standard output row by row, and replaces each file as a whole after each point. Standard output holds
//! either the table or exactly one document, never both. Nothing here depends on the locale.

mod csv;
mod markdown;
mod outputs;
mod sink;
mod table;

use std::path::PathBuf;

use thiserror::Error;

use crate::report::{Report, ReportError};

pub use self::csv::to_csv;
pub use self::markdown::to_markdown;
pub use self::outputs::{Flow, Outputs};
pub use self::table::{footer, heading, row, to_table};

/// A form that a whole report can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One strict JSON document.
    Json,
    /// One record for each point, with its run's description on each.
    Csv,
    /// A table and a list, for a page or a merge request.
    Markdown,
}

impl Format {
    /// The command line's flag for this format.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Json => "--json",
            Self::Csv => "--csv",
            Self::Markdown => "--markdown",
        }
    }

    /// Writes the report in this format.
    ///
    /// # Errors
    /// [`OutputError::Format`] for a value that has no form in it, which no type of a report allows.
    pub fn document(self, report: &Report) -> Result<String, OutputError> {
        match self {
            Self::Json => Ok(report.to_json()?),
            Self::Csv => to_csv(report),
            Self::Markdown => Ok(to_markdown(report)),
        }
    }
}

/// A report that cannot be put where it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file that cannot be created or opened.
    #[error("{flag}: {} cannot be written: {reason}", path.display())]
    Open {
        /// The flag that named it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why, and the way out.
        reason: String,
    },
    /// A file that could be opened and not be written.
    #[error("{} could not be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Standard output that cannot be written, other than because its reader is gone.
    #[error("standard output could not be written")]
    Stdout(#[source] std::io::Error),
    /// Two documents for one place.
    #[error("{first} and {second} both go to {place}: give each its own file, as in `{second}=FILE`")]
    Same {
        /// One flag.
        first: &'static str,
        /// The other one.
        second: &'static str,
        /// Where both lead.
        place: String,
    },
    /// A report that has no form in a format.
    #[error("the report cannot be written")]
    Format(#[from] ReportError),
}

/// A time in nanoseconds as microseconds with three decimals: one nanosecond is the last digit.
fn usec(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

/// Bytes a second as MB/s, where MB is 10^6 bytes.
fn mb_per_sec(bytes_per_sec: f64) -> String {
    format!("{:.2}", bytes_per_sec / 1e6)
}

/// Bytes a second as Gbit/s.
fn gbit_per_sec(bytes_per_sec: f64) -> String {
    format!("{:.3}", bytes_per_sec * 8.0 / 1e9)
}

/// The columns of the table: those that people know from fi_pingpong, then the distribution.
const COLUMNS: [&str; 10] = ["bytes", "iterations", "MB/s", "usec", "min", "p50", "p99", "p99.9", "max", "Gbit/s"];

/// The percentiles among [`COLUMNS`].
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// The cells of one point, in the order of [`COLUMNS`]; `-` for what cannot be had.
fn cells(point: &crate::report::Point) -> [String; 10] {
    let time = |of: fn(&crate::stats::Summary) -> f64| {
        point.half_rtt_ns.as_ref().map_or_else(|| "-".to_owned(), |s| usec(of(s)))
    };
    let rate = |write: fn(f64) -> String| point.bytes_per_sec.map_or_else(|| "-".to_owned(), write);
    [
        point.size_bytes.to_string(),
        point.iterations.to_string(),
        rate(mb_per_sec),
        time(|s| s.mean),
        time(|s| s.min),
        time(|s| s.p50),
        time(|s| s.p99),
        time(|s| s.p999),
        time(|s| s.max),
        rate(gbit_per_sec),
    ]
}

/// The percentiles that were asked for and have no column yet, ascending; `usual` are those that have one.
fn extra_percentiles(report: &Report, usual: &[f64]) -> Vec<f64> {
    let mut percentiles: Vec<f64> = report.run.plan.as_ref().map(|plan| plan.percentiles.clone()).unwrap_or_default();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    percentiles.retain(|percentile| !usual.contains(percentile));
    percentiles
}

#[cfg(test)]
mod tests;
