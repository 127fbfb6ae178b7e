//! The machine that a benchmark runs on, and whether something else is running there too.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A share of the processors in use by others that makes figures doubtful.
pub(super) const DOUBTFUL: f64 = 0.10;

/// What the figures depend on besides the programs.
pub(super) fn describe() -> Value {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpu_info = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, model)| model.trim().to_owned());
    json!({
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": model,
        "cores": thread::available_parallelism().map(usize::from).ok(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": read("/proc/loadavg"),
    })
}

/// The share of all processors that is busy while this program only waits.
pub(super) fn foreign_load() -> Option<f64> {
    let before = Ticks::read()?;
    thread::sleep(Duration::from_millis(250));
    let after = Ticks::read()?;
    let total = after.total.checked_sub(before.total)?;
    let idle = after.idle.checked_sub(before.idle)?;
    (total > 0).then(|| 1.0 - idle as f64 / total as f64)
}

/// The first line of `/proc/stat` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Ticks {
    total: u64,
    idle: u64,
}

impl Ticks {
    fn read() -> Option<Ticks> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Ticks> {
        let fields: Vec<u64> = stat
            .lines()
            .find_map(|line| line.strip_prefix("cpu "))?
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Ticks { total: fields.iter().take(8).sum(), idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_includes_waiting_for_disks() {
        let ticks = Ticks::parse("cpu  10 0 5 80 5 0 0 0 7 0\ncpu0 1 1 1 1 1\n");
        assert_eq!(ticks, Some(Ticks { total: 100, idle: 85 }));
    }
}
