//! Completion queues.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use efa_sim::Completions;
use efa_sim::model::{Completion, CompletionOp, Cqn, Qpn, Status};

use crate::abi::{
    self, CompChannel, Context, Cq, CqEx, CqInitAttrEx, EfaCq, EfaCqInitAttr, PollCqAttr, RawGid, Wc, wc_status,
};
use crate::channel::{self, CqNotify, Events};
use crate::context::{SimContext, limits};
use crate::errno;

/// Empty polls in a row, at most, after which the thread offers its core to others. Two busy processes
/// on one core would otherwise each wait for the end of the other's time slice.
const PATIENCE: u32 = 64;

/// A completion queue: rdma-core's structure, EFA's, and ours.
#[repr(C)]
pub(crate) struct SimCq {
    base: CqEx,
    efa: EfaCq,
    pub(crate) cqn: Cqn,
    events: Option<Arc<Events>>,
    reports_unsolicited: bool,
    polled: UnsafeCell<Polled>,
}

/// What the polling thread has at hand. Verbs allow one thread at a time in the functions that poll a
/// queue, from `start_poll` to `end_poll`, and in the destruction of a queue pair of it; libfabric holds
/// its own lock of the queue there.
struct Polled {
    batch: Completions,
    current: Option<Completion>,
    spin: Spin,
}

/// When to offer the core to others: soon where that brought something, late where it did not.
struct Spin {
    empty: u32,
    patience: u32,
    yielded: bool,
}

impl Spin {
    fn found(&mut self) {
        if self.yielded {
            self.patience = (self.patience / 2).max(1);
        }
        self.empty = 0;
        self.yielded = false;
    }

    fn missed(&mut self) {
        if self.yielded {
            self.patience = (self.patience * 2).min(PATIENCE);
            self.yielded = false;
        }
        self.empty += 1;
        if self.empty >= self.patience {
            self.empty = 0;
            self.yielded = true;
            std::thread::yield_now();
        }
    }
}

impl SimCq {
    /// The pointer that the application holds.
    fn as_ptr(&self) -> *mut Cq {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// The queue behind a pointer of the application.
    ///
    /// # Safety
    ///
    /// `cq` came from one of the functions that make queues, and was not destroyed.
    pub(crate) unsafe fn from_ptr<'a>(cq: *mut Cq) -> &'a SimCq {
        // SAFETY: the application's pointer is that to the first field.
        unsafe { &*cq.cast::<SimCq>() }
    }

    /// Drops the completions of a queue pair that is gone.
    ///
    /// # Safety
    ///
    /// No other thread polls the queue.
    pub(crate) unsafe fn forget(&self, qpn: Qpn) {
        // SAFETY: as the caller promises, nobody else has a reference.
        let polled = unsafe { &mut *self.polled.get() };
        polled.batch.forget(qpn);
    }
}

/// Makes a queue.
///
/// # Safety
///
/// `context` is open, `attr` valid, its channel one of ours or null.
unsafe fn create(
    context: *mut Context,
    cqe: u32,
    cq_context: *mut c_void,
    comp_channel: *mut CompChannel,
    wc_flags: u64,
    reports_unsolicited: bool,
) -> *mut CqEx {
    let depth = cqe.max(1).next_power_of_two();
    if depth > limits::CQE as u32 || wc_flags & !abi::WC_EX_STANDARD != 0 {
        return errno::fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    let sim = unsafe { SimContext::from_ptr(context) };
    let Ok(cqn) = sim.runtime.create_cq(depth as usize) else {
        return errno::fail(libc::ENOMEM);
    };
    // SAFETY: as the caller promises.
    let events = unsafe { channel::events_of(comp_channel) };
    let base = Cq {
        context,
        channel: comp_channel,
        cq_context,
        handle: cqn.0,
        cqe: depth as c_int,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let has = |flag: u64| wc_flags & flag != 0;
    let base = CqEx {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: has(1).then_some(read_byte_len),
        read_imm_data: has(1 << 1).then_some(read_imm_data),
        read_qp_num: has(1 << 2).then_some(read_qp_num),
        read_src_qp: has(1 << 3).then_some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: has(1 << 4).then_some(read_slid),
        read_sl: has(1 << 5).then_some(read_zero),
        read_dlid_path_bits: has(1 << 6).then_some(read_zero),
        read_completion_ts: None,
        read_cvlan: None,
        read_flow_tag: None,
        read_tm_info: None,
        read_completion_wallclock_ns: None,
    };
    let cq = Box::new(SimCq {
        base,
        efa: EfaCq { comp_mask: 0, wc_read_sgid: Some(wc_read_sgid), wc_is_unsolicited: Some(wc_is_unsolicited) },
        cqn,
        events,
        reports_unsolicited,
        polled: UnsafeCell::new(Polled {
            batch: Completions::new(),
            current: None,
            spin: Spin { empty: 0, patience: PATIENCE, yielded: false },
        }),
    });
    let raw = Box::into_raw(cq);
    raw.expose_provenance();
    raw.cast()
}

/// `ibv_create_cq_ex` reaches this through the context.
pub(crate) unsafe extern "C" fn create_cq_ex(context: *mut Context, attr: *mut CqInitAttrEx) -> *mut CqEx {
    // SAFETY: the caller's structure is valid.
    let attr = unsafe { &*attr };
    if attr.comp_mask != 0 {
        return errno::fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    unsafe { create(context, attr.cqe, attr.cq_context, attr.channel, attr.wc_flags, false) }
}

verb! { "IBVERBS_1.1", ibv_create_cq,
/// Makes a queue, in the older form.
///
/// # Safety
///
/// `context` is open, `channel` one of ours or null.
unsafe fn sim_ibv_create_cq(
    context: *mut Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    _vector: c_int,
) -> *mut Cq {
    let Ok(cqe) = u32::try_from(cqe) else {
        return errno::fail(libc::EINVAL);
    };
    // SAFETY: as the caller promises.
    unsafe { create(context, cqe, cq_context, channel, abi::WC_EX_STANDARD, false) }.cast()
}}

/// Answers `efadv_create_cq`.
///
/// # Safety
///
/// `context` is open, `attr` valid, and `efa` valid for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_create_cq(
    context: *mut Context,
    attr: *mut CqInitAttrEx,
    efa: *mut EfaCqInitAttr,
    length: u32,
) -> *mut CqEx {
    // A caller may be older than `flags`.
    let mut values = EfaCqInitAttr { comp_mask: 0, wc_flags: 0, flags: 0 };
    let known = size_of::<EfaCqInitAttr>().min(length as usize);
    // SAFETY: the caller has `length` bytes, and ours are no fewer than `known`.
    unsafe { ptr::copy_nonoverlapping(efa.cast::<u8>(), (&raw mut values).cast(), known) };
    if values.comp_mask != 0 || values.wc_flags & !(abi::EFA_WC_EX_WITH_SGID | abi::EFA_WC_EX_WITH_IS_UNSOLICITED) != 0
    {
        return errno::fail(libc::EINVAL);
    }
    if values.flags != 0 {
        return errno::fail(libc::EOPNOTSUPP);
    }
    // SAFETY: as the caller promises.
    let attr = unsafe { &*attr };
    if attr.comp_mask != 0 {
        return errno::fail(libc::EINVAL);
    }
    let unsolicited = values.wc_flags & abi::EFA_WC_EX_WITH_IS_UNSOLICITED != 0;
    // SAFETY: as the caller promises.
    unsafe { create(context, attr.cqe, attr.cq_context, attr.channel, attr.wc_flags, unsolicited) }
}

/// Answers `efadv_cq_from_ibv_cq_ex`.
///
/// # Safety
///
/// `cq` is one of ours.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn efa_sim_cq_from_ibv_cq_ex(cq: *mut CqEx) -> *mut EfaCq {
    // SAFETY: the application's pointer is that to the first field of the larger structure.
    unsafe { &raw mut (*cq.cast::<SimCq>()).efa }
}

verb! { "IBVERBS_1.1", ibv_destroy_cq,
/// Destroys a queue.
///
/// # Safety
///
/// `cq` is one of ours and is not used again.
unsafe fn sim_ibv_destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: as the caller promises.
    let sim_cq = unsafe { SimCq::from_ptr(cq) };
    // SAFETY: the context of a queue is open as long as that exists.
    let sim = unsafe { SimContext::from_ptr(sim_cq.base.base.context) };
    if sim.runtime.destroy_cq(sim_cq.cqn).is_err() {
        return libc::EBUSY;
    }
    if let Some(events) = &sim_cq.events {
        events.forget(cq);
    }
    // SAFETY: the allocation was made as a box, and the caller gives it up.
    drop(unsafe { Box::from_raw(cq.cast::<SimCq>()) });
    0
}}

/// `ibv_req_notify_cq` reaches this through the context.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut Cq, _solicited_only: c_int) -> c_int {
    // SAFETY: the queue is one of ours.
    let sim_cq = unsafe { SimCq::from_ptr(cq) };
    let Some(events) = &sim_cq.events else {
        return libc::EINVAL;
    };
    // SAFETY: the context of a queue is open as long as that exists.
    let sim = unsafe { SimContext::from_ptr(sim_cq.base.base.context) };
    let notify = CqNotify { events: Arc::clone(events), cq: sim_cq.as_ptr().addr() };
    sim.runtime.arm(sim_cq.cqn, Arc::new(notify));
    0
}

/// `ibv_poll_cq` reaches this through the context.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut Cq, entries: c_int, mut wc: *mut Wc) -> c_int {
    let mut count = 0;
    while count < entries {
        // SAFETY: the queue is one of ours.
        let Some(completion) = (unsafe { advance(cq.cast(), count == 0) }) else {
            break;
        };
        let value = Wc {
            wr_id: completion.wr_id,
            status: status_code(completion.status),
            opcode: opcode(completion.op),
            vendor_err: u32::from(completion.status.code()),
            byte_len: completion.byte_len,
            imm_data: imm_data(&completion),
            qp_num: completion.qpn.0,
            src_qp: completion.src_qpn.0,
            wc_flags: flags(&completion),
            pkey_index: 0,
            slid: completion.src_ah.0,
            sl: 0,
            dlid_path_bits: 0,
        };
        // SAFETY: the caller has room for `entries` of them.
        unsafe { wc.write(value) };
        wc = wc.wrapping_add(1);
        count += 1;
    }
    count
}

/// Goes to the next completion; drives the device for it only if `drive` and there is none at hand.
///
/// # Safety
///
/// `cq` is one of ours, and no other thread polls it.
unsafe fn advance(cq: *mut CqEx, drive: bool) -> Option<Completion> {
    // SAFETY: as the caller promises.
    let sim_cq = unsafe { SimCq::from_ptr(cq.cast()) };
    // SAFETY: as the caller promises, nobody else has a reference.
    let polled = unsafe { &mut *sim_cq.polled.get() };
    if polled.batch.is_empty() && drive {
        // SAFETY: the context of a queue is open as long as that exists.
        let sim = unsafe { SimContext::from_ptr(sim_cq.base.base.context) };
        if sim.runtime.poll(sim_cq.cqn, &mut polled.batch) {
            polled.spin.found();
        } else {
            polled.spin.missed();
        }
    }
    polled.current = polled.batch.take_oldest();
    polled.current
}

/// Shows the next completion in the fields that the application reads.
///
/// # Safety
///
/// As for [`advance`].
unsafe fn show_next(cq: *mut CqEx, drive: bool) -> c_int {
    // SAFETY: as the caller promises.
    let Some(completion) = (unsafe { advance(cq, drive) }) else {
        return libc::ENOENT;
    };
    // SAFETY: the queue is one of ours, and only the polling thread writes these fields.
    unsafe { (*cq).status = status_code(completion.status) };
    // SAFETY: as above.
    unsafe { (*cq).wr_id = completion.wr_id };
    0
}

unsafe extern "C" fn start_poll(cq: *mut CqEx, attr: *mut PollCqAttr) -> c_int {
    // SAFETY: the caller's structure is valid.
    if unsafe { (*attr).comp_mask } != 0 {
        return libc::EINVAL;
    }
    // SAFETY: verbs allow one polling thread at a time.
    unsafe { show_next(cq, true) }
}

unsafe extern "C" fn next_poll(cq: *mut CqEx) -> c_int {
    // SAFETY: verbs allow one polling thread at a time.
    unsafe { show_next(cq, false) }
}

unsafe extern "C" fn end_poll(_cq: *mut CqEx) {}

/// The completion that the application looks at; one of zeros if it looks at none.
///
/// # Safety
///
/// `cq` is one of ours, and no other thread polls it.
unsafe fn current(cq: *mut CqEx) -> Completion {
    // SAFETY: as the caller promises.
    let sim_cq = unsafe { SimCq::from_ptr(cq.cast()) };
    // SAFETY: as the caller promises, nobody else has a reference.
    let polled = unsafe { &*sim_cq.polled.get() };
    polled.current.unwrap_or(Completion {
        wr_id: 0,
        qpn: Qpn(0),
        status: Status::Ok,
        op: CompletionOp::Send,
        byte_len: 0,
        imm: None,
        src_qpn: Qpn(0),
        src_ah: efa_sim::model::AhNumber::UNKNOWN,
        src_gid: efa_sim::model::Gid::default(),
        unsolicited: false,
    })
}

/// Defines functions that read a field of the current completion.
macro_rules! readers {
    ($($name:ident -> $type:ty = |$completion:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut CqEx) -> $type {
            // SAFETY: verbs allow one polling thread at a time.
            let $completion = unsafe { current(cq) };
            $value
        }
    )*};
}

readers! {
    read_opcode -> c_int = |completion| opcode(completion.op);
    read_vendor_err -> u32 = |completion| u32::from(completion.status.code());
    read_byte_len -> u32 = |completion| completion.byte_len;
    read_imm_data -> u32 = |completion| imm_data(&completion);
    read_qp_num -> u32 = |completion| completion.qpn.0;
    read_src_qp -> u32 = |completion| completion.src_qpn.0;
    read_wc_flags -> c_uint = |completion| flags(&completion);
    read_slid -> u32 = |completion| u32::from(completion.src_ah.0);
}

unsafe extern "C" fn read_zero(_cq: *mut CqEx) -> u8 {
    0
}

/// The queue that a pointer to its EFA part belongs to.
fn whole(efa: *mut EfaCq) -> *mut CqEx {
    efa.wrapping_byte_sub(std::mem::offset_of!(SimCq, efa)).cast()
}

unsafe extern "C" fn wc_read_sgid(efa: *mut EfaCq, gid: *mut RawGid) -> c_int {
    // SAFETY: verbs allow one polling thread at a time.
    let completion = unsafe { current(whole(efa)) };
    // The device tells the address only of senders for which it has no handle.
    if completion.src_ah != efa_sim::model::AhNumber::UNKNOWN {
        return -libc::ENOENT;
    }
    // SAFETY: the caller's union has 16 bytes.
    unsafe { gid.cast::<[u8; 16]>().write(completion.src_gid.0) };
    0
}

unsafe extern "C" fn wc_is_unsolicited(efa: *mut EfaCq) -> bool {
    let cq = whole(efa);
    // SAFETY: verbs allow one polling thread at a time.
    let completion = unsafe { current(cq) };
    // SAFETY: the queue is one of ours.
    let sim_cq = unsafe { SimCq::from_ptr(cq.cast()) };
    sim_cq.reports_unsolicited && completion.unsolicited
}

fn opcode(op: CompletionOp) -> c_int {
    match op {
        // The device has one code for sends and reads.
        CompletionOp::Send | CompletionOp::Read => abi::WC_SEND,
        CompletionOp::Write => abi::WC_RDMA_WRITE,
        CompletionOp::Recv => abi::WC_RECV,
        CompletionOp::RecvWriteImm => abi::WC_RECV_RDMA_WITH_IMM,
    }
}

fn flags(completion: &Completion) -> c_uint {
    if completion.imm.is_some() { abi::WC_WITH_IMM } else { 0 }
}

/// The verbs' status for the device's, as rdma-core translates them.
fn status_code(status: Status) -> c_int {
    match status {
        Status::Ok => wc_status::SUCCESS,
        Status::Flushed => wc_status::WR_FLUSH_ERR,
        Status::QpInternalError | Status::UnsupportedOp | Status::InvalidAh => wc_status::LOC_QP_OP_ERR,
        Status::InvalidLkey => wc_status::LOC_PROT_ERR,
        Status::BadLength => wc_status::LOC_LEN_ERR,
        Status::RemoteBadAddress => wc_status::REM_ACCESS_ERR,
        Status::RemoteAbort => wc_status::REM_ABORT_ERR,
        Status::RemoteBadDestQpn => wc_status::REM_INV_RD_REQ_ERR,
        Status::RemoteRnr => wc_status::RNR_RETRY_EXC_ERR,
        Status::RemoteBadLength | Status::RemoteFeatureMismatch => wc_status::REM_INV_REQ_ERR,
        Status::RemoteBadStatus => wc_status::BAD_RESP_ERR,
        Status::UnresponsiveRemote | Status::UnreachableRemote => wc_status::RESP_TIMEOUT_ERR,
        Status::RemoteUnknownPeer => wc_status::REM_OP_ERR,
    }
}

/// Immediate data in network byte order, as the sender gave it.
fn imm_data(completion: &Completion) -> u32 {
    completion.imm.unwrap_or(0).to_be()
}
