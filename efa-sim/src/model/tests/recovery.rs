//! How fast losses are repaired: by what overtook them or by a probe, not by the long time-out.

use super::super::link::LinkConfig;
use super::super::*;
use super::harness::*;

/// Two devices with the default time-outs, which are long against the 10 us of a round trip.
fn slow_timers() -> Net {
    let link = LinkConfig { latency_ns: 5_000, ..LinkConfig::default() };
    Net::new(2, 1, link, |node, config| {
        config.rto = DeviceConfig::new(gid(node), KEY, 0).rto;
    })
}

/// A first exchange, after which the round trip is known.
fn warm_up(net: &mut Net) {
    for i in 0..32 {
        net.post_recv(1, i, 0, 64);
        net.post(SendOp::Send, (0, 1), i, 0, 0, 64, None);
    }
    net.drain(1_000_000_000);
    net.done(0);
    net.done(1);
}

#[test]
fn a_hole_is_repaired_once_later_packets_have_overtaken_it() {
    let mut net = slow_timers();
    warm_up(&mut net);
    let start = net.now;
    net.nodes[0].device.faults.drop_egress = Peers::All;
    net.post(SendOp::Write, (0, 1), 1, 0, 0, 1000, None);
    net.settle();
    net.nodes[0].device.faults.drop_egress = Peers::None;
    net.now += 100_000;
    net.post(SendOp::Write, (0, 1), 2, 0, 0, 20 * 1024, None);
    assert!(net.run(1_000_000, |net| net.nodes[0].done.len() == 2), "not within {} ns", net.now - start);
    assert_eq!(net.nodes[0].device.counters().retrans_pkts, 1);
    assert_eq!(net.nodes[0].device.counters().retrans_timeout_events, 0);
}

#[test]
fn a_lost_tail_is_probed() {
    let mut net = slow_timers();
    warm_up(&mut net);
    net.nodes[0].device.faults.drop_egress = Peers::All;
    net.post(SendOp::Write, (0, 1), 1, 0, 0, 10 * 1024, None);
    net.settle();
    net.nodes[0].device.faults.drop_egress = Peers::None;
    let start = net.now;
    assert!(net.run(3_000_000, |net| net.nodes[0].done.len() == 1), "{}", net.now - start);
    assert_eq!(net.nodes[0].device.counters().retrans_timeout_events, 0);
}

#[test]
fn lost_pieces_of_a_read_are_asked_for_when_the_last_has_come() {
    let link = LinkConfig { latency_ns: 5_000, loss_ppm: 200_000, ..LinkConfig::default() };
    // With these seeds the request and the last piece of the answer survive in most runs.
    let quick = (0..20)
        .filter(|seed| {
            let mut net = Net::new(2, *seed, link, |node, config| {
                config.rto = DeviceConfig::new(gid(node), KEY, 0).rto;
            });
            net.post(SendOp::Read, (0, 1), 1, 0, 0, 50 * 1024, None);
            net.run(3_000_000, |net| net.nodes[0].done.len() == 1)
        })
        .count();
    assert!(quick >= 5, "{quick} of 20 within 3 ms");
}

#[test]
fn a_bulk_write_through_a_lossy_link_of_limited_speed_uses_most_of_it() {
    let link =
        LinkConfig { latency_ns: 5_000, bytes_per_sec: 1_000_000_000, loss_ppm: 10_000, ..LinkConfig::default() };
    let mut net = Net::new(2, 5, link, |node, config| {
        config.mtu = 8192;
        config.rto = DeviceConfig::new(gid(node), KEY, 0).rto;
    });
    for i in 0..32 {
        net.post(SendOp::Write, (0, 1), i, 0, 0, 1 << 20, None);
    }
    let start = net.now;
    assert!(net.run(1_000_000_000, |net| net.nodes[0].done.len() == 32));
    let took_ms = (net.now - start) / 1_000_000;
    assert!((32..100).contains(&took_ms), "32 MiB at 1 GB/s took {took_ms} ms");
}
