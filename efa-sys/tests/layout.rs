//! Sizes, alignments, offsets and constants are those of C.
//!
//! The build writes every one that Rust has next to the C expression for it. A C program made from
//! these expressions prints what the compiler thinks of them, with the headers the bindings are of.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

mod inventory {
    #![allow(dead_code, reason = "each test file uses its own part of the tables")]
    include!(concat!(env!("OUT_DIR"), "/inventory.rs"));
}

/// Constants that are written by hand for every version of the headers.
const BY_HAND: &[(&str, i64)] = &[
    ("FI_ADDR_UNSPEC", efa_sys::FI_ADDR_UNSPEC as i64),
    ("FI_ADDR_NOTAVAIL", efa_sys::FI_ADDR_NOTAVAIL as i64),
    ("FI_KEY_NOTAVAIL", efa_sys::FI_KEY_NOTAVAIL as i64),
    ("FI_MR_UNSPEC", efa_sys::FI_MR_UNSPEC as i64),
    ("FI_MR_BASIC", efa_sys::FI_MR_BASIC as i64),
    ("FI_MR_SCALABLE", efa_sys::FI_MR_SCALABLE as i64),
    ("FI_ORDER_NONE", efa_sys::FI_ORDER_NONE as i64),
    ("FI_ORDER_STRICT", efa_sys::FI_ORDER_STRICT as i64),
    ("FI_ORDER_DATA", efa_sys::FI_ORDER_DATA as i64),
    ("FI_LOCAL_MR", efa_sys::FI_LOCAL_MR as i64),
    ("FI_REG_MR", efa_sys::FI_REG_MR as i64),
    ("FI_VERSION(1, 17)", efa_sys::fi_version_code(1, 17) as i64),
    ("FI_VERSION(2, 65535)", efa_sys::fi_version_code(2, 65535) as i64),
];

#[test]
fn layouts_are_those_of_c() {
    assert!(inventory::LAYOUTS.len() > 500, "the build listed too few");
    for name in ["fi_info", "fi_cq_err_entry", "fid_ep", "fi_context2"] {
        let size = format!("sizeof(struct {name})");
        let listed = inventory::LAYOUTS.iter().any(|(c, _)| *c == size);
        assert!(listed, "the build listed no {size}");
    }
    assert_eq!(differences(inventory::LAYOUTS), Vec::<String>::new());
}

#[test]
fn constants_are_those_of_c() {
    assert!(inventory::CONSTANTS.len() > 300, "the build listed too few");
    assert_eq!(differences(inventory::CONSTANTS), Vec::<String>::new());
}

#[test]
fn constants_written_by_hand_are_those_of_c() {
    assert_eq!(differences(BY_HAND), Vec::<String>::new());
}

#[test]
fn fallbacks_have_the_value_and_age_that_the_headers_give() {
    let source = include_str!("../src/fallback.rs");
    let bound: BTreeMap<&str, i64> = inventory::CONSTANTS.iter().copied().collect();
    let fallbacks = fallbacks(source);
    assert!(fallbacks.len() > 25, "only {} were read", fallbacks.len());
    for (since, name, value) in fallbacks {
        match bound.get(name.as_str()) {
            Some(real) => assert_eq!(*real, value, "{name}"),
            None => assert!(version() < since, "{name} is not in the headers of {since:?}"),
        }
    }
}

#[test]
fn flags_are_u64_and_errors_are_int() {
    let _: [u64; 5] = [
        efa_sys::FI_MSG,
        efa_sys::FI_HMEM,
        efa_sys::FI_CONTEXT2,
        efa_sys::FI_MR_LOCAL,
        efa_sys::FI_SELECTIVE_COMPLETION,
    ];
    let _: [core::ffi::c_int; 4] =
        [efa_sys::FI_EAGAIN, efa_sys::FI_EAVAIL, efa_sys::FI_OPT_MAX_MSG_SIZE, efa_sys::FI_OPT_EFA_RNR_RETRY];
}

/// The expressions of which C and Rust think differently.
fn differences(pairs: &[(&str, i64)]) -> Vec<String> {
    let expressions: Vec<&str> = pairs.iter().map(|(c, _)| *c).collect();
    let values = ask_c(&expressions);
    assert_eq!(values.len(), pairs.len());
    let both = pairs.iter().zip(values);
    both.filter(|((_, rust), c)| rust != c)
        .map(|((expression, rust), c)| format!("{expression} is {c} in C and {rust} in Rust"))
        .collect()
}

/// Compiles and runs a program that prints the expressions.
fn ask_c(expressions: &[&str]) -> Vec<i64> {
    let dir = tempfile::tempdir().expect("a directory for the C program");
    let source = dir.path().join("layout.c");
    fs::write(&source, program(expressions)).expect("the C program can be written");
    let binary = dir.path().join("layout");
    let compiler = cc::Build::new()
        .target(TARGET)
        .host(TARGET)
        .opt_level(0)
        .out_dir(dir.path())
        .cargo_metadata(false)
        .try_get_compiler()
        .expect("the C compiler that built the shims");
    let compiled = compiler
        .to_command()
        .arg("-w")
        .arg(format!("-I{}", env!("EFA_SYS_INCLUDE")))
        .arg(format!("-I{}", env!("OUT_DIR")))
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .output()
        .expect("the C compiler runs");
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "the C compiler says:\n{complaints}");
    run(&binary)
}

/// The platform that these tests run on, in the words of rustc.
const TARGET: &str = env!("EFA_SYS_TARGET");

fn program(expressions: &[&str]) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stddef.h>\n#include \"umbrella.h\"\nint main(void) {\n");
    for expression in expressions {
        let _ = writeln!(text, "  printf(\"%lld\\n\", (long long)({expression}));");
    }
    text.push_str("  return 0;\n}\n");
    text
}

fn run(binary: &Path) -> Vec<i64> {
    let ran = Command::new(binary).output().expect("the C program runs");
    assert!(ran.status.success());
    let printed = String::from_utf8(ran.stdout).expect("numbers");
    let numbers = printed.lines().map(str::parse);
    numbers.collect::<Result<_, _>>().expect("numbers")
}

fn version() -> (u32, u32) {
    let mut parts = efa_sys::BUILD_VERSION.split('.').map(|part| part.parse().expect("a number"));
    (parts.next().expect("major"), parts.next().expect("minor"))
}

/// Release, name and value of each constant under `since!` in the source.
fn fallbacks(source: &str) -> Vec<((u32, u32), String, i64)> {
    let mut found = Vec::new();
    let mut release = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("since! { fabric_") {
            let (major, minor) = rest.trim_end_matches(':').split_once('_').expect("a release");
            release = Some((major.parse().expect("major"), minor.parse().expect("minor")));
        } else if line == "}" {
            release = None;
        } else if let (Some(release), Some((name, value))) = (release, line.split_once(" = ")) {
            let name = name.trim().split(':').next().expect("a name");
            found.push((release, name.to_owned(), evaluate(value.trim_end_matches(';'))));
        }
    }
    found
}

/// The value of `N`, `1 << N` or `EFA_OPTION + N`.
fn evaluate(expression: &str) -> i64 {
    let number = |text: &str| text.parse::<i64>().expect("a number");
    if let Some(shift) = expression.strip_prefix("1 << ") {
        1 << number(shift)
    } else if let Some(step) = expression.strip_prefix("EFA_OPTION + ") {
        i64::from(efa_sys::FI_OPT_EFA_RNR_RETRY) + number(step)
    } else {
        number(expression)
    }
}
