//! What must be on the machine, why, how it is recognised, and what the package is called.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Command;
use crate::package_manager::PackageManager;
use crate::paths::on_path;

/// For what a need must be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Building and running the tools.
    Build,
    /// Running every test.
    Test,
}

/// One thing that must be there.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) what: &'static str,
    pub(crate) why: &'static str,
    pub(crate) purpose: Purpose,
    debian: &'static [&'static str],
    fedora: &'static [&'static str],
    suse: &'static [&'static str],
    present: fn() -> bool,
}

/// All of them, those of the build first.
pub(crate) const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler and the C library's headers",
        why: "links every Rust program; compiles the shims of libfabric's inline functions",
        purpose: Purpose::Build,
        debian: &["gcc", "libc6-dev"],
        fedora: &["gcc", "glibc-devel"],
        suse: &["gcc", "glibc-devel"],
        present: || on_path("cc").is_some() && Path::new("/usr/include/stdio.h").is_file(),
    },
    Need {
        what: "pkg-config",
        why: "finds libfabric",
        purpose: Purpose::Build,
        debian: &["pkg-config"],
        fedora: &["pkgconf-pkg-config"],
        suse: &["pkg-config"],
        present: || on_path("pkg-config").is_some(),
    },
    Need {
        what: "libfabric with its headers",
        why: "the library that the tools measure",
        purpose: Purpose::Build,
        debian: &["libfabric-dev"],
        fedora: &["libfabric-devel"],
        suse: &["libfabric-devel"],
        present: has_libfabric,
    },
    Need {
        what: "libclang with its headers",
        why: "bindgen reads libfabric's headers with it",
        purpose: Purpose::Build,
        debian: &["libclang-dev"],
        fedora: &["clang-devel"],
        suse: &["clang-devel"],
        present: has_libclang,
    },
    Need {
        what: "fi_info and fi_pingpong",
        why: "libfabric's own tools are the peers and the yardstick of the tests",
        purpose: Purpose::Test,
        debian: &["libfabric-bin"],
        fedora: &["libfabric"],
        suse: &["libfabric"],
        present: || on_path("fi_info").is_some() && on_path("fi_pingpong").is_some(),
    },
    Need {
        what: "python3 with pip",
        why: "fetches libfabric 2.5.1",
        purpose: Purpose::Test,
        debian: &["python3", "python3-pip"],
        fedora: &["python3", "python3-pip"],
        suse: &["python3", "python3-pip"],
        present: || Command::new("python3").args(["-m", "pip", "--version"]).succeeds(),
    },
    Need {
        what: "the ip command",
        why: "network namespaces with real addresses",
        purpose: Purpose::Test,
        debian: &["iproute2"],
        fedora: &["iproute"],
        suse: &["iproute2"],
        present: || has_program("ip"),
    },
    Need {
        what: "valgrind",
        why: "checks memory in flight; counts instructions",
        purpose: Purpose::Test,
        debian: &["valgrind"],
        fedora: &["valgrind"],
        suse: &["valgrind"],
        present: || on_path("valgrind").is_some(),
    },
    Need {
        what: "libibverbs, librdmacm and libefa",
        why: "the efa and verbs providers of libfabric 2.5.1 are linked to them",
        purpose: Purpose::Test,
        debian: &["libibverbs1", "ibverbs-providers", "librdmacm1"],
        fedora: &["libibverbs", "librdmacm"],
        suse: &["libibverbs1", "libefa1", "librdmacm1"],
        present: || ["libibverbs.so.1", "libefa.so.1", "librdmacm.so.1"].iter().all(|name| has_library(name)),
    },
];

impl Need {
    pub(crate) fn is_met(&self) -> bool {
        (self.present)()
    }

    /// The packages that bring it.
    pub(crate) fn packages(&self, manager: PackageManager) -> &'static [&'static str] {
        match manager {
            PackageManager::Apt => self.debian,
            PackageManager::Dnf | PackageManager::Yum => self.fedora,
            PackageManager::Zypper => self.suse,
        }
    }
}

/// The needs for a purpose that are not met.
pub(crate) fn missing(purpose: Purpose) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| need.purpose <= purpose && !need.is_met()).collect()
}

/// The same three places, in the same order, that the build of efa-sys looks at.
fn has_libfabric() -> bool {
    env::var_os("LIBFABRIC_DIR").is_some()
        || Command::new("pkg-config").args(["--exists", "libfabric"]).succeeds()
        || Path::new("/opt/amazon/efa/include/rdma/fabric.h").is_file()
}

/// bindgen loads `libclang` when it runs, and libclang brings its own `stddef.h`.
fn has_libclang() -> bool {
    if env::var_os("LIBCLANG_PATH").is_some() {
        return true;
    }
    let mut dirs = library_dirs();
    if let Ok(dir) = Command::new("llvm-config").arg("--libdir").output() {
        dirs.push(PathBuf::from(dir.trim()));
    }
    let library = dirs.iter().any(|dir| names(dir).iter().any(|name| is_libclang(name)));
    let headers = dirs.iter().any(|dir| {
        let clang = dir.join("clang");
        names(&clang).iter().any(|version| clang.join(version).join("include/stddef.h").is_file())
    });
    library && headers
}

fn is_libclang(name: &str) -> bool {
    let library = name == "libclang.so"
        || name.starts_with("libclang.so.")
        || (name.starts_with("libclang-") && name.contains(".so"));
    library && !name.starts_with("libclang-cpp")
}

/// An administrator's program, which an ordinary user's `PATH` may not reach.
fn has_program(name: &str) -> bool {
    on_path(name).is_some() || ["/usr/sbin", "/sbin"].iter().any(|dir| Path::new(dir).join(name).is_file())
}

fn has_library(name: &str) -> bool {
    library_dirs().iter().any(|dir| dir.join(name).exists())
}

/// Where the distributions put libraries, those of each LLVM version included.
fn library_dirs() -> Vec<PathBuf> {
    let arch = env::consts::ARCH;
    let mut dirs: Vec<PathBuf> = [
        format!("/usr/lib/{arch}-linux-gnu"),
        format!("/lib/{arch}-linux-gnu"),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
        "/usr/local/lib".to_owned(),
        "/usr/local/lib64".to_owned(),
    ]
    .into_iter()
    .map(PathBuf::from)
    .collect();
    for parent in ["/usr/lib", "/usr/lib64", "/usr/local"] {
        for name in names(Path::new(parent)) {
            if name.starts_with("llvm") {
                dirs.push(Path::new(parent).join(&name).join("lib"));
                dirs.push(Path::new(parent).join(&name).join("lib64"));
            }
        }
    }
    dirs
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libclang_is_told_from_the_cpp_library() {
        for name in ["libclang.so", "libclang-14.so.1", "libclang.so.18.1", "libclang-14.so.14.0.6"] {
            assert!(is_libclang(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclangAST.a", "libclang-14.a"] {
            assert!(!is_libclang(name), "{name}");
        }
    }

    #[test]
    fn what_the_demo_needs_is_part_of_what_the_tests_need() {
        let demo = missing(Purpose::Build).len();
        assert!(demo <= missing(Purpose::Test).len());
        assert!(NEEDS.iter().all(|need| !need.debian.is_empty() && !need.fedora.is_empty()));
    }
}
