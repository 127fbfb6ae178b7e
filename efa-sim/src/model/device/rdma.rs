//! Remote memory: the target's side of writes and reads, and the arrival of what was read.
//!
//! A read is driven by its initiator. It asks for up to 64 pieces at a time and asks again for those that do
//! not arrive; the target keeps nothing but a queue of requests that it is answering.

use super::super::conn::CHUNK_PIECES;
use super::super::memory::Memory;
use super::super::packet::{FLAG_IMM, Header, Kind};
use super::super::qp::pieces_of;
use super::super::types::{Access, AhNumber, Status};
use super::Device;
use super::finish::Arrival;
use super::receive::Verdict;

/// Requests that a target is answering at most; more are dropped and come again.
const MAX_JOBS: usize = 1024;

/// A read request being answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadJob {
    pub(super) conn: u32,
    pub(super) token: u32,
    pub(super) addr: u64,
    pub(super) rkey: u32,
    pub(super) len: u32,
    pub(super) piece_len: u32,
    pub(super) wanted: u64,
    /// Pieces sent in a row.
    pub(super) turn: u32,
}

impl Device {
    /// A piece of a write: checked, then put in place; the last one of a write with immediate data also
    /// completes here.
    pub(super) fn take_write<M: Memory + ?Sized>(
        &mut self,
        now: u64,
        slot: u32,
        header: &Header,
        payload: &[u8],
        mem: &mut M,
    ) -> Verdict {
        if !self.config.features.write {
            return Verdict::Refused(Status::RemoteFeatureMismatch);
        }
        if self.lacks_ah(header) {
            return Verdict::Refused(Status::RemoteUnknownPeer);
        }
        let Some(qp) = self.qp(slot) else { return Verdict::NotReady };
        let unsolicited = qp.config.unsolicited_writes && self.config.features.unsolicited_writes;
        let len = payload.len() as u64;
        // Nothing may be written to anywhere: the key of an empty operation is not looked at.
        let place = match len {
            0 => Some(0),
            _ => self.mrs.translate(qp.config.pd, header.rkey, header.addr, len, Access::REMOTE_WRITE),
        };
        let Some(place) = place else {
            self.counters.sim_rx_access_errors += 1;
            return Verdict::Refused(Status::RemoteBadAddress);
        };
        let imm = (header.flags & FLAG_IMM != 0).then_some(header.imm);
        let receive = match imm {
            Some(_) if !unsolicited => match self.next_receive(now, slot) {
                None => return Verdict::NotReady,
                receive => receive,
            },
            _ => None,
        };
        if !payload.is_empty() {
            mem.write(place, payload);
        }
        self.counters.rdma_write_recv_bytes += len;
        if imm.is_some() {
            let from = Arrival { gid: header.src_gid, qpn: header.src_qpn, imm, len: header.length };
            self.finish_write_imm(slot, receive, from);
        }
        Verdict::Done
    }

    /// A peer wants to read here.
    pub(super) fn on_read_request(&mut self, slot: u32, index: u32, header: &Header) {
        let Some(qp) = self.qp(slot) else { return };
        let pieces = pieces_of(header.length, header.piece);
        let len = u64::from(header.length);
        let refused = if !self.config.features.read {
            Some(Status::RemoteFeatureMismatch)
        } else if self.lacks_ah(header) {
            Some(Status::RemoteUnknownPeer)
        } else if header.piece == 0 || header.piece > self.config.mtu || pieces > CHUNK_PIECES {
            Some(Status::RemoteBadLength)
        } else if len > 0
            && self.mrs.translate(qp.config.pd, header.rkey, header.addr, len, Access::REMOTE_READ).is_none()
        {
            self.counters.sim_rx_access_errors += 1;
            Some(Status::RemoteBadAddress)
        } else {
            None
        };
        if let Some(status) = refused {
            return self.reply(index, header, Kind::ReadRefused, status);
        }
        let wanted = header.wanted & low_bits(pieces);
        if let Some(job) =
            self.jobs.iter_mut().find(|job| job.wanted != 0 && job.conn == index && job.token == header.psn)
        {
            // Asked again while the answer is under way: what was sent just now is not sent twice.
            self.counters.sim_rx_duplicates += 1;
            job.wanted |= wanted & !low_bits(job.wanted.trailing_zeros().min(63));
        } else if wanted != 0 && self.jobs.len() < MAX_JOBS {
            self.jobs.push_back(ReadJob {
                conn: index,
                token: header.psn,
                addr: header.addr,
                rkey: header.rkey,
                len: header.length,
                piece_len: header.piece,
                wanted,
                turn: 0,
            });
        }
    }

    /// A piece that was read has arrived.
    pub(super) fn on_read_response<M: Memory + ?Sized>(
        &mut self,
        now: u64,
        slot: u32,
        index: u32,
        header: &Header,
        payload: &[u8],
        mem: &mut M,
    ) {
        let mtu = self.config.mtu;
        let Some(conn) = self.conns.get_mut(index) else { return };
        let Some(at) = conn.chunks.iter().position(|chunk| chunk.token == header.psn) else {
            return self.counters.sim_rx_duplicates += 1;
        };
        let Some(chunk) = conn.chunks.get_mut(at) else { return };
        let piece = header.piece;
        if piece >= CHUNK_PIECES || chunk.missing & (1 << piece) == 0 {
            return self.counters.sim_rx_duplicates += 1;
        }
        let start = piece.saturating_mul(mtu);
        if payload.len() as u64 != u64::from(chunk.len.saturating_sub(start).min(mtu)) {
            return self.counters.sim_rx_malformed += 1;
        }
        if chunk.sends == 1 && !chunk.answered {
            conn.pace.measured(now.saturating_sub(chunk.last_ns));
        }
        chunk.answered = true;
        let (wr_index, offset) = (chunk.wr, chunk.offset.saturating_add(start));
        chunk.missing &= !(1 << piece);
        (chunk.last_ns, chunk.progress_ns) = (now, now);
        let whole = chunk.missing == 0;
        let overtaken = !whole && piece == chunk.last_piece;
        if overtaken {
            chunk.overtaken_ns = now.saturating_add(conn.pace.reordering_ns());
        }
        let look_ns = chunk.overtaken_ns;
        conn.pace.progressed(1, conn.pieces_wanted);
        conn.pieces_wanted -= 1;
        if whole {
            conn.close_chunk(at);
        }
        if overtaken {
            self.arm(look_ns);
        }
        let Some(qp) = self.qps.get_mut(slot as usize).and_then(|qp| qp.as_deref_mut()) else { return };
        let pd = qp.config.pd;
        let Some(wr) = qp.wrs.get_mut(wr_index) else { return };
        wr.pieces_done += 1;
        let done = wr.pieces_done >= wr.pieces;
        if let Err(status) = self.mrs.scatter(mem, pd, wr.sges(), offset, payload) {
            self.finish_wr(slot, wr_index, status);
        } else if done {
            self.finish_wr(slot, wr_index, Status::Ok);
        }
        self.wake(index);
    }

    /// The target refuses a read.
    pub(super) fn on_read_refused(&mut self, slot: u32, index: u32, token: u32, status: Status) {
        let Some(conn) = self.conns.get(index) else { return };
        if let Some(wr) = conn.chunks.iter().find(|chunk| chunk.token == token).map(|chunk| chunk.wr) {
            self.finish_wr(slot, wr, status);
            self.wake(index);
        }
    }

    fn lacks_ah(&self, header: &Header) -> bool {
        self.config.rdma_needs_ah && self.ahs.number(&header.src_gid) == AhNumber::UNKNOWN
    }
}

/// The lowest `count` bits, all where `count` is 64 or more.
pub(super) fn low_bits(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
