//! Builds the bindings: find libfabric, generate from its headers, compile the shims, tell Cargo.

mod discover;
mod generate;
mod help;
mod inventory;
mod version;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use discover::{Directories, Library, Places};
use version::RELEASES;

/// Directories that the dynamic linker searches anyway: an rpath to them would only get in the way.
const DEFAULT_LIBDIRS: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(page) => {
            eprintln!("{page}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=LIBFABRIC_DIR");
    let places = Places {
        libfabric_dir: env::var_os("LIBFABRIC_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from),
        pkg_config: &ask_pkg_config,
        installer: PathBuf::from(discover::EFA_INSTALLER_PREFIX),
    };
    let library = discover::discover(&places).map_err(|misses| help::no_library(&misses))?;
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo gave no OUT_DIR")?);
    let job = generate::Job { include: &library.include, out_dir: &out_dir };
    generate::generate(&job).map_err(|error| help::no_bindings(&library, &error))?;
    generate::compile_shims(&job).map_err(|error| help::no_shims(&library, &error))?;
    tell_cargo(&library);
    Ok(())
}

/// Link flags, version cfgs, and what build scripts of dependents read as `DEP_FABRIC_*`.
fn tell_cargo(library: &Library) {
    let libdir = library.libdir.display();
    println!("cargo::rustc-link-search=native={libdir}");
    println!("cargo::rustc-link-lib=dylib=fabric");
    let found_anyway = DEFAULT_LIBDIRS.iter().any(|dir| library.libdir == Path::new(dir));
    if found_anyway {
        println!("cargo::metadata=rpath=");
    } else {
        // For this package's own tests. New dtags make it a RUNPATH, which LD_LIBRARY_PATH overrides.
        println!("cargo::rustc-link-arg=-Wl,--enable-new-dtags,-rpath,{libdir}");
        println!("cargo::metadata=rpath={libdir}");
    }
    for (major, minor) in RELEASES {
        println!("cargo::rustc-check-cfg=cfg(fabric_{major}_{minor})");
        if library.version.reaches((*major, *minor)) {
            println!("cargo::rustc-cfg=fabric_{major}_{minor}");
        }
    }
    println!("cargo::rustc-env=EFA_SYS_BUILD_VERSION={}", library.version);
    println!("cargo::rustc-env=EFA_SYS_INCLUDE={}", library.include.display());
    if let Ok(target) = env::var("TARGET") {
        println!("cargo::rustc-env=EFA_SYS_TARGET={target}");
    }
    println!("cargo::metadata=libdir={libdir}");
    println!("cargo::metadata=version={}", library.version);
    println!("cargo::metadata=include={}", library.include.display());
}

fn ask_pkg_config() -> Result<Directories, String> {
    let found = pkg_config::Config::new()
        .cargo_metadata(false)
        .env_metadata(true)
        .print_system_libs(true)
        .print_system_cflags(true)
        .probe("libfabric")
        .map_err(|error| error.to_string())?;
    Ok(Directories { libraries: found.link_paths, includes: found.include_paths })
}
