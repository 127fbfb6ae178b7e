//! Registered memory: who may touch which bytes.
//!
//! The model reaches memory only through [`Memory`], and only after [`MrTable`] has checked key, range,
//! access and protection domain. A piece is checked again each time it is touched, because the application
//! may take a registration back while packets are under way.

use super::types::{Access, DeviceError, MrKey, Pd, Sge, Status};

/// The address space behind the registrations.
///
/// The adapter implements it with raw pointers; the model calls it only with ranges inside a registration
/// that is valid now.
pub trait Memory {
    /// Copies bytes from `addr` on into `out`.
    fn read(&self, addr: u64, out: &mut [u8]);
    /// Copies `data` to `addr` and on.
    fn write(&mut self, addr: u64, data: &[u8]);
}

/// A range of memory to register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrConfig {
    /// The protection domain it serves.
    pub pd: Pd,
    /// Where it is in this process.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The address that keys count from, equal to `addr` unless asked otherwise.
    pub iova: u64,
    /// What it allows.
    pub access: Access,
}

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    mr: Option<MrConfig>,
}

/// All registrations of a device.
///
/// A key is the index of its slot and a generation, so that looking one up is one load and a key that was
/// taken back stays invalid until 4095 later registrations have used the same slot.
#[derive(Debug, Default)]
pub(super) struct MrTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl MrTable {
    /// Registers a range; `generation` starts a fresh slot's keys at an arbitrary value.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] where the range wraps around the address space, or about a million
    /// registrations exist.
    pub(super) fn register(&mut self, mr: MrConfig, generation: u32) -> Result<MrKey, DeviceError> {
        if mr.addr.checked_add(mr.len).is_none() || mr.iova.checked_add(mr.len).is_none() {
            return Err(DeviceError::Invalid);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < INDEX_MASK as usize => {
                self.slots.push(Slot { generation, mr: None });
                self.slots.len() as u32 - 1
            }
            None => return Err(DeviceError::Invalid),
        };
        let slot = self.slots.get_mut(index as usize).ok_or(DeviceError::Invalid)?;
        // Generation 0 is skipped, so that no key is 0, which programs take for "no key".
        slot.generation = (slot.generation.wrapping_add(1) & (u32::MAX >> INDEX_BITS)).max(1);
        slot.mr = Some(mr);
        Ok(MrKey(slot.generation << INDEX_BITS | index))
    }

    /// Takes a registration back: from now on its key reaches nothing.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where the key is not valid.
    pub(super) fn deregister(&mut self, key: MrKey) -> Result<(), DeviceError> {
        self.get(key.0).ok_or(DeviceError::NotFound)?;
        let index = key.0 & INDEX_MASK;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.mr = None;
            self.free.push(index);
        }
        Ok(())
    }

    /// Translates `addr..addr + len` of registration `key` to an address of this process, if all of it may
    /// be used for `access` by queue pairs of `pd`.
    pub(super) fn translate(&self, pd: Pd, key: u32, addr: u64, len: u64, access: Access) -> Option<u64> {
        let mr = self.get(key)?;
        let offset = addr.checked_sub(mr.iova)?;
        let end = offset.checked_add(len)?;
        (mr.pd == pd && mr.access.allows(access) && end <= mr.len).then(|| mr.addr + offset)
    }

    /// Whether each piece is registered for `access`.
    pub(super) fn check(&self, pd: Pd, sges: &[Sge], access: Access) -> bool {
        sges.iter()
            .all(|sge| sge.len == 0 || self.translate(pd, sge.lkey, sge.addr, u64::from(sge.len), access).is_some())
    }

    /// Copies the bytes from `offset` on out of the pieces.
    ///
    /// # Errors
    /// [`Status::InvalidLkey`] where a piece is not registered, [`Status::BadLength`] where the pieces end
    /// before `out` is full.
    pub(super) fn gather<M: Memory + ?Sized>(
        &self,
        mem: &M,
        pd: Pd,
        sges: &[Sge],
        offset: u32,
        out: &mut [u8],
    ) -> Result<(), Status> {
        let mut filled = 0;
        for part in Parts::new(sges, offset, out.len()) {
            let addr = self
                .translate(pd, part.lkey, part.addr, u64::from(part.len), Access::LOCAL_READ)
                .ok_or(Status::InvalidLkey)?;
            let slot = out.get_mut(filled..filled + part.len as usize).ok_or(Status::BadLength)?;
            mem.read(addr, slot);
            filled += part.len as usize;
        }
        if filled == out.len() { Ok(()) } else { Err(Status::BadLength) }
    }

    /// Copies `data` into the pieces from `offset` on, all of it or nothing.
    ///
    /// # Errors
    /// As for [`MrTable::gather`].
    pub(super) fn scatter<M: Memory + ?Sized>(
        &self,
        mem: &mut M,
        pd: Pd,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), Status> {
        let mut room = 0;
        for part in Parts::new(sges, offset, data.len()) {
            self.translate(pd, part.lkey, part.addr, u64::from(part.len), Access::LOCAL_WRITE)
                .ok_or(Status::InvalidLkey)?;
            room += part.len as usize;
        }
        if room < data.len() {
            return Err(Status::BadLength);
        }
        let mut rest = data;
        for part in Parts::new(sges, offset, data.len()) {
            let Some((now, later)) = rest.split_at_checked(part.len as usize) else { break };
            if let Some(addr) = self.translate(pd, part.lkey, part.addr, u64::from(part.len), Access::LOCAL_WRITE) {
                mem.write(addr, now);
            }
            rest = later;
        }
        Ok(())
    }

    fn get(&self, key: u32) -> Option<&MrConfig> {
        let slot = self.slots.get((key & INDEX_MASK) as usize)?;
        slot.mr.as_ref().filter(|_| slot.generation == key >> INDEX_BITS)
    }
}

/// The parts of a list of pieces that cover `offset..offset + len`, without empty ones.
struct Parts<'a> {
    sges: std::slice::Iter<'a, Sge>,
    skip: u64,
    left: u64,
}

impl<'a> Parts<'a> {
    fn new(sges: &'a [Sge], offset: u32, len: usize) -> Parts<'a> {
        Parts { sges: sges.iter(), skip: u64::from(offset), left: len as u64 }
    }
}

impl Iterator for Parts<'_> {
    type Item = Sge;

    fn next(&mut self) -> Option<Sge> {
        while self.left > 0 {
            let sge = self.sges.next()?;
            let skipped = self.skip.min(u64::from(sge.len));
            self.skip -= skipped;
            let len = (u64::from(sge.len) - skipped).min(self.left);
            self.left -= len;
            if len > 0 {
                // Wrapping is harmless: a range that wraps is in no registration.
                return Some(Sge { addr: sge.addr.wrapping_add(skipped), len: len as u32, lkey: sge.lkey });
            }
        }
        None
    }
}

/// Total bytes of a list of pieces.
pub(super) fn total_len(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.len)).sum()
}

/// A flat memory for tests and simulations: addresses start at a base.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    base: u64,
    bytes: Vec<u8>,
}

impl FlatMemory {
    /// Zeroed bytes from address `base` on.
    pub fn new(base: u64, len: usize) -> FlatMemory {
        FlatMemory { base, bytes: vec![0; len] }
    }

    /// The bytes at `addr`.
    ///
    /// # Panics
    /// Where they are outside, as the model must never reach there.
    pub fn slice(&self, addr: u64, len: usize) -> &[u8] {
        let start = (addr - self.base) as usize;
        &self.bytes[start..start + len]
    }
}

impl Memory for FlatMemory {
    fn read(&self, addr: u64, out: &mut [u8]) {
        out.copy_from_slice(self.slice(addr, out.len()));
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        let start = (addr - self.base) as usize;
        self.bytes[start..start + data.len()].copy_from_slice(data);
    }
}
