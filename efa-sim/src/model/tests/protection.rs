//! Memory that must not be touched is not touched, whatever arrives.

use proptest::prelude::*;

use super::super::packet::{self, HEADER_LEN, Header, Kind};
use super::super::*;
use super::harness::*;

const SECOND: u64 = 1_000_000_000;

/// Where a small registration lies within node 1's memory, with other memory on both sides.
const PLACE: u64 = 0x1_0000;

fn small(access: Access, len: u64, iova: u64) -> MrConfig {
    MrConfig { pd: Pd(1), addr: BASE + PLACE, len, iova, access }
}

fn snapshot(net: &Net) -> Vec<u8> {
    net.bytes(1, 0, 4 * PLACE as usize).to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Against the definition: a remote operation succeeds if and only if key, access and every byte are
    /// right, and then touches these bytes alone; else it ends with status 7 and touches nothing.
    #[test]
    fn remote_operations_reach_their_registration_and_nothing_else(
        write in any::<bool>(),
        access in 0u32..8,
        mr_len in 1u64..9000,
        iova in prop_oneof![Just(BASE + PLACE), Just(0u64), Just(u64::MAX - 10_000)],
        start in -3000i64..9000,
        len in 1u32..6000,
        stale in any::<bool>(),
        key_error in prop_oneof![4 => Just(0u32), 1 => any::<u32>()],
    ) {
        let mut net = Net::pair(1);
        net.fill(0, 0, &pattern(9, 6000));
        net.fill(1, 0, &pattern(8, 4 * PLACE as usize));
        let mr = small(Access(access), mr_len, iova);
        let key = net.nodes[1].device.register(mr).expect("registered");
        if stale {
            net.nodes[1].device.deregister(key).expect("there");
            // The slot is used again, for memory elsewhere.
            net.nodes[1].device.register(MrConfig { addr: BASE, iova: BASE, ..mr }).expect("registered");
        }
        let before = snapshot(&net);
        let rkey = key.0 ^ key_error;
        prop_assume!(rkey != net.nodes[1].mr.0);
        let remote = Remote { addr: iova.wrapping_add_signed(start), rkey };
        let op = if write { SendOp::Write } else { SendOp::Read };
        let sges = [net.sge(0, 0, len as usize)];
        net.post_wr(0, SendWr { wr_id: 1, op, payload: Payload::Sges(&sges), imm: None, dest: net.dest(1), remote });
        net.drain(SECOND);
        let needed = if write { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
        let inside = start >= 0 && start as u64 + u64::from(len) <= mr_len;
        let allowed = !stale && key_error == 0 && inside && Access(access).allows(needed);
        let done = net.done(0);
        prop_assert_eq!(done.len(), 1);
        let mut after = before.clone();
        if allowed {
            prop_assert_eq!(done[0].status, Status::Ok);
            if write {
                let at = (PLACE as i64 + start) as usize;
                after[at..at + len as usize].copy_from_slice(&pattern(9, 6000)[..len as usize]);
            } else {
                let at = (PLACE as i64 + start) as usize;
                prop_assert!(net.bytes(0, 0, len as usize) == &before[at..at + len as usize]);
            }
        } else {
            prop_assert_eq!(done[0].status, Status::RemoteBadAddress);
            if !write {
                prop_assert!(net.bytes(0, 0, 6000) == pattern(9, 6000));
            }
        }
        if write && !allowed && Access(access).allows(needed) && !stale && key_error == 0 {
            // Pieces inside may have been written before the one that is not was refused.
            let end = (PLACE + mr_len) as usize;
            after[PLACE as usize..end].copy_from_slice(&snapshot(&net)[PLACE as usize..end]);
        }
        prop_assert!(snapshot(&net) == after, "memory outside was touched");
    }

    /// Any bytes are decoded or refused; none is taken for a packet without the key.
    #[test]
    fn decoder_is_total(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = packet::decode(&bytes, &KEY);
        let mut marked = bytes;
        for (slot, byte) in marked.iter_mut().zip(packet::MAGIC.into_iter().chain([packet::VERSION])) {
            *slot = byte;
        }
        prop_assert!(packet::decode(&marked, &KEY).is_err());
    }

    /// Every field comes back as it went.
    #[test]
    fn headers_come_back(header in header(), payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut bytes = vec![0; HEADER_LEN];
        prop_assert!(header.encode(&mut bytes));
        bytes.extend_from_slice(&payload);
        let (back, rest) = packet::decode(&bytes, &KEY).expect("a packet");
        prop_assert_eq!(back, header);
        prop_assert_eq!(rest, &payload[..]);
        let mut other = KEY;
        other[15] ^= 1;
        prop_assert_eq!(packet::decode(&bytes, &other), Err(packet::DecodeError::BadKey));
        prop_assert!(!header.encode(&mut [0; HEADER_LEN - 1]));
    }

    /// A device that is fed packets of a member of the fabric gone mad, in the middle of traffic, keeps to its
    /// registrations (the test's memory panics outside) and neither panics nor hangs.
    #[test]
    fn a_device_survives_any_packet(packets in prop::collection::vec((header(), 0usize..1200), 1..60), seed in any::<u64>()) {
        let mut net = Net::pair(seed);
        // Only a small part is registered: the rest must stay as it is.
        let mr = net.nodes[1].mr;
        net.nodes[1].device.deregister(mr).expect("there");
        let access = Access::LOCAL_WRITE.with(Access::REMOTE_READ).with(Access::REMOTE_WRITE);
        net.nodes[1].mr = net.nodes[1].device.register(small(access, 8192, BASE + PLACE)).expect("registered");
        net.fill(1, 0, &pattern(8, 4 * PLACE as usize));
        let before = snapshot(&net);
        let place = PLACE as usize;
        for i in 0..4 {
            net.post_recv(1, i, place + 1024 * i as usize, 1024);
            net.post(SendOp::Send, (0, 1), i, 0, 0, 500, None);
            net.post(SendOp::Read, (1, 0), i, place + 4096, 0, 3000, None);
        }
        let mut datagram = vec![0; 2000];
        for (i, (mut header, len)) in packets.into_iter().enumerate() {
            header.encode(&mut datagram);
            net.settle();
            net.arrive(1, &datagram[..HEADER_LEN + len]);
            if i % 3 == 0 {
                // Also as coming from the peer that is known, with plausible keys.
                header.src_gid = gid(0);
                header.src_qpn = net.nodes[0].qpn;
                header.rkey = net.nodes[1].mr.0;
                header.encode(&mut datagram);
                net.arrive(1, &datagram[..HEADER_LEN + len]);
            }
            net.now += 10_000;
        }
        net.drain(20 * SECOND);
        let after = snapshot(&net);
        prop_assert!(before[..place] == after[..place]);
        prop_assert!(before[place + 8192..] == after[place + 8192..]);
    }
}

fn header() -> impl Strategy<Value = Header> {
    let kinds = prop_oneof![
        Just(Kind::Send),
        Just(Kind::Write),
        Just(Kind::ReadRequest),
        Just(Kind::ReadResponse),
        Just(Kind::Ack),
        Just(Kind::NotReady),
        Just(Kind::Refused),
        Just(Kind::ReadRefused),
        Just(Kind::BadQpn),
        Just(Kind::Datagram),
    ];
    let status = (0u8..19).prop_filter_map("a status", Status::from_code);
    let near = prop_oneof![3 => Just(BASE + PLACE), 1 => any::<u64>()];
    let words = prop::array::uniform8(prop_oneof![Just(0u32), 0u32..2000, any::<u32>()]);
    (kinds, any::<u8>(), status, words, near, any::<[u64; 2]>(), prop_oneof![4 => Just(QKEY), 1 => any::<u32>()])
        .prop_map(|(kind, flags, status, words, addr, bits, qkey)| {
            let mut header = Header::new(kind);
            header.key = KEY;
            (header.flags, header.status) = (flags, status);
            header.src_gid = gid(words[0] as usize % 3);
            (header.src_qpn, header.dst_qpn) = (Qpn(7 + words[1] % 2), Qpn(8));
            (header.src_incarnation, header.dst_incarnation) = (words[2].max(1), 0);
            (header.psn, header.base, header.ack, header.ack_bits) = (words[3], words[4], words[5], bits[0]);
            (header.qkey, header.addr, header.length, header.piece) = (qkey, addr, words[6], words[7] % 2048);
            (header.wanted, header.rkey, header.imm) = (bits[1], words[1], words[0]);
            header
        })
}

#[test]
fn strangers_are_counted_and_change_nothing() {
    let mut net = Net::pair(3);
    let mut header = Header::new(Kind::Write);
    header.key = *b"another key here";
    (header.src_gid, header.src_qpn, header.dst_qpn) = (gid(0), Qpn(7), Qpn(8));
    (header.src_incarnation, header.qkey) = (1, QKEY);
    (header.rkey, header.addr) = (net.nodes[1].mr.0, BASE);
    let mut datagram = [0xff; HEADER_LEN + 64];
    header.encode(&mut datagram);
    let node = &mut net.nodes[1];
    node.device.handle_datagram(1, &datagram, &mut node.mem);
    node.device.handle_datagram(1, b"GET / HTTP/1.1", &mut node.mem);
    assert_eq!(node.device.counters().sim_rx_bad_key, 1);
    assert_eq!(node.device.counters().sim_rx_malformed, 1);
    assert_eq!(node.device.counters().rx_pkts, 0);
    assert_eq!(node.mem.slice(BASE, 64), [0; 64]);
    let mut out = vec![0; node.device.datagram_len()];
    assert_eq!(node.device.poll_transmit(1, &node.mem, &mut out), None, "a stranger gets no answer");
}

#[test]
fn rdma_from_a_device_without_address_handle_is_refused() {
    let mut net = Net::pair(4);
    net.nodes[1].device.destroy_ah(AhNumber(0)).expect("there");
    for op in [SendOp::Write, SendOp::Read] {
        net.post(op, (0, 1), 1, 0, 0, 100, None);
    }
    net.post_recv(1, 0, 0, 64);
    net.post(SendOp::Send, (0, 1), 2, 0, 0, 64, None);
    net.drain(SECOND);
    let mut done = net.done(0);
    done.sort_by_key(|completion| completion.wr_id);
    let statuses: Vec<_> = done.iter().map(|completion| completion.status).collect();
    assert_eq!(statuses, [Status::RemoteUnknownPeer, Status::RemoteUnknownPeer, Status::Ok]);
    assert_eq!(net.done(1)[0].src_ah, AhNumber::UNKNOWN);
}

#[test]
fn a_registration_taken_back_in_flight_ends_the_operation() {
    for (op, expected) in [(SendOp::Write, Status::InvalidLkey), (SendOp::Read, Status::InvalidLkey)] {
        let mut net = Net::pair(5);
        net.post(op, (0, 1), 1, 0, 0, 1_000_000, None);
        net.settle();
        let mr = net.nodes[0].mr;
        net.nodes[0].device.deregister(mr).expect("there");
        net.drain(5 * SECOND);
        assert_eq!(net.done(0)[0].status, expected);
        let mut net = Net::pair(6);
        net.post(op, (0, 1), 1, 0, 0, 1_000_000, None);
        net.run(20_000, |_| false);
        let mr = net.nodes[1].mr;
        net.nodes[1].device.deregister(mr).expect("there");
        net.drain(5 * SECOND);
        assert_eq!(net.done(0)[0].status, Status::RemoteBadAddress);
    }
}
