//! The simulated devices of this process.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use efa_sim::config::{Config, KeyConfig};
use efa_sim::model::Gid;
use efa_sim::state::{self, Owner};
use efa_sim::sysfs;

use crate::abi::{Device, NAME_MAX, NODE_UNSPECIFIED, PATH_MAX, TRANSPORT_UNSPECIFIED};
use crate::errno;

/// One device, as long as the process.
#[repr(C)]
pub(crate) struct SimDevice {
    /// What the application sees; must be first, for the pointer to it is the pointer to the whole.
    base: Device,
    pub(crate) index: usize,
    pub(crate) ip: IpAddr,
    pub(crate) counters: PathBuf,
}

impl SimDevice {
    /// The pointer that the application holds.
    pub(crate) fn as_ptr(&'static self) -> *mut Device {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// The device behind a pointer of the application.
    ///
    /// # Safety
    ///
    /// `device` came from [`SimDevice::as_ptr`].
    pub(crate) unsafe fn from_ptr(device: *mut Device) -> &'static SimDevice {
        // SAFETY: the caller vouches for the pointer; devices are never freed.
        unsafe { &*device.cast::<SimDevice>() }
    }

    /// What the device is called by its peers.
    pub(crate) fn gid(&self) -> Gid {
        Gid::from(self.ip)
    }
}

/// Everything that is the same for all devices of the process.
pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) key: u128,
    pub(crate) devices: Vec<&'static SimDevice>,
    /// The directory of this process, removed when it exits.
    pub(crate) directory: PathBuf,
    pid: u32,
}

static HOST: OnceLock<Option<Host>> = OnceLock::new();

/// The host, made on first use; none where it cannot be made, which is said once on standard error.
pub(crate) fn host() -> Option<&'static Host> {
    HOST.get_or_init(|| match Host::new() {
        Ok(host) => Some(host),
        Err(reason) => {
            eprintln!("efa-sim: no devices: {reason}");
            None
        }
    })
    .as_ref()
}

impl Host {
    fn new() -> Result<Host, String> {
        let config = Config::from_env().map_err(|error| error.to_string())?;
        let (base, directory) = process_directory(&config).map_err(|error| format!("state directory: {error}"))?;
        let key = match config.key {
            KeyConfig::Given(key) => key,
            KeyConfig::PerUser => state::user_key(&base).map_err(|error| format!("shared key: {error}"))?,
        };
        let root = directory.join("sys");
        let mut devices = Vec::new();
        for (index, ip) in config.addresses.iter().copied().enumerate() {
            let paths = sysfs::create_device(&root, index, Gid::from(ip), config.generation)
                .map_err(|error| format!("device tree: {error}"))?;
            devices.push(new_device(index, ip, paths)?);
        }
        set_variable("SYSFS_PATH", &root)?;
        remove_at_exit();
        Ok(Host { config, key, devices, directory, pid: std::process::id() })
    }
}

/// A number that differs from call to call and from process to process.
pub(crate) fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library keys each of these from the system's random numbers.
    std::hash::RandomState::new().build_hasher().finish()
}

/// Makes this process's directory, after removing those of dead processes.
fn process_directory(config: &Config) -> io::Result<(PathBuf, PathBuf)> {
    let base = state::base(config.state_dir.as_deref())?;
    state::remove_dead(&base)?;
    let directory = base.join(Owner::this_process()?.directory_name());
    fs::create_dir_all(directory.join("sys"))?;
    Ok((base, directory))
}

fn new_device(index: usize, ip: IpAddr, paths: sysfs::DevicePaths) -> Result<&'static SimDevice, String> {
    let base = Device {
        ops: [None; 2],
        node_type: NODE_UNSPECIFIED,
        transport_type: TRANSPORT_UNSPECIFIED,
        name: text::<NAME_MAX>(sysfs::device_name(index).as_bytes())?,
        dev_name: text::<NAME_MAX>(format!("uverbs{index}").as_bytes())?,
        dev_path: text::<PATH_MAX>(paths.uverbs.as_os_str().as_bytes())?,
        ibdev_path: text::<PATH_MAX>(paths.ibdev.as_os_str().as_bytes())?,
    };
    Ok(Box::leak(Box::new(SimDevice { base, index, ip, counters: paths.counters })))
}

/// A C string of fixed size.
pub(crate) fn text<const N: usize>(bytes: &[u8]) -> Result<[c_char; N], String> {
    let mut out = [0; N];
    if bytes.len() >= N {
        return Err(format!("{} is too long, set EFA_SIM_DIR to a shorter path", String::from_utf8_lossy(bytes)));
    }
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    Ok(out)
}

/// Sets a variable of the environment, for libfabric to read in this process.
fn set_variable(name: &str, value: &Path) -> Result<(), String> {
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|error| error.to_string());
    let name = c_string(name.as_bytes())?;
    let value = c_string(value.as_os_str().as_bytes())?;
    // SAFETY: both are C strings. The C library's own lock covers its other users; a program that
    // reads the environment in another thread while it opens its first fabric is on its own, as with
    // every library that sets a variable.
    match unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().to_string()),
    }
}

/// Removes the process's directory when the process exits or this library is unloaded.
fn remove_at_exit() {
    extern "C" fn remove() {
        if let Some(Some(host)) = HOST.get()
            // A child that was forked runs the handlers of its parent.
            && host.pid == std::process::id()
        {
            // Nothing can be done about a failure now; the next start of a process removes it.
            let _ = fs::remove_dir_all(&host.directory);
        }
    }
    // SAFETY: `remove` stays valid as long as the library is loaded: the C library calls handlers
    // of a library that is unloaded before it goes.
    unsafe { libc::atexit(remove) };
}

/// Lists that the application holds, so that a pointer that is no list is recognised.
static LISTS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

verb! { "IBVERBS_1.1", ibv_get_device_list,
/// Gives an array of all devices that ends with a null pointer.
///
/// # Safety
///
/// `count` is null or valid for a write.
unsafe fn sim_ibv_get_device_list(count: *mut c_int) -> *mut *mut Device {
    let devices = host().map_or(&[][..], |host| &host.devices[..]);
    let mut list: Vec<*mut Device> = devices.iter().map(|device| device.as_ptr()).collect();
    list.push(ptr::null_mut());
    if !count.is_null() {
        // SAFETY: the caller's pointer is valid for a write.
        unsafe { count.write(devices.len() as c_int) };
    }
    let length = list.len();
    let list = Box::into_raw(list.into_boxed_slice()).cast::<*mut Device>();
    LISTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((list.addr(), length));
    list
}}

verb! { "IBVERBS_1.1", ibv_free_device_list,
/// Frees an array from `ibv_get_device_list`; the devices stay.
///
/// # Safety
///
/// `list` came from `ibv_get_device_list` and is not used again.
unsafe fn sim_ibv_free_device_list(list: *mut *mut Device) {
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = lists.iter().position(|(addr, _)| *addr == list.addr()) {
        let (_, length) = lists.swap_remove(at);
        let slice = ptr::slice_from_raw_parts_mut(list, length);
        // SAFETY: this is the boxed slice made above, and it was still in the list of those.
        drop(unsafe { Box::from_raw(slice) });
    }
}}

verb! { "IBVERBS_1.1", ibv_get_device_name,
/// The device's name.
///
/// # Safety
///
/// `device` came from `ibv_get_device_list`.
unsafe fn sim_ibv_get_device_name(device: *mut Device) -> *const c_char {
    // SAFETY: as the caller promises.
    let device = unsafe { SimDevice::from_ptr(device) };
    device.base.name.as_ptr()
}}

verb! { "IBVERBS_1.1", ibv_get_device_guid,
/// The device's identifier in network byte order.
///
/// # Safety
///
/// `device` came from `ibv_get_device_list`.
unsafe fn sim_ibv_get_device_guid(device: *mut Device) -> u64 {
    // SAFETY: as the caller promises.
    let device = unsafe { SimDevice::from_ptr(device) };
    node_guid(device)
}}

verb! { "IBVERBS_1.9", ibv_get_device_index,
/// The device's number in the kernel, of which there is none: what older kernels answer.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_get_device_index(_device: *mut Device) -> c_int {
    errno::set(libc::ENOSYS);
    -1
}}

/// An identifier with the bit of locally administered ones, different for every address.
pub(crate) fn node_guid(device: &SimDevice) -> u64 {
    let gid = device.gid().0;
    let (high, low) = gid.split_at(8);
    let mut mixed = [0; 8];
    for (to, (a, b)) in mixed.iter_mut().zip(high.iter().zip(low)) {
        *to = a ^ b;
    }
    mixed[0] |= 0x02;
    u64::from_ne_bytes(mixed)
}
