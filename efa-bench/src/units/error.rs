//! What is wrong with a value that somebody typed.

use thiserror::Error;

/// A size, count or duration that was not understood, with what would be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitError {
    /// Nothing was given where a value belongs.
    #[error("empty {what}: give {example}")]
    Empty {
        /// What was expected (`size`, `count`, `duration`).
        what: &'static str,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// A sign where only unsigned numbers make sense.
    #[error("{what} `{given}` has a sign: only whole numbers without a sign are accepted, such as {example}")]
    Signed {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        given: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// A fraction or an exponent.
    #[error("{what} `{given}` is not a whole number: use a smaller unit, such as {example}")]
    NotWhole {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        given: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// No digits at the start.
    #[error("{what} `{given}` does not start with a number: give {example}")]
    NoNumber {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        given: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// A unit that exists in two sizes.
    #[error(
        "size `{given}` can be read in two ways: write {binary} for {binary_bytes} bytes or {decimal} for {decimal_bytes} bytes"
    )]
    AmbiguousUnit {
        /// What was typed.
        given: String,
        /// The reading in powers of 1024.
        binary: String,
        /// Its value, or "too many".
        binary_bytes: String,
        /// The reading in powers of 1000.
        decimal: String,
        /// Its value, or "too many".
        decimal_bytes: String,
    },
    /// A unit that does not exist.
    #[error("{what} `{given}` has the unknown unit `{unit}`: known are {known}")]
    UnknownUnit {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        given: String,
        /// The part after the number.
        unit: String,
        /// The units that are known.
        known: &'static str,
    },
    /// A value above what 64 bits hold.
    #[error("{what} `{given}` is too large: the largest is {max}")]
    TooLarge {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        given: String,
        /// The largest value that is accepted.
        max: String,
    },
    /// Zero where at least one is needed.
    #[error("{what} `{given}` is zero: give at least {example}")]
    Zero {
        /// What was expected.
        what: &'static str,
        /// What was typed.
        given: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// A range whose first size is the larger one.
    #[error("size range `{given}` runs backwards: write {end}..{start}")]
    Backwards {
        /// What was typed.
        given: String,
        /// The first size, as typed.
        start: String,
        /// The last size, as typed.
        end: String,
    },
    /// One size twice in a list.
    #[error("size {size} ({bytes} bytes) is in `{given}` twice: name each size once")]
    Duplicate {
        /// What was typed.
        given: String,
        /// The size as [`format_size`](super::format_size) writes it.
        size: String,
        /// The size in bytes.
        bytes: u64,
    },
}
