//! Prints data to standard output: in columns for people, as JSON for programs. Formats numbers, times and the problems
//! of a configuration for people; programs get plain numbers, with the unit in the name.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use annotate_snippets::Renderer;
use clap::ValueEnum;
use indicatif::HumanCount;
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::config::{Origin, Problem};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::record::Timestamp;

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

/// Empties the terminal; what is printed next is at its top.
pub(super) fn clear_screen() {
    let _ = write!(std::io::stdout(), "\x1b[H\x1b[2J");
}

/// Prints one line, or several.
pub(super) fn print(text: &str) -> Result<(), Fatal> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        // The reader closed the pipe (`| head`): stop writing.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.or_fatal(Reason::Failure),
    }
}

/// Writes a file.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Fatal> {
    std::fs::write(path, text).map_err(|error| fatal!(State, "cannot write {}: {error}", path.display()))
}

/// Formats an expected count, however small.
pub(super) fn expected(count: f64) -> String {
    if count == 0.0 || count >= 0.01 { format!("{count:.2}") } else { format!("{count:.0e}") }
}

/// Prints a value as JSON, with members in the order of their names: over several lines or, as JSON lines, on one.
pub(super) fn print_json(value: &(impl Serialize + ?Sized), format: Format) -> Result<(), Fatal> {
    let value = json!(value);
    match format {
        Format::Jsonl => print(&value.to_string()),
        Format::Table | Format::Json => print(&format!("{value:#}")),
    }
}

/// Prints a report: `text` for people, the report itself for programs.
pub(super) fn print_report(
    format: Format,
    report: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Fatal> {
    if format == Format::Table { print(&text()) } else { print_json(report, format) }
}

/// Prints several reports: the text of each for people, one document or one line each for programs.
pub(super) fn print_each<T>(
    format: Format,
    items: &[T],
    text: impl Fn(&T) -> String,
    json: impl Fn(&T) -> Value,
) -> Result<(), Fatal> {
    match format {
        Format::Table => items.iter().try_for_each(|item| print(&text(item))),
        Format::Json => print_json(&items.iter().map(json).collect::<Value>(), format),
        Format::Jsonl => items.iter().try_for_each(|item| print_json(&json(item), format)),
    }
}

/// Prints a list: a row of each item below headings for people, one document or one line each for programs.
pub(super) fn print_list<T, R: AsRef<[String]>>(
    format: Format,
    heads: &[&str],
    items: &[T],
    row: impl Fn(&T) -> R,
    json: impl Fn(&T) -> Value,
) -> Result<(), Fatal> {
    if format == Format::Table {
        return print(&table(heads, &items.iter().map(row).collect::<Vec<_>>()));
    }
    print_each(format, items, |_| String::new(), json)
}

/// Lays rows out in columns below headings.
pub(super) fn table(heads: &[&str], rows: &[impl AsRef<[String]>]) -> String {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    columns(&std::iter::once(heads).chain(rows.iter().map(|row| row.as_ref().to_vec())).collect::<Vec<_>>())
}

/// Rows of a name and a text.
#[derive(Default)]
pub(super) struct NamedRows(Vec<[String; 2]>);

impl NamedRows {
    /// Adds a row.
    pub(super) fn add(&mut self, name: &str, text: impl Into<String>) {
        self.0.push([name.to_owned(), text.into()]);
    }

    /// Lays the rows out in columns.
    pub(super) fn text(&self) -> String {
        columns(&self.0)
    }

    /// Lays the rows out in columns, indented below a heading.
    pub(super) fn below(&self, heading: &str) -> String {
        format!("{heading}\n  {}", self.text().replace('\n', "\n  "))
    }
}

/// Lays rows out in columns, two blanks apart; the last column is not padded.
pub(super) fn columns(rows: &[impl AsRef<[String]>]) -> String {
    let column = |number: usize| rows.iter().filter_map(move |row| row.as_ref().get(number));
    let number = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let width = |number: usize| column(number).map(|cell| shown(cell).width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..number).map(width).collect();
    rows.iter().map(|row| joined(row.as_ref().iter().zip(widths.iter().copied()))).collect::<Vec<_>>().join("\n")
}

/// Joins the cells of a row, each padded to the width of its column.
fn joined<'c>(cells: impl Iterator<Item = (&'c String, usize)>) -> String {
    let cells: Vec<String> = cells.map(|(cell, width)| filled(cell, width)).collect();
    cells.join("  ").trim_end().to_owned()
}

/// Returns what is shown of a cell. Ids come from pages: without control characters they say nothing to the terminal.
fn shown(cell: &str) -> Cow<'_, str> {
    if cell.contains(char::is_control) { cell.replace(char::is_control, "").into() } else { cell.into() }
}

/// Pads a cell with blanks to this many columns of a terminal: a Chinese character takes two, a combining mark none.
pub(super) fn filled(cell: &str, columns: usize) -> String {
    let cell = shown(cell);
    format!("{cell}{:blanks$}", "", blanks = columns.saturating_sub(cell.width()))
}

/// A table that is printed row by row. Each column is as wide as its widest cell so far.
pub(super) struct StreamedTable {
    widths: Vec<usize>,
}

impl StreamedTable {
    /// Prints the headings. Each column is given with its minimum width.
    pub(super) fn begin(columns: &[(&str, usize)]) -> Result<Self, Fatal> {
        let (heads, widths): (Vec<String>, _) =
            columns.iter().map(|(head, width)| ((*head).to_owned(), *width)).unzip();
        let mut growing = Self { widths };
        print(&growing.line(&heads))?;
        Ok(growing)
    }

    /// Lays out the next row.
    pub(super) fn line(&mut self, row: &[String]) -> String {
        joined(row.iter().zip(&mut self.widths).map(|(cell, width)| {
            *width = shown(cell).width().max(*width);
            (cell, *width)
        }))
    }
}

/// Returns a text member of an object; `-` if there is none.
pub(super) fn member(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap_or("-").to_owned()
}

/// Adds the members of the second object to the first.
pub(super) fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// Units of time from the largest, in milliseconds.
const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];

/// Writes a count with thousands separators: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Writes a time as `2026-09-01T00:00:00Z`; empty if it is outside the calendar.
pub(super) fn time(time: Timestamp) -> String {
    time.rfc3339().unwrap_or_default()
}

/// Writes a duration in its two largest units: `3 d 6 h`, `24 min 37 s`, `13 s`, `939 ms`.
pub(super) fn span(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut units = UNITS.into_iter().skip_while(|(_, unit)| millis < *unit);
    let Some((name, unit)) = units.next() else { return format!("{millis} ms") };
    let (number, rest) = (millis / unit, millis % unit);
    match units.next() {
        // The second unit is the next smaller one, or there is none: a day and seven seconds are written as a day.
        Some((second, unit)) if rest >= unit => format!("{number} {name} {} {second}", rest / unit),
        Some(_) | None => format!("{number} {name}"),
    }
}

/// Writes an age in milliseconds as [`span`] does, with its sign if it is negative.
pub(super) fn age(millis: i64) -> String {
    let text = span(Duration::from_millis(millis.unsigned_abs()));
    if millis < 0 { format!("-{text}") } else { text }
}

/// Writes problems and warnings for people.
pub(super) fn print_findings(
    out: &mut impl Write,
    renderer: &Renderer,
    problems: &[Problem],
    warnings: &[Problem],
) -> io::Result<()> {
    for problem in problems {
        writeln!(out, "error: {problem}")?;
        if let Some(excerpt) = &problem.excerpt {
            writeln!(out, "{}", excerpt.draw(renderer))?;
        }
    }
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

/// Returns problems and warnings for programs.
pub(super) fn as_json(problems: &[Problem], warnings: &[Problem]) -> Value {
    let list = |found: &[Problem]| found.iter().map(one).collect::<Vec<_>>();
    json!({"valid": problems.is_empty(), "problems": list(problems), "warnings": list(warnings)})
}

fn one(problem: &Problem) -> Value {
    let mut value = match &problem.origin {
        Origin::Default => json!({"source": "default"}),
        Origin::File { name, line, column } => json!({"source": "file", "file": name, "line": line, "column": column}),
        Origin::Variable(name) => json!({"source": "variable", "variable": name}),
        Origin::Set => json!({"source": "set"}),
    };
    extend(&mut value, json!({"key": problem.path, "message": problem.message, "meant": problem.hint()}));
    value.as_object_mut().into_iter().for_each(|value| value.retain(|_, field| !field.is_null() && field != ""));
    value
}

/// Writes a count with its noun: `1 error`, `2 errors`.
pub(super) fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Returns the numbers of problems and warnings, as in `2 errors, 1 warning`.
pub(super) fn sum(problems: &[Problem], warnings: &[Problem]) -> String {
    format!("{}, {}", counted(problems.len(), "error"), counted(warnings.len(), "warning"))
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
    fn control_characters_of_an_id_do_not_reach_the_terminal() {
        let rows = [["id\x1b]0;title\x07\r\n", "x"], ["a", "y"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "id]0;title  x\na           y");
        let mut table = StreamedTable { widths: vec![1, 1] };
        assert_eq!(table.line(&rows[0]), "id]0;title  x");
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

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 12_345, 1_234_567].map(count), ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let of = |millis| span(Duration::from_millis(millis));
        assert_eq!(
            [0, 999, 1939, 13_000, 60_000, 1_477_000, 3_600_000, 280_800_000, 86_407_000].map(of),
            ["0 ms", "999 ms", "1 s", "13 s", "1 min", "24 min 37 s", "1 h", "3 d 6 h", "1 d"]
        );
        assert_eq!([age(-20), age(-5000), age(111_600_000)], ["-20 ms", "-5 s", "1 d 7 h"]);
    }
}
