//! Where the bytes of a run go, from before it begins until after it ended.

use std::io::{self, Write};
use std::path::Path;

use crate::args::Output;
use crate::report::Report;

use super::sink::FileSink;
use super::{Format, OutputError, table};

/// Whether anybody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Go on.
    Continue,
    /// The reader of standard output is gone and no file was asked for: end quietly, with success.
    Closed,
}

/// All outputs of one run.
///
/// Call [`Outputs::open`] before the run, [`begin`](Outputs::begin) once the link is known,
/// [`point`](Outputs::point) after each point and [`finish`](Outputs::finish) in every case, also after a failure: a document
/// that was asked for is written whatever happens.
#[derive(Debug)]
pub struct Outputs<W> {
    stdout: W,
    stdout_closed: bool,
    /// The document that standard output gets instead of the table.
    document: Option<Format>,
    files: Vec<(Format, FileSink)>,
    /// Rows of the table that are out, once its heading is.
    rows: Option<usize>,
}

impl<W: Write> Outputs<W> {
    /// Opens everything that was asked for; creates files that do not exist, and leaves others as they are.
    ///
    /// Standard output gets the table, unless a document goes there.
    ///
    /// # Errors
    /// [`OutputError::Open`] for a file that cannot be written, [`OutputError::Same`] for two documents in one
    /// place.
    pub fn open(requests: &[(Format, Output)], stdout: W) -> Result<Self, OutputError> {
        let mut document: Option<Format> = None;
        let mut files: Vec<(Format, FileSink)> = Vec::new();
        for (format, output) in requests {
            let path = match output {
                Output::File(path) if !is_stdout(path) => path,
                _ => {
                    if let Some(first) = document.replace(*format) {
                        return Err(same(first, *format, "standard output".to_owned()));
                    }
                    continue;
                }
            };
            let sink = FileSink::open(format.flag(), path)?;
            if let Some((first, _)) = files.iter().find(|(_, other)| other.is_same_file(&sink)) {
                return Err(same(*first, *format, path.display().to_string()));
            }
            files.push((*format, sink));
        }
        Ok(Self { stdout, stdout_closed: false, document, files, rows: None })
    }

    /// Whether standard output gets the table; if not, it gets one document at the end.
    pub fn shows_table(&self) -> bool {
        self.document.is_none()
    }

    /// Prints the heading of the table, and writes the files for the first time.
    ///
    /// # Errors
    /// What could not be written; a closed pipe is none.
    pub fn begin(&mut self, report: &Report) -> Result<Flow, OutputError> {
        if self.shows_table() && self.rows.is_none() {
            self.rows = Some(0);
            self.print(&table::heading(report))?;
        }
        // Whatever ends the process from now on, there is a report of it.
        self.write_files(report, false)?;
        Ok(self.flow())
    }

    /// Prints the rows that are new since the last call, and writes the files anew.
    ///
    /// # Errors
    /// The first thing that could not be written; the others are written all the same.
    pub fn point(&mut self, report: &Report) -> Result<Flow, OutputError> {
        let rows = self.print_rows(report);
        let files = self.write_files(report, false);
        rows.and(files)?;
        Ok(self.flow())
    }

    /// Prints what is left of the table, or the document, and writes all files for the last time.
    ///
    /// # Errors
    /// The first thing that could not be written; the others are written all the same.
    pub fn finish(&mut self, report: &Report) -> Result<Flow, OutputError> {
        let files = self.write_files(report, true);
        let stdout = match self.document {
            Some(format) => format.document(report).and_then(|text| self.print(&text)),
            // A run that failed before its heading has said why on standard error.
            None if self.rows.is_none() => Ok(()),
            None => self.print_rows(report).and_then(|()| self.print(&table::footer(report))),
        };
        stdout.and(files)?;
        Ok(self.flow())
    }

    fn print_rows(&mut self, report: &Report) -> Result<(), OutputError> {
        let Some(printed) = self.rows else { return Ok(()) };
        let new = report.points.get(printed..).unwrap_or_default();
        let text: String = new.iter().map(|point| table::row(report, point)).collect();
        self.rows = Some(report.points.len());
        self.print(&text)
    }

    fn write_files(&mut self, report: &Report, last: bool) -> Result<(), OutputError> {
        let mut result = Ok(());
        for (format, sink) in &mut self.files {
            if last || sink.can_be_replaced() {
                let written = format.document(report).and_then(|text| sink.write(&text));
                result = result.and(written);
            }
        }
        result
    }

    fn print(&mut self, text: &str) -> Result<(), OutputError> {
        if self.stdout_closed || text.is_empty() {
            return Ok(());
        }
        let written = self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.stdout_closed = true;
                Ok(())
            }
            other => other.map_err(OutputError::Stdout),
        }
    }

    fn flow(&self) -> Flow {
        if self.stdout_closed && self.files.is_empty() { Flow::Closed } else { Flow::Continue }
    }
}

/// Paths that mean the program's own standard output; a table beside a document would mix there.
fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

fn same(first: Format, second: Format, place: String) -> OutputError {
    OutputError::Same { first: first.flag(), second: second.flag(), place }
}
