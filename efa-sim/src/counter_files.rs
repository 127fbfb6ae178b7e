//! The files that show a device's counters.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::model::Counters;

/// One file per counter, as in the kernel's `hw_counters`; written when a counter has changed.
///
/// Writing files takes time, so nobody may hold the device's lock meanwhile.
#[derive(Debug)]
pub(crate) struct CounterFiles {
    directory: Option<PathBuf>,
    shown: Mutex<Option<Counters>>,
}

impl CounterFiles {
    /// Files in `directory`, or none at all.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        CounterFiles { directory, shown: Mutex::new(None) }
    }

    /// Shows what has changed.
    pub(crate) fn show(&self, counters: &Counters) {
        let Some(directory) = &self.directory else {
            return;
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = shown.map(|shown| shown.values());
        for (index, (name, value)) in Counters::NAMES.iter().zip(counters.values()).enumerate() {
            if before.is_none_or(|before| before.get(index) != Some(&value)) {
                // The tree may be gone already while the process exits.
                let _ = std::fs::write(directory.join(name), format!("{value}\n"));
            }
        }
        *shown = Some(*counters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_the_counters() {
        let directory = tempfile::tempdir().unwrap();
        let files = CounterFiles::new(Some(directory.path().to_owned()));
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        files.show(&Counters { tx_pkts: 1, ..Counters::default() });
        assert_eq!((read("tx_pkts"), read("rx_pkts")), ("1\n".to_owned(), "0\n".to_owned()));
        files.show(&Counters { tx_pkts: 23, ..Counters::default() });
        assert_eq!((read("tx_pkts"), read("rx_pkts")), ("23\n".to_owned(), "0\n".to_owned()));
    }
}
