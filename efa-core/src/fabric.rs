//! The fabric object: the root that domains hang from.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::info::Info;

/// An opened fabric (`fi_fabric(3)`); clones share it, and it is closed with the last of them.
#[derive(Clone)]
pub struct Fabric(Arc<FabricInner>);

struct FabricInner {
    fid: NonNull<efa_sys::fid_fabric>,
    provider: String,
    name: String,
}

// SAFETY: fi_fabric(3) objects have no thread affinity, and the only calls made on one after opening are
// fi_domain, under FabricInner's shared use that libfabric's core serialises, and one fi_close in Drop.
unsafe impl Send for FabricInner {}
// SAFETY: as above.
unsafe impl Sync for FabricInner {}

impl Fabric {
    /// Opens the fabric of an offer.
    ///
    /// # Errors
    ///
    /// The code of `fi_fabric`.
    pub fn open(info: &Info) -> Result<Fabric> {
        // SAFETY: the info is whole and lives through the call; reading one pointer of it.
        let attr = unsafe { (*info.as_ptr()).fabric_attr };
        let mut fid = std::ptr::null_mut();
        // SAFETY: `attr` belongs to an offer of fi_getinfo, `fid` is a valid out-pointer, no context.
        let ret = unsafe { efa_sys::fi_fabric(attr, &mut fid, std::ptr::null_mut()) };
        let (provider, name) = (info.provider(), info.fabric());
        match NonNull::new(fid) {
            Some(fid) if ret == 0 => Ok(Fabric(Arc::new(FabricInner { fid, provider, name }))),
            _ => Err(Error::call("fi_fabric", format!("{provider} {name}"), ret.into())),
        }
    }

    /// Provider and name.
    pub(crate) fn names(&self) -> [&str; 2] {
        [&self.0.provider, &self.0.name]
    }

    pub(crate) fn as_ptr(&self) -> *mut efa_sys::fid_fabric {
        self.0.fid.as_ptr()
    }
}

impl Drop for FabricInner {
    fn drop(&mut self) {
        // SAFETY: opened by fi_fabric; the last clone is gone, and so every Domain, which holds a clone.
        let ret = unsafe { efa_sys::fi_close(self.fid.as_ptr().cast()) };
        if ret != 0 {
            log::warn!("fi_close(fabric) returned {ret}");
        }
    }
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fabric({:p})", self.0.fid)
    }
}
