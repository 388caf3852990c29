//! `test`: judges pairs of pages and compares the verdicts with expected ones, to check changes of settings in
//! continuous integration.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use dupgate_core::index::Refusal;
use dupgate_core::worker::OutputKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Global;
use super::compare::Nearness;
use super::output::{Format, counted, print, print_json, table};
use super::page::{PageReader, Place};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::deduplicator::{LineVerdict, PairVerdict};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::{Inspection, PerMille};
use crate::protocol::{Stage, VerdictKind};
use crate::record::{self, Reject, Rejection};

/// Arguments of `test`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  dupgate test cases.yaml -c dupgate.yaml\n\n\
    A file of cases is a list:\n  \
    - name: price change only\n    \
      one: {text: \"Sold for 12 dollars.\"}\n    \
      other: {text: \"Sold for 15 dollars.\"}\n    \
      expect: near\n    \
      stage: minhash\n\n\
    A page is text, html, record: {url: ..., text: ...}, file: page.html or file: pages.jsonl:17.\n\
    expect is unique, exact, near, duplicate (exact or near), template, update or dead_letter; stage is optional.")]
pub struct TestArgs {
    /// Files of test cases
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// Outcome of one case.
struct Outcome {
    case: Case,
    got: &'static str,
    stage: Option<Stage>,
    /// Absent if a page was refused.
    near: Option<Nearness>,
    /// The rule that kept the pages from being duplicates.
    refusal: Option<Refusal>,
    /// Why the pages are not duplicates, a page was refused, or the case could not be run.
    why: Option<String>,
    /// The kind of failure, which decides the exit code, if the case could not be run.
    unread: Option<Reason>,
}

impl Outcome {
    fn passed(&self) -> bool {
        let expected = self.case.expect;
        let is_duplicate = VerdictKind::named(self.got).is_some_and(VerdictKind::is_duplicate);
        let verdict = self.got == expected.name() || (expected == Expected::Duplicate && is_duplicate);
        self.unread.is_none() && verdict && self.case.stage.is_none_or(|stage| self.stage == Some(stage.stage()))
    }
}

/// Judges the second page of each case right after the first, and prints unexpected results.
///
/// # Errors
///
/// A case that is not as expected or cannot be run, after all others have run; a configuration or a file of cases that
/// cannot be read.
pub fn test(args: &TestArgs, global: &Global) -> Result<(), Fatal> {
    let mut page_reader = PageReader::new(global.start(Purpose::Sieve)?.settings);
    let mut outcomes = Vec::new();
    for path in &args.files {
        let folder = path.parent().unwrap_or(Path::new(""));
        for case in read_cases(path)? {
            outcomes.push(run(&case, folder, &mut page_reader).unwrap_or_else(|fatal| {
                let (why, unread) = (Some(fatal.to_string()), Some(fatal.reason));
                Outcome { case, got: "nothing", stage: None, near: None, refusal: None, why, unread }
            }));
        }
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    match global.report_format() {
        Format::Table => {
            let rows = rows(&outcomes, &page_reader.settings);
            if !rows.is_empty() {
                print(&table(&["RESULT", "CASE", "EXPECTED", "GOT", "WHY"], &rows))?;
            }
            if failed == 0 {
                print(&format!("{}: all passed", counted(outcomes.len(), "case")))?;
            }
        }
        Format::Json => {
            let (cases, passed) = (outcomes.iter().map(object).collect::<Value>(), outcomes.len() - failed);
            print_json(&json!({"passed": passed, "failed": failed, "cases": cases}), Format::Json)?;
        }
        Format::Jsonl => outcomes.iter().try_for_each(|outcome| print_json(&object(outcome), Format::Jsonl))?,
    }
    if failed == 0 {
        return Ok(());
    }
    let unread: Vec<Reason> = outcomes.iter().filter_map(|outcome| outcome.unread).collect();
    let cases = counted(outcomes.len(), "case");
    let not_run =
        if unread.is_empty() { String::new() } else { format!(", {} of them could not be run", unread.len()) };
    // If the only failures are cases that could not be run, the settings are not at fault: report why.
    let reason = if unread.len() == failed { unread.first().copied() } else { None };
    let sum = anyhow::anyhow!("{failed} of {cases} not as expected{not_run}");
    Err(reason.unwrap_or(Reason::Failure).because(sum))
}

fn run(case: &Case, folder: &Path, page_reader: &mut PageReader) -> Result<Outcome, Fatal> {
    let case = case.clone();
    let one = read(&case.one, folder, page_reader)?;
    let other = read(&case.other, folder, page_reader)?;
    let one = one.map_err(|rejection| fatal!(Failure, "the first page is refused: {rejection}"))?;
    let other = match other {
        Ok(other) => other,
        Err(rejection) => {
            let why = Some(rejection.to_string());
            let got = LineVerdict::Dead(rejection).name();
            return Ok(Outcome { case, got, stage: None, near: None, refusal: None, why, unread: None });
        }
    };
    let pair_verdict = PairVerdict::of(&page_reader.settings.rules, &one.reading, &other.reading);
    let PairVerdict { verdict, refusal, .. } = pair_verdict.or_fatal(Reason::Bug)?;
    let near = Some(Nearness::of(&one, &other, &page_reader.settings));
    let stage = verdict.original().map(|of| of.by.stage());
    let why = refusal.map(|refusal| refusal.sentence(&page_reader.settings.rules));
    Ok(Outcome { case, got: verdict.name(), stage, near, refusal, why, unread: None })
}

fn read(page: &Page, folder: &Path, page_reader: &mut PageReader) -> Result<Result<Inspection, Rejection>, Fatal> {
    match page {
        Page::File(path) => {
            let path = folder.join(path).display().to_string();
            let place = Place::from_str(&path).map_err(|why| fatal!(Input, why))?;
            let (bytes, format) = page_reader.fetch(&place, None)?;
            page_reader.read(&bytes, format)
        }
        Page::Text(text) => page_reader.read(text.as_bytes(), record::Format::Text),
        Page::Html(html) => page_reader.read(html.as_bytes(), record::Format::Html),
        Page::Record(fields) => {
            let text = Value::Object(fields.clone()).to_string();
            page_reader.read(text.as_bytes(), record::Format::Json)
        }
    }
}

/// Returns one row for each case with an unexpected outcome.
fn rows(outcomes: &[Outcome], settings: &Settings) -> Vec<[String; 5]> {
    let by = |verdict: &str, stage: Option<Stage>| {
        stage.map_or_else(|| verdict.to_owned(), |stage| format!("{verdict} by {}", stage.name()))
    };
    let row = |outcome: &Outcome| {
        let Outcome { case, got, stage, near, why, unread, .. } = outcome;
        let why = why.clone().or_else(|| near.as_ref().map(|near| measured(near, settings))).unwrap_or_default();
        let result = if unread.is_some() { "ERROR" } else { "FAIL" }.to_owned();
        let expected = by(case.expect.name(), case.stage.map(StageName::stage));
        [result, format!("\"{}\"", case.name), expected, by(got, *stage), why]
    };
    outcomes.iter().filter(|outcome| !outcome.passed()).map(row).collect()
}

/// Formats distances with the limit of each stage and option in use, as in
/// `6 bits (limit 3), similarity 0.21 (limit 0.3)`.
fn measured(near: &Nearness, settings: &Settings) -> String {
    let rules = &settings.rules;
    let mut parts = Vec::new();
    if let Some(bits) = near.bits.filter(|_| rules.stages.contains(&Stage::SimHash)) {
        parts.push(format!("{bits} bits (limit {})", rules.max_distance));
    }
    let minhash = rules.minhash.filter(|_| rules.stages.contains(&Stage::MinHash));
    if let Some((estimate, minhash)) = near.estimate.zip(minhash) {
        parts.push(format!("similarity {estimate} (limit {})", minhash.min_similarity));
        let low_confidence = (estimate < minhash.low_confidence.below).then_some(minhash.low_confidence.containment);
        if let Some((contained, min)) = near.contained.zip(minhash.containment.or(low_confidence)) {
            parts.push(format!("containment {contained} (limit {min})"));
        }
    }
    if parts.is_empty() { "too little text".to_owned() } else { parts.join(", ") }
}

fn object(outcome: &Outcome) -> Value {
    let near = outcome.near.as_ref();
    json!({
        "name": outcome.case.name, "passed": outcome.passed(), "expected": outcome.case.expect.name(),
        "expected_stage": outcome.case.stage.map(|stage| stage.stage().name()), "got": outcome.got,
        "stage": outcome.stage.map(Stage::name), "refused_by": outcome.refusal.map(Refusal::name),
        "distance": near.and_then(|near| near.bits),
        "similarity": near.and_then(|near| near.estimate).map(PerMille::share),
        "containment": near.and_then(|near| near.contained).map(PerMille::share),
        "jaccard": near.and_then(|near| near.jaccard), "reason": outcome.why,
    })
}

/// Two pages, and the expected verdict on the second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The name of the case.
    name: String,
    /// The page that comes first.
    one: Page,
    /// The page that is judged.
    other: Page,
    /// The expected verdict.
    expect: Expected,
    /// The expected stage; any if absent.
    #[serde(default)]
    stage: Option<StageName>,
}

/// A page of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Page {
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
enum Expected {
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
    const fn name(self) -> &'static str {
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
enum StageName {
    /// Equal text.
    Exact,
    /// Few differing bits.
    Simhash,
    /// Similar sketches.
    Minhash,
}

impl StageName {
    /// Returns the stage.
    const fn stage(self) -> Stage {
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
fn read_cases(path: &Path) -> Result<Vec<Case>, Fatal> {
    let text =
        std::fs::read_to_string(path).map_err(|error| fatal!(Input, "cannot read {}: {error}", path.display()))?;
    let options = serde_saphyr::options! { with_snippet: false };
    let cases: Vec<Case> = serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| fatal!(Usage, "{}: {error}", path.display()))?;
    if cases.is_empty() {
        return Err(fatal!(Usage, "{}: the file contains no test case", path.display()));
    }
    Ok(cases)
}
