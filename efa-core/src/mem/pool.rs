//! One mapping, one registration, many slots.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam::queue::ArrayQueue;

use crate::domain::{Domain, DomainInner};
use crate::error::{Error, Result};
use crate::mem::Buf;
use crate::mem::buf::Header;

/// Size and number of the buffers of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    slot_bytes: usize,
    slots: usize,
    alignment: usize,
}

impl PoolSpec {
    /// `slots` buffers of `slot_bytes` bytes each; every buffer starts on a cache line (64 bytes).
    pub const fn new(slot_bytes: usize, slots: usize) -> PoolSpec {
        PoolSpec { slot_bytes, slots, alignment: 64 }
    }

    /// Aligns every buffer to `alignment` bytes, a power of two of at most 4096.
    pub const fn alignment(mut self, alignment: usize) -> PoolSpec {
        self.alignment = alignment;
        self
    }

    /// Bytes that a pool of this kind maps, rounding included; `None` past the address space.
    pub fn mapped_bytes(&self) -> Option<usize> {
        self.stride()?.checked_mul(self.slots)?.checked_next_multiple_of(PAGE)
    }

    fn stride(&self) -> Option<usize> {
        self.slot_bytes.max(1).checked_next_multiple_of(self.alignment.max(1))
    }

    fn check(&self) -> Result<(usize, usize)> {
        if !self.alignment.is_power_of_two() || self.alignment > PAGE {
            return Err(Error::Invalid {
                what: "buffer alignment",
                value: self.alignment.to_string(),
                reason: format!("it must be a power of two of at most {PAGE}"),
            });
        }
        if self.slots == 0 || self.slots > u32::MAX as usize {
            return Err(Error::Invalid {
                what: "number of buffers",
                value: self.slots.to_string(),
                reason: format!("a pool holds 1 to {} buffers", u32::MAX),
            });
        }
        match (self.stride(), self.mapped_bytes()) {
            (Some(stride), Some(mapped)) if mapped <= isize::MAX as usize => Ok((stride, mapped)),
            _ => Err(Error::Invalid {
                what: "pool size",
                value: format!("{} x {} bytes", self.slots, self.slot_bytes),
                reason: "it is larger than the address space".into(),
            }),
        }
    }
}

const PAGE: usize = 4096;

/// A pool of registered buffers; clones share it, and every [`Buf`] keeps it alive.
#[derive(Clone)]
pub struct BufPool(Arc<PoolInner>);

pub(crate) struct PoolInner {
    mr: NonNull<efa_sys::fid_mr>,
    map: Mapping,
    /// One for each slot; the owner of a slot that is out alone uses its header.
    headers: Box<[UnsafeCell<Header>]>,
    slot_bytes: usize,
    free: ArrayQueue<u32>,
    domain: Arc<DomainInner>,
}

// SAFETY: the registration is left alone until Drop closes it under the domain's control lock; mapping and
// headers are handed out slot by slot through `free`, an atomic queue, so no two Bufs share a slot.
unsafe impl Send for PoolInner {}
// SAFETY: as above.
unsafe impl Sync for PoolInner {}

impl BufPool {
    pub(crate) fn new(domain: &Domain, spec: &PoolSpec) -> Result<BufPool> {
        let (stride, bytes) = spec.check()?;
        let map = Mapping::new(bytes)?;
        let domain = domain.0.clone();
        let mr = register(&domain, &map)?;
        // SAFETY: `mr` is open.
        let desc = unsafe { efa_sys::fi_mr_desc(mr.as_ptr()) };
        let free = ArrayQueue::new(spec.slots);
        let header = |index: u32| {
            // The queue holds exactly this many.
            let _ = free.push(index);
            let start = map.start.as_ptr().wrapping_add(index as usize * stride);
            UnsafeCell::new(Header::new(start, spec.slot_bytes, desc, index, domain.number))
        };
        let headers = (0..spec.slots as u32).map(header).collect();
        Ok(BufPool(Arc::new(PoolInner { mr, map, headers, slot_bytes: spec.slot_bytes, free, domain })))
    }

    /// A free buffer of the pool's full size, or `None` while all are out.
    ///
    /// Its bytes are whatever its last owner left; a fresh pool is zero.
    pub fn take(&self) -> Option<Buf> {
        let index = self.0.free.pop()?;
        let header = NonNull::new(self.0.headers.get(index as usize)?.get())?;
        // SAFETY: popping the index made this the only owner of its header and its bytes.
        Some(unsafe { Buf::from_slot(self.0.clone(), header) })
    }

    /// Buffers that are free now.
    pub fn available(&self) -> usize {
        self.0.free.len()
    }

    /// Bytes in each buffer.
    pub fn slot_bytes(&self) -> usize {
        self.0.slot_bytes
    }
}

impl PoolInner {
    /// Takes a slot back; its Buf is gone.
    pub(crate) fn put_back(&self, index: u32) {
        // The queue has room for every slot, and each is out at most once.
        let _ = self.free.push(index);
    }
}

fn register(domain: &DomainInner, map: &Mapping) -> Result<NonNull<efa_sys::fid_mr>> {
    let mut mr = std::ptr::null_mut();
    let key = domain.key();
    let access = efa_sys::FI_SEND | efa_sys::FI_RECV;
    let start = map.start.as_ptr().cast::<c_void>();
    let guard = domain.control();
    // SAFETY: the domain is open, the mapping whole and kept until after the registration is closed,
    // `mr` a valid out-pointer; offset, flags and context are unused.
    let ret = unsafe {
        efa_sys::fi_mr_reg(domain.as_ptr(), start, map.bytes, access, 0, key, 0, &mut mr, std::ptr::null_mut())
    };
    drop(guard);
    match NonNull::new(mr) {
        Some(mr) if ret == 0 => Ok(mr),
        _ => Err(Error::call("fi_mr_reg", format!("{} ({} bytes)", domain.label(), map.bytes), ret.into())),
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        let guard = self.domain.control();
        // SAFETY: opened by fi_mr_reg; every Buf, posted or not, held this pool, so none is left.
        let ret = unsafe { efa_sys::fi_close(self.mr.as_ptr().cast()) };
        drop(guard);
        if ret != 0 {
            log::warn!("fi_close(mr of {}) returned {ret}: {} bytes stay mapped", self.domain.label(), self.map.bytes);
            self.map.leak();
        }
        // Field order now unmaps the memory and then lets the domain go.
    }
}

/// An anonymous private mapping, zeroed by the kernel.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> Result<Mapping> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { start, bytes }),
            _ => Err(Error::Memory { bytes, what: "a buffer pool", source: std::io::Error::last_os_error() }),
        }
    }

    fn leak(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: mapped in `new` with this start and length, unmapped once; no Buf is left.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

impl fmt::Debug for BufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufPool({} x {} bytes, {} free)", self.0.free.capacity(), self.0.slot_bytes, self.available())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_pools_are_refused_with_the_reason() {
        for (spec, word) in [
            (PoolSpec::new(64, 0), "number of buffers"),
            (PoolSpec::new(usize::MAX, 2), "pool size"),
            (PoolSpec::new(64, 1).alignment(48), "alignment"),
            (PoolSpec::new(64, 1).alignment(8192), "alignment"),
        ] {
            assert!(spec.check().unwrap_err().to_string().contains(word), "{spec:?}");
        }
    }

    #[test]
    fn the_mapping_covers_every_slot() {
        assert_eq!(PoolSpec::new(1, 1).mapped_bytes(), Some(4096));
        assert_eq!(PoolSpec::new(65, 64).mapped_bytes(), Some(8192));
        assert_eq!(PoolSpec::new(0, 64).mapped_bytes(), Some(4096));
    }
}
