//! Shows the progress of a run on standard error: a bar on a terminal, else a log line every ten seconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use indicatif::ProgressBar;

use crate::cli::human;
use crate::cli::progress_bar::ProgressDisplay;
use crate::deduplicator::{LineVerdict, PageResult, place_of};
use crate::processing::lines::Line;
use crate::protocol::VerdictKind;
use crate::record::{FieldPath, Reject, Rejection};

/// Maximum number of dead letters to log one by one if no verdict line names them.
const MAX_LOGGED: u64 = 20;

/// The counts so far, and how to show them.
pub(super) struct Progress {
    pages: u64,
    bytes: u64,
    size: Option<u64>,
    verdicts: BTreeMap<&'static str, u64>,
    reasons: BTreeMap<&'static str, u64>,
    display: ProgressDisplay,
    shows_dead_letters: bool,
    /// Where ids are read, until a page has none there.
    id: Option<FieldPath>,
    without_id: u64,
}

impl Progress {
    /// Starts counting towards `size` bytes, if known. The first page without an id at `id` is logged. Dead letters are logged here if no verdict line names them.
    pub(super) fn new(size: Option<u64>, shows_dead_letters: bool, id: Option<FieldPath>) -> Self {
        Self {
            pages: 0,
            bytes: 0,
            size,
            verdicts: BTreeMap::new(),
            reasons: BTreeMap::new(),
            display: ProgressDisplay::new(size, template(size)),
            shows_dead_letters,
            id,
            without_id: 0,
        }
    }

    /// Counts one page.
    pub(super) fn note(&mut self, line: &Line, sifted: &PageResult) {
        self.pages += 1;
        self.bytes += line.cut.as_ref().map_or(line.bytes.len() as u64, |cut| cut.bytes);
        *self.verdicts.entry(sifted.verdict.name()).or_default() += 1;
        if let LineVerdict::Dead(rejection) = &sifted.verdict {
            self.note_dead(line, rejection);
        } else if sifted.id.is_none() {
            self.without_id += 1;
            if let Some(path) = self.id.take() {
                tracing::warn!(
                    target: "dupgate::cli",
                    source = place_of(&line.source),
                    "found no id at `{path}` (input.fields.id): the page cannot be recognised when it is crawled again"
                );
            }
        }
        let draw = |bar: &ProgressBar| {
            if self.pages.is_multiple_of(256) {
                bar.set_position(self.bytes);
                bar.set_message(format!("{} pages", self.pages));
            }
        };
        let log = || {
            let percent = self.size.map(|size| self.bytes * 100 / size.max(1));
            tracing::info!(target: "dupgate::cli", pages = self.pages, bytes = self.bytes, percent, "sieving");
        };
        self.display.show(draw, log);
    }

    fn note_dead(&mut self, line: &Line, rejection: &Rejection) {
        *self.reasons.entry(rejection.reason().name()).or_default() += 1;
        if !self.shows_dead_letters {
            return;
        }
        let dead = self.verdicts.get(Reject::DEAD_LETTER).copied().unwrap_or(0);
        if dead <= MAX_LOGGED {
            tracing::warn!(target: "dupgate::cli", source = place_of(&line.source), "{rejection}");
        }
    }

    /// Returns the summary.
    pub(super) fn finish(self) {
        self.display.finish();
        let mut reasons = String::new();
        for (reason, count) in &self.reasons {
            let gap = if reasons.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(reasons, "{gap}{reason} {count}");
        }
        if self.display.bar().is_some() {
            let shown: Vec<String> =
                self.verdicts.iter().map(|(name, count)| format!("{name} {}", human::count(*count))).collect();
            let why = if reasons.is_empty() { String::new() } else { format!("  ({reasons})") };
            crate::cli::note(&format!("{} pages: {}{why}", human::count(self.pages), shown.join("  ")));
            return;
        }
        let reasons = Some(reasons).filter(|reasons| !reasons.is_empty());
        let of = |name: &str| self.verdicts.get(name).copied().unwrap_or(0);
        let [unique, update, template, exact, near] =
            [VerdictKind::Unique, VerdictKind::Update, VerdictKind::Template, VerdictKind::Exact, VerdictKind::Near]
                .map(|kind| of(kind.name()));
        let dead_letter = of(Reject::DEAD_LETTER);
        let without_id = Some(self.without_id).filter(|pages| *pages > 0);
        tracing::info!(
            target: "dupgate::cli",
            pages = self.pages, unique, update, template, exact, near, dead_letter, reasons, without_id, "sieved"
        );
    }
}

const fn template(size: Option<u64>) -> &'static str {
    match size {
        Some(_) => "sieve {bar:28} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  left {eta}",
        None => "sieve {spinner} {bytes}  {bytes_per_sec}  {msg}",
    }
}
