//! What every file of the repository is held to: its length, and words that tell of one machine.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::command::Command;
use crate::paths::Workspace;
use crate::steps::Verdict;

/// Where a source file is to be split.
const MOST_LINES: usize = 800;
/// Written in two parts, so that this file does not find itself.
const MACHINE_PATHS: [(&str, &str); 4] = [("/ho", "me/"), ("/ro", "ot/"), ("/Us", "ers/"), ("/wo", "rk/")];
const UNFINISHED: [(&str, &str); 2] = [("TO", "DO"), ("FIX", "ME")];

pub(crate) fn check(workspace: &Workspace) -> Result<Verdict> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .dir(workspace.root())
        .output();
    let listed = match listed {
        Ok(listed) => listed,
        // An unpacked archive is no place where somebody is about to commit.
        Err(error) => return Ok(Verdict::LeftOut(format!("git cannot list the files: {error:#}"))),
    };
    let mut findings = Vec::new();
    for name in listed.lines() {
        // A file may be listed and deleted, or hold something else than text.
        if let Ok(text) = fs::read_to_string(workspace.root().join(name)) {
            findings.extend(findings_in(name, &text));
        }
    }
    if findings.is_empty() {
        return Ok(Verdict::Done);
    }
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    bail!("{} findings in files, listed above", findings.len())
}

fn findings_in(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let source = Path::new(name).extension().is_some_and(|extension| extension == "rs");
    let lines = text.lines().count();
    if source && lines > MOST_LINES {
        findings.push(format!("{name}: {lines} lines; split it below {MOST_LINES}"));
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        for word in MACHINE_PATHS.map(|(one, two)| format!("{one}{two}")) {
            if names_path(line, &word) {
                findings.push(format!("{name}:{number}: a path of one machine ({word})"));
            }
        }
        for word in UNFINISHED.map(|(one, two)| format!("{one}{two}")) {
            if source && line.contains(&word) {
                findings.push(format!("{name}:{number}: unfinished work ({word})"));
            }
        }
    }
    findings
}

/// Whether an absolute path that begins so is in the line; `a/home/` is another path.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "._-*}/".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_source_file_is_found_and_a_long_table_is_not() {
        let text = "x\n".repeat(MOST_LINES + 1);
        assert_eq!(findings_in("src/a.rs", &text).len(), 1);
        assert!(findings_in("tests/golden.txt", &text).is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let line = format!("see {}{}me/x", "/ho", "me/");
        let findings = findings_in("README.md", &line);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings_in("README.md", &format!("src{}{}", "/ho", "me/")).is_empty());
    }
}
