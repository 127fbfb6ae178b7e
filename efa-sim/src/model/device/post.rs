//! Posting work.

use super::super::memory::total_len;
use super::super::qp::{Recv, Wr, pieces_of};
use super::super::slab::NIL;
use super::super::types::{
    Access, DeviceError, MAX_INLINE, MAX_RECV_SGES, MAX_SEND_SGES, Payload, QpKind, QpState, Qpn, RecvWr, SendOp,
    SendWr, Sge, Status,
};
use super::Device;

/// After this long without traffic a connection starts afresh with its window.
const REST_NS: u64 = 1_000_000_000;

impl Device {
    /// Posts a receive.
    ///
    /// # Errors
    /// [`DeviceError::QueueFull`] until completions are polled, [`DeviceError::BadState`] before
    /// [`QpState::Init`] and in [`QpState::Error`], [`DeviceError::Invalid`] for too many pieces.
    pub fn post_recv(&mut self, qpn: Qpn, wr: RecvWr<'_>) -> Result<(), DeviceError> {
        let slot = self.find_qp(qpn).ok_or(DeviceError::NotFound)?;
        let qp = self.qp_mut(slot).ok_or(DeviceError::NotFound)?;
        if matches!(qp.state, QpState::Reset | QpState::Error) {
            return Err(DeviceError::BadState);
        }
        if wr.sges.len() > MAX_RECV_SGES {
            return Err(DeviceError::Invalid);
        }
        if qp.receives_unpolled >= qp.config.rq_depth {
            return Err(DeviceError::QueueFull);
        }
        let mut receive = Recv { wr_id: wr.wr_id, sges: Default::default(), sge_count: wr.sges.len() as u8 };
        for (to, from) in receive.sges.iter_mut().zip(wr.sges) {
            *to = *from;
        }
        qp.receives.push_back(receive);
        qp.receives_unpolled += 1;
        // One peer that was turned away is told for each receive: telling all would turn most away again.
        if let Some(index) = qp.starved.pop_front()
            && let Some(conn) = self.conns.get_mut(index)
        {
            conn.starved = false;
            conn.ready_due = true;
            self.wake(index);
        }
        Ok(())
    }

    /// Posts a send, RDMA write or RDMA read.
    ///
    /// What is wrong with the operation itself (address handle, length, local key, missing feature) shows in
    /// its completion, as on the real device.
    ///
    /// # Errors
    /// [`DeviceError::QueueFull`] until completions are polled, [`DeviceError::BadState`] outside
    /// [`QpState::Rts`], [`DeviceError::Invalid`] for too many pieces or inline bytes.
    pub fn post_send(&mut self, now: u64, qpn: Qpn, wr: SendWr<'_>) -> Result<(), DeviceError> {
        let slot = self.find_qp(qpn).ok_or(DeviceError::NotFound)?;
        let qp = self.qp(slot).ok_or(DeviceError::NotFound)?;
        if qp.state != QpState::Rts {
            return Err(DeviceError::BadState);
        }
        if qp.sends_unpolled >= qp.config.sq_depth {
            return Err(DeviceError::QueueFull);
        }
        let mut entry = self.entry(&wr)?;
        let gid = self.ahs.gid(wr.dest.ah);
        let refused = self.refuse_post(slot, &wr, &entry, gid.is_some());
        let conn_index = match gid {
            Some(gid) if refused.is_none() => self.conn_to(slot, gid, wr.dest.qpn),
            _ => NIL,
        };
        entry.conn = conn_index;
        self.count_post(wr.op, entry.len);
        let Some(qp) = self.qps.get_mut(slot as usize).and_then(|qp| qp.as_deref_mut()) else {
            return Err(DeviceError::NotFound);
        };
        entry.order = qp.posted;
        qp.posted += 1;
        qp.sends_unpolled += 1;
        let index = qp.wrs.insert(entry);
        if let Some(status) = refused {
            self.finish_wr(slot, index, status);
            return Ok(());
        }
        if let Some(conn) = self.conns.get_mut(conn_index) {
            if !conn.outstanding() && now.saturating_sub(conn.last_heard_ns) > REST_NS {
                conn.pace.rest();
            }
            let list = if wr.op == SendOp::Read { &mut conn.reads } else { &mut conn.queue };
            list.push_back(&mut qp.wrs, index);
        }
        self.wake(conn_index);
        Ok(())
    }

    fn entry(&self, wr: &SendWr<'_>) -> Result<Wr, DeviceError> {
        let mut sges = [Sge::default(); MAX_SEND_SGES];
        let mut inline = None;
        let (len, sge_count) = match wr.payload {
            Payload::Sges(list) => {
                sges.get_mut(..list.len()).ok_or(DeviceError::Invalid)?.copy_from_slice(list);
                (total_len(list), list.len() as u8)
            }
            Payload::Inline(bytes) => {
                let mut copy = [0; MAX_INLINE];
                copy.get_mut(..bytes.len()).ok_or(DeviceError::Invalid)?.copy_from_slice(bytes);
                inline = Some(copy);
                (bytes.len() as u64, 0)
            }
        };
        let len = u32::try_from(len).map_err(|_| DeviceError::Invalid)?;
        Ok(Wr {
            wr_id: wr.wr_id,
            order: 0,
            op: wr.op,
            conn: NIL,
            sges,
            sge_count,
            inline,
            len,
            imm: wr.imm,
            remote: wr.remote,
            qkey: wr.dest.qkey,
            pieces: if wr.op == SendOp::Send { 1 } else { pieces_of(len, self.config.mtu) },
            pieces_taken: 0,
            pieces_done: 0,
            queued: false,
            next: NIL,
        })
    }

    fn refuse_post(&self, slot: u32, wr: &SendWr<'_>, entry: &Wr, known: bool) -> Option<Status> {
        let qp = self.qp(slot)?;
        let features = self.config.features;
        let (possible, longest) = match wr.op {
            SendOp::Send => (true, self.config.mtu),
            SendOp::Write => (features.write, self.config.max_rdma),
            SendOp::Read => (features.read && entry.inline.is_none(), self.config.max_rdma),
        };
        let possible = possible && (wr.op == SendOp::Send || qp.config.kind == QpKind::Srd);
        let access = if wr.op == SendOp::Read { Access::LOCAL_WRITE } else { Access::LOCAL_READ };
        if !possible {
            Some(Status::UnsupportedOp)
        } else if !known {
            Some(Status::InvalidAh)
        } else if entry.len > longest {
            Some(Status::BadLength)
        } else if !self.mrs.check(qp.config.pd, entry.sges(), access) {
            Some(Status::InvalidLkey)
        } else {
            None
        }
    }

    fn count_post(&mut self, op: SendOp, len: u32) {
        match op {
            SendOp::Send => {
                self.counters.send_wrs += 1;
                self.counters.send_bytes += u64::from(len);
            }
            SendOp::Write => self.counters.rdma_write_wrs += 1,
            SendOp::Read => self.counters.rdma_read_wrs += 1,
        }
    }
}
