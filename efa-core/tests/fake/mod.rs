//! A libfabric of the test's own behind the real one's symbols: deterministic, and able to misbehave.
//!
//! `fi_getinfo` and `fi_fabric` are defined here, and the linker prefers a program's own symbols to a shared
//! library's. Everything below them is reached through tables of functions, as in libfabric itself, so efa-core
//! runs on this fake unchanged. One [`Fake`] per thread says how it behaves and what it was asked to do.

#![allow(dead_code, reason = "each program uses its part of this module")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex};

use efa_sys::*;

/// An operation that the fake was handed and has not finished.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) context: *mut c_void,
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    pub(crate) flags: u64,
}

impl Flight {
    /// Uses the memory as a device would: reads the data and scribbles over the whole context.
    pub(crate) fn touch(&self) -> u8 {
        // SAFETY: an operation in flight owns its context until it completes; this is the provider's side of it.
        unsafe { self.context.cast::<u8>().write_bytes(0xAA, size_of::<fi_context2>()) };
        // SAFETY: and its buffer, which for these tests is never empty.
        unsafe { self.start.read_volatile() }
    }
}

/// Addresses of what is leaked on purpose, so that a leak checker still reaches it, and reports only mistakes.
static LEAKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Leaks `object` for good, as `mem::forget` does.
pub(crate) fn forget<T>(object: T) {
    leaked(Box::into_raw(Box::new(object)));
}

/// Notes that this memory stays.
pub(crate) fn leaked<T>(start: *const T) {
    LEAKED.lock().expect("no panic while it is held").push(start.addr());
}

/// What runs while an endpoint is being closed.
type CloseHook = Box<dyn FnOnce(&[Flight])>;

/// Behaviour and record of the fake in this thread.
pub(crate) struct Fake {
    /// What every post returns; 0 takes it.
    pub(crate) post: Cell<isize>,
    /// Whether a posted operation is complete at once.
    pub(crate) instant: Cell<bool>,
    /// What closing an endpoint returns.
    pub(crate) close: Cell<c_int>,
    /// What closing a registration returns.
    pub(crate) close_registration: Cell<c_int>,
    /// Changes an offer before it is made.
    pub(crate) offer: Cell<fn(&mut fi_info)>,
    /// Whether endpoints have the tables of messages, and of tagged ones.
    pub(crate) tables: Cell<[bool; 2]>,
    /// Runs while the next endpoint is being closed, with what is in flight then.
    pub(crate) on_close: RefCell<Option<CloseHook>>,
    pub(crate) flights: RefCell<Vec<Flight>>,
    /// Completions to be read.
    pub(crate) queue: RefCell<VecDeque<fi_cq_tagged_entry>>,
    /// Error completions to be read, first of all.
    pub(crate) errors: RefCell<VecDeque<fi_cq_err_entry>>,
    /// Whether an error entry came with all fields zero (but the source, which newer headers set).
    pub(crate) entry_was_zero: Cell<Option<bool>>,
    /// What was closed, in order.
    pub(crate) closed: RefCell<Vec<&'static str>>,
}

thread_local! {
    pub(crate) static FAKE: Fake = Fake {
        post: Cell::new(0),
        instant: Cell::new(false),
        close: Cell::new(0),
        close_registration: Cell::new(0),
        offer: Cell::new(|_| ()),
        tables: Cell::new([true; 2]),
        on_close: RefCell::new(None),
        flights: RefCell::new(Vec::with_capacity(64)),
        queue: RefCell::new(VecDeque::with_capacity(64)),
        errors: RefCell::new(VecDeque::new()),
        entry_was_zero: Cell::new(None),
        closed: RefCell::new(Vec::new()),
    };
}

impl Fake {
    /// Finishes an operation in flight, oldest first.
    pub(crate) fn finish(&self) {
        let flight = self.flights.borrow_mut().remove(0);
        self.queue.borrow_mut().push_back(flight.entry());
    }

    /// Fails the oldest operation in flight.
    pub(crate) fn fail(&self, err: c_int) {
        let flight = self.flights.borrow_mut().remove(0);
        let error = fi_cq_err_entry {
            op_context: flight.context,
            flags: flight.flags,
            err,
            prov_errno: 7,
            ..Default::default()
        };
        self.errors.borrow_mut().push_back(error);
    }
}

impl Flight {
    fn entry(&self) -> fi_cq_tagged_entry {
        fi_cq_tagged_entry { op_context: self.context, flags: self.flags, len: self.len, ..Default::default() }
    }
}

struct Tables {
    object: fi_ops,
    fabric: fi_ops_fabric,
    domain: fi_ops_domain,
    mr: fi_ops_mr,
    av: fi_ops_av,
    cq: fi_ops_cq,
    cm: fi_ops_cm,
    ep: fi_ops_ep,
    msg: fi_ops_msg,
    tagged: fi_ops_tagged,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables {
    object: fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: Some(bind),
        control: Some(control),
        ..Default::default()
    },
    fabric: fi_ops_fabric { size: size_of::<fi_ops_fabric>(), domain: Some(domain), ..Default::default() },
    domain: fi_ops_domain {
        size: size_of::<fi_ops_domain>(),
        av_open: Some(av_open),
        cq_open: Some(cq_open),
        endpoint: Some(endpoint),
        ..Default::default()
    },
    mr: fi_ops_mr { size: size_of::<fi_ops_mr>(), reg: Some(register), ..Default::default() },
    av: fi_ops_av { size: size_of::<fi_ops_av>(), insert: Some(insert), ..Default::default() },
    cq: fi_ops_cq {
        size: size_of::<fi_ops_cq>(),
        read: Some(cq_read),
        readerr: Some(cq_readerr),
        strerror: Some(cq_strerror),
        ..Default::default()
    },
    cm: fi_ops_cm { size: size_of::<fi_ops_cm>(), getname: Some(getname), ..Default::default() },
    ep: fi_ops_ep { size: size_of::<fi_ops_ep>(), cancel: Some(cancel), ..Default::default() },
    msg: fi_ops_msg {
        size: size_of::<fi_ops_msg>(),
        send: Some(send),
        recv: Some(recv),
        inject: Some(inject),
        ..Default::default()
    },
    tagged: fi_ops_tagged { size: size_of::<fi_ops_tagged>(), send: Some(tsend), ..Default::default() },
});

/// A table as C wants it; nothing ever writes to one.
fn table<T>(table: &'static T) -> *mut T {
    std::ptr::from_ref(table).cast_mut()
}

fn object(class: usize) -> fid {
    fid { fclass: class, context: std::ptr::null_mut(), ops: table(&TABLES.object) }
}

/// Hands a new object to the caller's out-pointer.
///
/// # Safety
///
/// `out` is valid for a write, as for every opening function of libfabric.
unsafe fn give<T>(out: *mut *mut T, object: T) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { out.write(Box::into_raw(Box::new(object))) };
    0
}

const CLASS_FABRIC: usize = 1;
const CLASS_DOMAIN: usize = 2;
const CLASS_EP: usize = 3;
const CLASS_AV: usize = 4;
const CLASS_MR: usize = 5;
const CLASS_CQ: usize = 6;

/// One offer of a provider named `fake`, whatever the hints say.
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_getinfo(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    _hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: a null argument asks for a new info.
    let new = unsafe { fi_dupinfo(std::ptr::null()) };
    // SAFETY: libfabric allocated it with all attribute structures.
    let offer = unsafe { &mut *new };
    // SAFETY: strdup reads a literal; fi_freeinfo frees the copies.
    let name = || unsafe { libc::strdup(c"fake".as_ptr()) };
    offer.caps = FI_MSG | FI_TAGGED;
    // SAFETY: as above.
    let ep = unsafe { &mut *offer.ep_attr };
    (ep.type_, ep.max_msg_size) = (FI_EP_RDM as _, 1 << 30);
    // SAFETY: as above.
    let tx = unsafe { &mut *offer.tx_attr };
    (tx.size, tx.inject_size, tx.caps) = (32, 64, offer.caps);
    // SAFETY: as above.
    let rx = unsafe { &mut *offer.rx_attr };
    (rx.size, rx.caps) = (32, offer.caps);
    // SAFETY: as above.
    let domain = unsafe { &mut *offer.domain_attr };
    domain.name = name();
    domain.threading = FI_THREAD_COMPLETION as _;
    // SAFETY: as above.
    let fabric = unsafe { &mut *offer.fabric_attr };
    (fabric.name, fabric.prov_name) = (name(), name());
    FAKE.with(|fake| fake.offer.get()(offer));
    // SAFETY: the caller's out-pointer.
    unsafe { info.write(new) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fi_fabric(_attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, _: *mut c_void) -> c_int {
    let new = fid_fabric { fid: object(CLASS_FABRIC), ops: table(&TABLES.fabric), ..Default::default() };
    // SAFETY: the caller's out-pointer.
    unsafe { give(fabric, new) }
}

unsafe extern "C" fn domain(
    _: *mut fid_fabric,
    _: *mut fi_info,
    domain: *mut *mut fid_domain,
    _: *mut c_void,
) -> c_int {
    let new = fid_domain { fid: object(CLASS_DOMAIN), ops: table(&TABLES.domain), mr: table(&TABLES.mr) };
    // SAFETY: the caller's out-pointer.
    unsafe { give(domain, new) }
}

unsafe extern "C" fn register(
    _: *mut fid,
    _: *const c_void,
    _: usize,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    mr: *mut *mut fid_mr,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the caller's out-pointer.
    unsafe { give(mr, fid_mr { fid: object(CLASS_MR), mem_desc: std::ptr::null_mut(), key: 0 }) }
}

unsafe extern "C" fn av_open(_: *mut fid_domain, _: *mut fi_av_attr, av: *mut *mut fid_av, _: *mut c_void) -> c_int {
    // SAFETY: the caller's out-pointer.
    unsafe { give(av, fid_av { fid: object(CLASS_AV), ops: table(&TABLES.av) }) }
}

unsafe extern "C" fn cq_open(_: *mut fid_domain, _: *mut fi_cq_attr, cq: *mut *mut fid_cq, _: *mut c_void) -> c_int {
    // SAFETY: the caller's out-pointer.
    unsafe { give(cq, fid_cq { fid: object(CLASS_CQ), ops: table(&TABLES.cq) }) }
}

unsafe extern "C" fn endpoint(_: *mut fid_domain, _: *mut fi_info, ep: *mut *mut fid_ep, _: *mut c_void) -> c_int {
    let [messages, tagged] = FAKE.with(|fake| fake.tables.get());
    let new = fid_ep {
        fid: object(CLASS_EP),
        ops: table(&TABLES.ep),
        cm: table(&TABLES.cm),
        msg: if messages { table(&TABLES.msg) } else { std::ptr::null_mut() },
        tagged: if tagged { table(&TABLES.tagged) } else { std::ptr::null_mut() },
        ..Default::default()
    };
    // SAFETY: the caller's out-pointer.
    unsafe { give(ep, new) }
}

unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    0
}

/// Frees an object that [`give`] made, unless it is an endpoint that is told to stay open.
unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: every object begins with its fid, and is open.
    let class = unsafe { (*object).fclass };
    if class == CLASS_EP {
        let refused = FAKE.with(|fake| {
            if let Some(hook) = fake.on_close.take() {
                hook(&fake.flights.borrow());
            }
            fake.close.get()
        });
        if refused != 0 {
            leaked(object);
            return refused;
        }
    }
    let refused = FAKE.with(|fake| fake.close_registration.get());
    if class == CLASS_MR && refused != 0 {
        leaked(object);
        return refused;
    }
    let name = match class {
        CLASS_FABRIC => free::<fid_fabric>(object, "fabric"),
        CLASS_DOMAIN => free::<fid_domain>(object, "domain"),
        CLASS_EP => free::<fid_ep>(object, "endpoint"),
        CLASS_AV => free::<fid_av>(object, "address vector"),
        CLASS_MR => free::<fid_mr>(object, "registration"),
        _ => free::<fid_cq>(object, "queue"),
    };
    FAKE.with(|fake| fake.closed.borrow_mut().push(name));
    0
}

fn free<T>(object: *mut fid, name: &'static str) -> &'static str {
    // SAFETY: `close` matched the class, which `give` made a box of; libfabric closes an object once.
    drop(unsafe { Box::from_raw(object.cast::<T>()) });
    name
}

unsafe extern "C" fn insert(
    _: *mut fid_av,
    _: *const c_void,
    _: usize,
    peer: *mut fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    // SAFETY: one address in, one handle out.
    unsafe { peer.write(0) };
    1
}

unsafe extern "C" fn getname(_: *mut fid, address: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: the caller's buffer has room for an address.
    unsafe { address.cast::<[u8; 4]>().write(*b"fake") };
    // SAFETY: the caller's length.
    unsafe { len.write(4) };
    0
}

/// Cancels nothing: there is no such operation.
unsafe extern "C" fn cancel(_: *mut fid, _: *mut c_void) -> isize {
    -(FI_ENOENT as isize)
}

fn post(start: *const c_void, len: usize, context: *mut c_void, flags: u64) -> isize {
    FAKE.with(|fake| {
        if fake.post.get() == 0 {
            let flight = Flight { context, start: start.cast_mut().cast(), len, flags };
            match fake.instant.get() {
                true => fake.queue.borrow_mut().push_back(flight.entry()),
                false => fake.flights.borrow_mut().push(flight),
            }
        }
        fake.post.get()
    })
}

unsafe extern "C" fn send(
    _: *mut fid_ep,
    start: *const c_void,
    len: usize,
    _: *mut c_void,
    _: fi_addr_t,
    context: *mut c_void,
) -> isize {
    post(start, len, context, FI_SEND | FI_MSG)
}

unsafe extern "C" fn tsend(
    _: *mut fid_ep,
    start: *const c_void,
    len: usize,
    _: *mut c_void,
    _: fi_addr_t,
    _: u64,
    context: *mut c_void,
) -> isize {
    post(start, len, context, FI_SEND | FI_TAGGED)
}

unsafe extern "C" fn recv(
    _: *mut fid_ep,
    start: *mut c_void,
    len: usize,
    _: *mut c_void,
    _: fi_addr_t,
    context: *mut c_void,
) -> isize {
    post(start, len, context, FI_RECV | FI_MSG)
}

unsafe extern "C" fn inject(_: *mut fid_ep, _: *const c_void, _: usize, _: fi_addr_t) -> isize {
    FAKE.with(|fake| fake.post.get())
}

unsafe extern "C" fn cq_read(_: *mut fid_cq, entries: *mut c_void, count: usize) -> isize {
    FAKE.with(|fake| {
        if !fake.errors.borrow().is_empty() {
            return -(FI_EAVAIL as isize);
        }
        let mut queue = fake.queue.borrow_mut();
        let count = count.min(queue.len());
        for (index, entry) in queue.drain(..count).enumerate() {
            let room = entries.cast::<fi_cq_tagged_entry>().wrapping_add(index);
            // SAFETY: the caller has room for `count` entries of the format that it opened the queue with.
            unsafe { room.write(entry) };
        }
        if count == 0 { -(FI_EAGAIN as isize) } else { count as isize }
    })
}

unsafe extern "C" fn cq_readerr(_: *mut fid_cq, entry: *mut fi_cq_err_entry, _: u64) -> isize {
    // SAFETY: the caller's entry, which it initialised.
    let before = unsafe { entry.read() };
    FAKE.with(|fake| {
        let zero = before.op_context.is_null()
            && before.err_data.is_null()
            && (before.flags, before.len, before.olen, before.err_data_size) == (0, 0, 0, 0)
            && (before.err, before.prov_errno, before.tag, before.data) == (0, 0, 0, 0);
        fake.entry_was_zero.set(Some(zero));
        let Some(error) = fake.errors.borrow_mut().pop_front() else { return -(FI_EAGAIN as isize) };
        // SAFETY: as above.
        unsafe { entry.write(error) };
        1
    })
}

/// No text for any code, which is allowed.
unsafe extern "C" fn cq_strerror(
    _: *mut fid_cq,
    _: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    std::ptr::null()
}
