//! Data on standard output: for people in columns, for programs as JSON.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use serde_json::Value;

use crate::error::{Fatal, Reason};

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns, for people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
}

impl Format {
    /// What is meant when nothing is said: columns on a terminal, lines of JSON elsewhere.
    pub(super) fn or_usual(given: Option<Self>) -> Self {
        given.unwrap_or(if std::io::stdout().is_terminal() { Self::Table } else { Self::Jsonl })
    }
}

/// Prints one line, or several.
pub(super) fn print(text: &str) -> Result<(), Fatal> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        // Whoever reads has enough, as with `| head`: what follows would be lost, too.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(|error| Reason::Failure.because(error)),
    }
}

/// Shows a count that is expected, however small it is.
pub(super) fn expected(count: f64) -> String {
    if count == 0.0 || count >= 0.01 { format!("{count:.2}") } else { format!("{count:.0e}") }
}

/// Prints one JSON value over several lines or, as JSON lines, on one.
pub(super) fn print_json(value: &Value, format: Format) -> Result<(), Fatal> {
    match format {
        Format::Jsonl => print(&value.to_string()),
        Format::Table | Format::Json => print(&format!("{value:#}")),
    }
}

/// Lays rows out in columns, two blanks apart; the last column is not filled up.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "a    bb  c\naaa  b");
    }
}
