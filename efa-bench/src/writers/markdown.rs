//! Markdown: a table for a page or a merge request, then what it takes to judge it.

use std::fmt::Write as _;

use crate::report::Report;

use super::table::{facts, first_messages, notes, one_line};
use super::{COLUMNS, PERCENTILES, cells, extra_percentiles, usec};

/// Writes the report as Markdown.
pub fn to_markdown(report: &Report) -> String {
    let run = &report.run;
    let provider = run.provider.as_deref().unwrap_or("no provider");
    let label = if report.simulated { " (SIMULATED)" } else { "" };
    let mut text = format!("## {} over {}{label}\n\n", escape(&run.benchmark), escape(provider));
    let percentiles = extra_percentiles(report, &PERCENTILES);
    if !report.points.is_empty() {
        let names = COLUMNS.into_iter().map(str::to_owned);
        let names: Vec<String> = names.chain(percentiles.iter().map(|p| format!("p{p}"))).collect();
        push_row(&mut text, &names);
        push_row(&mut text, &vec!["---:".to_owned(); names.len()]);
        for point in &report.points {
            let extra = percentiles.iter().map(|percentile| {
                let ns = point.percentiles_ns.get(&percentile.to_string());
                ns.map_or_else(|| "-".to_owned(), |ns| usec(*ns))
            });
            push_row(&mut text, &cells(point).into_iter().chain(extra).collect::<Vec<_>>());
        }
        text.push_str("\nMB is 10^6 bytes; usec and min to max are half the round trip in microseconds, ");
        text.push_str("usec is the mean.\n\n");
    }
    let mut bullet = |name: &str, value: &str| {
        let value = escape(value);
        let _ = match name {
            "" => writeln!(text, "- {value}"),
            _ => writeln!(text, "- {name}: {value}"),
        };
    };
    for (name, value) in facts(report) {
        bullet(name, &value);
    }
    if let Some(line) = first_messages(&report.points) {
        bullet("", &line);
    }
    for point in &report.points {
        for note in notes(point) {
            bullet(&format!("{} bytes", point.size_bytes), &note);
        }
    }
    for warning in &report.warnings {
        bullet(&format!("**warning** ({})", escape(&warning.id)), &warning.text);
    }
    let status = format!("outcome: {}", report.outcome.status.name());
    match &report.outcome.reason {
        Some(reason) => bullet(&status, reason),
        None => bullet("", &status),
    }
    text
}

fn push_row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// Text from elsewhere in one line, without meaning to Markdown.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in one_line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
