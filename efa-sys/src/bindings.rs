//! What bindgen made of the headers; the crate re-exports all of it.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated from C headers: names, and the lack of documentation, are libfabric's; its man pages are the reference"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
