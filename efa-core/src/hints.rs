//! What to ask of libfabric: pure data until [`get_info`](crate::info::get_info) turns it into a `fi_info`.

use std::fmt;
use std::net::IpAddr;

use crate::caps::Caps;

/// Requirements for `fi_getinfo(3)`; whatever is not set is left to the provider.
///
/// Only reliable datagram endpoints (`FI_EP_RDM`) are asked for: they are what EFA offers and what
/// MPI and NCCL use. The threading model asked for is `FI_THREAD_COMPLETION`: calls on one endpoint and its
/// queue are serialised, which `&mut self` proves.
///
/// ```
/// use efa_core::{Caps, Hints};
/// let hints = Hints::new(Caps::MSG | Caps::TAGGED).provider("tcp;ofi_rxm").source("127.0.0.1".parse().unwrap());
/// assert!(hints.to_string().contains("tcp;ofi_rxm"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    pub(crate) caps: Caps,
    pub(crate) provider: Option<String>,
    pub(crate) fabric: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) source: Option<IpAddr>,
}

impl Hints {
    /// Hints for endpoints with these capabilities.
    pub fn new(caps: Caps) -> Hints {
        Hints { caps, provider: None, fabric: None, domain: None, source: None }
    }

    /// Asks for a provider by its full name, such as `efa`, `shm` or `tcp;ofi_rxm`.
    pub fn provider(mut self, name: impl Into<String>) -> Hints {
        self.provider = Some(name.into());
        self
    }

    /// Asks for a fabric by name, such as `efa` or `efa-direct`.
    pub fn fabric(mut self, name: impl Into<String>) -> Hints {
        self.fabric = Some(name.into());
        self
    }

    /// Asks for a domain (a NIC or interface) by name.
    pub fn domain(mut self, name: impl Into<String>) -> Hints {
        self.domain = Some(name.into());
        self
    }

    /// Asks for endpoints bound to this local address; providers without IP addresses ignore or refuse it.
    pub fn source(mut self, address: IpAddr) -> Hints {
        self.source = Some(address);
        self
    }
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FI_EP_RDM, {}", self.caps)?;
        for (what, value) in [("provider", &self.provider), ("fabric", &self.fabric), ("domain", &self.domain)] {
            if let Some(value) = value {
                write!(f, ", {what} {value}")?;
            }
        }
        if let Some(source) = self.source {
            write!(f, ", local address {source}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_everything_that_was_asked_for() {
        let hints = Hints::new(Caps::MSG).provider("efa").fabric("efa-direct").domain("rdmap0s6-rdm");
        assert_eq!(hints.to_string(), "FI_EP_RDM, FI_MSG, provider efa, fabric efa-direct, domain rdmap0s6-rdm");
    }
}
