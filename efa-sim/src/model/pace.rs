//! How long to wait and how much to send: round-trip estimate, retransmission time-out, window.

use super::window::SEND_WINDOW;

/// The bounds of the retransmission time-out, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct RtoBounds {
    /// Before the first measurement.
    pub first_ns: u64,
    /// Never shorter: covers the delay of acknowledgements and of a busy machine's scheduler.
    pub min_ns: u64,
    /// Never longer, however often it was doubled.
    pub max_ns: u64,
}

/// Packets that may be under way to one peer.
#[derive(Clone, Copy, Debug)]
pub struct WindowBounds {
    /// At first: a burst that a socket of ordinary size holds.
    pub first: u32,
    /// At most, never above the 512 that an acknowledgement describes.
    pub max: u32,
}

/// Estimates for one peer.
///
/// Smoothed round trip and variance as in RFC 6298; the window grows by one packet a window acknowledged
/// and halves at most once a round trip when packets are lost, as in RFC 5681, in packets instead of bytes.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    srtt_ns: u64,
    rttvar_ns: u64,
    backoff: u32,
    window: u32,
    credit: u32,
    slow_start_below: u32,
    last_cut_ns: u64,
    last_backoff_ns: u64,
    bounds: WindowBounds,
}

const MIN_WINDOW: u32 = 8;

impl Pace {
    /// Nothing measured yet.
    pub(super) fn new(bounds: WindowBounds) -> Pace {
        let max = bounds.max.clamp(1, SEND_WINDOW);
        Pace {
            srtt_ns: 0,
            rttvar_ns: 0,
            backoff: 0,
            window: bounds.first.clamp(1, max),
            credit: 0,
            slow_start_below: max,
            last_cut_ns: 0,
            last_backoff_ns: 0,
            bounds: WindowBounds { max, ..bounds },
        }
    }

    /// Packets that may be under way.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// A packet that was sent once was acknowledged after `rtt_ns`.
    pub(super) fn measured(&mut self, rtt_ns: u64) {
        // A minute is more than any network takes: a clock has jumped.
        let rtt_ns = rtt_ns.clamp(1, 60_000_000_000);
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt_ns;
            self.rttvar_ns = rtt_ns / 2;
        } else {
            self.rttvar_ns = (3 * self.rttvar_ns + self.srtt_ns.abs_diff(rtt_ns)) / 4;
            self.srtt_ns = (7 * self.srtt_ns + rtt_ns) / 8;
        }
    }

    /// The peer acknowledged `packets` of the `flying` packets that were under way. The window grows only
    /// where it was what held packets back.
    pub(super) fn progressed(&mut self, packets: u32, flying: u32) {
        self.backoff = 0;
        if flying < self.window {
            return;
        }
        self.credit += packets;
        if self.window < self.slow_start_below {
            self.window = (self.window + packets).min(self.bounds.max);
            self.credit = 0;
        } else if self.credit >= self.window {
            self.credit -= self.window;
            self.window = (self.window + 1).min(self.bounds.max);
        }
    }

    /// Packets were lost at `now`.
    pub(super) fn lost(&mut self, now: u64) {
        if now.saturating_sub(self.last_cut_ns) > self.srtt_ns {
            self.last_cut_ns = now;
            self.window = (self.window / 2).max(MIN_WINDOW.min(self.bounds.max));
            self.slow_start_below = self.window;
        }
    }

    /// The time-out of `rto_ns` ran out: double it until progress, once for all packets of one time-out.
    pub(super) fn timed_out(&mut self, now: u64, rto_ns: u64) {
        if now.saturating_sub(self.last_backoff_ns) >= rto_ns {
            self.last_backoff_ns = now;
            self.backoff = (self.backoff + 1).min(16);
        }
        self.lost(now);
    }

    /// Forgets what losses taught, after a rest or when everything was given up.
    pub(super) fn rest(&mut self) {
        *self = Pace { srtt_ns: self.srtt_ns, rttvar_ns: self.rttvar_ns, ..Pace::new(self.bounds) };
    }

    /// How long an unacknowledged packet waits before it is sent again.
    pub(super) fn rto_ns(&self, bounds: &RtoBounds) -> u64 {
        let base = if self.srtt_ns == 0 { bounds.first_ns } else { self.srtt_ns.saturating_add(4 * self.rttvar_ns) };
        let floor = base.max(bounds.min_ns);
        floor.saturating_mul(1 << self.backoff).min(bounds.max_ns.max(bounds.min_ns))
    }

    /// How long after the newest packet a silence is probed: two round trips, at least a quarter of the
    /// shortest time-out. A probe costs one packet, and saves the time-out where the last packets of a burst
    /// were lost.
    pub(super) fn probe_ns(&self, bounds: &RtoBounds) -> u64 {
        if self.srtt_ns == 0 { bounds.first_ns } else { (2 * self.srtt_ns).max(bounds.min_ns / 4) }
    }

    /// How much later than a packet that was acknowledged may an earlier one be, before it counts as lost:
    /// half a round trip, at least 50 us, because several flows reorder by nature.
    pub(super) fn reordering_ns(&self) -> u64 {
        (self.srtt_ns / 2).max(50_000)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever happens, in whatever order: something may be sent, never more than the bounds allow.
        #[test]
        fn window_and_time_out_stay_within_their_bounds(
            events in prop::collection::vec((0u8..5, any::<u64>(), 0u32..1000), 0..300),
            first in 0u32..2000,
            max in 0u32..2000,
        ) {
            let mut pace = Pace::new(WindowBounds { first, max });
            for (event, time, count) in events {
                match event {
                    0 => pace.measured(time),
                    1 => pace.progressed(count, count),
                    2 => pace.lost(time),
                    3 => pace.timed_out(time, time / 2),
                    _ => pace.rest(),
                }
                prop_assert!((1..=max.clamp(1, SEND_WINDOW)).contains(&pace.window()));
                prop_assert!((BOUNDS.min_ns..=BOUNDS.max_ns).contains(&pace.rto_ns(&BOUNDS)));
                prop_assert!(pace.probe_ns(&BOUNDS) > 0 && pace.reordering_ns() > 0);
            }
        }
    }

    const WINDOW: WindowBounds = WindowBounds { first: 64, max: 512 };
    const BOUNDS: RtoBounds = RtoBounds { first_ns: 100, min_ns: 10, max_ns: 1000 };

    #[test]
    fn time_out_follows_the_round_trip_and_doubles() {
        let mut pace = Pace::new(WINDOW);
        assert_eq!(pace.rto_ns(&BOUNDS), 100);
        for _ in 0..100 {
            pace.measured(40);
        }
        let settled = pace.rto_ns(&BOUNDS);
        assert!((40..60).contains(&settled), "{settled}");
        pace.timed_out(1000, settled);
        pace.timed_out(1001, settled);
        assert_eq!(pace.rto_ns(&BOUNDS), 2 * settled);
        for turn in 0..100 {
            pace.timed_out(10_000 * turn, 1000);
        }
        assert_eq!(pace.rto_ns(&BOUNDS), 1000);
        pace.progressed(1, 1);
        assert_eq!(pace.rto_ns(&BOUNDS), settled);
    }

    #[test]
    fn window_halves_once_a_round_trip_and_grows_again() {
        let mut pace = Pace::new(WINDOW);
        pace.measured(100);
        pace.lost(1000);
        pace.lost(1001);
        assert_eq!(pace.window(), 32);
        pace.progressed(32, 32);
        assert_eq!(pace.window(), 33);
        pace.progressed(33, 10);
        assert_eq!(pace.window(), 33, "it was not what held packets back");
    }
}
