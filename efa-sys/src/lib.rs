//! Raw bindings of [libfabric](https://ofiwg.github.io/libfabric/), generated at build time from the
//! headers beside the library found.
//!
//! Everything is here under its C name, and as unsafe as in C. Programs want `efa-core`, which makes
//! safe objects of this.
//!
//! # Which libfabric
//!
//! The build script takes the first of these that has headers of version 1.17 or newer (2.x included)
//! and a library to link with:
//!
//! 1. the prefix in `LIBFABRIC_DIR`: `include/rdma/fabric.h`, and `lib`, `lib64` or the multiarch
//!    directory; when it is set, nothing else is tried;
//! 2. what `pkg-config libfabric` says;
//! 3. `/opt/amazon/efa`, where the EFA installer puts its own.
//!
//! Where nothing fits it stops with a page that says what was looked for, where, what was found, and
//! which package to install. It also needs libclang (for bindgen) and a C compiler (for the shims).
//!
//! A program may *run* with another libfabric than it was built with, older or newer: symbols are
//! versioned, and the version passed to [`fi_getinfo`] says which layout of `fi_info` is meant.
//! [`BUILD_VERSION`] is the version of the headers; [`fi_version`] is that of the library at run time.
//!
//! # Functions
//!
//! A few functions are exported by the library. The others are `static inline` in the headers, and
//! bindgen writes a C shim for each. The ones on the data path, which move messages and read
//! completions (`fi_send*`, `fi_recv*`, `fi_inject*`, their tagged and RMA kin, `fi_cq_read*` and
//! `fi_cq_sread`), are Rust instead, so that they inline as they do in C; [`shim`] has the C ones.
//!
//! # Types and constants
//!
//! - Flags, capabilities, mode bits and every other bit macro are `u64`; `mr_mode` is an `int` in C and
//!   takes a cast. Error codes and the options of `fi_getopt` are `c_int`. Enumerators are plain
//!   constants of their enum's integer type, since a newer library may return values that these headers
//!   do not know.
//! - Constants that headers before 2.5 lack and tools ask for are there by value; see `fallback.rs`.
//! - [`FI_ADDR_UNSPEC`] and its kind, which are casts in C, are written by hand, and
//!   [`fi_version_code`] is `FI_VERSION`.
//!
//! # Build scripts of dependents
//!
//! `links = "fabric"` gives the build script of a direct dependent `DEP_FABRIC_LIBDIR` (the
//! directory of the library), `DEP_FABRIC_VERSION` (of the headers, such as `1.17.0`),
//! `DEP_FABRIC_INCLUDE`, and `DEP_FABRIC_RPATH`. The last is empty where the dynamic linker looks
//! anyway; otherwise programs and tests have to be linked with it, because an rpath given by this
//! crate does not reach them:
//!
//! ```no_run
//! // build.rs
//! let rpath = std::env::var("DEP_FABRIC_RPATH").unwrap_or_default();
//! if !rpath.is_empty() {
//!     println!("cargo::rustc-link-arg=-Wl,--enable-new-dtags,-rpath,{rpath}");
//! }
//! ```
//!
//! New dtags keep `LD_LIBRARY_PATH` in charge: with it, one binary runs on several libfabrics.
#![no_std]

mod bindings;
mod constants;
mod fallback;
mod inline;
pub mod shim;

pub use bindings::*;
pub use constants::*;
pub use fallback::*;

// Named one by one, because a name outranks a glob: these stand in for the shims of that name.
pub use inline::{
    fi_cq_read, fi_cq_readerr, fi_cq_readfrom, fi_cq_sread, fi_inject, fi_inject_write, fi_inject_writedata,
    fi_injectdata, fi_read, fi_readmsg, fi_readv, fi_recv, fi_recvmsg, fi_recvv, fi_send, fi_senddata, fi_sendmsg,
    fi_sendv, fi_tinject, fi_tinjectdata, fi_trecv, fi_trecvmsg, fi_trecvv, fi_tsend, fi_tsenddata, fi_tsendmsg,
    fi_tsendv, fi_write, fi_writedata, fi_writemsg, fi_writev,
};

/// The version of the headers that this crate was built from, as `major.minor.revision`.
pub const BUILD_VERSION: &str = env!("EFA_SYS_BUILD_VERSION");
