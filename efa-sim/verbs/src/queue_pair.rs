//! Queue pairs: making, changing and destroying them.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr;

use efa_sim::model::{MAX_INLINE, MAX_RECV_SGES, MAX_SEND_SGES, QpChange, QpKind, QpState, Qpn};
use efa_sim::{QpRequest, Runtime, RuntimeError};

use crate::abi::{self, Context, EfaQp, EfaQpInitAttr, Pd, Qp, QpAttr, QpEx, QpInitAttr, QpInitAttrEx};
use crate::completion::SimCq;
use crate::context::{SimContext, limits};
use crate::errno;
use crate::memory::model_pd;
use crate::posting::{self, Building};

/// A queue pair: rdma-core's structure, EFA's, and ours.
#[repr(C)]
pub(crate) struct SimQp {
    base: QpEx,
    efa: EfaQp,
    pub(crate) qpn: Qpn,
    cap: abi::QpCap,
    pub(crate) building: UnsafeCell<Building>,
}

impl SimQp {
    /// The queue pair behind a pointer of the application.
    ///
    /// # Safety
    ///
    /// `qp` came from one of the functions that make queue pairs, and was not destroyed.
    pub(crate) unsafe fn from_ptr<'a>(qp: *mut Qp) -> &'a SimQp {
        // SAFETY: the application's pointer is that to the first field.
        unsafe { &*qp.cast::<SimQp>() }
    }

    /// The device of the queue pair.
    pub(crate) fn runtime(&self) -> &Runtime {
        // SAFETY: the context of a queue pair is open as long as that exists.
        let sim = unsafe { SimContext::from_ptr(self.base.base.context) };
        &sim.runtime
    }
}

/// Makes a queue pair.
///
/// # Safety
///
/// `context` is open, `attr` valid with its protection domain and queues ours.
unsafe fn create(
    context: *mut Context,
    attr: &QpInitAttr,
    pd: *mut Pd,
    kind: QpKind,
    send_ops: u64,
    unsolicited_writes: bool,
) -> *mut Qp {
    let cap = attr.cap;
    if attr.send_cq.is_null() || attr.recv_cq.is_null() || pd.is_null() || !attr.srq.is_null() {
        return errno::fail(libc::EINVAL);
    }
    if cap.max_send_wr > limits::SQ_WR
        || cap.max_recv_wr > limits::RQ_WR
        || cap.max_send_sge as usize > MAX_SEND_SGES
        || cap.max_recv_sge as usize > MAX_RECV_SGES
        || cap.max_inline_data as usize > MAX_INLINE
    {
        return errno::fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    let sim = unsafe { SimContext::from_ptr(context) };
    // SAFETY: as the caller promises.
    let send_cq = unsafe { SimCq::from_ptr(attr.send_cq) };
    // SAFETY: as the caller promises.
    let recv_cq = unsafe { SimCq::from_ptr(attr.recv_cq) };
    // SAFETY: as the caller promises.
    let model_pd = unsafe { model_pd(pd) };
    let made = sim.runtime.create_qp(QpRequest {
        pd: model_pd,
        kind,
        send_cq: send_cq.cqn,
        recv_cq: recv_cq.cqn,
        sq_depth: cap.max_send_wr.max(1),
        rq_depth: cap.max_recv_wr.max(1),
        unsolicited_writes,
    });
    let qpn = match made {
        Ok(qpn) => qpn,
        Err(RuntimeError::System { what, source }) => {
            eprintln!("efa-sim: no queue pair on {}: {what}: {source}", sim.device.ip);
            return errno::fail(source.raw_os_error().unwrap_or(libc::ENOMEM));
        }
        Err(_) => return errno::fail(libc::ENOMEM),
    };
    let base = Qp {
        context,
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: ptr::null_mut(),
        handle: qpn.0,
        qp_num: qpn.0,
        state: abi::QPS_RESET,
        qp_type: attr.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let has = |flag: u64| send_ops & flag != 0;
    let base = QpEx {
        base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: None,
        wr_atomic_fetch_add: None,
        wr_bind_mw: None,
        wr_local_inv: None,
        wr_rdma_read: has(abi::SEND_OPS_READ).then_some(posting::wr_rdma_read),
        wr_rdma_write: has(abi::SEND_OPS_WRITE).then_some(posting::wr_rdma_write),
        wr_rdma_write_imm: has(abi::SEND_OPS_WRITE_IMM).then_some(posting::wr_rdma_write_imm),
        wr_send: has(abi::SEND_OPS_SEND).then_some(posting::wr_send),
        wr_send_imm: has(abi::SEND_OPS_SEND_IMM).then_some(posting::wr_send_imm),
        wr_send_inv: None,
        wr_send_tso: None,
        wr_set_ud_addr: Some(posting::wr_set_ud_addr),
        wr_set_xrc_srqn: None,
        wr_set_inline_data: Some(posting::wr_set_inline_data),
        wr_set_inline_data_list: Some(posting::wr_set_inline_data_list),
        wr_set_sge: Some(posting::wr_set_sge),
        wr_set_sge_list: Some(posting::wr_set_sge_list),
        wr_start: Some(posting::wr_start),
        wr_complete: Some(posting::wr_complete),
        wr_abort: Some(posting::wr_abort),
        wr_atomic_write: None,
        wr_flush: None,
    };
    Box::into_raw(Box::new(SimQp {
        base,
        efa: EfaQp { comp_mask: 0, wr_set_processing_hints: Some(wr_set_processing_hints) },
        qpn,
        cap,
        building: UnsafeCell::default(),
    }))
    .cast()
}

/// `ibv_create_qp_ex` reaches this through the context: datagram queue pairs.
pub(crate) unsafe extern "C" fn create_qp_ex(context: *mut Context, attr: *mut QpInitAttrEx) -> *mut Qp {
    // SAFETY: the caller's structure is valid.
    let attr = unsafe { &*attr };
    if attr.qp_type != abi::QPT_UD || attr.comp_mask & abi::QP_INIT_ATTR_PD == 0 {
        return errno::fail(libc::EOPNOTSUPP);
    }
    let wanted = if attr.comp_mask & abi::QP_INIT_ATTR_SEND_OPS_FLAGS != 0 { attr.send_ops_flags } else { 0 };
    if wanted & !(abi::SEND_OPS_SEND | abi::SEND_OPS_SEND_IMM) != 0 {
        return errno::fail(libc::EOPNOTSUPP);
    }
    // SAFETY: the structure is valid, as are the objects that it names.
    unsafe { create(context, &attr.base(), attr.pd, QpKind::Ud, wanted, false) }
}

/// Answers `efadv_create_qp_ex`.
///
/// # Safety
///
/// `context` is open, `attr` valid, and `efa` valid for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_create_qp_ex(
    context: *mut Context,
    attr: *mut QpInitAttrEx,
    efa: *const EfaQpInitAttr,
    length: u32,
) -> *mut Qp {
    let mut values = EfaQpInitAttr { comp_mask: 0, driver_qp_type: 0, flags: 0, sl: 0, reserved: 0, wr_flags: 0 };
    let known = size_of::<EfaQpInitAttr>().min(length as usize);
    // SAFETY: the caller has `length` bytes, and ours are no fewer than `known`.
    unsafe { ptr::copy_nonoverlapping(efa.cast::<u8>(), (&raw mut values).cast(), known) };
    let attr_ptr = attr;
    // SAFETY: the caller's structure is valid.
    let attr = unsafe { &*attr_ptr };
    if values.comp_mask != 0
        || values.driver_qp_type != 0
        || values.flags & !abi::QP_FLAGS_UNSOLICITED_WRITE_RECV != 0
        || attr.comp_mask & abi::QP_INIT_ATTR_PD == 0
    {
        return errno::fail(libc::EINVAL);
    }
    if attr.qp_type != abi::QPT_DRIVER {
        // SAFETY: the structure is valid.
        return unsafe { create_qp_ex(context, attr_ptr) };
    }
    let wanted = if attr.comp_mask & abi::QP_INIT_ATTR_SEND_OPS_FLAGS != 0 { attr.send_ops_flags } else { 0 };
    let generation = crate::host::host().map(|host| host.config.generation).unwrap_or_default();
    let mut possible = abi::SEND_OPS_SEND | abi::SEND_OPS_SEND_IMM;
    if generation.rdma_read() {
        possible |= abi::SEND_OPS_READ;
    }
    if generation.rdma_write() {
        possible |= abi::SEND_OPS_WRITE | abi::SEND_OPS_WRITE_IMM;
    }
    let unsolicited = values.flags & abi::QP_FLAGS_UNSOLICITED_WRITE_RECV != 0;
    if wanted & !possible != 0 || unsolicited && !generation.unsolicited_write() {
        return errno::fail(libc::EOPNOTSUPP);
    }
    // SAFETY: the structure is valid, as are the objects that it names.
    unsafe { create(context, &attr.base(), attr.pd, QpKind::Srd, wanted, unsolicited) }
}

/// Answers `efadv_create_driver_qp`, the oldest form.
///
/// # Safety
///
/// `pd` is a protection domain, `attr` valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_create_driver_qp(pd: *mut Pd, attr: *mut QpInitAttr, kind: u32) -> *mut Qp {
    if kind != 0 || pd.is_null() {
        return errno::fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    let context = unsafe { (*pd).context };
    // SAFETY: the caller's structure is valid.
    let attr = unsafe { &*attr };
    let ops = abi::SEND_OPS_SEND | abi::SEND_OPS_SEND_IMM;
    // SAFETY: the structure is valid, as are the objects that it names.
    unsafe { create(context, attr, pd, QpKind::Srd, ops, false) }
}

verb! { "IBVERBS_1.6", ibv_qp_to_qp_ex,
/// The newer form of a queue pair: the same object.
///
/// # Safety
///
/// `qp` is one of ours.
unsafe fn sim_ibv_qp_to_qp_ex(qp: *mut Qp) -> *mut QpEx {
    qp.cast()
}}

/// Answers `efadv_qp_from_ibv_qp_ex`.
///
/// # Safety
///
/// `qp` is one of ours.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_qp_from_ibv_qp_ex(qp: *mut QpEx) -> *mut EfaQp {
    // SAFETY: the application's pointer is that to the first field of the larger structure.
    unsafe { &raw mut (*qp.cast::<SimQp>()).efa }
}

unsafe extern "C" fn wr_set_processing_hints(_qp: *mut EfaQp, _hints: u32) {}

verb! { "IBVERBS_1.1", ibv_modify_qp,
/// Changes state, queue key or retries.
///
/// # Safety
///
/// `qp` is one of ours, `attr` valid.
unsafe fn sim_ibv_modify_qp(qp: *mut Qp, attr: *const QpAttr, mask: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let attr = unsafe { &*attr };
    // SAFETY: as the caller promises.
    let sim_qp = unsafe { SimQp::from_ptr(qp) };
    let has = |bit: c_int| mask & bit != 0;
    let state = match attr.qp_state {
        _ if !has(abi::QP_STATE) => None,
        abi::QPS_RESET => Some(QpState::Reset),
        abi::QPS_INIT => Some(QpState::Init),
        abi::QPS_RTR => Some(QpState::Rtr),
        abi::QPS_RTS => Some(QpState::Rts),
        abi::QPS_ERR => Some(QpState::Error),
        _ => return libc::EINVAL,
    };
    let change = QpChange {
        state,
        qkey: has(abi::QP_QKEY).then_some(attr.qkey),
        rnr_retry: has(abi::QP_RNR_RETRY).then_some(attr.rnr_retry),
    };
    if sim_qp.runtime().modify_qp(sim_qp.qpn, change).is_err() {
        return libc::EINVAL;
    }
    if state.is_some() {
        // SAFETY: the application does not use a queue pair in another thread while it changes it.
        unsafe { (*qp).state = attr.qp_state };
    }
    0
}}

verb! { "IBVERBS_1.1", ibv_query_qp,
/// State, queue key and limits.
///
/// # Safety
///
/// `qp` is one of ours, the others are valid for writes.
unsafe fn sim_ibv_query_qp(qp: *mut Qp, attr: *mut QpAttr, _mask: c_int, init: *mut QpInitAttr) -> c_int {
    // SAFETY: as the caller promises.
    let sim_qp = unsafe { SimQp::from_ptr(qp) };
    let Some(info) = sim_qp.runtime().query_qp(sim_qp.qpn) else {
        return libc::EINVAL;
    };
    // SAFETY: all fields are integers, for which zeros are values.
    let mut value: QpAttr = unsafe { std::mem::zeroed() };
    value.qp_state = match info.state {
        QpState::Reset => abi::QPS_RESET,
        QpState::Init => abi::QPS_INIT,
        QpState::Rtr => abi::QPS_RTR,
        QpState::Rts => abi::QPS_RTS,
        QpState::Error => abi::QPS_ERR,
    };
    value.cur_qp_state = value.qp_state;
    value.qkey = info.qkey;
    value.rnr_retry = info.rnr_retry;
    value.port_num = 1;
    value.cap = sim_qp.cap;
    // SAFETY: as the caller promises.
    unsafe { attr.write(value) };
    let base = &sim_qp.base.base;
    let value = QpInitAttr {
        qp_context: base.qp_context,
        send_cq: base.send_cq,
        recv_cq: base.recv_cq,
        srq: ptr::null_mut(),
        cap: sim_qp.cap,
        qp_type: base.qp_type,
        sq_sig_all: 1,
    };
    // SAFETY: as the caller promises.
    unsafe { init.write(value) };
    0
}}

verb! { "IBVERBS_1.1", ibv_destroy_qp,
/// Destroys a queue pair. Completions of it that were not polled are gone.
///
/// # Safety
///
/// `qp` is one of ours and is not used again, and its queues are not being polled.
unsafe fn sim_ibv_destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: the allocation was made as a box, and the caller gives it up.
    let sim_qp = unsafe { Box::from_raw(qp.cast::<SimQp>()) };
    if sim_qp.runtime().destroy_qp(sim_qp.qpn).is_err() {
        return libc::EINVAL;
    }
    for cq in [sim_qp.base.base.send_cq, sim_qp.base.base.recv_cq] {
        // SAFETY: queues outlive their queue pairs.
        let sim_cq = unsafe { SimCq::from_ptr(cq) };
        // SAFETY: as the caller promises, nobody polls it now.
        unsafe { sim_cq.forget(sim_qp.qpn) };
    }
    0
}}

verb! { "IBVERBS_1.14", ibv_query_qp_data_in_order,
/// Whether the bytes of a message are written in order: never promised.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_query_qp_data_in_order(_qp: *mut Qp, _op: c_int, _flags: u32) -> c_int {
    0
}}
