//! How operations end.

use super::super::conn::Acked;
use super::super::packet::ACK_WORDS;
use super::super::qp::{Recv, Wr};
use super::super::types::{AhNumber, Completion, CompletionOp, Gid, QpState, Qpn, SendOp, Status, UD_PREFIX};
use super::Device;

/// Who sent what a receive completion reports.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) gid: Gid,
    pub(super) qpn: Qpn,
    pub(super) imm: Option<u32>,
    pub(super) len: u32,
}

impl Device {
    /// Ends a send queue entry: its packets and read requests are forgotten, its completion is queued.
    pub(super) fn finish_wr(&mut self, slot: u32, index: u32, status: Status) {
        let Some(qp) = self.qps.get_mut(slot as usize).and_then(|qp| qp.as_deref_mut()) else { return };
        let Some(wr) = qp.wrs.get(index) else { return };
        let (conn_index, queued, read, whole) =
            (wr.conn, wr.queued, wr.op == SendOp::Read, wr.pieces_done >= wr.pieces);
        if let Some(conn) = self.conns.get_mut(conn_index) {
            if queued {
                let list = if read { &mut conn.reads } else { &mut conn.queue };
                list.remove(&mut qp.wrs, index);
            }
            if !whole {
                conn.abandon(index);
            }
        }
        let Some(wr) = qp.wrs.remove(index) else { return };
        let (qpn, cqn) = (qp.config.qpn, qp.config.send_cq);
        let ok = status == Status::Ok;
        let (op, done, failed) = match wr.op {
            SendOp::Send => (CompletionOp::Send, None, None),
            SendOp::Write => (
                CompletionOp::Write,
                Some(&mut self.counters.rdma_write_bytes),
                Some(&mut self.counters.rdma_write_wr_err),
            ),
            SendOp::Read => (
                CompletionOp::Read,
                Some(&mut self.counters.rdma_read_bytes),
                Some(&mut self.counters.rdma_read_wr_err),
            ),
        };
        match (ok, done, failed) {
            (true, Some(bytes), _) => *bytes += u64::from(wr.len),
            (false, _, Some(errors)) => *errors += 1,
            _ => {}
        }
        let completion = Completion {
            wr_id: wr.wr_id,
            qpn,
            status,
            op,
            byte_len: if ok { wr.len } else { 0 },
            imm: None,
            src_qpn: Qpn(0),
            src_ah: AhNumber::UNKNOWN,
            src_gid: Gid::default(),
            unsolicited: false,
        };
        self.complete(slot, cqn.0, completion);
    }

    /// Ends a receive.
    pub(super) fn finish_receive(&mut self, slot: u32, wr_id: u64, status: Status, from: Arrival) {
        let Some(qp) = self.qp(slot) else { return };
        let (qpn, cqn) = (qp.config.qpn, qp.config.recv_cq);
        let ok = status == Status::Ok;
        if ok {
            self.counters.recv_wrs += 1;
            self.counters.recv_bytes += u64::from(from.len);
        }
        let completion = Completion {
            wr_id,
            qpn,
            status,
            op: CompletionOp::Recv,
            byte_len: if ok { from.len } else { 0 },
            imm: from.imm,
            src_qpn: from.qpn,
            src_ah: self.ahs.number(&from.gid),
            src_gid: from.gid,
            unsolicited: false,
        };
        self.complete(slot, cqn.0, completion);
    }

    /// Ends a receive of an unreliable datagram, whose length counts the prefix.
    pub(super) fn finish_datagram(&mut self, slot: u32, wr_id: u64, mut from: Arrival) {
        from.len += UD_PREFIX;
        self.finish_receive(slot, wr_id, Status::Ok, from);
    }

    /// Reports a write with immediate data at the target; `receive` is what it used up.
    pub(super) fn finish_write_imm(&mut self, slot: u32, receive: Option<Recv>, from: Arrival) {
        let Some(qp) = self.qp(slot) else { return };
        let (qpn, cqn) = (qp.config.qpn, qp.config.recv_cq);
        let completion = Completion {
            wr_id: receive.map_or(0, |receive| receive.wr_id),
            qpn,
            status: Status::Ok,
            op: CompletionOp::RecvWriteImm,
            byte_len: from.len,
            imm: from.imm,
            src_qpn: from.qpn,
            src_ah: self.ahs.number(&from.gid),
            src_gid: from.gid,
            unsolicited: receive.is_none(),
        };
        self.complete(slot, cqn.0, completion);
    }

    /// Takes in an acknowledgement.
    pub(super) fn on_ack(&mut self, now: u64, index: u32, ack: u32, words: &[u64; ACK_WORDS]) {
        let mut touched = std::mem::take(&mut self.scratch);
        touched.clear();
        let mut slot = 0;
        if let Some(conn) = self.conns.get_mut(index) {
            slot = conn.qp;
            let flying = conn.in_flight;
            let acked: Acked = conn.acknowledge(now, ack, words, &mut touched);
            if acked.packets > 0 {
                if let Some(rtt_ns) = acked.rtt_ns {
                    conn.pace.measured(rtt_ns);
                }
                conn.pace.progressed(acked.packets, flying);
                conn.probed = false;
                // A receiver that took one message it had turned away may take more.
                conn.receiver_ready(2 * acked.were_not_ready);
                if words.iter().any(|word| *word != 0) && conn.mark_overtaken(acked.newest_sent_ns) > 0 {
                    conn.pace.lost(now);
                }
            }
        }
        for wr in &touched {
            self.piece_done(slot, *wr);
        }
        let any = !touched.is_empty();
        self.scratch = touched;
        if any {
            self.wake(index);
        }
    }

    /// Counts a piece of a write or send as settled, and ends the entry with its last.
    pub(super) fn piece_done(&mut self, slot: u32, index: u32) {
        let Some(qp) = self.qps.get_mut(slot as usize).and_then(|qp| qp.as_deref_mut()) else { return };
        let Some(wr) = qp.wrs.get_mut(index) else { return };
        wr.pieces_done += 1;
        if wr.pieces_done >= wr.pieces {
            self.finish_wr(slot, index, Status::Ok);
        } else if !wr.queued && wr.pieces_taken + 1 == wr.pieces && wr.pieces_done == wr.pieces_taken {
            // All of a write is in place except the piece that carries the immediate data.
            let conn_index = wr.conn;
            if let Some(conn) = self.conns.get_mut(conn_index) {
                conn.queue.push_front(&mut qp.wrs, index);
            }
            self.wake(conn_index);
        }
    }

    /// Ends what waits for a peer: all for which `which` holds.
    pub(super) fn fail_conn(&mut self, index: u32, status: Status, which: impl Fn(&Wr) -> bool) {
        let Some(conn) = self.conns.get(index) else { return };
        let slot = conn.qp;
        self.finish_all(slot, status, status, |wr| wr.conn == index && which(wr));
        if let Some(conn) = self.conns.get_mut(index) {
            conn.pace.rest();
        }
    }

    /// Breaks a queue pair: the oldest entry ends with `first`, everything else is flushed.
    pub(super) fn break_qp(&mut self, slot: u32, first: Status) {
        let Some(qp) = self.qp_mut(slot).filter(|qp| qp.state != QpState::Error) else { return };
        qp.state = QpState::Error;
        self.finish_all(slot, first, Status::Flushed, |_| true);
        while let Some(receive) = self.qp_mut(slot).and_then(|qp| qp.receives.pop_front()) {
            let nobody = Arrival { gid: Gid::default(), qpn: Qpn(0), imm: None, len: 0 };
            self.finish_receive(slot, receive.wr_id, Status::Flushed, nobody);
        }
    }

    /// Ends those entries for which `which` holds, in the order in which they were posted.
    fn finish_all(&mut self, slot: u32, first: Status, others: Status, which: impl Fn(&Wr) -> bool) {
        let Some(qp) = self.qp(slot) else { return };
        let mut entries: Vec<(u64, u32)> =
            qp.wrs.iter().filter(|(_, wr)| which(wr)).map(|(index, wr)| (wr.order, index)).collect();
        entries.sort_unstable();
        let mut status = first;
        for (_, index) in entries {
            self.finish_wr(slot, index, status);
            status = others;
        }
    }

    fn complete(&mut self, slot: u32, cq: u32, completion: Completion) {
        let overrun = std::mem::take(&mut self.faults.overrun_completions);
        let kept = !overrun && self.cqs.get_mut(cq).is_some_and(|cq| cq.push(completion));
        if !kept {
            self.counters.sim_cq_overruns += 1;
            self.break_qp(slot, Status::Flushed);
        }
    }
}
