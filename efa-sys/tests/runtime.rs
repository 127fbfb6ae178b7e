//! The bindings work with the library that is loaded, whichever version that is.

use std::ffi::CStr;
use std::ptr;

#[test]
fn the_loaded_library_is_new_enough_and_says_which_it_is() {
    // SAFETY: the function has no arguments and no preconditions.
    let version = unsafe { efa_sys::fi_version() };
    println!("built with {}, running with {}.{}", efa_sys::BUILD_VERSION, version >> 16, version & 0xffff);
    assert!(version >= efa_sys::fi_version_code(1, 17));
}

#[test]
fn an_error_code_has_a_text() {
    // SAFETY: any number may be asked about.
    let text = unsafe { efa_sys::fi_strerror(efa_sys::FI_EAGAIN) };
    // SAFETY: the library returns a string that lives as long as it is loaded.
    let text = unsafe { CStr::from_ptr(text) };
    assert!(!text.is_empty());
}

#[test]
fn info_is_allocated_filled_and_listed_with_these_layouts() {
    // SAFETY: no preconditions; a static inline function, so this is a C shim at work.
    let hints = unsafe { efa_sys::fi_allocinfo() };
    assert!(!hints.is_null());
    // SAFETY: not null, and nothing else refers to it.
    unsafe { (*hints).caps = efa_sys::FI_MSG };
    // SAFETY: as above.
    let attributes = unsafe { (*hints).ep_attr };
    // SAFETY: fi_allocinfo allocates the attributes too.
    unsafe { (*attributes).type_ = efa_sys::FI_EP_RDM };
    let mut list = ptr::null_mut();
    let version = efa_sys::fi_version_code(1, 17);
    // SAFETY: null is allowed for node and service; hints come from fi_allocinfo.
    let code = unsafe { efa_sys::fi_getinfo(version, ptr::null(), ptr::null(), 0, hints, &raw mut list) };
    // SAFETY: allocated above and not used again.
    unsafe { efa_sys::fi_freeinfo(hints) };
    assert_eq!(code, 0, "some provider offers reliable datagrams everywhere");

    let mut names = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an element of the list that fi_getinfo made, which is not freed yet.
        let info = unsafe { &*next };
        assert_ne!(info.caps & efa_sys::FI_MSG, 0);
        // SAFETY: fi_getinfo fills the attributes of each element.
        let ep = unsafe { &*info.ep_attr };
        // SAFETY: as above.
        let fabric = unsafe { &*info.fabric_attr };
        assert_eq!(ep.type_, efa_sys::FI_EP_RDM);
        // SAFETY: fi_getinfo names the provider of each element.
        names.push(unsafe { CStr::from_ptr(fabric.prov_name) }.to_owned());
        next = info.next;
    }
    // SAFETY: the list that fi_getinfo made, freed once.
    unsafe { efa_sys::fi_freeinfo(list) };
    println!("providers: {names:?}");
    assert!(names.iter().any(|name| name.to_bytes().starts_with(b"tcp")));
}
