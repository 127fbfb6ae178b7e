//! What a peer that was killed leaves on this host: its end of the shared memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How much longer than its control connection a process that dies may be there.
const DYING: Duration = Duration::from_millis(500);

/// The file of one peer, which only it could remove as long as it lived.
#[derive(Debug, PartialEq)]
pub(super) struct Leftover {
    name: String,
    pid: Pid,
}

impl Leftover {
    /// The file behind a fabric address of a process of this host; `None` where there is none.
    ///
    /// The shm provider names its files in /dev/shm as its addresses: `fi_shm://PID:UID:NUMBER`.
    pub(super) fn of(address: &str, pid: u32) -> Option<Leftover> {
        let name = address.strip_prefix("fi_shm://")?;
        let mut parts = name.split(':');
        let ours = parts.next()? == pid.to_string()
            && parts.clone().count() == 2
            && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        ours.then(|| Leftover { name: name.to_owned(), pid })
    }

    /// Removes the file if its process is dead.
    pub(super) fn remove(&self) {
        self.remove_from(Path::new("/dev/shm"), DYING);
    }

    fn remove_from(&self, folder: &Path, limit: Duration) {
        let file: PathBuf = folder.join(&self.name);
        if file.exists() && has_ended(self.pid, limit) {
            // Another survivor may have been faster.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Whether the process has ended, reaped or not, within this time.
fn has_ended(pid: Pid, limit: Duration) -> bool {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(error) => error == rustix::io::Errno::SRCH,
        Ok(process) => {
            let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
            matches!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)), Ok(1..))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_peers_own_file_is_meant() {
        assert!(Leftover::of("fi_shm://7:0:3", 7).is_some());
        for other in ["fi_shm://8:0:3", "fi_shm://7:0:../x", "fi_shm://7", "fi_shm://7:0:", "7:0:3", "127.0.0.1:7"] {
            assert_eq!(Leftover::of(other, 7), None, "{other}");
        }
    }

    #[test]
    fn a_dead_process_loses_its_file_and_a_living_one_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let remains = |pid: u32| {
            let leftover = Leftover::of(&format!("fi_shm://{pid}:0:1"), pid).unwrap();
            std::fs::write(folder.path().join(&leftover.name), "x").unwrap();
            leftover.remove_from(folder.path(), Duration::from_secs(if pid == std::process::id() { 0 } else { 60 }));
            folder.path().join(&leftover.name).exists()
        };
        assert!(remains(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // It ends by itself, and is dead before it is reaped and after.
        assert!(!remains(child.id()));
        child.wait().unwrap();
        assert!(!remains(child.id()));
    }
}
