//! The findings of `check`, and how they are printed.

use std::io::{IsTerminal, Write};

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::cli::output::{Format, filled, print, print_json};
use crate::error::Fatal;
use crate::kafka::inspector::ClusterError;

/// The findings so far. Each is printed as soon as it is known, or all together as one JSON document.
pub(super) struct Report {
    rows: Vec<Row>,
    format: Format,
    /// Width of the column of subjects on a terminal.
    width: usize,
    /// ` -c FILE` for each file that was named, for the commands that are suggested.
    files: String,
    /// Whether to show what is being checked, on a terminal.
    is_watched: bool,
}

impl Report {
    /// Starts without findings; `subjects` are the known subjects of the checks.
    pub(super) fn new(format: Format, subjects: &[String], files: String) -> Self {
        let width = subjects.iter().map(|name| name.width()).max().unwrap_or(0);
        let is_watched = std::io::stderr().is_terminal() && format == Format::Table;
        Self { rows: Vec::new(), format, width, files, is_watched }
    }

    /// Shows on a terminal what is being checked, until the next finding.
    pub(super) fn asks(&self, what: &str) {
        if self.is_watched {
            // Standard error may be closed.
            let _ = write!(std::io::stderr(), "\r\x1b[Kchecking {what} ...");
        }
    }

    /// Returns the command that creates topics, with the configuration files of this command.
    pub(super) fn create(&self) -> String {
        format!("dupgate topics create{} --execute", self.files)
    }

    /// Prints findings.
    pub(super) fn add(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<(), Fatal> {
        for row in rows {
            self.wipe();
            match self.format {
                Format::Table => {
                    if self.rows.is_empty() {
                        print(&format!("{}  STATE  FINDING", filled("SUBJECT", self.width)))?;
                    }
                    print(&row.lines(self.width))?;
                }
                Format::Jsonl => print_json(&row.json(), self.format)?,
                Format::Json => {}
            }
            self.rows.push(row);
        }
        Ok(())
    }

    /// Prints what was not printed yet, and returns all findings.
    pub(super) fn finish(self) -> Result<Vec<Row>, Fatal> {
        self.wipe();
        if self.format == Format::Json {
            print_json(&self.rows.iter().map(Row::json).collect(), self.format)?;
        }
        Ok(self.rows)
    }

    fn wipe(&self) {
        if self.is_watched {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No problem.
    Ok,
    /// Works, but with a problem.
    Warn,
    /// Will not work.
    Fail,
}

impl State {
    /// Returns the word in tables and JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The subject.
    pub(super) subject: String,
    /// Its severity.
    pub(super) state: State,
    /// The finding.
    pub(super) text: String,
    /// The remedy.
    pub(super) fix: Option<String>,
    /// Whether a permission is missing.
    pub(super) is_denied: bool,
}

impl Row {
    /// Creates a finding without a problem.
    pub(super) fn ok(subject: &str, text: String) -> Self {
        Self { subject: subject.to_owned(), state: State::Ok, text, fix: None, is_denied: false }
    }

    /// Creates a warning.
    pub(super) fn warn(subject: &str, text: String, fix: Option<String>) -> Self {
        Self { state: State::Warn, fix, ..Self::ok(subject, text) }
    }

    /// Creates a failure.
    pub(super) fn fail(subject: &str, text: String, fix: Option<String>) -> Self {
        Self { state: State::Fail, fix, ..Self::ok(subject, text) }
    }

    /// Creates the finding for a failed request to the cluster.
    pub(super) fn cluster_error(subject: &str, cluster_error: &ClusterError) -> Self {
        let fix = match cluster_error {
            ClusterError::Denied(denied) => Some(denied.remedy()),
            ClusterError::Identity(_) | ClusterError::Unavailable(_) => None,
        };
        let is_denied = !matches!(cluster_error, ClusterError::Unavailable(_));
        Self { is_denied, ..Self::fail(subject, cluster_error.to_string(), fix) }
    }

    /// Formats the finding for a table, in one line, with a second line for the remedy.
    fn lines(&self, width: usize) -> String {
        let line = format!("{}  {:<5}  {}", filled(&self.subject, width), self.state.name(), self.text);
        match &self.fix {
            Some(fix) => format!("{line}\n{:<width$}         fix: {fix}", ""),
            None => line,
        }
    }

    fn json(&self) -> Value {
        json!({"subject": self.subject, "state": self.state.name(), "text": self.text, "fix": self.fix})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_remedy_another_one_below_the_text() {
        let row = Row::fail("a", "topic does not exist".to_owned(), Some("dupgate topics create --execute".to_owned()));
        let expected = "a         FAIL   topic does not exist\n                 fix: dupgate topics create --execute";
        assert_eq!(row.lines(8), expected);
    }

    #[test]
    fn the_command_that_is_named_reads_the_files_that_were_named() {
        let report = Report::new(Format::Json, &[], " -c a.yaml".to_owned());
        assert_eq!(report.create(), "dupgate topics create -c a.yaml --execute");
    }
}
