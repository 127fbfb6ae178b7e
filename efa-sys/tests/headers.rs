//! Every function that libfabric's headers declare or define is reachable under its own name.
//!
//! The left side is read from the headers here; the right side is the table that the build wrote
//! from the bindings. Compiling that table proves each name, linking it proves each symbol.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod inventory {
    #![allow(dead_code, reason = "each test file uses its own part of the tables")]
    include!(concat!(env!("OUT_DIR"), "/inventory.rs"));
}

#[test]
fn every_static_inline_function_is_reachable() {
    let defined = functions(|kind| kind == Kind::Inline);
    assert!(defined.len() > 100, "only {} were read", defined.len());
    assert_eq!(missing(&defined), Vec::<String>::new());
}

#[test]
fn every_exported_function_is_reachable() {
    let declared = functions(|kind| kind == Kind::Exported);
    for name in ["fi_getinfo", "fi_fabric", "fi_strerror", "fi_tostr", "fi_getparams"] {
        assert!(declared.contains(name), "{name} was not read from the headers");
    }
    assert_eq!(missing(&declared), Vec::<String>::new());
}

#[test]
fn the_module_names_no_function_that_the_headers_lack() {
    let known = functions(|_| true);
    let invented: Vec<_> =
        inventory::FUNCTIONS.iter().map(|(name, _)| *name).filter(|name| !known.contains(*name)).collect();
    assert_eq!(invented, Vec::<&str>::new());
}

#[test]
fn every_function_has_an_address() {
    for (name, address) in inventory::FUNCTIONS {
        assert!(!address.is_null(), "{name}");
    }
}

/// What a function is in a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `static inline`, with a body.
    Inline,
    /// A declaration: the library has it.
    Exported,
}

fn missing(names: &BTreeSet<String>) -> Vec<String> {
    let bound: BTreeSet<&str> = inventory::FUNCTIONS.iter().map(|(name, _)| *name).collect();
    names.iter().filter(|name| !bound.contains(name.as_str())).cloned().collect()
}

/// The functions of all public headers that are of a wanted kind.
fn functions(wanted: impl Fn(Kind) -> bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in headers() {
        let text = fs::read_to_string(&path).expect("a header that was listed can be read");
        let found = statements(&plain(&text));
        let kinds = found.iter().filter_map(|statement| function(statement));
        names.extend(kinds.filter(|(_, kind)| wanted(*kind)).map(|(name, _)| name));
    }
    names
}

/// `rdma/fabric.h`, `rdma/fi_*.h` and `rdma/providers/fi_*.h`; the directory has other packages' too.
fn headers() -> Vec<PathBuf> {
    let rdma = Path::new(env!("EFA_SYS_INCLUDE")).join("rdma");
    let mut found = vec![rdma.join("fabric.h")];
    for dir in [rdma.clone(), rdma.join("providers")] {
        for entry in fs::read_dir(&dir).expect("the header directory can be listed") {
            let path = entry.expect("the header directory can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("fi_") && name.ends_with(".h") {
                found.push(path);
            }
        }
    }
    found
}

/// The text without comments, preprocessor lines and what only C++ sees.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("/*") {
        let end = text[start..].find("*/").map_or(text.len(), |end| start + end + 2);
        text.replace_range(start..end, " ");
    }
    let mut kept = String::new();
    let (mut continued, mut cplusplus) = (false, false);
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let directive = line.trim_start().starts_with('#');
        if directive {
            cplusplus = line.contains("ifdef __cplusplus");
        }
        if !directive && !continued && !cplusplus {
            kept.push_str(line);
            kept.push('\n');
        }
        continued = (directive || continued) && line.trim_end().ends_with('\\');
    }
    kept
}

/// What stands at the outer level, each with its body if it has one.
fn statements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut current = String::new();
    for c in text.chars() {
        current.push(c);
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = depth == 0 && (c == ';' || c == '}');
        if ends {
            found.push(std::mem::take(&mut current).trim().to_owned());
        }
    }
    found
}

/// The name before the parameter list, if the statement is a function.
fn function(statement: &str) -> Option<(String, Kind)> {
    let head = statement.split('(').next()?;
    if head.len() == statement.len() || head.contains(['{', '=']) || head.contains("typedef") {
        return None;
    }
    let name = head.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
    let kind = if statement.starts_with("static inline") { Kind::Inline } else { Kind::Exported };
    name.starts_with("fi_").then(|| (name.to_owned(), kind))
}
