//! What the two sides say to each other.
//!
//! The first frame of each side is a [`Hello`], whose head never changes: magic, protocol, tool
//! version. So sides of different versions can still say which two versions met. Every later frame is
//! one [`Message`] in postcard's encoding.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::plan::{Difference, Plan};

use super::error::printable;

/// Version of the messages; sides speak only to the same one.
pub const PROTOCOL: u16 = 1;

/// Most bytes of a first frame.
pub(super) const HELLO_LIMIT: usize = 64 << 10;

const MAGIC: &[u8; 4] = b"EFAB";

/// Who a side is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of this tool.
    pub tool_version: String,
    /// Version of the libfabric headers that it was built with.
    pub libfabric_build: String,
    /// Version of the libfabric that it runs with.
    pub libfabric_run: String,
    /// Name of the host.
    pub host: String,
    /// Random number of the running kernel; equal where both sides run under the same one.
    pub boot_id: Option<String>,
    /// Process id.
    pub pid: u32,
    /// Environment variables on the allow-list.
    pub variables: BTreeMap<String, String>,
    /// File that its libfabric was loaded from.
    pub libfabric_path: String,
}

impl Hello {
    /// A hello of this process with what the system says; version and path of libfabric are the
    /// caller's to add.
    pub fn new(libfabric_build: &str, libfabric_run: &str, libfabric_path: &str, env: &Environment) -> Self {
        Hello {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            libfabric_build: libfabric_build.into(),
            libfabric_run: libfabric_run.into(),
            host: env.host.clone().unwrap_or_else(|| "unknown".into()),
            boot_id: env.boot_id.clone(),
            pid: std::process::id(),
            variables: env.variables.clone(),
            libfabric_path: libfabric_path.into(),
        }
    }

    /// Whether both sides run under the same kernel.
    pub fn same_host(&self, other: &Hello) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }

    /// Says in lines where this side and `peer` are of different versions.
    pub fn version_differences(&self, peer: &Hello) -> Vec<String> {
        [("tool", &self.tool_version, &peer.tool_version), ("libfabric", &self.libfabric_run, &peer.libfabric_run)]
            .into_iter()
            .filter(|(_, ours, theirs)| ours != theirs)
            .map(|(what, ours, theirs)| format!("{what} version: {ours} on {}, {theirs} on {}", self.host, peer.host))
            .collect()
    }

    /// Protocol and tool version in words.
    pub fn version_text(&self) -> String {
        version_text(PROTOCOL, &self.tool_version)
    }

    /// Content of the first frame.
    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let version = self.tool_version.as_bytes();
        let version = &version[..version.len().min(usize::from(u8::MAX))];
        let mut content = MAGIC.to_vec();
        content.extend_from_slice(&PROTOCOL.to_le_bytes());
        content.push(version.len() as u8);
        content.extend_from_slice(version);
        postcard::to_extend(self, content)
    }

    /// Reads the first frame's content.
    pub(super) fn decode(content: &[u8]) -> Result<Hello, HelloError> {
        let rest = content.strip_prefix(MAGIC).ok_or(HelloError::Stranger)?;
        let (protocol, rest) = rest.split_first_chunk().ok_or(HelloError::Stranger)?;
        let protocol = u16::from_le_bytes(*protocol);
        let (length, rest) = rest.split_first().ok_or(HelloError::Stranger)?;
        let (version, rest) = rest.split_at_checked(usize::from(*length)).ok_or(HelloError::Stranger)?;
        if protocol != PROTOCOL {
            let version = printable(&String::from_utf8_lossy(version));
            return Err(HelloError::Version(version_text(protocol, &version)));
        }
        from_postcard::<Hello>(rest).map(Hello::printable).map_err(|_| HelloError::Stranger)
    }

    /// The texts end up on a terminal, wherever they came from.
    fn printable(self) -> Hello {
        Hello {
            tool_version: printable(&self.tool_version),
            libfabric_build: printable(&self.libfabric_build),
            libfabric_run: printable(&self.libfabric_run),
            host: printable(&self.host),
            libfabric_path: printable(&self.libfabric_path),
            variables: self.variables.iter().map(|(name, value)| (printable(name), printable(value))).collect(),
            ..self
        }
    }
}

fn version_text(protocol: u16, tool: &str) -> String {
    format!("version {tool} (protocol {protocol})")
}

/// Why a first frame is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HelloError {
    /// It is not one of ours.
    Stranger,
    /// It is of another version, in words.
    Version(String),
}

/// One message after the hellos.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Message {
    /// Client: what to run.
    Plan(Box<Plan>),
    /// Server: the plan is taken.
    Accept(Box<Accept>),
    /// Server: the plan, or the client, is not taken.
    Refuse(Refusal),
    /// Either: address of the endpoint, in the provider's own form.
    Address(Vec<u8>),
    /// Client: what comes next.
    Batch {
        /// Index of the point in the plan.
        point: u32,
        /// Size of its messages in bytes.
        size: u64,
        /// Round trips.
        iterations: u64,
        /// Whether it is untimed.
        warmup: bool,
    },
    /// Either: receives are posted, the peer may send.
    Ready,
    /// Either: the batch is over.
    Done(Counts),
    /// Either: reached this point.
    Barrier(u32),
    /// Either: where it runs.
    Environment(Box<Environment>),
    /// Either: gives up.
    Abort {
        /// Why, for the other side's user.
        reason: String,
    },
    /// Either: all is done, the end of the connection is no failure.
    Bye,
}

/// What the server chose for the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accept {
    /// Provider.
    pub provider: String,
    /// Fabric.
    pub fabric: String,
    /// Domain on the server's host.
    pub domain: String,
    /// Network card behind the domain, where libfabric names it.
    pub nic: Option<String>,
    /// Where the server runs.
    pub environment: Box<Environment>,
}

/// Why a server sends a client away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// It serves somebody else.
    Busy {
        /// Whom.
        with: String,
    },
    /// The plan breaks what the server was given by hand.
    Differences(Vec<Difference>),
    /// Anything else, in words.
    Reason(String),
}

impl Refusal {
    /// The refusal in lines to print, on either side.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Refusal::Busy { with } => {
                vec![format!("the server is busy with {}; try again when it is done", printable(with))]
            }
            Refusal::Differences(list) => list.iter().map(|d| printable(&d.to_string())).collect(),
            Refusal::Reason(text) => vec![printable(text)],
        }
    }
}

/// What one side has counted at the end of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Messages sent since the endpoint was opened.
    pub sent: u64,
    /// Messages received since then.
    pub received: u64,
    /// Messages whose bytes were verified.
    pub verified: u64,
    /// First wrong byte that was found, if any.
    pub mismatch: Option<Mismatch>,
    /// Processor time of the process since the benchmark began, in nanoseconds.
    pub cpu_ns: u64,
}

/// Where received bytes differ from those that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Number of the message among those of its size.
    pub message: u64,
    /// Offset of the byte.
    pub offset: u64,
    /// Byte that was sent.
    pub expected: u8,
    /// Byte that arrived.
    pub found: u8,
}

impl Message {
    /// Name of the kind of message.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Plan(_) => "Plan",
            Message::Accept(_) => "Accept",
            Message::Refuse(_) => "Refuse",
            Message::Address(_) => "Address",
            Message::Batch { .. } => "Batch",
            Message::Ready => "Ready",
            Message::Done(_) => "Done",
            Message::Barrier(_) => "Barrier",
            Message::Environment(_) => "Environment",
            Message::Abort { .. } => "Abort",
            Message::Bye => "Bye",
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    pub(super) fn decode(content: &[u8]) -> Result<Message, postcard::Error> {
        from_postcard(content)
    }
}

/// Decodes a value that must fill the bytes to the end.
fn from_postcard<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        _ => Err(postcard::Error::DeserializeUnexpectedEnd),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello::new("1.17.0", "2.5.1", "/usr/lib/libfabric.so.1", &Environment::default())
    }

    #[test]
    fn a_hello_survives_the_wire() {
        let hello = hello();
        assert_eq!(Hello::decode(&hello.encode().unwrap()), Ok(hello));
    }

    #[test]
    fn a_hello_of_another_protocol_still_says_its_version() {
        let mut content = hello().encode().unwrap();
        content[4..6].copy_from_slice(&9_u16.to_le_bytes());
        content.truncate(4 + 2 + 1 + env!("CARGO_PKG_VERSION").len());
        content.extend_from_slice(b"something newer");
        let text = concat!("version ", env!("CARGO_PKG_VERSION"), " (protocol 9)");
        assert_eq!(Hello::decode(&content), Err(HelloError::Version(text.into())));
    }

    #[test]
    fn sides_of_different_libfabric_are_named() {
        let (ours, mut theirs) = (hello(), hello());
        assert!(ours.version_differences(&theirs).is_empty());
        theirs.libfabric_run = "1.17.0".into();
        theirs.host = "nodeb\u{1b}[2J".into();
        let theirs = Hello::decode(&theirs.encode().unwrap()).unwrap();
        assert_eq!(ours.version_differences(&theirs), ["libfabric version: 2.5.1 on unknown, 1.17.0 on nodeb?[2J"]);
    }

    #[test]
    fn a_kernel_without_a_boot_id_is_not_taken_for_the_same_host() {
        let (mut a, mut b) = (hello(), hello());
        assert!(!a.same_host(&b));
        a.boot_id = Some("x".into());
        b.boot_id = Some("x".into());
        assert!(a.same_host(&b));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            ours in any::<bool>(),
        ) {
            let _ = Message::decode(&bytes);
            let mut content = hello().encode().unwrap();
            if ours {
                content.truncate(7);
            } else {
                content.clear();
            }
            content.extend_from_slice(&bytes);
            let _ = Hello::decode(&content);
        }
    }
}
