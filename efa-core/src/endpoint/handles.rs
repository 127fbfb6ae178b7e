//! Owners of the C objects behind an endpoint: each is opened here and closed once.
//!
//! Opening and closing are control calls on the domain: each takes the domain's control lock.

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use efa_sys::{fi_av_attr, fi_cq_attr, fi_cq_err_entry, fid_av, fid_cq, fid_ep};

use super::address::Address;
use super::batch::Batch;
use crate::domain::DomainInner;
use crate::error::{Errno, Error, Result, owned_text};
use crate::info::Info;

/// An address as long as any provider's, terminator of string addresses included.
const ADDRESS_MAX: usize = 512;

/// Peers to make room for at most before they come.
const PEERS_MAX: usize = 1 << 20;

/// The address vector.
pub(super) struct Av {
    fid: NonNull<fid_av>,
    domain: Arc<DomainInner>,
}

// SAFETY: libfabric objects have no thread affinity; an Av is used through the one Endpoint that owns it.
unsafe impl Send for Av {}

impl Av {
    pub(super) fn open(domain: &Arc<DomainInner>, info: &Info, peers: usize) -> Result<Av> {
        // SAFETY: fi_av_attr is plain data, for which all zeroes means defaults.
        let mut attr: fi_av_attr = unsafe { std::mem::zeroed() };
        attr.type_ = info.av_type() as _;
        // A hint; providers round it up and multiply it.
        attr.count = peers.min(PEERS_MAX);
        let mut fid = std::ptr::null_mut();
        let _guard = domain.control();
        // SAFETY: the domain is open, `attr` whole, `fid` a valid out-pointer, no context.
        let ret = unsafe { efa_sys::fi_av_open(domain.as_ptr(), &mut attr, &mut fid, std::ptr::null_mut()) };
        let fid = opened("fi_av_open", domain, fid, ret)?;
        Ok(Av { fid, domain: domain.clone() })
    }

    pub(super) fn insert(&mut self, address: &Address) -> Result<u64> {
        let bytes = address.as_bytes();
        if bytes.is_empty() || bytes.len() >= ADDRESS_MAX {
            return Err(Error::Invalid {
                what: "peer address",
                value: format!("{} bytes long", bytes.len()),
                reason: format!("addresses have 1 to {} bytes", ADDRESS_MAX - 1),
            });
        }
        // Providers read as many bytes as their format has, whatever came over the wire: pad with zeroes,
        // which also end a string. Aligned as a sockaddr or stronger.
        #[repr(align(16))]
        struct Padded([u8; ADDRESS_MAX]);
        let mut padded = Padded([0; ADDRESS_MAX]);
        padded.0[..bytes.len()].copy_from_slice(bytes);
        let mut peer = efa_sys::FI_ADDR_NOTAVAIL;
        let start = padded.0.as_ptr().cast::<c_void>();
        // SAFETY: the vector is open; `start` has more readable bytes than any address format; one address
        // in, one handle out; no flags and no context, so the call is synchronous.
        let ret = unsafe { efa_sys::fi_av_insert(self.fid.as_ptr(), start, 1, &mut peer, 0, std::ptr::null_mut()) };
        if ret != 1 || peer == efa_sys::FI_ADDR_NOTAVAIL {
            let ret = if ret < 0 { ret } else { -(efa_sys::FI_EADDRNOTAVAIL) };
            return Err(Error::call("fi_av_insert", format!("{} address {address}", self.domain.label()), ret.into()));
        }
        Ok(peer)
    }
}

impl Drop for Av {
    fn drop(&mut self) {
        close("address vector", &self.domain, self.fid.as_ptr().cast());
    }
}

/// The completion queue.
pub(super) struct Cq {
    fid: NonNull<fid_cq>,
    domain: Arc<DomainInner>,
}

// SAFETY: as for Av.
unsafe impl Send for Cq {}

/// An error entry with room behind it: a library newer than the headers may write fields that they lack.
#[repr(C)]
struct ErrorEntry {
    entry: fi_cq_err_entry,
    reserve: [u64; 16],
}

impl Cq {
    pub(super) fn open(domain: &Arc<DomainInner>, depth: usize) -> Result<Cq> {
        // SAFETY: fi_cq_attr is plain data, for which all zeroes means defaults.
        let mut attr: fi_cq_attr = unsafe { std::mem::zeroed() };
        attr.size = depth;
        attr.format = efa_sys::FI_CQ_FORMAT_TAGGED as _;
        attr.wait_obj = efa_sys::FI_WAIT_NONE as _;
        let mut fid = std::ptr::null_mut();
        let _guard = domain.control();
        // SAFETY: the domain is open, `attr` whole, `fid` a valid out-pointer, no context.
        let ret = unsafe { efa_sys::fi_cq_open(domain.as_ptr(), &mut attr, &mut fid, std::ptr::null_mut()) };
        let fid = opened("fi_cq_open", domain, fid, ret)?;
        Ok(Cq { fid, domain: domain.clone() })
    }

    /// Reads a batch of entries into `out`; the return value of `fi_cq_read`.
    #[inline]
    pub(super) fn read(&mut self, out: &mut Batch) -> isize {
        let entries = out.entries_mut().cast();
        // SAFETY: the queue is open with FI_CQ_FORMAT_TAGGED, and `entries` has room for CAPACITY of those.
        unsafe { efa_sys::fi_cq_read(self.fid.as_ptr(), entries, Batch::CAPACITY) }
    }

    /// As [`read`](Cq::read), with the senders' addresses.
    pub(super) fn read_from(&mut self, out: &mut Batch) -> isize {
        let entries = out.entries_mut().cast();
        let sources = out.sources_mut();
        // SAFETY: as for `read`; `sources` has room for CAPACITY addresses.
        unsafe { efa_sys::fi_cq_readfrom(self.fid.as_ptr(), entries, Batch::CAPACITY, sources) }
    }

    /// The pending error entry and the provider's text for it; `None` if there is none after all.
    pub(super) fn read_error(&mut self) -> Result<Option<(fi_cq_err_entry, String)>> {
        // All zeroes, because providers write only the fields that apply and read err_data_size.
        // SAFETY: integers and pointers, for which all zeroes is a value.
        let mut error: ErrorEntry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open; the entry is writable with room for what newer libraries add.
        let ret = unsafe { efa_sys::fi_cq_readerr(self.fid.as_ptr(), (&raw mut error).cast(), 0) };
        if ret == 0 || ret == -(efa_sys::FI_EAGAIN as isize) {
            return Ok(None);
        }
        if ret < 0 {
            return Err(Error::call("fi_cq_readerr", self.domain.label(), ret as i64));
        }
        let entry = error.entry;
        let mut text = [0 as c_char; 256];
        // SAFETY: the queue is open, err_data is null or the provider's own until the next read, and `text`
        // is writable for its length.
        let answer = unsafe {
            efa_sys::fi_cq_strerror(self.fid.as_ptr(), entry.prov_errno, entry.err_data, text.as_mut_ptr(), text.len())
        };
        Ok(Some((entry, owned_text(answer).unwrap_or_default())))
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        close("completion queue", &self.domain, self.fid.as_ptr().cast());
    }
}

/// The endpoint proper; `None` once closed.
pub(super) struct Ep {
    fid: Option<NonNull<fid_ep>>,
    label: String,
}

// SAFETY: as for Av.
unsafe impl Send for Ep {}

impl Ep {
    /// Opens, binds and enables.
    pub(super) fn open(domain: &Arc<DomainInner>, info: &Info, av: &Av, cq: &Cq) -> Result<Ep> {
        let mut fid = std::ptr::null_mut();
        let _guard = domain.control();
        // SAFETY: the domain is open, the info whole, `fid` a valid out-pointer, no context.
        let ret = unsafe { efa_sys::fi_endpoint(domain.as_ptr(), info.as_ptr(), &mut fid, std::ptr::null_mut()) };
        let fid = opened("fi_endpoint", domain, fid, ret)?;
        let mut ep = Ep { fid: Some(fid), label: domain.label().to_owned() };
        let steps = [
            ("fi_ep_bind", bind(fid, av.fid.as_ptr().cast(), 0)),
            ("fi_ep_bind", bind(fid, cq.fid.as_ptr().cast(), efa_sys::FI_TRANSMIT | efa_sys::FI_RECV)),
        ];
        // SAFETY: the endpoint is open and bound.
        let enabled = steps.iter().all(|s| s.1 == 0).then(|| unsafe { efa_sys::fi_enable(fid.as_ptr()) });
        let failed = steps.into_iter().chain(enabled.map(|ret| ("fi_enable", ret))).find(|s| s.1 != 0);
        if let Some((call, ret)) = failed {
            let _ = ep.close();
            return Err(Error::call(call, domain.label(), ret.into()));
        }
        // SAFETY: an enabled endpoint is a whole fid_ep.
        let has_messages = unsafe { !(*fid.as_ptr()).msg.is_null() };
        if !has_messages {
            let _ = ep.close();
            return Err(Error::call("fi_endpoint", domain.label(), -i64::from(Errno::OPNOTSUPP.code())));
        }
        Ok(ep)
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut fid_ep {
        // Null only after close, which takes the Endpoint with it.
        self.fid.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    /// Whether the table of tagged operations exists.
    pub(super) fn has_tagged(&self) -> bool {
        // SAFETY: the endpoint is open.
        self.fid.is_some_and(|fid| unsafe { !(*fid.as_ptr()).tagged.is_null() })
    }

    pub(super) fn address(&self) -> Result<Address> {
        let mut bytes = vec![0u8; ADDRESS_MAX];
        let mut len = bytes.len();
        // SAFETY: the endpoint is open; at most `len` bytes are written.
        let ret = unsafe { efa_sys::fi_getname(self.as_ptr().cast(), bytes.as_mut_ptr().cast(), &mut len) };
        if ret != 0 {
            return Err(Error::call("fi_getname", self.label.as_str(), ret.into()));
        }
        bytes.truncate(len);
        Ok(Address::from_bytes(bytes))
    }

    pub(super) fn cancel(&mut self, context: *mut c_void) -> Result<()> {
        // SAFETY: the endpoint is open, the context belongs to one of its operations in flight.
        let ret = unsafe { efa_sys::fi_cancel(self.as_ptr().cast(), context) };
        match Errno::of_return(ret as i64) {
            _ if ret == 0 => Ok(()),
            // What is not there has finished: its completion tells.
            Errno::NOENT => Ok(()),
            _ => Err(Error::call("fi_cancel", self.label.as_str(), ret as i64)),
        }
    }

    /// Closes once; later calls do nothing. After success the provider reaches no operation's memory.
    pub(super) fn close(&mut self) -> Result<()> {
        let Some(fid) = self.fid.take() else { return Ok(()) };
        // SAFETY: open, and closed once, since `take` left nothing.
        let ret = unsafe { efa_sys::fi_close(fid.as_ptr().cast()) };
        if ret == 0 { Ok(()) } else { Err(Error::call("fi_close", format!("endpoint of {}", self.label), ret.into())) }
    }
}

fn bind(ep: NonNull<fid_ep>, object: *mut efa_sys::fid, flags: u64) -> i32 {
    // SAFETY: both objects are open and of one domain.
    unsafe { efa_sys::fi_ep_bind(ep.as_ptr(), object, flags) }
}

fn opened<T>(call: &'static str, domain: &DomainInner, fid: *mut T, ret: i32) -> Result<NonNull<T>> {
    match NonNull::new(fid) {
        Some(fid) if ret == 0 => Ok(fid),
        _ => Err(Error::call(call, domain.label(), ret.into())),
    }
}

fn close(what: &str, domain: &DomainInner, fid: *mut efa_sys::fid) {
    let _guard = domain.control();
    // SAFETY: opened by this module, closed once, by Drop; endpoints bound to it are closed first, because
    // the endpoint's own Drop runs before those of its fields.
    let ret = unsafe { efa_sys::fi_close(fid) };
    if ret != 0 {
        log::warn!("fi_close({what} of {}) returned {ret}", domain.label());
    }
}
