//! Reading small files below a root.

use std::path::{Path, PathBuf};

/// Most of a file that is read: /proc/cpuinfo of a large host is a few hundred kilobytes.
const MOST: u64 = 4 << 20;

/// Most processors in a list, far above what Linux supports.
const MOST_CPUS: usize = 1 << 16;

/// The files below a root.
pub(super) struct Files {
    root: PathBuf,
}

/// Space of a file system.
#[derive(Clone, Copy)]
pub(super) struct Space {
    pub(super) total_bytes: u64,
    pub(super) free_bytes: u64,
}

impl Files {
    pub(super) fn new(root: &Path) -> Self {
        Files { root: root.into() }
    }

    /// Content of a file, with what is not UTF-8 replaced.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(self.root.join(path)).ok()?;
        file.take(MOST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// First line of a file, if it has anything in it.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Names in a folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(path)) else {
            return Vec::new();
        };
        entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect()
    }

    pub(super) fn space(&self, path: &str) -> Option<Space> {
        let space = rustix::fs::statvfs(self.root.join(path)).ok()?;
        Some(Space {
            total_bytes: space.f_blocks.checked_mul(space.f_frsize)?,
            free_bytes: space.f_bavail.checked_mul(space.f_frsize)?,
        })
    }
}

/// Reads a list of processors as the kernel writes it: `0-3,8`.
pub(super) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || (last - first) as usize + cpus.len() >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn processor_lists_of_the_kernel() {
        assert_eq!(cpu_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cpu_list("5"), Some(vec![5]));
        for bad in ["", "3-1", "a", "0-4294967295", "1,,2"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = cpu_list(&text);
        }
    }
}
