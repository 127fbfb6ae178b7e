//! What can end a run.

use std::time::Duration;

use efa_core::{OpError, PostErrorKind};

use crate::control::{ControlError, Mismatch};

/// Why a run ended before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A signal, or the user of the library, asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The fabric went silent while the control connection lived.
    #[error("control connected, no data completion in {waited:.1?} ({completions} before that)")]
    Stalled {
        /// The time-out.
        waited: Duration,
        /// Completions before the silence.
        completions: u64,
    },
    /// The control connection ended, or the peer gave up.
    #[error(transparent)]
    Control(ControlError),
    /// An operation failed.
    #[error("the {what} failed: {error}")]
    Operation {
        /// `send` or `receive`.
        what: &'static str,
        /// What its completion said.
        error: OpError,
    },
    /// libfabric refused to post an operation.
    #[error("the {what} was not posted: {kind}")]
    Post {
        /// `send`, `inject` or `receive`.
        what: &'static str,
        /// Why.
        kind: PostErrorKind,
    },
    /// libfabric failed.
    #[error(transparent)]
    Fabric(#[from] efa_core::Error),
    /// A message of another length than was agreed on.
    #[error("a message of {received} bytes arrived where one of {expected} was due")]
    Length {
        /// Agreed on.
        expected: usize,
        /// Arrived.
        received: usize,
    },
    /// More messages arrived than were due.
    #[error("a message arrived that was not due")]
    Surplus,
    /// Bytes arrived that were not sent.
    #[error(
        "wrong data at the {at}: message {}, offset {}: expected {:#04x}, found {:#04x}",
        mismatch.message, mismatch.offset, mismatch.expected, mismatch.found
    )]
    Mismatch {
        /// The side that found it.
        at: &'static str,
        /// Where.
        mismatch: Mismatch,
    },
    /// The two sides' counts do not agree.
    #[error("the two sides do not agree: {0}")]
    Counts(String),
}

impl From<ControlError> for RunError {
    fn from(error: ControlError) -> RunError {
        match error {
            ControlError::Interrupted => RunError::Interrupted,
            error => RunError::Control(error),
        }
    }
}
