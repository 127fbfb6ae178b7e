//! Where the libraries' log goes: standard error, as much of it as was asked for.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // Standard error may be closed, and there is nowhere left to say so.
            let _ = writeln!(std::io::stderr(), "{}: {}", record.level().as_str().to_lowercase(), record.args());
        }
    }

    fn flush(&self) {}
}

/// Shows warnings, and with `-vv` all that libraries say; a program that has a logger of its own keeps it.
pub(super) fn install(verbose: u8) {
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(if verbose > 1 { LevelFilter::Debug } else { LevelFilter::Warn });
    }
}
