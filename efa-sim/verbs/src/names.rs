//! Names of codes, and paths, that tools ask for.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::host;

/// The entry of a table, or a word for none.
fn entry(table: &'static [&'static CStr], code: c_int) -> *const c_char {
    usize::try_from(code).ok().and_then(|code| table.get(code)).unwrap_or(&c"unknown").as_ptr()
}

verb! { "IBVERBS_1.1", ibv_wc_status_str,
/// What a completion's status means.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_wc_status_str(status: c_int) -> *const c_char {
    entry(&[
        c"success", c"local length error", c"local QP operation error",
        c"local EE context operation error", c"local protection error", c"work request flushed",
        c"memory window bind error", c"bad response", c"local access error",
        c"remote invalid request", c"remote access error", c"remote operation error",
        c"transport retry counter exceeded", c"RNR retry counter exceeded",
        c"local RDD violation", c"remote invalid RD request", c"remote abort",
        c"invalid EE context number", c"invalid EE context state", c"fatal error",
        c"response timeout", c"general error",
    ], status)
}}

verb! { "IBVERBS_1.1", ibv_event_type_str,
/// What an asynchronous event is; this library never has one.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_event_type_str(event: c_int) -> *const c_char {
    entry(&[
        c"CQ error", c"QP fatal error", c"QP request error", c"QP access error",
        c"communication established", c"send queue drained", c"path migrated",
        c"path migration error", c"device fatal error", c"port active", c"port error",
    ], event)
}}

verb! { "IBVERBS_1.1", ibv_node_type_str,
/// What kind of device a node type is.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_node_type_str(node_type: c_int) -> *const c_char {
    entry(&[
        c"unknown", c"InfiniBand channel adapter", c"InfiniBand switch", c"InfiniBand router",
        c"iWARP NIC", c"usNIC", c"usNIC UDP", c"unspecified",
    ], node_type)
}}

verb! { "IBVERBS_1.1", ibv_port_state_str,
/// What a port's state is.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_port_state_str(state: c_int) -> *const c_char {
    entry(&[
        c"no change", c"down", c"initialize", c"armed", c"active", c"active deferred",
    ], state)
}}

verb! { "IBVERBS_1.0", ibv_get_sysfs_path,
/// Where `/sys` is for users of this library: the private tree, or the system's without devices.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_get_sysfs_path() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| {
        host::host()
            .and_then(|host| CString::new(host.directory.join("sys").as_os_str().as_bytes()).ok())
            .unwrap_or_else(|| c"/sys".to_owned())
    })
    .as_ptr()
}}

verb! { "IBVERBS_1.0", ibv_read_sysfs_file,
/// Reads an attribute without its line end; its length, or -1.
///
/// # Safety
///
/// `directory` and `file` are C strings, `buffer` is valid for `size` bytes.
unsafe fn sim_ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: a C string, as the caller promises.
    let directory = unsafe { CStr::from_ptr(directory) };
    // SAFETY: a C string, as the caller promises.
    let file = unsafe { CStr::from_ptr(file) };
    let path = Path::new(std::ffi::OsStr::from_bytes(directory.to_bytes()))
        .join(std::ffi::OsStr::from_bytes(file.to_bytes()));
    let Ok(mut value) = fs::read(path) else {
        return -1;
    };
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    if value.len() >= size {
        return -1;
    }
    value.push(0);
    // SAFETY: the value and its end are at most `size` bytes, which the buffer has.
    unsafe { libc::memcpy(buffer.cast::<c_void>(), value.as_ptr().cast(), value.len()) };
    value.len() as c_int - 1
}}
