//! What time brings: acknowledgements that waited, retransmissions, retries, and giving up.

use super::super::conn::PacketState;
use super::super::qp::RNR_FOREVER;
use super::super::types::Status;
use super::Device;

/// What a connection's timers ask for.
enum Ask {
    /// The peer is silent.
    Fail(Status),
    /// One entry got no answer, though the peer is there.
    FailOne(u32),
}

impl Device {
    /// When [`Device::handle_timeout`] should be called next, in the same nanoseconds as `now` elsewhere.
    /// Calling earlier or more often does no harm.
    pub fn next_timeout(&self) -> Option<u64> {
        let acks = self.ack_timers.front().map_or(u64::MAX, |(at, _)| *at);
        Some(acks.min(self.deadline_ns)).filter(|at| *at != u64::MAX)
    }

    /// Does what is due at `now`. Afterwards [`Device::poll_transmit`] may have something.
    ///
    /// Hand over the datagrams that wait in sockets first: after a pause of the process, answers that have
    /// arrived would otherwise count as missing.
    pub fn handle_timeout(&mut self, now: u64) {
        self.expire_acks(now);
        if now < self.deadline_ns {
            return;
        }
        self.deadline_ns = u64::MAX;
        for index in 0..self.conns.bound() {
            if self.conns.get(index).is_some_and(|conn| conn.outstanding()) {
                self.expire(now, index);
            }
        }
    }

    fn expire_acks(&mut self, now: u64) {
        while let Some((at, index)) = self.ack_timers.front().copied() {
            if at > now {
                break;
            }
            self.ack_timers.pop_front();
            let delay = self.config.ack_delay_ns;
            let Some(conn) = self.conns.get_mut(index) else { continue };
            conn.ack_timed = false;
            if conn.acks_pending == 0 || conn.ack_due {
                continue;
            }
            let due = conn.ack_since_ns.saturating_add(delay);
            if due > now {
                // What this timer was for went on the back of a packet; these came later.
                conn.ack_timed = true;
                self.ack_timers.push_back((due, index));
            } else {
                conn.ack_due = true;
                self.wake(index);
            }
        }
    }

    fn expire(&mut self, now: u64, index: u32) {
        while let Some(ask) = self.expire_packets(now, index).or_else(|| self.expire_reads(now, index)) {
            match ask {
                Ask::Fail(status) => {
                    self.counters.unresponsive_remote_events += 1;
                    self.fail_conn(index, status, |_| true);
                }
                Ask::FailOne(wr) => {
                    self.counters.impaired_remote_conn_events += 1;
                    if let Some(slot) = self.conns.get(index).map(|conn| conn.qp) {
                        self.finish_wr(slot, wr, Status::UnresponsiveRemote);
                    }
                }
            }
        }
        self.wake(index);
    }

    fn expire_packets(&mut self, now: u64, index: u32) -> Option<Ask> {
        let (bounds, timeout) = (self.config.rto, self.config.timeout_ns);
        let forever =
            self.conns.get(index).and_then(|conn| self.qp(conn.qp)).map(|qp| qp.rnr_retry) == Some(RNR_FOREVER);
        let conn = self.conns.get_mut(index)?;
        let rto_ns = conn.pace.rto_ns(&bounds);
        let (mut timed_out, mut next, mut ask) = (0, u64::MAX, None);
        // Where retries never end, one packet asks for all that wait: many would only keep both ends busy.
        let mut asked = false;
        for at in 0..conn.packets.len() {
            let Some(packet) = conn.packets.get(at).copied() else { break };
            match packet.state {
                PacketState::Settled => continue,
                PacketState::NotReady if forever && asked => continue,
                PacketState::NotReady if now >= packet.due_ns => {
                    conn.set_state(at, PacketState::Lost);
                    asked = true;
                }
                PacketState::NotReady => {
                    next = next.min(packet.due_ns);
                    asked = true;
                }
                PacketState::InFlight | PacketState::Lost => {
                    if now.saturating_sub(packet.first_ns) >= timeout {
                        ask = ask.or(Some(packet.wr));
                        continue;
                    }
                    next = next.min(packet.first_ns.saturating_add(timeout));
                    asked |= packet.turned_away;
                    let due = packet.last_ns.saturating_add(rto_ns);
                    if packet.state == PacketState::InFlight && now >= due {
                        conn.set_state(at, PacketState::Lost);
                        timed_out += 1;
                    } else if packet.state == PacketState::InFlight {
                        next = next.min(due);
                    }
                }
            }
        }
        if timed_out > 0 {
            conn.pace.timed_out(now, rto_ns);
            self.counters.retrans_timeout_events += 1;
        } else if let Some(at_ns) = conn.probe(now, conn.pace.probe_ns(&bounds)) {
            next = next.min(at_ns);
        }
        self.arm(next);
        ask.map(|wr| self.give_up(now, index, wr))
    }

    fn expire_reads(&mut self, now: u64, index: u32) -> Option<Ask> {
        let (bounds, timeout) = (self.config.rto, self.config.timeout_ns);
        let conn = self.conns.get_mut(index)?;
        let rto_ns = conn.pace.rto_ns(&bounds);
        let (mut timed_out, mut overtaken, mut next, mut ask) = (0, 0, u64::MAX, None);
        for chunk in &mut conn.chunks {
            if now.saturating_sub(chunk.progress_ns) >= timeout {
                ask = ask.or(Some(chunk.wr));
                continue;
            }
            next = next.min(chunk.progress_ns.saturating_add(timeout));
            let due = chunk.last_ns.saturating_add(rto_ns);
            if chunk.due {
                continue;
            }
            if now >= chunk.overtaken_ns {
                chunk.due = true;
                overtaken += 1;
            } else if now >= due {
                chunk.due = true;
                timed_out += 1;
            } else {
                next = next.min(due).min(chunk.overtaken_ns);
            }
        }
        conn.chunks_due += timed_out + overtaken;
        if overtaken > 0 {
            conn.pace.lost(now);
        }
        if timed_out > 0 {
            conn.pace.timed_out(now, rto_ns);
            self.counters.retrans_timeout_events += 1;
        }
        self.arm(next);
        ask.map(|wr| self.give_up(now, index, wr))
    }

    /// An entry has waited for the total time-out: is it the peer, or this entry alone?
    fn give_up(&self, now: u64, index: u32, wr: u32) -> Ask {
        match self.conns.get(index) {
            Some(conn) if !conn.heard => Ask::Fail(Status::UnreachableRemote),
            Some(conn) if now.saturating_sub(conn.last_heard_ns) < self.config.timeout_ns => Ask::FailOne(wr),
            _ => Ask::Fail(Status::UnresponsiveRemote),
        }
    }
}
