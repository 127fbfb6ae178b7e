//! What an endpoint consists of, in the order in which it has to go.

use std::sync::Arc;

use super::handles::{Av, Cq, Ep};
use super::slots::SlotTable;
use crate::domain::DomainInner;
use crate::error::Result;
use crate::mem::Payload;

/// The objects of libfabric behind an endpoint, and what its operations in flight own.
pub(super) struct Parts {
    // Drop order is field order after `Drop::drop` has closed `ep`: queue, peers, buffers in flight, domain.
    pub(super) ep: Ep,
    pub(super) cq: Cq,
    pub(super) av: Av,
    pub(super) ops: SlotTable<Payload>,
    pub(super) domain: Arc<DomainInner>,
    pub(super) provider: String,
}

impl Parts {
    /// Closes the libfabric endpoint; when that fails, the slots may still be written and are leaked.
    pub(super) fn close_endpoint(&mut self) -> Result<()> {
        let _guard = self.domain.control();
        let closed = self.ep.close();
        if closed.is_err() {
            self.ops.leak();
        }
        closed
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Err(error) = self.close_endpoint() {
            log::warn!("{error}: buffers in flight are leaked");
        }
        // The queue and the address vector close under the control lock as well, in their own Drop.
    }
}
