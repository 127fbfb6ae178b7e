//! Verbs that EFA does not have: present, so that programs which name them load, and refused.

use std::ffi::{c_int, c_void};

use crate::errno;

/// Verbs that make an object: a null pointer and `ENOSYS` in `errno`.
macro_rules! no_object {
    ($($version:literal, $name:ident, $rust_name:ident;)*) => {$(
        verb! { $version, $name,
        /// Not part of EFA.
        ///
        /// # Safety
        ///
        /// None is needed: arguments are not looked at.
        unsafe fn $rust_name() -> *mut c_void {
            errno::fail(libc::ENOSYS)
        }}
    )*};
}

/// Verbs that give an error number or nothing at all.
macro_rules! no_action {
    ($($version:literal, $name:ident, $rust_name:ident;)*) => {$(
        verb! { $version, $name,
        /// Not part of EFA.
        ///
        /// # Safety
        ///
        /// None is needed: arguments are not looked at.
        unsafe fn $rust_name() -> c_int {
            errno::set(libc::ENOSYS);
            libc::ENOSYS
        }}
    )*};
}

no_object! {
    "IBVERBS_1.1", ibv_create_srq, sim_ibv_create_srq;
    "IBVERBS_1.1", ibv_create_ah_from_wc, sim_ibv_create_ah_from_wc;
    "IBVERBS_1.1", ibv_create_qp, sim_ibv_create_qp;
    "IBVERBS_1.10", ibv_import_device, sim_ibv_import_device;
    "IBVERBS_1.10", ibv_import_mr, sim_ibv_import_mr;
    "IBVERBS_1.10", ibv_import_pd, sim_ibv_import_pd;
    "IBVERBS_1.13", ibv_import_dm, sim_ibv_import_dm;
    "IBVERBS_1.15", ibv_alloc_dmah, sim_ibv_alloc_dmah;
    "IBVERBS_1.15", ibv_reg_mr_ex, sim_ibv_reg_mr_ex;
    "IBVERBS_1.17", ibv_alloc_buf, sim_ibv_alloc_buf;
    "IBVERBS_1.17", ibv_reg_buf_mr, sim_ibv_reg_buf_mr;
    "IBVERBS_1.18", ibv_create_comp_cntr, sim_ibv_create_comp_cntr;
}

no_action! {
    "IBVERBS_1.0", ibv_rate_to_mult, sim_ibv_rate_to_mult;
    "IBVERBS_1.0", mult_to_ibv_rate, sim_mult_to_ibv_rate;
    "IBVERBS_1.0", ibv_copy_path_rec_from_kern, sim_ibv_copy_path_rec_from_kern;
    "IBVERBS_1.0", ibv_copy_path_rec_to_kern, sim_ibv_copy_path_rec_to_kern;
    "IBVERBS_1.0", ibv_copy_qp_attr_from_kern, sim_ibv_copy_qp_attr_from_kern;
    "IBVERBS_1.1", ibv_copy_ah_attr_from_kern, sim_ibv_copy_ah_attr_from_kern;
    "IBVERBS_1.1", ibv_attach_mcast, sim_ibv_attach_mcast;
    "IBVERBS_1.1", ibv_detach_mcast, sim_ibv_detach_mcast;
    "IBVERBS_1.1", ibv_destroy_srq, sim_ibv_destroy_srq;
    "IBVERBS_1.1", ibv_modify_srq, sim_ibv_modify_srq;
    "IBVERBS_1.1", ibv_query_srq, sim_ibv_query_srq;
    "IBVERBS_1.1", ibv_init_ah_from_wc, sim_ibv_init_ah_from_wc;
    "IBVERBS_1.1", ibv_rate_to_mbps, sim_ibv_rate_to_mbps;
    "IBVERBS_1.1", mbps_to_ibv_rate, sim_mbps_to_ibv_rate;
    "IBVERBS_1.1", ibv_register_driver, sim_ibv_register_driver;
    "IBVERBS_1.1", ibv_rereg_mr, sim_ibv_rereg_mr;
    "IBVERBS_1.1", ibv_resize_cq, sim_ibv_resize_cq;
    "IBVERBS_1.1", ibv_resolve_eth_l2_from_gid, sim_ibv_resolve_eth_l2_from_gid;
    "IBVERBS_1.1", ibv_ack_async_event, sim_ibv_ack_async_event;
    "IBVERBS_1.10", ibv_query_ece, sim_ibv_query_ece;
    "IBVERBS_1.10", ibv_set_ece, sim_ibv_set_ece;
    "IBVERBS_1.10", ibv_unimport_mr, sim_ibv_unimport_mr;
    "IBVERBS_1.10", ibv_unimport_pd, sim_ibv_unimport_pd;
    "IBVERBS_1.13", ibv_unimport_dm, sim_ibv_unimport_dm;
    "IBVERBS_1.15", ibv_dealloc_dmah, sim_ibv_dealloc_dmah;
    "IBVERBS_1.16", ibv_dm_export_dmabuf_fd, sim_ibv_dm_export_dmabuf_fd;
    "IBVERBS_1.16", ibv_query_port_speed, sim_ibv_query_port_speed;
    "IBVERBS_1.17", ibv_free_buf, sim_ibv_free_buf;
    "IBVERBS_1.18", _ibv_query_comp_cntr_caps, sim_ibv_query_comp_cntr_caps;
    "IBVERBS_1.18", ibv_destroy_comp_cntr, sim_ibv_destroy_comp_cntr;
    "IBVERBS_1.18", ibv_export_buf_dmabuf_fd, sim_ibv_export_buf_dmabuf_fd;
    "IBVERBS_1.18", ibv_inc_comp_cntr, sim_ibv_inc_comp_cntr;
    "IBVERBS_1.18", ibv_inc_err_comp_cntr, sim_ibv_inc_err_comp_cntr;
    "IBVERBS_1.18", ibv_qp_attach_comp_cntr, sim_ibv_qp_attach_comp_cntr;
    "IBVERBS_1.18", ibv_read_comp_cntr, sim_ibv_read_comp_cntr;
    "IBVERBS_1.18", ibv_read_err_comp_cntr, sim_ibv_read_err_comp_cntr;
    "IBVERBS_1.18", ibv_set_comp_cntr, sim_ibv_set_comp_cntr;
    "IBVERBS_1.18", ibv_set_err_comp_cntr, sim_ibv_set_err_comp_cntr;
}

verb! { "IBVERBS_1.1", ibv_get_async_event,
/// Waits for an event of the device, of which there is never one: fails at once.
///
/// # Safety
///
/// None is needed: arguments are not looked at.
unsafe fn sim_ibv_get_async_event(_context: *mut c_void, _event: *mut c_void) -> c_int {
    errno::set(libc::EAGAIN);
    -1
}}

verb! { "IBVERBS_1.1", ibv_fork_init,
/// Makes registered memory safe across a fork: it always is, for nothing is pinned.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_fork_init() -> c_int {
    0
}}

/// `IBV_FORK_UNNEEDED`.
const FORK_UNNEEDED: c_int = 2;

verb! { "IBVERBS_1.13", ibv_is_fork_initialized,
/// Whether registered memory is safe across a fork: yes, without any help.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_is_fork_initialized() -> c_int {
    FORK_UNNEEDED
}}

verb! { "IBVERBS_1.1", ibv_dofork_range,
/// Undoes `ibv_dontfork_range`.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}}

verb! { "IBVERBS_1.1", ibv_dontfork_range,
/// Keeps memory from being shared with children: not needed.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}}
