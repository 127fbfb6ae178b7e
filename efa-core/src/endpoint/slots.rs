//! The slot table: the one place that reasons about memory in flight.
//!
//! Every operation in flight occupies one slot: the provider's context, the payload that the operation
//! owns, and the caller's token. The table is allocated once; posting and completing move payloads in and
//! out of it and thread vacant slots through a list, without allocation, lock or search.
//!
//! Invariants, upheld by this module alone:
//!
//! 1. A slot is vacant (on the list, no payload) or filled (off the list, payload present). Nothing else
//!    changes either. The payload itself says which, so there is nothing to keep in step with it.
//! 2. A slot's context address never changes while the table lives, and providers get addresses of
//!    slots only. A provider may scribble over the context bytes (FI_CONTEXT2), never over the rest.
//! 3. A completion's context is checked to be the address of a filled slot before anything is read.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use efa_sys::fi_context2;

use super::Token;

/// One operation in flight. A multiple of two cache lines, so that neighbours never share one.
#[repr(C, align(128))]
struct Slot<T> {
    /// The provider's; first, so that the context's address is the slot's address.
    context: MaybeUninit<fi_context2>,
    body: Body<T>,
}

struct Body<T> {
    /// Present while the operation is in flight.
    payload: Option<T>,
    /// Of a filled slot.
    token: Token,
    /// The next vacant slot, or null; of a vacant slot.
    next: *mut Slot<T>,
}

/// What an operation in flight holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held<T> {
    pub(super) payload: T,
    pub(super) token: Token,
}

/// A fixed set of slots for operations whose payload is `T`.
pub(super) struct SlotTable<T> {
    vacant: *mut Slot<T>,
    base: NonNull<Slot<T>>,
    /// Slots of the table; 0 once it has leaked.
    capacity: usize,
    _owns: PhantomData<T>,
}

// SAFETY: the table owns its slots and their payloads; moving it to another thread moves them all, and the
// addresses stay. It is Send when the payload is.
unsafe impl<T: Send> Send for SlotTable<T> {}

/// A vacant slot, found but not yet filled.
pub(super) struct Vacancy<T>(NonNull<Slot<T>>);

impl<T> Vacancy<T> {
    /// The context to post with.
    #[inline]
    pub(super) fn context(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

impl<T> SlotTable<T> {
    /// A table of `capacity` vacant slots, at least one.
    pub(super) fn new(capacity: usize) -> SlotTable<T> {
        let capacity = capacity.max(1);
        let layout = Self::layout(capacity);
        // SAFETY: the layout has a size above zero, since capacity and Slot's size are.
        let memory = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(memory.cast::<Slot<T>>()) else { handle_alloc_error(layout) };
        memory.expose_provenance();
        let mut table = SlotTable { vacant: std::ptr::null_mut(), base, capacity, _owns: PhantomData };
        for index in (0..capacity).rev() {
            let slot = table.slot(index);
            let body = Body { payload: None, token: Token(0), next: table.vacant };
            // SAFETY: the slot is allocated and aligned, and nothing in it needs dropping.
            unsafe { slot.write(Slot { context: MaybeUninit::zeroed(), body }) };
            table.vacant = slot;
        }
        table
    }

    fn layout(capacity: usize) -> Layout {
        // Callers bound the capacity by a queue depth; an overflow cannot be allocated anyway.
        Layout::array::<Slot<T>>(capacity).unwrap_or_else(|_| handle_alloc_error(Layout::new::<Slot<T>>()))
    }

    /// Operations in flight, counted one by one: the hot path keeps no count.
    pub(super) fn filled(&self) -> usize {
        self.filled_slots().count()
    }

    /// Operations that fit.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The slot that the next operation will use, or `None` when all are filled. Finding it changes nothing.
    #[inline]
    pub(super) fn vacancy(&self) -> Option<Vacancy<T>> {
        NonNull::new(self.vacant).map(Vacancy)
    }

    /// Fills the slot that [`vacancy`](Self::vacancy) found: the post succeeded.
    #[inline]
    pub(super) fn fill(&mut self, vacancy: Vacancy<T>, payload: T, token: Token) {
        debug_assert_eq!(vacancy.0.as_ptr(), self.vacant);
        // SAFETY: the slot belongs to this table, whose bodies are initialised and never the provider's.
        let body = unsafe { Self::body(vacancy.0.as_ptr()) };
        self.vacant = body.next;
        body.token = token;
        // Written over, not dropped: a vacant slot has none.
        std::mem::forget(body.payload.replace(payload));
    }

    /// Empties the slot whose context a completion carries; `None` if it is no filled slot of this table.
    #[inline]
    pub(super) fn take(&mut self, context: *mut c_void) -> Option<Held<T>> {
        let slot = self.slot_at(context)?;
        // SAFETY: slot_at gives a slot of this table; see `fill`.
        let body = unsafe { Self::body(slot) };
        let payload = body.payload.take()?;
        body.next = self.vacant;
        self.vacant = slot;
        Some(Held { payload, token: body.token })
    }

    /// The part of a slot that is ours: a provider never touches it, so a reference to it is exclusive.
    ///
    /// # Safety
    ///
    /// `slot` is a slot of a live table, and no other reference to its body exists.
    #[inline]
    unsafe fn body<'a>(slot: *mut Slot<T>) -> &'a mut Body<T> {
        // SAFETY: the caller says that the slot is live and its body unaliased; the context is left out.
        unsafe { &mut (*slot).body }
    }

    fn slot(&self, index: usize) -> *mut Slot<T> {
        debug_assert!(index < self.capacity());
        self.base.as_ptr().wrapping_add(index)
    }

    /// The slot at this address, if it is one.
    #[inline]
    fn slot_at(&self, context: *mut c_void) -> Option<*mut Slot<T>> {
        // Rotated, an offset that is no multiple of the slot's size is larger than any index: one comparison
        // checks range and alignment.
        const { assert!(size_of::<Slot<T>>().is_power_of_two()) };
        let offset = context.addr().wrapping_sub(self.base.addr().get());
        let index = offset.rotate_right(size_of::<Slot<T>>().trailing_zeros());
        // The table's provenance was exposed to the provider, and comes back with the address.
        (index < self.capacity).then(|| std::ptr::with_exposed_provenance_mut(context.addr()))
    }

    fn filled_slots(&self) -> impl Iterator<Item = *mut Slot<T>> + '_ {
        (0..self.capacity()).map(|index| self.slot(index)).filter(|&slot| {
            // SAFETY: a slot of this table; the reference ends with the expression.
            unsafe { Self::body(slot) }.payload.is_some()
        })
    }

    /// The contexts of all operations in flight.
    pub(super) fn contexts(&self) -> impl Iterator<Item = *mut c_void> + '_ {
        self.filled_slots().map(|slot| slot.cast())
    }

    /// The context of an operation in flight with this token.
    pub(super) fn find(&self, token: Token) -> Option<*mut c_void> {
        let found = self.filled_slots().find(|&slot| {
            // SAFETY: as in filled_slots.
            unsafe { Self::body(slot) }.token == token
        });
        found.map(|slot| slot.cast())
    }

    /// Takes every payload out. Only right when no provider can reach them any more.
    pub(super) fn drain(&mut self) -> Vec<T> {
        let contexts: Vec<_> = self.contexts().collect();
        contexts.into_iter().filter_map(|context| Some(self.take(context)?.payload)).collect()
    }

    /// Gives up the memory of the table and of everything in it: a provider may still reach it.
    pub(super) fn leak(&mut self) {
        self.base = NonNull::dangling();
        self.vacant = std::ptr::null_mut();
        self.capacity = 0;
    }
}

impl<T> Drop for SlotTable<T> {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        drop(self.drain());
        // SAFETY: allocated in `new` with this layout; payloads are gone, the rest needs no drop.
        unsafe { dealloc(self.base.as_ptr().cast(), Self::layout(self.capacity())) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicPtr, Ordering};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_payload_lives_exactly_as_long_as_its_operation() {
        let witness = Arc::new(());
        let mut table = SlotTable::new(2);
        let vacancy = table.vacancy().unwrap();
        let context = vacancy.context();
        table.fill(vacancy, witness.clone(), Token(7));
        assert_eq!((Arc::strong_count(&witness), table.filled()), (2, 1));
        assert_eq!(table.find(Token(7)), Some(context));
        let Held { payload, token } = table.take(context).unwrap();
        assert_eq!((token, table.filled()), (Token(7), 0));
        drop(payload);
        assert_eq!(Arc::strong_count(&witness), 1);
        assert!(table.take(context).is_none(), "completed twice");
    }

    static LEAKED: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

    #[test]
    fn dropping_the_table_drops_what_is_in_flight_and_leaking_does_not() {
        let witness = Arc::new(());
        for (leak, left) in [(false, 1), (true, 2)] {
            let mut table = SlotTable::new(4);
            let vacancy = table.vacancy().unwrap();
            table.fill(vacancy, witness.clone(), Token(0));
            if leak {
                // Reachable, so that a leak checker reports only what was not meant.
                LEAKED.store(table.base.as_ptr().cast(), Ordering::Relaxed);
                table.leak();
            }
            drop(table);
            assert_eq!(Arc::strong_count(&witness), left);
        }
    }

    #[test]
    fn foreign_contexts_are_no_slots() {
        let mut table = SlotTable::<Box<u8>>::new(2);
        let vacancy = table.vacancy().unwrap();
        let context = vacancy.context();
        table.fill(vacancy, Box::new(1), Token(1));
        for bad in [
            std::ptr::null_mut(),
            context.wrapping_byte_add(8),
            context.wrapping_byte_add(256),
            context.wrapping_byte_sub(128),
            usize::MAX as *mut c_void,
        ] {
            assert!(table.take(bad).is_none(), "{bad:p}");
        }
        assert!(table.take(context).is_some());
    }

    #[test]
    fn a_provider_may_scribble_over_the_context() {
        let mut table = SlotTable::<Box<u64>>::new(1);
        let vacancy = table.vacancy().unwrap();
        let context = vacancy.context();
        table.fill(vacancy, Box::new(42), Token(3));
        // SAFETY: the context is fi_context2's 64 bytes, ours to write as a provider would.
        unsafe { std::ptr::write_bytes(context.cast::<u8>(), 0xAA, size_of::<fi_context2>()) };
        assert_eq!(table.take(context), Some(Held { payload: Box::new(42), token: Token(3) }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]

        /// Against a model: any sequence of posts and completions keeps every payload exactly once.
        #[test]
        fn the_table_agrees_with_a_model(capacity in 1usize..9, steps in prop::collection::vec((any::<bool>(), any::<u16>()), 0..200)) {
            let witness = Arc::new(());
            let mut table = SlotTable::new(capacity);
            let mut model: HashMap<usize, u64> = HashMap::new();
            for (number, (post, pick)) in steps.into_iter().enumerate() {
                let number = number as u64;
                if post {
                    match table.vacancy() {
                        Some(vacancy) => {
                            let context = vacancy.context() as usize;
                            table.fill(vacancy, (witness.clone(), number), Token(number));
                            prop_assert!(model.insert(context, number).is_none());
                        }
                        None => prop_assert_eq!(model.len(), capacity),
                    }
                } else if let Some(&context) = model.keys().nth(usize::from(pick) % model.len().max(1)) {
                    let expected = model.remove(&context);
                    let slot = table.contexts().find(|c| *c as usize == context).expect("in flight");
                    let Held { payload: (_, number), token } = table.take(slot).expect("in flight");
                    prop_assert_eq!(Some(number), expected);
                    prop_assert_eq!(token, Token(number));
                }
                prop_assert_eq!(table.filled(), model.len());
                prop_assert_eq!(Arc::strong_count(&witness), 1 + model.len());
            }
            drop(table);
            prop_assert_eq!(Arc::strong_count(&witness), 1);
        }
    }
}
