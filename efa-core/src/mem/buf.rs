//! Handles that own a slot of a pool.

use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::mem::pool::PoolInner;

/// An owned slot of a [`BufPool`](crate::mem::BufPool): bytes that only this handle can reach.
///
/// Its length is what the next operation sends, or at most receives; it starts at the pool's slot size.
/// Dropping it gives the slot back to the pool.
pub struct Buf {
    start: NonNull<u8>,
    len: usize,
    pool: Arc<PoolInner>,
}

// SAFETY: a Buf is the only owner of its bytes, and the pool behind it is Send and Sync.
unsafe impl Send for Buf {}
// SAFETY: a shared Buf only gives out shared slices.
unsafe impl Sync for Buf {}

impl Buf {
    /// A handle to the slot at `start`, of the pool's slot size.
    ///
    /// # Safety
    ///
    /// `start` is a slot of `pool` that no other handle owns.
    pub(crate) unsafe fn from_slot(pool: Arc<PoolInner>, start: NonNull<u8>) -> Buf {
        Buf { start, len: pool.slot_bytes(), pool }
    }

    /// Bytes that the slot can hold.
    pub fn capacity(&self) -> usize {
        self.pool.slot_bytes()
    }

    /// Sets the length that the next operation sends, or at most receives.
    ///
    /// # Panics
    ///
    /// When `len` is larger than [`capacity`](Buf::capacity), as a slice index would.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.pool.slot_bytes(), "length {len} is past the capacity of {} bytes", self.capacity());
        self.len = len;
    }

    /// Makes the buffer read-only and shareable.
    pub fn into_shared(self) -> SharedBuf {
        SharedBuf(Arc::new(self))
    }

    #[inline]
    fn region(&self) -> Region {
        Region { start: self.start.as_ptr().cast(), len: self.len, desc: self.pool.desc() }
    }

    /// The memory for a receive: the provider will write it, so this wants the owner itself.
    #[inline]
    pub(crate) fn region_mut(&mut self) -> Region {
        self.region()
    }
}

/// A piece of registered memory as a post call wants it.
pub(crate) struct Region {
    pub(crate) start: *mut c_void,
    pub(crate) len: usize,
    pub(crate) desc: *mut c_void,
}

impl Deref for Buf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` belong to this handle alone, are mapped while the pool lives and
        // were initialised (zeroed) by the kernel; set_len keeps `len` inside the slot.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for Deref; the handle is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.pool.put_back(self.start);
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({:p}, {} of {} bytes)", self.start, self.len, self.capacity())
    }
}

/// A read-only buffer that several operations may send at once; the slot is free when the last clone goes.
#[derive(Clone, Debug)]
pub struct SharedBuf(Arc<Buf>);

impl SharedBuf {
    /// The buffer itself, when no other clone and no operation in flight holds it.
    ///
    /// # Errors
    ///
    /// The handle, unchanged, while it is still shared.
    pub fn try_into_buf(self) -> Result<Buf, SharedBuf> {
        Arc::try_unwrap(self.0).map_err(SharedBuf)
    }
}

impl Deref for SharedBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// What an operation holds while it is in flight.
#[derive(Debug)]
pub enum Payload {
    /// A buffer of its own.
    Owned(Buf),
    /// A share of a read-only buffer.
    Shared(SharedBuf),
}

impl Payload {
    /// The buffer, if the operation owned it.
    ///
    /// # Errors
    ///
    /// The share, if it did not.
    #[inline]
    pub fn into_buf(self) -> Result<Buf, SharedBuf> {
        match self {
            Payload::Owned(buf) => Ok(buf),
            Payload::Shared(shared) => Err(shared),
        }
    }

    #[inline]
    pub(crate) fn region(&self) -> Region {
        match self {
            Payload::Owned(buf) => buf.region(),
            Payload::Shared(shared) => shared.0.region(),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Payload::Owned(buf) => buf,
            Payload::Shared(shared) => shared,
        }
    }
}

impl From<Buf> for Payload {
    #[inline]
    fn from(buf: Buf) -> Payload {
        Payload::Owned(buf)
    }
}

impl From<SharedBuf> for Payload {
    #[inline]
    fn from(shared: SharedBuf) -> Payload {
        Payload::Shared(shared)
    }
}

// Moved on every post and completion: three words, the kind hidden in a pointer that is never null.
const _: () = assert!(size_of::<Payload>() == 3 * size_of::<usize>());
