//! The report of a run, `efa-report/1`: everything that is needed to judge its figures, in one value.
//!
//! Writers turn a [`Report`] into bytes and add nothing to it. Its form as JSON is fixed by
//! `docs/efa-report-1.schema.json` and explained in `docs/REPORT-SCHEMA.md`. Units are part of field names. A float
//! is finite or absent: where a figure cannot be had, the field is null and a `reason` beside it says why.

#[cfg(test)]
pub(crate) mod fixture;
mod point;
mod run;
mod timestamp;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::environment::Environment;

pub use crate::environment::Warning;

pub use self::point::{MEDIAN_CONFIDENCE, Point, decode_histogram};
pub use self::run::{Addresses, Inject, Libfabric, Pair, Role, Run, Side};
pub use self::timestamp::rfc3339_utc;

/// The name and version of the report's form.
pub const SCHEMA: &str = "efa-report/1";

/// One run, from the plan to the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Whether the fabric was a simulation: such figures say nothing of any hardware.
    pub simulated: bool,
    /// What was run, by whom, over what.
    pub run: Run,
    /// The hosts it ran on.
    pub environment: Pair<Environment>,
    /// The figures, one entry for each size, in the order in which they were measured.
    pub points: Vec<Point>,
    /// What makes the figures less trustworthy than they look.
    pub warnings: Vec<Warning>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Report {
    /// A report without figures yet, whose outcome says that the run is still under way.
    ///
    /// A copy that is written after each point is then right even when nothing can be written any more.
    pub fn new(run: Run) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            simulated: false,
            run,
            environment: Pair::default(),
            points: Vec::new(),
            warnings: Vec::new(),
            outcome: Outcome::partial("the run had not ended when this was written"),
        }
    }

    /// Adds a warning, unless the same one is there already.
    pub fn warn(&mut self, id: impl Into<String>, text: impl Into<String>) {
        let warning = Warning { id: id.into(), text: text.into() };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The report as one strict JSON document, indented, with a line end.
    ///
    /// # Errors
    /// [`ReportError::Write`] when a value has no form in JSON, which none of its types allows.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self).map_err(ReportError::Write)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a report back.
    ///
    /// # Errors
    /// [`ReportError::Read`] for what is not such a report, [`ReportError::Schema`] for another version of it.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Envelope {
            schema: String,
        }
        // The version first: another one may differ in every other field.
        let found = serde_json::from_str::<Envelope>(text).map_err(ReportError::Read)?.schema;
        if found != SCHEMA {
            return Err(ReportError::Schema { found });
        }
        serde_json::from_str(text).map_err(ReportError::Read)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether all, some or none of it can be used.
    pub status: Status,
    /// Why it is not complete; null when it is.
    pub reason: Option<String>,
}

impl Outcome {
    /// Everything that was planned was measured.
    pub fn complete() -> Self {
        Self { status: Status::Complete, reason: None }
    }

    /// Some of it was measured, and that part is good.
    pub fn partial(reason: impl Into<String>) -> Self {
        Self { status: Status::Partial, reason: Some(reason.into()) }
    }

    /// Nothing was measured, or what was cannot be trusted.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { status: Status::Failed, reason: Some(reason.into()) }
    }
}

/// How much of a run can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All of it.
    Complete,
    /// The points that are there.
    Partial,
    /// Nothing.
    Failed,
}

impl Status {
    /// The word for it in every format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

/// A report that cannot be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A value without a form in JSON.
    #[error("the report cannot be written as JSON")]
    Write(#[source] serde_json::Error),
    /// A value without a form in CSV.
    #[error("the report cannot be written as CSV")]
    Csv(#[source] csv::Error),
    /// Text that is not a report.
    #[error("this is not an {SCHEMA} report")]
    Read(#[source] serde_json::Error),
    /// A report of another version.
    #[error("this is a `{found}` report, and only {SCHEMA} is understood: use the version of this tool that wrote it")]
    Schema {
        /// The schema that it names.
        found: String,
    },
}

#[cfg(test)]
mod tests;
