//! Sends and polls N times, through efa-core or through efa-sys alone, for an instruction counter.
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null instructions raw 11000
//! ```
//!
//! Each round posts one send, polls until its completion is read, and has its buffer back. The difference
//! between two values of N, divided by their difference, is what one round costs, free of start-up; `safe` less
//! `raw` is then what the safe objects cost. The provider behind both is the fake of the tests, which takes the
//! same instructions every time: with a real one, the number of fruitless polls would vary.

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::process::ExitCode;

use efa_core::*;
use efa_sys::{
    FI_CQ_FORMAT_TAGGED, FI_EAGAIN, FI_RECV, FI_TRANSMIT, fi_av_attr, fi_context2, fi_cq_attr, fi_cq_tagged_entry,
    fid_cq, fid_ep,
};

const BYTES: usize = 64;
const BATCH: usize = Batch::CAPACITY;
/// As many contexts as a raw program keeps for operations in flight.
const CONTEXTS: usize = 32;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rounds = args.get(1).and_then(|n| n.parse::<u64>().ok());
    fake::FAKE.with(|fake| fake.instant.set(true));
    let polls = match (args.first().map(String::as_str), rounds) {
        (Some("raw"), Some(rounds)) => {
            let (ep, cq) = open_raw();
            raw(ep, cq, rounds)
        }
        (Some("safe"), Some(rounds)) => {
            let (mut endpoint, peer, buf) = open_safe();
            safe(&mut endpoint, peer, buf, rounds)
        }
        (Some("none"), Some(_)) => {
            drop(open_safe());
            0
        }
        _ => {
            eprintln!("usage: instructions raw|safe|none ROUNDS");
            return ExitCode::from(2);
        }
    };
    println!("{polls} polls");
    ExitCode::SUCCESS
}

/// Rounds through the safe objects; returns the number of polls.
#[inline(never)]
fn safe(endpoint: &mut Endpoint, peer: Peer, mut buf: Buf, rounds: u64) -> u64 {
    let mut batch = Batch::new();
    let mut polls = 0;
    for round in 0..rounds {
        if let Err(rejected) = endpoint.send(peer, buf, Token(round)) {
            panic!("the fake takes every post: {rejected}");
        }
        loop {
            polls += 1;
            match endpoint.poll(&mut batch) {
                Ok(0) => {}
                Ok(_) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let Some(done) = batch.next() else { std::process::abort() };
        if done.token != Token(round) {
            std::process::abort();
        }
        if done.status.is_err() {
            std::process::abort();
        }
        let Payload::Owned(back) = done.buf else { std::process::abort() };
        buf = back;
    }
    polls
}

/// The same rounds as a careful program writes them without efa-core.
#[inline(never)]
fn raw(ep: *mut fid_ep, cq: *mut fid_cq, rounds: u64) -> u64 {
    let mut bytes = [0u8; BYTES];
    let mut contexts = [fi_context2::default(); CONTEXTS];
    let mut entries = [fi_cq_tagged_entry::default(); BATCH];
    let mut polls = 0;
    for round in 0..rounds {
        let context = (&raw mut contexts[round as usize % CONTEXTS]).cast();
        let start = bytes.as_mut_ptr().cast();
        // SAFETY: the endpoint is open; buffer and context live until the completion below.
        let ret = unsafe { efa_sys::fi_send(ep, start, BYTES, std::ptr::null_mut(), 0, context) };
        if ret != 0 {
            panic!("the fake takes every post");
        }
        let count = loop {
            polls += 1;
            // SAFETY: the queue is open, and there is room for BATCH entries of its format.
            let ret = unsafe { efa_sys::fi_cq_read(cq, entries.as_mut_ptr().cast(), BATCH) };
            if ret >= 0 {
                break ret;
            }
            if ret != -(FI_EAGAIN as isize) {
                panic!("fi_cq_read returned {ret}");
            }
        };
        if count != 1 || entries[0].op_context != context {
            std::process::abort();
        }
    }
    polls
}

fn open_safe() -> (Endpoint, Peer, Buf) {
    let info = get_info(&Hints::new(Caps::MSG)).expect("the fake").swap_remove(0);
    let domain = Domain::open(&Fabric::open(&info).expect("fabric"), &info).expect("domain");
    let pool = domain.buffers(&PoolSpec::new(BYTES, 2)).expect("pool");
    let mut endpoint = domain.endpoint(&info, &EndpointConfig::new()).expect("endpoint");
    let me = endpoint.address().expect("address");
    let peer = endpoint.insert(&me).expect("peer");
    (endpoint, peer, pool.take().expect("a buffer"))
}

/// Opens what `raw` needs and leaves it to the end of the process.
fn open_raw() -> (*mut fid_ep, *mut fid_cq) {
    let null: *mut std::ffi::c_void = std::ptr::null_mut();
    let (mut info, mut fabric, mut domain) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let (mut av, mut cq, mut ep) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let mut cq_attr = fi_cq_attr { size: CONTEXTS, format: FI_CQ_FORMAT_TAGGED as _, ..fi_cq_attr::default() };
    let mut av_attr = fi_av_attr::default();
    // SAFETY: no hints, and a valid out-pointer.
    let mut failed = unsafe { efa_sys::fi_getinfo(0, null.cast(), null.cast(), 0, null.cast(), &mut info) };
    // SAFETY: the offer is whole.
    let attr = unsafe { (*info).fabric_attr };
    // SAFETY: the attributes are the offer's.
    failed |= unsafe { efa_sys::fi_fabric(attr, &mut fabric, null) };
    // SAFETY: the fabric is open.
    failed |= unsafe { efa_sys::fi_domain(fabric, info, &mut domain, null) };
    // SAFETY: the domain is open.
    failed |= unsafe { efa_sys::fi_av_open(domain, &mut av_attr, &mut av, null) };
    // SAFETY: the domain is open.
    failed |= unsafe { efa_sys::fi_cq_open(domain, &mut cq_attr, &mut cq, null) };
    // SAFETY: the domain is open.
    failed |= unsafe { efa_sys::fi_endpoint(domain, info, &mut ep, null) };
    // SAFETY: endpoint and address vector are open.
    failed |= unsafe { efa_sys::fi_ep_bind(ep, av.cast(), 0) };
    // SAFETY: endpoint and queue are open.
    failed |= unsafe { efa_sys::fi_ep_bind(ep, cq.cast(), FI_TRANSMIT | FI_RECV) };
    // SAFETY: the endpoint is bound.
    failed |= unsafe { efa_sys::fi_enable(ep) };
    assert_eq!(failed, 0, "opening the fake");
    (ep, cq)
}
