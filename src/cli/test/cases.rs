//! Reads files of cases: pairs of pages with the expected verdict.

use std::path::Path;

use dupgate_core::worker::OutputKind;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Fatal, Reason};
use crate::protocol::{Stage, VerdictKind};
use crate::record::Reject;

/// Two pages, and the expected verdict on the second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// The name of the case.
    pub(super) name: String,
    /// The page that comes first.
    pub(super) one: Page,
    /// The page that is judged.
    pub(super) other: Page,
    /// The expected verdict.
    pub(super) expect: Expected,
    /// The expected stage; any if absent.
    #[serde(default)]
    pub(super) stage: Option<StageName>,
}

/// A page of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Page {
    /// In a file, or in one line of a file (`pages.jsonl:17`), relative to the folder of the cases.
    File(String),
    /// Written in the case itself, as plain text.
    Text(String),
    /// Written in the case itself, as HTML.
    Html(String),
    /// Written in the case itself, as the fields of a record, which are read by `input.fields`.
    Record(Map<String, Value>),
}

/// A verdict, as sieve and the service name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expected {
    /// Not similar to the first page.
    Unique,
    /// Equal text.
    Exact,
    /// Near text.
    Near,
    /// Near text with other numbers.
    Template,
    /// Equal or near text.
    Duplicate,
    /// A new text of the same page.
    Update,
    /// No verdict: the page is refused.
    DeadLetter,
}

impl Expected {
    /// Returns the name, as it is written.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unique => VerdictKind::Unique.name(),
            Self::Exact => VerdictKind::Exact.name(),
            Self::Near => VerdictKind::Near.name(),
            Self::Template => VerdictKind::Template.name(),
            Self::Duplicate => OutputKind::Duplicate.name(),
            Self::Update => VerdictKind::Update.name(),
            Self::DeadLetter => Reject::DEAD_LETTER,
        }
    }
}

/// The name of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StageName {
    /// Equal text.
    Exact,
    /// Few differing bits.
    Simhash,
    /// Similar sketches.
    Minhash,
}

impl StageName {
    /// Returns the stage.
    pub(super) const fn stage(self) -> Stage {
        match self {
            Self::Exact => Stage::Exact,
            Self::Simhash => Stage::SimHash,
            Self::Minhash => Stage::MinHash,
        }
    }
}

/// Reads a file of cases.
///
/// # Errors
///
/// A file that cannot be read, or that is not a list of cases; the message names the line.
pub(super) fn read(path: &Path) -> Result<Vec<Case>, Fatal> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Reason::Input.because(anyhow::Error::from(error).context(format!("cannot read {}", path.display())))
    })?;
    let options = serde_saphyr::options! { with_snippet: false };
    let cases: Vec<Case> = serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| Reason::Usage.because(anyhow::anyhow!("{}: {error}", path.display())))?;
    if cases.is_empty() {
        return Err(Reason::Usage.because(anyhow::anyhow!("{}: the file contains no test case", path.display())));
    }
    Ok(cases)
}
