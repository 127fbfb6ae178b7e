//! A clock for tests: its readings are written down beforehand.

use std::cell::{Cell, RefCell};

use super::{Clock, ClockInfo, ClockKind, Ticks};

/// A clock that returns given readings, in nanoseconds, and then goes on in steady steps.
///
/// It lets a test replay a run to the nanosecond, a clock that steps backwards included.
#[derive(Debug)]
pub struct ScriptedClock {
    script: RefCell<std::vec::IntoIter<u64>>,
    last: Cell<u64>,
    step: u64,
    overhead_ns: u64,
}

impl ScriptedClock {
    /// A clock that returns these readings in turn, and afterwards one nanosecond more each time.
    pub fn new(readings: impl IntoIterator<Item = u64>) -> Self {
        let script: Vec<u64> = readings.into_iter().collect();
        Self { script: RefCell::new(script.into_iter()), last: Cell::new(0), step: 1, overhead_ns: 0 }
    }

    /// A clock that goes forward by `step` nanoseconds with each reading.
    pub fn steady(step: u64) -> Self {
        Self { step, ..Self::new([]) }
    }

    /// Sets what one read is said to cost.
    #[must_use]
    pub fn with_overhead_ns(mut self, overhead_ns: u64) -> Self {
        self.overhead_ns = overhead_ns;
        self
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Ticks {
        let next = self.script.borrow_mut().next();
        let reading = next.unwrap_or_else(|| self.last.get().wrapping_add(self.step));
        self.last.set(reading);
        Ticks(reading)
    }

    fn nanos(&self, from: Ticks, to: Ticks) -> Option<u64> {
        to.0.checked_sub(from.0).filter(|&ns| ns > 0)
    }

    fn overhead_ns(&self) -> u64 {
        self.overhead_ns
    }

    fn describe(&self) -> ClockInfo {
        ClockInfo {
            kind: ClockKind::Scripted,
            source: "readings written down beforehand".to_owned(),
            overhead_ns: self.overhead_ns,
            resolution_ns: Some(1.0),
            frequency_hz: None,
            drift_ppm: None,
        }
    }
}
