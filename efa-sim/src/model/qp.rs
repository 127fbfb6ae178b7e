//! A queue pair: its work queues and what is known about entries that are under way.

use std::collections::VecDeque;

use super::slab::{NIL, Slab};
use super::types::{
    Cqn, MAX_INLINE, MAX_RECV_SGES, MAX_SEND_SGES, Pd, QpKind, QpState, Qpn, Remote, SendOp, Sge, Status,
};

/// What a queue pair is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpConfig {
    /// Its number, unique on the device's [`Gid`](super::Gid) across processes.
    pub qpn: Qpn,
    /// Its protection domain.
    pub pd: Pd,
    /// Its protocol.
    pub kind: QpKind,
    /// Where its sends, writes and reads complete.
    pub send_cq: Cqn,
    /// Where its receives complete.
    pub recv_cq: Cqn,
    /// Most send queue entries that are posted and not polled.
    pub sq_depth: u32,
    /// Most receives that are posted and not polled.
    pub rq_depth: u32,
    /// Writes with immediate data use up no receive.
    pub unsolicited_writes: bool,
}

/// What [`Device::modify_qp`](super::Device::modify_qp) changes; `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpChange {
    /// The next state.
    pub state: Option<QpState>,
    /// The key that senders must know.
    pub qkey: Option<u32>,
    /// How often to repeat a message that met no receive; 7 is for ever, as in `ibv_qp_attr::rnr_retry`.
    pub rnr_retry: Option<u8>,
}

/// `rnr_retry` for ever.
pub(super) const RNR_FOREVER: u8 = 7;

/// A send queue entry that has not completed.
#[derive(Clone, Debug)]
pub(super) struct Wr {
    pub(super) wr_id: u64,
    pub(super) order: u64,
    pub(super) op: SendOp,
    pub(super) conn: u32,
    pub(super) sges: [Sge; MAX_SEND_SGES],
    pub(super) sge_count: u8,
    pub(super) inline: Option<[u8; MAX_INLINE]>,
    pub(super) len: u32,
    pub(super) imm: Option<u32>,
    pub(super) remote: Remote,
    pub(super) qkey: u32,
    /// Pieces that it takes, handed to packets, and settled.
    pub(super) pieces: u32,
    pub(super) pieces_taken: u32,
    pub(super) pieces_done: u32,
    /// In the queue of its connection, before `next`.
    pub(super) queued: bool,
    pub(super) next: u32,
}

impl Wr {
    pub(super) fn sges(&self) -> &[Sge] {
        self.sges.get(..usize::from(self.sge_count)).unwrap_or(&[])
    }
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recv {
    pub(super) wr_id: u64,
    pub(super) sges: [Sge; MAX_RECV_SGES],
    pub(super) sge_count: u8,
}

impl Recv {
    pub(super) fn sges(&self) -> &[Sge] {
        self.sges.get(..usize::from(self.sge_count)).unwrap_or(&[])
    }
}

/// A queue pair.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) config: QpConfig,
    pub(super) state: QpState,
    pub(super) qkey: u32,
    pub(super) rnr_retry: u8,
    /// Tells this queue pair from an earlier one of the same number, never 0.
    pub(super) incarnation: u32,
    pub(super) wrs: Slab<Wr>,
    pub(super) posted: u64,
    pub(super) receives: VecDeque<Recv>,
    /// Entries posted whose completions were not polled.
    pub(super) sends_unpolled: u32,
    pub(super) receives_unpolled: u32,
    /// Its connections.
    pub(super) conns: Vec<u32>,
    /// The connection used last, tried first.
    pub(super) recent: u32,
    /// Connections that were told "not ready" and wait for a receive.
    pub(super) starved: VecDeque<u32>,
    pub(super) last_receive_ns: u64,
}

impl Qp {
    pub(super) fn new(config: QpConfig, incarnation: u32) -> Qp {
        Qp {
            config,
            state: QpState::Reset,
            qkey: 0,
            rnr_retry: RNR_FOREVER,
            incarnation,
            wrs: Slab::new(),
            posted: 0,
            receives: VecDeque::new(),
            sends_unpolled: 0,
            receives_unpolled: 0,
            conns: Vec::new(),
            recent: NIL,
            starved: VecDeque::new(),
            last_receive_ns: 0,
        }
    }
}

/// A list of send queue entries, threaded through the slab of their queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrList {
    head: u32,
    tail: u32,
}

impl WrList {
    pub(super) fn new() -> WrList {
        WrList { head: NIL, tail: NIL }
    }

    pub(super) fn front(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(super) fn push_back(&mut self, wrs: &mut Slab<Wr>, index: u32) {
        let Some(wr) = wrs.get_mut(index) else { return };
        wr.queued = true;
        wr.next = NIL;
        match wrs.get_mut(self.tail) {
            Some(tail) => tail.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    pub(super) fn push_front(&mut self, wrs: &mut Slab<Wr>, index: u32) {
        let Some(wr) = wrs.get_mut(index) else { return };
        wr.queued = true;
        wr.next = self.head;
        if self.head == NIL {
            self.tail = index;
        }
        self.head = index;
    }

    pub(super) fn remove(&mut self, wrs: &mut Slab<Wr>, index: u32) {
        let Some(wr) = wrs.get_mut(index).filter(|wr| wr.queued) else { return };
        wr.queued = false;
        let after = wr.next;
        let mut before = NIL;
        let mut at = self.head;
        while at != index {
            let Some(wr) = wrs.get(at) else { return };
            (before, at) = (at, wr.next);
        }
        match wrs.get_mut(before) {
            Some(wr) => wr.next = after,
            None => self.head = after,
        }
        if self.tail == index {
            self.tail = before;
        }
    }
}

/// The pieces that `len` bytes take; nothing takes one, because it too must arrive.
pub(super) fn pieces_of(len: u32, mtu: u32) -> u32 {
    len.div_ceil(mtu.max(1)).max(1)
}

/// A view of a queue pair for the adapter and for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInfo {
    /// Its configuration.
    pub config: QpConfig,
    /// Its state.
    pub state: QpState,
    /// Its key.
    pub qkey: u32,
    /// Its retries of messages that met no receive.
    pub rnr_retry: u8,
    /// Receives that wait for messages.
    pub receives: u32,
    /// Send queue entries that have not completed.
    pub sends: u32,
}

/// The status of a whole operation from the answer to one packet.
pub(super) fn refusal(status: Status) -> Status {
    // A peer that refuses with "done" speaks another protocol.
    if status == Status::Ok { Status::RemoteBadStatus } else { status }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wr() -> Wr {
        Wr {
            wr_id: 0,
            order: 0,
            op: SendOp::Send,
            conn: 0,
            sges: Default::default(),
            sge_count: 0,
            inline: None,
            len: 0,
            imm: None,
            remote: Remote::default(),
            qkey: 0,
            pieces: 1,
            pieces_taken: 0,
            pieces_done: 0,
            queued: false,
            next: NIL,
        }
    }

    #[test]
    fn list_keeps_its_ends_when_entries_leave_anywhere() {
        let mut wrs = Slab::new();
        let ids: Vec<u32> = (0..4).map(|_| wrs.insert(wr())).collect();
        let mut list = WrList::new();
        list.push_back(&mut wrs, ids[1]);
        list.push_back(&mut wrs, ids[2]);
        list.push_front(&mut wrs, ids[0]);
        list.push_back(&mut wrs, ids[3]);
        for gone in [2usize, 3, 0] {
            list.remove(&mut wrs, ids[gone]);
        }
        list.push_back(&mut wrs, ids[2]);
        let mut order = Vec::new();
        while let Some(front) = list.front() {
            order.push(front);
            list.remove(&mut wrs, front);
        }
        assert_eq!(order, [ids[1], ids[2]]);
        assert!(list.is_empty());
    }
}
