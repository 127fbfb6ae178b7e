//! The verbs that are EFA's own: `libefa.so.1` calls these.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use efa_sim::model::{MAX_INLINE, MAX_RECV_SGES, MAX_SEND_SGES};

use crate::abi::{self, Context, EfaDeviceAttr, EfaRqDepthAttr, EfaSqDepthAttr};
use crate::context::limits;
use crate::host;

/// Writes a structure that has grown over time: as many bytes of `value` as the caller has room for,
/// zeros in what a newer caller has beyond.
///
/// # Safety
///
/// `out` is valid for `length` bytes.
pub(crate) unsafe fn write_versioned<T: Copy>(value: &T, out: *mut T, length: u32) {
    let length = length as usize;
    // SAFETY: the caller vouches for `length` bytes.
    unsafe { out.cast::<u8>().write_bytes(0, length) };
    let known = length.min(size_of::<T>());
    // SAFETY: both are valid for `known` bytes and cannot overlap.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), out.cast(), known) };
}

/// Answers `efadv_query_device`.
///
/// # Safety
///
/// `attr` is valid for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_query_device(
    _context: *mut Context,
    attr: *mut EfaDeviceAttr,
    length: u32,
) -> c_int {
    if length as usize <= offset_of!(EfaDeviceAttr, inline_buf_size_ex) {
        return libc::EINVAL;
    }
    let generation = host::host().map(|host| host.config.generation).unwrap_or_default();
    let capability = |has: bool, bit: u32| if has { bit } else { 0 };
    let value = EfaDeviceAttr {
        comp_mask: 0,
        max_sq_wr: limits::SQ_WR,
        max_rq_wr: limits::RQ_WR,
        max_sq_sge: MAX_SEND_SGES as u16,
        max_rq_sge: MAX_RECV_SGES as u16,
        inline_buf_size: MAX_INLINE as u16,
        inline_buf_size_ex: MAX_INLINE as u16,
        device_caps: abi::CAPS_RNR_RETRY
            | abi::CAPS_CQ_WITH_SGID
            | capability(generation.rdma_read(), abi::CAPS_RDMA_READ)
            | capability(generation.rdma_write(), abi::CAPS_RDMA_WRITE)
            | capability(generation.unsolicited_write(), abi::CAPS_UNSOLICITED_WRITE_RECV),
        max_rdma_size: if generation.rdma_read() { limits::RDMA_SIZE } else { 0 },
    };
    // SAFETY: as the caller promises.
    unsafe { write_versioned(&value, attr, length) };
    0
}

/// Answers `efadv_query_mr`: nothing is known about interconnects.
///
/// # Safety
///
/// `attr` is valid for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_query_mr(_mr: *mut c_void, attr: *mut u8, length: u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { attr.write_bytes(0, length as usize) };
    0
}

/// Answers `efadv_get_max_sq_depth`: the number of entries of a send queue, or a negative error.
///
/// # Safety
///
/// `attr` is valid for a read of `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_max_sq_depth(
    _context: *mut Context,
    attr: *const EfaSqDepthAttr,
    length: u32,
) -> c_int {
    if (length as usize) < size_of::<EfaSqDepthAttr>() {
        return -libc::EINVAL;
    }
    // SAFETY: the caller has at least this structure.
    let attr = unsafe { attr.read_unaligned() };
    if attr.max_send_sge as usize > MAX_SEND_SGES
        || attr.max_rdma_sge as usize > MAX_SEND_SGES
        || attr.max_inline_data as usize > MAX_INLINE
    {
        return -libc::EINVAL;
    }
    limits::SQ_WR as c_int
}

/// Answers `efadv_get_max_rq_depth`: the number of entries of a receive queue, or a negative error.
///
/// # Safety
///
/// `attr` is valid for a read of `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_max_rq_depth(
    _context: *mut Context,
    attr: *const EfaRqDepthAttr,
    length: u32,
) -> c_int {
    if (length as usize) < offset_of!(EfaRqDepthAttr, max_recv_sge) + size_of::<u32>() {
        return -libc::EINVAL;
    }
    // SAFETY: the field is within what the caller has.
    let sges = unsafe { (*attr).max_recv_sge };
    if sges as usize > MAX_RECV_SGES {
        return -libc::EINVAL;
    }
    (limits::RQ_WR / sges.max(1)) as c_int
}
