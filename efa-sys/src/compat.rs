//! Fields whose place in a struct changed between libfabric 1.x and 2.x, reached the same way in both.
//!
//! Newer headers put some fields into anonymous unions, next to a second name or an alternative.
//! bindgen calls such a union `__bindgen_anon_1`; these methods spare callers the difference.

use crate::bindings::{fi_domain_attr, fi_mr_attr, fi_progress, iovec};

impl fi_domain_attr {
    /// The progress model of data transfers; since 2.0 in a union with its other name, `progress`.
    #[inline]
    #[must_use]
    pub fn data_progress(&self) -> fi_progress {
        #[cfg(fabric_2_0)]
        // SAFETY: both members of the union are the same integer type under two names.
        let progress = unsafe { self.__bindgen_anon_1.data_progress };
        #[cfg(not(fabric_2_0))]
        let progress = self.data_progress;
        progress
    }

    /// Sets the progress model of data transfers.
    #[inline]
    pub fn set_data_progress(&mut self, progress: fi_progress) {
        #[cfg(fabric_2_0)]
        {
            self.__bindgen_anon_1.data_progress = progress;
        }
        #[cfg(not(fabric_2_0))]
        {
            self.data_progress = progress;
        }
    }
}

impl fi_mr_attr {
    /// The memory to register, unless it is a dma-buf; since 1.20 in a union with that.
    #[inline]
    #[must_use]
    pub fn mr_iov(&self) -> *const iovec {
        #[cfg(fabric_1_20)]
        // SAFETY: both members of the union are pointers, and any bits are a raw pointer.
        let iov = unsafe { self.__bindgen_anon_1.mr_iov };
        #[cfg(not(fabric_1_20))]
        let iov = self.mr_iov;
        iov
    }

    /// Sets the memory to register.
    #[inline]
    pub fn set_mr_iov(&mut self, iov: *const iovec) {
        #[cfg(fabric_1_20)]
        {
            self.__bindgen_anon_1.mr_iov = iov;
        }
        #[cfg(not(fabric_1_20))]
        {
            self.mr_iov = iov;
        }
    }
}
