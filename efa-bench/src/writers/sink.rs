//! One file of output, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::OutputError;

/// How long the reader of a pipe may read nothing: a person who pages through a report takes a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file that is known to be writable.
#[derive(Debug)]
pub(super) struct FileSink {
    /// As it was given, for messages.
    path: PathBuf,
    how: How,
}

/// How a file gets new content.
#[derive(Debug)]
enum How {
    /// A temporary file in the same directory takes its place: a reader sees the old one or the new one.
    Replace {
        /// With every link resolved, since renaming onto a link would replace the link.
        target: PathBuf,
    },
    /// The directory cannot be written to: the file itself is written over.
    Overwrite {
        /// With every link resolved.
        target: PathBuf,
    },
    /// A pipe or a device, opened without waiting for its reader: what is written cannot be taken back, so it is
    /// written once, at the end.
    Once(File),
}

impl FileSink {
    /// Makes sure, before a run, that the file can be written after it; creates it if there is none.
    ///
    /// What is in the file stays until there is something to put in its place.
    pub(super) fn open(flag: &'static str, path: &Path) -> Result<Self, OutputError> {
        let refuse = |reason: String| OutputError::Open { flag, path: path.to_owned(), reason };
        match prepare(path) {
            Ok(how) => Ok(Self { path: path.to_owned(), how }),
            Err(error) => Err(refuse(explain(path, &error))),
        }
    }

    /// Whether it can be written more than once.
    pub(super) fn can_be_replaced(&self) -> bool {
        !matches!(self.how, How::Once(_))
    }

    /// Whether both are one file.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        match (self.target(), other.target()) {
            (Some(one), Some(two)) => one == two,
            _ => false,
        }
    }

    /// Puts this text into the file in place of all that is there.
    pub(super) fn write(&mut self, text: &str) -> Result<(), OutputError> {
        let written = match &self.how {
            How::Replace { target } => replace(target, text),
            How::Overwrite { target } => fs::write(target, text),
            How::Once(file) => pour(file, text.as_bytes(), PATIENCE),
        };
        written.map_err(|source| OutputError::Write { path: self.path.clone(), source })
    }

    fn target(&self) -> Option<&Path> {
        match &self.how {
            How::Replace { target } | How::Overwrite { target } => Some(target),
            How::Once(_) => None,
        }
    }
}

fn prepare(path: &Path) -> io::Result<How> {
    let is_special = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        // /dev/stderr may well lead to a regular file, in which other things are written too.
        Ok(found) => !found.is_file() || path.starts_with("/dev") || path.starts_with("/proc"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if is_special {
        let flags = OFlags::NONBLOCK.bits() as i32;
        return OpenOptions::new().append(true).custom_flags(flags).open(path).map(How::Once);
    }
    OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let target = fs::canonicalize(path)?;
    let probe = temporary(&target);
    match create_new(&probe) {
        Ok(_) => {
            fs::remove_file(&probe)?;
            Ok(How::Replace { target })
        }
        Err(_) => Ok(How::Overwrite { target }),
    }
}

fn explain(path: &Path, error: &io::Error) -> String {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match (error.kind(), parent) {
        // Such a pipe has no reader yet.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) && is_pipe(path) => {
            "nobody reads from this pipe; start its reader first".to_owned()
        }
        (io::ErrorKind::IsADirectory, _) => "it is a directory; name a file in it".to_owned(),
        (io::ErrorKind::NotFound, Some(parent)) => {
            format!("there is no directory {}; create it first", parent.display())
        }
        (io::ErrorKind::PermissionDenied, _) => "permission denied; name a file in a directory of your own".to_owned(),
        _ => error.to_string(),
    }
}

fn replace(target: &Path, text: &str) -> io::Result<()> {
    let temporary = temporary(target);
    let written = create_new(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        // The new file is to be as private, or as public, as the one that it replaces.
        if let Ok(old) = fs::metadata(target) {
            file.set_permissions(old.permissions())?;
        }
        drop(file);
        fs::rename(&temporary, target)
    });
    if written.is_err() {
        // The first error is the one to tell; a temporary file that cannot be removed either stays.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// Writes all of it to a file that does not block, as long as its reader takes some of it now and then.
fn pour(mut file: &File, mut rest: &[u8], patience: Duration) -> io::Result<()> {
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                // The reader of a pipe may leave when it has enough.
                io::ErrorKind::BrokenPipe => return Ok(()),
                io::ErrorKind::WouldBlock => {
                    let limit = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
                    let ready = poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&limit));
                    if ready == Ok(0) {
                        let text = format!("nobody has read from it for {patience:?}");
                        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                    }
                }
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

/// A new file, in place of one that an earlier process with this number left behind.
fn create_new(path: &Path) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    create().or_else(|error| {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error);
        }
        fs::remove_file(path)?;
        create()
    })
}

/// A hidden name in the same directory, that no other process uses.
fn temporary(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pipe() -> (io::PipeReader, File) {
        let (reader, writer) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        (reader, File::from(std::os::fd::OwnedFd::from(writer)))
    }

    #[test]
    fn a_pipe_whose_reader_is_slow_gets_all_and_one_that_nobody_reads_is_an_error() {
        let text = vec![b'x'; 1 << 20];
        let (mut reader, file) = pipe();
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        pour(&file, &text, PATIENCE).unwrap();
        drop(file);
        assert!(read.join().unwrap().unwrap() == text);

        let (reader, file) = pipe();
        let error = pour(&file, &text, Duration::from_millis(20)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::TimedOut, "nobody has read from it for 20ms".into())
        );
        drop(reader);
        pour(&file, &text, PATIENCE).unwrap();
    }
}
