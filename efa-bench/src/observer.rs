//! What a user sees while a run is under way: on standard error, and never inside a timed region.
//!
//! Calls go between batches, where a terminal that is slow to draw delays the run and not a sample. What cannot be
//! shown is not shown: an observer never makes a run fail.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::stats::{self, PointResult};
use crate::units::{format_ns, format_size};

/// The phases of a run, in their order. An error that ends a run names the one it happened in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Names are looked up and a provider is chosen.
    Resolve,
    /// The control connection is made.
    Control,
    /// The sides say what they are and agree on the plan.
    Handshake,
    /// Fabric, domain and endpoint are opened, memory is registered.
    FabricOpen,
    /// The sides exchange the addresses of their endpoints.
    Addresses,
    /// The first message goes there and back, and sets up what the provider needs.
    FirstMessage,
    /// Untimed round trips.
    WarmUp,
    /// Timed round trips.
    Measure,
    /// The sides agree that all is done, and close.
    Finish,
}

impl Phase {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Control => "control",
            Self::Handshake => "handshake",
            Self::FabricOpen => "fabric open",
            Self::Addresses => "addresses",
            Self::FirstMessage => "first message",
            Self::WarmUp => "warm-up",
            Self::Measure => "measure",
            Self::Finish => "finish",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Somebody who watches a run. Every method may do nothing.
pub trait Observer {
    /// The run enters a phase.
    fn phase(&mut self, _phase: Phase) {}

    /// A size begins.
    fn point_started(&mut self, _size_bytes: u64) {}

    /// `done` of at most `total` steps (iterations, or milliseconds where time is the limit) of the size are over.
    fn progress(&mut self, _done: u64, _total: u64) {}

    /// A size ended. To be called before its row is written, so that the bar is out of the way.
    fn point_finished(&mut self, _result: &PointResult) {}

    /// Something to know now: the address that a server listens on, a stranger that was dropped.
    fn note(&mut self, _text: &str) {}

    /// Nothing more will come.
    fn finished(&mut self) {}
}

/// An observer for this process: a bar where standard error is a terminal, lines where it is not.
///
/// `verbose` (as `-v`) names each phase in a line of its own and draws no bar.
pub fn on_stderr(verbose: bool) -> Box<dyn Observer> {
    if !verbose && io::stderr().is_terminal() {
        Box::new(Terminal::new(ProgressDrawTarget::stderr()))
    } else {
        Box::new(Plain::new(io::stderr(), verbose))
    }
}

/// Writes lines: notes always, phases and sizes when verbose.
#[derive(Debug)]
pub struct Plain<W> {
    out: W,
    verbose: bool,
}

impl<W: Write> Plain<W> {
    /// An observer that writes to `out`.
    pub fn new(out: W, verbose: bool) -> Self {
        Self { out, verbose }
    }

    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Standard error may be closed, and there is nowhere left to say so.
        let _ = writeln!(self.out, "{text}");
    }
}

impl<W: Write> Observer for Plain<W> {
    fn phase(&mut self, phase: Phase) {
        if self.verbose {
            self.line(format_args!("phase: {phase}"));
        }
    }

    fn point_started(&mut self, size_bytes: u64) {
        if self.verbose {
            self.line(format_args!("size: {}", format_size(size_bytes)));
        }
    }

    fn point_finished(&mut self, result: &PointResult) {
        if self.verbose {
            self.line(format_args!("{}", described(result)));
        }
    }

    fn note(&mut self, text: &str) {
        self.line(format_args!("{text}"));
    }
}

/// Draws a bar that is gone when the size ends; notes are lines above it.
#[derive(Debug)]
pub struct Terminal {
    bar: ProgressBar,
}

impl Terminal {
    /// An observer that draws on this target.
    pub fn new(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), target);
        // Without colour, and without a spinner: nothing would turn it while the run keeps the thread.
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {percent:>3} %");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Self { bar }
    }

    fn line(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(io::stderr(), "{text}");
        });
    }
}

impl Observer for Terminal {
    fn phase(&mut self, phase: Phase) {
        self.bar.set_message(phase.name());
    }

    fn point_started(&mut self, size_bytes: u64) {
        self.bar.reset();
        self.bar.set_message(format!("size {}", format_size(size_bytes)));
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done.min(total));
    }

    fn point_finished(&mut self, _result: &PointResult) {
        self.bar.finish_and_clear();
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }

    fn finished(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn described(result: &PointResult) -> String {
    let median = stats::half_rtt_percentile(&result.samples, 50.0);
    format!(
        "size: {} done: {} round trips, median half round trip {}, ended by {}",
        format_size(result.size_bytes),
        result.samples.count,
        median.map_or_else(|| "-".to_owned(), format_ns),
        result.ended_by.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunSamples;
    use std::time::Duration;

    use crate::stats::EndedBy;

    fn run(observer: &mut dyn Observer) {
        let result = PointResult {
            op: "msg".to_owned(),
            size_bytes: 65_536,
            samples: RunSamples::from_nanos([10_000; 100]),
            elapsed: Duration::from_millis(1),
            verified: None,
            ended_by: EndedBy::Confidence,
        };
        observer.phase(Phase::Control);
        observer.note("listening on [::]:47592");
        observer.phase(Phase::Measure);
        observer.point_started(65_536);
        observer.progress(50, 100);
        observer.progress(200, 100);
        observer.point_finished(&result);
        observer.finished();
    }

    #[test]
    fn notes_are_always_written() {
        let mut out = Vec::new();
        run(&mut Plain::new(&mut out, false));
        expect_test::expect![[r#"
            listening on [::]:47592
        "#]]
        .assert_eq(&String::from_utf8(out).unwrap());
    }

    #[test]
    fn phases_and_sizes_are_written_when_verbose() {
        let mut out = Vec::new();
        run(&mut Plain::new(&mut out, true));
        expect_test::expect![[r#"
            phase: control
            listening on [::]:47592
            phase: measure
            size: 64 KiB
            size: 64 KiB done: 100 round trips, median half round trip 5.00 us, ended by confidence
        "#]]
        .assert_eq(&String::from_utf8(out).unwrap());
    }

    #[test]
    fn the_bar_takes_every_call() {
        let mut terminal = Terminal::new(ProgressDrawTarget::hidden());
        run(&mut terminal);
        assert!(terminal.bar.is_finished());
    }

    #[test]
    fn a_closed_standard_error_is_no_failure() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        run(&mut Plain::new(Closed, true));
    }
}
