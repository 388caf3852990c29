//! One finding of `check`.

use crate::kafka::survey::Trouble;

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Works, but something will be amiss.
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
    /// What was looked at.
    pub(super) subject: String,
    /// How it stands.
    pub(super) state: State,
    /// What was seen.
    pub(super) text: String,
    /// What mends it.
    pub(super) fix: Option<String>,
    /// Whether a permission is missing.
    pub(super) is_denied: bool,
}

impl Row {
    /// All is well.
    pub(super) fn ok(subject: &str, text: String) -> Self {
        Self { subject: subject.to_owned(), state: State::Ok, text, fix: None, is_denied: false }
    }

    /// Something will be amiss.
    pub(super) fn warn(subject: &str, text: String, fix: Option<String>) -> Self {
        Self { state: State::Warn, fix, ..Self::ok(subject, text) }
    }

    /// It will not work.
    pub(super) fn fail(subject: &str, text: String, fix: Option<String>) -> Self {
        Self { state: State::Fail, fix, ..Self::ok(subject, text) }
    }

    /// The cluster did not let us look.
    pub(super) fn trouble(subject: &str, trouble: &Trouble) -> Self {
        let fix = match trouble {
            Trouble::Denied(denied) => Some(denied.remedy()),
            Trouble::Identity(_) | Trouble::Away(_) => None,
        };
        let is_denied = !matches!(trouble, Trouble::Away(_));
        Self { is_denied, ..Self::fail(subject, trouble.to_string(), fix) }
    }

    /// Lays it out for a table: one line, and one more for the remedy.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let mut lines = vec![vec![self.subject.clone(), self.state.name().to_owned(), self.text.clone()]];
        lines.extend(self.fix.iter().map(|fix| vec![String::new(), String::new(), format!("fix: {fix}")]));
        lines
    }
}
