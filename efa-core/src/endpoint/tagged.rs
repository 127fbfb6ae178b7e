//! Messages matched by tag.

use super::{Endpoint, Peer, PostErrorKind, Rejected, Token, UNSUPPORTED, no_slot, not_posted, refused, rejected};
use crate::error::Errno;
use crate::mem::{Buf, Payload};

impl Endpoint {
    /// Sends the buffer's bytes under a tag; otherwise as [`send`](Endpoint::send).
    ///
    /// # Errors
    ///
    /// As for [`send`](Endpoint::send); `FI_EOPNOTSUPP` when the endpoint was opened without tagged messages.
    #[inline]
    pub fn send_tagged(
        &mut self,
        to: Peer,
        buf: impl Into<Payload>,
        tag: u64,
        token: Token,
    ) -> Result<(), Rejected<Payload>> {
        let payload = buf.into();
        let region = payload.region();
        let address = match self.resolve_for(to, &region) {
            Ok(address) if self.tagged => address,
            Ok(_) => return rejected(payload, UNSUPPORTED),
            Err(kind) => return rejected(payload, kind),
        };
        let Some(slot) = self.parts.ops.vacancy() else {
            return no_slot(payload);
        };
        // SAFETY: as for send; `tagged` says that the operation table exists.
        let ret = unsafe {
            efa_sys::fi_tsend(
                self.parts.ep.as_ptr(),
                region.start,
                region.len,
                region.desc,
                address,
                tag,
                slot.context(),
            )
        };
        if ret != 0 {
            return not_posted(payload, ret);
        }
        self.parts.ops.fill(slot, payload, token);
        Ok(())
    }

    /// Receives a message whose tag equals `tag` in every bit that `ignore` leaves 0.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Endpoint::recv); `FI_EOPNOTSUPP` when the endpoint was opened without tagged messages.
    #[inline]
    pub fn recv_tagged(
        &mut self,
        from: Option<Peer>,
        mut buf: Buf,
        tag: u64,
        ignore: u64,
        token: Token,
    ) -> Result<(), Rejected<Buf>> {
        let region = buf.region_mut();
        let source = match self.resolve_source(from, &region) {
            Ok(source) if self.tagged => source,
            Ok(_) => return rejected(buf, UNSUPPORTED),
            Err(kind) => return rejected(buf, kind),
        };
        let Some(slot) = self.parts.ops.vacancy() else {
            return no_slot(buf);
        };
        let ep = self.parts.ep.as_ptr();
        // SAFETY: as for recv; `tagged` says that the operation table exists.
        let ret = unsafe {
            efa_sys::fi_trecv(ep, region.start, region.len, region.desc, source, tag, ignore, slot.context())
        };
        if ret != 0 {
            return not_posted(buf, ret);
        }
        self.parts.ops.fill(slot, buf.into(), token);
        Ok(())
    }

    /// Sends a short message under a tag; otherwise as [`inject`](Endpoint::inject).
    ///
    /// # Errors
    ///
    /// As for [`inject`](Endpoint::inject); `FI_EOPNOTSUPP` when the endpoint was opened without tagged messages.
    #[inline]
    pub fn inject_tagged(&mut self, to: Peer, bytes: &[u8], tag: u64) -> Result<(), PostErrorKind> {
        let address = self.resolve(to)?;
        if !self.tagged {
            return Err(UNSUPPORTED);
        }
        if bytes.len() > self.inject_bytes {
            return Err(PostErrorKind::Fabric(Errno::MSGSIZE));
        }
        // SAFETY: the endpoint is open, and the provider reads `bytes` only during the call.
        let ret =
            unsafe { efa_sys::fi_tinject(self.parts.ep.as_ptr(), bytes.as_ptr().cast(), bytes.len(), address, tag) };
        if ret == 0 { Ok(()) } else { Err(refused(ret)) }
    }
}
