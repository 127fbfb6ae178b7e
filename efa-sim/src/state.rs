//! Directories of running processes: where they are, who owns them, and what dead owners left.
//!
//! Everything that a process leaves in the file system lies in one directory, named after the
//! process so that nobody else can be mistaken for it: process id, start time, and the namespace in
//! which the id counts. A process killed without a chance to clean up leaves that directory; the
//! next start removes it, by its exact name and only when its owner is certainly gone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::config::key_from_secret;

/// The owner of a directory, as its name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// Clock ticks after boot at which the process started.
    started: u64,
    /// Inode of the namespace in which `pid` counts.
    namespace: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    ///
    /// `/proc` is not mounted or not readable.
    pub fn this_process() -> io::Result<Self> {
        let pid = std::process::id();
        let started =
            start_time(pid)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "/proc has no such process"))?;
        Ok(Owner { pid, started, namespace: pid_namespace()? })
    }

    /// The name of the owner's directory.
    pub fn directory_name(&self) -> String {
        format!("{}-{}-{}", self.pid, self.started, self.namespace)
    }

    /// Reads the owner back from a directory's name.
    pub fn from_directory_name(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let owner = Owner {
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
            namespace: parts.next()?.parse().ok()?,
        };
        // Only a name that this code would write itself counts.
        (owner.directory_name() == name).then_some(owner)
    }

    /// The process id of the owner, in its own namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the owner is certainly gone; a process of another namespace never is.
    pub fn is_dead(&self) -> bool {
        match (pid_namespace(), start_time(self.pid)) {
            (Ok(here), Ok(started)) => here == self.namespace && started != Some(self.started),
            _ => false,
        }
    }
}

/// The directory that holds all of a user's processes.
///
/// # Errors
///
/// The directory cannot be made, or is not this user's alone.
pub fn base(configured: Option<&Path>) -> io::Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let path = match configured {
        Some(path) => path.to_owned(),
        None => match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
            Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("efa-sim"),
            _ => std::env::temp_dir().join(format!("efa-sim-{uid}")),
        },
    };
    if let Err(error) = DirBuilder::new().mode(0o700).create(&path)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(named(error, &path));
    }
    // Somebody else's directory, or a link to one, could be made to leak the key.
    let metadata = fs::symlink_metadata(&path).map_err(|error| named(error, &path))?;
    if !metadata.is_dir() || metadata.uid() != uid || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is not a directory that only user {uid} can write to", path.display()),
        ));
    }
    path.canonicalize().map_err(|error| named(error, &path))
}

/// Directories of processes in `base`, with their owners.
///
/// # Errors
///
/// `base` cannot be listed.
pub fn owners(base: &Path) -> io::Result<Vec<(Owner, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(base).map_err(|error| named(error, base))? {
        let entry = entry?;
        if let Some(owner) = entry.file_name().to_str().and_then(Owner::from_directory_name) {
            found.push((owner, entry.path()));
        }
    }
    Ok(found)
}

/// Removes what processes that are gone left in `base`.
///
/// # Errors
///
/// `base` cannot be listed. A directory that cannot be removed is left for the next start: another
/// process may be removing it at the same moment.
pub fn remove_dead(base: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for (owner, path) in owners(base)? {
        if owner.is_dead() && fs::remove_dir_all(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// The key that all processes of this user on this host share, made on first use.
///
/// # Errors
///
/// The file cannot be read or written.
pub fn user_key(base: &Path) -> io::Result<u128> {
    let path = base.join("key");
    if !path.exists() {
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let draft = base.join(format!("key-{}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .map_err(|error| named(error, &draft))?;
        file.write_all(&secret)?;
        // A link appears whole or not at all, and the first of several processes wins.
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft)?;
        if let Err(error) = linked
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(named(error, &path));
        }
    }
    let secret = fs::read(&path).map_err(|error| named(error, &path))?;
    if secret.len() != 32 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: remove it", path.display())));
    }
    Ok(key_from_secret(&secret))
}

/// Puts the path in front of an error, which the system's own text leaves out.
pub(crate) fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// When a process started, none if there is no such process.
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // The command name may hold anything, blanks and brackets included, but ends at the last
    // bracket; the start time is field 22 (proc(5)), the 20th after it.
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok())
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot read /proc/PID/stat"))
}

/// The inode of this process's namespace of process ids.
fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_comes_back_from_its_directory_name() {
        let owner = Owner::this_process().unwrap();
        assert!(!owner.is_dead());
        assert_eq!(Owner::from_directory_name(&owner.directory_name()), Some(owner));
        for name in ["", "1-2", "1-2-3-4", "x-2-3", "01-2-3", "key", "+1-2-3"] {
            assert_eq!(Owner::from_directory_name(name), None, "{name}");
        }
    }

    #[test]
    fn only_directories_of_the_dead_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let alive = Owner::this_process().unwrap();
        let dead = Owner { started: alive.started + 1, ..alive.clone() };
        let foreign = Owner { namespace: alive.namespace + 1, ..dead.clone() };
        for owner in [&alive, &dead, &foreign] {
            fs::create_dir_all(base.path().join(owner.directory_name()).join("sys")).unwrap();
        }
        fs::create_dir(base.path().join("someone-elses")).unwrap();
        assert_eq!(remove_dead(base.path()).unwrap(), 1);
        assert!(base.path().join(alive.directory_name()).exists());
        assert!(!base.path().join(dead.directory_name()).exists());
        assert!(base.path().join(foreign.directory_name()).exists());
        assert!(base.path().join("someone-elses").exists());
    }

    #[test]
    fn the_user_key_stays_the_same() {
        let base = tempfile::tempdir().unwrap();
        let key = user_key(base.path()).unwrap();
        assert_eq!(user_key(base.path()).unwrap(), key);
        let left: Vec<_> = fs::read_dir(base.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let base_dir = tempfile::tempdir().unwrap();
        let path = base_dir.path().join("open");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(base(Some(&path)).is_err());
    }
}
