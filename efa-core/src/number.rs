//! Numbers by which objects of one kind are told apart, for as long as the process runs.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// The next number. Counting from the start again would make two objects look like one, so at the end there is none.
///
/// # Errors
///
/// [`Error::Invalid`] once all four billion have been given out.
pub(crate) fn next(counter: &AtomicU32, what: &'static str) -> Result<NonZeroU32> {
    let last = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1));
    let number = last.ok().and_then(|last| NonZeroU32::MIN.checked_add(last));
    number.ok_or_else(|| Error::Invalid {
        what,
        value: format!("past {}", u32::MAX),
        reason: "one process can open no more of them: start another".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_come_again() {
        let counter = AtomicU32::new(0);
        assert_eq!([next(&counter, "thing").unwrap().get(), next(&counter, "thing").unwrap().get()], [1, 2]);
        let counter = AtomicU32::new(u32::MAX - 1);
        assert_eq!(next(&counter, "thing").unwrap(), NonZeroU32::MAX);
        for _ in 0..3 {
            assert!(next(&counter, "thing").unwrap_err().to_string().contains("thing"));
        }
    }
}
