//! What an endpoint is opened with.

use crate::caps::Caps;
use crate::error::{Error, Result};
use crate::info::Info;

/// Depth and abilities of an endpoint.
///
/// ```
/// use efa_core::EndpointConfig;
/// let config = EndpointConfig::new().depth_limit(64).peers(2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    depth_limit: usize,
    pub(super) peers: usize,
    pub(super) directed_receive: bool,
    pub(super) source: bool,
}

/// Operations in flight at most, whatever is asked for and offered: 32 MiB of slots.
const MAX_DEPTH: usize = 1 << 18;

/// Operations in flight unless configured: enough for any window that pays, and 128 KiB of slots.
const DEFAULT_DEPTH: usize = 1024;

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig { depth_limit: DEFAULT_DEPTH, peers: 64, directed_receive: false, source: false }
    }
}

impl EndpointConfig {
    /// At most 1024 operations in flight, room for 64 peers, no directed receives, no source addresses.
    pub fn new() -> EndpointConfig {
        EndpointConfig::default()
    }

    /// The most operations in flight, and the depth of the completion queue; 262144 if larger.
    pub fn depth_limit(mut self, operations: usize) -> EndpointConfig {
        self.depth_limit = operations;
        self
    }

    /// The number of peers to make room for; more can be inserted.
    pub fn peers(mut self, peers: usize) -> EndpointConfig {
        self.peers = peers;
        self
    }

    /// Allows receives from one named peer (`FI_DIRECTED_RECV`); ask for it in the hints too.
    pub fn directed_receive(mut self, on: bool) -> EndpointConfig {
        self.directed_receive = on;
        self
    }

    /// Reports who sent each message (`FI_SOURCE`); ask for it in the hints too.
    pub fn source(mut self, on: bool) -> EndpointConfig {
        self.source = on;
        self
    }

    /// In flight at most: the limit, [`MAX_DEPTH`], or both queues of the provider together where that is less.
    pub(super) fn depth(&self, info: &Info) -> usize {
        let queues = info.transmit_depth().saturating_add(info.receive_depth());
        self.depth_limit.min(if queues == 0 { usize::MAX } else { queues }).min(MAX_DEPTH)
    }

    /// A copy of the offer without the abilities that were not asked for: providers check each message
    /// against them.
    pub(super) fn tailor(&self, info: &Info) -> Result<Info> {
        if self.depth_limit == 0 {
            return Err(Error::Invalid {
                what: "endpoint depth",
                value: "0".into(),
                reason: "at least one operation must fit".into(),
            });
        }
        for (wanted, cap) in [(self.directed_receive, Caps::DIRECTED_RECV), (self.source, Caps::SOURCE)] {
            if wanted && !info.caps().contains(cap) {
                return Err(Error::Invalid {
                    what: "endpoint configuration",
                    value: cap.to_string(),
                    reason: format!("{} was not offered by {}: ask for it in the hints", cap, info.provider()),
                });
            }
        }
        let mut drop = 0;
        if !self.directed_receive {
            drop |= efa_sys::FI_DIRECTED_RECV;
        }
        if !self.source {
            drop |= efa_sys::FI_SOURCE;
        }
        Ok(info.without_caps(drop))
    }
}
