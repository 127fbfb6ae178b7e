//! The inlined functions do what C's do: the same table entry, arguments, order and result.
//!
//! An endpoint and a queue are made up whose tables of operations hold functions that note what they
//! were called with. Each function is called both ways, with arguments that are all different.

use core::ffi::c_int;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ptr;

use efa_sys::{FI_EAGAIN, fi_cq_err_entry, fi_ops_cq, fi_ops_msg, fi_ops_rma, fi_ops_tagged, fid_cq, fid_ep, shim};

/// What the made-up provider returns: not zero, to see that it is passed on.
const RETURNED: isize = -(FI_EAGAIN as isize);

thread_local! {
    /// Arguments of the last call, the object first.
    static NOTED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Arguments as numbers, to make up and to compare.
trait Argument {
    fn made_up(number: u64) -> Self;
    fn number(self) -> u64;
}

impl<T> Argument for *mut T {
    fn made_up(number: u64) -> Self {
        ptr::without_provenance_mut(usize::made_up(number))
    }
    fn number(self) -> u64 {
        self.addr() as u64
    }
}

impl<T> Argument for *const T {
    fn made_up(number: u64) -> Self {
        ptr::without_provenance(usize::made_up(number))
    }
    fn number(self) -> u64 {
        self.addr() as u64
    }
}

impl Argument for u64 {
    fn made_up(number: u64) -> Self {
        number
    }
    fn number(self) -> u64 {
        self
    }
}

impl Argument for usize {
    fn made_up(number: u64) -> Self {
        usize::try_from(number).expect("made up to fit")
    }
    fn number(self) -> u64 {
        self as u64
    }
}

impl Argument for c_int {
    fn made_up(number: u64) -> Self {
        c_int::try_from(number).expect("made up to fit")
    }
    fn number(self) -> u64 {
        u64::try_from(self).expect("made up positive")
    }
}

/// Table entries that note their arguments, one for each number of them.
macro_rules! noting {
    ($($name:ident($($arg:ident: $Type:ident),*);)*) => {$(
        unsafe extern "C" fn $name<Object, $($Type: Argument),*>(
            object: *mut Object,
            $($arg: $Type),*
        ) -> isize {
            NOTED.set(vec![object.number(), $($arg.number()),*]);
            RETURNED
        }
    )*};
}

noting! {
    note2(a: A, b: B);
    note3(a: A, b: B, c: C);
    note4(a: A, b: B, c: C, d: D);
    note5(a: A, b: B, c: C, d: D, e: E);
    note6(a: A, b: B, c: C, d: D, e: E, f: F);
    note7(a: A, b: B, c: C, d: D, e: E, f: F, g: G);
    note8(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H);
}

/// An argument that says its own position.
fn at<T: Argument>(position: u64) -> T {
    T::made_up(0x1000 + position)
}

/// Calls a function both ways on an object of whose tables only one entry is set.
///
/// Any other entry is null, so that a call through the wrong one ends the test at once.
macro_rules! agree {
    ($object:ident, $table:ident: $Ops:ident.$entry:ident, $note:ident, $function:ident($($position:literal)*)) => {{
        let mut ops = $Ops { $entry: Some($note), ..Default::default() };
        let mut object = $object { $table: &raw mut ops, ..Default::default() };
        let object = &raw mut object;
        // SAFETY: the object and its table live to the end of this block, and the entry that the
        // function uses is set; the made-up pointers are only noted.
        let inlined = unsafe { efa_sys::$function(object, $(at($position)),*) };
        let by_rust = NOTED.take();
        // SAFETY: as above.
        let shimmed = unsafe { shim::$function(object, $(at($position)),*) };
        let by_c = NOTED.take();
        assert_eq!(by_rust, by_c, stringify!($function));
        let passed = vec![object.number(), $(0x1000 + $position),*];
        assert_eq!(by_rust, passed, stringify!($function));
        assert_eq!((inlined, shimmed), (RETURNED, RETURNED), stringify!($function));
    }};
}

#[test]
fn messages_agree_with_c() {
    agree!(fid_ep, msg: fi_ops_msg.recv, note5, fi_recv(1 2 3 4 5));
    agree!(fid_ep, msg: fi_ops_msg.recvv, note5, fi_recvv(1 2 3 4 5));
    agree!(fid_ep, msg: fi_ops_msg.recvmsg, note2, fi_recvmsg(1 2));
    agree!(fid_ep, msg: fi_ops_msg.send, note5, fi_send(1 2 3 4 5));
    agree!(fid_ep, msg: fi_ops_msg.sendv, note5, fi_sendv(1 2 3 4 5));
    agree!(fid_ep, msg: fi_ops_msg.sendmsg, note2, fi_sendmsg(1 2));
    agree!(fid_ep, msg: fi_ops_msg.inject, note3, fi_inject(1 2 3));
    agree!(fid_ep, msg: fi_ops_msg.senddata, note6, fi_senddata(1 2 3 4 5 6));
    agree!(fid_ep, msg: fi_ops_msg.injectdata, note4, fi_injectdata(1 2 3 4));
}

#[test]
fn tagged_messages_agree_with_c() {
    agree!(fid_ep, tagged: fi_ops_tagged.recv, note7, fi_trecv(1 2 3 4 5 6 7));
    agree!(fid_ep, tagged: fi_ops_tagged.recvv, note7, fi_trecvv(1 2 3 4 5 6 7));
    agree!(fid_ep, tagged: fi_ops_tagged.recvmsg, note2, fi_trecvmsg(1 2));
    agree!(fid_ep, tagged: fi_ops_tagged.send, note6, fi_tsend(1 2 3 4 5 6));
    agree!(fid_ep, tagged: fi_ops_tagged.sendv, note6, fi_tsendv(1 2 3 4 5 6));
    agree!(fid_ep, tagged: fi_ops_tagged.sendmsg, note2, fi_tsendmsg(1 2));
    agree!(fid_ep, tagged: fi_ops_tagged.inject, note4, fi_tinject(1 2 3 4));
    agree!(fid_ep, tagged: fi_ops_tagged.senddata, note7, fi_tsenddata(1 2 3 4 5 6 7));
    agree!(fid_ep, tagged: fi_ops_tagged.injectdata, note5, fi_tinjectdata(1 2 3 4 5));
}

#[test]
fn remote_memory_access_agrees_with_c() {
    agree!(fid_ep, rma: fi_ops_rma.read, note7, fi_read(1 2 3 4 5 6 7));
    agree!(fid_ep, rma: fi_ops_rma.readv, note7, fi_readv(1 2 3 4 5 6 7));
    agree!(fid_ep, rma: fi_ops_rma.readmsg, note2, fi_readmsg(1 2));
    agree!(fid_ep, rma: fi_ops_rma.write, note7, fi_write(1 2 3 4 5 6 7));
    agree!(fid_ep, rma: fi_ops_rma.writev, note7, fi_writev(1 2 3 4 5 6 7));
    agree!(fid_ep, rma: fi_ops_rma.writemsg, note2, fi_writemsg(1 2));
    agree!(fid_ep, rma: fi_ops_rma.inject, note5, fi_inject_write(1 2 3 4 5));
    agree!(fid_ep, rma: fi_ops_rma.writedata, note8, fi_writedata(1 2 3 4 5 6 7 8));
    agree!(fid_ep, rma: fi_ops_rma.injectdata, note6, fi_inject_writedata(1 2 3 4 5 6));
}

#[test]
fn completion_reads_agree_with_c() {
    agree!(fid_cq, ops: fi_ops_cq.read, note2, fi_cq_read(1 2));
    agree!(fid_cq, ops: fi_ops_cq.readfrom, note3, fi_cq_readfrom(1 2 3));
    agree!(fid_cq, ops: fi_ops_cq.sread, note4, fi_cq_sread(1 2 3 4));
}

#[test]
fn reading_an_error_agrees_with_c_down_to_the_bytes_of_the_entry() {
    let mut ops = fi_ops_cq { readerr: Some(note2), ..Default::default() };
    let mut cq = fid_cq { ops: &raw mut ops, ..Default::default() };
    let cq = &raw mut cq;
    let mut entry = MaybeUninit::<fi_cq_err_entry>::uninit();
    let flags = 0x1002;

    fill(&mut entry);
    // SAFETY: the queue and its table live through the call; the entry is memory to write to.
    let inlined = unsafe { efa_sys::fi_cq_readerr(cq, entry.as_mut_ptr(), flags) };
    let by_rust = (inlined, NOTED.take(), bytes(&entry));

    fill(&mut entry);
    // SAFETY: as above.
    let shimmed = unsafe { shim::fi_cq_readerr(cq, entry.as_mut_ptr(), flags) };
    let by_c = (shimmed, NOTED.take(), bytes(&entry));

    assert_eq!(by_rust, by_c);
    let passed = vec![cq.number(), entry.as_mut_ptr().number(), flags];
    assert_eq!((by_rust.0, by_rust.1), (RETURNED, passed));
}

#[test]
fn reading_an_error_into_nothing_agrees_with_c() {
    let mut ops = fi_ops_cq { readerr: Some(note2), ..Default::default() };
    let mut cq = fid_cq { ops: &raw mut ops, ..Default::default() };
    let cq = &raw mut cq;
    // SAFETY: the queue and its table live through the call, which takes a null entry.
    let inlined = unsafe { efa_sys::fi_cq_readerr(cq, ptr::null_mut(), 7) };
    let by_rust = (inlined, NOTED.take());
    // SAFETY: as above.
    let shimmed = unsafe { shim::fi_cq_readerr(cq, ptr::null_mut(), 7) };
    assert_eq!(by_rust, (shimmed, NOTED.take()));
    assert_eq!(by_rust, (RETURNED, vec![cq.number(), 0, 7]));
}

/// A pattern in every byte, padding too, to see which are written.
fn fill(entry: &mut MaybeUninit<fi_cq_err_entry>) {
    // SAFETY: the memory is the entry's own, and bytes may be anything there.
    unsafe { entry.as_mut_ptr().write_bytes(0x5a, 1) };
}

fn bytes(entry: &MaybeUninit<fi_cq_err_entry>) -> Vec<u8> {
    let start = entry.as_ptr().cast::<u8>();
    // SAFETY: `fill` wrote every byte, and the slice ends with the entry that is borrowed.
    let all = unsafe { std::slice::from_raw_parts(start, size_of::<fi_cq_err_entry>()) };
    all.to_vec()
}
