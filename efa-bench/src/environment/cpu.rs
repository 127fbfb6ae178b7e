//! Processor time that others took during a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::files::Files;

/// Length of the ticks in /proc/stat: USER_HZ is 100 on every architecture that libfabric runs on.
const TICK: Duration = Duration::from_millis(10);

/// Ticks of one core below which the division says more about rounding than about load.
const FEWEST_TICKS: u64 = 50;

/// Processor time of the host and of this process at one moment, from /proc/stat and /proc/self/stat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSnapshot {
    /// By processor: ticks in which it worked for a process, and ticks in all.
    cpus: BTreeMap<u32, (u64, u64)>,
    /// Ticks of this process, all threads.
    own: u64,
}

impl CpuSnapshot {
    /// Reads both files below `root`.
    pub fn take(root: &Path) -> Option<Self> {
        let files = Files::new(root);
        let stat = files.text("proc/stat")?;
        let cpus: BTreeMap<_, _> = stat.lines().filter_map(cpu_line).collect();
        let own = own_ticks(&files.text("proc/self/stat")?)?;
        (!cpus.is_empty()).then_some(CpuSnapshot { cpus, own })
    }

    /// Share of the processors' time since `earlier` that went to neither this process nor a peer on
    /// the same host, from 0 to 1.
    ///
    /// Only `cores` count, or all where it is empty; `peer` is the peer's processor time if it ran on
    /// those cores too. Interrupts are left out: on a run's own cores they are mostly the run's own.
    /// `None` where less than half a second went by.
    pub fn foreign_share(&self, earlier: &CpuSnapshot, cores: &[usize], peer: Duration) -> Option<f64> {
        let counts = |n: u32| cores.is_empty() || cores.contains(&(n as usize));
        let (mut busy, mut total, mut counted) = (0_u64, 0_u64, 0_u64);
        for (n, (busy_now, total_now)) in &self.cpus {
            let Some((busy_then, total_then)) = earlier.cpus.get(n).filter(|_| counts(*n)) else {
                continue;
            };
            busy = busy.saturating_add(busy_now.saturating_sub(*busy_then));
            total = total.saturating_add(total_now.saturating_sub(*total_then));
            counted += 1;
        }
        if counted == 0 || total / counted < FEWEST_TICKS {
            return None;
        }
        let own = self.own.saturating_sub(earlier.own) as f64;
        let peer = peer.as_secs_f64() / TICK.as_secs_f64();
        Some(((busy as f64 - own - peer) / total as f64).clamp(0.0, 1.0))
    }
}

/// Whether a process that may run on `allowed` (`None`: not known) can take time of `cores`, which are all where it
/// is empty.
pub fn may_share(cores: &[usize], allowed: Option<&[u32]>) -> bool {
    cores.is_empty() || allowed.is_none_or(|allowed| allowed.iter().any(|n| cores.contains(&(*n as usize))))
}

/// Reads a line such as `cpu0 user nice system idle iowait irq softirq steal guest guest_nice`
/// (proc_stat(5)); time of guests is in that of users already.
fn cpu_line(line: &str) -> Option<(u32, (u64, u64))> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.take(8).map_while(|w| w.parse().ok()).collect();
    let &[user, nice, system, ..] = &ticks[..] else {
        return None;
    };
    let steal = ticks.get(7).copied().unwrap_or(0);
    let sum = |list: &[u64]| list.iter().fold(0_u64, |a, b| a.saturating_add(*b));
    Some((number, (sum(&[user, nice, system, steal]), sum(&ticks))))
}

/// Reads user and system ticks, fields 14 and 15 of /proc/self/stat (proc_pid_stat(5)).
fn own_ticks(text: &str) -> Option<u64> {
    // The second field, the program's name in parentheses, may have spaces and parentheses in it.
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(stat: &str, own: u64) -> CpuSnapshot {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::write(dir.path().join("proc/stat"), stat).unwrap();
        let line = format!("7 (a) b (c) R 1 1 1 0 -1 0 0 0 0 0 {own} 0 0 0 20 0");
        std::fs::write(dir.path().join("proc/self/stat"), line).unwrap();
        CpuSnapshot::take(dir.path()).unwrap()
    }

    #[test]
    fn others_work_is_told_from_our_own_and_the_peers() {
        let before = snapshot("cpu 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n", 5);
        let after = snapshot("cpu 9\ncpu0 150 0 50 0 0 0 0 0 0 0\ncpu1 20 0 10 100 10 30 20 10 0 0\n", 205);
        let share = |cores: &[usize], ms| after.foreign_share(&before, cores, Duration::from_millis(ms));
        // 240 busy ticks of 400, 200 of them ours.
        assert_eq!(share(&[], 0), Some(0.1));
        assert_eq!(share(&[], 400), Some(0.0));
        assert_eq!(share(&[0], 0), Some(0.0));
        assert_eq!(share(&[7], 0), None);
        assert_eq!(after.foreign_share(&after, &[], Duration::ZERO), None);
    }

    #[test]
    fn too_short_a_time_is_so_on_any_number_of_cores() {
        let cores = |busy, idle| (0..8).map(|n| format!("cpu{n} {busy} 0 0 {idle}\n")).collect::<String>();
        let (before, after) = (snapshot(&cores(0, 0), 0), snapshot(&cores(20, 29), 0));
        assert_eq!(after.foreign_share(&before, &[], Duration::ZERO), None);
        assert_eq!(after.foreign_share(&before, &[3], Duration::ZERO), None);
    }

    #[test]
    fn a_peer_counts_where_it_may_run_on_a_counted_core() {
        for (cores, allowed, counts) in [
            (&[0][..], Some(&[0][..]), true),
            (&[0], Some(&[1]), false),
            (&[0], Some(&[0, 1]), true),
            (&[0], None, true),
            (&[], Some(&[1]), true),
        ] {
            assert_eq!(may_share(cores, allowed), counts, "{cores:?} {allowed:?}");
        }
    }

    #[test]
    fn broken_files_give_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(CpuSnapshot::take(dir.path()), None);
        assert_eq!(own_ticks("no parenthesis"), None);
        assert_eq!(own_ticks("1 (x) R 1"), None);
        assert_eq!(cpu_line("cpu0 1 2"), None);
        assert_eq!(cpu_line("cpu 1 2 3 4"), None);
    }

    #[test]
    fn this_host_has_a_snapshot() {
        assert!(CpuSnapshot::take(Path::new("/")).is_some());
    }
}
