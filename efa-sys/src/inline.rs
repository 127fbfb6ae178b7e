//! The functions of the data path, as Rust that the compiler can inline.
//!
//! In C these are `static inline`: a load or two and an indirect call. Reached through a C shim they
//! would cost a second call on every message, so they are written again here, as the same path
//! through the same table of operations. Two tests keep them honest: `tests/agreement.rs` compares
//! each with its shim, and `tests/layout.rs` compares the tables with C.

use core::ffi::{c_int, c_void};

use crate::bindings::{fi_addr_t, fi_cq_err_entry, fi_msg, fi_msg_rma, fi_msg_tagged, fid_cq, fid_ep, iovec};

/// Loads one entry of an object's table of operations.
///
/// It runs in an `unsafe fn` whose `# Safety` section promises what the comments here rely on.
macro_rules! operation {
    ($object:ident . $table:ident . $entry:ident) => {{
        // SAFETY: the caller promises that the object is open, so its pointer may be read through.
        let table = unsafe { (*$object).$table };
        // SAFETY: the provider set the table when it opened the object, and keeps it until close.
        let entry = unsafe { (*table).$entry };
        // SAFETY: the caller promises that the object was opened with the capability that this
        // operation belongs to, so its provider set the entry. C calls it as unconditionally, and
        // libfabric's own providers put a function that returns -FI_ENOSYS where they have none.
        unsafe { entry.unwrap_unchecked() }
    }};
}

/// Functions that hand their arguments to one entry of a table, unchanged and in the same order.
macro_rules! forward {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($object:ident: $type:ident $(, $arg:ident: $arg_type:ty)*) = $table:ident.$entry:ident;
    )*) => {$(
        $(#[$doc])*
        ///
        /// Returns what the provider does: zero or a count on success, `-FI_EAGAIN` when there is no
        /// room or nothing to read yet, or another negated error code.
        ///
        /// # Safety
        ///
        /// The object is open, was opened with the capability that this call needs, and no other
        /// thread uses it against its threading model. Every pointer is valid for what the
        /// function's man page says; memory given to an operation, its context included, stays
        /// valid and unaliased until the operation completes.
        #[allow(clippy::too_many_arguments, reason = "as many as the C function has")]
        #[inline]
        pub unsafe fn $name($object: *mut $type $(, $arg: $arg_type)*) -> isize {
            let call = operation!($object.$table.$entry);
            // SAFETY: the arguments are those that the caller vouches for.
            unsafe { call($object $(, $arg)*) }
        }
    )*};
}

// fi_msg(3)
forward! {
    /// Posts a buffer for the next message from `src_addr`.
    fn fi_recv(ep: fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, context: *mut c_void) = msg.recv;
    /// Posts a list of buffers for the next message from `src_addr`.
    fn fi_recvv(ep: fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t, context: *mut c_void) = msg.recvv;
    /// Posts the receive that `msg` describes, with flags.
    fn fi_recvmsg(ep: fid_ep, msg: *const fi_msg, flags: u64) = msg.recvmsg;
    /// Sends a buffer.
    fn fi_send(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, context: *mut c_void) = msg.send;
    /// Sends a list of buffers as one message.
    fn fi_sendv(ep: fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, context: *mut c_void) = msg.sendv;
    /// Sends the message that `msg` describes, with flags.
    fn fi_sendmsg(ep: fid_ep, msg: *const fi_msg, flags: u64) = msg.sendmsg;
    /// Sends a small buffer that may be reused as soon as the call returns; no completion follows.
    fn fi_inject(ep: fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) = msg.inject;
    /// Sends a buffer, and `data` into the completion at the peer.
    fn fi_senddata(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, dest_addr: fi_addr_t, context: *mut c_void) = msg.senddata;
    /// [`fi_inject`], with `data` for the completion at the peer.
    fn fi_injectdata(ep: fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t) = msg.injectdata;
}

// fi_tagged(3)
forward! {
    /// Posts a buffer for a message whose tag equals `tag` outside the bits of `ignore`.
    fn fi_trecv(ep: fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) = tagged.recv;
    /// Posts a list of buffers for a tagged message.
    fn fi_trecvv(ep: fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) = tagged.recvv;
    /// Posts the tagged receive that `msg` describes, with flags.
    fn fi_trecvmsg(ep: fid_ep, msg: *const fi_msg_tagged, flags: u64) = tagged.recvmsg;
    /// Sends a buffer under a tag.
    fn fi_tsend(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) = tagged.send;
    /// Sends a list of buffers as one tagged message.
    fn fi_tsendv(ep: fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) = tagged.sendv;
    /// Sends the tagged message that `msg` describes, with flags.
    fn fi_tsendmsg(ep: fid_ep, msg: *const fi_msg_tagged, flags: u64) = tagged.sendmsg;
    /// Sends a small buffer under a tag; it may be reused as soon as the call returns.
    fn fi_tinject(ep: fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, tag: u64) = tagged.inject;
    /// Sends a buffer under a tag, and `data` into the completion at the peer.
    fn fi_tsenddata(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, dest_addr: fi_addr_t, tag: u64, context: *mut c_void) = tagged.senddata;
    /// [`fi_tinject`], with `data` for the completion at the peer.
    fn fi_tinjectdata(ep: fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, tag: u64) = tagged.injectdata;
}

// fi_rma(3)
forward! {
    /// Reads the peer's memory at `addr` into a buffer.
    fn fi_read(ep: fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) = rma.read;
    /// Reads the peer's memory at `addr` into a list of buffers.
    fn fi_readv(ep: fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) = rma.readv;
    /// Starts the read that `msg` describes, with flags.
    fn fi_readmsg(ep: fid_ep, msg: *const fi_msg_rma, flags: u64) = rma.readmsg;
    /// Writes a buffer to the peer's memory at `addr`.
    fn fi_write(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) = rma.write;
    /// Writes a list of buffers to the peer's memory at `addr`.
    fn fi_writev(ep: fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) = rma.writev;
    /// Starts the write that `msg` describes, with flags.
    fn fi_writemsg(ep: fid_ep, msg: *const fi_msg_rma, flags: u64) = rma.writemsg;
    /// Writes a small buffer that may be reused as soon as the call returns; no completion follows.
    fn fi_inject_write(ep: fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, addr: u64, key: u64) = rma.inject;
    /// Writes a buffer to the peer's memory, and `data` into a completion there.
    fn fi_writedata(ep: fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64, dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) = rma.writedata;
    /// [`fi_inject_write`], with `data` for a completion at the peer.
    fn fi_inject_writedata(ep: fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, addr: u64, key: u64) = rma.injectdata;
}

// fi_cq(3)
forward! {
    /// Takes up to `count` completions off a queue; `buf` holds that many entries of its format.
    fn fi_cq_read(cq: fid_cq, buf: *mut c_void, count: usize) = ops.read;
    /// [`fi_cq_read`], and the address each message came from.
    fn fi_cq_readfrom(cq: fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t) = ops.readfrom;
    /// [`fi_cq_read`], waiting up to `timeout` milliseconds for a completion; negative is for ever.
    fn fi_cq_sread(cq: fid_cq, buf: *mut c_void, count: usize, cond: *const c_void, timeout: c_int) = ops.sread;
}

/// Takes the failed completion off a queue after a read returned `-FI_EAVAIL`.
///
/// Headers from 1.20 on mark the source address as unknown first, because providers that
/// know only older ones leave that field as it is.
///
/// Returns 1, or a negated error code.
///
/// # Safety
///
/// `cq` is open and no other thread uses it against its threading model; `buf` is null or an entry to
/// write to, whose `err_data` is null or `err_data_size` bytes to write to.
#[inline]
pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize {
    #[cfg(fabric_1_20)]
    if !buf.is_null() {
        // SAFETY: not null, so the caller says that it is an entry to write to.
        unsafe { (*buf).src_addr = crate::FI_ADDR_NOTAVAIL };
    }
    let call = operation!(cq.ops.readerr);
    // SAFETY: the arguments are those that the caller vouches for.
    unsafe { call(cq, buf, flags) }
}
