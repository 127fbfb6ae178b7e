//! Safe, zero-cost objects over libfabric.
//!
//! An operation in flight owns its buffer: a post moves a [`Buf`] in, the completion moves it out again,
//! and no safe handle to memory that a device may be writing exists. The data path allocates nothing and
//! takes no lock.
//!
//! ```
//! use efa_core::*;
//! use std::time::Duration;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let hints = Hints::new(Caps::MSG).provider("tcp;ofi_rxm").source("127.0.0.1".parse()?);
//!     let info = get_info(&hints)?.swap_remove(0);
//!     let domain = Domain::open(&Fabric::open(&info)?, &info)?;
//!     let pool = domain.buffers(&PoolSpec::new(64, 2))?;
//!     let mut endpoint = domain.endpoint(&info, &EndpointConfig::new())?;
//!     let me = endpoint.address()?;
//!     let peer = endpoint.insert(&me)?;
//!
//!     endpoint.recv(None, pool.take().unwrap(), Token(1))?;
//!     let mut buf = pool.take().unwrap();
//!     buf[..5].copy_from_slice(b"hello");
//!     buf.set_len(5);
//!     let mut to_send = Some(buf);
//!
//!     let mut batch = Batch::new();
//!     let mut finished = 0;
//!     while finished < 2 {
//!         if let Some(buf) = to_send.take() {
//!             match endpoint.send(peer, buf, Token(2)) {
//!                 // Still connecting, or the queue is full: the buffer is back, polling makes progress.
//!                 Err(Rejected { buf, kind: PostErrorKind::WouldBlock }) => to_send = buf.into_buf().ok(),
//!                 posted => posted?,
//!             }
//!         }
//!         endpoint.poll(&mut batch)?;
//!         for done in batch.by_ref() {
//!             done.status?;
//!             finished += 1;
//!             if done.token == Token(1) {
//!                 assert_eq!(&done.buf[..done.len], b"hello");
//!             }
//!         }
//!     }
//!     endpoint.close(Duration::from_secs(1))?;
//!     Ok(())
//! }
//! ```
//!
//! # Thread safety
//!
//! [`Fabric`], [`Domain`] and [`BufPool`] are shared by cloning and may be used from any thread. An
//! [`Endpoint`] may move between threads and is used by one at a time, which `&mut self` proves; that is
//! the rule of `FI_THREAD_COMPLETION`, libfabric's level without locks on the data path.
//!
//! # Resource cleanup
//!
//! Everything is closed when its last owner goes, children before parents. A `Buf` keeps its pool, a pool
//! and an endpoint keep their domain. Dropping an endpoint closes it before its buffers in flight are
//! freed; [`Endpoint::close`] also waits for them and hands them back. Forgetting any of these leaks
//! memory and nothing else. Providers that share memory between endpoints of one process (`shm`) are closed later:
//! see [`Endpoint`].
//!
//! # Providers
//!
//! Whatever offers reliable datagram endpoints: `efa`, `tcp;ofi_rxm`, `tcp` (2.x) or `net` (1.17), `shm`,
//! `verbs;ofi_rxm`. Progress is the caller's: an endpoint that is not polled may not move data.

mod caps;
mod domain;
mod endpoint;
mod error;
mod fabric;
mod hints;
mod info;
pub mod mem;
mod number;
pub mod version;

pub use caps::Caps;
pub use domain::Domain;
pub use endpoint::{
    Address, Batch, Completion, Endpoint, EndpointConfig, OpKind, Peer, PostErrorKind, Rejected, Token,
};
pub use error::{Errno, Error, OpError, Result};
pub use fabric::Fabric;
pub use hints::Hints;
pub use info::{Info, Nic, get_all, get_info};
pub use mem::{Buf, BufPool, Payload, PoolSpec, SharedBuf};
