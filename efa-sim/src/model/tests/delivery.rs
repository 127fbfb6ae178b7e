//! Reliable delivery as properties: exactly once, whole, in any order, whatever the link does.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::link::LinkConfig;
use super::super::*;
use super::harness::*;

const SECOND: u64 = 1_000_000_000;

/// What one run posts: for each message sender, receiver, length.
#[derive(Clone, Debug)]
struct Traffic {
    messages: Vec<(usize, usize, usize)>,
    link: LinkConfig,
    seed: u64,
    first_psn: Option<u32>,
    flows: u8,
}

fn bad_link() -> impl Strategy<Value = LinkConfig> {
    (0u32..=500_000, 0u32..=500_000, 0u32..=500_000, 0u64..200_000, prop_oneof![Just(0u64), Just(1_000_000_000)])
        .prop_map(|(loss_ppm, duplicate_ppm, reorder_ppm, reorder_ns, bytes_per_sec)| LinkConfig {
            latency_ns: 5_000,
            bytes_per_sec,
            loss_ppm,
            duplicate_ppm,
            reorder_ppm,
            reorder_ns,
        })
}

fn traffic(most: usize, longest: usize) -> impl Strategy<Value = Traffic> {
    let psn = prop_oneof![Just(None), Just(Some(u32::MAX - 3)), any::<u32>().prop_map(Some)];
    let message = (0usize..3, 1usize..3, 0..=longest).prop_map(|(from, ahead, len)| (from, (from + ahead) % 3, len));
    (prop::collection::vec(message, 1..most), bad_link(), any::<u64>(), psn, 1u8..5)
        .prop_map(|(messages, link, seed, first_psn, flows)| Traffic { messages, link, seed, first_psn, flows })
}

fn net_for(traffic: &Traffic) -> Net {
    Net::new(3, traffic.seed, traffic.link, |_, config| {
        config.first_psn = traffic.first_psn;
        config.flows = traffic.flows;
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Three devices send to each other. Receives are as many as messages, so each is used exactly once, and
    /// the content of each says which message it was.
    #[test]
    fn sends_arrive_exactly_once_and_whole(traffic in traffic(120, 1024)) {
        let mut net = net_for(&traffic);
        let mut expected = BTreeMap::new();
        for (i, &(from, to, len)) in traffic.messages.iter().enumerate() {
            net.fill(from, i * 1024, &pattern(i as u64, len));
            net.post_recv(to, i as u64, (2 << 20) + i * 1024, 1024);
            net.post(SendOp::Send, (from, to), i as u64, i * 1024, 0, len, Some(i as u32));
            expected.insert(i as u64, (from, to, len));
        }
        net.drain(60 * SECOND);
        let mut sent = Vec::new();
        let mut got = BTreeMap::new();
        for node in 0..3 {
            for completion in net.done(node) {
                prop_assert_eq!(completion.status, Status::Ok);
                match completion.op {
                    CompletionOp::Send => sent.push(completion.wr_id),
                    _ => {
                        let message = u64::from(completion.imm.unwrap_or(u32::MAX));
                        let (from, to, len) = expected[&message];
                        prop_assert_eq!((to, len as u32), (node, completion.byte_len));
                        prop_assert_eq!(completion.src_gid, gid(from));
                        let place = (2 << 20) + completion.wr_id as usize * 1024;
                        let right = net.bytes(node, place, len) == pattern(message, len);
                        prop_assert!(right, "message {} is damaged", message);
                        prop_assert!(got.insert(message, ()).is_none(), "message {} came twice", message);
                    }
                }
            }
        }
        sent.sort_unstable();
        prop_assert_eq!(sent, (0..traffic.messages.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(got.len(), traffic.messages.len());
        prop_assert_eq!(net.next(), None, "nothing is left to do");
    }

    /// Writes and reads of many pieces between devices of which none polls until all is over.
    #[test]
    fn rdma_is_whole_and_needs_nobody_to_poll(traffic in traffic(20, 40_000)) {
        let mut net = net_for(&traffic);
        net.nodes.iter_mut().for_each(|node| node.asleep = true);
        for (i, &(from, to, len)) in traffic.messages.iter().enumerate() {
            let (near, far) = (i * 40_960, (2 << 20) + i * 40_960);
            if i % 2 == 0 {
                net.fill(from, near, &pattern(i as u64, len));
                net.post(SendOp::Write, (from, to), i as u64, near, far, len, None);
            } else {
                net.fill(to, far, &pattern(i as u64, len));
                net.post(SendOp::Read, (from, to), i as u64, near, far, len, None);
            }
        }
        net.drain(60 * SECOND);
        for node in &mut net.nodes {
            while let Some(completion) = node.device.poll_cq(node.cq) {
                node.done.push_back(completion);
            }
        }
        let mut done = 0;
        for node in 0..3 {
            for completion in net.done(node) {
                let i = completion.wr_id as usize;
                let (from, to, len) = traffic.messages[i];
                prop_assert_eq!((node, completion.status, completion.byte_len), (from, Status::Ok, len as u32));
                let (near, far) = (i * 40_960, (2 << 20) + i * 40_960);
                prop_assert!(net.bytes(from, near, len) == pattern(i as u64, len));
                prop_assert!(net.bytes(to, far, len) == pattern(i as u64, len));
                done += 1;
            }
        }
        prop_assert_eq!(done, traffic.messages.len());
    }

    /// Immediate data arrives once, after all of its write.
    #[test]
    fn immediate_data_follows_its_write(traffic in traffic(20, 20_000)) {
        let mut net = net_for(&traffic);
        for (i, &(from, to, len)) in traffic.messages.iter().enumerate() {
            net.fill(from, i * 20_480, &pattern(i as u64, len));
            net.post_recv(to, i as u64, 0, 0);
            net.post(SendOp::Write, (from, to), i as u64, i * 20_480, (2 << 20) + i * 20_480, len, Some(i as u32));
        }
        let all = traffic.messages.len() * 2;
        let mut seen = [0; 3];
        let mut damaged = None;
        net.run(60 * SECOND, |net| {
            // Looked at the moment the completion appears, before later packets could repair anything.
            for (node, state) in net.nodes.iter().enumerate() {
                for completion in state.done.iter().skip(seen[node]) {
                    let Some(i) = completion.imm else { continue };
                    let (_, to, len) = traffic.messages[i as usize];
                    let right = to == node
                        && completion.byte_len == len as u32
                        && net.bytes(node, (2 << 20) + i as usize * 20_480, len) == pattern(u64::from(i), len);
                    if !right {
                        damaged = Some(i);
                    }
                }
                seen[node] = state.done.len();
            }
            seen.iter().sum::<usize>() == all
        });
        prop_assert_eq!(damaged, None);
        prop_assert_eq!(seen.iter().sum::<usize>(), all);
        net.drain(60 * SECOND);
        prop_assert_eq!(net.nodes.iter().map(|node| node.done.len()).sum::<usize>(), all);
    }

    /// The same seed gives the same run to the nanosecond.
    #[test]
    fn runs_repeat(traffic in traffic(30, 1024)) {
        let run = || {
            let mut net = net_for(&traffic);
            for (i, &(from, to, len)) in traffic.messages.iter().enumerate() {
                net.post_recv(to, i as u64, 0, 1024);
                net.post(SendOp::Send, (from, to), i as u64, 0, 0, len, None);
            }
            net.drain(60 * SECOND);
            let counters: Vec<Counters> = net.nodes.iter().map(|node| *node.device.counters()).collect();
            (net.now, counters, (0..3).map(|node| net.done(node)).collect::<Vec<_>>())
        };
        prop_assert_eq!(run(), run());
    }
}

/// A connection that has carried more packets than its numbers count from where they started.
#[test]
fn packet_numbers_wrap_under_load() {
    let link = LinkConfig { latency_ns: 5_000, loss_ppm: 100_000, duplicate_ppm: 100_000, ..LinkConfig::default() };
    let mut net = Net::new(2, 11, link, |_, config| config.first_psn = Some(u32::MAX - 700));
    let mut received = 0;
    for round in 0..20 {
        for i in 0..100 {
            net.post_recv(1, i, i as usize * 16, 16);
            net.post(SendOp::Send, (0, 1), i, 0, 0, 16, Some(round * 100 + i as u32));
        }
        net.drain(10 * SECOND);
        assert_eq!(net.done(0).len(), 100);
        received += net.done(1).len();
    }
    assert_eq!(received, 2000);
    assert!(net.nodes[1].device.counters().sim_rx_duplicates > 0);
    assert!(net.nodes[0].device.counters().retrans_pkts > 0);
}

#[test]
fn a_receiver_without_receives_delays_nobody_else() {
    let link = LinkConfig { latency_ns: 5_000, ..LinkConfig::default() };
    let mut net = Net::new(3, 12, link, |_, _| {});
    // More for the stalled peer than its window holds, posted first.
    for i in 0..2500 {
        net.post(SendOp::Send, (0, 2), 10_000 + i, 0, 0, 64, None);
    }
    for i in 0..200 {
        net.post_recv(1, i, 0, 64);
        net.post(SendOp::Send, (0, 1), i, 0, 0, 64, None);
    }
    let done = net.run(2_000_000, |net| net.nodes[1].done.len() == 200);
    assert!(done, "all 200 within 2 ms, got {}", net.nodes[1].done.len());
    assert!(net.nodes[0].done.iter().all(|completion| completion.wr_id < 10_000));
    // Nor does it keep both ends busy: one message asks for all.
    net.run(50_000_000, |_| false);
    let asked = net.nodes[2].device.counters().sim_rnr_sent;
    net.run(3 * SECOND, |_| false);
    assert!(net.nodes[2].device.counters().sim_rnr_sent - asked < 400);
    // The stalled peer gets receives at last: everything arrives, without waiting for the longest retry.
    for i in 0..2500 {
        net.post_recv(2, i, 0, 64);
    }
    assert!(net.run(50_000_000, |net| net.nodes[2].done.len() == 2500));
    net.drain(SECOND);
    assert_eq!(net.done(0).len(), 2700);
}

#[test]
fn a_peer_that_is_not_there_delays_nobody_else() {
    let link = LinkConfig { latency_ns: 5_000, ..LinkConfig::default() };
    let mut net = Net::new(3, 15, link, |_, _| {});
    net.nodes[0].device.faults.drop_egress = Peers::Some(vec![gid(2)]);
    for i in 0..1000 {
        let op = [SendOp::Send, SendOp::Write, SendOp::Read][i % 3];
        net.post(op, (0, 2), 10_000 + i as u64, 0, 0, 1000, None);
    }
    for i in 0..200 {
        net.post_recv(1, i, 0, 64);
        net.post(SendOp::Send, (0, 1), i, 0, 0, 64, None);
    }
    assert!(net.run(2_000_000, |net| net.nodes[1].done.len() == 200));
    net.drain(10 * SECOND);
    let done = net.done(0);
    assert_eq!(done.iter().filter(|completion| completion.status == Status::Ok).count(), 200);
    assert_eq!(done.iter().filter(|completion| completion.status == Status::UnreachableRemote).count(), 1000);
}

/// The clock of an adapter may stand still or go back, as clocks of several cores do.
#[test]
fn a_clock_that_goes_back_breaks_nothing() {
    let link = LinkConfig { latency_ns: 5_000, loss_ppm: 200_000, ..LinkConfig::default() };
    let mut net = Net::new(2, 16, link, |_, _| {});
    for i in 0..200 {
        net.post_recv(1, i, 0, 64);
        net.post(SendOp::Send, (0, 1), i, 0, 0, 64, None);
        net.run(30_000, |_| false);
        net.now = net.now.saturating_sub(7_000 * (i % 5));
    }
    net.drain(10 * SECOND);
    assert_eq!((net.done(0).len(), net.done(1).len()), (200, 200));
}

#[test]
fn acknowledgements_are_coalesced_and_ride_on_answers() {
    let mut net = Net::pair(13);
    for i in 0..64 {
        net.post_recv(1, i, 0, 64);
        net.post(SendOp::Send, (0, 1), i, 0, 0, 64, None);
    }
    net.drain(SECOND);
    let acks = net.nodes[1].device.counters().sim_acks_sent;
    assert_eq!(acks, 1, "all 64 arrived before anything was sent");
    // A ping-pong needs none at all but the last.
    for turn in 0..50 {
        let (from, to) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
        net.post_recv(to, 0, 0, 64);
        net.post(SendOp::Send, (from, to), 0, 0, 0, 64, None);
        let before = net.nodes[to].done.len();
        assert!(net.run(10_000, |net| net.nodes[to].done.len() > before));
    }
    net.drain(SECOND);
    let all = net.nodes.iter().map(|node| node.device.counters().sim_acks_sent).sum::<u64>();
    assert_eq!(all, acks + 1);
}

#[test]
fn flushed_acknowledgements_do_not_wait() {
    let mut net = Net::pair(14);
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 0, 0, 0, 64, None);
    assert!(net.run(6_000, |net| net.nodes[1].done.len() == 1));
    net.nodes[1].device.flush_acks();
    assert!(net.run(6_000, |net| net.nodes[0].done.len() == 1));
}
