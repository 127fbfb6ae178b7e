//! A child process that ends when its time is up, together with what it started.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

/// How long a process has between the polite signal and the final one.
const GRACE: Duration = Duration::from_secs(2);
/// How often a child is looked at while it is waited for.
const GLANCE: Duration = Duration::from_millis(5);

/// A child that is ended, with its descendants, when this value is dropped before it has exited.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn new(child: Child) -> Running {
        Running { child, ended: None }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits until the child exits; `None` when it has not by the deadline, and has been ended.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.exited()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                self.end();
                return Ok(None);
            }
            thread::sleep(GLANCE);
        }
    }

    /// The exit status, where there is one already.
    pub(crate) fn exited(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Ends the child and its descendants, each by its own id.
    pub(crate) fn end(&mut self) {
        if matches!(self.exited(), Ok(Some(_))) {
            return;
        }
        let family = family(self.child.id());
        signal(&family, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && matches!(self.exited(), Ok(None)) {
            thread::sleep(GLANCE);
        }
        // The child may be gone while one of its own children ignores the polite signal.
        let left: Vec<Relative> = family.into_iter().filter(Relative::is_alive).collect();
        signal(&left, Signal::KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process, told from a later one of the same id by the time of its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relative {
    id: u32,
    start: u64,
}

impl Relative {
    fn is_alive(&self) -> bool {
        stat(self.id).is_some_and(|stat| stat.start == self.start)
    }
}

/// The ids of a process and all its descendants, the process itself first.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    family(root).into_iter().map(|relative| relative.id).collect()
}

fn family(root: u32) -> Vec<Relative> {
    let mut children: HashMap<u32, Vec<Relative>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((id, stat)) = id.and_then(|id| Some((id, stat(id)?))) {
            let relative = Relative { id, start: stat.start };
            children.entry(stat.parent).or_default().push(relative);
        }
    }
    let mut found: Vec<Relative> =
        stat(root).map(|stat| Relative { id: root, start: stat.start }).into_iter().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        found.extend(children.remove(&parent.id).unwrap_or_default());
        next += 1;
    }
    found
}

struct Stat {
    parent: u32,
    start: u64,
}

/// Parent and start time from `/proc/<id>/stat` (proc(5), fields 4 and 22).
fn stat(id: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may contain anything, so the fields are counted after its end.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some(Stat { parent, start })
}

fn signal(family: &[Relative], signal: Signal) {
    for relative in family {
        let id = i32::try_from(relative.id).ok().and_then(Pid::from_raw);
        if let Some(id) = id.filter(|_| relative.is_alive()) {
            // It may have exited meanwhile, which is what was wanted.
            let _ = kill_process(id, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_past_its_deadline_is_ended_with_its_own_children() {
        let shell = Command::new("sh").args(["-c", "sleep 600 & sleep 600; true"]).spawn().unwrap();
        let id = shell.id();
        let mut running = Running::new(shell);
        let deadline = Instant::now() + Duration::from_secs(10);
        while family(id).len() < 3 && Instant::now() < deadline {
            thread::yield_now();
        }
        let before = family(id);
        assert_eq!(before.len(), 3, "the shell and two sleeps");
        assert!(running.wait_until(Instant::now()).unwrap().is_none());
        let deadline = Instant::now() + Duration::from_secs(10);
        // A killed grandchild stays visible as a zombie until its new parent reaps it.
        let gone = |relative: &Relative| {
            let text = fs::read_to_string(format!("/proc/{}/stat", relative.id));
            !relative.is_alive() || text.is_ok_and(|text| text.contains(") Z "))
        };
        while !before.iter().all(gone) && Instant::now() < deadline {
            thread::yield_now();
        }
        assert!(before.iter().all(gone));
    }

    #[test]
    fn the_own_process_is_found_with_its_parent() {
        let own = stat(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(own.start > 0);
    }
}
