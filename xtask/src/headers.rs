//! The headers of libfabric 2.1, and its library to link with, out of Debian 13's packages.
//!
//! `apt-get` downloads them with a sources file and state folders of their own, so that nothing of
//! the system changes; it checks the archive's signature against Debian's keys.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::apt;
use crate::command::Command;
use crate::libfabric::Scratch;
use crate::paths::{Workspace, on_path};
use crate::steps::Verdict;

const SUITE: &str = "trixie";
const VERSION: &str = "2.1.0-1.1";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Puts the headers into `target/libfabric/2.1-headers`, a prefix for `LIBFABRIC_DIR`.
pub(crate) fn fetch(workspace: &Workspace) -> Result<Verdict> {
    let wanted = workspace.new_headers();
    if wanted.join("include/rdma/fabric.h").is_file() {
        eprintln!("{} is there", wanted.display());
        return Ok(Verdict::Done);
    }
    let archive = match archive() {
        Ok(archive) => archive,
        Err(reason) => return Ok(Verdict::LeftOut(reason)),
    };
    let scratch = Scratch::new(&workspace.ours("libfabric"), "2.1-headers")?;
    let apt = Apt::new(scratch.path(), &archive)?;
    apt.command("apt-get").arg("update").run_ok().with_context(|| {
        format!(
            "cannot read the lists of Debian {SUITE} from the archive that this machine uses; where the \
             message is about a missing public key, {KEYS} is too old to know {SUITE}: \
             `apt-get install --only-upgrade debian-archive-keyring`"
        )
    })?;
    let packages = ["libfabric-dev", "libfabric1"].map(|name| format!("{name}={VERSION}"));
    apt.command("apt-get").arg("download").args(&packages).dir(apt.downloads()).run_ok()?;
    let unpacked = scratch.path().join("unpacked");
    for entry in fs::read_dir(apt.downloads())? {
        Command::new("dpkg").arg("-x").args([&entry?.path(), &unpacked]).run_ok()?;
    }
    let kept = scratch.path().join("kept");
    keep_prefix(&unpacked.join("usr"), &kept, &wanted)?;
    scratch.publish(&kept, &wanted)?;
    Ok(Verdict::Done)
}

/// The archive that this machine's own packages come from, or why there is none to use.
fn archive() -> Result<String, String> {
    for program in ["apt-get", "dpkg"] {
        if on_path(program).is_none() {
            return Err(format!("these come from Debian's packages, and {program} is not here"));
        }
    }
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let release = apt::release(&text).filter(|release| release.id == "debian");
    let release = release.ok_or("these are Debian's packages, and this is not Debian")?;
    apt::archive(Path::new("/etc/apt"), &release.codename)
        .ok_or_else(|| format!("no archive for {} with its main packages in /etc/apt", release.codename))
}

/// `apt-get` with sources, lists and caches of its own.
struct Apt<'a> {
    home: &'a Path,
}

impl<'a> Apt<'a> {
    fn new(home: &'a Path, archive: &str) -> Result<Apt<'a>> {
        let sources = format!("Types: deb\nURIs: {archive}\nSuites: {SUITE}\nComponents: main\nSigned-By: {KEYS}\n");
        for dir in ["parts", "state/lists/partial", "cache/archives/partial", "downloads"] {
            fs::create_dir_all(home.join(dir))?;
        }
        fs::write(home.join("parts/debian.sources"), sources)?;
        Ok(Apt { home })
    }

    fn downloads(&self) -> std::path::PathBuf {
        self.home.join("downloads")
    }

    fn command(&self, program: &str) -> Command {
        let place = |name: &str, dir: &str| format!("-oDir::{name}={}", self.home.join(dir).display());
        Command::new(program)
            .arg("-oDir::Etc::sourcelist=/dev/null")
            .arg(place("Etc::sourceparts", "parts"))
            .arg(place("State", "state"))
            .arg(place("State::Lists", "state/lists"))
            .arg(place("Cache", "cache"))
            // Neither translations nor the data of software centres are of use here.
            .arg("-oAcquire::Languages=none")
            .arg("-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false")
            // As root, apt would read as another user, for whom the checkout may be closed.
            .arg("-oAPT::Sandbox::User=root")
    }
}

/// Lays the packages' files out as a prefix: `include`, `lib`, `lib/pkgconfig`.
fn keep_prefix(usr: &Path, to: &Path, wanted: &Path) -> Result<()> {
    let libraries = fs::read_dir(usr.join("lib"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|dir| dir.join("libfabric.so.1").exists())
        .context("no libfabric.so.1 in Debian's libfabric1")?;
    fs::create_dir_all(to)?;
    fs::rename(usr.join("include"), to.join("include"))?;
    fs::rename(libraries, to.join("lib"))?;
    ensure!(to.join("lib/libfabric.so").exists(), "no libfabric.so in Debian's libfabric-dev");
    // The static library would be linked instead of the shared one by some linkers' rules.
    let _ = fs::remove_file(to.join("lib/libfabric.a"));
    let description = to.join("lib/pkgconfig/libfabric.pc");
    let text = fs::read_to_string(&description)?;
    fs::write(description, in_prefix(&text, wanted))?;
    Ok(())
}

/// pkg-config's description of the library for another place.
fn in_prefix(text: &str, prefix: &Path) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some(("prefix", _)) => format!("prefix={}\n", prefix.display()),
        Some(("libdir", _)) => "libdir=${prefix}/lib\n".to_owned(),
        Some(("includedir", _)) => "includedir=${prefix}/include\n".to_owned(),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_points_into_the_prefix() {
        let text = "prefix=/usr\nlibdir=${prefix}/lib/x86_64-linux-gnu\nVersion: 2.1.0\n\
                    Libs: -L${libdir} -lfabric\n";
        assert_eq!(
            in_prefix(text, Path::new("/p")),
            "prefix=/p\nlibdir=${prefix}/lib\nVersion: 2.1.0\nLibs: -L${libdir} -lfabric\n"
        );
    }
}
