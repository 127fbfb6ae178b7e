//! The model allocates nothing for a packet once its tables have their working size.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use efa_sim::model::*;

/// The system's allocator, counting the calls of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending allocates uncounted.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to System unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is System's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above; System allocated it.
        unsafe { System.realloc(start, layout, size) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above; System allocated it.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BASE: u64 = 4096;
const QKEY: u32 = 7;

struct End {
    device: Device,
    mem: FlatMemory,
    cq: Cqn,
    mr: MrKey,
}

fn gid(end: usize) -> Gid {
    Gid([end as u8 + 1; 16])
}

fn end(index: usize) -> End {
    let mut device = Device::new(DeviceConfig::new(gid(index), [1; 16], index as u64));
    let cq = device.create_cq(1024).expect("queue");
    let config = QpConfig {
        qpn: Qpn(1),
        pd: Pd(0),
        kind: QpKind::Srd,
        send_cq: cq,
        recv_cq: cq,
        sq_depth: 256,
        rq_depth: 256,
        unsolicited_writes: false,
    };
    device.create_qp(config).expect("queue pair");
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let change = QpChange { state: Some(state), qkey: Some(QKEY), rnr_retry: None };
        device.modify_qp(Qpn(1), change).expect("state");
    }
    let access = Access::LOCAL_WRITE.with(Access::REMOTE_READ).with(Access::REMOTE_WRITE);
    let mr = MrConfig { pd: Pd(0), addr: BASE, len: 1 << 20, iova: BASE, access };
    let mr = device.register(mr).expect("registration");
    device.create_ah(gid(1 - index)).expect("handle");
    End { device, mem: FlatMemory::new(BASE, 1 << 20), cq, mr }
}

/// Moves datagrams to and fro until both ends are still; every seventh is lost.
fn exchange(ends: &mut [End; 2], now: &mut u64, buffer: &mut [u8], sent: &mut u64) {
    loop {
        let mut moved = false;
        for from in 0..2 {
            while let Some(made) = {
                let end = &mut ends[from];
                end.device.poll_transmit(*now, &end.mem, buffer)
            } {
                moved = true;
                *sent += 1;
                if !sent.is_multiple_of(7) {
                    let to = &mut ends[1 - from];
                    to.device.handle_datagram(*now, &buffer[..made.len], &mut to.mem);
                }
            }
            *now += 1000;
        }
        let next = ends.iter().filter_map(|end| end.device.next_timeout()).min();
        match next {
            Some(next) => *now = next.max(*now),
            None if moved => {}
            None => return,
        }
        for end in ends.iter_mut() {
            end.device.handle_timeout(*now);
            while end.device.poll_cq(end.cq).is_some() {}
        }
    }
}

#[test]
fn steady_traffic_allocates_nothing() {
    let mut ends = [end(0), end(1)];
    let mut buffer = vec![0; ends[0].device.datagram_len()];
    let (mut now, mut sent) = (1, 0);
    let mut before = 0;
    for round in 0..400 {
        if round == 100 {
            before = ALLOCATIONS.get();
        }
        for i in 0..64 {
            let op = [SendOp::Send, SendOp::Write, SendOp::Read, SendOp::Send][i as usize % 4];
            let len = if op == SendOp::Send { 64 } else { 40_000 };
            let rkey = ends[1].mr.0;
            let [a, b] = &mut ends;
            if op == SendOp::Send {
                let sge = Sge { addr: BASE, len, lkey: rkey };
                b.device.post_recv(Qpn(1), RecvWr { wr_id: i, sges: &[sge] }).expect("posted");
            }
            let wr = SendWr {
                wr_id: i,
                op,
                payload: Payload::Sges(&[Sge { addr: BASE, len, lkey: a.mr.0 }]),
                imm: None,
                dest: Destination { ah: AhNumber(0), qpn: Qpn(1), qkey: QKEY },
                remote: Remote { addr: BASE, rkey },
            };
            a.device.post_send(now, Qpn(1), wr).expect("posted");
        }
        exchange(&mut ends, &mut now, &mut buffer, &mut sent);
    }
    let allocations = ALLOCATIONS.get() - before;
    assert!(ends[0].device.counters().retrans_pkts > 0, "losses were part of it");
    assert_eq!(allocations, 0, "in {sent} datagrams");
}
