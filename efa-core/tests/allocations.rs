//! The data path allocates nothing: counted by the global allocator, which only Rust code uses.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

use common::{A, B, DEADLINE, Pair, Spec};
use efa_core::*;

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

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
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

/// Messages whose allocations are counted, after as many as a tenth to warm up.
const MESSAGES: u64 = 10_000;

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Owned,
    Shared,
    Tagged,
    Injected,
    InjectedTagged,
}

on_each_provider!(
    sends_and_receives_allocate_nothing,
    shared_sends_allocate_nothing,
    tagged_messages_allocate_nothing,
    injects_allocate_nothing,
    tagged_injects_allocate_nothing,
);

fn sends_and_receives_allocate_nothing(provider: &str) {
    check(provider, Way::Owned);
}

fn shared_sends_allocate_nothing(provider: &str) {
    check(provider, Way::Shared);
}

fn tagged_messages_allocate_nothing(provider: &str) {
    check(provider, Way::Tagged);
}

fn injects_allocate_nothing(provider: &str) {
    check(provider, Way::Injected);
}

fn tagged_injects_allocate_nothing(provider: &str) {
    check(provider, Way::InjectedTagged);
}

fn check(provider: &str, way: Way) {
    let Some(mut pair) = Pair::connected(provider, &Spec::new(64, 4)) else { return };
    let shared = pair.filled(8, 1).into_shared();
    let mut batch = Batch::new();
    (0..MESSAGES / 10).for_each(|_| message(&mut pair, &mut batch, way, &shared));
    assert!(ALLOCATIONS.get() > 0, "nothing is being counted");
    let before = ALLOCATIONS.get();
    (0..MESSAGES).for_each(|_| message(&mut pair, &mut batch, way, &shared));
    assert_eq!(ALLOCATIONS.get() - before, 0, "allocations in {MESSAGES} messages, {way:?}");
    assert_eq!(pair.pool.available(), 3);
}

/// One message from A to B, until it has arrived and its send, if it has one, is complete.
fn message(pair: &mut Pair, batch: &mut Batch, way: Way, shared: &SharedBuf) {
    let [a, b] = &mut pair.sides;
    let (a, peer, b) = (&mut a.ep, a.peer, &mut b.ep);
    let buf = pair.pool.take().expect("a buffer");
    let posted = match way {
        Way::Tagged | Way::InjectedTagged => b.recv_tagged(None, buf, 7, 0, Token(1)),
        _ => b.recv(None, buf, Token(1)),
    };
    posted.expect("a receive fits");
    let started = Instant::now();
    let mut sent = false;
    let mut owned = matches!(way, Way::Owned | Way::Tagged).then(|| pair.pool.take().expect("a buffer"));
    let mut expected = if matches!(way, Way::Injected | Way::InjectedTagged) { 1 } else { 2 };
    while expected > 0 {
        if !sent {
            sent = match way {
                Way::Owned => keep(owned.take().map(|buf| a.send(peer, buf, Token(2))), &mut owned),
                Way::Tagged => keep(owned.take().map(|buf| a.send_tagged(peer, buf, 7, Token(2))), &mut owned),
                Way::Shared => a.send(peer, shared.clone(), Token(2)).is_ok(),
                Way::Injected => a.inject(peer, &shared[..]).is_ok(),
                Way::InjectedTagged => a.inject_tagged(peer, &shared[..], 7).is_ok(),
            };
        }
        for end in [&mut *a, &mut *b] {
            expected -= end.poll(batch).expect("poll");
            assert!(batch.all(|done| done.status.is_ok()));
        }
        if started.elapsed() > DEADLINE {
            panic!("a message did not arrive");
        }
        std::thread::yield_now();
    }
}

#[test]
fn taking_sharing_and_giving_back_allocate_nothing() {
    let Some(pair) = Pair::open(common::TCP, &Spec::new(64, 4)) else { return };
    let before = ALLOCATIONS.get();
    for _ in 0..1000 {
        let shared = pair.pool.take().expect("a buffer").into_shared();
        let other = Payload::from(shared.clone());
        drop(shared);
        drop(other.into_buf().expect_err("a share").try_into_buf().expect("the last share"));
    }
    assert_eq!((ALLOCATIONS.get() - before, pair.pool.available()), (0, 4));
}

/// Whether it was posted; a buffer that was refused goes back to where it came from.
fn keep(posted: Option<Result<(), Rejected<Payload>>>, owned: &mut Option<Buf>) -> bool {
    match posted {
        Some(Err(rejected)) => {
            *owned = rejected.buf.into_buf().ok();
            false
        }
        _ => true,
    }
}

/// The two ends are indices into the pair.
const _: () = assert!(A == 0 && B == 1);
