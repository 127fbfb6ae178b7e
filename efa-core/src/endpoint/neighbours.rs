//! Who may touch whose memory inside this process, and who must therefore stay open.
//!
//! Some providers move messages between local endpoints through memory that both map: `shm` and `sm2`, and `efa`
//! and `lnx`, which use `shm` for peers of the same host. Between two endpoints of one process they use the other's
//! mapping itself, and do not notice when the other closes and unmaps it. An endpoint that has a peer of its own
//! process in its address vector may touch that peer's memory whenever it posts or polls; and the peer, once it has
//! been written to, touches the memory of the writer. So the relation is symmetric: an insert makes both neighbours.
//!
//! The rule: while a neighbour is in use, an endpoint that its owner has dropped is not closed, but kept here as it
//! is, *retired*. Nobody polls a retired endpoint, so it touches nobody's memory until it is closed. Closing it does:
//! it gives messages that nobody received back to those who sent them. So what has been inserted is closed before
//! what inserted it, and whoever drops the last one in use closes all that waited for it, in that order. Where
//! endpoints inserted each other there is no such order; the oldest is then closed first. A forgotten endpoint is in
//! use for ever, and so its neighbours are never closed.
//!
//! Only opening, inserting and dropping come here, and nothing is closed or dropped while the lock is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Address;
use super::parts::Parts;
use crate::error::{Error, Result};

/// The part of an address by which its provider tells endpoints apart, so that no two spellings of one differ.
type Identity = Vec<u8>;

/// An endpoint's place among those of this process; `None` where the provider shares no memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member(Option<u64>);

static PROCESS: Mutex<Registry<Parts>> = Mutex::new(Registry::new());

fn process() -> MutexGuard<'static, Registry<Parts>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a new endpoint known, if its provider is one that shares memory.
pub(super) fn join(provider: &str, address: impl FnOnce() -> Result<Address>) -> Result<Member> {
    if !shares_memory(provider) {
        return Ok(Member(None));
    }
    let identity = identity(provider, address()?.as_bytes());
    Ok(Member(Some(process().join(identity))))
}

/// Notes that `member` is about to insert an address, which makes it and the endpoint there neighbours.
///
/// # Errors
///
/// [`Error::Invalid`] when the address belonged to an endpoint of this process that its owner has dropped:
/// providers would use the memory that it had.
pub(super) fn meet(member: Member, provider: &str, address: &Address) -> Result<()> {
    let Member(Some(member)) = member else { return Ok(()) };
    if process().meet(member, &identity(provider, address.as_bytes())) {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "peer address",
        value: address.to_string(),
        reason: "it belonged to an endpoint of this process that has been closed".into(),
    })
}

/// What may be closed now, in this order.
pub(super) struct Leaver<P> {
    pub(super) parts: P,
    /// Whether it is the endpoint that was given up, and not one that waited for it.
    pub(super) own: bool,
}

/// Gives up an endpoint: it and those that waited for it come back as far as nobody needs them, to be closed one after
/// the other.
pub(super) fn leave(member: Member, parts: Parts) -> Vec<Leaver<Parts>> {
    match member.0 {
        Some(member) => process().leave(member, parts),
        None => vec![Leaver { parts, own: true }],
    }
}

/// By a part of the name, because providers are stacked (`shm;ofi_...`). One too many keeps memory for longer.
fn shares_memory(provider: &str) -> bool {
    ["shm", "sm2", "lnx", "efa"].iter().any(|name| provider.contains(name))
}

fn identity(provider: &str, address: &[u8]) -> Identity {
    if provider.contains("shm") || provider.contains("sm2") {
        // A string; the providers leave out everything up to "://".
        let text = address.split(|byte| *byte == 0).next().unwrap_or_default();
        let start = text.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
        return text[start..].to_vec();
    }
    if provider.contains("efa") && address.len() >= 24 {
        // GID (16 bytes), queue pair (2), padding (2), queue key (4), and a pointer that is not compared.
        return [&address[..18], &address[20..24]].concat();
    }
    let end = address.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    address[..end].to_vec()
}

/// The endpoints of a process; generic, so that it can be tested without any.
struct Registry<P> {
    next: u64,
    members: BTreeMap<u64, Entry<P>>,
    /// Of endpoints that were closed: no provider takes a name twice, and none forgets it.
    closed: BTreeSet<Identity>,
}

struct Entry<P> {
    identity: Identity,
    neighbours: BTreeSet<u64>,
    /// Those of them that it may have written to.
    peers: BTreeSet<u64>,
    /// Every address inserted, since an endpoint that has it may be opened only afterwards.
    inserted: BTreeSet<Identity>,
    /// Present once the owner has dropped it.
    retired: Option<P>,
}

impl<P> Registry<P> {
    const fn new() -> Registry<P> {
        Registry { next: 0, members: BTreeMap::new(), closed: BTreeSet::new() }
    }

    fn join(&mut self, identity: Identity) -> u64 {
        self.next += 1;
        self.closed.remove(&identity);
        let expected = self.members.iter().filter(|(_, other)| other.inserted.contains(&identity));
        let expected: Vec<u64> = expected.map(|(key, _)| *key).collect();
        let (neighbours, peers, inserted) = Default::default();
        self.members.insert(self.next, Entry { identity, neighbours, peers, inserted, retired: None });
        expected.into_iter().for_each(|other| self.connect(other, self.next));
        self.next
    }

    /// Whether the address may be inserted.
    fn meet(&mut self, member: u64, identity: &Identity) -> bool {
        let there = self.members.iter().filter(|(_, other)| other.identity == *identity);
        let there: Vec<(u64, bool)> = there.map(|(key, other)| (*key, other.retired.is_some())).collect();
        if self.closed.contains(identity) || there.iter().any(|(_, retired)| *retired) {
            return false;
        }
        if let Some(entry) = self.members.get_mut(&member) {
            entry.inserted.insert(identity.clone());
        }
        there.into_iter().for_each(|(other, _)| self.connect(member, other));
        true
    }

    /// Makes them neighbours, where `from` may write to `to`. Its own memory an endpoint has as long as itself.
    fn connect(&mut self, from: u64, to: u64) {
        if from == to {
            return;
        }
        if let Some(entry) = self.members.get_mut(&from) {
            entry.neighbours.insert(to);
            entry.peers.insert(to);
        }
        if let Some(entry) = self.members.get_mut(&to) {
            entry.neighbours.insert(from);
        }
    }

    fn leave(&mut self, member: u64, parts: P) -> Vec<Leaver<P>> {
        match self.members.get_mut(&member) {
            Some(entry) => entry.retired = Some(parts),
            None => return vec![Leaver { parts, own: true }],
        }
        let mut ready = self.ready();
        let mut leavers = Vec::new();
        while let Some(first) = ready.first() {
            // One that has written to none of the others, if there is any.
            let next = ready.iter().find(|key| self.members.get(key).is_some_and(|e| e.peers.is_disjoint(&ready)));
            let next = *next.unwrap_or(first);
            ready.remove(&next);
            if let Some(parts) = self.take(next) {
                leavers.push(Leaver { parts, own: next == member });
            }
        }
        leavers
    }

    /// The retired members that no one in use can touch, nor one that has to wait longer.
    fn ready(&self) -> BTreeSet<u64> {
        let in_use = |key: &u64| self.members.get(key).is_some_and(|entry| entry.retired.is_none());
        let candidates =
            self.members.iter().filter(|(_, entry)| entry.retired.is_some() && !entry.neighbours.iter().any(in_use));
        let mut ready: BTreeSet<u64> = candidates.map(|(key, _)| *key).collect();
        loop {
            let waits = |key: &&u64| self.members.get(key).is_some_and(|entry| !entry.peers.is_subset(&ready));
            let waiting: Vec<u64> = ready.iter().filter(waits).copied().collect();
            if waiting.is_empty() {
                return ready;
            }
            waiting.iter().for_each(|key| {
                ready.remove(key);
            });
        }
    }

    /// Takes a retired member out.
    fn take(&mut self, member: u64) -> Option<P> {
        let entry = self.members.remove(&member)?;
        for neighbour in &entry.neighbours {
            if let Some(neighbour) = self.members.get_mut(neighbour) {
                neighbour.neighbours.remove(&member);
                neighbour.peers.remove(&member);
            }
        }
        self.closed.insert(entry.identity);
        entry.retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    /// A registry of the three, with these neighbours.
    fn registry(pairs: &[(usize, usize)]) -> (Registry<&'static str>, [u64; 3]) {
        let mut registry = Registry::new();
        let keys = NAMES.map(|name| registry.join(name.into()));
        for (one, two) in pairs {
            assert!(registry.meet(keys[*one], &NAMES[*two].into()));
        }
        (registry, keys)
    }

    /// Leaves, and what is to be closed then.
    fn leave(registry: &mut Registry<&'static str>, keys: [u64; 3], which: usize) -> Vec<&'static str> {
        let leavers = registry.leave(keys[which], NAMES[which]);
        assert!(leavers.iter().all(|leaver| leaver.own == (leaver.parts == NAMES[which])));
        leavers.into_iter().map(|leaver| leaver.parts).collect()
    }

    #[test]
    fn strangers_and_those_that_know_only_themselves_close_at_once() {
        let (mut registry, keys) = registry(&[(0, 0)]);
        assert_eq!(leave(&mut registry, keys, 0), ["a"]);
        assert_eq!(leave(&mut registry, keys, 1), ["b"]);
        assert!(registry.meet(keys[2], &"elsewhere".into()), "an endpoint of another process");
    }

    #[test]
    fn of_two_neighbours_the_first_waits_for_the_second_whoever_inserted_whom() {
        // What was inserted goes before what inserted it, and the older of two that inserted each other.
        for (pairs, order) in
            [(&[(0, 1)][..], ["b", "a"]), (&[(1, 0)], ["a", "b"]), (&[(0, 1), (1, 0), (0, 1)], ["a", "b"])]
        {
            for first in [0, 1] {
                let (mut registry, keys) = registry(pairs);
                assert!(leave(&mut registry, keys, first).is_empty());
                assert_eq!(leave(&mut registry, keys, 1 - first), order);
                assert_eq!(registry.members.len(), 1);
            }
        }
    }

    #[test]
    fn an_address_inserted_before_its_endpoint_is_opened_counts_as_well() {
        let (mut registry, keys) = registry(&[]);
        assert!(registry.meet(keys[0], &"later".into()));
        let later = registry.join("later".into());
        assert!(registry.leave(later, "later").is_empty());
        assert_eq!(leave(&mut registry, keys, 0), ["later", "a"]);
    }

    #[test]
    fn in_a_chain_each_waits_for_what_it_has_written_to() {
        let (mut one, keys) = registry(&[(0, 1), (1, 2)]);
        assert!(leave(&mut one, keys, 1).is_empty());
        assert!(leave(&mut one, keys, 0).is_empty(), "b may have messages of a, and has to wait for c");
        assert_eq!(leave(&mut one, keys, 2), ["c", "b", "a"]);
        let (mut two, keys) = registry(&[(1, 0), (1, 2)]);
        assert!(leave(&mut two, keys, 0).is_empty());
        assert_eq!(leave(&mut two, keys, 1), ["a"]);
        assert_eq!(leave(&mut two, keys, 2), ["c", "b"]);
        assert!(one.members.is_empty() && two.members.is_empty());
    }

    #[test]
    fn a_ring_closes_with_its_last() {
        let (mut registry, keys) = registry(&[(0, 1), (1, 2), (2, 0)]);
        assert!(leave(&mut registry, keys, 0).is_empty());
        assert!(leave(&mut registry, keys, 1).is_empty());
        assert_eq!(leave(&mut registry, keys, 2), ["a", "c", "b"]);
    }

    #[test]
    fn addresses_of_what_was_dropped_are_refused_and_those_of_a_new_endpoint_are_not() {
        let (mut registry, keys) = registry(&[(0, 1)]);
        assert!(leave(&mut registry, keys, 1).is_empty());
        assert!(!registry.meet(keys[2], &"b".into()), "retired");
        assert_eq!(leave(&mut registry, keys, 0).len(), 2);
        assert!(!registry.meet(keys[2], &"b".into()), "closed");
        registry.join("b".into());
        assert!(registry.meet(keys[2], &"b".into()));
    }

    #[test]
    fn spellings_of_one_address_are_one_identity() {
        let of = |provider, address: &[u8]| identity(provider, address);
        assert_eq!(of("shm", b"fi_shm://1:0:0\0"), of("shm", b"fi_ns://1:0:0\0junk"));
        assert_eq!(of("shm", b"1:0:0"), of("shm", b"fi_shm://1:0:0"));
        assert_ne!(of("shm", b"fi_shm://1:0:0"), of("shm", b"fi_shm://1:0:1"));
        let (mut one, mut two) = ([7; 32], [7; 32]);
        (one[18], two[31]) = (1, 1);
        assert_eq!(of("efa", &one), of("efa", &two));
        two[20] = 1;
        assert_ne!(of("efa", &one), of("efa", &two));
        assert_eq!(of("lnx", b"x\0y\0\0"), of("lnx", b"x\0y"));
        assert!(["", "\0", "://", "efa"].iter().all(|odd| of("shm", odd.as_bytes()).len() <= 3));
        assert!(of("efa", &[]).is_empty() && !shares_memory("tcp;ofi_rxm") && shares_memory("shm"));
    }
}
