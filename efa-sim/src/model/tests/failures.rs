//! What ends other than well, and how fast.

use super::super::link::LinkConfig;
use super::super::*;
use super::harness::*;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn statuses(net: &mut Net, node: usize) -> Vec<Status> {
    net.done(node).iter().map(|completion| completion.status).collect()
}

#[test]
fn without_egress_a_peer_is_unreachable_and_sees_nothing() {
    let mut net = Net::pair(1);
    net.nodes[0].device.faults.drop_egress = Peers::All;
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    net.post(SendOp::Write, (0, 1), 2, 0, 0, 5_000, None);
    net.post(SendOp::Read, (0, 1), 3, 0, 0, 5_000, None);
    assert!(net.run(2 * SECOND + 10 * MILLI, |net| net.nodes[0].done.len() == 3));
    assert_eq!(statuses(&mut net, 0), [Status::UnreachableRemote; 3]);
    net.drain(10 * SECOND);
    assert!(net.done(1).is_empty());
    assert_eq!(net.nodes[1].device.counters().rx_pkts, 0);
    assert_eq!(net.nodes[0].device.counters().unresponsive_remote_events, 1);
}

#[test]
fn a_peer_that_answered_before_and_falls_silent_is_unresponsive() {
    for op in [SendOp::Send, SendOp::Write, SendOp::Read] {
        let mut net = Net::pair(2);
        net.post_recv(1, 0, 0, 64);
        net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
        net.drain(SECOND);
        assert_eq!(statuses(&mut net, 0), [Status::Ok]);
        net.nodes[1].device.faults.drop_ingress = Peers::All;
        net.post(op, (0, 1), 2, 0, 0, 512, None);
        assert!(net.run(2 * SECOND + 10 * MILLI, |net| !net.nodes[0].done.is_empty()));
        assert_eq!(statuses(&mut net, 0), [Status::UnresponsiveRemote]);
        // It comes back: the same connection goes on.
        net.nodes[1].device.faults.drop_ingress = Peers::None;
        net.post_recv(1, 0, 0, 64);
        net.post(SendOp::Send, (0, 1), 3, 0, 0, 64, None);
        net.drain(SECOND);
        assert_eq!(statuses(&mut net, 0), [Status::Ok]);
        assert_eq!(statuses(&mut net, 1).len(), 2);
    }
}

#[test]
fn a_drop_of_one_peer_leaves_the_others_alone() {
    let mut net = Net::new(3, 3, LinkConfig::default(), |_, _| {});
    net.nodes[0].device.faults.drop_egress = Peers::Some(vec![gid(2)]);
    for to in [1, 2] {
        net.post_recv(to, 0, 0, 64);
        net.post(SendOp::Send, (0, to), to as u64, 0, 0, 64, None);
    }
    net.drain(10 * SECOND);
    let done = net.done(0);
    assert_eq!((done[0].wr_id, done[0].status), (1, Status::Ok));
    assert_eq!((done[1].wr_id, done[1].status), (2, Status::UnreachableRemote));
    assert!(net.done(2).is_empty());
}

#[test]
fn a_destroyed_queue_pair_answers_that_it_is_gone() {
    let mut net = Net::pair(4);
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    net.drain(SECOND);
    let qpn = net.nodes[1].qpn;
    net.nodes[1].device.destroy_qp(qpn).expect("there");
    net.done(0);
    for op in [SendOp::Send, SendOp::Write, SendOp::Read] {
        net.post(op, (0, 1), 2, 0, 0, 64, None);
    }
    assert!(net.run(MILLI, |net| net.nodes[0].done.len() == 3));
    assert_eq!(statuses(&mut net, 0), [Status::RemoteBadDestQpn; 3]);
}

#[test]
fn a_queue_pair_in_error_answers_that_it_is_gone() {
    let mut net = Net::pair(5);
    let qpn = net.nodes[1].qpn;
    net.post_recv(1, 8, 0, 64);
    net.post_recv(1, 9, 0, 64);
    net.nodes[1].device.fail_qp(qpn).expect("there");
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    net.drain(SECOND);
    assert_eq!(statuses(&mut net, 0), [Status::RemoteBadDestQpn]);
    assert_eq!(statuses(&mut net, 1), [Status::Flushed; 2]);
}

#[test]
fn the_last_message_before_destruction_is_acknowledged() {
    let mut net = Net::pair(6);
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    assert!(net.run(MILLI, |net| !net.nodes[1].done.is_empty()));
    let qpn = net.nodes[1].qpn;
    net.nodes[1].device.destroy_qp(qpn).expect("there");
    net.drain(10 * SECOND);
    assert_eq!(statuses(&mut net, 0), [Status::Ok]);
}

#[test]
fn a_new_queue_pair_of_the_same_number_gets_nothing_meant_for_the_old() {
    let mut net = Net::pair(7);
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    net.drain(SECOND);
    // Two messages that the old one cannot take; then it is replaced.
    net.post(SendOp::Send, (0, 1), 2, 0, 0, 64, None);
    net.post(SendOp::Send, (0, 1), 3, 0, 0, 64, None);
    net.run(MILLI, |_| false);
    let (qpn, cq) = (net.nodes[1].qpn, net.nodes[1].cq);
    net.nodes[1].device.destroy_qp(qpn).expect("there");
    open_qp(&mut net.nodes[1].device, qp_config(qpn.0, cq));
    net.done(1);
    net.done(0);
    for wr_id in 0..4 {
        net.post_recv(1, wr_id, 0, 64);
    }
    net.drain(10 * SECOND);
    assert_eq!(statuses(&mut net, 0), [Status::RemoteBadDestQpn; 2]);
    assert!(net.done(1).is_empty());
    // What is sent from now on reaches the new one.
    net.post(SendOp::Send, (0, 1), 4, 0, 0, 64, None);
    net.drain(10 * SECOND);
    assert_eq!((statuses(&mut net, 0), net.done(1).len()), (vec![Status::Ok], 1));
}

#[test]
fn a_sender_that_was_replaced_starts_afresh_at_the_receiver() {
    let mut net = Net::pair(8);
    for wr_id in 0..8 {
        net.post_recv(1, wr_id, 0, 64);
    }
    for incarnation in 0..4u32 {
        net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, Some(incarnation));
        net.drain(SECOND);
        assert_eq!(statuses(&mut net, 0), [Status::Ok]);
        let (qpn, cq) = (net.nodes[0].qpn, net.nodes[0].cq);
        net.nodes[0].device.destroy_qp(qpn).expect("there");
        open_qp(&mut net.nodes[0].device, qp_config(qpn.0, cq));
    }
    let immediates: Vec<_> = net.done(1).iter().filter_map(|completion| completion.imm).collect();
    assert_eq!(immediates, [0, 1, 2, 3]);
}

#[test]
fn late_packets_of_a_sender_that_is_gone_mean_nothing() {
    let mut net = Net::pair(16);
    for wr_id in 0..8 {
        net.post_recv(1, wr_id, 0, 64);
    }
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    let late = net.capture(0);
    net.arrive(1, &late[0]);
    let (qpn, cq) = (net.nodes[0].qpn, net.nodes[0].cq);
    net.nodes[0].device.destroy_qp(qpn).expect("there");
    open_qp(&mut net.nodes[0].device, qp_config(qpn.0, cq));
    for wr_id in 2..4 {
        net.post(SendOp::Send, (0, 1), wr_id, 0, 0, 64, None);
        net.drain(SECOND);
        net.arrive(1, &late[0]);
        net.drain(SECOND);
    }
    assert_eq!(statuses(&mut net, 0), [Status::Ok; 2]);
    assert_eq!(net.done(1).len(), 3);
}

#[test]
fn a_wrong_queue_key_is_a_wrong_queue_pair() {
    let mut net = Net::pair(9);
    net.post_recv(1, 0, 0, 64);
    let sge = net.sge(0, 0, 64);
    let mut dest = net.dest(1);
    dest.qkey ^= 1;
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        payload: Payload::Sges(&[sge]),
        imm: None,
        dest,
        remote: Remote::default(),
    };
    net.post_wr(0, wr);
    net.drain(SECOND);
    assert_eq!(statuses(&mut net, 0), [Status::RemoteBadDestQpn]);
    assert!(net.done(1).is_empty());
    net.post(SendOp::Send, (0, 1), 2, 0, 0, 64, None);
    net.drain(SECOND);
    assert_eq!((statuses(&mut net, 0), net.done(1).len()), (vec![Status::Ok], 1));
}

#[test]
fn receiver_not_ready_ends_after_the_retries_or_never() {
    let mut net = Net::pair(10);
    let qpn = net.nodes[0].qpn;
    let change = QpChange { rnr_retry: Some(3), ..QpChange::default() };
    net.nodes[0].device.modify_qp(qpn, change).expect("changed");
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    assert!(net.run(5 * MILLI, |net| !net.nodes[0].done.is_empty()));
    assert_eq!(statuses(&mut net, 0), [Status::RemoteRnr]);
    assert_eq!(net.nodes[1].device.counters().sim_rnr_sent, 4);
    // A later message is not held up by the number that was given up.
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 2, 0, 0, 64, None);
    net.drain(SECOND);
    assert_eq!((statuses(&mut net, 0), net.done(1).len()), (vec![Status::Ok], 1));
    let change = QpChange { rnr_retry: Some(7), ..QpChange::default() };
    net.nodes[0].device.modify_qp(qpn, change).expect("changed");
    net.post(SendOp::Send, (0, 1), 3, 0, 0, 64, None);
    net.run(20 * SECOND, |_| false);
    assert!(net.done(0).is_empty(), "the receiver answers, so no time-out applies");
    net.post_recv(1, 0, 0, 64);
    assert!(net.run(200_000, |net| !net.nodes[0].done.is_empty()), "the receiver says that it is ready");
    assert_eq!(statuses(&mut net, 0), [Status::Ok]);
}

#[test]
fn a_slow_receiver_and_one_that_is_never_ready_are_faults_on_demand() {
    let mut net = Net::pair(11);
    net.nodes[1].device.faults.receive_interval_ns = 10 * MILLI;
    for i in 0..5 {
        net.post_recv(1, i, 0, 64);
        net.post(SendOp::Send, (0, 1), i, 0, 0, 64, None);
    }
    let start = net.now;
    assert!(net.run(SECOND, |net| net.nodes[1].done.len() == 5));
    assert!(net.now - start >= 40 * MILLI);
    net.nodes[1].device.faults = Faults { receiver_not_ready: true, ..Faults::default() };
    net.post_recv(1, 9, 0, 64);
    net.post(SendOp::Send, (0, 1), 9, 0, 0, 64, None);
    net.run(SECOND, |_| false);
    assert_eq!(net.nodes[1].done.len(), 5);
    net.nodes[1].device.faults = Faults::default();
    assert!(net.run(SECOND, |net| net.nodes[1].done.len() == 6));
}

#[test]
fn a_message_longer_than_its_receive_fails_at_both_ends_once() {
    let link = LinkConfig { latency_ns: 1000, loss_ppm: 400_000, duplicate_ppm: 400_000, ..LinkConfig::default() };
    let mut net = Net::new(2, 12, link, |_, _| {});
    net.post_recv(1, 1, 0, 10);
    net.post_recv(1, 2, 4096, 64);
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 11, None);
    assert!(net.run(10 * SECOND, |net| !net.nodes[0].done.is_empty()));
    net.post(SendOp::Send, (0, 1), 2, 0, 0, 64, None);
    net.drain(10 * SECOND);
    assert_eq!(statuses(&mut net, 0), [Status::RemoteBadLength, Status::Ok]);
    assert_eq!(statuses(&mut net, 1), [Status::BadLength, Status::Ok]);
}

#[test]
fn a_full_completion_queue_breaks_the_queue_pair() {
    let mut net = Net::pair(13);
    net.nodes[1].device.faults.overrun_completions = true;
    for i in 0..3 {
        net.post_recv(1, i, 0, 64);
    }
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 64, None);
    net.drain(SECOND);
    let qpn = net.nodes[1].qpn;
    assert_eq!(net.nodes[1].device.query_qp(qpn).map(|qp| qp.state), Some(QpState::Error));
    assert_eq!(net.nodes[1].device.counters().sim_cq_overruns, 1);
    assert_eq!(statuses(&mut net, 1), [Status::Flushed; 2]);
}

#[test]
fn queues_are_full_until_completions_are_polled() {
    let mut net = Net::pair(14);
    let cq = net.nodes[0].device.create_cq(64).expect("queue");
    let mut config = qp_config(100, cq);
    (config.sq_depth, config.rq_depth) = (2, 1);
    open_qp(&mut net.nodes[0].device, config);
    let dest = net.dest(1);
    let device = &mut net.nodes[0].device;
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        payload: Payload::Inline(b"hello"),
        imm: None,
        dest: Destination { ah: AhNumber(999), ..dest },
        remote: Remote::default(),
    };
    assert_eq!(device.post_send(1, Qpn(100), wr), Ok(()));
    assert_eq!(device.post_send(1, Qpn(100), wr), Ok(()));
    assert_eq!(device.post_send(1, Qpn(100), wr), Err(DeviceError::QueueFull));
    assert_eq!(device.poll_cq(cq).map(|completion| completion.status), Some(Status::InvalidAh));
    assert_eq!(device.post_send(1, Qpn(100), wr), Ok(()));
    let receive = RecvWr { wr_id: 1, sges: &[] };
    assert_eq!(device.post_recv(Qpn(100), receive), Ok(()));
    assert_eq!(device.post_recv(Qpn(100), receive), Err(DeviceError::QueueFull));
    assert_eq!(device.destroy_cq(cq), Err(DeviceError::Busy));
    assert_eq!(device.destroy_qp(Qpn(100)), Ok(()));
    assert_eq!(device.cq_fill(cq), Some((0, false)), "its entries went with it");
    assert_eq!(device.destroy_cq(cq), Ok(()));
    assert_eq!(device.post_send(1, Qpn(100), wr), Err(DeviceError::NotFound));
}

#[test]
fn an_error_flushes_in_the_order_of_posting() {
    let mut net = Net::pair(15);
    net.nodes[0].device.faults.drop_egress = Peers::All;
    for i in 0..700 {
        let op = [SendOp::Send, SendOp::Write, SendOp::Read][i as usize % 3];
        net.post(op, (0, 1), i, 0, 0, 1000, None);
    }
    net.run(10 * MILLI, |_| false);
    let qpn = net.nodes[0].qpn;
    net.nodes[0].device.modify_qp(qpn, QpChange { state: Some(QpState::Error), ..QpChange::default() }).expect("there");
    net.drain(10 * SECOND);
    let done = net.done(0);
    assert!(done.iter().all(|completion| completion.status == Status::Flushed));
    assert!(done.iter().map(|completion| completion.wr_id).eq(0..700));
    assert_eq!(net.next(), None);
}
