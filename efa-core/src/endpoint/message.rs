//! Untagged messages.

use super::{Endpoint, Peer, PostErrorKind, Rejected, Token, no_slot, not_posted, refused, rejected};
use crate::error::Errno;
use crate::mem::{Buf, Payload};

impl Endpoint {
    /// Sends the buffer's bytes to a peer; the buffer comes back with the completion.
    ///
    /// A buffer that is in flight cannot be touched:
    ///
    /// ```compile_fail,E0382
    /// # fn f(endpoint: &mut efa_core::Endpoint, peer: efa_core::Peer, mut buf: efa_core::Buf) {
    /// endpoint.send(peer, buf, efa_core::Token(1)).unwrap();
    /// buf[0] = 7;
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The buffer with [`PostErrorKind::WouldBlock`] when a queue is full, with `FI_EINVAL` where it is of another
    /// domain or the peer of another endpoint, or with the provider's code.
    #[inline]
    pub fn send(&mut self, to: Peer, buf: impl Into<Payload>, token: Token) -> Result<(), Rejected<Payload>> {
        let payload = buf.into();
        // The slot before the rest, which saves an instruction.
        let Some(slot) = self.parts.ops.vacancy() else {
            return no_slot(payload);
        };
        let region = payload.region();
        let address = match self.resolve_for(to, &region) {
            Ok(address) => address,
            Err(kind) => return rejected(payload, kind),
        };
        // SAFETY: the endpoint is open; region is memory registered with its domain, which `payload` keeps alive; the context is
        // a slot of this endpoint. On success the slot takes the payload, so both outlive the operation.
        let ret = unsafe {
            efa_sys::fi_send(self.parts.ep.as_ptr(), region.start, region.len, region.desc, address, slot.context())
        };
        if ret != 0 {
            return not_posted(payload, ret);
        }
        self.parts.ops.fill(slot, payload, token);
        Ok(())
    }

    /// Receives a message into the buffer, from anybody, or from one peer where directed receives are on.
    ///
    /// At most the buffer's length is received; a longer message fails the operation with `FI_ETRUNC`.
    /// A borrowed buffer cannot be posted, because the device would outlast the borrow:
    ///
    /// ```compile_fail,E0308
    /// # fn f(endpoint: &mut efa_core::Endpoint, bytes: &mut [u8]) {
    /// endpoint.recv(None, bytes, efa_core::Token(1)).unwrap();
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`send`](Endpoint::send); `FI_EOPNOTSUPP` for a named peer without directed receives.
    #[inline]
    pub fn recv(&mut self, from: Option<Peer>, mut buf: Buf, token: Token) -> Result<(), Rejected<Buf>> {
        let region = buf.region_mut();
        let source = match self.resolve_source(from, &region) {
            Ok(source) => source,
            Err(kind) => return rejected(buf, kind),
        };
        let Some(slot) = self.parts.ops.vacancy() else {
            return no_slot(buf);
        };
        // SAFETY: as for send; the memory belongs to `buf` alone, so the provider may write it.
        let ret = unsafe {
            efa_sys::fi_recv(self.parts.ep.as_ptr(), region.start, region.len, region.desc, source, slot.context())
        };
        if ret != 0 {
            return not_posted(buf, ret);
        }
        self.parts.ops.fill(slot, buf.into(), token);
        Ok(())
    }

    /// Sends a short message whose bytes are copied before the call returns; it has no completion.
    ///
    /// An inject that fails later is reported by [`poll`](Endpoint::poll) as
    /// [`Error::Unattributed`](crate::Error::Unattributed).
    ///
    /// # Errors
    ///
    /// `FI_EMSGSIZE` past [`inject_bytes`](Endpoint::inject_bytes), [`PostErrorKind::WouldBlock`] when the
    /// queue is full, otherwise the provider's code.
    #[inline]
    pub fn inject(&mut self, to: Peer, bytes: &[u8]) -> Result<(), PostErrorKind> {
        let address = self.resolve(to)?;
        if bytes.len() > self.inject_bytes {
            return Err(PostErrorKind::Fabric(Errno::MSGSIZE));
        }
        // SAFETY: the endpoint is open, and the provider reads `bytes` only during the call.
        let ret = unsafe { efa_sys::fi_inject(self.parts.ep.as_ptr(), bytes.as_ptr().cast(), bytes.len(), address) };
        if ret == 0 { Ok(()) } else { Err(refused(ret)) }
    }
}
