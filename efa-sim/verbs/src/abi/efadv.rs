//! The part of the interface that is EFA's own.

use std::ffi::c_int;

use super::RawGid;

/// `struct efadv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EfaDeviceAttr {
    pub comp_mask: u64,
    pub max_sq_wr: u32,
    pub max_rq_wr: u32,
    pub max_sq_sge: u16,
    pub max_rq_sge: u16,
    pub inline_buf_size: u16,
    pub inline_buf_size_ex: u16,
    pub device_caps: u32,
    pub max_rdma_size: u32,
}

pub(crate) const CAPS_RDMA_READ: u32 = 1;
pub(crate) const CAPS_RNR_RETRY: u32 = 1 << 1;
pub(crate) const CAPS_CQ_WITH_SGID: u32 = 1 << 2;
pub(crate) const CAPS_RDMA_WRITE: u32 = 1 << 3;
pub(crate) const CAPS_UNSOLICITED_WRITE_RECV: u32 = 1 << 4;

/// `struct efadv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EfaAhAttr {
    pub comp_mask: u64,
    pub ahn: u16,
    pub reserved: [u8; 6],
}

/// `struct efadv_qp_init_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EfaQpInitAttr {
    pub comp_mask: u64,
    pub driver_qp_type: u32,
    pub flags: u16,
    pub sl: u8,
    pub reserved: u8,
    pub wr_flags: u64,
}

pub(crate) const QP_FLAGS_UNSOLICITED_WRITE_RECV: u16 = 1;

/// `struct efadv_cq_init_attr`, as far as `flags`: buffers from outside are refused.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EfaCqInitAttr {
    pub comp_mask: u64,
    pub wc_flags: u64,
    pub flags: u64,
}

pub(crate) const EFA_WC_EX_WITH_SGID: u64 = 1;
pub(crate) const EFA_WC_EX_WITH_IS_UNSOLICITED: u64 = 2;

/// `struct efadv_cq`.
#[repr(C)]
pub(crate) struct EfaCq {
    pub comp_mask: u64,
    pub wc_read_sgid: Option<unsafe extern "C" fn(*mut EfaCq, *mut RawGid) -> c_int>,
    pub wc_is_unsolicited: Option<unsafe extern "C" fn(*mut EfaCq) -> bool>,
}

/// `struct efadv_qp`.
#[repr(C)]
pub(crate) struct EfaQp {
    pub comp_mask: u64,
    pub wr_set_processing_hints: Option<unsafe extern "C" fn(*mut EfaQp, u32)>,
}

/// `struct efadv_sq_depth_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EfaSqDepthAttr {
    pub comp_mask: u64,
    pub flags: u32,
    pub max_send_sge: u32,
    pub max_rdma_sge: u32,
    pub max_inline_data: u32,
}

/// `struct efadv_rq_depth_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EfaRqDepthAttr {
    pub comp_mask: u64,
    pub max_recv_sge: u32,
}
