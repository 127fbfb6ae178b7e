//! Gives the library the name and the symbol versions of libefa, and makes it need libibverbs.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What libefa calls in our libibverbs; `src/lib.rs` declares the same.
const CALLED: [&str; 10] = [
    "efa_sim_query_device",
    "efa_sim_query_ah",
    "efa_sim_create_qp_ex",
    "efa_sim_create_driver_qp",
    "efa_sim_create_cq",
    "efa_sim_cq_from_ibv_cq_ex",
    "efa_sim_query_mr",
    "efa_sim_max_sq_depth",
    "efa_sim_max_rq_depth",
    "efa_sim_qp_from_ibv_qp_ex",
];

fn main() {
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libefa.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={directory}/versions.map");
    use_lld();
    need_verbs();
    println!("cargo::rerun-if-changed=versions.map");
    println!("cargo::rerun-if-changed=build.rs");
}

/// Links with an empty library that is named and exports as ours does: cargo cannot link one
/// library of a kind that C programs load with another, and only the name ends up in the result.
fn need_verbs() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let source = out.join("verbs.c");
    let library = out.join("libibverbs.so");
    let text: String = CALLED.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
    fs::write(&source, text).expect("cannot write to OUT_DIR");
    let compiler = cc::Build::new().get_compiler();
    let status = Command::new(compiler.path())
        .args(compiler.args())
        .args(["-shared", "-nostdlib", "-Wl,-soname,libibverbs.so.1", "-o"])
        .args([&library, &source])
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{}: {status}", compiler.path().display()),
        Err(error) => panic!("{}: {error}; a C compiler is needed (package gcc)", compiler.path().display()),
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo::rustc-cdylib-link-arg={}", library.display());
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
