//! Which packet numbers have arrived: the receiver's half of exactly-once delivery.
//!
//! Numbers are 32 bits and wrap; they are compared by their signed distance, and a sender keeps less than
//! [`RECEIVE_WINDOW`] of them open, so the comparison is never ambiguous.

use super::packet::ACK_WORDS;
use super::types::Status;

/// Numbers that a receiver can tell apart, from the oldest that is missing on.
pub(super) const RECEIVE_WINDOW: u32 = 1024;
/// Numbers that a sender keeps open at most: half, so that one retransmitted late is still inside, and no
/// more than the longest acknowledgement describes.
pub(super) const SEND_WINDOW: u32 = 512;
const WORDS: usize = (RECEIVE_WINDOW / 64) as usize;
const REFUSED: usize = 8;

/// What a number means to the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// Not seen before.
    New,
    /// Delivered before, or settled by the sender.
    Before,
    /// Refused before with this status: refuse it again.
    Refused(Status),
    /// Further ahead than any sender may be.
    Outside,
}

/// The packet numbers of one sender.
#[derive(Clone, Debug)]
pub(super) struct RxWindow {
    base: u32,
    end: u32,
    seen: [u64; WORDS],
    refused: [(u32, Status); REFUSED],
    refused_len: usize,
}

/// `a - b` as numbers that wrap.
pub(super) fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

impl RxWindow {
    /// A window whose first number is `base`.
    pub(super) fn new(base: u32) -> RxWindow {
        RxWindow { base, end: base, seen: [0; WORDS], refused: [(0, Status::Ok); REFUSED], refused_len: 0 }
    }

    /// All numbers before this one have arrived or are settled.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// How far beyond the base the newest arrival is: the bits that an acknowledgement needs.
    pub(super) fn span(&self) -> u32 {
        distance(self.end, self.base).max(0) as u32
    }

    /// What `psn` means here.
    pub(super) fn classify(&self, psn: u32) -> Seen {
        let ahead = distance(psn, self.base);
        if ahead < 0 {
            return Seen::Before;
        }
        if ahead as u32 >= RECEIVE_WINDOW {
            return Seen::Outside;
        }
        if let Some((_, status)) = self.refusals().iter().find(|(refused, _)| *refused == psn) {
            return Seen::Refused(*status);
        }
        if self.is_set(psn) { Seen::Before } else { Seen::New }
    }

    /// Takes in a number that [`RxWindow::classify`] called new.
    pub(super) fn accept(&mut self, psn: u32) {
        self.set(psn);
        self.slide();
    }

    /// Remembers that `psn` was refused, so that a retransmission gets the same answer. False where too
    /// many refusals are remembered already: then the packet is to be dropped, its sender tries again.
    pub(super) fn refuse(&mut self, psn: u32, status: Status) -> bool {
        let Some(slot) = self.refused.get_mut(self.refused_len) else { return false };
        *slot = (psn, status);
        self.refused_len += 1;
        self.set(psn);
        true
    }

    /// Whether another refusal could be remembered.
    pub(super) fn can_refuse(&self) -> bool {
        self.refused_len < REFUSED
    }

    /// The sender has settled everything before `base`: stop waiting for it.
    pub(super) fn settle(&mut self, base: u32) {
        let ahead = distance(base, self.base);
        if ahead <= 0 {
            return;
        }
        if ahead as u32 >= RECEIVE_WINDOW {
            *self = RxWindow::new(base);
            return;
        }
        while self.base != base {
            self.clear(self.base);
            self.base = self.base.wrapping_add(1);
        }
        let mut kept = 0;
        for i in 0..self.refused_len {
            if distance(self.refused[i].0, base) >= 0 {
                self.refused[kept] = self.refused[i];
                kept += 1;
            }
        }
        self.refused_len = kept;
        if distance(self.end, self.base) < 0 {
            self.end = self.base;
        }
        self.slide();
    }

    /// The numbers that arrived from the base on: bit `i` of word `j` is number `base + 64 * j + i`.
    pub(super) fn map(&self) -> [u64; ACK_WORDS] {
        let mut map = [0u64; ACK_WORDS];
        let words = (self.span() as usize).div_ceil(64);
        for (j, word) in map.iter_mut().take(words).enumerate() {
            *word = self.word_at(self.base.wrapping_add(j as u32 * 64));
        }
        for (psn, _) in self.refusals() {
            let at = psn.wrapping_sub(self.base);
            if let Some(word) = map.get_mut((at / 64) as usize) {
                *word &= !(1 << (at % 64));
            }
        }
        map
    }

    fn refusals(&self) -> &[(u32, Status)] {
        self.refused.get(..self.refused_len).unwrap_or(&[])
    }

    /// 64 bits of the ring from `psn` on, which may straddle two words.
    fn word_at(&self, psn: u32) -> u64 {
        let at = psn % RECEIVE_WINDOW;
        let (word, bit) = ((at / 64) as usize, at % 64);
        let low = self.seen[word] >> bit;
        if bit == 0 { low } else { low | self.seen[(word + 1) % WORDS] << (64 - bit) }
    }

    /// Moves the base over what has arrived; a refused number stops it until the sender settles it.
    fn slide(&mut self) {
        while self.is_set(self.base) && !self.refusals().iter().any(|(psn, _)| *psn == self.base) {
            self.clear(self.base);
            self.base = self.base.wrapping_add(1);
        }
    }

    fn is_set(&self, psn: u32) -> bool {
        let at = psn % RECEIVE_WINDOW;
        self.seen[(at / 64) as usize] & 1 << (at % 64) != 0
    }

    fn set(&mut self, psn: u32) {
        let at = psn % RECEIVE_WINDOW;
        self.seen[(at / 64) as usize] |= 1 << (at % 64);
        if distance(psn, self.end) >= 0 {
            self.end = psn.wrapping_add(1);
        }
    }

    fn clear(&mut self, psn: u32) {
        let at = psn % RECEIVE_WINDOW;
        self.seen[(at / 64) as usize] &= !(1 << (at % 64));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of all numbers ever taken in: any order, with repetitions, across the wrap.
        #[test]
        fn each_number_is_new_once(start in prop_oneof![any::<u32>(), Just(u32::MAX - 40)],
                                   offsets in proptest::collection::vec(0u32..200, 0..600)) {
            let mut window = RxWindow::new(start);
            let mut taken = BTreeSet::new();
            for offset in offsets {
                let psn = start.wrapping_add(offset);
                let new = window.classify(psn) == Seen::New;
                prop_assert_eq!(new, taken.insert(offset));
                if new {
                    window.accept(psn);
                }
                let missing = (0..).find(|n| !taken.contains(n)).unwrap_or(0);
                prop_assert_eq!(window.base(), start.wrapping_add(missing));
                let map = window.map();
                for ahead in 0..200 - missing {
                    let bit = map[(ahead / 64) as usize] >> (ahead % 64) & 1 == 1;
                    prop_assert_eq!(bit, taken.contains(&(missing + ahead)));
                }
            }
        }
    }

    #[test]
    fn a_refused_number_is_refused_again_until_settled() {
        let mut window = RxWindow::new(u32::MAX);
        assert!(window.refuse(u32::MAX, Status::RemoteBadAddress));
        window.accept(0);
        assert_eq!(window.classify(u32::MAX), Seen::Refused(Status::RemoteBadAddress));
        assert_eq!((window.base(), window.map()[0]), (u32::MAX, 0b10));
        window.settle(0);
        assert_eq!((window.classify(u32::MAX), window.base()), (Seen::Before, 1));
    }

    #[test]
    fn numbers_far_ahead_are_outside_and_settling_far_ahead_forgets() {
        let mut window = RxWindow::new(5);
        assert_eq!(window.classify(5 + RECEIVE_WINDOW), Seen::Outside);
        window.accept(7);
        window.settle(5 + 3 * RECEIVE_WINDOW);
        assert_eq!((window.base(), window.span()), (5 + 3 * RECEIVE_WINDOW, 0));
    }
}
