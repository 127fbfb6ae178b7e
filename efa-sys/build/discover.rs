//! Finds a libfabric to bind: `LIBFABRIC_DIR`, then pkg-config, then the EFA installer's prefix.
//!
//! Everything here works on directories that it is given, so that tests run it on made-up ones.

use std::fs;
use std::path::{Path, PathBuf};

use crate::version::{OLDEST, Version};

/// Where the EFA installer puts its libfabric.
pub(crate) const EFA_INSTALLER_PREFIX: &str = "/opt/amazon/efa";

/// The header that states the version, below an include directory.
const HEADER: &str = "rdma/fabric.h";

/// Where a prefix may keep its libraries: installers differ per distribution.
const LIBRARY_DIRS: &[&str] = &["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"];

/// What `-lfabric` finds there. A static library would need those of every provider built into it.
const LIBRARY_FILE: &str = "libfabric.so";

/// The directories that pkg-config gave for libfabric.
#[derive(Clone, Debug)]
pub(crate) struct Directories {
    pub(crate) libraries: Vec<PathBuf>,
    pub(crate) includes: Vec<PathBuf>,
}

/// What discovery starts from.
pub(crate) struct Places<'a> {
    /// `LIBFABRIC_DIR`, where it is set.
    pub(crate) libfabric_dir: Option<PathBuf>,
    /// Asks pkg-config; its error text goes into the help page.
    pub(crate) pkg_config: &'a dyn Fn() -> Result<Directories, String>,
    /// [`EFA_INSTALLER_PREFIX`], except in tests.
    pub(crate) installer: PathBuf,
}

/// A usable libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) libdir: PathBuf,
    pub(crate) include: PathBuf,
    pub(crate) version: Version,
    /// How it was found, for the build log.
    pub(crate) origin: String,
}

/// One place that was looked at in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) place: String,
    pub(crate) reason: Reason,
}

/// Why a place was no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The header is missing; the path is the one expected.
    NoHeader(PathBuf),
    /// The header is there and the library is not; the directories are those searched.
    NoLibrary(Vec<PathBuf>),
    /// The header states no version.
    NoVersion(PathBuf),
    /// The headers are older than the bindings allow.
    TooOld { header: PathBuf, version: Version },
    /// pkg-config does not know it, or is itself missing; its own words.
    PkgConfig(String),
}

/// Looks at the places in order and takes the first that is complete and new enough.
///
/// `LIBFABRIC_DIR` is an order, not a hint: when it is set and of no use, the search ends there
/// instead of quietly building against another libfabric.
pub(crate) fn discover(places: &Places<'_>) -> Result<Library, Vec<Miss>> {
    if let Some(prefix) = &places.libfabric_dir {
        let place = format!("LIBFABRIC_DIR={}", prefix.display());
        return in_prefix(prefix, &place).map_err(|miss| vec![miss]);
    }
    let mut misses = Vec::new();
    match from_pkg_config(places.pkg_config) {
        Ok(library) => return Ok(library),
        Err(miss) => misses.push(miss),
    }
    let place = format!("the EFA installer's {}", places.installer.display());
    match in_prefix(&places.installer, &place) {
        Ok(library) => Ok(library),
        Err(miss) => {
            misses.push(miss);
            Err(misses)
        }
    }
}

fn in_prefix(prefix: &Path, place: &str) -> Result<Library, Miss> {
    let candidates: Vec<PathBuf> = LIBRARY_DIRS.iter().map(|dir| prefix.join(dir)).collect();
    complete(&prefix.join("include"), &candidates, place)
}

fn from_pkg_config(ask: &dyn Fn() -> Result<Directories, String>) -> Result<Library, Miss> {
    let place = "pkg-config libfabric";
    let found = ask().map_err(|text| Miss { place: place.to_owned(), reason: Reason::PkgConfig(text) })?;
    // It may list the directories of what libfabric needs as well.
    let holds_header = |dir: &&PathBuf| dir.join(HEADER).exists();
    let include = found.includes.iter().find(holds_header);
    let include = include.map_or(Path::new("/usr/include"), PathBuf::as_path);
    complete(include, &found.libraries, place)
}

/// A library from an include directory and the directories where its library may be.
fn complete(include: &Path, candidates: &[PathBuf], place: &str) -> Result<Library, Miss> {
    let miss = |reason| Miss { place: place.to_owned(), reason };
    let header = include.join(HEADER);
    let Ok(text) = fs::read_to_string(&header) else {
        return Err(miss(Reason::NoHeader(header)));
    };
    let Some(version) = Version::of_header(&text) else {
        return Err(miss(Reason::NoVersion(header)));
    };
    if version < OLDEST {
        return Err(miss(Reason::TooOld { header, version }));
    }
    let holds_library = |dir: &&PathBuf| dir.join(LIBRARY_FILE).exists();
    let Some(libdir) = candidates.iter().find(holds_library) else {
        return Err(miss(Reason::NoLibrary(candidates.to_vec())));
    };
    Ok(Library { libdir: libdir.clone(), include: include.to_owned(), version, origin: place.to_owned() })
}
