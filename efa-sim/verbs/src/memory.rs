//! Protection domains, registered memory and address handles.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use efa_sim::model::{self, Access, AhNumber, Gid, MrConfig, MrKey};

use crate::abi::{Ah, AhAttr, Context, EfaAhAttr, Mr, Pd};
use crate::context::SimContext;
use crate::efadv::write_versioned;
use crate::errno;

verb! { "IBVERBS_1.1", ibv_alloc_pd,
/// Makes a protection domain.
///
/// # Safety
///
/// `context` is open.
unsafe fn sim_ibv_alloc_pd(context: *mut Context) -> *mut Pd {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    Box::into_raw(Box::new(Pd {
        context,
        handle: NEXT.fetch_add(1, Ordering::Relaxed),
    }))
}}

verb! { "IBVERBS_1.1", ibv_dealloc_pd,
/// Frees a protection domain.
///
/// # Safety
///
/// `pd` came from `ibv_alloc_pd`, and nothing made with it is left.
unsafe fn sim_ibv_dealloc_pd(pd: *mut Pd) -> c_int {
    // SAFETY: the allocation was made as a box, and the caller gives it up.
    drop(unsafe { Box::from_raw(pd) });
    0
}}

/// The protection domain as the model names it.
///
/// # Safety
///
/// `pd` came from `ibv_alloc_pd` and was not freed.
pub(crate) unsafe fn model_pd(pd: *mut Pd) -> model::Pd {
    // SAFETY: as the caller promises.
    model::Pd(unsafe { (*pd).handle })
}

/// Access that the device knows; the rest are hints, such as relaxed ordering.
const KNOWN_ACCESS: u32 = 0x7;

/// Registers `length` bytes at `addr` under addresses that start at `iova`.
///
/// # Safety
///
/// `pd` is a protection domain, and the range is the caller's until the registration is taken back.
unsafe fn register(pd: *mut Pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> *mut Mr {
    // SAFETY: as the caller promises.
    let context = unsafe { (*pd).context };
    // SAFETY: the context of a protection domain is open as long as that exists.
    let sim = unsafe { SimContext::from_ptr(context) };
    // SAFETY: as the caller promises.
    let model_pd = unsafe { model_pd(pd) };
    let config = MrConfig {
        pd: model_pd,
        addr: addr.expose_provenance() as u64,
        len: length as u64,
        iova,
        access: Access(access & KNOWN_ACCESS),
    };
    match sim.runtime.register(config) {
        Ok(MrKey(key)) => Box::into_raw(Box::new(Mr { context, pd, addr, length, handle: key, lkey: key, rkey: key })),
        Err(_) => errno::fail(libc::ENOMEM),
    }
}

verb! { "IBVERBS_1.1", ibv_reg_mr,
/// Registers memory.
///
/// # Safety
///
/// `pd` is a protection domain, and the range is the caller's until `ibv_dereg_mr`.
unsafe fn sim_ibv_reg_mr(pd: *mut Pd, addr: *mut c_void, length: usize, access: c_int) -> *mut Mr {
    // SAFETY: as the caller promises.
    unsafe { register(pd, addr, length, addr.addr() as u64, access as c_uint) }
}}

verb! { "IBVERBS_1.7", ibv_reg_mr_iova,
/// Registers memory under other addresses.
///
/// # Safety
///
/// As for `ibv_reg_mr`.
unsafe fn sim_ibv_reg_mr_iova(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut Mr {
    // SAFETY: as the caller promises.
    unsafe { register(pd, addr, length, iova, access as c_uint) }
}}

verb! { "IBVERBS_1.8", ibv_reg_mr_iova2,
/// Registers memory under other addresses, where flags may be hints.
///
/// # Safety
///
/// As for `ibv_reg_mr`.
unsafe fn sim_ibv_reg_mr_iova2(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut Mr {
    // SAFETY: as the caller promises.
    unsafe { register(pd, addr, length, iova, access) }
}}

verb! { "IBVERBS_1.12", ibv_reg_dmabuf_mr,
/// Registers memory of another device: there is none that this one could reach.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_reg_dmabuf_mr(
    _pd: *mut Pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut Mr {
    errno::fail(libc::EOPNOTSUPP)
}}

verb! { "IBVERBS_1.1", ibv_dereg_mr,
/// Takes a registration back.
///
/// # Safety
///
/// `mr` came from a registration and is not used again.
unsafe fn sim_ibv_dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: the allocation was made as a box, and the caller gives it up.
    let mr = unsafe { Box::from_raw(mr) };
    // SAFETY: the context of a registration is open as long as that exists.
    let sim = unsafe { SimContext::from_ptr(mr.context) };
    match sim.runtime.deregister(MrKey(mr.lkey)) {
        Ok(()) => 0,
        Err(_) => libc::EINVAL,
    }
}}

/// An address handle: rdma-core's structure, and the number of the peer's device.
#[repr(C)]
pub(crate) struct SimAh {
    base: Ah,
    number: AhNumber,
}

verb! { "IBVERBS_1.1", ibv_create_ah,
/// Makes an address handle for a peer's device.
///
/// # Safety
///
/// `pd` is a protection domain, `attr` valid for a read.
unsafe fn sim_ibv_create_ah(pd: *mut Pd, attr: *const AhAttr) -> *mut Ah {
    // SAFETY: as the caller promises.
    let context = unsafe { (*pd).context };
    // SAFETY: the context of a protection domain is open as long as that exists.
    let sim = unsafe { SimContext::from_ptr(context) };
    // SAFETY: as the caller promises.
    let gid = unsafe { (*attr).grh.dgid };
    match sim.runtime.create_ah(Gid(gid.0)) {
        Ok(number) => Box::into_raw(Box::new(SimAh {
            base: Ah {
                context,
                pd,
                handle: u32::from(number.0),
            },
            number,
        }))
        .cast(),
        Err(_) => errno::fail(libc::ENOMEM),
    }
}}

verb! { "IBVERBS_1.1", ibv_destroy_ah,
/// Frees an address handle.
///
/// # Safety
///
/// `ah` came from `ibv_create_ah` and is not used again.
unsafe fn sim_ibv_destroy_ah(ah: *mut Ah) -> c_int {
    // SAFETY: the allocation was made as a box of the larger structure, and the caller gives it up.
    let ah = unsafe { Box::from_raw(ah.cast::<SimAh>()) };
    // SAFETY: the context of an address handle is open as long as that exists.
    let sim = unsafe { SimContext::from_ptr(ah.base.context) };
    match sim.runtime.destroy_ah(ah.number) {
        Ok(()) => 0,
        Err(_) => libc::EINVAL,
    }
}}

/// The number of an address handle.
///
/// # Safety
///
/// `ah` came from `ibv_create_ah` and was not destroyed.
pub(crate) unsafe fn ah_number(ah: *mut Ah) -> AhNumber {
    // SAFETY: as the caller promises.
    unsafe { (*ah.cast::<SimAh>()).number }
}

/// Answers `efadv_query_ah`.
///
/// # Safety
///
/// `ah` came from `ibv_create_ah`, `attr` is valid for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_query_ah(ah: *mut Ah, attr: *mut EfaAhAttr, length: u32) -> c_int {
    if (length as usize) < std::mem::offset_of!(EfaAhAttr, reserved) {
        return libc::EINVAL;
    }
    // SAFETY: as the caller promises.
    let number = unsafe { ah_number(ah) };
    let value = EfaAhAttr { comp_mask: 0, ahn: number.0, reserved: [0; 6] };
    // SAFETY: as the caller promises.
    unsafe { write_versioned(&value, attr, length) };
    0
}
