//! Endings other than success.

use std::time::Duration;

use crate::control::{ControlError, Refusal, Stop};
use crate::observer::Phase;
use crate::rig::RunError;
use crate::writers::{Flow, OutputError};

/// How much later than its peer this side may take note of a signal that both got.
const SIGNAL_LAG: Duration = Duration::from_millis(100);

/// Exit statuses, as scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well, or the reader of the output left.
    Fine,
    /// The run found something: wrong data.
    Finding,
    /// Nothing was measured: wrong usage, or the set-up failed.
    Usage,
    /// The run failed midway; what was measured is in the report.
    Midway,
    /// A signal ended the run; what was measured is in the report.
    Interrupted,
}

impl Exit {
    /// The status.
    pub fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Finding => 1,
            Exit::Usage => 2,
            Exit::Midway => 3,
            Exit::Interrupted => 130,
        }
    }
}

/// A failure: what to say, and how to exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// The text for standard error and for the report; empty to say nothing.
    pub text: String,
    /// Whether the peer ended the run: by its death, or because it gave up.
    pub by_peer: bool,
}

impl Failure {
    /// A failure with this text.
    pub fn new(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { exit, text: text.into(), by_peer: false }
    }

    /// What it is in truth: a signal to both sides at once, as from a terminal, can end the peer first.
    pub(super) fn or_interrupted(self, stop: &Stop) -> Failure {
        if self.by_peer && stop.requested_within(SIGNAL_LAG) {
            return Failure::new(Exit::Interrupted, format!("interrupted, and so was the peer ({})", self.text));
        }
        self
    }

    /// A failure of the set-up, named with its phase.
    pub(super) fn setup(phase: Phase, error: impl std::fmt::Display) -> Failure {
        Failure::new(Exit::Usage, format!("phase {phase}: {error}"))
    }

    /// A failure of the control connection in a phase.
    ///
    /// Before the two sides have agreed on anything nothing has started; after that, it has.
    pub(super) fn control(phase: Phase, error: &ControlError) -> Failure {
        let exit = match error {
            ControlError::Interrupted => Exit::Interrupted,
            ControlError::Resolve { .. }
            | ControlError::Connect { .. }
            | ControlError::InUse { .. }
            | ControlError::Listen { .. }
            | ControlError::Version { .. }
            | ControlError::NotOurs { .. } => Exit::Usage,
            _ => Exit::Midway,
        };
        Failure { by_peer: error.is_peer_gone(), ..Failure::new(exit, format!("phase {phase}: {error}")) }
    }

    /// A failure of the run in a phase; `context` says over what it ran.
    pub(super) fn run(phase: Phase, error: &RunError, context: &str) -> Failure {
        match error {
            RunError::Interrupted => Failure::new(Exit::Interrupted, format!("phase {phase}: interrupted")),
            RunError::Control(error) => Failure::control(phase, error),
            RunError::Mismatch { .. } => Failure::new(Exit::Finding, format!("phase {phase}: {error}{context}")),
            _ => Failure::new(Exit::Midway, format!("phase {phase}: {error}{context}")),
        }
    }

    /// How a client ends: as its run did, or by what could not be written after a run that went well.
    pub(super) fn ending(ended: Result<(), Failure>, written: Result<Flow, OutputError>) -> Result<(), Failure> {
        match (ended, written) {
            // A reader that left is no failure, and takes nothing from one.
            (Ok(()), written) => written.map(|_| ()).map_err(Failure::from),
            (ended, _) => ended,
        }
    }

    /// What the server said instead of accepting the plan.
    pub(super) fn refused(refusal: &Refusal) -> Failure {
        let lines = refusal.lines();
        let what = match refusal {
            Refusal::Differences(_) => "the two sides were started differently:\n  ",
            _ => "the server refused: ",
        };
        Failure::new(Exit::Usage, format!("phase {}: {what}{}", Phase::Handshake, lines.join("\n  ")))
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        let exit = match error {
            OutputError::Open { .. } | OutputError::Same { .. } => Exit::Usage,
            _ => Exit::Midway,
        };
        let source = std::error::Error::source(&error).map(|s| format!(": {s}")).unwrap_or_default();
        Failure::new(exit, format!("{error}{source}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_hides_no_failure() {
        let full = || Err(OutputError::Stdout(std::io::ErrorKind::StorageFull.into()));
        let exit = |ended: Result<(), Exit>, written| {
            Failure::ending(ended.map_err(|exit| Failure::new(exit, "x")), written).map_err(|failure| failure.exit)
        };
        for failed in [Exit::Finding, Exit::Midway, Exit::Interrupted, Exit::Fine] {
            assert_eq!(exit(Err(failed), Ok(Flow::Closed)), Err(failed));
            assert_eq!(exit(Err(failed), full()), Err(failed));
        }
        assert_eq!(exit(Ok(()), Ok(Flow::Closed)), Ok(()));
        assert_eq!(exit(Ok(()), full()), Err(Exit::Midway));
    }
}
