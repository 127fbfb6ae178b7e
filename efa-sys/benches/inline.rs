//! What inlining saves: one call of the data path, as inlined Rust and through its C shim.
//!
//! The table's functions return at once, so that little but the way to them is timed.
#![allow(missing_docs, reason = "criterion's macro makes the function that it says that of")]

use core::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use criterion::{Criterion, criterion_group, criterion_main};
use efa_sys::{FI_EAGAIN, fi_addr_t, fi_ops_cq, fi_ops_msg, fid_cq, fid_ep, shim};

unsafe extern "C" fn empty(_cq: *mut fid_cq, _buf: *mut c_void, _count: usize) -> isize {
    -(FI_EAGAIN as isize)
}

unsafe extern "C" fn accept(
    _ep: *mut fid_ep,
    _buf: *const c_void,
    _len: usize,
    _desc: *mut c_void,
    _dest: fi_addr_t,
    _context: *mut c_void,
) -> isize {
    0
}

fn read(c: &mut Criterion) {
    let mut ops = fi_ops_cq { read: Some(empty), ..Default::default() };
    let mut cq = fid_cq { ops: &raw mut ops, ..Default::default() };
    let cq = &raw mut cq;
    let mut group = c.benchmark_group("fi_cq_read");
    group.bench_function("inline", |b| {
        // SAFETY: the queue and its table outlive the group; `empty` touches no argument.
        b.iter(|| unsafe { efa_sys::fi_cq_read(black_box(cq), ptr::null_mut(), 16) });
    });
    group.bench_function("shim", |b| {
        // SAFETY: as above.
        b.iter(|| unsafe { shim::fi_cq_read(black_box(cq), ptr::null_mut(), 16) });
    });
    group.finish();
}

fn send(c: &mut Criterion) {
    let mut ops = fi_ops_msg { send: Some(accept), ..Default::default() };
    let mut ep = fid_ep { msg: &raw mut ops, ..Default::default() };
    let ep = &raw mut ep;
    let null = ptr::null_mut();
    let mut group = c.benchmark_group("fi_send");
    group.bench_function("inline", |b| {
        // SAFETY: the endpoint and its table outlive the group; `accept` touches no argument.
        b.iter(|| unsafe { efa_sys::fi_send(black_box(ep), null, 64, null, 1, null) });
    });
    group.bench_function("shim", |b| {
        // SAFETY: as above.
        b.iter(|| unsafe { shim::fi_send(black_box(ep), null, 64, null, 1, null) });
    });
    group.finish();
}

criterion_group!(calls, read, send);
criterion_main!(calls);
