//! `cargo xtask test`: every check and test, against each libfabric, with a summary at the end.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::command::Command;
use crate::headers;
use crate::libfabric;
use crate::lint;
use crate::needs::Purpose;
use crate::paths::{NEW_LIBFABRIC, Workspace};
use crate::setup;
use crate::steps::{Steps, Verdict};

/// The integration tests of efa-core that run under valgrind, over its fake and over every provider.
const MEMORY_TESTS: [&str; 2] = ["lifetimes", "messages"];
/// One that runs there over shm only: over tcp, libfabric 1.17 itself leaks connections that are cut off.
const NEIGHBOURS: [&str; 2] = ["neighbours", "shm::"];
/// The exit status by which valgrind says that it found something.
const FOUND: &str = "99";

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install what is missing without asking (implied where standard input is not a terminal)
    #[arg(long, short)]
    yes: bool,
    /// Leave out cargo-deny, valgrind, the headers of libfabric 2.1 and the oldest toolchain
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> ExitCode {
    let mut steps = Steps::default();
    steps.step("set-up", || setup::ensure(Purpose::Test, args.yes).map(|()| Verdict::Done));
    steps.step("libfabric 2.5.1", || libfabric::fetch(workspace));
    lint::add_steps(workspace, &mut steps);

    // Built once; the second run finds the same programs and gives them another library.
    let all = || tests(workspace).arg("--workspace");
    steps.tests("tests, this system's libfabric", &all().env("EFA_TEST_LIBFABRIC", "system"));
    let new = workspace.new_libfabric();
    let has_new = new.join("libfabric.so.1").is_file();
    let name = "tests, libfabric 2.5.1";
    if has_new {
        // All but this program, which has nothing to do with the library. Selecting fewer members
        // would make cargo build their dependencies again, with fewer features.
        let command = all()
            .args(["--exclude", "xtask", "--tests"])
            .env("EFA_TEST_LIBFABRIC", NEW_LIBFABRIC)
            .libraries(Some(&new));
        steps.tests(name, &command);
    } else {
        steps.left_out(name, "target/libfabric/2.5.1 is not there (see above)");
    }
    if args.quick {
        return steps.finish();
    }

    match headers_of_2_1(workspace, has_new) {
        Ok(Some(command)) => steps.tests("efa-sys, headers of 2.1", &command),
        Ok(None) => steps.left_out("efa-sys, headers of 2.1", "not available here (see above)"),
        Err(error) => steps.step("efa-sys, headers of 2.1", || Err(error)),
    }
    match valgrind(workspace) {
        Ok(valgrind) => {
            let tests = MEMORY_TESTS.iter().flat_map(|name| ["--test", name]);
            // Of the workspace where that can be: a package by itself is built again, with fewer features.
            let tests = std::iter::once("--workspace").chain(tests);
            steps.tests("valgrind, efa-core", &memory_check(&valgrind, tests, ""));
            let [test, filter] = NEIGHBOURS;
            steps.tests("valgrind, neighbours", &memory_check(&valgrind, ["--workspace", "--test", test], filter));
            steps
                .tests("valgrind, units of efa-core", &memory_check(&valgrind, ["--package", "efa-core", "--lib"], ""));
        }
        Err(error) => steps.step("valgrind, efa-core", || Err(error)),
    }
    lint::add_slow_steps(workspace, &mut steps);
    steps.finish()
}

/// `cargo test` that goes on after the first failure.
fn tests(workspace: &Workspace) -> Command {
    Command::cargo(workspace.root()).args(["test", "--no-fail-fast"]).minutes(25)
}

/// The raw bindings built from newer headers, running with the newer library.
fn headers_of_2_1(workspace: &Workspace, has_new: bool) -> Result<Option<Command>> {
    if let Verdict::LeftOut(reason) = headers::fetch(workspace)? {
        eprintln!("headers of libfabric 2.1: {reason}");
        return Ok(None);
    }
    let mut command = tests(workspace)
        .args(["-p", "efa-sys"])
        .env("LIBFABRIC_DIR", workspace.new_headers())
        // Debian 13's library wants a newer C library than Debian 12 has. Linking with it all the
        // same gives the symbol versions that belong to its headers; 2.5.1 then serves them.
        .env("RUSTFLAGS", "-Clink-arg=-Wl,--allow-shlib-undefined")
        .env("RUSTDOCFLAGS", "-Clink-arg=-Wl,--allow-shlib-undefined")
        .env("CARGO_TARGET_DIR", workspace.ours("headers-2.1"));
    if has_new {
        command = command.libraries(Some(&workspace.new_libfabric())).env("EFA_TEST_LIBFABRIC", NEW_LIBFABRIC);
    }
    Ok(Some(command))
}

/// Tests of efa-core under valgrind, as prepared by [`valgrind`]: these programs, and in them what `filter` matches.
fn memory_check<'a>(valgrind: &Command, programs: impl IntoIterator<Item = &'a str>, filter: &str) -> Command {
    let filter = Some(filter).filter(|filter| !filter.is_empty());
    valgrind.clone().args(programs).args(["--", "--test-threads=1"]).args(filter)
}

/// `cargo test` whose every program runs under valgrind.
fn valgrind(workspace: &Workspace) -> Result<Command> {
    let host = Command::new("rustc").arg("-vV").output()?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    let variable = format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_"));
    let suppressions = workspace.root().join("xtask/valgrind.supp");
    let runner = format!(
        "valgrind --quiet --error-exitcode={FOUND} --leak-check=full --errors-for-leak-kinds=definite \
         --show-leak-kinds=definite --num-callers=30 --suppressions={}",
        suppressions.display()
    );
    Ok(tests(workspace).env(variable, runner).env("EFA_TEST_VALGRIND", "1"))
}
