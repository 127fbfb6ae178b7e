//! Medians over rounds, their ratios, and the table of a comparison.

use std::collections::BTreeMap;

/// The figures of one provider and size: for each tool the half round trip of every round, in us.
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) rounds: BTreeMap<&'static str, Vec<f64>>,
}

/// The most that our figure may be of another's, where the project has set itself a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) target: Option<f64>,
}

impl Cell {
    pub(super) fn median(&self, tool: &str) -> Option<f64> {
        median(self.rounds.get(tool)?)
    }

    /// Our median over the other's.
    pub(super) fn ratio(&self, ours: &str, other: &str) -> Option<f64> {
        Some(self.median(ours)? / self.median(other)?)
    }
}

/// The middle value; of an even number, the mean of the middle two.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// A Markdown table: a row per provider and size, a pair of columns per rival.
pub(super) fn table(ours: &'static str, rows: &[(String, u64, Cell)], rivals: &dyn Fn(&str) -> Vec<Rival>) -> String {
    let mut lines = Vec::new();
    let mut provider = None;
    for (name, size, cell) in rows {
        let rivals = rivals(name);
        if provider != Some(name) {
            provider = Some(name);
            let mut head = format!("\n| `{name}`, bytes | {ours}, us |");
            let mut rule = "|---:|---:|".to_owned();
            for rival in &rivals {
                head += &format!(" {}, us | ratio | at most | met |", rival.name);
                rule += "---:|---:|---:|---|";
            }
            lines.push(head);
            lines.push(rule);
        }
        let mut row = format!("| {size} | {} |", figure(cell.median(ours)));
        for rival in &rivals {
            let ratio = cell.ratio(ours, rival.name);
            let met = match (ratio, rival.target) {
                (Some(ratio), Some(target)) if ratio <= target => "yes",
                (Some(_), Some(_)) => "**no**",
                _ => "",
            };
            row += &format!(
                " {} | {} | {} | {met} |",
                figure(cell.median(rival.name)),
                ratio.map_or("n/a".to_owned(), |ratio| format!("{ratio:.3}")),
                rival.target.map_or(String::new(), |target| format!("{target:.2}")),
            );
        }
        lines.push(row);
    }
    lines.join("\n") + "\n"
}

/// Three digits at least, also below a microsecond.
fn figure(usec: Option<f64>) -> String {
    match usec {
        None => "n/a".to_owned(),
        Some(usec) if usec < 10.0 => format!("{usec:.3}"),
        Some(usec) => format!("{usec:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_row_says_whether_the_target_is_met() {
        let mut cell = Cell::default();
        cell.rounds.insert("ours", vec![7.0, 8.0, 90.0]);
        cell.rounds.insert("theirs", vec![10.0]);
        let rows = vec![("shm".to_owned(), 64, cell), ("shm".to_owned(), 128, Cell::default())];
        let rivals = |_: &str| vec![Rival { name: "theirs", target: Some(0.8) }];
        let expected = "\n| `shm`, bytes | ours, us | theirs, us | ratio | at most | met |\n\
                        |---:|---:|---:|---:|---:|---|\n\
                        | 64 | 8.000 | 10.0 | 0.800 | 0.80 | yes |\n\
                        | 128 | n/a | n/a | n/a | 0.80 |  |\n";
        assert_eq!(table("ours", &rows, &rivals), expected);
    }
}
