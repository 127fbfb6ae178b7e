//! Gives the library the name and the symbol versions of libibverbs.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={directory}/versions.map");
    use_lld();
    println!("cargo::rerun-if-changed=versions.map");
    println!("cargo::rerun-if-changed=build.rs");
}

/// Asks for LLVM's linker: rustc passes an export list of its own, an anonymous version node, which
/// the linker of the GNU binutils refuses beside named ones. The toolchain comes with a copy.
fn use_lld() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let target = env::var("TARGET").unwrap_or_default();
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output();
    if let Ok(output) = sysroot {
        let wrappers = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
            .join("lib/rustlib")
            .join(target)
            .join("bin/gcc-ld");
        if wrappers.is_dir() {
            println!("cargo::rustc-cdylib-link-arg=-B{}", wrappers.display());
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
}
