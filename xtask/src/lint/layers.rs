//! The layers of efa-bench: data flows left to right, so a module imports none to its right.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::paths::Workspace;
use crate::steps::Verdict;

/// The modules from left to right. Those of one group may use each other.
const LAYERS: &[&[&str]] = &[
    &["units"],
    &["args"],
    &["plan"],
    &["clock", "record", "stats", "observer"],
    &["control", "environment"],
    &["select", "rig"],
    &["benchmark", "benchmarks"],
    &["runner"],
    &["report"],
    &["writers"],
    &["app"],
];

pub(crate) fn check(workspace: &Workspace) -> Result<Verdict> {
    let source = workspace.root().join("efa-bench/src");
    let mut files = Vec::new();
    collect(&source, &mut files)?;
    files.sort();
    let mut findings = Vec::new();
    for file in &files {
        let name = file.strip_prefix(&source)?;
        let text = fs::read_to_string(file)?;
        findings.extend(findings_in(name, &text));
    }
    if findings.is_empty() {
        return Ok(Verdict::Done);
    }
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    bail!("{} imports against the layers, listed above", findings.len())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// What is wrong in one file, given by its path below `src`.
fn findings_in(file: &Path, text: &str) -> Vec<String> {
    let modules = module_path(file);
    // The crate's root documents and re-exports; it is above all layers.
    let Some(own) = modules.first() else {
        return Vec::new();
    };
    let shown = Path::new("efa-bench/src").join(file);
    let Some(rank) = rank(own) else {
        return vec![format!(
            "{}: module `{own}` has no place among the layers; give it one in xtask/src/lint/layers.rs",
            shown.display()
        )];
    };
    imports(&modules, text)
        .into_iter()
        .filter(|(_, module)| rank_of_known(module).is_some_and(|other| other > rank))
        .map(|(line, module)| format!("{}:{line}: `{own}` uses `{module}`, which is to its right", shown.display()))
        .collect()
}

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|group| group.contains(&module))
}

/// Names that are no module are macros, functions or types of the crate's root.
fn rank_of_known(module: &str) -> Option<usize> {
    rank(module)
}

/// `control/message.rs` is `[control, message]`, `control/mod.rs` is `[control]`, `lib.rs` is `[]`.
fn module_path(file: &Path) -> Vec<String> {
    let without = file.with_extension("");
    let mut modules: Vec<String> =
        without.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if modules.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        modules.pop();
    }
    modules
}

/// The top-level modules that a file names, by `crate::x` or by enough `super::`, with the lines.
fn imports(modules: &[String], text: &str) -> BTreeSet<(usize, String)> {
    let tokens = tokens(text);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut found = BTreeSet::new();
    // Inline modules: each raises the number of `super::` that reach the root.
    let mut inline: Vec<usize> = Vec::new();
    let mut braces = 0;
    let mut at = 0;
    while at < tokens.len() {
        match word(at) {
            "{" => braces += 1,
            "}" => {
                inline.retain(|&opened| opened < braces);
                braces -= 1;
            }
            "mod" if word(at + 2) == "{" => inline.push(braces + 1),
            "crate" if word(at + 1) == "::" && word(at.wrapping_sub(1)) != "$" => {
                names_after(&tokens, at + 2, &mut found);
            }
            "super" if word(at.wrapping_sub(1)) != "::" => {
                let mut levels = 1;
                while word(at + 1) == "::" && word(at + 2) == "super" {
                    levels += 1;
                    at += 2;
                }
                if levels == modules.len() + inline.len() && word(at + 1) == "::" {
                    names_after(&tokens, at + 2, &mut found);
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The first name of a path, or of each path in braces: `{a::{b, c}, d}` has `a` and `d`.
fn names_after(tokens: &[Token<'_>], start: usize, found: &mut BTreeSet<(usize, String)>) {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        let first = at == start || matches!(tokens[at - 1].text, "{" | ",");
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            name if first && depth <= 1 => {
                found.insert((token.line, name.to_owned()));
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
}

#[derive(Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// Words, `::` and single signs, without comments, strings and characters.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (length, kept) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if let Some(length) = raw_string(rest) {
            (length, false)
        } else if first == '"' {
            (quoted(rest), false)
        } else if first == '\'' {
            (character(rest), false)
        } else if word > 0 {
            (word, true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (taken, left) = rest.split_at(length);
        if kept {
            tokens.push(Token { text: taken, line });
        }
        line += taken.matches('\n').count();
        rest = left;
    }
    tokens
}

/// The length of a raw string that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r').or_else(|| text.strip_prefix("br"))?;
    let start = text.len() - after.len();
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let body = start + hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; a lifetime's quote is a sign of its own.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => {
            let end = chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
            end.unwrap_or(text.len())
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<String> {
        findings_in(Path::new(file), text)
    }

    #[test]
    fn an_import_to_the_left_is_fine_and_one_to_the_right_is_not() {
        assert!(found("report/mod.rs", "use crate::stats::Summary;").is_empty());
        let findings = found("stats.rs", "//! x\n\nuse crate::report::Report;\n");
        assert_eq!(findings, ["efa-bench/src/stats.rs:3: `stats` uses `report`, which is to its right"]);
    }

    #[test]
    fn nested_groups_and_paths_in_the_code_are_seen() {
        let text = "use crate::{units::{self, parse}, app::{run, writers}, plan};\n";
        let findings = found("units.rs", text);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(found("plan.rs", "fn f() { crate::runner::go() }").len(), 1);
        // `writers` inside `app` is another module.
        assert!(!findings.iter().any(|finding| finding.contains("writers")));
    }

    #[test]
    fn super_counts_where_it_reaches_the_root() {
        assert_eq!(found("control/message.rs", "use super::super::report::X;").len(), 1);
        assert!(found("control/message.rs", "use super::report::X;").is_empty());
        assert_eq!(found("units.rs", "use super::plan::Plan;").len(), 1);
        let inline = "mod tests { use super::plan; mod deep { use super::super::super::app; } }";
        let findings = found("units.rs", inline);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("`app`"));
        assert_eq!(found("units.rs", "mod a { } use super::app;").len(), 1);
    }

    #[test]
    fn comments_and_strings_are_no_imports() {
        let text = "// crate::app\n/* crate::app */ const A: &str = \"crate::app\";\n\
                    const B: &str = r#\"crate::app \" \"#; const C: char = '\"'; fn f<'a>(_: &'a u8) {}\n\
                    const D: char = '\\''; const E: &str = \"\\\"crate::app\";";
        assert!(found("units.rs", text).is_empty());
    }

    #[test]
    fn modules_of_one_group_may_use_each_other() {
        assert!(found("clock.rs", "use crate::record::Recorder;").is_empty());
        assert!(found("control/mod.rs", "use crate::environment::Environment;").is_empty());
    }

    #[test]
    fn a_module_without_a_place_is_named() {
        let findings = found("helpers.rs", "");
        assert!(findings[0].contains("`helpers` has no place"), "{findings:?}");
        assert!(found("lib.rs", "pub use crate::app::run;").is_empty());
    }
}
