//! One of each, over a link that loses nothing.

use super::super::*;
use super::harness::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_send_lands_in_a_receive_and_completes_at_both_ends() {
    let mut net = Net::pair(1);
    net.fill(0, 0, &pattern(1, 100));
    net.post_recv(1, 70, 500, 200);
    net.post(SendOp::Send, (0, 1), 60, 0, 0, 100, Some(0xdead_beef));
    net.drain(SECOND);
    assert_eq!(net.bytes(1, 500, 100), pattern(1, 100));
    let sent = net.done(0);
    assert_eq!((sent.len(), sent[0].wr_id, sent[0].status), (1, 60, Status::Ok));
    let got = net.done(1);
    assert_eq!(got.len(), 1);
    assert_eq!((got[0].wr_id, got[0].byte_len, got[0].imm), (70, 100, Some(0xdead_beef)));
    assert_eq!((got[0].src_ah, got[0].src_qpn, got[0].src_gid), (AhNumber(0), Qpn(7), gid(0)));
}

#[test]
fn a_write_of_many_pieces_lands_whole() {
    let mut net = Net::pair(2);
    net.fill(0, 0, &pattern(2, 300_000));
    net.post(SendOp::Write, (0, 1), 1, 0, 1_000_001, 300_000, None);
    net.drain(SECOND);
    assert_eq!(net.bytes(1, 1_000_001, 300_000), pattern(2, 300_000));
    assert_eq!(net.done(0).len(), 1);
    assert!(net.done(1).is_empty());
}

#[test]
fn a_write_with_immediate_data_completes_at_the_target_once_all_of_it_is_there() {
    let mut net = Net::pair(3);
    net.fill(0, 0, &pattern(3, 50_000));
    net.post_recv(1, 9, 0, 0);
    net.post(SendOp::Write, (0, 1), 1, 0, 100_000, 50_000, Some(42));
    net.drain(SECOND);
    let got = net.done(1);
    assert_eq!((got.len(), got[0].op, got[0].wr_id), (1, CompletionOp::RecvWriteImm, 9));
    assert_eq!((got[0].imm, got[0].byte_len, got[0].unsolicited), (Some(42), 50_000, false));
    assert_eq!(net.bytes(1, 100_000, 50_000), pattern(3, 50_000));
    assert_eq!(net.done(0)[0].status, Status::Ok);
}

#[test]
fn a_read_of_many_pieces_arrives_whole_while_the_target_sleeps() {
    let mut net = Net::pair(4);
    net.nodes[1].asleep = true;
    net.fill(1, 777, &pattern(4, 1_000_000));
    net.post(SendOp::Read, (0, 1), 5, 3, 777, 1_000_000, None);
    net.drain(SECOND);
    assert_eq!(net.bytes(0, 3, 1_000_000), pattern(4, 1_000_000));
    let done = net.done(0);
    assert_eq!((done.len(), done[0].op, done[0].byte_len), (1, CompletionOp::Read, 1_000_000));
}
