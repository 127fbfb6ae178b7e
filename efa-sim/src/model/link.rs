//! A simulated link: latency, bandwidth, loss, duplication, reordering.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::device::Transmit;
use super::rng::Rng;

/// What a link does to datagrams. Chances are in parts per million; the default is a perfect link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkConfig {
    /// Nanoseconds from one end to the other.
    pub latency_ns: u64,
    /// Bytes per second, 0 for no limit.
    pub bytes_per_sec: u64,
    /// Chance that a datagram vanishes.
    pub loss_ppm: u32,
    /// Chance that it arrives twice.
    pub duplicate_ppm: u32,
    /// Chance that it is held back.
    pub reorder_ppm: u32,
    /// How long it is then held back, at most.
    pub reorder_ns: u64,
}

impl LinkConfig {
    /// Whether datagrams pass it unchanged and at once, so that an adapter need not use it.
    pub fn is_transparent(&self) -> bool {
        *self == LinkConfig { reorder_ns: self.reorder_ns, ..LinkConfig::default() }
    }
}

/// One direction of a link, which holds datagrams until they are due.
///
/// Buffers are reused: once the link has held its usual number of datagrams, nothing is allocated.
#[derive(Debug)]
pub struct Link {
    /// What it does from now on.
    pub config: LinkConfig,
    rng: Rng,
    idle_at_ns: u64,
    order: u64,
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<(Transmit, Vec<u8>)>,
    free: Vec<usize>,
    lost: u64,
}

impl Link {
    /// A link whose faults depend on `seed` alone.
    pub fn new(config: LinkConfig, seed: u64) -> Link {
        Link {
            config,
            rng: Rng::new(seed),
            idle_at_ns: 0,
            order: 0,
            due: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            lost: 0,
        }
    }

    /// Sends a datagram at `now`.
    pub fn push(&mut self, now: u64, transmit: Transmit, bytes: &[u8]) {
        if self.rng.chance(self.config.loss_ppm) {
            self.lost += 1;
            return;
        }
        let copies = if self.rng.chance(self.config.duplicate_ppm) { 2 } else { 1 };
        for _ in 0..copies {
            let mut due = self.serialized(now, bytes.len()).saturating_add(self.config.latency_ns);
            if self.rng.chance(self.config.reorder_ppm) {
                due = due.saturating_add(self.rng.below(self.config.reorder_ns.saturating_add(1)));
            }
            self.hold(due, transmit, bytes);
        }
    }

    /// When the next datagram arrives.
    pub fn next_due(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due, _, _))| *due)
    }

    /// Takes a datagram that has arrived by `now` out into `out`, which must have room for it.
    pub fn pop(&mut self, now: u64, out: &mut [u8]) -> Option<Transmit> {
        let Reverse((due, _, index)) = *self.due.peek()?;
        if due > now {
            return None;
        }
        self.due.pop();
        self.free.push(index);
        let (transmit, bytes) = self.slots.get(index)?;
        out.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(*transmit)
    }

    /// Datagrams under way.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Datagrams that vanished.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// When the last byte has left, one datagram after another.
    fn serialized(&mut self, now: u64, len: usize) -> u64 {
        if self.config.bytes_per_sec == 0 {
            return now;
        }
        let takes = len as u128 * 1_000_000_000 / u128::from(self.config.bytes_per_sec);
        self.idle_at_ns = self.idle_at_ns.max(now).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
        self.idle_at_ns
    }

    fn hold(&mut self, due: u64, transmit: Transmit, bytes: &[u8]) {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push((transmit, Vec::new()));
                self.slots.len() - 1
            }
        };
        if let Some((slot, buffer)) = self.slots.get_mut(index) {
            *slot = transmit;
            buffer.clear();
            buffer.extend_from_slice(bytes);
            self.due.push(Reverse((due, self.order, index)));
            self.order += 1;
        }
    }
}
