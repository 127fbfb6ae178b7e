//! The version of a set of libfabric headers, and what the crate makes of it.

use std::fmt;

/// The oldest headers that the bindings are made for.
pub(crate) const OLDEST: Version = Version { major: 1, minor: 17, revision: 0 };

/// Releases after [`OLDEST`] that code may ask about with `cfg(fabric_MAJOR_MINOR)`.
///
/// Each cfg means "these headers are at least as new as that release". All of them are declared to
/// rustc whether they are set or not, so that a misspelt one is an error.
pub(crate) const RELEASES: &[(u32, u32)] =
    &[(1, 18), (1, 19), (1, 20), (1, 21), (1, 22), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5)];

/// A libfabric version as its header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) revision: u32,
}

impl Version {
    /// Reads the version macros of the text of `rdma/fabric.h`.
    ///
    /// The header is asked rather than the `.pc` file, because the header decides the layouts.
    pub(crate) fn of_header(text: &str) -> Option<Self> {
        Some(Self {
            major: macro_value(text, "FI_MAJOR_VERSION")?,
            minor: macro_value(text, "FI_MINOR_VERSION")?,
            revision: macro_value(text, "FI_REVISION_VERSION").unwrap_or(0),
        })
    }

    /// Whether these headers are of `release` or newer.
    pub(crate) fn reaches(self, release: (u32, u32)) -> bool {
        (self.major, self.minor) >= release
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.revision)
    }
}

/// The value of `#define NAME <digits>`, however the line is spaced.
fn macro_value(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let define = line.trim_start().strip_prefix('#')?.trim_start();
        let mut words = define.strip_prefix("define")?.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok()).flatten()
    })
}
