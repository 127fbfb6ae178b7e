//! Steps that run one after the other, each whatever became of the one before, and a summary.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::Command;
use crate::libtest::{Counts, Tally};

/// How a step that was no failure ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    Done,
    /// Left out, with the reason.
    LeftOut(String),
}

/// What is known of the steps so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
    counts: Counts,
    skips: Vec<(String, String)>,
}

#[derive(Debug)]
enum Outcome {
    Ok,
    LeftOut(String),
    Failed(String),
}

impl Steps {
    /// Runs one step of this program itself.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Verdict>) {
        heading(name);
        let start = Instant::now();
        let outcome = match work() {
            Ok(Verdict::Done) => Outcome::Ok,
            Ok(Verdict::LeftOut(reason)) => {
                eprintln!("left out: {reason}");
                Outcome::LeftOut(reason)
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                Outcome::Failed(format!("{error:#}"))
            }
        };
        self.done.push(Step {
            name: name.to_owned(),
            outcome,
            took: start.elapsed(),
            counts: Counts::default(),
            skips: Vec::new(),
        });
    }

    /// Runs a command as one step.
    pub(crate) fn command(&mut self, name: &str, command: &Command) {
        self.step(name, || command.run().and_then(|ending| ending.ok()).map(|()| Verdict::Done));
    }

    /// Runs a command that prints what libtest prints, and counts its tests.
    pub(crate) fn tests(&mut self, name: &str, command: &Command) {
        let mut tally = Tally::default();
        self.step(name, || {
            let ending = command.stream(&mut |_, line| tally.line(line))?;
            ending.ok().map(|()| Verdict::Done)
        });
        if let Some(step) = self.done.last_mut() {
            step.counts = tally.counts();
            step.skips = tally.skips().map(|(test, reason)| (test.to_owned(), reason.to_owned())).collect();
        }
    }

    /// Notes a step that does not run.
    pub(crate) fn left_out(&mut self, name: &str, reason: &str) {
        self.step(name, || Ok(Verdict::LeftOut(reason.to_owned())));
    }

    /// Prints the summary; its last line has the counts of all steps.
    pub(crate) fn finish(self) -> ExitCode {
        let text = self.summary();
        // A reader that has gone away does not change the result.
        let _ = std::io::stderr().flush();
        let _ = write!(std::io::stdout(), "{text}");
        let _ = std::io::stdout().flush();
        if self.done.iter().any(|step| matches!(step.outcome, Outcome::Failed(_))) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    fn summary(&self) -> String {
        let width = self.done.iter().map(|step| step.name.len()).max().unwrap_or(0);
        let mut lines = vec![String::new(), "Summary".to_owned()];
        for step in &self.done {
            let mut line = format!("  {:width$}  {:>7.1} s  ", step.name, step.took.as_secs_f64());
            line += match &step.outcome {
                Outcome::Ok => "ok",
                Outcome::LeftOut(_) => "left out",
                Outcome::Failed(_) => "FAILED",
            };
            if step.counts != Counts::default() {
                line += &format!(" ({})", step.counts);
            }
            if let Outcome::LeftOut(why) | Outcome::Failed(why) = &step.outcome {
                line += &format!(": {}", why.lines().next().unwrap_or_default());
            }
            lines.push(line);
        }
        let total: Duration = self.done.iter().map(|step| step.took).sum();
        lines.push(format!("  {:width$}  {:>7.1} s", "together", total.as_secs_f64()));
        let skips: Vec<String> = self
            .done
            .iter()
            .flat_map(|step| step.skips.iter().map(|(test, reason)| format!("  {test} [{}]: {reason}", step.name)))
            .collect();
        if !skips.is_empty() {
            lines.push("Tests that did not run".to_owned());
            lines.extend(skips);
        }
        lines.push(self.counts().to_string());
        lines.join("\n") + "\n"
    }

    /// The tests of all steps; a step that failed without a failed test counts as one.
    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for step in &self.done {
            sum += step.counts;
            if matches!(step.outcome, Outcome::Failed(_)) && step.counts.failed == 0 {
                sum.failed += 1;
            }
        }
        sum
    }
}

pub(crate) fn heading(name: &str) {
    eprintln!("\n==> {name}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_and_the_last_line_has_the_counts() {
        let mut steps = Steps::default();
        steps.step("one", || anyhow::bail!("it broke\nin two lines"));
        let script = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'; \
                      echo 'SKIPPED: t: no such device' >&2";
        steps.tests("two", &Command::new("sh").args(["-c", script]));
        steps.left_out("three", "not here");
        let summary = steps.summary();
        assert!(summary.contains("FAILED: it broke\n"), "{summary}");
        assert!(summary.contains("ok (2 passed, 0 failed, 1 skipped)"), "{summary}");
        assert!(summary.contains("left out: not here"), "{summary}");
        assert!(summary.contains("  t [two]: no such device\n"), "{summary}");
        assert_eq!(summary.lines().last(), Some("2 passed, 1 failed, 1 skipped"));
    }
}
