//! Memory that a fabric may touch: pools of registered buffers and the handles that own their slots.
//!
//! A [`BufPool`] is one mapping with one registration, cut into equal slots. A [`Buf`] owns one slot; it
//! is moved into an operation when that is posted and moved out of its completion, so no safe handle to
//! memory in flight exists. [`SharedBuf`] is for sending the same bytes many times at once.

mod buf;
mod pool;

pub(crate) use buf::Region;
pub use buf::{Buf, Payload, SharedBuf};
pub use pool::{BufPool, PoolSpec};
