//! Prints data to standard output: in columns for people, as JSON for programs.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

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
    /// Returns the given format, or the default: columns on a terminal, lines of JSON elsewhere.
    pub(super) fn or_usual(given: Option<Self>) -> Self {
        given.unwrap_or(if std::io::stdout().is_terminal() { Self::Table } else { Self::Jsonl })
    }
}

/// Empties the terminal; what is printed next is at its top.
pub(super) fn clear_screen() {
    let _ = write!(std::io::stdout(), "\x1b[H\x1b[2J");
}

/// Prints one line, or several.
pub(super) fn print(text: &str) -> Result<(), Fatal> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        // The reader closed the pipe (`| head`): stop writing.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(|error| Reason::Failure.because(error)),
    }
}

/// Formats an expected count, however small.
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

/// Prints a list: below headings for people, as one document or line by line for programs.
pub(super) fn print_list(
    format: Format,
    heads: &[&str],
    rows: &[Vec<String>],
    objects: Vec<Value>,
) -> Result<(), Fatal> {
    match format {
        Format::Table => print(&table(heads, rows)),
        Format::Json => print_json(&Value::Array(objects), format),
        Format::Jsonl => objects.iter().try_for_each(|object| print_json(object, format)),
    }
}

/// Lays rows out in columns below headings.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    columns(&std::iter::once(heads).chain(rows.iter().cloned()).collect::<Vec<_>>())
}

/// Lays rows out in columns, two blanks apart; the last column is not padded.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = cell.width();
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| filled(cell, width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Pads a cell with blanks to this many columns of a terminal: a Chinese character takes two, a combining mark none.
pub(super) fn filled(cell: &str, columns: usize) -> String {
    format!("{cell}{:blanks$}", "", blanks = columns.saturating_sub(cell.width()))
}

/// A table that is printed row by row. Each column is as wide as its widest cell so far.
pub(super) struct StreamedTable {
    widths: Vec<usize>,
}

impl StreamedTable {
    /// Prints the headings. Each column is given with its minimum width.
    pub(super) fn begin(columns: &[(&str, usize)]) -> Result<Self, Fatal> {
        let mut growing = Self { widths: columns.iter().map(|(_, width)| *width).collect() };
        let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        print(&growing.line(&heads))?;
        Ok(growing)
    }

    /// Lays out the next row.
    pub(super) fn line(&mut self, row: &[String]) -> String {
        let mut cells = Vec::new();
        for (cell, width) in row.iter().zip(&mut self.widths) {
            *width = cell.width().max(*width);
            cells.push(filled(cell, *width));
        }
        cells.join("  ").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_grows_with_its_widest_cell_so_far() {
        let mut table = StreamedTable { widths: vec![4, 1] };
        let mut line = |row: [&str; 2]| table.line(&row.map(str::to_owned));
        assert_eq!([line(["a", "b"]), line(["abcdef", "b"]), line(["a", "b"])], ["a     b", "abcdef  b", "a       b"]);
    }

    #[test]
    fn columns_line_up_under_chinese_text() {
        let rows = [["标题", "x"], ["a", "y"], ["cafe\u{301}", "z"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows.clone().map(Vec::from)), "标题  x\na     y\ncafe\u{301}  z");
        let mut table = StreamedTable { widths: vec![2, 1] };
        assert_eq!(rows.map(|row| table.line(&row)), ["标题  x", "a     y", "cafe\u{301}  z"]);
    }

    #[test]
    fn a_table_begins_with_headings() {
        assert_eq!(table(&["ONE", "TWO"], &[vec!["a".to_owned(), "b".to_owned()]]), "ONE  TWO\na    b");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "a    bb  c\naaa  b");
    }
}
