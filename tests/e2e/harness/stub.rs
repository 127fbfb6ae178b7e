//! Small shared libraries, compiled by the tests that put them in front of real ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::tool;

/// Compiles C into a shared library; `None` where there is no compiler.
#[track_caller]
pub(crate) fn shared_library(folder: &Path, name: &str, code: &str, more: &[&str]) -> Option<PathBuf> {
    let compiler = tool("cc")?;
    let source = folder.join(format!("{name}.c"));
    let library = folder.join(name);
    std::fs::write(&source, code).expect("a temporary folder can be written");
    let made = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .expect("the compiler runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(library)
}
