//! The table on standard output: a heading, one row for each point as it finishes, a footer.
//!
//! Every line that is not a row begins with `#`, so that the rows can be cut out by any tool. Widths are fixed, because
//! a row is printed before the next one is known; a longer value makes its own row longer and cuts nothing.

use std::fmt::Write as _;

use crate::report::{Pair, Point, Report, Side, Status};
use crate::units::{format_ns, format_size};

use super::{COLUMNS, PERCENTILES, cells, extra_percentiles, usec};

const WIDTHS: [usize; 10] = [9, 10, 10, 10, 9, 9, 9, 9, 9, 8];
const EXTRA_WIDTH: usize = 9;

/// The whole table at once.
pub fn to_table(report: &Report) -> String {
    let rows: String = report.points.iter().map(|point| row(report, point)).collect();
    heading(report) + &rows + &footer(report)
}

/// What was measured, over what, by whom; then the names and units of the columns.
pub fn heading(report: &Report) -> String {
    let mut lines: Vec<String> = facts(report)
        .into_iter()
        .map(|(name, value)| if name.is_empty() { value } else { format!("{name:<10} {value}") })
        .collect();
    lines.push("MB = 10^6 bytes; usec, min to max: half the round trip in microseconds, usec is the mean".to_owned());
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "# {line}");
    }
    let extra = extra_percentiles(report, &PERCENTILES).into_iter().map(|p| format!("p{p}"));
    // The sign takes the place of the first column's first blank.
    let names = line(COLUMNS.iter().map(|name| (*name).to_owned()), extra);
    text.push('#');
    text.push_str(&names[1..]);
    text
}

/// One point.
pub fn row(report: &Report, point: &Point) -> String {
    let extra = extra_percentiles(report, &PERCENTILES).into_iter().map(|percentile| {
        let ns = point.percentiles_ns.get(&percentile.to_string());
        ns.map_or_else(|| "-".to_owned(), |ns| usec(*ns))
    });
    line(cells(point), extra)
}

/// What came with the figures: first messages, samples left out, warnings, and the outcome.
pub fn footer(report: &Report) -> String {
    let mut text = String::new();
    if let Some(line) = first_messages(&report.points) {
        let _ = writeln!(text, "# {line}");
    }
    for point in &report.points {
        for note in notes(point) {
            let _ = writeln!(text, "# {} bytes: {note}", point.size_bytes);
        }
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "# warning ({}): {}", warning.id, one_line(&warning.text));
    }
    let _ = match &report.outcome.reason {
        None => writeln!(text, "# {} in {:.2} s", Status::Complete.name(), report.run.elapsed_s),
        Some(reason) => {
            writeln!(text, "# {}: {}", report.outcome.status.name(), one_line(reason))
        }
    };
    text
}

/// What a reader must know of a run, as names and values; a value without a name stands for itself.
///
/// Markdown writes the same facts as a list.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let run = &report.run;
    let mut facts = Vec::new();
    if report.simulated {
        facts.push(("", "SIMULATED: no hardware was measured".to_owned()));
    }
    let tool = run.sides.local.as_ref().map_or(env!("CARGO_PKG_VERSION"), |s| &s.tool_version);
    let op = run.plan.as_ref().map_or_else(String::new, |plan| match plan.op {
        crate::args::Mode::Msg => " of untagged messages".to_owned(),
        crate::args::Mode::Tagged => " of tagged messages".to_owned(),
    });
    facts.push(("", format!("{}{op}, efa {tool}, started {}", run.benchmark, run.started)));
    if run.provider.is_some() {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        facts.push(("provider", known(&run.provider)));
        let (fabric, domain, nic) = (known(&run.fabric), known(&run.domain), known(&run.nic));
        facts.push(("fabric", format!("{fabric}, domain {domain}, NIC {nic}")));
    }
    libfabric(&run.sides, &mut facts);
    for (name, side, addresses) in
        [("local", &run.sides.local, &run.addresses.local), ("peer", &run.sides.peer, &run.addresses.peer)]
    {
        if let Some(side) = side {
            facts.push((name, place(side, addresses.as_ref())));
        }
    }
    match run.intra_node {
        Some(true) => facts.push(("hosts", "intra-node: both sides are on one host".to_owned())),
        Some(false) => facts.push(("hosts", "two hosts".to_owned())),
        None => {}
    }
    let settings = settings(report);
    if !settings.is_empty() {
        facts.push(("settings", settings));
    }
    if let Some(clock) = &run.clock {
        let cost = format!("{} ns a reading, subtracted", clock.overhead_ns);
        facts.push(("clock", format!("{}: {}; {cost}", clock.kind, clock.source)));
    }
    facts
}

/// Text from elsewhere in one line, so that it cannot pass for a row.
pub(super) fn one_line(text: &str) -> String {
    let visible: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first messages in one line: how long the connection took, and the slowest of the other sizes.
pub(super) fn first_messages(points: &[Point]) -> Option<String> {
    let mut firsts = points.iter().filter_map(|p| Some((p.size_bytes, p.first_message_ns?)));
    let (size, ns) = firsts.next()?;
    let mut text = format!(
        "first message, not in the table: {} there and back at {size} bytes, connection set-up included",
        format_ns(ns as f64)
    );
    if let Some((size, ns)) = firsts.max_by_key(|(_, ns)| *ns) {
        let slowest = format_ns(ns as f64);
        let _ = write!(text, "; slowest of the other sizes' first: {slowest} at {size} bytes");
    }
    Some(text)
}

/// What is odd about one point, in words.
pub(super) fn notes(point: &Point) -> Vec<String> {
    let mut notes = Vec::new();
    for (count, what) in [
        (point.invalid_samples, "invalid samples (no positive duration) left out"),
        (point.clamped_samples, "samples moved to the nearest value that is told apart"),
        (point.dropped_samples, "samples beyond the recorder's room left out"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    if point.ended_by == crate::stats::EndedBy::Interrupted {
        notes.push("interrupted: fewer iterations than planned".to_owned());
    }
    notes.extend(point.reason.as_deref().map(one_line));
    notes
}

fn libfabric(sides: &Pair<Side>, facts: &mut Vec<(&'static str, String)>) {
    let describe = |side: &Side| {
        let library = &side.libfabric;
        let path = library.path.as_deref().unwrap_or("an unknown path");
        let (run, build) = (&library.run_version, &library.build_version);
        format!("{run} at {path} (built for {build})")
    };
    match (&sides.local, &sides.peer) {
        (Some(local), Some(peer)) if local.libfabric != peer.libfabric => {
            facts.push(("libfabric", format!("local {}", describe(local))));
            facts.push(("libfabric", format!("peer {}", describe(peer))));
        }
        (Some(side), _) | (None, Some(side)) => facts.push(("libfabric", describe(side))),
        (None, None) => {}
    }
}

fn place(side: &Side, addresses: Option<&crate::report::Addresses>) -> String {
    let mut text = side.role.name().to_owned();
    if let Some(host) = &side.host {
        let _ = write!(text, " on {host}");
    }
    if let Some(addresses) = addresses {
        for (name, address) in [("data", &addresses.fabric), ("control", &addresses.control)] {
            if let Some(address) = address {
                let _ = write!(text, ", {name} {address}");
            }
        }
    }
    let _ = match side.pinned_core {
        Some(core) => write!(text, ", pinned to core {core}"),
        None => write!(text, ", not pinned"),
    };
    text
}

fn settings(report: &Report) -> String {
    let run = &report.run;
    let mut settings = Vec::new();
    if let Some(wait) = run.wait {
        settings.push(format!("wait {}", wait.name()));
    }
    match run.inject {
        Some(inject) if inject.used => {
            settings.push(format!("inject up to {} bytes", inject.limit_bytes));
        }
        Some(_) => settings.push("inject off".to_owned()),
        None => {}
    }
    if let Some(plan) = &run.plan {
        let verify = if plan.verify { "on" } else { "off" };
        settings.push(format!("verification {verify}"));
        settings.push(format!("seed {}", plan.seed));
        if let Some(largest) = plan.sizes.iter().max() {
            settings.push(match plan.sizes.len() {
                1 => format!("size {}", format_size(*largest)),
                sizes => format!("{sizes} sizes up to {}", format_size(*largest)),
            });
        }
    }
    settings.join(", ")
}

/// Right-aligned cells with a line end.
fn line(cells: impl IntoIterator<Item = String>, extra: impl IntoIterator<Item = String>) -> String {
    let extra = extra.into_iter().map(|cell| (cell, EXTRA_WIDTH));
    let mut text = String::new();
    for (cell, width) in cells.into_iter().zip(WIDTHS).chain(extra) {
        let _ = write!(text, " {cell:>width$}");
    }
    text.push('\n');
    text
}
