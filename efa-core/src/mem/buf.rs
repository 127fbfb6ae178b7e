//! Handles that own a slot of a pool.
//!
//! Every handle is one pointer, to the header of its slot. Headers are made with the pool and live as long as
//! it, so taking, sharing and giving back allocate nothing.
//!
//! Invariants, upheld by this module and `BufPool::take`:
//!
//! 1. A slot that is out has either one [`Buf`] or one or more [`SharedBuf`]s, as many as its header counts;
//!    inside a [`Payload`] the lowest bit of the pointer says which.
//! 2. A slot that is out holds one strong count of its pool, so its header and its bytes stay.
//! 3. Only a `Buf`, by `&mut` or by value, writes its header or its bytes; shares change nothing but the count.

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::mem::pool::PoolInner;

/// What is known of a slot, in one cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Header {
    start: *mut u8,
    len: usize,
    desc: *mut c_void,
    capacity: usize,
    /// Shares of a buffer that is shared.
    shares: AtomicUsize,
    /// A strong count of the pool while the slot is out, from `Arc::into_raw`.
    pool: *const PoolInner,
    index: u32,
    /// Number of the domain that the slot is registered with.
    domain: NonZeroU32,
}

// All that a post looks at comes with one miss of the cache at most.
const _: () = assert!(size_of::<Header>() == 64);

impl Header {
    /// The header of a free slot.
    pub(crate) fn new(start: *mut u8, capacity: usize, desc: *mut c_void, index: u32, domain: NonZeroU32) -> Header {
        Header { start, len: 0, desc, capacity, shares: AtomicUsize::new(0), pool: std::ptr::null(), index, domain }
    }
}

/// An owned slot of a [`BufPool`](crate::mem::BufPool): bytes that only this handle can reach.
///
/// Its length is what the next operation sends, or at most receives; it starts at the pool's slot size.
/// Dropping it gives the slot back to the pool.
pub struct Buf(NonNull<Header>);

// SAFETY: a Buf is the only owner of its bytes and header, and the pool behind it is Send and Sync.
unsafe impl Send for Buf {}
// SAFETY: a shared Buf only gives out shared slices.
unsafe impl Sync for Buf {}

impl Buf {
    /// A handle to a free slot, of the pool's slot size.
    ///
    /// # Safety
    ///
    /// `header` belongs to a slot of `pool` that no other handle owns.
    pub(crate) unsafe fn from_slot(pool: Arc<PoolInner>, header: NonNull<Header>) -> Buf {
        // SAFETY: the header lives as long as the pool, and nobody else uses that of a free slot.
        let free = unsafe { &mut *header.as_ptr() };
        free.len = free.capacity;
        free.pool = Arc::into_raw(pool);
        Buf(header)
    }

    /// Bytes that the slot can hold.
    pub fn capacity(&self) -> usize {
        // SAFETY: invariant 2; capacities never change.
        unsafe { (*self.0.as_ptr()).capacity }
    }

    /// Sets the length that the next operation sends, or at most receives.
    ///
    /// # Panics
    ///
    /// When `len` is larger than [`capacity`](Buf::capacity), as a slice index would.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length {len} is past the capacity of {} bytes", self.capacity());
        // SAFETY: invariants 2 and 3.
        unsafe { (*self.0.as_ptr()).len = len };
    }

    /// Makes the buffer read-only and shareable.
    #[inline]
    pub fn into_shared(self) -> SharedBuf {
        let header = ManuallyDrop::new(self).0;
        // SAFETY: invariant 2.
        let shares = unsafe { &(*header.as_ptr()).shares };
        shares.store(1, Ordering::Relaxed);
        SharedBuf(header)
    }

    /// The memory for a receive: the provider will write it, so this wants the owner itself.
    #[inline]
    pub(crate) fn region_mut(&mut self) -> Region {
        // SAFETY: invariant 2.
        unsafe { region(self.0) }
    }
}

/// A piece of registered memory as a post call wants it.
pub(crate) struct Region {
    pub(crate) start: *mut c_void,
    pub(crate) len: usize,
    pub(crate) desc: *mut c_void,
    /// Number of the only domain that `desc` is for.
    pub(crate) domain: NonZeroU32,
}

/// The memory of a slot that is out.
///
/// # Safety
///
/// The caller borrows a handle to the slot.
#[inline]
unsafe fn region(header: NonNull<Header>) -> Region {
    // SAFETY: the slot is out, so its header is there (invariant 2), and while its handle is borrowed nobody
    // writes these fields (invariant 3).
    let Header { start, len, desc, domain, .. } = unsafe { header.as_ref() };
    Region { start: start.cast(), len: *len, desc: *desc, domain: *domain }
}

/// The bytes of a slot that is out.
///
/// # Safety
///
/// The caller borrows a handle to the slot for `'a`.
#[inline]
unsafe fn bytes<'a>(header: NonNull<Header>) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let Region { start, len, .. } = unsafe { region(header) };
    // SAFETY: `len` bytes from `start` belong to the slot, are mapped while the pool lives and were initialised
    // (zeroed) by the kernel; set_len keeps `len` inside the slot. Nobody writes them while a handle is borrowed.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

impl Deref for Buf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the handle is borrowed as long as the slice.
        unsafe { bytes(self.0) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Region { start, len, .. } = self.region_mut();
        // SAFETY: as for `bytes`; the handle is borrowed exclusively, and it is the only one.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // SAFETY: invariant 2.
        let Header { pool, index, .. } = unsafe { self.0.as_ref() };
        let (pool, index) = (*pool, *index);
        // SAFETY: the count that from_slot left in the header; this handle was the only one, so it is taken once.
        let pool = unsafe { Arc::from_raw(pool) };
        // From here on the slot, header included, may be somebody else's.
        pool.put_back(index);
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({:p}, {} of {} bytes)", self.as_ptr(), self.len(), self.capacity())
    }
}

/// A read-only buffer that several operations may send at once; the slot is free when the last clone goes.
pub struct SharedBuf(NonNull<Header>);

// SAFETY: shares give out shared slices only and count themselves atomically, as an Arc does; the last one
// gives back the slot, from any thread as a Buf may.
unsafe impl Send for SharedBuf {}
// SAFETY: as above.
unsafe impl Sync for SharedBuf {}

impl SharedBuf {
    #[inline]
    fn shares(&self) -> &AtomicUsize {
        // SAFETY: invariant 2; the count is atomic.
        unsafe { &(*self.0.as_ptr()).shares }
    }

    /// The buffer itself, when no other clone and no operation in flight holds it.
    ///
    /// # Errors
    ///
    /// The handle, unchanged, while it is still shared.
    #[inline]
    pub fn try_into_buf(self) -> Result<Buf, SharedBuf> {
        // Only a holder can clone, so a count of one cannot grow. Acquire: what other holders read, they read
        // before they let go.
        if self.shares().load(Ordering::Acquire) != 1 {
            return Err(self);
        }
        Ok(Buf(ManuallyDrop::new(self).0))
    }
}

impl Clone for SharedBuf {
    #[inline]
    fn clone(&self) -> SharedBuf {
        if self.shares().fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            // Forgotten so often that the count would wrap, and free the slot under its holders: as in Arc.
            std::process::abort();
        }
        SharedBuf(self.0)
    }
}

impl Drop for SharedBuf {
    #[inline]
    fn drop(&mut self) {
        if self.shares().fetch_sub(1, Ordering::Release) == 1 {
            // As in try_into_buf.
            fence(Ordering::Acquire);
            drop(Buf(self.0));
        }
    }
}

impl Deref for SharedBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the handle is borrowed as long as the slice.
        unsafe { bytes(self.0) }
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.shares().load(Ordering::Relaxed);
        write!(f, "SharedBuf({:p}, {} bytes, {shares} shares)", self.as_ptr(), self.len())
    }
}

/// What an operation holds while it is in flight: a [`Buf`] of its own, or a share of a [`SharedBuf`].
///
/// One word, so that posting and completing move it in a register.
pub struct Payload(NonNull<Header>);

// SAFETY: it is a Buf or a SharedBuf, which are both Send and Sync.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

/// Set in a [`Payload`] that is a share; headers are aligned to more.
const SHARED: usize = 1;

// An operation in flight is told from a vacant slot by its payload, for free.
const _: () = assert!(size_of::<Option<Payload>>() == size_of::<usize>());

impl Payload {
    #[inline]
    fn header(&self) -> NonNull<Header> {
        // SAFETY: without its lowest bit it is the address of a header, which is not null.
        unsafe { NonNull::new_unchecked(self.0.as_ptr().map_addr(|address| address & !SHARED)) }
    }

    #[inline]
    fn is_shared(&self) -> bool {
        self.0.addr().get() & SHARED != 0
    }

    /// The buffer, if the operation owned it.
    ///
    /// # Errors
    ///
    /// The share, if it did not.
    #[inline]
    pub fn into_buf(self) -> Result<Buf, SharedBuf> {
        let payload = ManuallyDrop::new(self);
        if payload.is_shared() { Err(SharedBuf(payload.header())) } else { Ok(Buf(payload.0)) }
    }

    #[inline]
    pub(crate) fn region(&self) -> Region {
        // SAFETY: the payload is a handle to the slot, of either kind.
        unsafe { region(self.header()) }
    }
}

impl Deref for Payload {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as for `region`; it is borrowed as long as the slice.
        unsafe { bytes(self.header()) }
    }
}

impl From<Buf> for Payload {
    #[inline]
    fn from(buf: Buf) -> Payload {
        let header = ManuallyDrop::new(buf).0;
        // Spares posts the masking of the bit.
        // SAFETY: headers are aligned.
        unsafe { std::hint::assert_unchecked(header.addr().get() & SHARED == 0) };
        Payload(header)
    }
}

impl From<SharedBuf> for Payload {
    #[inline]
    fn from(shared: SharedBuf) -> Payload {
        Payload(ManuallyDrop::new(shared).0.map_addr(|address| address | SHARED))
    }
}

impl Drop for Payload {
    #[inline]
    fn drop(&mut self) {
        drop(Payload(self.0).into_buf());
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_shared() { "shared" } else { "owned" };
        write!(f, "Payload({kind}, {:p}, {} bytes)", self.as_ptr(), self.len())
    }
}
