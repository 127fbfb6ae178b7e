//! Posting to the work queues of queue pairs.

use std::ffi::{c_int, c_void};
use std::ptr;

use efa_sim::model::{
    AhNumber, Destination, DeviceError, MAX_INLINE, MAX_RECV_SGES, MAX_SEND_SGES, Payload, Qpn, RecvWr, Remote, SendOp,
    SendWr, Sge,
};

use crate::abi::{self, Ah, DataBuf, Qp, QpEx};
use crate::memory::ah_number;
use crate::queue_pair::SimQp;

/// Work requests from `wr_start` to `wr_complete`. Verbs allow one thread at a time in between.
#[derive(Default)]
pub(crate) struct Building {
    requests: Vec<Request>,
    /// What was wrong, to be told by `wr_complete`.
    error: c_int,
}

/// One work request, as far as it is known.
struct Request {
    wr_id: u64,
    op: SendOp,
    imm: Option<u32>,
    remote: Remote,
    sges: [Sge; MAX_SEND_SGES],
    sge_count: usize,
    inline: Option<([u8; MAX_INLINE], usize)>,
    dest: Option<Destination>,
}

/// `ibv_post_recv` reaches this through the context.
pub(crate) unsafe extern "C" fn post_recv(qp: *mut Qp, first: *mut abi::RecvWr, bad: *mut *mut abi::RecvWr) -> c_int {
    // SAFETY: the queue pair is one of ours.
    let sim_qp = unsafe { SimQp::from_ptr(qp) };
    let mut poster = sim_qp.runtime().post();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: the caller's list is valid up to its end.
        let wr = unsafe { &*at };
        let mut sges = [Sge::default(); MAX_RECV_SGES];
        // SAFETY: the list has as many pieces as it says.
        let count = unsafe { read_sges(wr.sg_list, wr.num_sge as usize, &mut sges) };
        let result = match count.and_then(|count| sges.get(..count)) {
            Some(sges) => poster.receive(sim_qp.qpn, RecvWr { wr_id: wr.wr_id, sges }),
            None => Err(DeviceError::Invalid),
        };
        if let Err(error) = result {
            // SAFETY: the caller's pointer is valid for a write.
            unsafe { bad.write(at) };
            return refusal(error);
        }
        at = wr.next;
    }
    0
}

/// `ibv_post_send` reaches this through the context: sends only, as rdma-core's EFA provider does it.
pub(crate) unsafe extern "C" fn post_send(qp: *mut Qp, first: *mut abi::SendWr, bad: *mut *mut abi::SendWr) -> c_int {
    let mut at = first;
    while !at.is_null() {
        // SAFETY: the caller's list is valid up to its end.
        let wr = unsafe { &*at };
        // SAFETY: the queue pair is one of ours, the entry valid.
        let error = unsafe { post_one(qp, wr) };
        if error != 0 {
            // SAFETY: the caller's pointer is valid for a write.
            unsafe { bad.write(at) };
            return error;
        }
        at = wr.next;
    }
    0
}

/// Posts one entry of a list.
///
/// # Safety
///
/// `qp` is one of ours, `wr` valid.
unsafe fn post_one(qp: *mut Qp, wr: &abi::SendWr) -> c_int {
    let imm = match wr.opcode {
        abi::WR_SEND => None,
        abi::WR_SEND_WITH_IMM => Some(wr.imm_data),
        _ => return libc::EINVAL,
    };
    let mut request = Request::new(wr.wr_id, SendOp::Send, imm, Remote::default());
    let count = wr.num_sge as usize;
    // SAFETY: the list has as many pieces as it says.
    let Some(count) = (unsafe { read_sges(wr.sg_list, count, &mut request.sges) }) else {
        return libc::EINVAL;
    };
    request.sge_count = count;
    if wr.send_flags & abi::SEND_INLINE != 0 {
        let buffers = request.sges.map(|sge| (sge.addr, sge.len as usize));
        // SAFETY: inline pieces are memory that the caller may read.
        if !unsafe { request.copy_inline(&buffers[..count]) } {
            return libc::EINVAL;
        }
    }
    // SAFETY: as the caller promises.
    let sim_qp = unsafe { SimQp::from_ptr(qp) };
    // SAFETY: the caller's address handle is one of ours.
    let ah = unsafe { ah_number(wr.ah) };
    request.dest = Some(Destination { ah, qpn: Qpn(wr.remote_qpn), qkey: wr.remote_qkey });
    match sim_qp.runtime().post().send(sim_qp.qpn, request.as_model()) {
        Ok(()) => 0,
        Err(error) => refusal(error),
    }
}

/// The error number of a refusal, as rdma-core gives them.
fn refusal(error: DeviceError) -> c_int {
    match error {
        DeviceError::QueueFull => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}

/// Copies a list of pieces; how many, none where that is too many.
///
/// # Safety
///
/// `list` has `count` pieces.
unsafe fn read_sges(list: *const abi::Sge, count: usize, out: &mut [Sge]) -> Option<usize> {
    let out = out.get_mut(..count)?;
    for (index, to) in out.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        let sge = unsafe { list.wrapping_add(index).read() };
        *to = Sge { addr: sge.addr, len: sge.length, lkey: sge.lkey };
    }
    Some(count)
}

impl Request {
    fn new(wr_id: u64, op: SendOp, imm: Option<u32>, remote: Remote) -> Self {
        Request {
            wr_id,
            op,
            imm: imm.map(u32::from_be),
            remote,
            sges: [Sge::default(); MAX_SEND_SGES],
            sge_count: 0,
            inline: None,
            dest: None,
        }
    }

    /// Copies inline data; false where it is too long.
    ///
    /// # Safety
    ///
    /// Each buffer, an address and a length, is memory that may be read.
    unsafe fn copy_inline(&mut self, buffers: &[(u64, usize)]) -> bool {
        let mut bytes = [0; MAX_INLINE];
        let mut filled = 0;
        for (addr, length) in buffers.iter().copied() {
            let Some(room) = bytes.get_mut(filled..).and_then(|rest| rest.get_mut(..length)) else {
                return false;
            };
            let from = ptr::with_exposed_provenance::<u8>(addr as usize);
            // SAFETY: the caller's buffer may be read, and `room` has the same length.
            unsafe { ptr::copy_nonoverlapping(from, room.as_mut_ptr(), length) };
            filled += length;
        }
        self.inline = Some((bytes, filled));
        true
    }

    fn as_model(&self) -> SendWr<'_> {
        SendWr {
            wr_id: self.wr_id,
            op: self.op,
            payload: match &self.inline {
                Some((bytes, length)) => Payload::Inline(bytes.get(..*length).unwrap_or(&[])),
                None => Payload::Sges(self.sges.get(..self.sge_count).unwrap_or(&[])),
            },
            imm: self.imm,
            dest: self.dest.unwrap_or(Destination { ah: AhNumber::UNKNOWN, qpn: Qpn(0), qkey: 0 }),
            remote: self.remote,
        }
    }
}

/// What is being built on a queue pair.
///
/// # Safety
///
/// `qp` is one of ours, and no other thread is between `wr_start` and `wr_complete` on it.
unsafe fn building<'a>(qp: *mut QpEx) -> &'a mut Building {
    // SAFETY: as the caller promises.
    let sim_qp = unsafe { SimQp::from_ptr(qp.cast()) };
    // SAFETY: as the caller promises, nobody else has a reference.
    unsafe { &mut *sim_qp.building.get() }
}

/// Starts a work request with the number that the application has put into the queue pair.
///
/// # Safety
///
/// As for [`building`].
unsafe fn begin(qp: *mut QpEx, op: SendOp, imm: Option<u32>, remote: Remote) {
    // SAFETY: as the caller promises.
    let wr_id = unsafe { (*qp).wr_id };
    // SAFETY: as the caller promises.
    let building = unsafe { building(qp) };
    building.requests.push(Request::new(wr_id, op, imm, remote));
}

pub(crate) unsafe extern "C" fn wr_start(qp: *mut QpEx) {
    // SAFETY: verbs allow one thread at a time here.
    let building = unsafe { building(qp) };
    building.requests.clear();
    building.error = 0;
}

pub(crate) unsafe extern "C" fn wr_send(qp: *mut QpEx) {
    // SAFETY: verbs allow one thread at a time here.
    unsafe { begin(qp, SendOp::Send, None, Remote::default()) };
}

pub(crate) unsafe extern "C" fn wr_send_imm(qp: *mut QpEx, imm: u32) {
    // SAFETY: verbs allow one thread at a time here.
    unsafe { begin(qp, SendOp::Send, Some(imm), Remote::default()) };
}

pub(crate) unsafe extern "C" fn wr_rdma_read(qp: *mut QpEx, rkey: u32, addr: u64) {
    // SAFETY: verbs allow one thread at a time here.
    unsafe { begin(qp, SendOp::Read, None, Remote { addr, rkey }) };
}

pub(crate) unsafe extern "C" fn wr_rdma_write(qp: *mut QpEx, rkey: u32, addr: u64) {
    // SAFETY: verbs allow one thread at a time here.
    unsafe { begin(qp, SendOp::Write, None, Remote { addr, rkey }) };
}

pub(crate) unsafe extern "C" fn wr_rdma_write_imm(qp: *mut QpEx, rkey: u32, addr: u64, imm: u32) {
    // SAFETY: verbs allow one thread at a time here.
    unsafe { begin(qp, SendOp::Write, Some(imm), Remote { addr, rkey }) };
}

pub(crate) unsafe extern "C" fn wr_set_sge(qp: *mut QpEx, lkey: u32, addr: u64, length: u32) {
    let sge = abi::Sge { addr, length, lkey };
    // SAFETY: one piece is a list of one.
    unsafe { wr_set_sge_list(qp, 1, &raw const sge) };
}

pub(crate) unsafe extern "C" fn wr_set_sge_list(qp: *mut QpEx, count: usize, list: *const abi::Sge) {
    // SAFETY: verbs allow one thread at a time here.
    let building = unsafe { building(qp) };
    let Some(request) = building.requests.last_mut() else {
        building.error = libc::EINVAL;
        return;
    };
    // SAFETY: the caller's list has as many pieces as it says.
    match unsafe { read_sges(list, count, &mut request.sges) } {
        Some(count) => request.sge_count = count,
        None => building.error = libc::EINVAL,
    }
}

pub(crate) unsafe extern "C" fn wr_set_inline_data(qp: *mut QpEx, addr: *mut c_void, length: usize) {
    let buffer = DataBuf { addr, length };
    // SAFETY: one buffer is a list of one.
    unsafe { wr_set_inline_data_list(qp, 1, &raw const buffer) };
}

pub(crate) unsafe extern "C" fn wr_set_inline_data_list(qp: *mut QpEx, count: usize, list: *const DataBuf) {
    // SAFETY: verbs allow one thread at a time here.
    let building = unsafe { building(qp) };
    let Some(request) = building.requests.last_mut().filter(|_| count <= MAX_SEND_SGES) else {
        building.error = libc::EINVAL;
        return;
    };
    let mut buffers = [(0, 0); MAX_SEND_SGES];
    for (index, to) in buffers.iter_mut().take(count).enumerate() {
        // SAFETY: the caller's list has as many buffers as it says.
        let buffer = unsafe { list.wrapping_add(index).read() };
        *to = (buffer.addr.expose_provenance() as u64, buffer.length);
    }
    // SAFETY: the caller's buffers may be read.
    if !unsafe { request.copy_inline(buffers.get(..count).unwrap_or(&[])) } {
        building.error = libc::EINVAL;
    }
}

pub(crate) unsafe extern "C" fn wr_set_ud_addr(qp: *mut QpEx, ah: *mut Ah, qpn: u32, qkey: u32) {
    // SAFETY: verbs allow one thread at a time here.
    let building = unsafe { building(qp) };
    let Some(request) = building.requests.last_mut().filter(|_| !ah.is_null()) else {
        building.error = libc::EINVAL;
        return;
    };
    // SAFETY: the caller's address handle is one of ours.
    let ah = unsafe { ah_number(ah) };
    request.dest = Some(Destination { ah, qpn: Qpn(qpn), qkey });
}

/// Posts what was built, up to the first request that is refused. The application knows the depth of
/// the queue that it asked for and stays below it, so that what is refused is the first.
pub(crate) unsafe extern "C" fn wr_complete(qp: *mut QpEx) -> c_int {
    // SAFETY: the queue pair is one of ours.
    let sim_qp = unsafe { SimQp::from_ptr(qp.cast()) };
    // SAFETY: verbs allow one thread at a time here.
    let building = unsafe { building(qp) };
    if building.error == 0 && building.requests.iter().any(|request| request.dest.is_none()) {
        building.error = libc::EINVAL;
    }
    if building.error != 0 {
        return building.error;
    }
    let mut poster = sim_qp.runtime().post();
    for request in &building.requests {
        if let Err(error) = poster.send(sim_qp.qpn, request.as_model()) {
            return refusal(error);
        }
    }
    0
}

pub(crate) unsafe extern "C" fn wr_abort(qp: *mut QpEx) {
    // SAFETY: verbs allow one thread at a time here.
    let building = unsafe { building(qp) };
    building.requests.clear();
}
