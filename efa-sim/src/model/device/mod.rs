//! The device: the state machine that an adapter drives.
//!
//! An adapter holds one lock around a [`Device`] and, while it has it,
//! 1. hands over datagrams with [`Device::handle_datagram`],
//! 2. takes completions with [`Device::poll_cq`],
//! 3. fills its send buffers with [`Device::poll_transmit`] until that returns `None`,
//! 4. calls [`Device::handle_timeout`] once [`Device::next_timeout`] has passed.
//!
//! Nothing is allocated for a packet once tables and queues have reached their working size. Payload is
//! copied once on each side, between the application's memory and the datagram; retransmissions read the
//! application's memory again, which it must leave alone until the completion.

mod config;
mod control;
mod finish;
mod post;
mod rdma;
mod receive;
mod timers;
mod transmit;

use std::collections::{HashMap, VecDeque};

pub use self::config::{DeviceConfig, Features};
use self::rdma::ReadJob;
pub use self::transmit::Transmit;
use super::ah::AhTable;
use super::conn::Conn;
use super::counters::Counters;
use super::cq::CompletionQueue;
use super::faults::Faults;
use super::memory::MrTable;
use super::packet::Header;
use super::qp::Qp;
use super::rng::Rng;
use super::slab::Slab;
use super::types::{Gid, Qpn};

/// Answers that wait to be sent; more are not remembered, the peer asks again.
const MAX_ANSWERS: usize = 1024;

/// A software EFA device.
#[derive(Debug)]
pub struct Device {
    config: DeviceConfig,
    rng: Rng,
    /// By the low bits of their numbers.
    qps: Vec<Option<Box<Qp>>>,
    cqs: Slab<CompletionQueue>,
    mrs: MrTable,
    ahs: AhTable,
    conns: Slab<Conn>,
    conn_of: HashMap<(u32, Gid, Qpn), u32>,
    /// Connections that have something to send, each once.
    ready: VecDeque<u32>,
    /// Packets made for the front of `ready` in a row.
    burst: u32,
    /// Whose turn it is: connections or answers to reads.
    reads_next: bool,
    answers: VecDeque<(Gid, Header)>,
    jobs: VecDeque<ReadJob>,
    /// When acknowledgements that wait must go, about in order.
    ack_timers: VecDeque<(u64, u32)>,
    /// No retransmission or retry is due before this.
    deadline_ns: u64,
    counters: Counters,
    /// What is broken just now.
    pub faults: Faults,
    scratch: Vec<u32>,
}

impl Device {
    /// A device without queue pairs.
    pub fn new(config: DeviceConfig) -> Device {
        let slots = config.max_qp.clamp(1, 1 << 16).next_power_of_two() as usize;
        let mut qps = Vec::new();
        qps.resize_with(slots, || None);
        Device {
            rng: Rng::new(config.seed),
            config,
            qps,
            cqs: Slab::new(),
            mrs: MrTable::default(),
            ahs: AhTable::default(),
            conns: Slab::new(),
            conn_of: HashMap::new(),
            ready: VecDeque::new(),
            burst: 0,
            reads_next: false,
            answers: VecDeque::new(),
            jobs: VecDeque::new(),
            ack_timers: VecDeque::new(),
            deadline_ns: u64::MAX,
            counters: Counters::default(),
            faults: Faults::default(),
            scratch: Vec::new(),
        }
    }

    /// What it was made of.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// What it counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn slot_of(&self, qpn: Qpn) -> u32 {
        qpn.0 & (self.qps.len() as u32 - 1)
    }

    fn qp(&self, slot: u32) -> Option<&Qp> {
        self.qps.get(slot as usize)?.as_deref()
    }

    fn qp_mut(&mut self, slot: u32) -> Option<&mut Qp> {
        self.qps.get_mut(slot as usize)?.as_deref_mut()
    }

    /// The slot of a queue pair that exists.
    fn find_qp(&self, qpn: Qpn) -> Option<u32> {
        let slot = self.slot_of(qpn);
        self.qp(slot).filter(|qp| qp.config.qpn == qpn).map(|_| slot)
    }

    /// The connection of a queue pair to a peer, if there is one.
    fn find_conn(&self, slot: u32, gid: &Gid, qpn: Qpn) -> Option<u32> {
        let recent = self.qp(slot)?.recent;
        if self.conns.get(recent).is_some_and(|conn| conn.qp == slot && conn.qpn == qpn && conn.gid == *gid) {
            return Some(recent);
        }
        self.conn_of.get(&(slot, *gid, qpn)).copied()
    }

    /// The connection of a queue pair to a peer, made if need be.
    fn conn_to(&mut self, slot: u32, gid: Gid, qpn: Qpn) -> u32 {
        let index = match self.find_conn(slot, &gid, qpn) {
            Some(index) => index,
            None => {
                let first_psn = self.config.first_psn.unwrap_or_else(|| self.rng.next_u32());
                let index = self.conns.insert(Conn::new(slot, gid, qpn, first_psn, self.config.window));
                self.conn_of.insert((slot, gid, qpn), index);
                if let Some(qp) = self.qp_mut(slot) {
                    qp.conns.push(index);
                }
                index
            }
        };
        if let Some(qp) = self.qp_mut(slot) {
            qp.recent = index;
        }
        index
    }

    /// Puts a connection in the list of those that have something to send, if it has.
    fn wake(&mut self, index: u32) {
        if let Some(conn) = self.conns.get_mut(index).filter(|conn| !conn.scheduled && conn.has_work()) {
            conn.scheduled = true;
            self.ready.push_back(index);
        }
    }

    /// Makes sure that timers are looked at by `at_ns`.
    fn arm(&mut self, at_ns: u64) {
        self.deadline_ns = self.deadline_ns.min(at_ns);
    }

    /// Queues an answer without a connection's state.
    fn answer(&mut self, gid: Gid, header: Header) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((gid, header));
        }
    }
}
