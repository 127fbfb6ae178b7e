//! Making datagrams.

use super::super::conn::{CHUNK_PIECES, Chunk, Packet, PacketState};
use super::super::memory::Memory;
use super::super::packet::{
    ACK_WORDS, FLAG_ACK, FLAG_AGAIN, FLAG_IMM, FLAG_READY, HEADER_LEN, Header, Kind, encode_ack_words,
};
use super::super::qp::pieces_of;
use super::super::types::{Access, Gid, QpKind, Qpn, SendOp, Status};
use super::super::window::SEND_WINDOW;
use super::Device;
use super::rdma::low_bits;

/// Packets for one peer in a row, so that an adapter can send them as one.
const BURST: u32 = 16;
/// Attempts to make one packet of a connection.
const MAX_TURNS: u32 = 1 << 16;

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The device of the peer.
    pub dst: Gid,
    /// The queue pair of the peer.
    pub dst_qpn: Qpn,
    /// The queue pair that sends.
    pub src_qpn: Qpn,
    /// The flow to send on, below [`DeviceConfig::flows`](super::DeviceConfig::flows).
    pub flow: u8,
    /// Bytes of the datagram, at the start of the buffer.
    pub len: usize,
    /// Payload bytes among them.
    pub payload: usize,
}

impl Device {
    /// Bytes that a buffer for [`Device::poll_transmit`] needs.
    pub fn datagram_len(&self) -> usize {
        HEADER_LEN + (self.config.mtu as usize).max(ACK_WORDS * 8)
    }

    /// Makes the next datagram in `out`, `None` where there is nothing to send now.
    ///
    /// `out` must have [`Device::datagram_len`] bytes; with less, nothing is made.
    pub fn poll_transmit<M: Memory + ?Sized>(&mut self, now: u64, mem: &M, out: &mut [u8]) -> Option<Transmit> {
        if out.len() < self.datagram_len() {
            return None;
        }
        loop {
            let made = match self.answers.pop_front() {
                Some((gid, header)) => Some(self.seal(gid, header, 0, 0, out)),
                None => {
                    self.reads_next = !self.reads_next;
                    if self.reads_next {
                        self.next_response(mem, out).or_else(|| self.next_of_conns(now, mem, out))
                    } else {
                        self.next_of_conns(now, mem, out).or_else(|| self.next_response(mem, out))
                    }
                }
            }?;
            if self.faults.drop_egress.contains(&made.dst) {
                self.counters.sim_tx_fault_drops += 1;
                continue;
            }
            self.counters.tx_pkts += 1;
            self.counters.tx_bytes += made.payload as u64;
            return Some(made);
        }
    }

    /// Lets every acknowledgement that waits go with the next [`Device::poll_transmit`], for an adapter that
    /// has just handed over the completions.
    pub fn flush_acks(&mut self) {
        while let Some((_, index)) = self.ack_timers.pop_front() {
            if let Some(conn) = self.conns.get_mut(index) {
                conn.ack_timed = false;
                conn.ack_due |= conn.acks_pending > 0;
            }
            self.wake(index);
        }
    }

    fn next_of_conns<M: Memory + ?Sized>(&mut self, now: u64, mem: &M, out: &mut [u8]) -> Option<Transmit> {
        while let Some(index) = self.ready.front().copied() {
            let made = self.next_of_conn(now, index, mem, out);
            self.burst += 1;
            let more = made.is_some() && self.conns.get(index).is_some_and(|conn| conn.has_work());
            if !more || self.burst >= BURST {
                self.ready.pop_front();
                self.burst = 0;
                if more {
                    self.ready.push_back(index);
                } else if let Some(conn) = self.conns.get_mut(index) {
                    conn.scheduled = false;
                }
            }
            if made.is_some() {
                return made;
            }
        }
        None
    }

    /// The next packet of one connection: what was lost, what is new, what is read, an acknowledgement.
    fn next_of_conn<M: Memory + ?Sized>(&mut self, now: u64, index: u32, mem: &M, out: &mut [u8]) -> Option<Transmit> {
        // Each turn settles something; the bound is against a fault of this code hanging its caller.
        for _ in 0..MAX_TURNS {
            let conn = self.conns.get(index)?;
            let room = conn.in_flight < conn.pace.window();
            if room && conn.lost > 0 {
                let at = conn.packets.iter().position(|packet| packet.state == PacketState::Lost)?;
                if let Some(made) = self.send_packet(now, index, at, mem, out) {
                    return Some(made);
                }
            } else if room && conn.packets.len() < SEND_WINDOW as usize && !conn.queue.is_empty() {
                if let Some(made) = self.take_piece(now, index, mem, out) {
                    return Some(made);
                }
            } else if conn.chunks_due > 0 || (!conn.reads.is_empty() && conn.read_room()) {
                if let Some(made) = self.send_read_request(now, index, out) {
                    return Some(made);
                }
            } else if conn.ack_due || conn.ready_due {
                return self.send_ack(index, out);
            } else {
                return None;
            }
        }
        None
    }

    /// Takes the next piece of the oldest entry into the window and sends it. `None` where that made no
    /// packet but changed something.
    fn take_piece<M: Memory + ?Sized>(&mut self, now: u64, index: u32, mem: &M, out: &mut [u8]) -> Option<Transmit> {
        let conn = self.conns.get_mut(index)?;
        let slot = conn.qp;
        let qp = self.qps.get_mut(slot as usize)?.as_deref_mut()?;
        let wr_index = conn.queue.front()?;
        if qp.config.kind == QpKind::Ud {
            return self.send_unreliable(slot, index, wr_index, mem, out);
        }
        let wr = qp.wrs.get_mut(wr_index)?;
        let last = wr.pieces_taken + 1 >= wr.pieces;
        if last && wr.op == SendOp::Write && wr.imm.is_some() && wr.pieces_done < wr.pieces_taken {
            // Immediate data says that everything is in place: its piece waits for the others.
            conn.queue.remove(&mut qp.wrs, wr_index);
            return None;
        }
        let piece = wr.pieces_taken;
        wr.pieces_taken += 1;
        if last {
            conn.queue.remove(&mut qp.wrs, wr_index);
        }
        conn.packets.push_back(Packet {
            wr: wr_index,
            piece,
            state: PacketState::Settled,
            sends: 0,
            not_ready: 0,
            turned_away: false,
            first_ns: now,
            last_ns: now,
            due_ns: 0,
        });
        let at = conn.packets.len() - 1;
        conn.set_state(at, PacketState::Lost);
        self.send_packet(now, index, at, mem, out)
    }

    /// Sends a numbered packet, for the first time or again.
    fn send_packet<M: Memory + ?Sized>(
        &mut self,
        now: u64,
        index: u32,
        at: usize,
        mem: &M,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let conn = self.conns.get_mut(index)?;
        let slot = conn.qp;
        let (psn, base) = (conn.psn(at), conn.base);
        let look_ns = conn.pace.rto_ns(&self.config.rto).min(conn.pace.probe_ns(&self.config.rto));
        let packet = conn.packets.get_mut(at)?;
        packet.sends += 1;
        packet.last_ns = now;
        let (wr_index, piece, again) = (packet.wr, packet.piece, packet.sends > 1);
        conn.set_state(at, PacketState::InFlight);
        let qp = self.qp(slot)?;
        let wr = qp.wrs.get(wr_index)?;
        let offset = piece.saturating_mul(self.config.mtu);
        let len = wr.len.saturating_sub(offset).min(self.config.mtu) as usize;
        let mut header = Header::new(if wr.op == SendOp::Write { Kind::Write } else { Kind::Send });
        (header.psn, header.base, header.qkey, header.length) = (psn, base, wr.qkey, wr.len);
        if let Some(imm) = wr.imm.filter(|_| piece + 1 == wr.pieces) {
            header.flags |= FLAG_IMM;
            header.imm = imm;
        }
        if wr.op == SendOp::Write {
            header.rkey = wr.remote.rkey;
            header.addr = wr.remote.addr.wrapping_add(u64::from(offset));
        }
        let body = out.get_mut(HEADER_LEN..HEADER_LEN + len)?;
        let copied = match &wr.inline {
            Some(bytes) => {
                body.copy_from_slice(bytes.get(offset as usize..offset as usize + len)?);
                Ok(())
            }
            None => self.mrs.gather(mem, qp.config.pd, wr.sges(), offset, body),
        };
        if let Err(status) = copied {
            self.finish_wr(slot, wr_index, status);
            return None;
        }
        if again {
            header.flags |= FLAG_AGAIN;
            self.counters.retrans_pkts += 1;
            self.counters.retrans_bytes += len as u64;
        }
        self.arm(now.saturating_add(look_ns));
        self.address(index, header, psn, len, out)
    }

    fn send_unreliable<M: Memory + ?Sized>(
        &mut self,
        slot: u32,
        index: u32,
        wr_index: u32,
        mem: &M,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let qp = self.qp(slot)?;
        let wr = qp.wrs.get(wr_index)?;
        let mut header = Header::new(Kind::Datagram);
        header.qkey = wr.qkey;
        if let Some(imm) = wr.imm {
            header.flags |= FLAG_IMM;
            header.imm = imm;
        }
        let len = wr.len as usize;
        let body = out.get_mut(HEADER_LEN..HEADER_LEN + len)?;
        let copied = match &wr.inline {
            Some(bytes) => {
                body.copy_from_slice(bytes.get(..len)?);
                Ok(())
            }
            None => self.mrs.gather(mem, qp.config.pd, wr.sges(), 0, body),
        };
        let order = wr.order as u32;
        let made = copied.is_ok().then(|| self.address(index, header, order, len, out)).flatten();
        self.finish_wr(slot, wr_index, copied.err().unwrap_or(Status::Ok));
        made
    }

    /// Asks for pieces of a read: again for what is missing, or for more.
    fn send_read_request(&mut self, now: u64, index: u32, out: &mut [u8]) -> Option<Transmit> {
        let mtu = self.config.mtu;
        let conn = self.conns.get_mut(index)?;
        let slot = conn.qp;
        let qp = self.qps.get_mut(slot as usize)?.as_deref_mut()?;
        let at = match conn.chunks.iter().position(|chunk| chunk.due) {
            Some(at) => at,
            None => {
                let wr_index = conn.reads.front()?;
                let room = conn.pace.window().saturating_sub(conn.pieces_wanted).clamp(1, CHUNK_PIECES);
                let wr = qp.wrs.get_mut(wr_index)?;
                let pieces = (wr.pieces - wr.pieces_taken).min(room);
                let offset = wr.pieces_taken.saturating_mul(mtu);
                let len = wr.len.saturating_sub(offset).min(pieces.saturating_mul(mtu));
                wr.pieces_taken += pieces;
                if wr.pieces_taken >= wr.pieces {
                    conn.reads.remove(&mut qp.wrs, wr_index);
                }
                let token = conn.next_token;
                conn.next_token = token.wrapping_add(1);
                conn.pieces_wanted += pieces;
                conn.chunks_due += 1;
                conn.chunks.push(Chunk {
                    wr: wr_index,
                    token,
                    offset,
                    len,
                    missing: low_bits(pieces),
                    due: true,
                    sends: 0,
                    answered: false,
                    overtaken_ns: u64::MAX,
                    last_piece: 0,
                    last_ns: now,
                    progress_ns: now,
                });
                conn.chunks.len() - 1
            }
        };
        let rto_ns = conn.pace.rto_ns(&self.config.rto);
        let chunk = conn.chunks.get_mut(at)?;
        chunk.due = false;
        chunk.sends += 1;
        chunk.overtaken_ns = u64::MAX;
        chunk.last_piece = 63_u32.saturating_sub(chunk.missing.leading_zeros());
        chunk.last_ns = now;
        conn.chunks_due -= 1;
        let again = chunk.sends > 1;
        let wr = qp.wrs.get(chunk.wr)?;
        let mut header = Header::new(Kind::ReadRequest);
        (header.psn, header.qkey, header.rkey) = (chunk.token, wr.qkey, wr.remote.rkey);
        header.addr = wr.remote.addr.wrapping_add(u64::from(chunk.offset));
        (header.length, header.piece, header.wanted) = (chunk.len, mtu, chunk.missing);
        let token = chunk.token;
        if again {
            header.flags |= FLAG_AGAIN;
            self.counters.retrans_pkts += 1;
        }
        self.arm(now.saturating_add(rto_ns));
        self.address(index, header, token, 0, out)
    }

    /// Answers a read with its next piece.
    fn next_response<M: Memory + ?Sized>(&mut self, mem: &M, out: &mut [u8]) -> Option<Transmit> {
        while let Some(job) = self.jobs.front_mut() {
            if job.wanted == 0 {
                self.jobs.pop_front();
                continue;
            }
            let piece = job.wanted.trailing_zeros();
            job.wanted &= job.wanted - 1;
            job.turn += 1;
            let (job, rotate) = (*job, job.turn % BURST == 0);
            if rotate {
                self.jobs.rotate_left(1);
            }
            let conn = self.conns.get(job.conn)?;
            let pd = self.qp(conn.qp)?.config.pd;
            let offset = piece.saturating_mul(job.piece_len);
            let len = job.len.saturating_sub(offset).min(job.piece_len);
            let addr = job.addr.wrapping_add(u64::from(offset));
            let mut header = Header::new(Kind::ReadResponse);
            (header.psn, header.piece) = (job.token, piece);
            let place = match len {
                0 => Some(0),
                _ => self.mrs.translate(pd, job.rkey, addr, u64::from(len), Access::REMOTE_READ),
            };
            let Some(place) = place else {
                // Taken back since the request was accepted.
                self.counters.sim_rx_access_errors += 1;
                self.jobs.retain(|other| (other.conn, other.token) != (job.conn, job.token));
                header.kind = Kind::ReadRefused;
                header.status = Status::RemoteBadAddress;
                return self.address(job.conn, header, piece, 0, out);
            };
            if len > 0 {
                mem.read(place, out.get_mut(HEADER_LEN..HEADER_LEN + len as usize)?);
            }
            self.counters.rdma_read_resp_bytes += u64::from(len);
            return self.address(job.conn, header, job.token.wrapping_add(piece), len as usize, out);
        }
        None
    }

    fn send_ack(&mut self, index: u32, out: &mut [u8]) -> Option<Transmit> {
        let conn = self.conns.get(index)?;
        let map = conn.rx.as_ref().map(|rx| rx.map()).unwrap_or_default();
        // Words that are 0 at the end need not travel.
        let words = map.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let len = if words > 1 { words * 8 } else { 0 };
        if len > 0 {
            encode_ack_words(&map, out.get_mut(HEADER_LEN..HEADER_LEN + ACK_WORDS * 8)?);
        }
        self.counters.sim_acks_sent += 1;
        let mut header = Header::new(Kind::Ack);
        let receives = self.qp(conn.qp).map_or(0, |qp| qp.receives.len() as u32);
        if let Some(conn) = self.conns.get_mut(index) {
            (conn.ack_due, conn.acks_pending) = (false, 0);
            if std::mem::take(&mut conn.ready_due) {
                header.flags |= FLAG_READY;
                header.length = receives;
            }
        }
        self.address(index, header, 0, len, out)
    }

    /// Addresses a packet to a connection's peer, with an acknowledgement on its back.
    fn address(
        &mut self,
        index: u32,
        mut header: Header,
        spread: u32,
        payload: usize,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let conn = self.conns.get_mut(index)?;
        let qp = self.qps.get(conn.qp as usize)?.as_deref()?;
        (header.src_qpn, header.src_incarnation) = (qp.config.qpn, qp.incarnation);
        (header.dst_qpn, header.dst_incarnation) = (conn.qpn, conn.incarnation);
        if let Some(rx) = &conn.rx {
            header.flags |= FLAG_ACK;
            (header.ack, header.ack_bits) = (rx.base(), rx.map()[0]);
            if rx.span() <= 64 {
                (conn.ack_due, conn.acks_pending) = (false, 0);
            }
        }
        let gid = conn.gid;
        Some(self.seal(gid, header, spread, payload, out))
    }

    /// Signs a packet and writes its header.
    fn seal(&self, dst: Gid, mut header: Header, spread: u32, payload: usize, out: &mut [u8]) -> Transmit {
        header.key = self.config.key;
        header.src_gid = self.config.gid;
        header.encode(out);
        Transmit {
            dst,
            dst_qpn: header.dst_qpn,
            src_qpn: header.src_qpn,
            flow: (spread % u32::from(self.config.flows.max(1))) as u8,
            len: HEADER_LEN + payload,
            payload,
        }
    }

    /// The pieces of `len` bytes on this device.
    pub fn pieces(&self, len: u32) -> u32 {
        pieces_of(len, self.config.mtu)
    }
}
