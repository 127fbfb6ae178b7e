//! Constants of newer headers, by value, for builds against older ones.
//!
//! A program built with one libfabric's headers may run with a newer library, and asking that library
//! for something it does not know is answered with an error code. So the tools may name these
//! constants whatever they were built with. `tests/layout.rs` compares the values below with each
//! header that has them.

use core::ffi::c_int;

/// Declares the constants that headers older than a release lack.
macro_rules! since {
    ($release:ident: $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {$(
        $(#[$doc])*
        #[cfg(not($release))]
        pub const $name: $type = $value;
    )*};
}

/// Declares macros that 2.x defines in a way that bindgen cannot read: with a `_Pragma` that warns
/// of deprecation, or a cast.
macro_rules! unreadable_since {
    ($release:ident: $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {$(
        $(#[$doc])*
        #[cfg($release)]
        pub const $name: $type = $value;
    )*};
}

/// The first option of the EFA provider; the others count up from it (fi_ext.h).
#[cfg(not(fabric_2_5))]
const EFA_OPTION: c_int = -(0xefa << 16);

// fi_endpoint.h and fi_ext.h of 1.18
since! { fabric_1_18:
    /// Endpoint option, bool: the provider may call the CUDA API.
    FI_OPT_CUDA_API_PERMITTED: c_int = 10;
    /// EFA endpoint option, bool, read only: whether reads are emulated by messages.
    FI_OPT_EFA_EMULATED_READ: c_int = EFA_OPTION + 1;
    /// EFA endpoint option, bool, read only: whether writes are emulated by messages.
    FI_OPT_EFA_EMULATED_WRITE: c_int = EFA_OPTION + 2;
    /// EFA endpoint option, bool, read only: whether atomics are emulated by messages.
    FI_OPT_EFA_EMULATED_ATOMICS: c_int = EFA_OPTION + 3;
    /// EFA endpoint option, bool: use the device's own RDMA.
    FI_OPT_EFA_USE_DEVICE_RDMA: c_int = EFA_OPTION + 4;
    /// EFA endpoint option, bool: messages arrive in order within each aligned 128 bytes.
    FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES: c_int = EFA_OPTION + 5;
    /// EFA endpoint option, bool: writes arrive in order within each aligned 128 bytes.
    FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES: c_int = EFA_OPTION + 6;
}

// fabric.h and fi_errno.h of 1.20
since! { fabric_1_20:
    /// Registration flag: the memory is a dma-buf.
    FI_MR_DMABUF: u64 = 1 << 40;
    /// Flag of address vectors and registrations: an authorization key goes with the address.
    FI_AUTH_KEY: u64 = 1 << 57;
    /// No more memory registrations are to be had.
    FI_ENOMR: c_int = 270;
}

// fi_endpoint.h and fabric.h of 1.21
since! { fabric_1_21:
    /// Endpoint option, bool: the provider may use shared memory between local peers.
    FI_OPT_SHARED_MEMORY_PERMITTED: c_int = 11;
    /// Progress model: manual, and the program serializes control and data calls itself.
    FI_PROGRESS_CONTROL_UNIFIED: crate::bindings::fi_progress = 3;
}

// fi_endpoint.h of 1.22
since! { fabric_1_22:
    /// Endpoint option, size_t: the largest message.
    FI_OPT_MAX_MSG_SIZE: c_int = 12;
    /// Endpoint option, size_t: the largest tagged message.
    FI_OPT_MAX_TAGGED_SIZE: c_int = 13;
    /// Endpoint option, size_t: the largest read or write.
    FI_OPT_MAX_RMA_SIZE: c_int = 14;
    /// Endpoint option, size_t: the largest atomic operation.
    FI_OPT_MAX_ATOMIC_SIZE: c_int = 15;
    /// Endpoint option, size_t: the largest injected message.
    FI_OPT_INJECT_MSG_SIZE: c_int = 16;
    /// Endpoint option, size_t: the largest injected tagged message.
    FI_OPT_INJECT_TAGGED_SIZE: c_int = 17;
    /// Endpoint option, size_t: the largest injected write.
    FI_OPT_INJECT_RMA_SIZE: c_int = 18;
    /// Endpoint option, size_t: the largest injected atomic operation.
    FI_OPT_INJECT_ATOMIC_SIZE: c_int = 19;
}

// fabric.h, fi_domain.h and fi_errno.h of 2.0
since! { fabric_2_0:
    /// Registration flag: the region is good for one operation.
    FI_MR_SINGLE_USE: u64 = 1 << 41;
    /// Capability: tagged receives from one given peer.
    FI_TAGGED_DIRECTED_RECV: u64 = 1 << 45;
    /// Capability: one posted buffer takes several tagged messages.
    FI_TAGGED_MULTI_RECV: u64 = 1 << 46;
    /// Capability: directed receives always name a peer.
    FI_EXACT_DIRECTED_RECV: u64 = 1 << 48;
    /// Protocol error; the value is the platform's EPROTO, as Linux has it.
    FI_EPROTO: c_int = 71;
}

// fabric.h, fi_endpoint.h, fi_errno.h and fi_ext.h of 2.2
since! { fabric_2_2:
    /// fi_getinfo flag: look for devices again.
    FI_RESCAN: u64 = 1 << 35;
    /// Address vector flag: the peer is behind a firewall, so no connection can be made to it.
    FI_FIREWALL_ADDR: u64 = 1 << 42;
    /// Endpoint option, bool: this endpoint is behind a firewall.
    FI_OPT_FIREWALL_ADDR: c_int = 20;
    /// The peer is unreachable because it is behind a firewall.
    FI_EFIREWALLADDR: c_int = 271;
    /// EFA endpoint option, bool: all peers have the same platform, software and capabilities.
    FI_OPT_EFA_HOMOGENEOUS_PEERS: c_int = EFA_OPTION + 7;
}

// fi_ext.h of 2.5
since! { fabric_2_5:
    /// EFA endpoint option, bool: completions of writes with data need no posted receive.
    FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV: c_int = EFA_OPTION + 8;
}

// fabric.h and fi_domain.h of 2.0
unreadable_since! { fabric_2_0:
    /// No ordering is asked for.
    FI_ORDER_NONE: u64 = 0;
    /// Operations complete in the order in which they were posted.
    FI_ORDER_STRICT: u64 = 0x1ff;
    /// Received data is written to memory in order.
    FI_ORDER_DATA: u64 = 1 << 16;
    /// Mode bit of libfabric before 1.5: local buffers have to be registered.
    FI_LOCAL_MR: u64 = 1 << 55;
    /// Deprecated registration flag.
    FI_REG_MR: u64 = 1 << 59;
}
