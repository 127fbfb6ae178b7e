//! Objects that the library makes and the application holds.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use libc::{pthread_cond_t, pthread_mutex_t};

use super::{DataBuf, DeviceAttr, PollCqAttr, PortAttr, QpInitAttrEx, RecvWr, SendWr, Sge, Slot, Wc};

/// Length of names in [`Device`].
pub(crate) const NAME_MAX: usize = 64;
/// Length of paths in [`Device`].
pub(crate) const PATH_MAX: usize = 256;

/// `struct ibv_device`.
#[repr(C)]
pub(crate) struct Device {
    pub ops: [Slot; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; NAME_MAX],
    pub dev_name: [c_char; NAME_MAX],
    pub dev_path: [c_char; PATH_MAX],
    pub ibdev_path: [c_char; PATH_MAX],
}

/// `struct ibv_context_ops`; the entries that start with an underscore in C are compatibility with
/// libraries older than the functions of the same names.
#[repr(C)]
pub(crate) struct ContextOps {
    pub compat_query: [Slot; 7],
    pub alloc_mw: Option<unsafe extern "C" fn() -> *mut c_void>,
    pub bind_mw: Slot,
    pub dealloc_mw: Slot,
    pub compat_create_cq: Slot,
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub compat_cq_and_srq: [Slot; 7],
    pub post_srq_recv: Slot,
    pub compat_qp: [Slot; 4],
    pub post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub compat_rest: [Slot; 5],
}

/// `struct ibv_context`.
#[repr(C)]
pub(crate) struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// What `abi_compat` holds where a context is the end of a [`VerbsContext`].
pub(crate) const ABI_IS_EXTENDED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// `struct verbs_context`: the context, with newer functions growing at its front.
#[repr(C)]
pub(crate) struct VerbsContext {
    pub newest: [Slot; 6],
    pub query_port: Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr, usize) -> c_int>,
    pub without_use_here: [Slot; 24],
    pub create_cq_ex: Option<unsafe extern "C" fn(*mut Context, *mut super::CqInitAttrEx) -> *mut CqEx>,
    pub private: *mut c_void,
    pub query_device_ex:
        Option<unsafe extern "C" fn(*mut Context, *const c_void, *mut super::DeviceAttrEx, usize) -> c_int>,
    pub flow: [Slot; 4],
    pub open_qp: Slot,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
    pub srq_and_xrcd: [Slot; 4],
    pub placeholder: u64,
    /// Size of the whole structure: must be just before the context.
    pub size: usize,
    pub context: Context,
}

/// `struct ibv_pd`.
#[repr(C)]
pub(crate) struct Pd {
    pub context: *mut Context,
    pub handle: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(crate) struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_ah`.
#[repr(C)]
pub(crate) struct Ah {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub handle: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(crate) struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}

/// `struct ibv_cq`, and the first fields of `struct ibv_cq_ex`.
#[repr(C)]
pub(crate) struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

type Read<T> = Option<unsafe extern "C" fn(*mut CqEx) -> T>;

/// `struct ibv_cq_ex`.
#[repr(C)]
pub(crate) struct CqEx {
    pub base: Cq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut CqEx, *mut PollCqAttr) -> c_int>,
    pub next_poll: Read<c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut CqEx)>,
    pub read_opcode: Read<c_int>,
    pub read_vendor_err: Read<u32>,
    pub read_byte_len: Read<u32>,
    pub read_imm_data: Read<u32>,
    pub read_qp_num: Read<u32>,
    pub read_src_qp: Read<u32>,
    pub read_wc_flags: Read<c_uint>,
    pub read_slid: Read<u32>,
    pub read_sl: Read<u8>,
    pub read_dlid_path_bits: Read<u8>,
    pub read_completion_ts: Read<u64>,
    pub read_cvlan: Read<u16>,
    pub read_flow_tag: Read<u32>,
    pub read_tm_info: Slot,
    pub read_completion_wallclock_ns: Read<u64>,
}

/// `struct ibv_qp`, and the first field of `struct ibv_qp_ex`.
#[repr(C)]
pub(crate) struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_int,
    pub qp_type: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

type Remote = Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>;

/// `struct ibv_qp_ex`.
#[repr(C)]
pub(crate) struct QpEx {
    pub base: Qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: Slot,
    pub wr_atomic_fetch_add: Slot,
    pub wr_bind_mw: Slot,
    pub wr_local_inv: Slot,
    pub wr_rdma_read: Remote,
    pub wr_rdma_write: Remote,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
    pub wr_send: Option<unsafe extern "C" fn(*mut QpEx)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(*mut QpEx, u32)>,
    pub wr_send_inv: Slot,
    pub wr_send_tso: Slot,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(*mut QpEx, *mut Ah, u32, u32)>,
    pub wr_set_xrc_srqn: Slot,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(*mut QpEx, *mut c_void, usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn(*mut QpEx, usize, *const DataBuf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(*mut QpEx, usize, *const Sge)>,
    pub wr_start: Option<unsafe extern "C" fn(*mut QpEx)>,
    pub wr_complete: Option<unsafe extern "C" fn(*mut QpEx) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(*mut QpEx)>,
    pub wr_atomic_write: Slot,
    pub wr_flush: Slot,
}

// The attributes of the device are part of the objects' interface.
const _: () = assert!(size_of::<DeviceAttr>() == 232);
