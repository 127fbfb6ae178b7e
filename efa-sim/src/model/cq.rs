//! Completion queues.

use std::collections::VecDeque;

use super::types::{Completion, Qpn};

/// A completion queue: entries in the order in which they happened.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    entries: VecDeque<Completion>,
    depth: usize,
    overrun: bool,
    /// Queue pairs that use it, one count for each direction.
    pub(super) users: u32,
}

impl CompletionQueue {
    /// A queue of at most `depth` entries.
    pub(super) fn new(depth: usize) -> CompletionQueue {
        // A deep queue gets its memory as it fills, a shallow one at once.
        CompletionQueue { entries: VecDeque::with_capacity(depth.min(1024)), depth, overrun: false, users: 0 }
    }

    /// Adds an entry; false where the queue is full, which breaks the queue pair as on real devices.
    pub(super) fn push(&mut self, completion: Completion) -> bool {
        let room = self.entries.len() < self.depth;
        if room {
            self.entries.push_back(completion);
        }
        self.overrun |= !room;
        room
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }

    /// Entries that wait.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether an entry was ever lost.
    pub(super) fn overrun(&self) -> bool {
        self.overrun
    }

    /// Removes the entries of a queue pair that is being destroyed.
    pub(super) fn forget(&mut self, qpn: Qpn) {
        self.entries.retain(|completion| completion.qpn != qpn);
    }
}
