//! The error number of the C library.

use std::ffi::c_int;
use std::ptr;

/// Sets `errno` and gives the null pointer, as functions that make an object do when they fail.
pub(crate) fn fail<T>(code: c_int) -> *mut T {
    set(code);
    ptr::null_mut()
}

/// Sets `errno`.
pub(crate) fn set(code: c_int) {
    // SAFETY: the function has no preconditions.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: the C library gives a pointer to this thread's own error number.
    unsafe { location.write(code) };
}
