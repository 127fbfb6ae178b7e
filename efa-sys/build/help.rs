//! What a person reads when the build cannot go on: what was looked for, where, and what to type.

use std::fmt::Write as _;

use crate::discover::{EFA_INSTALLER_PREFIX, Library, Miss, Reason};
use crate::version::OLDEST;

/// The page for a libfabric that is missing or too old.
pub(crate) fn no_library(misses: &[Miss]) -> String {
    let mut page = title("efa-sys found no libfabric to build with");
    let _ = writeln!(
        page,
        "Looked for: rdma/fabric.h of version {}.{} or newer (2.x too), and libfabric.so.\n\nLooked in:",
        OLDEST.major, OLDEST.minor
    );
    for (number, miss) in misses.iter().enumerate() {
        let _ = writeln!(page, "  {}. {}", number + 1, miss.place);
        for line in explain(&miss.reason).lines() {
            let _ = writeln!(page, "       {line}");
        }
    }
    let ordered = misses.iter().any(|miss| miss.place.starts_with("LIBFABRIC_DIR"));
    if ordered {
        page.push_str("\nLIBFABRIC_DIR is set, so nothing else was tried: correct it, or unset it.\n");
    }
    let _ = write!(
        page,
        "
Install the headers and the library:
  Debian, Ubuntu                   apt-get install libfabric-dev
  Fedora, RHEL, Rocky, Amazon      dnf install libfabric-devel
  openSUSE, SLES                   zypper install libfabric-devel
  Arch                             pacman -S libfabric
  EC2 with EFA                     the EFA installer (aws-efa-installer), which fills
                                   {EFA_INSTALLER_PREFIX}
  Spack                            spack install libfabric, then LIBFABRIC_DIR as below

Or point at a prefix that has include/rdma/fabric.h and lib/libfabric.so:
  LIBFABRIC_DIR=/path/to/prefix cargo build
The distribution's package may be older than {}.{} (Ubuntu 22.04 has 1.11): use the EFA installer's,
or build libfabric from source with --prefix and point LIBFABRIC_DIR there.
",
        OLDEST.major, OLDEST.minor
    );
    page
}

/// The page for headers that could not be turned into bindings.
pub(crate) fn no_bindings(library: &Library, error: &str) -> String {
    // These are the words of clang-sys and of clang itself.
    let no_clang = error.to_lowercase().contains("libclang");
    let no_builtin_headers = error.contains("file not found");
    let mut page = if no_clang {
        title("efa-sys found no libclang, which bindgen reads the headers with")
    } else {
        title("bindgen could not read libfabric's headers")
    };
    let _ = writeln!(page, "{}\n\nIt said:\n{}", headers(library), indent(error));
    if no_clang || no_builtin_headers {
        page.push_str(
            "
Install libclang with its own headers (stddef.h and the like):
  Debian, Ubuntu                   apt-get install libclang-dev
  Fedora, RHEL, Rocky, Amazon      dnf install clang-devel
  openSUSE, SLES                   zypper install clang-devel
  Arch                             pacman -S clang

Or point at the directory of a libclang.so that is somewhere else:
  LIBCLANG_PATH=/usr/lib/llvm-14/lib cargo build
",
        );
    }
    page
}

/// The page for shims that could not be compiled.
pub(crate) fn no_shims(library: &Library, error: &str) -> String {
    let mut page = title("efa-sys could not compile its C shims");
    let _ = write!(
        page,
        "{}

It said:
{}

A C compiler is needed, `cc` or what CC names:
  Debian, Ubuntu                   apt-get install gcc libc6-dev
  Fedora, RHEL, Rocky, Amazon      dnf install gcc glibc-devel
  openSUSE, SLES                   zypper install gcc glibc-devel
  Arch                             pacman -S gcc
",
        headers(library),
        indent(error)
    );
    page
}

fn title(text: &str) -> String {
    format!("\n{text}\n{}\n\n", "=".repeat(text.len()))
}

fn headers(library: &Library) -> String {
    format!(
        "libfabric {} itself was found by {}: headers in {}.",
        library.version,
        library.origin,
        library.include.display()
    )
}

fn indent(text: &str) -> String {
    let lines: Vec<String> = text.trim().lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

fn explain(reason: &Reason) -> String {
    match reason {
        Reason::NoHeader(path) => format!("there is no {}", path.display()),
        Reason::NoVersion(path) => format!("{} does not define FI_MAJOR_VERSION and FI_MINOR_VERSION", path.display()),
        Reason::TooOld { header, version } => {
            format!("too old: {} is version {version}, and {OLDEST} is needed", header.display())
        }
        Reason::NoLibrary(dirs) => {
            let mut text = "the headers are there, but no libfabric.so in".to_owned();
            for dir in dirs {
                let _ = write!(text, "\n  {}", dir.display());
            }
            text
        }
        Reason::PkgConfig(words) => format!("pkg-config has no answer:\n{}", words.trim()),
    }
}
