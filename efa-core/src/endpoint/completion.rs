//! What became of an operation.

use efa_sys::{fi_cq_err_entry, fi_cq_tagged_entry};

use super::slots::Held;
use super::{Peer, Token};
use crate::error::OpError;
use crate::mem::Payload;

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// A send, tagged or not.
    Send,
    /// A receive, tagged or not.
    Receive,
}

/// A finished operation, with the buffer that it owned.
#[derive(Debug)]
#[must_use = "it holds the buffer"]
pub struct Completion {
    /// The token it was posted with.
    pub token: Token,
    /// The buffer, usable again.
    pub buf: Payload,
    /// Bytes received; for a send, bytes sent. Never more than the buffer has, whatever the provider says.
    pub len: usize,
    /// The tag that a tagged message carried; 0 otherwise.
    pub tag: u64,
    /// The sender, where the endpoint was opened with [`source`](super::EndpointConfig::source) and knows it.
    pub from: Option<Peer>,
    /// Whether it succeeded.
    pub status: Result<(), OpError>,
    data: u64,
    flags: u64,
}

impl Completion {
    #[inline]
    pub(super) fn finished(entry: &fi_cq_tagged_entry, held: Held<Payload>, from: Option<Peer>) -> Completion {
        let Held { payload: buf, token } = held;
        // Providers leave the length of a send unset.
        let len = if entry.flags & efa_sys::FI_RECV != 0 { entry.len.min(buf.len()) } else { buf.len() };
        Completion { token, buf, len, tag: entry.tag, from, status: Ok(()), data: entry.data, flags: entry.flags }
    }

    pub(super) fn failed(entry: &fi_cq_err_entry, held: Held<Payload>, error: OpError) -> Completion {
        Completion {
            token: held.token,
            len: entry.len.min(held.payload.len()),
            buf: held.payload,
            tag: entry.tag,
            from: None,
            status: Err(error),
            data: entry.data,
            flags: entry.flags,
        }
    }

    /// The completion data that came with the message (`FI_REMOTE_CQ_DATA`).
    #[inline]
    pub fn data(&self) -> Option<u64> {
        (self.flags & efa_sys::FI_REMOTE_CQ_DATA != 0).then_some(self.data)
    }

    /// What the operation was.
    #[inline]
    pub fn kind(&self) -> OpKind {
        if self.flags & efa_sys::FI_RECV != 0 { OpKind::Receive } else { OpKind::Send }
    }
}
