//! The domain: a NIC or interface, memory registration, and the endpoints made on it.

use std::fmt;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::info::Info;
use crate::mem::{BufPool, PoolSpec};
use crate::number;

/// An opened domain (`fi_domain(3)`); clones share it, and pools and endpoints keep it open.
#[derive(Clone)]
pub struct Domain(pub(crate) Arc<DomainInner>);

pub(crate) struct DomainInner {
    fid: NonNull<efa_sys::fid_domain>,
    /// Serialises control calls: FI_THREAD_COMPLETION leaves calls on the domain itself to the application.
    control: Mutex<()>,
    next_key: AtomicU64,
    provider_keys: bool,
    label: String,
    /// Provider, fabric and domain of the offer.
    names: [String; 3],
    /// Says whose buffers are whose: descriptors of one domain mean something else, or nothing, to another.
    pub(crate) number: NonZeroU32,
    // After `fid`, so that the fabric outlives the domain: Drop closes the domain first.
    _fabric: Fabric,
}

static LAST_NUMBER: AtomicU32 = AtomicU32::new(0);

// SAFETY: fi_domain(3): under FI_THREAD_COMPLETION calls on different endpoints may run in parallel; calls on
// the domain (registration, opening, closing) are made while `control` is held.
unsafe impl Send for DomainInner {}
// SAFETY: as above.
unsafe impl Sync for DomainInner {}

impl Domain {
    /// Opens the domain of an offer on an opened fabric.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an offer of another fabric, or one that this crate cannot use: not of reliable
    /// datagrams, of a threading model that asks for more than one owner of each endpoint, or with demands on
    /// operations or memory that no version of libfabric makes of the hints in [`get_info`](crate::get_info).
    /// Otherwise the code of `fi_domain`.
    pub fn open(fabric: &Fabric, info: &Info) -> Result<Domain> {
        info.check_usable()?;
        let names = info.names();
        if fabric.names() != names[..2] {
            return Err(foreign("fabric", &fabric.names(), &names[..2]));
        }
        let number = number::next(&LAST_NUMBER, "number of domains")?;
        let label = format!("{} {}", info.provider(), info.domain());
        let mut fid = std::ptr::null_mut();
        // SAFETY: the fabric is open, the info whole, `fid` a valid out-pointer, no context.
        let ret = unsafe { efa_sys::fi_domain(fabric.as_ptr(), info.as_ptr(), &mut fid, std::ptr::null_mut()) };
        let fid = match NonNull::new(fid) {
            Some(fid) if ret == 0 => fid,
            _ => return Err(Error::call("fi_domain", label, ret.into())),
        };
        Ok(Domain(Arc::new(DomainInner {
            fid,
            control: Mutex::new(()),
            next_key: AtomicU64::new(1),
            provider_keys: info.mr_mode() & efa_sys::FI_MR_PROV_KEY != 0,
            label,
            names,
            number,
            _fabric: fabric.clone(),
        })))
    }

    /// Maps and registers a pool of message buffers: one mapping, one registration, many slots.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a size that cannot be, [`Error::Memory`] when the system has none, otherwise
    /// the code of `fi_mr_reg`, with the limit on locked memory named when that is the likely cause.
    pub fn buffers(&self, spec: &PoolSpec) -> Result<BufPool> {
        BufPool::new(self, spec)
    }

    /// Opens an endpoint with its own completion queue and address vector.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an offer of another provider, fabric or domain, or one that [`Domain::open`] would refuse;
    /// otherwise the failed call (`fi_cq_open`, `fi_av_open`, `fi_endpoint`, `fi_ep_bind`, `fi_enable`) and its code.
    pub fn endpoint(&self, info: &Info, config: &EndpointConfig) -> Result<Endpoint> {
        info.check_usable()?;
        let names = info.names();
        if self.0.names != names {
            return Err(foreign("domain", &self.0.names, &names));
        }
        Endpoint::open(self, info, config)
    }
}

/// An object that was given an offer of another one.
fn foreign<A: AsRef<str>>(what: &'static str, object: &[A], offer: &[String]) -> Error {
    let object: Vec<&str> = object.iter().map(AsRef::as_ref).collect();
    let reason = format!("the offer is of {}: open that one for it", offer.join(" "));
    Error::Invalid { what, value: object.join(" "), reason }
}

impl DomainInner {
    pub(crate) fn as_ptr(&self) -> *mut efa_sys::fid_domain {
        self.fid.as_ptr()
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The lock for control calls; a panic elsewhere while holding it leaves nothing half-done to protect.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key for a new registration: ours, or 0 where the provider chooses.
    pub(crate) fn key(&self) -> u64 {
        if self.provider_keys { 0 } else { self.next_key.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for DomainInner {
    fn drop(&mut self) {
        // SAFETY: opened by fi_domain; every pool and endpoint holds this Arc, so all children are closed.
        let ret = unsafe { efa_sys::fi_close(self.fid.as_ptr().cast()) };
        if ret != 0 {
            log::warn!("fi_close(domain {}) returned {ret}", self.label);
        }
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({})", self.0.label)
    }
}
