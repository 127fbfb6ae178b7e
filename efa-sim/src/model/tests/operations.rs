//! Kinds of operations, their limits, and what is counted.

use super::super::link::{Link, LinkConfig};
use super::super::*;
use super::harness::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn an_unsolicited_write_uses_up_no_receive() {
    let mut net = Net::pair(1);
    let (qpn, cq) = (net.nodes[1].qpn, net.nodes[1].cq);
    net.nodes[1].device.destroy_qp(qpn).expect("there");
    let config = QpConfig { unsolicited_writes: true, ..qp_config(qpn.0, cq) };
    open_qp(&mut net.nodes[1].device, config);
    net.post(SendOp::Write, (0, 1), 1, 0, 0, 3000, Some(5));
    net.drain(SECOND);
    let done = net.done(1);
    assert_eq!((done.len(), done[0].unsolicited, done[0].wr_id), (1, true, 0));
    assert_eq!((done[0].imm, done[0].byte_len, done[0].op), (Some(5), 3000, CompletionOp::RecvWriteImm));
}

#[test]
fn a_device_without_rdma_says_so_at_either_end() {
    let none = Features { read: false, write: false, unsolicited_writes: false };
    for without in [0, 1] {
        let mut net = Net::new(2, 2, LinkConfig::default(), |node, config| {
            if node == without {
                config.features = none;
            }
        });
        for op in [SendOp::Write, SendOp::Read] {
            net.post(op, (0, 1), 1, 0, 0, 100, None);
        }
        net.drain(SECOND);
        let expected = if without == 0 { Status::UnsupportedOp } else { Status::RemoteFeatureMismatch };
        assert!(net.nodes[0].done.iter().all(|completion| completion.status == expected));
        assert_eq!(net.done(0).len(), 2);
    }
}

#[test]
fn what_is_wrong_with_an_operation_shows_in_its_completion() {
    let mut net = Net::pair(3);
    let dest = net.dest(1);
    let whole = net.sge(0, 0, 64);
    let cases = [
        (SendOp::Send, Sge { len: 1025, ..whole }, Status::BadLength),
        (SendOp::Send, Sge { lkey: whole.lkey ^ 0x10_0000, ..whole }, Status::InvalidLkey),
        (SendOp::Send, Sge { addr: BASE + SIZE as u64 - 63, ..whole }, Status::InvalidLkey),
        (SendOp::Write, Sge { addr: BASE - 1, ..whole }, Status::InvalidLkey),
        (SendOp::Read, Sge { addr: u64::MAX, ..whole }, Status::InvalidLkey),
    ];
    for (op, sge, expected) in cases {
        net.post_wr(
            0,
            SendWr { wr_id: 1, op, payload: Payload::Sges(&[sge]), imm: None, dest, remote: Remote::default() },
        );
        net.settle();
        assert_eq!(net.done(0).first().map(|completion| completion.status), Some(expected), "{op:?} {sge:?}");
    }
    // A registration that may not be written takes neither what is read nor what is received.
    let config = MrConfig { pd: Pd(1), addr: BASE, len: 4096, iova: BASE, access: Access::LOCAL_READ };
    let lkey = net.nodes[0].device.register(config).expect("registered").0;
    let sge = Sge { lkey, ..whole };
    net.post_wr(
        0,
        SendWr {
            wr_id: 1,
            op: SendOp::Read,
            payload: Payload::Sges(&[sge]),
            imm: None,
            dest,
            remote: Remote::default(),
        },
    );
    net.settle();
    assert_eq!(net.done(0)[0].status, Status::InvalidLkey);
    let node = &mut net.nodes[0];
    node.device.post_recv(node.qpn, RecvWr { wr_id: 4, sges: &[sge] }).expect("posted");
    net.post(SendOp::Send, (1, 0), 5, 0, 0, 64, None);
    net.drain(SECOND);
    assert_eq!(net.done(0)[0].status, Status::InvalidLkey);
    assert_eq!(net.done(1)[0].status, Status::RemoteAbort);
    let sges = [whole; 3];
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        payload: Payload::Sges(&sges),
        imm: None,
        dest,
        remote: Remote::default(),
    };
    let node = &mut net.nodes[0];
    assert_eq!(node.device.post_send(1, node.qpn, wr), Err(DeviceError::Invalid));
    let wr = SendWr { payload: Payload::Inline(&[0; 33]), ..wr };
    assert_eq!(node.device.post_send(1, node.qpn, wr), Err(DeviceError::Invalid));
}

#[test]
fn another_protection_domain_is_another_world() {
    let mut net = Net::pair(4);
    let config = MrConfig { pd: Pd(2), addr: BASE, len: 4096, iova: BASE, access: Access(7) };
    let lkey = net.nodes[0].device.register(config).expect("registered").0;
    let dest = net.dest(1);
    let sge = Sge { addr: BASE, len: 8, lkey };
    net.post_wr(
        0,
        SendWr {
            wr_id: 1,
            op: SendOp::Send,
            payload: Payload::Sges(&[sge]),
            imm: None,
            dest,
            remote: Remote::default(),
        },
    );
    net.settle();
    assert_eq!(net.done(0)[0].status, Status::InvalidLkey);
}

#[test]
fn pieces_are_gathered_and_scattered() {
    let mut net = Net::pair(5);
    net.fill(0, 0, b"hello, ");
    net.fill(0, 100, b"world");
    let sges = [net.sge(1, 0, 3), net.sge(1, 50, 0), net.sge(1, 100, 20)];
    let node = &mut net.nodes[1];
    node.device.post_recv(node.qpn, RecvWr { wr_id: 1, sges: &sges }).expect("posted");
    let sges = [net.sge(0, 0, 7), net.sge(0, 100, 5)];
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        payload: Payload::Sges(&sges),
        imm: None,
        dest: net.dest(1),
        remote: Remote::default(),
    };
    net.post_wr(0, wr);
    net.drain(SECOND);
    assert_eq!(net.bytes(1, 0, 5), b"hel\0\0");
    assert_eq!(net.bytes(1, 100, 10), b"lo, world\0");
    // Inline bytes need no registration and may be changed at once.
    net.post_recv(1, 2, 200, 32);
    let mut bytes = *b"inline";
    net.post_wr(0, SendWr { payload: Payload::Inline(&bytes), ..wr });
    bytes.fill(0);
    net.drain(SECOND);
    assert_eq!(net.bytes(1, 200, 7), b"inline\0");
}

#[test]
fn empty_operations_complete() {
    let mut net = Net::pair(6);
    net.post_recv(1, 0, 0, 0);
    net.post_recv(1, 1, 0, 0);
    net.post(SendOp::Send, (0, 1), 0, 0, 0, 0, None);
    net.post(SendOp::Write, (0, 1), 1, 0, 0, 0, Some(1));
    net.post(SendOp::Read, (0, 1), 2, 0, 0, 0, None);
    net.drain(SECOND);
    let done = net.done(0);
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|completion| completion.status == Status::Ok));
    assert_eq!(net.done(1).len(), 2);
}

#[test]
fn a_queue_pair_reaches_itself() {
    let mut net = Net::pair(9);
    net.fill(0, 0, &pattern(9, 5000));
    net.post_recv(0, 1, 10_000, 64);
    net.post(SendOp::Send, (0, 0), 2, 0, 0, 64, None);
    net.post(SendOp::Write, (0, 0), 3, 0, 20_000, 5000, None);
    net.post(SendOp::Read, (0, 0), 4, 30_000, 0, 5000, None);
    net.drain(SECOND);
    assert_eq!(net.done(0).iter().filter(|completion| completion.status == Status::Ok).count(), 4);
    for (place, len) in [(10_000, 64), (20_000, 5000), (30_000, 5000)] {
        assert_eq!(net.bytes(0, place, len), net.bytes(0, 0, len));
    }
}

#[test]
fn unreliable_datagrams_have_a_prefix_and_no_second_chance() {
    let mut net = Net::pair(7);
    for node in 0..2 {
        let (qpn, cq) = (net.nodes[node].qpn, net.nodes[node].cq);
        net.nodes[node].device.destroy_qp(qpn).expect("there");
        open_qp(&mut net.nodes[node].device, QpConfig { kind: QpKind::Ud, ..qp_config(qpn.0, cq) });
    }
    net.fill(0, 0, &pattern(7, 100));
    net.post(SendOp::Send, (0, 1), 1, 0, 0, 100, None);
    net.drain(SECOND);
    assert_eq!(net.done(0)[0].status, Status::Ok);
    assert_eq!(net.nodes[1].device.counters().rx_drops, 1);
    net.post_recv(1, 1, 0, 140);
    net.post(SendOp::Send, (0, 1), 2, 0, 0, 100, Some(3));
    net.drain(SECOND);
    let done = net.done(1);
    assert_eq!((done.len(), done[0].byte_len, done[0].imm), (1, 140, Some(3)));
    assert_eq!(net.bytes(1, 40, 100), pattern(7, 100));
    net.post(SendOp::Write, (0, 1), 3, 0, 0, 100, None);
    net.settle();
    assert_eq!(net.nodes[0].done.pop_back().map(|completion| completion.status), Some(Status::UnsupportedOp));
}

#[test]
fn everything_is_counted_once() {
    let mut net = Net::pair(8);
    net.post_recv(1, 0, 0, 100);
    net.post(SendOp::Send, (0, 1), 0, 0, 0, 100, None);
    net.post(SendOp::Write, (0, 1), 1, 0, 0, 5000, None);
    net.post(SendOp::Read, (0, 1), 2, 0, 0, 7000, None);
    net.drain(SECOND);
    let (a, b) = (*net.nodes[0].device.counters(), *net.nodes[1].device.counters());
    assert_eq!((a.send_wrs, a.send_bytes, b.recv_wrs, b.recv_bytes), (1, 100, 1, 100));
    assert_eq!((a.rdma_write_wrs, a.rdma_write_bytes, b.rdma_write_recv_bytes), (1, 5000, 5000));
    assert_eq!((a.rdma_read_wrs, a.rdma_read_bytes, b.rdma_read_resp_bytes), (1, 7000, 7000));
    assert_eq!((a.tx_bytes, b.rx_bytes, a.rx_bytes), (5100, 5100, 7000));
    assert_eq!((a.retrans_pkts, a.retrans_timeout_events, a.tx_pkts), (0, 0, b.rx_pkts));
    assert_eq!(Counters::NAMES.len(), a.values().len());
    assert_eq!(Counters::NAMES[0], "tx_bytes");
    assert_eq!(a.values()[0], 5100);
}

#[test]
fn states_go_one_step_at_a_time() {
    let mut device = Device::new(config(0, 1));
    let cq = device.create_cq(4).expect("queue");
    device.create_qp(qp_config(5, cq)).expect("queue pair");
    assert_eq!(device.create_qp(qp_config(5 + 256, cq)), Err(DeviceError::QpnTaken));
    let step = |state| QpChange { state: Some(state), ..QpChange::default() };
    assert_eq!(device.modify_qp(Qpn(5), step(QpState::Rts)), Err(DeviceError::BadState));
    let receive = RecvWr { wr_id: 0, sges: &[] };
    assert_eq!(device.post_recv(Qpn(5), receive), Err(DeviceError::BadState));
    assert_eq!(device.modify_qp(Qpn(5), step(QpState::Init)), Ok(()));
    assert_eq!(device.post_recv(Qpn(5), receive), Ok(()));
    assert_eq!(device.modify_qp(Qpn(5), step(QpState::Rtr)), Ok(()));
    assert_eq!(device.modify_qp(Qpn(5), step(QpState::Reset)), Ok(()));
    assert_eq!(device.query_qp(Qpn(5)).map(|qp| qp.receives), Some(0));
}

#[test]
fn a_link_keeps_its_latency_and_bandwidth() {
    let config = LinkConfig { latency_ns: 1000, bytes_per_sec: 1_000_000_000, ..LinkConfig::default() };
    let mut link = Link::new(config, 1);
    let transmit = Transmit { dst: gid(0), dst_qpn: Qpn(1), src_qpn: Qpn(2), flow: 0, len: 500, payload: 500 };
    for _ in 0..3 {
        link.push(0, transmit, &[7; 500]);
    }
    let mut out = [0; 500];
    let mut arrivals = Vec::new();
    while let Some(due) = link.next_due() {
        assert_eq!(link.pop(due - 1, &mut out), None);
        assert_eq!(link.pop(due, &mut out), Some(transmit));
        arrivals.push(due);
    }
    assert_eq!(arrivals, [1500, 2000, 2500]);
    assert!(LinkConfig::default().is_transparent() && !config.is_transparent());
}
