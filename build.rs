//! Lets this package's tests and examples find libfabric where the bindings found it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rpath = std::env::var("DEP_FABRIC_RPATH").unwrap_or_default();
    if !rpath.is_empty() {
        // New tags, so that LD_LIBRARY_PATH still wins.
        println!("cargo::rustc-link-arg=-Wl,--enable-new-dtags,-rpath,{rpath}");
    }
}
