//! The functions of the data path as C compiled them, for comparison with the inlined ones.
//!
//! `tests/agreement.rs` proves that both ways do the same, and `cargo bench -p efa-sys` says what the
//! inlined ones save: about 1.5 ns of a call, on the machine of writing. Programs have no use for these.

pub use crate::bindings::{
    fi_cq_read, fi_cq_readerr, fi_cq_readfrom, fi_cq_sread, fi_inject, fi_inject_write, fi_inject_writedata,
    fi_injectdata, fi_read, fi_readmsg, fi_readv, fi_recv, fi_recvmsg, fi_recvv, fi_send, fi_senddata, fi_sendmsg,
    fi_sendv, fi_tinject, fi_tinjectdata, fi_trecv, fi_trecvmsg, fi_trecvv, fi_tsend, fi_tsenddata, fi_tsendmsg,
    fi_tsendv, fi_write, fi_writedata, fi_writemsg, fi_writev,
};
