//! A fabric of devices, links between them, and a clock that jumps from event to event.

use std::collections::VecDeque;

use super::super::link::{Link, LinkConfig};
use super::super::*;

pub(super) const KEY: packet::FabricKey = *b"a key of 16 byte";
pub(super) const QKEY: u32 = 0x1234_5678;
/// Where each node's memory starts, and how much there is.
pub(super) const BASE: u64 = 0x10_0000;
pub(super) const SIZE: usize = 4 << 20;

/// A device, its memory, a queue pair and what completed.
pub(super) struct Node {
    pub(super) device: Device,
    pub(super) mem: FlatMemory,
    pub(super) cq: Cqn,
    pub(super) qpn: Qpn,
    pub(super) qkey: u32,
    pub(super) mr: MrKey,
    pub(super) done: VecDeque<Completion>,
    /// Does not poll, so that what moves moves without it.
    pub(super) asleep: bool,
    link: Link,
}

/// All nodes; time is in nanoseconds.
pub(super) struct Net {
    pub(super) now: u64,
    pub(super) nodes: Vec<Node>,
    buffer: Vec<u8>,
}

pub(super) fn gid(node: usize) -> Gid {
    let mut bytes = [0; 16];
    bytes[15] = node as u8 + 1;
    Gid(bytes)
}

pub(super) fn config(node: usize, seed: u64) -> DeviceConfig {
    let mut config = DeviceConfig::new(gid(node), KEY, seed.wrapping_mul(31).wrapping_add(node as u64));
    config.mtu = 1024;
    config.rto = RtoBounds { first_ns: 1_000_000, min_ns: 200_000, max_ns: 5_000_000 };
    config.timeout_ns = 2_000_000_000;
    config
}

pub(super) fn qp_config(qpn: u32, cq: Cqn) -> QpConfig {
    QpConfig {
        qpn: Qpn(qpn),
        pd: Pd(1),
        kind: QpKind::Srd,
        send_cq: cq,
        recv_cq: cq,
        sq_depth: 4096,
        rq_depth: 4096,
        unsolicited_writes: false,
    }
}

/// Makes a queue pair and brings it up.
pub(super) fn open_qp(device: &mut Device, config: QpConfig) {
    open_qp_with(device, config, QKEY);
}

/// The same with a key of its own.
pub(super) fn open_qp_with(device: &mut Device, config: QpConfig, qkey: u32) {
    device.create_qp(config).expect("queue pair");
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let change = QpChange { state: Some(state), qkey: Some(qkey), rnr_retry: None };
        device.modify_qp(config.qpn, change).expect("state");
    }
}

impl Node {
    fn poll(&mut self) {
        while !self.asleep
            && let Some(completion) = self.device.poll_cq(self.cq)
        {
            self.done.push_back(completion);
        }
    }
}

impl Net {
    /// `count` nodes, each with an address handle for each; `tweak` changes their configurations.
    pub(super) fn new(count: usize, seed: u64, link: LinkConfig, tweak: impl Fn(usize, &mut DeviceConfig)) -> Net {
        let nodes = (0..count)
            .map(|i| {
                let mut config = config(i, seed);
                tweak(i, &mut config);
                let mut device = Device::new(config);
                let cq = device.create_cq(16384).expect("queue");
                let qpn = Qpn(7 + i as u32);
                open_qp(&mut device, qp_config(qpn.0, cq));
                let access = Access::LOCAL_WRITE.with(Access::REMOTE_READ).with(Access::REMOTE_WRITE);
                let mr = MrConfig { pd: Pd(1), addr: BASE, len: SIZE as u64, iova: BASE, access };
                let mr = device.register(mr).expect("registration");
                for peer in 0..count {
                    assert_eq!(device.create_ah(gid(peer)), Ok(AhNumber(peer as u16)));
                }
                let mem = FlatMemory::new(BASE, SIZE);
                let link = Link::new(link, seed ^ (0xabc << i));
                Node { device, mem, cq, qpn, qkey: QKEY, mr, done: VecDeque::new(), asleep: false, link }
            })
            .collect();
        Net { now: 1, nodes, buffer: vec![0; 65536] }
    }

    pub(super) fn pair(seed: u64) -> Net {
        let link = LinkConfig { latency_ns: 5_000, ..LinkConfig::default() };
        Net::new(2, seed, link, |_, _| {})
    }

    pub(super) fn dest(&self, node: usize) -> Destination {
        Destination { ah: AhNumber(node as u16), qpn: self.nodes[node].qpn, qkey: self.nodes[node].qkey }
    }

    /// Memory of a node as one piece.
    pub(super) fn sge(&self, node: usize, offset: usize, len: usize) -> Sge {
        Sge { addr: BASE + offset as u64, len: len as u32, lkey: self.nodes[node].mr.0 }
    }

    pub(super) fn fill(&mut self, node: usize, offset: usize, bytes: &[u8]) {
        self.nodes[node].mem.write(BASE + offset as u64, bytes);
    }

    pub(super) fn bytes(&self, node: usize, offset: usize, len: usize) -> &[u8] {
        self.nodes[node].mem.slice(BASE + offset as u64, len)
    }

    pub(super) fn post_recv(&mut self, node: usize, wr_id: u64, offset: usize, len: usize) {
        let sge = self.sge(node, offset, len);
        let node = &mut self.nodes[node];
        node.device.post_recv(node.qpn, RecvWr { wr_id, sges: &[sge] }).expect("posted");
    }

    /// A send, write or read between the memory of `from` at `local` and that of `to` at `remote`.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn post(
        &mut self,
        op: SendOp,
        (from, to): (usize, usize),
        wr_id: u64,
        local: usize,
        remote: usize,
        len: usize,
        imm: Option<u32>,
    ) {
        let sges = [self.sge(from, local, len)];
        let remote = Remote { addr: BASE + remote as u64, rkey: self.nodes[to].mr.0 };
        let dest = self.dest(to);
        self.post_wr(from, SendWr { wr_id, op, payload: Payload::Sges(&sges), imm, dest, remote });
    }

    pub(super) fn post_wr(&mut self, from: usize, wr: SendWr<'_>) {
        let now = self.now;
        let node = &mut self.nodes[from];
        node.device.post_send(now, node.qpn, wr).expect("posted");
    }

    /// Hands a datagram from nowhere to a node.
    pub(super) fn arrive(&mut self, node: usize, datagram: &[u8]) {
        let node = &mut self.nodes[node];
        node.device.handle_datagram(self.now, datagram, &mut node.mem);
    }

    /// What a node sends now, kept from the link.
    pub(super) fn capture(&mut self, node: usize) -> Vec<Vec<u8>> {
        let node = &mut self.nodes[node];
        let mut datagrams = Vec::new();
        while let Some(made) = node.device.poll_transmit(self.now, &node.mem, &mut self.buffer) {
            datagrams.push(self.buffer[..made.len].to_vec());
        }
        datagrams
    }

    /// Moves everything that can move at this moment.
    pub(super) fn settle(&mut self) {
        for node in &mut self.nodes {
            if node.device.next_timeout().is_some_and(|at| at <= self.now) {
                node.device.handle_timeout(self.now);
            }
            node.poll();
        }
        loop {
            for node in &mut self.nodes {
                while let Some(made) = node.device.poll_transmit(self.now, &node.mem, &mut self.buffer) {
                    node.link.push(self.now, made, &self.buffer[..made.len]);
                }
                // Sending may end operations too, whose memory is gone.
                node.poll();
            }
            let mut moved = false;
            for from in 0..self.nodes.len() {
                while let Some(arrived) = self.nodes[from].link.pop(self.now, &mut self.buffer) {
                    moved = true;
                    let Some(to) = (0..self.nodes.len()).find(|to| gid(*to) == arrived.dst) else { continue };
                    let node = &mut self.nodes[to];
                    node.device.handle_datagram(self.now, &self.buffer[..arrived.len], &mut node.mem);
                    node.poll();
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<u64> {
        let timers = self.nodes.iter().filter_map(|node| node.device.next_timeout());
        let links = self.nodes.iter().filter_map(|node| node.link.next_due());
        timers.chain(links).min()
    }

    /// Runs until `until` holds; false where `limit_ns` passed or nothing is left to happen.
    pub(super) fn run(&mut self, limit_ns: u64, mut until: impl FnMut(&Net) -> bool) -> bool {
        let end = self.now + limit_ns;
        loop {
            self.settle();
            if until(self) {
                return true;
            }
            match self.next() {
                Some(next) if next <= end => self.now = next.max(self.now + 1),
                _ => {
                    self.settle();
                    return until(self);
                }
            }
        }
    }

    /// Runs until nothing is left to happen or `limit_ns` passed.
    pub(super) fn drain(&mut self, limit_ns: u64) {
        self.run(limit_ns, |_| false);
    }

    pub(super) fn done(&mut self, node: usize) -> Vec<Completion> {
        self.nodes[node].done.drain(..).collect()
    }
}

/// Bytes that depend on their place and on the message.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = rng::Rng::new(seed);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}
