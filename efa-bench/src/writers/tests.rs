use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use expect_test::expect_file;

use super::*;
use crate::args::Output;
use crate::report::{Outcome, fixture};

/// Standard output that a test can read, and whose reader may leave.
#[derive(Clone, Default)]
struct Terminal(Rc<RefCell<(String, Option<io::ErrorKind>)>>);

impl Terminal {
    fn text(&self) -> String {
        self.0.borrow().0.clone()
    }

    fn fail(&self, kind: io::ErrorKind) {
        self.0.borrow_mut().1 = Some(kind);
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        if let Some(kind) = inner.1 {
            return Err(kind.into());
        }
        inner.0.push_str(std::str::from_utf8(bytes).expect("outputs are text"));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn file(path: &Path) -> Output {
    Output::File(path.to_owned())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_formats_of_a_complete_run() {
    let report = fixture::complete();
    expect_file!["../../tests/golden/complete.txt"].assert_eq(&to_table(&report));
    expect_file!["../../tests/golden/complete.json"].assert_eq(&report.to_json().unwrap());
    expect_file!["../../tests/golden/complete.md"].assert_eq(&to_markdown(&report));
    // The file has the line ends of the repository; the format's own are asserted below.
    let csv = to_csv(&report).unwrap().replace("\r\n", "\n");
    expect_file!["../../tests/golden/complete.csv"].assert_eq(&csv);
}

#[test]
fn the_formats_of_an_interrupted_simulated_run() {
    let mut report = fixture::interrupted();
    report.simulated = true;
    report.run.intra_node = Some(false);
    expect_file!["../../tests/golden/interrupted.txt"].assert_eq(&to_table(&report));
    expect_file!["../../tests/golden/interrupted.json"].assert_eq(&report.to_json().unwrap());
    expect_file!["../../tests/golden/interrupted.md"].assert_eq(&to_markdown(&report));
    let csv = to_csv(&report).unwrap().replace("\r\n", "\n");
    expect_file!["../../tests/golden/interrupted.csv"].assert_eq(&csv);
}

#[test]
fn the_formats_of_a_run_that_failed_at_once() {
    let report = fixture::failed();
    expect_file!["../../tests/golden/failed.txt"].assert_eq(&to_table(&report));
    expect_file!["../../tests/golden/failed.json"].assert_eq(&report.to_json().unwrap());
    expect_file!["../../tests/golden/failed.md"].assert_eq(&to_markdown(&report));
    assert_eq!(to_csv(&report).unwrap().lines().count(), 1, "a header and no record");
}

#[test]
fn csv_reads_back_record_by_record() {
    let mut report = fixture::complete();
    report.run.domain = Some("a \"quoted\", broken\nname".to_owned());
    let text = to_csv(&report).unwrap();
    assert!(text.contains("\r\n"), "RFC 4180 ends lines with CR LF");
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let at = |name: &str| headers.iter().position(|header| header == name).unwrap();
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), report.points.len());
    for (record, point) in records.iter().zip(&report.points) {
        assert_eq!(record.len(), headers.len());
        assert_eq!(record[at("domain")], *report.run.domain.as_ref().unwrap());
        let p50: f64 = record[at("half_rtt_p50_ns")].parse().unwrap();
        assert_eq!(p50, point.half_rtt_ns.unwrap().p50);
        let extra: f64 = record[at("half_rtt_p99.99_ns")].parse().unwrap();
        assert_eq!(extra, point.percentiles_ns["99.99"]);
    }
}

#[test]
fn a_percentile_that_has_a_column_gets_no_second_one() {
    let mut report = fixture::complete();
    report.run.plan.as_mut().unwrap().percentiles = vec![99.9, 50.0, 90.0, 99.0, 99.99];
    let csv = to_csv(&report).unwrap();
    let header = csv.lines().next().unwrap();
    let columns = |text: &str| header.split(',').filter(|name| name.starts_with(text)).count();
    assert_eq!(columns("half_rtt_p"), 5, "{header}");
    assert!(header.ends_with("half_rtt_p99.99_ns"), "{header}");
    let (table, markdown) = (to_table(&report), to_markdown(&report));
    for names in [table.lines().find(|line| line.contains("MB/s")), markdown.lines().find(|l| l.contains("MB/s"))] {
        let words: Vec<_> = names.unwrap().split([' ', '|', '#']).filter(|word| word.starts_with('p')).collect();
        assert_eq!(words, ["p50", "p99", "p99.9", "p90", "p99.99"], "the table has no column of its own for p90");
    }
}

#[test]
fn rows_of_the_table_stand_under_their_names() {
    let text = to_table(&fixture::complete());
    let lines: Vec<&str> = text.lines().collect();
    let names = lines.iter().position(|line| line.ends_with("p99.99")).unwrap();
    let rows = &lines[names + 1..names + 4];
    assert!(rows.iter().all(|row| row.len() == lines[names].len() && !row.starts_with('#')));
    let others = lines[..=names].iter().chain(&lines[names + 4..]);
    assert!(others.into_iter().all(|line| line.starts_with('#')));
}

#[test]
fn text_from_elsewhere_cannot_pass_for_a_row_or_a_heading() {
    let mut report = fixture::failed();
    report.outcome = Outcome::failed("one\n64 1000 9.9\r\n\u{1b}[31m| two | `three`");
    let table = to_table(&report);
    assert!(table.lines().all(|line| line.starts_with('#')), "{table}");
    assert!(!table.contains('\u{1b}'));
    let markdown = to_markdown(&report);
    assert!(markdown.contains(r"\| two \| \`three\`"), "{markdown}");
}

#[test]
fn the_table_is_streamed_and_equals_the_whole() {
    let (whole, terminal) = (fixture::complete(), Terminal::default());
    let mut outputs = Outputs::open(&[], terminal.clone()).unwrap();
    let mut report = whole.clone();
    report.points.clear();
    assert_eq!(outputs.begin(&report).unwrap(), Flow::Continue);
    assert_eq!(terminal.text(), heading(&report));
    for point in &whole.points {
        report.points.push(point.clone());
        assert_eq!(outputs.point(&report).unwrap(), Flow::Continue);
        assert!(terminal.text().ends_with(&row(&report, point)));
    }
    assert_eq!(outputs.finish(&report).unwrap(), Flow::Continue);
    assert_eq!(terminal.text(), to_table(&whole));
}

#[test]
fn a_document_on_standard_output_is_the_only_thing_there() {
    for output in [Output::Stdout, file(Path::new("/dev/stdout"))] {
        for report in [fixture::complete(), fixture::interrupted(), fixture::failed()] {
            let terminal = Terminal::default();
            let mut outputs = Outputs::open(&[(Format::Json, output.clone())], terminal.clone()).unwrap();
            assert!(!outputs.shows_table());
            let _ = outputs.begin(&report).unwrap();
            let _ = outputs.point(&report).unwrap();
            assert_eq!(terminal.text(), "");
            let _ = outputs.finish(&report).unwrap();
            assert_eq!(Report::from_json(&terminal.text()).unwrap(), report);
        }
    }
}

#[test]
fn a_run_that_failed_before_its_heading_prints_no_table() {
    let terminal = Terminal::default();
    let mut outputs = Outputs::open(&[], terminal.clone()).unwrap();
    let _ = outputs.finish(&fixture::failed()).unwrap();
    assert_eq!(terminal.text(), "");
}

#[test]
fn a_file_exists_before_the_run_and_is_whole_after_each_point() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let mut outputs = Outputs::open(&[(Format::Json, file(&path))], Terminal::default()).unwrap();
    assert!(outputs.shows_table());
    assert!(path.exists());
    let whole = fixture::complete();
    let mut report = whole.clone();
    report.points.clear();
    for point in &whole.points {
        report.points.push(point.clone());
        let _ = outputs.point(&report).unwrap();
        assert_eq!(Report::from_json(&fs::read_to_string(&path).unwrap()).unwrap(), report);
    }
    let _ = outputs.finish(&whole).unwrap();
    assert_eq!(Report::from_json(&fs::read_to_string(&path).unwrap()).unwrap(), whole);
    assert_eq!(names(directory.path()), ["report.json"], "no temporary file is left");
}

#[test]
fn an_older_report_stays_until_there_is_a_new_one_and_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("old.csv"), directory.path().join("link.csv"));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut outputs = Outputs::open(&[(Format::Csv, file(&link))], Terminal::default()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    let _ = outputs.finish(&fixture::complete()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), to_csv(&fixture::complete()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link is still a link");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        let opened = Outputs::open(&[(Format::Json, file(path))], Terminal::default());
        opened.map(|_| ()).unwrap_err().to_string()
    };
    let missing = open(&directory.path().join("no/such/report.json"));
    assert!(missing.starts_with("--json: ") && missing.contains("create it first"), "{missing}");
    assert!(open(directory.path()).contains("it is a directory"));
    let ordinary = directory.path().join("file");
    fs::write(&ordinary, "").unwrap();
    assert!(open(&ordinary.join("x")).contains("cannot be written"));
}

#[test]
fn two_documents_in_one_place_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let dotted = directory.path().join(".").join("x");
    let requests = [(Format::Json, file(&path)), (Format::Csv, file(&dotted))];
    let error = Outputs::open(&requests, Terminal::default()).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("--json and --csv both go to "), "{error}");
    assert!(error.to_string().contains("`--csv=FILE`"), "{error}");
    let requests = [(Format::Json, Output::Stdout), (Format::Markdown, Output::Stdout)];
    let error = Outputs::open(&requests, Terminal::default()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("standard output"), "{error}");
}

#[test]
fn a_device_is_written_once_at_the_end() {
    let requests = [(Format::Json, file(Path::new("/dev/null")))];
    let mut outputs = Outputs::open(&requests, Terminal::default()).unwrap();
    let _ = outputs.point(&fixture::interrupted()).unwrap();
    let _ = outputs.finish(&fixture::complete()).unwrap();

    let requests = [(Format::Json, file(Path::new("/dev/full")))];
    let mut outputs = Outputs::open(&requests, Terminal::default()).unwrap();
    let _ = outputs.point(&fixture::complete()).unwrap();
    let error = outputs.finish(&fixture::complete()).unwrap_err();
    assert!(error.to_string().contains("/dev/full"), "{error}");
}

#[test]
fn a_closed_pipe_ends_the_table_quietly() {
    let (report, terminal) = (fixture::complete(), Terminal::default());
    let mut outputs = Outputs::open(&[], terminal.clone()).unwrap();
    let _ = outputs.begin(&report).unwrap();
    terminal.fail(io::ErrorKind::BrokenPipe);
    assert_eq!(outputs.point(&report).unwrap(), Flow::Closed);
    assert_eq!(outputs.finish(&report).unwrap(), Flow::Closed);
}

#[test]
fn a_closed_pipe_does_not_end_a_run_that_also_writes_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let (report, terminal) = (fixture::complete(), Terminal::default());
    terminal.fail(io::ErrorKind::BrokenPipe);
    let mut outputs = Outputs::open(&[(Format::Json, file(&path))], terminal).unwrap();
    assert_eq!(outputs.begin(&report).unwrap(), Flow::Continue);
    assert_eq!(outputs.finish(&report).unwrap(), Flow::Continue);
    assert_eq!(Report::from_json(&fs::read_to_string(&path).unwrap()).unwrap(), report);
}

#[test]
fn a_full_disk_under_standard_output_is_an_error_and_files_are_written_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.md");
    let (report, terminal) = (fixture::complete(), Terminal::default());
    let mut outputs = Outputs::open(&[(Format::Markdown, file(&path))], terminal.clone()).unwrap();
    let _ = outputs.begin(&report).unwrap();
    terminal.fail(io::ErrorKind::StorageFull);
    assert!(matches!(outputs.finish(&report), Err(OutputError::Stdout(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), to_markdown(&report));
}
