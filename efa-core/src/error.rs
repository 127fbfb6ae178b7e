//! Typed errors: which call failed, on what, and what to do about it.

use std::ffi::CStr;
use std::fmt;
use std::path::PathBuf;

use crate::version::Version;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A libfabric error code, positive as in `fi_errno(3)`.
///
/// Codes that this crate has never heard of are kept as they are: a newer provider may send them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// The queue is full or empty for now; try again after polling.
    pub const AGAIN: Errno = Errno(efa_sys::FI_EAGAIN);
    /// No provider, or no data, matches what was asked for.
    pub const NODATA: Errno = Errno(efa_sys::FI_ENODATA);
    /// Memory, or the limit on locked memory, is exhausted.
    pub const NOMEM: Errno = Errno(efa_sys::FI_ENOMEM);
    /// The operation was cancelled.
    pub const CANCELED: Errno = Errno(efa_sys::FI_ECANCELED);
    /// The message is longer than the provider, or the receiver's buffer, takes.
    pub const MSGSIZE: Errno = Errno(efa_sys::FI_EMSGSIZE);
    /// The message was longer than the buffer it was received into.
    pub const TRUNC: Errno = Errno(efa_sys::FI_ETRUNC);
    /// The provider does not offer the operation.
    pub const OPNOTSUPP: Errno = Errno(efa_sys::FI_EOPNOTSUPP);
    /// There is no such operation.
    pub const NOENT: Errno = Errno(efa_sys::FI_ENOENT);
    /// An argument does not fit the object it was given to.
    pub const INVAL: Errno = Errno(efa_sys::FI_EINVAL);

    /// The error of a positive code, as a completion queue reports it.
    pub const fn new(code: i32) -> Errno {
        Errno(code)
    }

    /// The error of a negative return value; a positive one is taken as it is.
    pub const fn of_return(ret: i64) -> Errno {
        let magnitude = ret.unsigned_abs();
        if magnitude > i32::MAX as u64 { Errno(i32::MAX) } else { Errno(magnitude as i32) }
    }

    /// The positive code.
    pub const fn code(self) -> i32 {
        self.0
    }

    /// libfabric's own sentence for this code (`fi_strerror(3)`).
    pub fn text(self) -> String {
        // SAFETY: fi_strerror takes any integer and answers with a NUL-terminated string that it owns
        // and never frees; null is handled by `owned_text`.
        let text = unsafe { efa_sys::fi_strerror(self.0) };
        owned_text(text).unwrap_or_else(|| "unknown error".to_owned())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (-{})", self.text(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {})", self.0, self.text())
    }
}

/// Copies a C string that stays valid during this call; null gives `None`.
pub(crate) fn owned_text(text: *const std::ffi::c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: every caller passes a string that libfabric keeps alive and NUL-terminated (names inside
    // an fi_info, fi_strerror, fi_cq_strerror); it is copied before anything else is called.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// What can go wrong on the control path: opening, registering, addressing, polling, closing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A libfabric call returned an error.
    #[error("{call} failed on {object}: {errno}{}", remedy_text(.remedy))]
    Call {
        /// The C function.
        call: &'static str,
        /// What it was called on, with the arguments that matter.
        object: String,
        /// The code returned.
        errno: Errno,
        /// What usually helps, where that is known.
        remedy: Option<&'static str>,
    },
    /// No provider matches the hints.
    #[error("no libfabric provider matches {hints}")]
    NoMatch {
        /// The hints, readable.
        hints: String,
    },
    /// The library that was loaded is older than the one this program was built with.
    #[error(
        "libfabric {run} was loaded from {}, but this program was built with {build}: put a libfabric of {build} or \
         newer first on LD_LIBRARY_PATH, or rebuild with the older headers",
        path.display()
    )]
    LibraryTooOld {
        /// Version of the headers and library at build time.
        build: Version,
        /// Version of the library that was loaded.
        run: Version,
        /// File it was loaded from.
        path: PathBuf,
    },
    /// An argument cannot be right, whatever the provider.
    #[error("{what} is {value}: {reason}")]
    Invalid {
        /// The argument.
        what: &'static str,
        /// Its value.
        value: String,
        /// Why it is refused.
        reason: String,
    },
    /// The operating system refused memory.
    #[error("cannot map {bytes} bytes for {what}: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What they were for.
        what: &'static str,
        /// The system's own error.
        source: std::io::Error,
    },
    /// The provider reported an error that belongs to no operation in flight, such as a failed inject.
    #[error("the provider reported an error outside of any operation: {0}")]
    Unattributed(OpError),
    /// The provider completed an operation that is not in flight.
    #[error("the provider completed an operation that is not in flight (context {context:#x}, flags {flags:#x})")]
    Spurious {
        /// The context pointer that the provider handed back.
        context: usize,
        /// Completion flags.
        flags: u64,
    },
}

fn remedy_text(remedy: &Option<&'static str>) -> String {
    remedy.map(|r| format!("; {r}")).unwrap_or_default()
}

impl Error {
    /// The error of `call`, with the remedy that is known for it.
    pub(crate) fn call(call: &'static str, object: impl Into<String>, ret: i64) -> Error {
        let (errno, object) = (Errno::of_return(ret), object.into());
        let remedy = remedy(call, errno, &object);
        Error::Call { call, object, errno, remedy }
    }

    /// The libfabric code behind this error, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::Call { errno, .. } => Some(*errno),
            Error::NoMatch { .. } => Some(Errno::NODATA),
            Error::Unattributed(op) => Some(op.errno()),
            _ => None,
        }
    }
}

/// What usually helps, by call, code and the provider, with whose name `object` begins.
fn remedy(call: &str, errno: Errno, object: &str) -> Option<&'static str> {
    match (call, errno) {
        ("fi_mr_reg", Errno::NOMEM) => Some(
            "the limit on locked memory (RLIMIT_MEMLOCK) is the usual cause: see `ulimit -l`, raise it with \
             `ulimit -l unlimited` or in /etc/security/limits.conf, or register less",
        ),
        ("fi_endpoint" | "fi_enable", Errno::NODATA | Errno(28)) if object.starts_with("shm") => Some(
            "the shm provider needs about 16 MiB of /dev/shm for each endpoint: see `df -h /dev/shm`, and enlarge it with \
             `mount -o remount,size=1G /dev/shm` (containers: `--shm-size=1g`)",
        ),
        ("fi_endpoint" | "fi_enable" | "fi_domain" | "fi_cq_open", Errno(24)) => {
            Some("the limit on open files is reached: raise it with `ulimit -n`")
        }
        _ => None,
    }
}

/// Why an operation in flight failed, as its completion reports it.
#[derive(Clone, PartialEq, Eq)]
pub struct OpError(Box<OpErrorDetail>);

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OpErrorDetail {
    pub(crate) errno: Errno,
    pub(crate) prov_errno: i32,
    pub(crate) prov_text: String,
    pub(crate) overflow: usize,
}

impl OpError {
    pub(crate) fn new(detail: OpErrorDetail) -> OpError {
        OpError(Box::new(detail))
    }

    /// The general cause (`fi_cq_err_entry.err`).
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// The provider's own code; not an errno, its meaning is the provider's.
    pub fn provider_code(&self) -> i32 {
        self.0.prov_errno
    }

    /// The provider's own text for its code (`fi_cq_strerror(3)`).
    pub fn provider_text(&self) -> &str {
        &self.0.prov_text
    }

    /// Bytes of the message that did not fit into the receive buffer.
    pub fn overflow_bytes(&self) -> usize {
        self.0.overflow
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.errno)?;
        if self.0.prov_errno != 0 {
            write!(f, "; provider code {}: {}", self.0.prov_errno, self.0.prov_text)?;
        }
        if self.0.overflow != 0 {
            write!(f, "; {} bytes did not fit", self.0.overflow)?;
        }
        Ok(())
    }
}

impl fmt::Debug for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpError({self})")
    }
}

impl std::error::Error for OpError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_nobody_knows_become_a_value() {
        for code in [0, -1, 1, 9999, i32::MAX, i32::MIN + 1] {
            let errno = Errno::new(code);
            assert_eq!(errno.code(), code);
            assert!(!errno.text().is_empty());
        }
        assert_eq!(Errno::of_return(i64::MIN).code(), i32::MAX);
        assert_eq!(Errno::of_return(-11), Errno::AGAIN);
    }

    #[test]
    fn a_registration_without_memory_names_the_limit() {
        let text = Error::call("fi_mr_reg", "4096 bytes", -12).to_string();
        assert!(text.contains("RLIMIT_MEMLOCK") && text.contains("4096 bytes"), "{text}");
    }

    #[test]
    fn only_an_endpoint_of_shm_names_its_share_of_memory() {
        for (object, named) in [("shm shm", true), ("tcp;ofi_rxm lo", false), ("efa rdmap0s6-rdm", false)] {
            for code in [-61, -28] {
                let text = Error::call("fi_enable", object, code).to_string();
                assert_eq!(text.contains("/dev/shm"), named, "{text}");
            }
        }
    }

    #[test]
    fn an_operation_error_shows_the_provider_side() {
        let error = OpError::new(OpErrorDetail {
            errno: Errno::TRUNC,
            prov_errno: 15,
            prov_text: "peer never reached".into(),
            overflow: 3,
        });
        let text = error.to_string();
        assert!(text.contains("provider code 15: peer never reached") && text.contains("3 bytes"), "{text}");
        assert_eq!(size_of::<Result<(), OpError>>(), size_of::<usize>());
    }
}
