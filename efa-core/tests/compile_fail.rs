//! What the compiler must refuse: programs in `tests/ui` that would be unsound if they compiled.
//!
//! Each file begins with `//# E....`, the error that the compiler must give. The offending lines are under
//! `#[cfg(offence)]`: without that flag the file has to compile, which proves that it is those lines alone that
//! are refused. Codes are compared, not texts, which change from one compiler to the next; and the compiler is
//! run on the library as Cargo has just built it, so that nothing is built again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

#[test]
fn unsound_programs_do_not_compile() {
    let library = Library::find();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).expect("tests/ui").map(|e| e.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let expected = text.lines().next().and_then(|line| line.strip_prefix("//# ")).expect("//# CODE comes first");
        let (compiles, errors) = library.compile(&file, false);
        assert!(compiles, "{} must compile without its offence:\n{errors}", file.display());
        let (compiles, errors) = library.compile(&file, true);
        assert!(!compiles, "{} compiles", file.display());
        let codes: Vec<&str> = errors.lines().filter_map(error_code).collect();
        assert!(!codes.is_empty() && codes.iter().all(|code| *code == expected), "{}:\n{errors}", file.display());
    }
}

/// The code in a line such as `error[E0382]: borrow of moved value`.
fn error_code(line: &str) -> Option<&str> {
    line.strip_prefix("error[")?.split(']').next()
}

/// efa_core as Cargo built it for this test.
struct Library {
    rlib: PathBuf,
    dependencies: PathBuf,
    out: PathBuf,
}

impl Library {
    /// The newest build beside this test that the compiler at hand accepts.
    fn find() -> Library {
        let test = std::env::current_exe().expect("this test's own path");
        let dependencies = test.parent().expect("a folder").to_owned();
        let mut candidates: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(&dependencies)
            .expect("readable")
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_name()?.to_str()?;
                let matches = name.starts_with("libefa_core-") && name.ends_with(".rlib");
                let built = path.metadata().ok()?.modified().ok()?;
                matches.then_some((built, path))
            })
            .collect();
        candidates.sort();
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let control = out.join("control.rs");
        std::fs::write(&control, "fn main() { let _ = efa_core::Batch::new(); }").expect("writable");
        let mut errors = String::new();
        for (_, rlib) in candidates.into_iter().rev() {
            let library = Library { rlib, dependencies: dependencies.clone(), out: out.clone() };
            let (compiles, text) = library.compile(&control, false);
            if compiles {
                return library;
            }
            errors.push_str(&text);
        }
        panic!("no libefa_core in {} that the compiler accepts:\n{errors}", dependencies.display());
    }

    /// Type-checks a program; whether that succeeded, and what the compiler said.
    fn compile(&self, file: &Path, offence: bool) -> (bool, String) {
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(compiler);
        command.args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--cap-lints=allow"]);
        command.arg("--extern").arg(format!("efa_core={}", self.rlib.display()));
        command.arg("-L").arg(format!("dependency={}", self.dependencies.display()));
        command.arg("--out-dir").arg(&self.out).arg("--check-cfg=cfg(offence)");
        if offence {
            command.args(["--cfg", "offence"]);
        }
        let output = command.arg(file).output().expect("rustc runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
