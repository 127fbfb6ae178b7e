//! The memory of this process, as the device reaches it.

use std::ptr;

use crate::model::Memory;

/// Memory behind registrations, reached by address.
///
/// A device writes and reads registered memory while the application runs, whatever the application
/// does with it meanwhile, and so does this one. The application promises in `ibv_reg_mr` that the
/// range is its own and stays mapped until `ibv_dereg_mr`; a range that is unmapped earlier ends the
/// process with a fault, where a real device would go on with the pages that it had pinned.
#[derive(Debug, Default)]
pub struct ProcessMemory {
    _private: (),
}

impl ProcessMemory {
    /// Gives a device access to the whole of this process's memory.
    ///
    /// # Safety
    ///
    /// Every range that is registered with the device that gets it is mapped, and writable where it is
    /// registered for writing, from its registration until that is taken back; and nobody relies on
    /// the bytes of ranges that peers or posted work may write.
    pub unsafe fn new() -> Self {
        ProcessMemory { _private: () }
    }
}

impl Memory for ProcessMemory {
    fn read(&self, addr: u64, out: &mut [u8]) {
        let from = ptr::with_exposed_provenance::<u8>(addr as usize);
        // SAFETY: the model asks only for ranges inside of a registration that is valid now, which
        // `new` promises to be mapped; `out` is the device's own packet buffer.
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        let to = ptr::with_exposed_provenance_mut::<u8>(addr as usize);
        // SAFETY: as for `read`, and the model has checked that the registration is for writing;
        // `data` is in the device's own packet buffer.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }
}
