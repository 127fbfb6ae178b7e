//! The completions of one poll.

use std::cmp::Ordering;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;

use efa_sys::{FI_ADDR_NOTAVAIL, fi_cq_tagged_entry};

use super::slots::Held;
use super::{Completion, Owner, Peer};
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
    /// Completions not yet taken, or [`FAILED`]. So many items are initialised at the front of `held`, the oldest
    /// last, so that taking one is counting down.
    remaining: isize,
    held: [MaybeUninit<Held<Payload>>; Batch::CAPACITY],
    /// What the provider wrote, oldest first. A [`Completion`] is put together only when it is taken, so that
    /// what the caller does not look at is never copied.
    entries: [MaybeUninit<fi_cq_tagged_entry>; Batch::CAPACITY],
    read: Read,
    sources: [u64; Batch::CAPACITY],
    /// The domain of the last owner of sources.
    domain: NonZeroU32,
    /// The operation that failed, alone in its batch, while `remaining` is [`FAILED`].
    failed: Option<Box<Completion>>,
}

/// Instead of the number of items, while the batch holds one operation that failed: negative, so that one
/// comparison keeps it and the empty batch off the hot path.
const FAILED: isize = -1;

/// What the last read gave; together, so that one store sets both.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Read {
    /// Entries initialised at the front of `entries`, at least as many as remain.
    count: u32,
    /// The endpoint whose peers the sources are, where as many sources were read too.
    owner: Option<NonZeroU32>,
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
            remaining: 0,
            held: [const { MaybeUninit::uninit() }; Batch::CAPACITY],
            entries: [const { MaybeUninit::uninit() }; Batch::CAPACITY],
            read: Read { count: 0, owner: None },
            sources: [0; Batch::CAPACITY],
            domain: NonZeroU32::MIN,
            failed: None,
        }
    }

    /// Completions not yet taken.
    pub fn len(&self) -> usize {
        self.remaining.unsigned_abs()
    }

    /// Whether every completion has been taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// 0 if the batch is empty.
    #[inline]
    pub(super) fn remaining(&self) -> isize {
        self.remaining
    }

    /// Drops what was not taken.
    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.is_empty() {
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
        self.read = Read { count: 1, owner: None };
        self.remaining = 1;
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
        owner: Option<Owner>,
        mut take: impl FnMut(&fi_cq_tagged_entry) -> Option<Held<Payload>>,
    ) -> Option<fi_cq_tagged_entry> {
        debug_assert!(self.is_empty() && count <= Batch::CAPACITY);
        self.read = Read { count: count as u32, owner: owner.map(Owner::endpoint) };
        if let Some(owner) = owner {
            self.domain = owner.domain();
        }
        for index in 0..count {
            // SAFETY: index < count <= CAPACITY.
            let entry = unsafe { self.entries.get_unchecked(index) };
            // SAFETY: the caller says that `count` entries are initialised.
            let entry = unsafe { entry.assume_init_ref() };
            let Some(held) = take(entry) else { return self.adopt_around(index, count, take) };
            // SAFETY: count - 1 - index < count <= CAPACITY.
            unsafe { self.held.get_unchecked_mut(count - 1 - index) }.write(held);
        }
        self.remaining = count as isize;
        None
    }

    /// The rest of [`adopt`](Batch::adopt) once an entry has turned out to belong to no operation: closes up the
    /// others around it. Allocates, because it is the end of the road for this queue.
    #[cold]
    #[inline(never)]
    fn adopt_around(
        &mut self,
        first: usize,
        count: usize,
        mut take: impl FnMut(&fi_cq_tagged_entry) -> Option<Held<Payload>>,
    ) -> Option<fi_cq_tagged_entry> {
        let mut kept = Vec::new();
        for index in 0..count {
            // SAFETY: `adopt` was called with `count` initialised entries, plain data.
            let entry = unsafe { self.entries[index].assume_init() };
            let held = match index.cmp(&first) {
                // SAFETY: `adopt` has just written it; nothing reads it again, since nothing remains yet.
                Ordering::Less => Some(unsafe { self.held[count - 1 - index].assume_init_read() }),
                Ordering::Equal => None,
                Ordering::Greater => take(&entry),
            };
            kept.extend(held.map(|held| (held, entry, self.sources[index])));
        }
        // SAFETY: as above.
        let spurious = unsafe { self.entries[first].assume_init() };
        let count = kept.len();
        for (index, (held, entry, source)) in kept.into_iter().enumerate() {
            self.held[count - 1 - index].write(held);
            self.entries[index].write(entry);
            self.sources[index] = source;
        }
        self.read.count = count as u32;
        self.remaining = count as isize;
        Some(spurious)
    }

    /// Holds one failed operation and nothing else.
    pub(super) fn fail(&mut self, failed: Completion) {
        self.clear();
        self.failed = Some(Box::new(failed));
        self.remaining = FAILED;
    }

    /// Boxed, so that the usual completion needs no place in memory for it to be written to.
    #[cold]
    #[inline(never)]
    fn next_failed(&mut self) -> Option<Box<Completion>> {
        self.remaining = 0;
        self.failed.take()
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
        let last = self.remaining - 1;
        if last < 0 {
            return if self.remaining == 0 { None } else { self.next_failed().map(|failed| *failed) };
        }
        self.remaining = last;
        let last = last as usize;
        // SAFETY: last < remaining <= CAPACITY.
        let held = unsafe { self.held.get_unchecked(last) };
        // SAFETY: as many items as remained are initialised, and counting down makes this read the only one.
        let held = unsafe { held.assume_init_read() };
        // The oldest of those that remained.
        let index = self.read.count as usize - 1 - last;
        // SAFETY: index < count <= CAPACITY.
        let entry = unsafe { self.entries.get_unchecked(index) };
        // SAFETY: index < count.
        let entry = unsafe { entry.assume_init_ref() };
        let from = self.read.owner.and_then(|endpoint| {
            let owner = Owner::new(endpoint, self.domain);
            // SAFETY: as for `entries`.
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
