//! What libfabric offers: one [`Info`] for each way to open an endpoint.

use std::ffi::{CString, c_char};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr::NonNull;

use crate::caps::Caps;
use crate::error::{Error, Result, owned_text};
use crate::hints::Hints;
use crate::version;

/// One offer of a provider: a provider, fabric, domain and endpoint type with their limits (`fi_info`).
pub struct Info(NonNull<efa_sys::fi_info>);

// SAFETY: an Info is a deep copy (fi_dupinfo) that nothing else points into, and no method changes it;
// libfabric keeps no thread-local state for it.
unsafe impl Send for Info {}
// SAFETY: as above: all access through a shared reference is reading.
unsafe impl Sync for Info {}

/// A network card as the provider describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Device name, such as `rdmap0s6`.
    pub name: Option<String>,
    /// Device id as the provider reports it.
    pub device_id: Option<String>,
    /// Vendor id as the provider reports it.
    pub vendor_id: Option<String>,
    /// Kernel driver.
    pub driver: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// PCI address, `domain:bus:device.function`.
    pub pci: Option<String>,
    /// Link speed in bits per second, as the provider reports it.
    pub speed_bits_per_sec: Option<u64>,
    /// MTU in bytes.
    pub mtu_bytes: Option<u64>,
    /// Network type, such as `Ethernet`.
    pub network: Option<String>,
}

/// The offers that match `hints`, in libfabric's own order.
///
/// # Errors
///
/// [`Error::LibraryTooOld`], [`Error::NoMatch`] when nothing matches, [`Error::Invalid`] for a name with a
/// NUL byte, otherwise the code of `fi_getinfo`.
pub fn get_info(hints: &Hints) -> Result<Vec<Info>> {
    version::versions()?;
    let raw = RawHints::new(hints)?;
    let node = hints.source.map(|address| CString::new(address.to_string()).expect("an address has no NUL"));
    let (node_ptr, flags) = match &node {
        Some(node) => (node.as_ptr(), efa_sys::FI_SOURCE),
        None => (std::ptr::null(), 0),
    };
    query(node_ptr, flags, raw.0.as_ptr(), hints.to_string())
}

/// Every offer of every provider, without hints; what error messages list as the valid names.
///
/// # Errors
///
/// As for [`get_info`].
pub fn get_all() -> Result<Vec<Info>> {
    version::versions()?;
    query(std::ptr::null(), 0, std::ptr::null(), "anything".to_owned())
}

fn query(node: *const c_char, flags: u64, hints: *const efa_sys::fi_info, what: String) -> Result<Vec<Info>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `node` is null or NUL-terminated, `hints` is null or a whole fi_info, both alive during the
    // call; `list` is a valid out-pointer.
    let ret = unsafe { efa_sys::fi_getinfo(version::requested(), node, std::ptr::null(), flags, hints, &mut list) };
    if ret == -(efa_sys::FI_ENODATA) {
        return Err(Error::NoMatch { hints: what });
    }
    if ret != 0 {
        return Err(Error::call("fi_getinfo", what, ret.into()));
    }
    let mut offers = Vec::new();
    let mut next = list;
    while let Some(entry) = NonNull::new(next) {
        // SAFETY: `entry` is an element of the list that fi_getinfo returned and that is freed below only.
        let copy = unsafe { efa_sys::fi_dupinfo(entry.as_ptr()) };
        if let Some(copy) = NonNull::new(copy) {
            offers.push(Info(copy));
        }
        // SAFETY: as above.
        next = unsafe { (*entry.as_ptr()).next };
    }
    // SAFETY: `list` came from fi_getinfo and is freed once; the copies are independent of it.
    unsafe { efa_sys::fi_freeinfo(list) };
    if offers.is_empty() { Err(Error::NoMatch { hints: what }) } else { Ok(offers) }
}

/// What an application may be asked to do for each operation, as far as this crate does it: give it a context.
const MODES: u64 = efa_sys::FI_CONTEXT | efa_sys::FI_CONTEXT2;

/// What an application may be asked to do about memory, as far as this crate does it: it registers its pools, keeps
/// them mapped while registered, takes keys from the provider and passes virtual addresses where they are wanted.
const MR_MODES: u64 =
    efa_sys::FI_MR_LOCAL | efa_sys::FI_MR_VIRT_ADDR | efa_sys::FI_MR_ALLOCATED | efa_sys::FI_MR_PROV_KEY;

/// A `fi_info` used as hints; libfabric allocates it, and libfabric frees it with the names inside.
struct RawHints(NonNull<efa_sys::fi_info>);

impl RawHints {
    fn new(hints: &Hints) -> Result<RawHints> {
        // SAFETY: a null argument asks for a new, zeroed fi_info with its attribute structures.
        let raw = unsafe { efa_sys::fi_dupinfo(std::ptr::null()) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(Error::call("fi_allocinfo", "hints", -i64::from(efa_sys::FI_ENOMEM)));
        };
        let raw = RawHints(raw);
        // SAFETY: fi_allocinfo gives either null or an info whose attribute pointers are all valid, and
        // nothing else refers to it yet.
        let info = unsafe { &mut *raw.0.as_ptr() };
        info.caps = hints.caps.bits();
        // The slot table gives every operation a fi_context2, which satisfies both context modes.
        info.mode = MODES;
        // SAFETY: see above.
        let ep = unsafe { &mut *info.ep_attr };
        // SAFETY: see above.
        let domain = unsafe { &mut *info.domain_attr };
        // SAFETY: see above.
        let fabric = unsafe { &mut *info.fabric_attr };
        ep.type_ = efa_sys::FI_EP_RDM as _;
        domain.threading = efa_sys::FI_THREAD_COMPLETION as _;
        domain.resource_mgmt = efa_sys::FI_RM_ENABLED as _;
        domain.mr_mode = MR_MODES as _;
        // Each goes where it is freed from before the next can fail.
        fabric.prov_name = duplicate("provider", hints.provider.as_deref())?;
        fabric.name = duplicate("fabric", hints.fabric.as_deref())?;
        domain.name = duplicate("domain", hints.domain.as_deref())?;
        Ok(raw)
    }
}

impl Drop for RawHints {
    fn drop(&mut self) {
        // SAFETY: allocated by fi_allocinfo, names by malloc as fi_freeinfo expects, freed once.
        unsafe { efa_sys::fi_freeinfo(self.0.as_ptr()) };
    }
}

/// A malloc'ed copy, because fi_freeinfo frees names with free(3); null for `None`.
fn duplicate(what: &'static str, name: Option<&str>) -> Result<*mut c_char> {
    let Some(name) = name else { return Ok(std::ptr::null_mut()) };
    let name = CString::new(name).map_err(|_| Error::Invalid {
        what,
        value: format!("{name:?}"),
        reason: "a name has no NUL byte".into(),
    })?;
    // SAFETY: strdup copies a NUL-terminated string into malloc'ed memory.
    let copy = unsafe { libc::strdup(name.as_ptr()) };
    if copy.is_null() {
        return Err(Error::Memory { bytes: name.count_bytes(), what, source: std::io::Error::last_os_error() });
    }
    Ok(copy)
}

macro_rules! attribute {
    ($(#[$doc:meta])* $method:ident, $field:ident, $name:ident: $type:ty) => {
        $(#[$doc])*
        pub fn $method(&self) -> $type {
            // SAFETY: fi_dupinfo copies every attribute structure, so the pointer is valid; read only.
            unsafe { self.raw().$field.as_ref() }.map_or(0 as $type, |a| a.$name as $type)
        }
    };
}

impl Info {
    pub(crate) fn as_ptr(&self) -> *mut efa_sys::fi_info {
        self.0.as_ptr()
    }

    /// Refuses an offer that asks for more than this crate does: [`get_all`] passes on whatever providers have.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] with what it asks for.
    pub(crate) fn check_usable(&self) -> Result<()> {
        let (modes, mr_modes) = (self.mode() & !MODES, self.mr_mode() & !MR_MODES);
        let serialised = [efa_sys::FI_THREAD_SAFE, efa_sys::FI_THREAD_COMPLETION];
        let reason = if !self.is_rdm() {
            "its endpoints are no reliable datagrams (FI_EP_RDM)".to_owned()
        } else if !serialised.contains(&self.threading()) {
            format!("its threading model {} is neither FI_THREAD_COMPLETION nor FI_THREAD_SAFE", self.threading())
        } else if modes != 0 {
            format!("it wants operations prepared in ways that are not known here (mode {modes:#x})")
        } else if mr_modes != 0 {
            format!("it wants memory prepared in ways that are not known here (mr_mode {mr_modes:#x})")
        } else {
            return Ok(());
        };
        let value = format!("{} of {}", self.domain(), self.provider());
        Err(Error::Invalid { what: "offer", value, reason: format!("{reason}: take one from get_info") })
    }

    /// Provider, fabric and domain, which together say what an object can be used with.
    pub(crate) fn names(&self) -> [String; 3] {
        [self.provider(), self.fabric(), self.domain()]
    }

    /// A copy that lacks these capability bits.
    pub(crate) fn without_caps(&self, bits: u64) -> Info {
        let mut copy = self.clone();
        // SAFETY: the copy is ours alone until it is returned.
        let info = unsafe { copy.0.as_mut() };
        info.caps &= !bits;
        // SAFETY: as above; attribute structures are copied with it, null or valid.
        if let Some(tx) = unsafe { info.tx_attr.as_mut() } {
            tx.caps &= !bits;
        }
        // SAFETY: as above.
        if let Some(rx) = unsafe { info.rx_attr.as_mut() } {
            rx.caps &= !bits;
        }
        copy
    }

    fn raw(&self) -> &efa_sys::fi_info {
        // SAFETY: the copy lives as long as self and is never written after fi_dupinfo.
        unsafe { self.0.as_ref() }
    }

    /// Full provider name, such as `tcp;ofi_rxm`.
    pub fn provider(&self) -> String {
        // SAFETY: see `attribute!`.
        let fabric = unsafe { self.raw().fabric_attr.as_ref() };
        fabric.and_then(|f| owned_text(f.prov_name)).unwrap_or_default()
    }

    /// Fabric name, such as `efa`, `efa-direct` or an IP network.
    pub fn fabric(&self) -> String {
        // SAFETY: see `attribute!`.
        let fabric = unsafe { self.raw().fabric_attr.as_ref() };
        fabric.and_then(|f| owned_text(f.name)).unwrap_or_default()
    }

    /// Domain name: a network interface or device.
    pub fn domain(&self) -> String {
        // SAFETY: see `attribute!`.
        let domain = unsafe { self.raw().domain_attr.as_ref() };
        domain.and_then(|d| owned_text(d.name)).unwrap_or_default()
    }

    /// Capabilities offered.
    pub fn caps(&self) -> Caps {
        Caps::from_bits(self.raw().caps)
    }

    /// Mode bits that the provider demands of the application.
    pub fn mode(&self) -> u64 {
        self.raw().mode
    }

    /// Whether endpoints of this offer are reliable datagrams.
    pub fn is_rdm(&self) -> bool {
        // SAFETY: see `attribute!`.
        unsafe { self.raw().ep_attr.as_ref() }.is_some_and(|ep| ep.type_ == efa_sys::FI_EP_RDM)
    }

    attribute!(
        /// Largest message in bytes.
        max_message_bytes, ep_attr, max_msg_size: usize);
    attribute!(
        /// Largest message in bytes that [`inject`](crate::Endpoint::inject) takes.
        inject_bytes, tx_attr, inject_size: usize);
    attribute!(
        /// Sends that an endpoint holds by default.
        transmit_depth, tx_attr, size: usize);
    attribute!(
        /// Receives that an endpoint holds by default.
        receive_depth, rx_attr, size: usize);
    attribute!(
        /// Memory registration mode bits (`fi_mr(3)`).
        mr_mode, domain_attr, mr_mode: u64);
    attribute!(
        /// Threading model (`fi_domain(3)`).
        threading, domain_attr, threading: u32);
    attribute!(
        /// Type of address vector that the provider prefers.
        av_type, domain_attr, av_type: u32);

    /// The local address, where the provider's addresses are IP addresses.
    pub fn source_address(&self) -> Option<SocketAddr> {
        let raw = self.raw();
        if raw.src_addr.is_null() || raw.src_addrlen == 0 {
            return None;
        }
        // SAFETY: libfabric allocated src_addrlen bytes at src_addr, owned by this info.
        let bytes = unsafe { std::slice::from_raw_parts(raw.src_addr.cast::<u8>(), raw.src_addrlen) };
        socket_address(bytes)
    }

    /// The network card, where the provider names one.
    pub fn nic(&self) -> Option<Nic> {
        // SAFETY: fi_dupinfo copies the NIC description, or leaves null.
        let nic = unsafe { self.raw().nic.as_ref() }?;
        // SAFETY: attribute pointers of a fid_nic are null or valid while the info lives.
        let device = unsafe { nic.device_attr.as_ref() };
        // SAFETY: as above.
        let link = unsafe { nic.link_attr.as_ref() };
        // SAFETY: as above.
        let bus = unsafe { nic.bus_attr.as_ref() };
        let pci = bus.filter(|b| b.bus_type == efa_sys::FI_BUS_PCI).map(|b| {
            // SAFETY: the union holds a PCI address when bus_type says so.
            let pci = unsafe { b.attr.pci };
            format!("{:04x}:{:02x}:{:02x}.{:x}", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id)
        });
        Some(Nic {
            name: device.and_then(|d| owned_text(d.name)),
            device_id: device.and_then(|d| owned_text(d.device_id)),
            vendor_id: device.and_then(|d| owned_text(d.vendor_id)),
            driver: device.and_then(|d| owned_text(d.driver)),
            firmware: device.and_then(|d| owned_text(d.firmware)),
            pci,
            speed_bits_per_sec: link.map(|l| l.speed as u64).filter(|&s| s > 0),
            mtu_bytes: link.map(|l| l.mtu as u64).filter(|&m| m > 0),
            network: link.and_then(|l| owned_text(l.network_type)),
        })
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by fi_dupinfo, owned alone, freed once.
        unsafe { efa_sys::fi_freeinfo(self.0.as_ptr()) };
    }
}

impl Clone for Info {
    fn clone(&self) -> Info {
        // SAFETY: fi_dupinfo reads a whole fi_info and returns an independent copy or null.
        let copy = unsafe { efa_sys::fi_dupinfo(self.0.as_ptr()) };
        match NonNull::new(copy) {
            Some(copy) => Info(copy),
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<efa_sys::fi_info>()),
        }
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("provider", &self.provider())
            .field("fabric", &self.fabric())
            .field("domain", &self.domain())
            .field("caps", &self.caps())
            .field("source", &self.source_address())
            .finish()
    }
}

/// Reads a `sockaddr_in` or `sockaddr_in6` from bytes; `None` for anything else.
pub(crate) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_carry_their_names_and_limits() {
        let hints = Hints::new(Caps::MSG).provider("tcp;ofi_rxm").source("127.0.0.1".parse().unwrap());
        let offers = get_info(&hints).expect("tcp;ofi_rxm is in every libfabric");
        let info = &offers[0];
        assert_eq!(info.provider(), "tcp;ofi_rxm");
        assert!(info.is_rdm() && info.max_message_bytes() > 1 << 20 && info.inject_bytes() > 0, "{info:?}");
        assert_eq!(info.source_address().unwrap().ip(), "127.0.0.1".parse::<IpAddr>().unwrap());
        let copy = info.clone();
        drop(offers);
        assert_eq!(copy.provider(), "tcp;ofi_rxm");
    }

    #[test]
    fn a_provider_that_is_not_there_is_named_in_the_error() {
        let error = get_info(&Hints::new(Caps::MSG).provider("efaa")).unwrap_err();
        assert!(matches!(error, Error::NoMatch { .. }) && error.to_string().contains("efaa"), "{error}");
    }

    #[test]
    fn names_passed_in_hints_are_freed_by_libfabric_alone() {
        for _ in 0..100 {
            let hints = Hints::new(Caps::MSG).provider("no such").fabric("f").domain("d");
            assert!(get_info(&hints).is_err());
        }
        // The names before the one that is refused are freed too.
        let error = get_info(&Hints::new(Caps::MSG).provider("p").fabric("f").domain("a\0b")).unwrap_err();
        assert!(matches!(error, Error::Invalid { what: "domain", .. }), "{error}");
    }

    #[test]
    fn addresses_that_are_no_socket_addresses_are_left_alone() {
        assert_eq!(socket_address(&[]), None);
        assert_eq!(socket_address(&[2, 0, 0]), None);
        assert_eq!(socket_address(&[2, 0, 0x1f, 0x90, 127, 0, 0, 1]), Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(socket_address(b"fi_shm://1234:0:ep"), None);
    }
}
