//! Sends and polls, through efa-core or through efa-sys alone, for an instruction counter.
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null instructions raw 11000
//! ```
//!
//! `raw` and `safe` post one send, poll until its completion is read, and have its buffer back; `raw-window` and
//! `safe-window` post sixteen and poll until all of them are back. The difference between two numbers of sends,
//! divided by their difference, is what one send costs, free of start-up; `safe` less `raw` is then what the safe
//! objects cost. `bare` is the least that a program can do: the same buffer and the same context every time, and
//! nothing but the return values checked. The provider behind both is the fake of the tests, which takes the same instructions every
//! time: with a real one, the number of fruitless polls would vary.
//!
//! The raw loops give the same service, by trust instead of checks: a context for each operation in flight, taken
//! from a list of free ones, which says which operation it is and which buffer it has.

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::ffi::c_void;
use std::process::ExitCode;

use efa_core::*;
use efa_sys::{
    FI_CQ_FORMAT_TAGGED, FI_EAGAIN, FI_RECV, FI_TRANSMIT, fi_av_attr, fi_context2, fi_cq_attr, fi_cq_tagged_entry,
    fid_cq, fid_ep,
};

const BYTES: usize = 64;
const BATCH: usize = Batch::CAPACITY;
/// Sends in flight at once in the window modes.
const WINDOW: usize = BATCH;
/// As many contexts as a raw program keeps for operations in flight.
const CONTEXTS: usize = 32;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sends = args.get(1).and_then(|n| n.parse::<u64>().ok());
    fake::FAKE.with(|fake| fake.instant.set(true));
    let polls = match (args.first().map(String::as_str), sends) {
        (Some("raw"), Some(sends)) => raw(&mut Raw::open(), sends),
        (Some("bare"), Some(sends)) => bare(&mut Raw::open(), sends),
        (Some("raw-window"), Some(sends)) => raw_window(&mut Raw::open(), sends),
        (Some("safe"), Some(sends)) => safe(&mut Safe::open(), sends),
        (Some("safe-window"), Some(sends)) => safe_window(&mut Safe::open(), sends),
        (Some("none"), Some(_)) => {
            drop(Safe::open());
            0
        }
        _ => {
            eprintln!("usage: instructions bare|raw|safe|raw-window|safe-window|none SENDS");
            return ExitCode::from(2);
        }
    };
    println!("{polls} polls");
    ExitCode::SUCCESS
}

/// An endpoint, and the buffers that are not in flight.
struct Safe {
    endpoint: Endpoint,
    peer: Peer,
    idle: Vec<Buf>,
}

impl Safe {
    fn open() -> Safe {
        let info = get_info(&Hints::new(Caps::MSG)).expect("the fake").swap_remove(0);
        let domain = Domain::open(&Fabric::open(&info).expect("fabric"), &info).expect("domain");
        let pool = domain.buffers(&PoolSpec::new(BYTES, WINDOW)).expect("pool");
        let mut endpoint = domain.endpoint(&info, &EndpointConfig::new()).expect("endpoint");
        let me = endpoint.address().expect("address");
        let peer = endpoint.insert(&me).expect("peer");
        Safe { endpoint, peer, idle: std::iter::from_fn(|| pool.take()).collect() }
    }
}

/// One send at a time through the safe objects; returns the number of polls.
#[inline(never)]
fn safe(side: &mut Safe, sends: u64) -> u64 {
    let Safe { endpoint, peer, idle } = side;
    let Some(mut buf) = idle.pop() else { std::process::abort() };
    let mut batch = Batch::new();
    let mut polls = 0;
    for number in 0..sends {
        if let Err(rejected) = endpoint.send(*peer, buf, Token(number)) {
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
        if done.token != Token(number) {
            std::process::abort();
        }
        if done.status.is_err() {
            std::process::abort();
        }
        let Ok(back) = done.buf.into_buf() else { std::process::abort() };
        buf = back;
    }
    polls
}

/// A window of sends at a time through the safe objects.
#[inline(never)]
fn safe_window(side: &mut Safe, sends: u64) -> u64 {
    let Safe { endpoint, peer, idle } = side;
    let mut batch = Batch::new();
    let (mut posted, mut finished, mut polls, mut tokens) = (0, 0, 0, 0);
    while finished < sends {
        while posted < sends
            && let Some(buf) = idle.pop()
        {
            match endpoint.send(*peer, buf, Token(posted)) {
                Ok(()) => posted += 1,
                Err(Rejected { buf, kind: PostErrorKind::WouldBlock }) => {
                    idle.extend(buf.into_buf());
                    break;
                }
                Err(rejected) => panic!("{rejected}"),
            }
        }
        while finished < posted {
            polls += 1;
            if let Err(error) = endpoint.poll(&mut batch) {
                panic!("{error}");
            }
            for done in batch.by_ref() {
                if done.status.is_err() {
                    std::process::abort();
                }
                tokens ^= done.token.0;
                finished += 1;
                let Ok(buf) = done.buf.into_buf() else { std::process::abort() };
                idle.push(buf);
            }
        }
    }
    std::hint::black_box(tokens);
    polls
}

/// What a raw program keeps for an operation in flight: the provider's context first, then its own.
#[repr(C)]
struct Op {
    context: fi_context2,
    token: u64,
    buf: *mut u8,
}

/// What a raw program has open, and the operations and buffers that are not in flight.
struct Raw {
    ep: *mut fid_ep,
    cq: *mut fid_cq,
    desc: *mut c_void,
    peer: u64,
    ops: Vec<*mut Op>,
    idle: Vec<*mut u8>,
}

/// One send at a time, by a program that knows what finishes: what it sent.
#[inline(never)]
fn bare(side: &mut Raw, sends: u64) -> u64 {
    let Raw { ep, cq, desc, peer, ops, idle } = side;
    let (Some(op), Some(buf)) = (ops.pop(), idle.pop()) else { std::process::abort() };
    let mut entries = [fi_cq_tagged_entry::default(); BATCH];
    let mut polls = 0;
    for _ in 0..sends {
        // SAFETY: endpoint and operation are open and free; the buffer stays until the end.
        let ret = unsafe { efa_sys::fi_send(*ep, buf.cast(), BYTES, *desc, *peer, op.cast()) };
        if ret != 0 {
            panic!("the fake takes every post");
        }
        loop {
            polls += 1;
            // SAFETY: the queue is open, and there is room for BATCH entries of its format.
            let ret = unsafe { efa_sys::fi_cq_read(*cq, entries.as_mut_ptr().cast(), BATCH) };
            if ret == 1 {
                break;
            }
            if ret != -(FI_EAGAIN as isize) {
                panic!("fi_cq_read returned {ret}");
            }
        }
    }
    polls
}

/// One send at a time, as a careful program writes it without efa-core.
#[inline(never)]
fn raw(side: &mut Raw, sends: u64) -> u64 {
    let Raw { ep, cq, desc, peer, ops, idle } = side;
    let Some(mut buf) = idle.pop() else { std::process::abort() };
    let mut entries = [fi_cq_tagged_entry::default(); BATCH];
    let mut polls = 0;
    for number in 0..sends {
        let Some(op) = ops.pop() else { std::process::abort() };
        // SAFETY: endpoint and operation are open and free; the buffer stays until the completion below.
        let ret = unsafe { efa_sys::fi_send(*ep, buf.cast(), BYTES, *desc, *peer, op.cast()) };
        if ret != 0 {
            panic!("the fake takes every post");
        }
        // SAFETY: the operation is this loop's, its context aside.
        unsafe { (*op).token = number };
        // SAFETY: as above.
        unsafe { (*op).buf = buf };
        let count = loop {
            polls += 1;
            // SAFETY: the queue is open, and there is room for BATCH entries of its format.
            let ret = unsafe { efa_sys::fi_cq_read(*cq, entries.as_mut_ptr().cast(), BATCH) };
            if ret >= 0 {
                break ret;
            }
            if ret != -(FI_EAGAIN as isize) {
                panic!("fi_cq_read returned {ret}");
            }
        };
        if count != 1 {
            std::process::abort();
        }
        let done: *mut Op = entries[0].op_context.cast();
        // SAFETY: the provider hands back the contexts that it was given.
        if unsafe { (*done).token } != number {
            std::process::abort();
        }
        // SAFETY: as above.
        buf = unsafe { (*done).buf };
        ops.push(done);
    }
    polls
}

/// A window of sends at a time, as a careful program writes it without efa-core.
#[inline(never)]
fn raw_window(side: &mut Raw, sends: u64) -> u64 {
    let Raw { ep, cq, desc, peer, ops, idle } = side;
    let mut entries = [fi_cq_tagged_entry::default(); BATCH];
    let (mut posted, mut finished, mut polls, mut tokens) = (0, 0, 0, 0);
    while finished < sends {
        while posted < sends
            && let Some(buf) = idle.pop()
        {
            let Some(op) = ops.pop() else { std::process::abort() };
            // SAFETY: as in `raw`.
            let ret = unsafe { efa_sys::fi_send(*ep, buf.cast(), BYTES, *desc, *peer, op.cast()) };
            if ret == -(FI_EAGAIN as isize) {
                idle.push(buf);
                ops.push(op);
                break;
            }
            if ret != 0 {
                panic!("fi_send returned {ret}");
            }
            // SAFETY: as in `raw`.
            unsafe { (*op).token = posted };
            // SAFETY: as above.
            unsafe { (*op).buf = buf };
            posted += 1;
        }
        while finished < posted {
            polls += 1;
            // SAFETY: as in `raw`.
            let ret = unsafe { efa_sys::fi_cq_read(*cq, entries.as_mut_ptr().cast(), BATCH) };
            if ret < 0 && ret != -(FI_EAGAIN as isize) {
                panic!("fi_cq_read returned {ret}");
            }
            for entry in entries.iter().take(ret.max(0) as usize) {
                let done: *mut Op = entry.op_context.cast();
                // SAFETY: as in `raw`.
                tokens ^= unsafe { (*done).token };
                finished += 1;
                // SAFETY: as above.
                idle.push(unsafe { (*done).buf });
                ops.push(done);
            }
        }
    }
    std::hint::black_box(tokens);
    polls
}

impl Raw {
    /// Opens what the loops need and leaves it to the end of the process.
    fn open() -> Raw {
        let null: *mut c_void = std::ptr::null_mut();
        let (mut info, mut fabric, mut domain) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let (mut av, mut cq, mut ep) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let mut cq_attr = fi_cq_attr { size: CONTEXTS, format: FI_CQ_FORMAT_TAGGED as _, ..fi_cq_attr::default() };
        let mut av_attr = fi_av_attr::default();
        let mut mr = std::ptr::null_mut();
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
        let bytes = vec![0u8; BYTES * WINDOW].leak();
        let start = bytes.as_ptr().cast();
        let access = efa_sys::FI_SEND;
        // SAFETY: the domain is open, and the memory stays.
        failed |= unsafe { efa_sys::fi_mr_reg(domain, start, bytes.len(), access, 0, 0, 0, &mut mr, null) };
        assert_eq!(failed, 0, "opening the fake");
        // SAFETY: the registration is open.
        let desc = unsafe { efa_sys::fi_mr_desc(mr) };
        let idle = bytes.chunks_exact_mut(BYTES).map(|buf| buf.as_mut_ptr()).collect();
        let op = || Op { context: fi_context2::default(), token: 0, buf: std::ptr::null_mut() };
        let ops = Box::leak((0..CONTEXTS).map(|_| op()).collect::<Box<[Op]>>());
        Raw { ep, cq, desc, peer: 0, ops: ops.iter_mut().map(std::ptr::from_mut).collect(), idle }
    }
}
