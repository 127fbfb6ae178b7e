//! The completions of one poll.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;

use efa_sys::{FI_ADDR_NOTAVAIL, fi_cq_tagged_entry};

use super::slots::Held;
use super::{Completion, Peer};
use crate::mem::Payload;

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
    /// Items `head..tail` are initialised in both arrays, and not yet taken. A [`Completion`] is put together
    /// only when it is taken, so that what the caller does not look at is never copied.
    entries: [MaybeUninit<fi_cq_tagged_entry>; Batch::CAPACITY],
    held: [MaybeUninit<Held<Payload>>; Batch::CAPACITY],
    head: usize,
    tail: usize,
    /// An operation that failed, alone in its batch: `head` is past `tail` then, which keeps it off the hot path.
    failed: Option<Box<Completion>>,
    /// Whose peers the sources are, where sources were read.
    owner: Option<NonZeroU32>,
    sources: [u64; Batch::CAPACITY],
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
            held: [const { MaybeUninit::uninit() }; Batch::CAPACITY],
            head: 0,
            tail: 0,
            failed: None,
            owner: None,
            sources: [0; Batch::CAPACITY],
        }
    }

    /// Completions not yet taken.
    pub fn len(&self) -> usize {
        self.tail.checked_sub(self.head).unwrap_or(1)
    }

    /// Whether every completion has been taken.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Drops what was not taken.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.head != self.tail {
            self.drop_items();
        }
    }

    #[cold]
    fn drop_items(&mut self) {
        self.by_ref().for_each(drop);
    }

    #[inline]
    pub(super) fn entries_mut(&mut self) -> *mut fi_cq_tagged_entry {
        self.entries.as_mut_ptr().cast()
    }

    #[inline]
    pub(super) fn sources_mut(&mut self) -> *mut u64 {
        self.sources.as_mut_ptr()
    }

    /// The context in the first entry.
    ///
    /// # Safety
    ///
    /// The provider has written that entry.
    #[inline]
    pub(super) unsafe fn first_context(&self) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { self.entries[0].assume_init_ref() }.op_context
    }

    /// Takes over the first entry, which the provider has just written, for the operation that held this.
    #[inline]
    pub(super) fn hold_first(&mut self, held: Held<Payload>) {
        self.held[0].write(held);
        self.owner = None;
        self.head = 0;
        self.tail = 1;
    }

    /// Takes over the first `count` entries, which the provider has just written: `take` is asked for what each
    /// operation held. Entries without any are left out; the first such entry is returned.
    ///
    /// # Safety
    ///
    /// The batch is empty, and `count` entries are initialised, with as many sources if there is an `owner`.
    #[inline]
    pub(super) unsafe fn adopt(
        &mut self,
        count: usize,
        owner: Option<NonZeroU32>,
        mut take: impl FnMut(&fi_cq_tagged_entry) -> Option<Held<Payload>>,
    ) -> Option<fi_cq_tagged_entry> {
        debug_assert!(self.is_empty() && count <= Batch::CAPACITY);
        self.head = 0;
        self.owner = owner;
        for index in 0..count {
            // SAFETY: index < count <= CAPACITY.
            let entry = unsafe { self.entries.get_unchecked(index) };
            // SAFETY: the caller says that `count` entries are initialised.
            let entry = unsafe { entry.assume_init_ref() };
            let Some(held) = take(entry) else { return self.adopt_around(index, count, take) };
            // SAFETY: index < count <= CAPACITY.
            unsafe { self.held.get_unchecked_mut(index) }.write(held);
        }
        self.tail = count;
        None
    }

    /// The rest of [`adopt`](Batch::adopt) once an entry has turned out to belong to no operation.
    #[cold]
    #[inline(never)]
    fn adopt_around(
        &mut self,
        first: usize,
        count: usize,
        mut take: impl FnMut(&fi_cq_tagged_entry) -> Option<Held<Payload>>,
    ) -> Option<fi_cq_tagged_entry> {
        let entries = &mut self.entries[..count];
        // SAFETY: `adopt` was called with `count` initialised entries, and has not moved any.
        let spurious = unsafe { entries[first].assume_init() };
        self.tail = first;
        for index in first + 1..count {
            // SAFETY: as above; an entry is plain data.
            let entry = unsafe { entries[index].assume_init() };
            if let Some(held) = take(&entry) {
                entries[self.tail].write(entry);
                self.sources[self.tail] = self.sources[index];
                self.held[self.tail].write(held);
                self.tail += 1;
            }
        }
        Some(spurious)
    }

    /// Holds one failed operation and nothing else.
    pub(super) fn fail(&mut self, failed: Completion) {
        self.clear();
        self.failed = Some(Box::new(failed));
        self.head = 1;
        self.tail = 0;
    }

    #[cold]
    fn next_failed(&mut self) -> Option<Completion> {
        self.head = self.tail;
        self.failed.take().map(|failed| *failed)
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
        let index = self.head;
        if index >= self.tail {
            return if index == self.tail { None } else { self.next_failed() };
        }
        self.head += 1;
        // SAFETY: index < tail <= CAPACITY.
        let held = unsafe { self.held.get_unchecked(index) };
        // SAFETY: items `head..tail` are initialised, and moving the head up makes this read the only one.
        let held = unsafe { held.assume_init_read() };
        // SAFETY: as for `held`.
        let entry = unsafe { self.entries.get_unchecked(index) };
        // SAFETY: initialised together with `held`.
        let entry = unsafe { entry.assume_init_ref() };
        let from = self.owner.and_then(|owner| {
            // SAFETY: index < tail <= CAPACITY.
            let address = *unsafe { self.sources.get_unchecked(index) };
            (address != FI_ADDR_NOTAVAIL).then_some(Peer { address, owner })
        });
        Some(Completion::finished(entry, held, from))
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
