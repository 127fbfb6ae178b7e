//! Reads what the test harness prints: counts, and the tests that did not run with their reasons.

use std::collections::BTreeMap;

/// How many tests passed, failed and did not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// `N passed, N failed, N skipped`
impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// What the lines of one `cargo test` add up to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Tests that returned early, by name: the harness counts them as passed.
    skipped: BTreeMap<String, String>,
    ignored_reasons: BTreeMap<String, String>,
}

impl Tally {
    /// Takes one line of either stream into account.
    pub(crate) fn line(&mut self, line: &str) {
        let line = without_colours(line);
        let line = line.trim();
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count(result, "passed");
            self.failed += count(result, "failed");
            self.ignored += count(result, "ignored");
        } else if let Some(skipped) = line.strip_prefix("SKIPPED: ") {
            let (test, reason) = skipped.split_once(": ").unwrap_or((skipped, "no reason given"));
            self.skipped.insert(test.to_owned(), reason.to_owned());
        } else if let Some(test) = line.strip_prefix("test ")
            && let Some((test, reason)) = test.split_once(" ... ignored")
        {
            let reason = reason.trim_start_matches(", ");
            let reason = if reason.is_empty() { "ignored" } else { reason };
            self.ignored_reasons.insert(test.to_owned(), reason.to_owned());
        }
    }

    /// The counts, with a test that printed `SKIPPED:` taken out of those that passed.
    pub(crate) fn counts(&self) -> Counts {
        let early = self.skipped.len() as u64;
        Counts { passed: self.passed.saturating_sub(early), failed: self.failed, skipped: self.ignored + early }
    }

    /// Each test that did not run, with the reason it gave.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (&str, &str)> {
        self.skipped.iter().chain(&self.ignored_reasons).map(|(test, reason)| (test.as_str(), reason.as_str()))
    }
}

/// The number before `word` in `ok. 5 passed; 1 failed; 2 ignored; ...`.
fn count(result: &str, word: &str) -> u64 {
    result
        .split([';', '.'])
        .filter_map(|part| part.trim().split_once(' '))
        .find(|(_, name)| *name == word)
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or(0)
}

/// The text without terminal escapes of the form `ESC [ ... letter`.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &after[end + 1..]);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &str) -> Tally {
        let mut tally = Tally::default();
        lines.lines().for_each(|line| tally.line(line));
        tally
    }

    #[test]
    fn results_of_several_binaries_are_added_up() {
        let tally = tally(
            "test a ... ok\n\
             test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 1 filtered out; finished in 0.00s\n\
             test result: \u{1b}[31mFAILED\u{1b}[0m. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        );
        let counts = Counts { passed: 8, failed: 1, skipped: 2 };
        assert_eq!(tally.counts(), counts);
        assert_eq!(tally.counts().to_string(), "8 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn a_test_that_says_it_was_skipped_is_not_counted_as_passed() {
        let tally = tally(
            "SKIPPED: net::two_namespaces: no permission: unshare failed\n\
             SKIPPED: net::two_namespaces: no permission: unshare failed\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        assert_eq!(tally.counts(), Counts { passed: 1, failed: 0, skipped: 1 });
        let skips: Vec<_> = tally.skips().collect();
        assert_eq!(skips, [("net::two_namespaces", "no permission: unshare failed")]);
    }

    #[test]
    fn ignored_tests_are_repeated_with_their_reason() {
        let tally = tally(
            "test on_efa ... ignored, needs an EFA device\n\
             test other ... ignored\n\
             test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out",
        );
        let skips: Vec<_> = tally.skips().collect();
        assert_eq!(skips, [("on_efa", "needs an EFA device"), ("other", "ignored")]);
        assert_eq!(tally.counts().skipped, 2);
    }
}
