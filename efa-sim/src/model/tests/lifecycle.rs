//! Objects that come and go in the middle of traffic over a bad link.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::link::LinkConfig;
use super::super::*;
use super::harness::*;

const SECOND: u64 = 1_000_000_000;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    Post(SendOp, usize, usize, usize, bool),
    Receive(usize),
    Replace(usize),
    Break(usize),
    Reregister(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![2 => Just(SendOp::Send), 1 => Just(SendOp::Write), 1 => Just(SendOp::Read)];
    prop_oneof![
        12 => (op, 0usize..3, 1usize..3, 0usize..6000, any::<bool>()).prop_map(|(op, from, ahead, len, imm)| {
            Step::Post(op, from, (from + ahead) % 3, if op == SendOp::Send { len % 1025 } else { len }, imm)
        }),
        8 => (0usize..3).prop_map(Step::Receive),
        1 => (0usize..3).prop_map(Step::Replace),
        1 => (0usize..3).prop_map(Step::Break),
        1 => (0usize..3).prop_map(Step::Reregister),
        6 => (0u64..300_000).prop_map(Step::Pass),
    ]
}

/// What became of the work of one queue pair.
#[derive(Default)]
struct Ledger {
    /// Posted and not completed, by number; a replaced queue pair takes its own along.
    open: [HashMap<u64, ()>; 3],
    delivered: HashMap<u32, u32>,
}

impl Ledger {
    fn collect(&mut self, net: &mut Net) {
        for node in 0..3 {
            for completion in net.done(node) {
                if !completion.unsolicited {
                    let known = self.open[node].remove(&completion.wr_id).is_some();
                    assert!(known, "completion of something that was not posted, or twice: {completion:?}");
                }
                if let (Status::Ok, Some(imm)) = (completion.status, completion.imm) {
                    *self.delivered.entry(imm).or_default() += 1;
                }
            }
        }
    }

    /// A queue pair that is destroyed takes what was not polled with it.
    fn forget(&mut self, net: &mut Net, node: usize) {
        self.collect(net);
        self.open[node].clear();
    }
}

fn revive(net: &mut Net, node: usize) {
    let (qpn, cq) = (net.nodes[node].qpn, net.nodes[node].cq);
    net.nodes[node].device.destroy_qp(qpn).expect("there");
    // As the provider does: a key that the old one did not have.
    net.nodes[node].qkey += 1;
    let qkey = net.nodes[node].qkey;
    open_qp_with(&mut net.nodes[node].device, qp_config(qpn.0, cq), qkey);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Everything posted completes exactly once within the time-outs, nothing is delivered twice to what was
    /// meant, and in the end nothing is left to do, whatever is replaced or broken meanwhile.
    #[test]
    fn everything_posted_ends_exactly_once(
        steps in prop::collection::vec(step(), 1..150),
        loss_ppm in 0u32..500_000,
        seed in any::<u64>(),
    ) {
        let link = LinkConfig {
            latency_ns: 5_000, loss_ppm, duplicate_ppm: 200_000, reorder_ppm: 300_000, reorder_ns: 100_000, ..LinkConfig::default()
        };
        let mut net = Net::new(3, seed, link, |_, _| {});
        let change = QpChange { rnr_retry: Some(4), ..QpChange::default() };
        let mut ledger = Ledger::default();
        let mut next = 1;
        for step in steps {
            // A queue pair in error takes no work: it is replaced first, as a provider would.
            for node in 0..3 {
                let qpn = net.nodes[node].qpn;
                if net.nodes[node].device.query_qp(qpn).is_some_and(|qp| qp.state == QpState::Error) {
                    ledger.forget(&mut net, node);
                    revive(&mut net, node);
                }
                net.nodes[node].device.modify_qp(qpn, change).expect("there");
            }
            next += 1;
            match step {
                Step::Post(op, from, to, len, imm) => {
                    ledger.open[from].insert(next, ());
                    let imm = (imm && op != SendOp::Read).then_some(next as u32);
                    net.post(op, (from, to), next, 0, 2 << 20, len, imm);
                }
                Step::Receive(node) => {
                    ledger.open[node].insert(next, ());
                    net.post_recv(node, next, 1 << 20, 1024);
                }
                Step::Replace(node) => {
                    ledger.forget(&mut net, node);
                    revive(&mut net, node);
                }
                Step::Break(node) => {
                    let qpn = net.nodes[node].qpn;
                    net.nodes[node].device.fail_qp(qpn).expect("there");
                    net.run(20_000, |_| false);
                }
                Step::Reregister(node) => {
                    let old = net.nodes[node].mr;
                    let device = &mut net.nodes[node].device;
                    device.deregister(old).expect("there");
                    let access = Access::LOCAL_WRITE.with(Access::REMOTE_READ).with(Access::REMOTE_WRITE);
                    let mr = MrConfig { pd: Pd(1), addr: BASE, len: SIZE as u64, iova: BASE, access };
                    net.nodes[node].mr = net.nodes[node].device.register(mr).expect("registered");
                }
                Step::Pass(ns) => {
                    net.run(ns, |_| false);
                }
            }
            ledger.collect(&mut net);
        }
        net.drain(60 * SECOND);
        prop_assert_eq!(net.next(), None, "nothing is left to do");
        ledger.collect(&mut net);
        for node in 0..3 {
            let qpn = net.nodes[node].qpn;
            let info = net.nodes[node].device.query_qp(qpn).expect("there");
            prop_assert_eq!(info.sends, 0);
            prop_assert_eq!(ledger.open[node].len() as u32, info.receives, "only receives may wait");
        }
        let twice = ledger.delivered.iter().find(|(_, times)| **times > 1);
        prop_assert_eq!(twice, None);
    }
}
