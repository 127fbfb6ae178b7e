//! `libefa.so.1` of the software EFA device: the verbs that are EFA's own.
//!
//! All state is in our `libibverbs.so.1`, which this library needs and calls. The functions that show
//! queues in memory, for a program that drives the device past the library, are refused: this device
//! has no such queues, and libfabric then takes the way through the verbs.

use std::ffi::{c_int, c_void};

/// Declares the function of libibverbs that does the work, and exports the one of libefa under its
/// versioned name, see the same macro there.
macro_rules! forward {
    ($($version:literal, $name:ident, $rust_name:ident => $target:ident(
        $($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        unsafe extern "C" {$(
            fn $target($($arg: $type),*) -> $ret;
        )*}
        $(
            /// Passes the call on to libibverbs.
            ///
            /// # Safety
            ///
            /// As for the verb of this name in rdma-core's manual.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $rust_name($($arg: $type),*) -> $ret {
                // SAFETY: the arguments are passed on as they came.
                unsafe { $target($($arg),*) }
            }

            std::arch::global_asm!(concat!(
                ".symver ", stringify!($rust_name), ", ", stringify!($name), "@@", $version
            ));
        )*
    };
}

forward! {
    "EFA_1.1", efadv_query_device, sim_efadv_query_device => efa_sim_query_device(a: *mut c_void, b: *mut c_void, c: u32) -> c_int;
    "EFA_1.1", efadv_query_ah, sim_efadv_query_ah => efa_sim_query_ah(a: *mut c_void, b: *mut c_void, c: u32) -> c_int;
    "EFA_1.1", efadv_create_qp_ex, sim_efadv_create_qp_ex => efa_sim_create_qp_ex(a: *mut c_void, b: *mut c_void, c: *mut c_void, d: u32) -> *mut c_void;
    "EFA_1.0", efadv_create_driver_qp, sim_efadv_create_driver_qp => efa_sim_create_driver_qp(a: *mut c_void, b: *mut c_void, c: u32) -> *mut c_void;
    "EFA_1.2", efadv_create_cq, sim_efadv_create_cq => efa_sim_create_cq(a: *mut c_void, b: *mut c_void, c: *mut c_void, d: u32) -> *mut c_void;
    "EFA_1.2", efadv_cq_from_ibv_cq_ex, sim_efadv_cq_from_ibv_cq_ex => efa_sim_cq_from_ibv_cq_ex(a: *mut c_void) -> *mut c_void;
    "EFA_1.3", efadv_query_mr, sim_efadv_query_mr => efa_sim_query_mr(a: *mut c_void, b: *mut c_void, c: u32) -> c_int;
    "EFA_1.5", efadv_get_max_sq_depth, sim_efadv_get_max_sq_depth => efa_sim_max_sq_depth(a: *mut c_void, b: *mut c_void, c: u32) -> c_int;
    "EFA_1.5", efadv_get_max_rq_depth, sim_efadv_get_max_rq_depth => efa_sim_max_rq_depth(a: *mut c_void, b: *mut c_void, c: u32) -> c_int;
    "EFA_1.6", efadv_qp_from_ibv_qp_ex, sim_efadv_qp_from_ibv_qp_ex => efa_sim_qp_from_ibv_qp_ex(a: *mut c_void) -> *mut c_void;
}

/// Functions that are refused with an error number.
macro_rules! refuse {
    ($($version:literal, $name:ident, $rust_name:ident;)*) => {$(
        /// Not part of this device.
        #[unsafe(no_mangle)]
        extern "C" fn $rust_name() -> c_int {
            libc::EOPNOTSUPP
        }

        std::arch::global_asm!(concat!(
            ".symver ", stringify!($rust_name), ", ", stringify!($name), "@@", $version
        ));
    )*};
}

refuse! {
    "EFA_1.4", efadv_query_qp_wqs, sim_efadv_query_qp_wqs;
    "EFA_1.4", efadv_query_cq, sim_efadv_query_cq;
}

/// Counters of completions are not part of this device.
#[unsafe(no_mangle)]
extern "C" fn sim_efadv_create_comp_cntr() -> *mut c_void {
    // SAFETY: the function has no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library gives a pointer to this thread's own error number.
    unsafe { errno.write(libc::EOPNOTSUPP) };
    std::ptr::null_mut()
}

std::arch::global_asm!(".symver sim_efadv_create_comp_cntr, efadv_create_comp_cntr@@EFA_1.7");
