//! The completions of one poll.

use std::mem::MaybeUninit;

use efa_sys::fi_cq_tagged_entry;

use super::Completion;

/// Room for the completions of one [`poll`](super::Endpoint::poll); made once, used for ever.
///
/// Iterating takes them out, oldest first. Sixteen at a time, which is what the EFA provider reads from its
/// device in one go.
///
/// ```
/// let mut batch = efa_core::Batch::new();
/// assert_eq!(batch.by_ref().count(), 0);
/// ```
pub struct Batch {
    entries: [MaybeUninit<fi_cq_tagged_entry>; Batch::CAPACITY],
    sources: [u64; Batch::CAPACITY],
    items: [MaybeUninit<Completion>; Batch::CAPACITY],
    /// Items `head..tail` are initialised and not yet taken.
    head: usize,
    tail: usize,
}

// SAFETY: the raw pointers inside are the contexts in `entries`, which nothing follows: `poll` compares them
// with the slots of its own endpoint right after the provider wrote them. Completions are Send themselves.
unsafe impl Send for Batch {}
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Completion>();
};

impl Batch {
    /// Completions in one poll at most.
    pub const CAPACITY: usize = 16;

    /// An empty batch.
    pub fn new() -> Batch {
        Batch {
            entries: [const { MaybeUninit::uninit() }; Batch::CAPACITY],
            sources: [0; Batch::CAPACITY],
            items: [const { MaybeUninit::uninit() }; Batch::CAPACITY],
            head: 0,
            tail: 0,
        }
    }

    /// Completions not yet taken.
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Whether every completion has been taken.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Drops what was not taken.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.head != self.tail {
            self.by_ref().for_each(drop);
        }
        self.head = 0;
        self.tail = 0;
    }

    /// Adds a completion; a poll adds at most `CAPACITY` after a clear.
    #[inline]
    pub(super) fn push(&mut self, completion: Completion) {
        self.items[self.tail].write(completion);
        self.tail += 1;
    }

    #[inline]
    pub(super) fn entries_mut(&mut self) -> *mut fi_cq_tagged_entry {
        self.entries.as_mut_ptr().cast()
    }

    #[inline]
    pub(super) fn sources_mut(&mut self) -> *mut u64 {
        self.sources.as_mut_ptr()
    }

    /// The queue entry that the provider wrote at `index`; only indices below the count just read.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> fi_cq_tagged_entry {
        // SAFETY: `poll` asks only for entries that fi_cq_read has just said it wrote, and bounds are checked.
        unsafe { self.entries[index].assume_init_read() }
    }

    #[inline]
    pub(super) fn source(&self, index: usize) -> u64 {
        self.sources[index]
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Iterator for Batch {
    type Item = Completion;

    #[inline]
    fn next(&mut self) -> Option<Completion> {
        if self.head == self.tail {
            return None;
        }
        let index = self.head;
        self.head += 1;
        // SAFETY: items `head..tail` are initialised, and moving the head up makes this read the only one.
        Some(unsafe { self.items[index].assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} completions)", self.len())
    }
}
