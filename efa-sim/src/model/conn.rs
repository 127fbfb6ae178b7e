//! What a queue pair knows about one peer queue pair: the two windows, the reads, the estimates.

use std::collections::VecDeque;

use super::pace::{Pace, WindowBounds};
use super::packet::ACK_WORDS;
use super::qp::{RNR_FOREVER, WrList};
use super::types::{Gid, Qpn};
use super::window::{RxWindow, SEND_WINDOW, distance};

/// Read requests that one connection keeps open.
pub(super) const MAX_CHUNKS: usize = 16;
/// Pieces that one read request asks for at most: the bits of its map.
pub(super) const CHUNK_PIECES: u32 = 64;

/// What a numbered packet waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PacketState {
    /// Its acknowledgement.
    InFlight,
    /// Being sent again.
    Lost,
    /// The receiver to be ready, until `due_ns`.
    NotReady,
    /// Nothing: acknowledged, refused or given up.
    Settled,
}

/// A numbered packet of the send window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) wr: u32,
    pub(super) piece: u32,
    pub(super) state: PacketState,
    pub(super) sends: u32,
    /// Retries used up by "not ready" answers.
    pub(super) not_ready: u32,
    /// It met no receive, at least once.
    pub(super) turned_away: bool,
    /// When its total time-out started.
    pub(super) first_ns: u64,
    /// When it was sent last.
    pub(super) last_ns: u64,
    /// When it may be sent again, while not ready.
    pub(super) due_ns: u64,
}

impl Packet {
    /// Whether it is not settled.
    pub(super) fn waits(&self) -> bool {
        self.state != PacketState::Settled
    }
}

/// A read request that has not been answered in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) wr: u32,
    pub(super) token: u32,
    /// First byte within the whole read.
    pub(super) offset: u32,
    pub(super) len: u32,
    /// Pieces that have not arrived.
    pub(super) missing: u64,
    /// To be sent, for the first time or again.
    pub(super) due: bool,
    pub(super) sends: u32,
    /// A piece has arrived.
    pub(super) answered: bool,
    /// When what is missing counts as lost, because the last piece that was asked for has come.
    pub(super) overtaken_ns: u64,
    /// The last piece that was asked for.
    pub(super) last_piece: u32,
    /// When it was sent or answered last.
    pub(super) last_ns: u64,
    /// When it was first sent or last answered: its total time-out counts from here.
    pub(super) progress_ns: u64,
}

/// One peer queue pair.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) qp: u32,
    pub(super) gid: Gid,
    pub(super) qpn: Qpn,
    /// The peer's incarnation, 0 before it was heard.
    pub(super) incarnation: u32,
    /// Incarnations that are gone, whose late packets mean nothing.
    pub(super) gone: [u32; 2],
    pub(super) heard: bool,
    pub(super) last_heard_ns: u64,
    pub(super) pace: Pace,
    /// The newest packet was sent again to break a silence, which happens once.
    pub(super) probed: bool,
    /// Sends and writes that are not wholly in packets.
    pub(super) queue: WrList,
    /// Numbered packets from `base` on.
    pub(super) packets: VecDeque<Packet>,
    pub(super) base: u32,
    pub(super) in_flight: u32,
    pub(super) lost: u32,
    /// Reads that are not wholly in chunks.
    pub(super) reads: WrList,
    pub(super) chunks: Vec<Chunk>,
    pub(super) chunks_due: u32,
    pub(super) pieces_wanted: u32,
    pub(super) next_token: u32,
    /// The peer's packets, once there was one.
    pub(super) rx: Option<RxWindow>,
    pub(super) acks_pending: u32,
    pub(super) ack_since_ns: u64,
    pub(super) ack_due: bool,
    pub(super) ack_timed: bool,
    /// The next acknowledgement tells the peer that receives are posted again.
    pub(super) ready_due: bool,
    pub(super) starved: bool,
    /// In the device's list of connections that have something to send.
    pub(super) scheduled: bool,
}

/// What an acknowledgement settled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    pub(super) packets: u32,
    pub(super) newest_sent_ns: u64,
    pub(super) rtt_ns: Option<u64>,
    /// Packets among them that had met no receive before.
    pub(super) were_not_ready: u32,
}

impl Conn {
    pub(super) fn new(qp: u32, gid: Gid, qpn: Qpn, first_psn: u32, window: WindowBounds) -> Conn {
        Conn {
            qp,
            gid,
            qpn,
            incarnation: 0,
            gone: [0; 2],
            heard: false,
            last_heard_ns: 0,
            pace: Pace::new(window),
            probed: false,
            queue: WrList::new(),
            packets: VecDeque::new(),
            base: first_psn,
            in_flight: 0,
            lost: 0,
            reads: WrList::new(),
            chunks: Vec::new(),
            chunks_due: 0,
            pieces_wanted: 0,
            next_token: first_psn,
            rx: None,
            acks_pending: 0,
            ack_since_ns: 0,
            ack_due: false,
            ack_timed: false,
            ready_due: false,
            starved: false,
            scheduled: false,
        }
    }

    /// Whether a packet could be made for it now.
    pub(super) fn has_work(&self) -> bool {
        self.ack_due
            || self.ready_due
            || self.chunks_due > 0
            || (self.in_flight < self.pace.window()
                && (self.lost > 0 || (!self.queue.is_empty() && self.packets.len() < SEND_WINDOW as usize)))
            || (!self.reads.is_empty() && self.read_room())
    }

    /// Whether another read request may be opened.
    pub(super) fn read_room(&self) -> bool {
        self.chunks.len() < MAX_CHUNKS && self.pieces_wanted < self.pace.window()
    }

    /// Whether anything waits for the peer.
    pub(super) fn outstanding(&self) -> bool {
        !self.packets.is_empty() || !self.chunks.is_empty()
    }

    /// The number of the packet at `at` in the window.
    pub(super) fn psn(&self, at: usize) -> u32 {
        self.base.wrapping_add(at as u32)
    }

    /// Where number `psn` is in the window.
    pub(super) fn position(&self, psn: u32) -> Option<usize> {
        let at = usize::try_from(distance(psn, self.base)).ok()?;
        (at < self.packets.len()).then_some(at)
    }

    /// Changes the state of a packet and keeps the counts.
    pub(super) fn set_state(&mut self, at: usize, state: PacketState) {
        let Some(packet) = self.packets.get_mut(at) else { return };
        match packet.state {
            PacketState::InFlight => self.in_flight -= 1,
            PacketState::Lost => self.lost -= 1,
            PacketState::NotReady | PacketState::Settled => {}
        }
        packet.state = state;
        match state {
            PacketState::InFlight => self.in_flight += 1,
            PacketState::Lost => self.lost += 1,
            PacketState::NotReady | PacketState::Settled => {}
        }
    }

    /// Moves the window's base over what is settled.
    pub(super) fn slide(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.state == PacketState::Settled) {
            self.packets.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }

    /// Settles what the peer acknowledges and appends the entries that had a piece settled to `touched`.
    pub(super) fn acknowledge(
        &mut self,
        now: u64,
        ack: u32,
        words: &[u64; ACK_WORDS],
        touched: &mut Vec<u32>,
    ) -> Acked {
        let mut acked = Acked::default();
        let ahead = distance(ack, self.base);
        if ahead < 0 || ahead as usize > self.packets.len() {
            // Late, or about numbers that were never sent.
            return acked;
        }
        let ahead = ahead as usize;
        for at in 0..ahead {
            self.acknowledge_one(now, at, &mut acked, touched);
        }
        for (j, word) in words.iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                let at = ahead + j * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.acknowledge_one(now, at, &mut acked, touched);
            }
        }
        if acked.packets > 0 {
            self.slide();
        }
        acked
    }

    /// Marks as lost what was sent well before something that was acknowledged. Returns how many.
    pub(super) fn mark_overtaken(&mut self, newest_sent_ns: u64) -> u32 {
        let margin = self.pace.reordering_ns();
        let mut marked = 0;
        for at in 0..self.packets.len() {
            let Some(packet) = self.packets.get(at) else { break };
            if packet.state == PacketState::InFlight && packet.last_ns.saturating_add(margin) < newest_sent_ns {
                self.set_state(at, PacketState::Lost);
                marked += 1;
            }
        }
        marked
    }

    /// The receiver had no buffer for `psn`. `None` where that is old news; else when it is tried again, or
    /// the entry whose retries are used up.
    pub(super) fn not_ready(
        &mut self,
        now: u64,
        psn: u32,
        retries: u8,
        delay_ns: u64,
        longest_ns: u64,
    ) -> Option<Result<u64, u32>> {
        let at = self.position(psn)?;
        let packet = self.packets.get_mut(at)?;
        if !matches!(packet.state, PacketState::InFlight | PacketState::Lost) {
            return None;
        }
        packet.not_ready += 1;
        packet.turned_away = true;
        if retries != RNR_FOREVER && packet.not_ready > u32::from(retries) {
            return Some(Err(packet.wr));
        }
        let doubled = delay_ns.saturating_mul(1 << (packet.not_ready - 1).min(16));
        packet.due_ns = now.saturating_add(doubled.min(longest_ns));
        // The peer answers: its total time-out starts again.
        packet.first_ns = now;
        let due_ns = packet.due_ns;
        self.set_state(at, PacketState::NotReady);
        Some(Ok(due_ns))
    }

    /// The peer has receives again: the oldest `count` packets that waited for them go out now.
    pub(super) fn receiver_ready(&mut self, count: u32) {
        let mut left = count;
        for at in 0..self.packets.len() {
            if left == 0 {
                break;
            }
            if let Some(packet) = self.packets.get_mut(at).filter(|packet| packet.state == PacketState::NotReady) {
                // A hint is not one of the retries that the application allowed.
                packet.not_ready = packet.not_ready.saturating_sub(1);
                left -= 1;
                self.set_state(at, PacketState::Lost);
            }
        }
    }

    /// Where nothing was heard for `wait_ns` since the newest packet: sends that again, once, so that its
    /// acknowledgement tells what is missing. Else says when to look again.
    pub(super) fn probe(&mut self, now: u64, wait_ns: u64) -> Option<u64> {
        if self.probed || self.lost > 0 {
            return None;
        }
        let (at, packet) =
            self.packets.iter().enumerate().rev().find(|(_, packet)| packet.state == PacketState::InFlight)?;
        let due_ns = packet.last_ns.saturating_add(wait_ns);
        if now < due_ns {
            return Some(due_ns);
        }
        self.probed = true;
        self.set_state(at, PacketState::Lost);
        None
    }

    /// Forgets the pieces of a send queue entry that ended early.
    pub(super) fn abandon(&mut self, wr: u32) {
        for at in 0..self.packets.len() {
            if self.packets.get(at).is_some_and(|packet| packet.wr == wr && packet.state != PacketState::Settled) {
                self.set_state(at, PacketState::Settled);
            }
        }
        self.slide();
        for at in (0..self.chunks.len()).rev() {
            if self.chunks.get(at).is_some_and(|chunk| chunk.wr == wr) {
                self.close_chunk(at);
            }
        }
    }

    /// Removes a read request.
    pub(super) fn close_chunk(&mut self, at: usize) {
        if at < self.chunks.len() {
            let chunk = self.chunks.swap_remove(at);
            self.chunks_due -= u32::from(chunk.due);
            self.pieces_wanted -= chunk.missing.count_ones();
        }
    }

    /// A late packet of an incarnation that is gone.
    pub(super) fn is_gone(&self, incarnation: u32) -> bool {
        self.gone.contains(&incarnation)
    }

    /// The incarnation that was known is gone; the next one is unknown.
    pub(super) fn forget_incarnation(&mut self) {
        if self.incarnation != 0 {
            self.gone = [self.incarnation, self.gone[0]];
        }
        self.incarnation = 0;
        self.rx = None;
        self.acks_pending = 0;
        self.ack_due = false;
    }

    fn acknowledge_one(&mut self, now: u64, at: usize, acked: &mut Acked, touched: &mut Vec<u32>) {
        let Some(packet) = self.packets.get(at).copied() else { return };
        if packet.state == PacketState::Settled {
            return;
        }
        self.set_state(at, PacketState::Settled);
        acked.packets += 1;
        acked.newest_sent_ns = acked.newest_sent_ns.max(packet.last_ns);
        if packet.sends == 1 {
            acked.rtt_ns = Some(now.saturating_sub(packet.last_ns));
        }
        acked.were_not_ready += u32::from(packet.turned_away);
        touched.push(packet.wr);
    }
}
