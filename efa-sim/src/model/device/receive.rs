//! What happens when a datagram arrives.

use super::super::memory::{Memory, total_len};
use super::super::packet::{self, ACK_WORDS, DecodeError, FLAG_ACK, FLAG_IMM, FLAG_READY, Header, Kind};
use super::super::qp::refusal;
use super::super::types::{QpKind, QpState, Qpn, Status, UD_PREFIX};
use super::super::window::{RxWindow, Seen};
use super::Device;
use super::finish::Arrival;

/// What becomes of a numbered packet.
pub(super) enum Verdict {
    /// It is in memory.
    Done,
    /// There is no receive for it.
    NotReady,
    /// It cannot be taken in, ever.
    Refused(Status),
}

impl Device {
    /// Takes in a datagram.
    ///
    /// Total: whatever the bytes are, they are taken in, answered or counted and dropped. Memory is written
    /// only through valid registrations, and only for packets that carry the shared key.
    pub fn handle_datagram<M: Memory + ?Sized>(&mut self, now: u64, bytes: &[u8], mem: &mut M) {
        let (header, payload) = match packet::decode(bytes, &self.config.key) {
            Ok(parts) => parts,
            Err(DecodeError::Malformed) => return self.counters.sim_rx_malformed += 1,
            Err(DecodeError::BadKey) => return self.counters.sim_rx_bad_key += 1,
        };
        if self.faults.drop_ingress.contains(&header.src_gid) {
            return self.counters.sim_rx_fault_drops += 1;
        }
        self.counters.rx_pkts += 1;
        self.counters.rx_bytes += payload.len() as u64;
        let Some(slot) = self.find_qp(header.dst_qpn) else { return self.no_such_qp(&header, Status::Ok) };
        let Some(qp) = self.qp(slot) else { return };
        match qp.state {
            QpState::Rtr | QpState::Rts => {}
            QpState::Error => return self.no_such_qp(&header, Status::Flushed),
            // Not ready yet: the sender will try again.
            QpState::Reset | QpState::Init => return self.counters.rx_drops += 1,
        }
        let addressed = header.dst_incarnation == 0 || header.dst_incarnation == qp.incarnation;
        if !addressed {
            return self.no_such_qp(&header, Status::Ok);
        }
        let keyed = header.kind.wants_answer() || header.kind == Kind::Datagram;
        if keyed && header.qkey != qp.qkey {
            return self.no_such_qp(&header, Status::RemoteUnknownPeer);
        }
        match (qp.config.kind, header.kind) {
            (QpKind::Ud, Kind::Datagram) => self.on_unreliable(slot, &header, payload, mem),
            (QpKind::Srd, kind) if kind != Kind::Datagram => self.on_reliable(now, slot, &header, payload, mem),
            _ => self.counters.rx_drops += 1,
        }
    }

    fn on_reliable<M: Memory + ?Sized>(&mut self, now: u64, slot: u32, header: &Header, payload: &[u8], mem: &mut M) {
        let index = if header.kind.wants_answer() {
            self.conn_to(slot, header.src_gid, header.src_qpn)
        } else {
            match self.find_conn(slot, &header.src_gid, header.src_qpn) {
                Some(index) => index,
                None => return self.counters.rx_drops += 1,
            }
        };
        let Some(conn) = self.conns.get_mut(index) else { return };
        if header.kind == Kind::BadQpn {
            // Late where it speaks of an incarnation other than the one that is known.
            if header.src_incarnation == conn.incarnation {
                if header.status == Status::Ok {
                    conn.forget_incarnation();
                }
                // What goes to another key is for the queue pair that has this number next.
                self.fail_conn(index, Status::RemoteBadDestQpn, |wr| wr.qkey == header.qkey);
                self.wake(index);
            }
            return;
        }
        if conn.is_gone(header.src_incarnation) {
            return self.counters.rx_drops += 1;
        }
        if conn.incarnation != header.src_incarnation {
            if conn.incarnation != 0 {
                // The peer's number serves another queue pair now, which must not get what the old one may have.
                conn.forget_incarnation();
                self.fail_conn(index, Status::RemoteBadDestQpn, |wr| wr.pieces_taken > 0);
            }
            let Some(conn) = self.conns.get_mut(index) else { return };
            conn.incarnation = header.src_incarnation;
        }
        let Some(conn) = self.conns.get_mut(index) else { return };
        conn.heard = true;
        conn.last_heard_ns = now;
        if header.kind == Kind::Ack && header.flags & FLAG_READY != 0 {
            conn.receiver_ready(header.length);
            self.wake(index);
        }
        if header.flags & FLAG_ACK != 0 {
            let words = match header.kind {
                Kind::Ack if !payload.is_empty() => packet::decode_ack_words(payload),
                _ => {
                    let mut words = [0; ACK_WORDS];
                    words[0] = header.ack_bits;
                    words
                }
            };
            self.on_ack(now, index, header.ack, &words);
        }
        match header.kind {
            Kind::Send | Kind::Write => self.on_numbered(now, slot, index, header, payload, mem),
            Kind::ReadRequest => self.on_read_request(slot, index, header),
            Kind::ReadResponse => self.on_read_response(now, slot, index, header, payload, mem),
            Kind::NotReady => self.on_not_ready(now, slot, index, header.psn),
            Kind::Refused => self.on_refused(slot, index, header.psn, refusal(header.status)),
            Kind::ReadRefused => self.on_read_refused(slot, index, header.psn, refusal(header.status)),
            Kind::Ack | Kind::BadQpn | Kind::Datagram => {}
        }
    }

    /// A numbered packet: taken in at most once, answered each time.
    fn on_numbered<M: Memory + ?Sized>(
        &mut self,
        now: u64,
        slot: u32,
        index: u32,
        header: &Header,
        payload: &[u8],
        mem: &mut M,
    ) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        let rx = conn.rx.get_or_insert_with(|| RxWindow::new(header.base));
        rx.settle(header.base);
        match rx.classify(header.psn) {
            Seen::Before => {
                self.counters.sim_rx_duplicates += 1;
                self.owe_ack(now, index, true);
            }
            Seen::Outside => self.counters.rx_drops += 1,
            Seen::Refused(status) => self.reply(index, header, Kind::Refused, status),
            Seen::New => {
                if !rx.can_refuse() {
                    return self.counters.rx_drops += 1;
                }
                let verdict = match header.kind {
                    Kind::Send => self.take_message(now, slot, header, payload, mem),
                    _ => self.take_write(now, slot, header, payload, mem),
                };
                match verdict {
                    Verdict::Done => {
                        if let Some(rx) = self.conns.get_mut(index).and_then(|conn| conn.rx.as_mut()) {
                            rx.accept(header.psn);
                        }
                        self.owe_ack(now, index, false);
                    }
                    Verdict::NotReady => {
                        self.counters.sim_rnr_sent += 1;
                        self.starve(slot, index);
                        self.reply(index, header, Kind::NotReady, Status::Ok);
                    }
                    Verdict::Refused(status) => {
                        if let Some(rx) = self.conns.get_mut(index).and_then(|conn| conn.rx.as_mut()) {
                            rx.refuse(header.psn, status);
                        }
                        self.reply(index, header, Kind::Refused, status);
                    }
                }
            }
        }
    }

    fn take_message<M: Memory + ?Sized>(
        &mut self,
        now: u64,
        slot: u32,
        header: &Header,
        payload: &[u8],
        mem: &mut M,
    ) -> Verdict {
        let Some(receive) = self.next_receive(now, slot) else { return Verdict::NotReady };
        let Some(qp) = self.qp(slot) else { return Verdict::NotReady };
        let from = Arrival {
            gid: header.src_gid,
            qpn: header.src_qpn,
            imm: (header.flags & FLAG_IMM != 0).then_some(header.imm),
            len: payload.len() as u32,
        };
        let (status, verdict) = if total_len(receive.sges()) < payload.len() as u64 {
            (Status::BadLength, Verdict::Refused(Status::RemoteBadLength))
        } else {
            match self.mrs.scatter(mem, qp.config.pd, receive.sges(), 0, payload) {
                Ok(()) => (Status::Ok, Verdict::Done),
                Err(status) => (status, Verdict::Refused(Status::RemoteAbort)),
            }
        };
        self.finish_receive(slot, receive.wr_id, status, from);
        verdict
    }

    /// The next posted receive, unless there is none or a fault holds it back.
    pub(super) fn next_receive(&mut self, now: u64, slot: u32) -> Option<super::super::qp::Recv> {
        let interval = self.faults.receive_interval_ns;
        if self.faults.receiver_not_ready {
            return None;
        }
        let qp = self.qp_mut(slot)?;
        if interval > 0 && qp.last_receive_ns != 0 && now.saturating_sub(qp.last_receive_ns) < interval {
            return None;
        }
        let receive = qp.receives.pop_front()?;
        qp.last_receive_ns = now;
        Some(receive)
    }

    fn on_unreliable<M: Memory + ?Sized>(&mut self, slot: u32, header: &Header, payload: &[u8], mem: &mut M) {
        let Some(qp) = self.qp_mut(slot) else { return };
        let pd = qp.config.pd;
        let Some(receive) = qp.receives.pop_front() else { return self.counters.rx_drops += 1 };
        let from = Arrival {
            gid: header.src_gid,
            qpn: header.src_qpn,
            imm: (header.flags & FLAG_IMM != 0).then_some(header.imm),
            len: payload.len() as u32,
        };
        match self.mrs.scatter(mem, pd, receive.sges(), UD_PREFIX, payload) {
            Ok(()) => self.finish_datagram(slot, receive.wr_id, from),
            Err(status) => self.finish_receive(slot, receive.wr_id, status, from),
        }
    }

    /// The receiver has no buffer for `psn`: it is tried again later, or given up.
    fn on_not_ready(&mut self, now: u64, slot: u32, index: u32, psn: u32) {
        let retries = self.qp(slot).map_or(0, |qp| qp.rnr_retry);
        let (delay, longest) = (self.config.rnr_delay_ns, self.config.rnr_delay_max_ns);
        if let Some(given_up) =
            self.conns.get_mut(index).and_then(|conn| conn.not_ready(now, psn, retries, delay, longest))
        {
            self.counters.sim_rnr_received += 1;
            match given_up {
                Ok(due_ns) => self.arm(due_ns),
                Err(wr) => self.finish_wr(slot, wr, Status::RemoteRnr),
            }
            self.wake(index);
        }
    }

    fn on_refused(&mut self, slot: u32, index: u32, psn: u32, status: Status) {
        let Some(conn) = self.conns.get(index) else { return };
        let wr = conn.position(psn).and_then(|at| conn.packets.get(at)).filter(|packet| packet.waits());
        if let Some(packet) = wr.copied() {
            self.finish_wr(slot, packet.wr, status);
            self.wake(index);
        }
    }

    /// An acknowledgement is owed; `at_once` where the peer seems to have missed one.
    pub(super) fn owe_ack(&mut self, now: u64, index: u32, at_once: bool) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        if conn.acks_pending == 0 {
            conn.ack_since_ns = now;
        }
        conn.acks_pending += 1;
        if at_once || conn.acks_pending >= self.config.ack_every {
            conn.ack_due = true;
            self.wake(index);
        } else if !conn.ack_timed {
            conn.ack_timed = true;
            self.ack_timers.push_back((now.saturating_add(self.config.ack_delay_ns), index));
        }
    }

    fn starve(&mut self, slot: u32, index: u32) {
        let Some(conn) = self.conns.get_mut(index).filter(|conn| !conn.starved) else { return };
        conn.starved = true;
        if let Some(qp) = self.qp_mut(slot) {
            qp.starved.push_back(index);
        }
    }

    /// Answers a packet of a connection.
    pub(super) fn reply(&mut self, index: u32, to: &Header, kind: Kind, status: Status) {
        let Some(conn) = self.conns.get(index) else { return };
        let Some(qp) = self.qp(conn.qp) else { return };
        let mut header = Header::new(kind);
        header.status = status;
        header.psn = to.psn;
        (header.src_qpn, header.src_incarnation) = (qp.config.qpn, qp.incarnation);
        (header.dst_qpn, header.dst_incarnation) = (to.src_qpn, to.src_incarnation);
        self.answer(to.src_gid, header);
    }

    /// Tells the sender that its queue pair is not here, speaking as the incarnation it addressed; `why` is
    /// [`Status::Ok`] where that incarnation is gone.
    fn no_such_qp(&mut self, to: &Header, why: Status) {
        self.counters.sim_rx_bad_qpn += 1;
        if to.kind.wants_answer() {
            let mut header = Header::new(Kind::BadQpn);
            header.status = why;
            (header.src_qpn, header.src_incarnation, header.qkey) = (to.dst_qpn, to.dst_incarnation, to.qkey);
            (header.dst_qpn, header.dst_incarnation) = (to.src_qpn, to.src_incarnation);
            self.answer(to.src_gid, header);
        }
    }

    /// Where a peer's queue pair is known to be gone by other means, such as a refused port: what waits for
    /// it ends as if it had said so.
    pub fn peer_gone(&mut self, qpn: Qpn, gid: super::super::types::Gid, peer: Qpn) {
        if let Some(slot) = self.find_qp(qpn)
            && let Some(index) = self.find_conn(slot, &gid, peer)
        {
            if let Some(conn) = self.conns.get_mut(index) {
                conn.forget_incarnation();
            }
            self.fail_conn(index, Status::RemoteBadDestQpn, |_| true);
        }
    }
}
