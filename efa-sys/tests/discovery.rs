//! The build program's search and its help pages, on made-up prefixes.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

#[allow(dead_code, reason = "the build program uses the rest")]
#[path = "../build/discover.rs"]
mod discover;
#[path = "../build/help.rs"]
mod help;
#[allow(dead_code, reason = "the build program uses the rest")]
#[path = "../build/version.rs"]
mod version;

use discover::{Directories, Library, Miss, Places, Reason};
use version::Version;

#[test]
fn the_directory_asked_for_wins_over_pkg_config_and_the_installer() {
    let asked = Prefix::new("2.1.0", "lib64");
    let other = Prefix::new("1.17.0", "lib");
    let found = search(Some(&asked), Ok(other.directories("lib")), &other).expect("a library");
    assert_eq!(found.libdir, asked.path().join("lib64"));
    assert_eq!(found.include, asked.path().join("include"));
    assert_eq!(found.version.to_string(), "2.1.0");
}

#[test]
fn the_directory_asked_for_may_use_any_usual_place_for_libraries() {
    for place in ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"] {
        let asked = Prefix::new("1.22.0", place);
        let found = search(Some(&asked), Err("not asked"), &Prefix::empty()).expect(place);
        assert_eq!(found.libdir, asked.path().join(place));
    }
}

#[test]
fn pkg_config_wins_over_the_installer() {
    let distribution = Prefix::new("1.17.0", "lib");
    let installer = Prefix::new("2.5.1", "lib64");
    let found = search(None, Ok(distribution.directories("lib")), &installer).expect("a library");
    assert_eq!(found.libdir, distribution.path().join("lib"));
}

#[test]
fn directories_of_other_packages_in_pkg_configs_answer_are_passed_over() {
    let other = Prefix::empty();
    let libfabric = Prefix::new("1.17.0", "lib");
    let mut answer = other.directories("lib");
    answer.libraries.extend(libfabric.directories("lib").libraries);
    answer.includes.extend(libfabric.directories("lib").includes);
    let found = search(None, Ok(answer), &Prefix::empty()).expect("a library");
    assert_eq!(found.libdir, libfabric.path().join("lib"));
    assert_eq!(found.include, libfabric.path().join("include"));
}

#[test]
fn an_old_distribution_does_not_hide_the_installers_new_one() {
    let distribution = Prefix::new("1.11.0", "lib");
    for place in ["lib", "lib64"] {
        let installer = Prefix::new("1.22.0", place);
        let answer = Ok(distribution.directories("lib"));
        let found = search(None, answer, &installer).expect("the installer's");
        assert_eq!(found.libdir, installer.path().join(place));
    }
}

#[test]
fn the_directory_asked_for_is_not_replaced_by_another() {
    let good = Prefix::new("1.17.0", "lib");
    let misses = search(Some(&Prefix::empty()), Ok(good.directories("lib")), &good)
        .expect_err("an empty directory was asked for");
    assert_eq!(misses.len(), 1);
    assert!(matches!(misses[0].reason, Reason::NoHeader(_)));
}

#[test]
fn the_oldest_version_is_1_17() {
    for (version, fine) in [("1.16.1", false), ("1.17.0", true), ("2.0.0", true), ("10.0.0", true)] {
        let prefix = Prefix::new(version, "lib");
        let found = search(Some(&prefix), Err("not asked"), &Prefix::empty());
        assert_eq!(found.is_ok(), fine, "{version}");
    }
}

#[test]
fn headers_without_a_library_name_the_directories_searched() {
    let prefix = Prefix::empty();
    prefix.write("include/rdma/fabric.h", &header("2.1.0"));
    let misses = search(Some(&prefix), Err("not asked"), &Prefix::empty()).expect_err("no library");
    let page = help::no_library(&misses);
    assert!(page.contains("no libfabric.so in"), "{page}");
    assert!(page.contains(&prefix.path().join("lib64").display().to_string()), "{page}");
}

#[test]
fn a_header_without_a_version_is_named() {
    let prefix = Prefix::empty();
    prefix.write("include/rdma/fabric.h", "/* nothing */\n");
    let misses = search(Some(&prefix), Err("not asked"), &Prefix::empty()).expect_err("no version");
    let page = help::no_library(&misses);
    assert!(page.contains("does not define FI_MAJOR_VERSION"), "{page}");
}

#[test]
fn the_page_for_nothing_found_says_where_it_looked_and_what_to_install() {
    let installer = Prefix::empty();
    let words = "Package libfabric was not found in the pkg-config search path.";
    let misses = search(None, Err(words), &installer).expect_err("nothing is there");
    let page = help::no_library(&misses);
    for part in [
        "version 1.17 or newer",
        "pkg-config libfabric",
        words,
        &installer.path().display().to_string(),
        "apt-get install libfabric-dev",
        "dnf install libfabric-devel",
        "EFA installer",
        "LIBFABRIC_DIR=",
    ] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    let order = (page.find("1. pkg-config"), page.find("2. the EFA installer"));
    assert!(order.0.is_some() && order.0 < order.1, "{page}");
}

#[test]
fn the_page_for_a_version_too_old_says_which_was_found_and_needed() {
    let prefix = Prefix::new("1.11.2", "lib");
    let misses = search(Some(&prefix), Err("not asked"), &Prefix::empty()).expect_err("too old");
    let page = help::no_library(&misses);
    assert!(page.contains("is version 1.11.2, and 1.17.0 is needed"), "{page}");
    assert!(page.contains("LIBFABRIC_DIR is set, so nothing else was tried"), "{page}");
}

#[test]
fn the_page_for_a_missing_libclang_names_its_packages() {
    // What clang-sys says, shortened.
    let words = "Unable to find libclang: \"couldn't find any valid shared libraries\"";
    let page = help::no_bindings(&library(), words);
    for part in [words, "libclang-dev", "clang-devel", "LIBCLANG_PATH=", "1.17.0"] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
}

#[test]
fn the_page_for_clangs_missing_headers_names_the_same_packages() {
    let page = help::no_bindings(&library(), "fatal error: 'stddef.h' file not found");
    assert!(page.contains("libclang-dev"), "{page}");
}

#[test]
fn the_page_for_headers_that_clang_rejects_is_about_the_headers() {
    let page = help::no_bindings(&library(), "fabric.h:3:1: error: unknown type name 'x'");
    assert!(page.contains("could not read libfabric's headers"), "{page}");
    assert!(!page.contains("libclang-dev"), "{page}");
}

#[test]
fn the_page_for_a_missing_compiler_names_its_packages() {
    let page = help::no_shims(&library(), "failed to find tool \"cc\"");
    for part in ["failed to find tool", "apt-get install gcc", "dnf install gcc", "CC"] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
}

#[test]
fn versions_are_read_from_the_macros_however_they_are_spaced() {
    let text = "#define FI_MAJOR_VERSION\t2\n # define  FI_MINOR_VERSION 5 /* x */\n";
    let read = Version::of_header(text).expect("a version");
    assert_eq!((read.major, read.minor, read.revision), (2, 5, 0));
    assert_eq!(Version::of_header("#define FI_MAJOR_VERSION 2"), None);
    assert_eq!(Version::of_header("#define FI_MAJOR_VERSION two"), None);
}

#[test]
fn a_version_reaches_the_releases_up_to_it() {
    let version = Version::of_header(&header("2.1.0")).expect("a version");
    assert!(version.reaches((1, 18)) && version.reaches((2, 1)));
    assert!(!version.reaches((2, 2)));
}

fn search(
    asked: Option<&Prefix>,
    pkg_config: Result<Directories, &str>,
    installer: &Prefix,
) -> Result<Library, Vec<Miss>> {
    discover::discover(&Places {
        libfabric_dir: asked.map(|prefix| prefix.path().to_owned()),
        pkg_config: &|| pkg_config.clone().map_err(str::to_owned),
        installer: installer.path().to_owned(),
    })
}

fn library() -> Library {
    Library {
        libdir: PathBuf::from("/usr/lib"),
        include: PathBuf::from("/usr/include"),
        version: Version::of_header(&header("1.17.0")).expect("a version"),
        origin: "pkg-config libfabric".to_owned(),
    }
}

fn header(version: &str) -> String {
    let mut parts = version.split('.');
    let mut text = String::from("#ifndef FABRIC_H\n");
    for name in ["MAJOR", "MINOR", "REVISION"] {
        let part = parts.next().expect("three numbers");
        text.push_str(&format!("#define FI_{name}_VERSION {part}\n"));
    }
    text
}

/// A directory like one that libfabric is installed in.
struct Prefix(TempDir);

impl Prefix {
    fn empty() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn new(version: &str, libdir: &str) -> Self {
        let prefix = Self::empty();
        prefix.write("include/rdma/fabric.h", &header(version));
        prefix.write(&format!("{libdir}/libfabric.so"), "");
        prefix
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("inside the prefix")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// What pkg-config would say about it.
    fn directories(&self, libdir: &str) -> Directories {
        Directories { libraries: vec![self.path().join(libdir)], includes: vec![self.path().join("include")] }
    }
}
