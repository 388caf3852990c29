//! `compare`: shows the distances of two pages, the judge's verdict on them, and what differs.

use clap::Args;
use dupgate_core::index::Refusal;
use serde::Serialize;
use serde_json::{Value, json};

use super::Global;
use super::output::{columns, print_report};
use super::page::{self, PageReader, Place};
use super::verdict::by_stage;
use crate::compare::{Comparison, Run, Side};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::deduplicator::{PairVerdict, Threshold};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::{Inspection, LowConfidence, Numbers, PerMille};
use crate::protocol::{MinHashRules, Stage};
use crate::quality::{contained, jaccard, set_of};
use crate::record;
use crate::text::{self, Analyzer, Digits};

/// Longest stretch of changed text that is shown to people, in characters.
const MAX_SHOWN: usize = 160;

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dupgate compare a.txt b.txt\n  dupgate compare pages.jsonl:17 pages.jsonl:203 -o json"
)]
pub struct CompareArgs {
    /// First page: a file, `FILE:LINE` for one of its lines or WARC records, or - for standard input
    #[arg(value_name = "A")]
    pub one: Place,
    /// Second page
    #[arg(value_name = "B")]
    pub other: Place,
    /// Format of the files [default: by extension: .txt, .html, .warc; otherwise `input.format`]
    #[arg(long = "as", value_parser = page::format(), value_name = "FORMAT")]
    pub format: Option<record::Format>,
    /// Number of changed passages to show; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    pub changes: usize,
}

/// The comparison of a pair.
struct Pair {
    one: Inspection,
    other: Inspection,
    outcome: PairVerdict,
    near: Nearness,
    diff: Diff,
    hint: Option<String>,
}

/// Distances of two pages, by every measure.
pub(super) struct Nearness {
    /// Whether the normalised texts are equal.
    pub(super) exact: bool,
    /// Differing bits.
    pub(super) bits: Option<u32>,
    /// Jaccard index of the shingles.
    pub(super) jaccard: Option<f64>,
    /// The same, as estimated by the sketches.
    pub(super) estimate: Option<PerMille>,
    /// Share of the smaller page in the other one, by shingles.
    pub(super) contains: Option<f64>,
    /// The same, as estimated by the sketches; `None` if they have no counts, or if the estimate would be left to
    /// chance.
    pub(super) contained: Option<PerMille>,
    /// Keys that both sketches have.
    pub(super) keys: Option<usize>,
    /// Share of the numbers of one page that are in the other.
    pub(super) number_overlap: Option<PerMille>,
    /// Number of kept numbers of each page.
    pub(super) numbers: [usize; 2],
}

impl Nearness {
    /// Measures the distances.
    pub(super) fn of(one: &Inspection, other: &Inspection, settings: &Settings) -> Self {
        let (a, b) = (&one.reading.fingerprints, &other.reading.fingerprints);
        let sets = [one, other].map(|page| set_of(&page.shingles));
        let [ours, theirs] = &sets;
        let estimate = settings.rules.minhash.map(|minhash| minhash.share_contained(a, b));
        let sketches = a.sketch.as_ref().zip(b.sketch.as_ref());
        let keys =
            sketches.zip(settings.rules.minhash).map(|((a, b), minhash)| minhash.banding.shared(minhash.form, a, b));
        let has_shingles = !ours.is_empty() && !theirs.is_empty();
        Self {
            exact: a.exact == b.exact,
            bits: a.distance(b),
            jaccard: has_shingles.then(|| jaccard(ours, theirs)),
            contains: has_shingles.then(|| contained(ours, theirs)),
            contained: estimate.flatten(),
            estimate: settings.fingerprint.minhash.form.and_then(|form| a.similarity(b, form)),
            keys,
            number_overlap: a.numbers.overlap(&b.numbers),
            numbers: [a, b].map(|page| page.numbers.hashes().len()),
        }
    }
}

/// Reads both pages, judges them, and prints what differs.
///
/// # Errors
///
/// A configuration that is refused, a page that cannot be read.
pub fn compare(args: &CompareArgs, global: &Global) -> Result<(), Fatal> {
    if args.one == args.other && args.one.path.as_os_str() == "-" {
        return Err(fatal!(Usage, "standard input holds one page, not two"));
    }
    let mut page_reader = PageReader::new(global.start(Purpose::Sieve)?.settings);
    let one = page_reader.open(&args.one, args.format)?;
    let other = page_reader.open(&args.other, args.format)?;
    let rules = &page_reader.settings.rules;
    let outcome = PairVerdict::of(rules, &one.reading, &other.reading).or_fatal(Reason::Bug)?;
    let near = Nearness::of(&one, &other, &page_reader.settings);
    let diff = diff(page_reader.analyzer()?, &one.text, &other.text);
    let mut pair = Pair { one, other, outcome, near, diff, hint: None };
    pair.hint = digits_hint(&pair, &page_reader)?;
    let settings = &page_reader.settings;
    print_report(global.format(), &pair.json(settings, args), || pair.table(settings, args.changes))
}

/// Returns what masking digits would do, if digits are compared and most of the differing text is digits.
fn digits_hint(pair: &Pair, page_reader: &PageReader) -> Result<Option<String>, Fatal> {
    let text = &page_reader.settings.text;
    let changed = || pair.diff.changes.iter().flat_map(|change| change.gone.chars().chain(change.come.chars()));
    let letters = changed().filter(|c| c.is_alphanumeric()).count();
    let digits = changed().filter(char::is_ascii_digit).count();
    if text.normalize.digits == Digits::Mask || digits * 2 <= letters {
        return Ok(None);
    }
    let masked =
        text::Settings { normalize: text::Normalize { digits: Digits::Mask, ..text.normalize }, ..text.clone() };
    let [one, other] = [page_reader.reread(&pair.one.text, &masked)?, page_reader.reread(&pair.other.text, &masked)?];
    let near = Nearness::of(&one, &other, &page_reader.settings);
    let distance = match near {
        Nearness { exact: true, .. } => "makes the texts equal".to_owned(),
        Nearness { bits: Some(bits), .. } => format!("brings the SimHash distance to {bits}"),
        Nearness { .. } => return Ok(None),
    };
    // The number guard may keep apart two pages whose prices differ, and masking digits would join them.
    let guard = pair.near.number_overlap.zip(page_reader.settings.rules.number_guard);
    let beware = if guard.is_some_and(|(shared, min)| shared < min) {
        ", and so it would pages that differ by a price or a result"
    } else {
        ""
    };
    Ok(Some(format!("most of what differs are digits; text.normalize.digits: mask {distance}{beware}")))
}

impl Pair {
    fn table(&self, settings: &Settings, max: usize) -> String {
        let mut rows: Vec<Vec<String>> = Stage::ALL.map(|stage| self.row(stage, settings)).to_vec();
        rows.extend(self.containment_row(settings));
        rows.extend(self.numbers_row(settings));
        let by_stage = self.outcome.verdict.original().map(|of| by_stage(of.by)).unwrap_or_default();
        rows.push(vec!["verdict".to_owned(), self.outcome.verdict.name().to_owned() + &by_stage]);
        if let Some(refusal) = self.outcome.refusal {
            rows.push(vec!["why".to_owned(), refusal.sentence(&settings.rules)]);
        }
        let which = if self.diff.is_cut { "beginnings of the normalised texts" } else { "normalised texts" };
        let equal = format!("{:.1} % of the {which}", self.diff.equal * 100.0);
        rows.push(vec!["equal".to_owned(), equal]);
        let mut lines = vec![columns(&rows)];
        let shown = if max == 0 { usize::MAX } else { max };
        for change in self.diff.changes.iter().take(shown) {
            let line = |mark: char, text: &str| format!("{mark} {}[{}]{}", change.before, short(text), change.after);
            lines.push(format!("\n{}\n{}", line('-', &change.gone), line('+', &change.come)));
        }
        let left = self.diff.changes.len().saturating_sub(shown);
        if left > 0 {
            lines.push(format!("\n({left} more changed places: --changes 0 shows all)"));
        }
        lines.extend(self.hint.as_ref().map(|hint| format!("\nhint: {hint}")));
        lines.join("\n")
    }

    /// Returns the row of one stage: what was measured, and what follows from it.
    fn row(&self, stage: Stage, settings: &Settings) -> Vec<String> {
        let near = &self.near;
        let measured = match stage {
            Stage::Exact => Some(if near.exact { "equal texts" } else { "other texts" }.to_owned()),
            Stage::SimHash => {
                let width = settings.fingerprint.simhash.bits.bits();
                near.bits.map(|bits| format!("{bits} of {width} bits differ"))
            }
            Stage::MinHash => near.estimate.map(|estimate| {
                let exact = near.jaccard.map_or_else(String::new, |jaccard| format!(", exactly {jaccard:.3}"));
                let keys = settings.rules.minhash.map_or_else(String::new, |minhash| {
                    format!("; {} of {} keys shared", near.keys.unwrap_or(0), minhash.banding.bands())
                });
                format!("similarity {estimate}{exact}{keys}")
            }),
        };
        let measured = measured.unwrap_or_else(|| "too little text".to_owned());
        vec![stage.name().to_owned(), measured, self.stage_outcome(stage, settings)]
    }

    /// Returns the row of the number guard. To decide, it needs two numbers on one page and one on the other.
    fn numbers_row(&self, settings: &Settings) -> Option<Vec<String>> {
        let (near, min) = (&self.near, settings.rules.number_guard?);
        let (measured, stage_outcome) = match near.number_overlap {
            Some(shared) => {
                let verb = if shared < min { "others" } else { "the same" };
                (format!("{shared} of the smaller page's are in the other"), verb)
            }
            None if near.exact || near.numbers == [0, 0] => return None,
            None => {
                let [one, other] = near.numbers.map(|kept| {
                    let more = if kept == Numbers::KEPT { " or more" } else { "" };
                    format!("{kept}{more}")
                });
                (format!("{one} and {other}"), "no say, too few")
            }
        };
        let limit = format!("{stage_outcome} (match.number_overlap is {min})");
        Some(vec!["numbers".to_owned(), measured, limit])
    }

    /// Returns the row of the share of the smaller page that is in the other, if the rules use containment.
    fn containment_row(&self, settings: &Settings) -> Option<Vec<String>> {
        let (minhash, near) = (settings.rules.minhash?, &self.near);
        let (min, exactly) = (minhash.containment?, near.contains?);
        let measured = near.contained.map_or("too little to tell".to_owned(), |share| share.to_string());
        let matches = near.contained.is_some_and(|share| share >= min) && near.keys.is_some_and(|keys| keys > 0);
        let verb = if matches { "match" } else { "no match" };
        Some(vec![
            "containment".to_owned(),
            format!("{measured} of the smaller page, exactly {exactly:.3}"),
            format!("{verb} (match.minhash.containment is {min})"),
        ])
    }

    fn stage_outcome(&self, stage: Stage, settings: &Settings) -> String {
        let Some(result) = self.outcome.stage(stage) else { return String::new() };
        let rules = &settings.rules;
        let verb = if result.matches { "match" } else { "no match" };
        let limit = match (stage, rules.minhash) {
            (Stage::Exact, _) => String::new(),
            (Stage::SimHash, _) => {
                let from = match result.from {
                    Some(Threshold::MaxDistance(bits)) if !result.matches => format!(", {bits} would match"),
                    None if self.near.bits.is_some() => ", none would match".to_owned(),
                    Some(_) | None => String::new(),
                };
                format!(" (match.simhash.max_distance is {}{from})", rules.max_distance)
            }
            (Stage::MinHash, Some(minhash)) => {
                let LowConfidence { below, containment, max_distance, .. } = minhash.low_confidence;
                let needed = self.keys_needed(minhash);
                let from = match result.from {
                    Some(Threshold::MinSimilarity(similarity)) => format!(", up to {similarity} matches"),
                    None if self.near.keys.is_some_and(|keys| keys < usize::from(needed)) => {
                        let keys = if needed == 1 { "key has" } else { "keys have" };
                        format!(", none would match: {needed} {keys} to be shared")
                    }
                    None if self.near.estimate.is_some() => {
                        let or = match max_distance {
                            0 => String::new(),
                            bits => format!("; or the SimHashes have to be within {bits} bits"),
                        };
                        let is = self.near.contained.unwrap_or_default();
                        format!(
                            ", none would match: below {below} the smaller page has to be in the other to {containment}, \
                             and is to {is}{or}"
                        )
                    }
                    Some(Threshold::MaxDistance(_)) | None => String::new(),
                };
                format!(" (match.minhash.min_similarity is {}{from})", minhash.min_similarity)
            }
            (Stage::MinHash, None) => " (there are no sketches: match.minhash.permutations is 0)".to_owned(),
        };
        let unused = if result.in_use { "" } else { ", but not in match.stages" };
        format!("{verb}{limit}{unused}")
    }

    /// Returns the number of keys that the second page must share with the first.
    fn keys_needed(&self, minhash: MinHashRules) -> u8 {
        minhash.keys_needed(u32::try_from(self.other.shingles.len()).ok())
    }

    fn json(&self, settings: &Settings, args: &CompareArgs) -> Value {
        let minhash = settings.rules.minhash;
        let page = |page: &Inspection, place: &Place| {
            let fp = page.reading.fingerprints.simhash.map(|simhash| simhash.to_string());
            json!({
                "place": place.to_string(), "id": page.reading.id_text, "characters": page.text.chars().count(),
                "fp": fp, "shingles": page.shingles.len(),
            })
        };
        let stage = |stage: Stage| {
            let result = self.outcome.stage(stage);
            let matches = result.is_some_and(|result| result.matches);
            (matches, result.is_some_and(|result| result.in_use), result.and_then(|result| result.from).map(threshold))
        };
        let ([exact, simhash, sketch], near) = (Stage::ALL.map(stage), &self.near);
        let original = self.outcome.verdict.original();
        json!({
            "scheme": settings.scheme().to_string(),
            "pages": [page(&self.one, &args.one), page(&self.other, &args.other)],
            "verdict": self.outcome.verdict.name(),
            "stage": original.map(|of| of.by.stage().name()),
            "refused_by": self.outcome.refusal.map(Refusal::name),
            "reason": self.outcome.refusal.map(|refusal| refusal.sentence(&settings.rules)),
            "exact": {"in_use": exact.1, "matches": exact.0},
            "simhash": {
                "in_use": simhash.1, "matches": simhash.0, "distance": near.bits,
                "max_distance": settings.rules.max_distance, "matches_from": simhash.2,
            },
            "minhash": {
                "in_use": sketch.1, "matches": sketch.0,
                "similarity": near.estimate.map(PerMille::share), "jaccard": near.jaccard,
                "min_similarity": minhash.map(|minhash| minhash.min_similarity.share()),
                "matches_up_to": sketch.2,
                "keys_shared": near.keys, "keys_needed": minhash.map(|minhash| self.keys_needed(minhash)),
                "low_confidence": minhash.map(|minhash| json!({
                    "below": minhash.low_confidence.below.share(), "containment": minhash.low_confidence.containment.share(),
                    "max_distance": minhash.low_confidence.max_distance,
                })),
            },
            "containment": {
                "matched": original.is_some_and(|of| of.by.contained().is_some()),
                "estimate": near.contained.map(PerMille::share), "exact": near.contains,
                "least": minhash.and_then(|minhash| minhash.containment).map(PerMille::share),
            },
            "numbers": {
                "overlap": near.number_overlap.map(PerMille::share), "kept": near.numbers,
                "number_overlap": settings.rules.number_guard.map(PerMille::share),
            },
            "equal_share": self.diff.equal, "is_cut": self.diff.is_cut, "changes": self.diff.changes, "hint": self.hint,
        })
    }
}

fn threshold(threshold: Threshold) -> Value {
    match threshold {
        Threshold::MaxDistance(bits) => bits.into(),
        Threshold::MinSimilarity(similarity) => similarity.share().into(),
    }
}

/// Cuts the middle out of a long text.
fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_SHOWN {
        return text.to_owned();
    }
    let half = MAX_SHOWN / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(length - half).collect();
    format!("{head} … {} characters … {tail}", length - 2 * half)
}

/// Changes that are closer together than this many characters are joined.
const NEAR: usize = 6;
/// Characters shown before and after a change.
const AROUND: usize = 20;

/// The differences.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Diff {
    /// The changes, in the order of the texts.
    pub(super) changes: Vec<Change>,
    /// Share of the characters of both texts that are equal, 0 to 1.
    pub(super) equal: f64,
    /// Whether only the beginning was compared, because a text is too long.
    pub(super) is_cut: bool,
}

/// One stretch of text that became another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    /// The end of the equal text before it.
    pub(super) before: String,
    /// What is only in the first text.
    pub(super) gone: String,
    /// What is only in the second text.
    pub(super) come: String,
    /// The beginning of the equal text after it.
    pub(super) after: String,
}

/// Compares two texts as [`crate::text::Analyzer::normalize`] leaves them, word by word.
pub(super) fn diff(analyzer: &Analyzer, one: &str, other: &str) -> Diff {
    let Comparison { runs, is_cut, .. } = Comparison::of(analyzer, one, other);
    let length =
        |side: Side| -> usize { runs.iter().filter(|run| run.side == side).map(|run| run.text.chars().count()).sum() };
    let (equal, changed) = (2 * length(Side::Both), length(Side::First) + length(Side::Second));
    #[expect(clippy::cast_precision_loss, reason = "a share of characters, for people")]
    let equal = if equal + changed == 0 { 1.0 } else { equal as f64 / (equal + changed) as f64 };
    Diff { changes: changes(&runs), equal, is_cut }
}

/// Joins changes that are close together, and adds the context of each.
fn changes(runs: &[Run]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    // Equal text after the last change.
    let mut equal = String::new();
    for Run { side, text } in runs {
        if *side == Side::Both {
            equal.push_str(text);
            continue;
        }
        let mut change = match changes.pop() {
            Some(Change { before, gone, come, .. }) if equal.chars().count() < NEAR => {
                Change { before, gone: gone + &equal, come: come + &equal, after: String::new() }
            }
            other => {
                changes.extend(other.map(|other| Change { after: first(&equal, AROUND), ..other }));
                Change { before: last(&equal, AROUND), ..Change::default() }
            }
        };
        equal.clear();
        if *side == Side::First { &mut change.gone } else { &mut change.come }.push_str(text);
        changes.push(change);
    }
    if let Some(last) = changes.last_mut() {
        last.after = first(&equal, AROUND);
    }
    changes
}

/// Returns the beginning of a text, up to a whole word if there are blanks.
fn first(text: &str, characters: usize) -> String {
    let head: String = text.chars().take(characters).collect();
    match head.rsplit_once(' ') {
        Some((whole, _)) if head.len() < text.len() => whole.to_owned(),
        Some(_) | None => head,
    }
}

/// Returns the end of a text, from a whole word on if there are blanks.
fn last(text: &str, characters: usize) -> String {
    let skipped = text.chars().count().saturating_sub(characters);
    let tail: String = text.chars().skip(skipped).collect();
    match tail.split_once(' ') {
        Some((_, whole)) if skipped > 0 => whole.to_owned(),
        Some(_) | None => tail,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Settings;

    fn diff(one: &str, other: &str) -> Diff {
        super::diff(&Analyzer::new(&Settings::default()).unwrap(), one, other)
    }

    fn change(before: &str, gone: &str, come: &str, after: &str) -> Change {
        let [before, gone, come, after] = [before, gone, come, after].map(str::to_owned);
        Change { before, gone, come, after }
    }

    #[test]
    fn changed_words_are_between_their_context() {
        let found = diff("the old hall burned. nobody was hurt.", "the new hall burned. nobody was hurt, they said.");
        let expected =
            [change("the ", "old", "new", " hall burned."), change("nobody was hurt", "", ", they said", ".")];
        assert_eq!(found.changes, expected);
        assert!((0.7..0.9).contains(&found.equal), "{}", found.equal);
    }

    #[test]
    fn chinese_is_compared_word_by_word() {
        let found = diff("本市气象台预计明日有大雨，市民应注意安全。", "本市气象台预计明日有小雪，市民应注意安全。");
        assert_eq!(found.changes, [change("本市气象台预计明日有", "大雨", "小雪", "，市民应注意安全。")]);
    }

    #[test]
    fn changes_close_together_are_one() {
        let found = diff("at 08:12 o'clock, 1024 readers", "at 21:40 o'clock, 3377 readers");
        assert_eq!(found.changes.len(), 2, "{found:?}");
        assert_eq!((found.changes[0].gone.as_str(), found.changes[0].come.as_str()), ("08:12", "21:40"));
    }

    #[test]
    fn equal_texts_have_no_change_and_unrelated_ones_one() {
        assert_eq!(diff("a b", "a b"), Diff { changes: Vec::new(), equal: 1.0, is_cut: false });
        assert_eq!(diff("", ""), Diff { changes: Vec::new(), equal: 1.0, is_cut: false });
        assert_eq!(diff("甲", "乙"), Diff { changes: vec![change("", "甲", "乙", "")], equal: 0.0, is_cut: false });
    }

    proptest! {
        /// Texts so short that the context of a change is not cut.
        #[test]
        fn removed_and_added_text_make_up_the_difference(one in "[ab甲乙. ]{0,18}", other in "[ab甲乙. ]{0,18}") {
            let found = diff(&one, &other);
            let (mut rest, mut made) = (one.as_str(), String::new());
            for change in &found.changes {
                rest = rest.strip_prefix(&change.before).unwrap().strip_prefix(&change.gone).unwrap();
                made = made + &change.before + &change.come;
            }
            prop_assert_eq!(made + rest, other);
        }
    }
}
