//! Which libfabric this program was built with, which one it runs with, and where that one lies.

use std::ffi::{CStr, OsStr, c_char};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// A libfabric release, `major.minor` and the patch level where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The library as found at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Interface version of the headers that this program was built with.
    pub build: Version,
    /// Release of the headers that this program was built with, with its patch level (`1.17.0`).
    pub build_release: &'static str,
    /// Interface version that the loaded library speaks.
    pub run: Version,
    /// Release of the loaded library with its patch level (`2.5.1`), or its interface version where it tells no more.
    pub run_release: String,
    /// File that the dynamic loader took `fi_getinfo` from.
    pub path: PathBuf,
}

/// The interface version requested from libfabric: that of the headers.
pub(crate) fn requested() -> u32 {
    efa_sys::fi_version_code(efa_sys::FI_MAJOR_VERSION, efa_sys::FI_MINOR_VERSION)
}

/// Looks up the loaded library.
///
/// # Errors
///
/// [`Error::LibraryTooOld`] when it is older than the headers of the build: structures would not match.
pub fn library() -> Result<Library> {
    let (build, run) = versions()?;
    Ok(Library { build, build_release: efa_sys::BUILD_VERSION, run, run_release: release(run), path: loaded_from() })
}

/// The interface versions of the headers and of the loaded library, which must be no older: what has to be known
/// before the library is handed a structure.
pub(crate) fn versions() -> Result<(Version, Version)> {
    let build = Version { major: efa_sys::FI_MAJOR_VERSION, minor: efa_sys::FI_MINOR_VERSION };
    // SAFETY: fi_version takes nothing and returns an integer.
    let code = unsafe { efa_sys::fi_version() };
    let run = Version { major: code >> 16, minor: code & 0xffff };
    if run < build { Err(Error::LibraryTooOld { build, run, path: loaded_from() }) } else { Ok((build, run)) }
}

/// The release that the library writes of itself: `fi_tostr(3)` of `FI_TYPE_VERSION`, such as `2.5.1`, behind which a
/// build's own mark may follow. `fi_tostr` itself writes to a buffer that all threads share.
fn release(run: Version) -> String {
    let nothing = 0u32;
    let mut buffer = [0 as c_char; 256];
    let (start, room) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: `start` has room for as many bytes as stated. FI_TYPE_VERSION ignores what the pointer leads to; it is
    // valid all the same.
    let text = unsafe { efa_sys::fi_tostr_r(start, room, (&raw const nothing).cast(), efa_sys::FI_TYPE_VERSION as _) };
    let text = crate::error::owned_text(text).unwrap_or_default();
    if text.starts_with(&run.to_string()) { text } else { run.to_string() }
}

/// The file behind `fi_version`, as the dynamic loader mapped it, with links resolved.
fn loaded_from() -> PathBuf {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let symbol = efa_sys::fi_version as *const () as *const libc::c_void;
    // SAFETY: dladdr reads any address and fills `info` when it returns non-zero.
    let found = unsafe { libc::dladdr(symbol, info.as_mut_ptr()) };
    if found == 0 {
        return PathBuf::from("unknown");
    }
    // SAFETY: Dl_info is plain pointers, valid when zeroed, and was filled by dladdr.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return PathBuf::from("unknown");
    }
    // SAFETY: dli_fname points to the loader's own NUL-terminated name, valid while the object is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    path.canonicalize().unwrap_or(path)
}

/// A variable that libfabric reads from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Full name, `FI_...`.
    pub name: String,
    /// Its value in this process, where set and understood.
    pub value: Option<String>,
    /// libfabric's help text.
    pub help: String,
}

/// Every `FI_*` variable that the loaded library and its providers know (`fi_getparams(3)`).
///
/// # Errors
///
/// The code that `fi_getparams` returned.
pub fn parameters() -> Result<Vec<Parameter>> {
    let mut list: *mut efa_sys::fi_param = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: both out-pointers are valid for the call; on success `list` holds `count` entries.
    let ret = unsafe { efa_sys::fi_getparams(&mut list, &mut count) };
    if ret != 0 {
        return Err(Error::call("fi_getparams", "the loaded library", ret.into()));
    }
    if list.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: libfabric allocated `count` initialised entries, freed only below.
    let entries = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) };
    let params = entries
        .iter()
        .filter_map(|p| {
            Some(Parameter {
                name: crate::error::owned_text(p.name)?,
                value: crate::error::owned_text(p.value),
                help: crate::error::owned_text(p.help_string).unwrap_or_default(),
            })
        })
        .collect();
    // SAFETY: `list` came from fi_getparams and is freed once.
    unsafe { efa_sys::fi_freeparams(list) };
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_library_has_a_file_and_is_new_enough() {
        let library = library().expect("a libfabric at least as new as the headers");
        assert!(library.path.is_file(), "{library:?}");
        assert!(library.run >= library.build);
        let release: Vec<&str> = library.run_release.split('.').collect();
        assert!(release.len() >= 3 && library.run_release.starts_with(&library.run.to_string()), "{library:?}");
    }

    #[test]
    fn threads_read_the_release_at_once() {
        let calls = if std::env::var_os("EFA_TEST_VALGRIND").is_some() { 500 } else { 200_000 };
        let (_, run) = versions().expect("versions");
        let known = release(run);
        let wrong: usize = std::thread::scope(|scope| {
            let count = || (0..calls).filter(|_| release(run) != known).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(wrong, 0, "of {} calls, each of which should give {known}", 4 * calls);
    }

    #[test]
    fn variables_of_the_core_are_listed() {
        let known = parameters().expect("fi_getparams");
        assert!(known.iter().any(|p| p.name == "FI_LOG_LEVEL"), "{}", known.len());
        assert!(known.iter().any(|p| p.name == "FI_PROVIDER"));
    }
}
