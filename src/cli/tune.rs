//! `tune`: tries thresholds on a sample of pages, with cautions if it is small or the index large, and writes pairs to
//! review as one self-contained HTML page. `tune stop-shingles` lists shingles that many pages share.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use super::Global;
use super::html::{self, Named, escaped};
use super::output::{self, print_report, table, write_file};
use super::page::{deduplicator, fingerprinter, guarded};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::deduplicator::{Route, place_of};
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::{
    Fingerprinter, Inspection, MAX_DISTANCE, PerMille, STOP_SHINGLES_HEAD, Scratch, ShingleBuffer, Shingling,
};
use crate::processing::lines::{self, Line};
use crate::protocol::Stage;
use crate::quality::{Alike, Frequent, Sample, Share, Sweep, Tried, frequent, set_of};
use crate::text::Analyzer;

/// The threshold of the reference if neither the sample nor the configuration gives one.
const WITHOUT_SKETCHES: PerMille = PerMille(500);

/// Arguments of `tune`.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  dupgate tune pages.jsonl\n  dupgate tune pages.jsonl -c dupgate.yaml --truth 0.5 --html pairs.html\n  \
                  dupgate tune stop-shingles pages.jsonl --write stop-shingles.txt"
)]
pub struct TuneArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Option<TuneCommand>,
    /// Files of JSON lines (by `input.fields`); standard input if none is given, or for -
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Number of pages to compare, evenly sampled from all
    #[arg(long, value_name = "PAGES", default_value_t = 4000)]
    pub sample: usize,
    /// Jaccard index from which two pages count as duplicates [default: above that of unrelated pages]
    #[arg(long, value_name = "INDEX")]
    pub truth: Option<f64>,
    /// File that is written, with the pairs to review
    #[arg(long, value_name = "FILE", default_value = "tune-pairs.html")]
    pub html: PathBuf,
    /// Number of pairs to review
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    pub look: usize,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum TuneCommand {
    /// Find shingles that many pages share, and write them as a list for `match.minhash.stop_shingles`
    StopShingles(StopArgs),
}

/// A page of the sample.
struct Sampled {
    place: String,
    id: Option<String>,
    text: String,
    sample: Sample,
}

/// Compares all pairs of a sample, tries the thresholds, and writes the doubtful pairs as one HTML page.
///
/// # Errors
///
/// A configuration that is refused, an input that cannot be read, a sample without a pair, a page that cannot be
/// written.
pub fn tune(args: &TuneArgs, global: &Global) -> Result<(), Fatal> {
    if let Some(TuneCommand::StopShingles(args)) = &args.command {
        return stop_shingles(args, global);
    }
    if let Some(truth) = args.truth.filter(|truth| !(0.0..=1.0).contains(truth)) {
        return Err(fatal!(Usage, "--truth {truth} is not a Jaccard index (expected 0 to 1)"));
    }
    let settings = global.start(Purpose::Sieve)?.settings;
    lines::hold(settings.record.format)?;
    let reader = fingerprinter(&settings.record, &settings)?;
    let (pages, refused) = sampled(args, &settings, &reader)?;
    if refused > 0 {
        super::note(&format!("{refused} lines hold no page that can be judged; they are left out"));
    }
    let samples: Vec<Sample> = pages.iter().map(|page| page.sample.clone()).collect();
    let sweep = Sweep::of(&samples, settings.rules.minhash);
    if sweep.alike.is_empty() {
        return Err(fatal!(Failure, "no two of {} pages are similar: thresholds cannot be tried", pages.len()));
    }
    let tuned = Tuned::of(&sweep, args.truth, pages.len(), &settings);
    let doubtful = sweep.doubtful(tuned.truth, tuned.bits, tuned.similarity, args.look);
    write_file(&args.html, &html(reader.analyzer(), &pages, &doubtful, &tuned))?;
    print_report(global.format(), &tuned.json(&settings), || {
        tuned.table(&settings, doubtful.len(), &args.html.display().to_string())
    })
}

/// Reads the sample: every n-th page that can be read, up to a maximum. Also returns the number of lines that hold no
/// such page.
fn sampled(args: &TuneArgs, settings: &Settings, reader: &Fingerprinter) -> Result<(Vec<Sampled>, usize), Fatal> {
    let (mut pages, mut refused, mut buffer) = (Vec::new(), 0, ShingleBuffer::default());
    for line in sample(&args.files, args.sample, settings)? {
        let Ok(Inspection { reading, text, .. }) = guarded(|| reader.inspect(&line.record()?)) else {
            refused += 1;
            continue;
        };
        let mut hashes = Vec::new();
        settings.fingerprint.minhash.shingle.hashes(reader.analyzer(), &text, &mut buffer, &mut hashes);
        settings.fingerprint.minhash.stop.drop_from(&mut hashes);
        let (simhash, sketch) = (reading.fingerprints.simhash, reading.fingerprints.sketch);
        let sample = Sample { simhash, sketch, shingles: set_of(&hashes) };
        pages.push(Sampled { place: place_of(&line.source), id: reading.id_text, text, sample });
    }
    Ok((pages, refused))
}

/// Returns at most `max` lines, evenly sampled from all.
fn sample(files: &[PathBuf], max: usize, settings: &Settings) -> Result<Vec<Line>, Fatal> {
    let (inputs, _) = lines::open(files, settings.record.max_document).or_fatal(Reason::Input)?;
    let mut all = Vec::new();
    for mut input in inputs {
        while let Some(lines) = Some(input.batch().or_fatal(Reason::Input)?).filter(|lines| !lines.is_empty()) {
            all.extend(lines);
        }
    }
    let step = all.len().div_ceil(max.max(1)).max(1);
    Ok(all.into_iter().step_by(step).collect())
}

/// The results.
struct Tuned {
    pages: usize,
    pairs: usize,
    truth: f64,
    /// The source of the reference's threshold, unless it is `--truth`.
    source: &'static str,
    by_bits: Vec<(u8, Tried)>,
    by_similarity: Vec<(PerMille, Tried)>,
    /// Recommended distance.
    bits: u8,
    /// Recommended similarity.
    similarity: PerMille,
}

impl Tuned {
    fn of(sweep: &Sweep, given: Option<f64>, pages: usize, settings: &Settings) -> Self {
        let minhash = settings.rules.minhash;
        let configured = minhash.map_or(WITHOUT_SKETCHES, |minhash| minhash.min_similarity);
        let (truth, source) = match (given, sweep.valley()) {
            (Some(truth), _) => (truth, ""),
            // The valley between unrelated texts and copies.
            (None, Some(truth)) => (truth, ", above unrelated pages"),
            (None, None) => (configured.share(), ", as configured: the sample does not show where unrelated pages end"),
        };
        let similarities = (1..=9).map(|tenths| PerMille(tenths * 100)).filter(|_| minhash.is_some());
        let similarity = PerMille::rounded(truth).unwrap_or(PerMille::ONE);
        Self {
            pages,
            pairs: sweep.alike.len(),
            truth,
            source,
            by_bits: (0..=MAX_DISTANCE).map(|bits| (bits, sweep.bits(bits, truth))).collect(),
            by_similarity: similarities.map(|min| (min, sweep.similarity(min, truth))).collect(),
            bits: sweep.recommended_bits(truth).unwrap_or(settings.rules.max_distance),
            similarity,
        }
    }

    fn table(&self, settings: &Settings, looked: usize, html: &str) -> String {
        let Self { pages, pairs, truth, source, .. } = self;
        let mut parts = vec![format!(
            "{pages} pages, {pairs} similar pairs; precision and recall count pairs with a Jaccard index of {truth} or more as duplicates{source}\n"
        )];
        let rules = &settings.rules;
        let heads = |threshold| [threshold, "PAGES WITH A MATCH", "PAIRS", "PRECISION", "RECALL", ""];
        let row = |(bits, tried): &(u8, Tried)| {
            self.row(bits.to_string(), tried, *bits == rules.max_distance, *bits == self.bits)
        };
        parts.push(table(&heads("BITS"), &self.by_bits.iter().map(row).collect::<Vec<_>>()) + "\n");
        let mut recommended = format!("recommended: match.simhash.max_distance: {}", self.bits);
        if !self.by_similarity.is_empty() {
            let now = rules.minhash.map(|minhash| minhash.min_similarity);
            let row = |(min, tried): &(PerMille, Tried)| {
                self.row(min.to_string(), tried, now == Some(*min), *min == self.similarity)
            };
            parts.push(table(&heads("SIMILARITY"), &self.by_similarity.iter().map(row).collect::<Vec<_>>()) + "\n");
            recommended = format!("{recommended}, match.minhash.min_similarity: {}", self.similarity);
        }
        parts.push(recommended);
        parts.extend(Caution::of(self, settings).line());
        parts.push(format!("{looked} pairs to review were written to {html}"));
        parts.join("\n")
    }

    fn row(&self, threshold: String, tried: &Tried, is_now: bool, is_recommended: bool) -> [String; 6] {
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        #[expect(clippy::cast_precision_loss, reason = "counts of pages")]
        let near = tried.near as f64 / self.pages.max(1) as f64;
        let mark = match (is_now, is_recommended) {
            (true, true) => "as configured, recommended",
            (true, false) => "as configured",
            (false, true) => "recommended",
            (false, false) => "",
        };
        let [near, precision, recall] = [near, tried.pairs.precision(), tried.pairs.recall()].map(share);
        [threshold, near, tried.pairs.said.to_string(), precision, recall, mark.to_owned()]
    }

    fn json(&self, settings: &Settings) -> Value {
        let tried = |threshold: Value, tried: &Tried| {
            json!({
                "threshold": threshold, "pages_near": tried.near, "pairs": tried.pairs.said,
                "precision": tried.pairs.precision(), "recall": tried.pairs.recall(),
            })
        };
        let bits = self.by_bits.iter().map(|(bits, of)| tried((*bits).into(), of));
        let similarity = self.by_similarity.iter().map(|(min, of)| tried(min.share().into(), of));
        json!({
            "pages": self.pages, "pairs": self.pairs, "truth": self.truth, "max_distance": bits.collect::<Value>(),
            "min_similarity": similarity.collect::<Value>(),
            "sample": Caution::of(self, settings).json(),
            "recommended": {
                "match.simhash.max_distance": self.bits,
                "match.minhash.min_similarity": (!self.by_similarity.is_empty()).then(|| self.similarity.share()),
            },
        })
    }
}

/// Number of pages a sample needs to show the similarity of unrelated pages.
const ENOUGH_PAGES: usize = 2000;

/// Number of duplicate pairs a sample needs to show the distances of copies.
const ENOUGH_PAIRS: u64 = 50;

const SECONDS_A_DAY: f64 = 86_400.0;

/// Cautions about a recommendation.
struct Caution {
    pages: usize,
    /// Pairs that are duplicates by the reference.
    duplicates: u64,
    /// Keys whose recommended value is the first or last one of those tried.
    at_limit: Vec<&'static str>,
    bits: u8,
    chance: Option<Chance>,
}

/// Matches by chance in a full index at the recommended distance.
#[derive(Serialize)]
struct Chance {
    max_entries: u64,
    /// Expected matches of one page.
    a_page: f64,
    /// Expected matches per day, if the index fills up within its window.
    a_day: f64,
}

impl Chance {
    /// Computes the expected matches; `None` if `SimHash`es are not compared.
    fn of(bits: u8, settings: &Settings) -> Option<Self> {
        let rules = &settings.rules;
        let max_entries = rules.max_entries;
        let a_page = settings.fingerprint.simhash.bits.expected_chance_matches(bits, max_entries);
        let window = rules.windows.simhash.as_secs_f64().max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let a_day = a_page * max_entries as f64 * SECONDS_A_DAY / window;
        rules.stages.contains(&Stage::SimHash).then_some(Self { max_entries, a_page, a_day })
    }
}

impl Caution {
    fn of(tuned: &Tuned, settings: &Settings) -> Self {
        let mut at_limit = Vec::new();
        if [0, MAX_DISTANCE].contains(&tuned.bits) {
            at_limit.push("match.simhash.max_distance");
        }
        let tried = [tuned.by_similarity.first(), tuned.by_similarity.last()];
        if tried.into_iter().flatten().any(|(min, _)| *min == tuned.similarity) {
            at_limit.push("match.minhash.min_similarity");
        }
        let duplicates = tuned.by_bits.first().map_or(0, |(_, tried)| tried.pairs.planted);
        Self { pages: tuned.pages, duplicates, at_limit, bits: tuned.bits, chance: Chance::of(tuned.bits, settings) }
    }

    const fn is_small(&self) -> bool {
        self.pages < ENOUGH_PAGES || self.duplicates < ENOUGH_PAIRS
    }

    /// Returns the line for people; `None` without a caution.
    fn line(&self) -> Option<String> {
        let limit = (!self.at_limit.is_empty())
            .then(|| format!("the recommended {} is the last value of its range", self.at_limit.join(" and ")));
        let pages = output::count(self.pages as u64);
        let small = self.is_small().then(|| {
            let [pairs, enough, copies] = [self.duplicates, ENOUGH_PAGES as u64, ENOUGH_PAIRS].map(output::count);
            format!("{pages} pages with {pairs} pairs of duplicates are a small sample (take {enough} pages, {copies} pairs)")
        });
        let begin = small.into_iter().chain(limit).reduce(|small, limit| format!("{small}; {limit}"))?;
        let chance = self.chance.as_ref().map(|chance| {
            format!(
                "; unrelated pages in an index of {} come closer than in {pages} pages: with match.simhash.max_distance {} about {} \
                 pages a day match by chance, if the index fills within its window and codes are random (those of texts are closer)",
                output::count(chance.max_entries),
                self.bits,
                a_day(chance.a_day)
            )
        });
        Some(format!("caution: {begin}{}", chance.unwrap_or_default()))
    }

    fn json(&self) -> Value {
        json!({
            "pages": self.pages, "duplicate_pairs": self.duplicates, "is_small": self.is_small(),
            "at_limit": self.at_limit, "chance_matches": self.chance, "caution": self.line(),
        })
    }
}

/// Formats a number of pages per day, as a whole number from ten on.
fn a_day(count: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count that is at least ten")]
    if count < 10.0 { output::expected(count) } else { output::count(count.round() as u64) }
}

/// Writes the page.
fn html(analyzer: &Analyzer, pages: &[Sampled], pairs: &[Alike], tuned: &Tuned) -> String {
    let mut out = html::begin("dupgate tune", None);
    // Writing to a `String` cannot fail.
    let _ = write!(
        out,
        "<h1>{} pairs to review</h1>\n<p>Are these duplicates? The reference calls pairs with a Jaccard index of {} or more duplicates. First come \
         the pairs on which it and the recommended thresholds disagree, then those nearest to its border.</p>\n",
        pairs.len(),
        tuned.truth
    );
    for alike in pairs {
        let (Some(one), Some(other)) = (pages.get(alike.one), pages.get(alike.other)) else { continue };
        section(&mut out, analyzer, alike, [one, other], tuned.truth);
    }
    html::end(&mut out, None);
    out
}

fn section(out: &mut String, analyzer: &Analyzer, alike: &Alike, pages: [&Sampled; 2], truth: f64) {
    let verdict = if alike.jaccard >= truth { "duplicate" } else { "not the same" };
    let bits = alike.bits.map_or_else(|| "no SimHash".to_owned(), |bits| format!("{bits} bits"));
    let estimate = alike.estimate.map(|estimate| format!("estimated {estimate}"));
    let estimate = estimate.unwrap_or_else(|| "not compared by sketches".to_owned());
    let _ = writeln!(
        out,
        "<section><h2>Jaccard index {:.3}: {verdict} <small>{bits}, {estimate}</small></h2>",
        alike.jaccard
    );
    let [one_name, other_name] = pages.map(|page| {
        let id = page.id.as_ref().map(|id| format!(" {id}"));
        escaped(&format!("{}{}", page.place, id.unwrap_or_default()))
    });
    let [one, other] = pages;
    let one = Named { name: &one_name, text: &one.text };
    html::pair(out, analyzer, one, Named { name: &other_name, text: &other.text });
    out.push_str("</section>\n");
}

/// Arguments of `tune stop-shingles`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dupgate tune stop-shingles pages.jsonl --write stop-shingles.txt\n  \
                  dupgate tune stop-shingles pages.jsonl -c dupgate.yaml --share 0.02 --other 0.05")]
pub struct StopArgs {
    /// Files of JSON lines (by `input.fields`); standard input if none is given, or for -
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Share of Chinese pages above which a Chinese shingle is listed
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub share: f64,
    /// The same for other shingles and pages
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub other: f64,
    /// Number of pages to read, evenly sampled from all
    #[arg(long, value_name = "PAGES", default_value_t = 20_000)]
    pub sample: usize,
    /// Lowest number of pages that share a listed shingle
    #[arg(long, value_name = "PAGES", default_value_t = 10)]
    pub min_pages: u32,
    /// File for the list
    #[arg(long, value_name = "FILE", default_value = "stop-shingles.txt")]
    pub write: PathBuf,
}

/// Counts the pages of a sample that have each shingle, leaving copies out, and writes the frequent shingles.
///
/// # Errors
///
/// A configuration that is refused, an input that cannot be read, a sample without pages, a list that cannot be
/// written.
fn stop_shingles(args: &StopArgs, global: &Global) -> Result<(), Fatal> {
    for (name, share) in [("--share", args.share), ("--other", args.other)] {
        if !(share > 0.0 && share <= 1.0) {
            return Err(fatal!(Usage, "{name} {share} is not a share (expected more than 0, to 1)"));
        }
    }
    let settings = global.start(Purpose::Sieve)?.settings;
    lines::hold(settings.record.format)?;
    let reader = fingerprinter(&settings.record, &settings)?;
    let (texts, pages) = uniques(args, &settings, &reader)?;
    if texts.is_empty() {
        return Err(fatal!(Failure, "no page can be read: there is nothing to count"));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let shingling = settings.fingerprint.minhash.shingle;
    let share = Share { han: args.share, other: args.other, least: args.min_pages.max(2) };
    let found = frequent(&texts, reader.analyzer(), shingling, share);
    write_file(&args.write, &list(&found, args, shingling))?;
    let dropped: u64 = found.shingles.iter().map(|(_, count)| u64::from(*count)).sum();
    let (unique, shingles, file) = (texts.len(), found.shingles.len(), args.write.display().to_string());
    let Frequent { all, han_pages, other_pages, .. } = found;
    let report = json!({
        "pages": pages, "unique": unique, "han_pages": han_pages, "other_pages": other_pages, "shingles": shingles,
        "of_all": all, "dropped": dropped, "file": file,
    });
    print_report(global.format(), &report, || {
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let part = dropped as f64 * 100.0 / all.max(1) as f64;
        format!(
            "{pages} pages, {unique} of them no copies: {han_pages} Chinese, {other_pages} others\n\
             {shingles} shingles are frequent, {part:.1} % of all in these pages; they were written to {file}\n\
             match.minhash.stop_shingles: {file}"
        )
    })
}

/// Reads the sample, and keeps the texts that the judge calls unique: copies would make their own shingles frequent.
fn uniques(args: &StopArgs, settings: &Settings, reader: &Fingerprinter) -> Result<(Vec<String>, usize), Fatal> {
    let mut sieve = deduplicator(settings.rules.clone());
    let (mut texts, mut pages, mut refused, mut scratch) = (Vec::new(), 0, 0, Scratch::default());
    for line in sample(&args.files, args.sample, settings)? {
        let Ok(reading) = guarded(|| reader.read(&line.record()?, &mut scratch)) else {
            scratch = Scratch::default();
            refused += 1;
            continue;
        };
        pages += 1;
        let sifted = sieve.judge(line.source.clone(), Ok(reading)).or_fatal(Reason::Bug)?;
        if sifted.verdict.route() == Route::Unique {
            texts.extend(guarded(|| reader.normal_text(&line.record()?)).ok());
        }
    }
    if refused > 0 {
        super::note(&format!("{refused} lines hold no page that can be judged; they are left out"));
    }
    Ok((texts, pages))
}

/// Writes the list as [`crate::fingerprint::StopShingles::parse`] reads it, with its origin.
fn list(found: &Frequent, args: &StopArgs, Shingling { unit, lengths }: Shingling) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "{STOP_SHINGLES_HEAD}");
    let _ = writeln!(
        out,
        "# of {} (Chinese) or {} {}, in {} of {} Chinese pages or {} of {} others, the most frequent first",
        lengths.han,
        lengths.other,
        unit.name(),
        args.share,
        found.han_pages,
        args.other,
        found.other_pages
    );
    for (shingle, _) in &found.shingles {
        let _ = writeln!(out, "{shingle}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caution(pages: usize, duplicates: u64, at_limit: Vec<&'static str>) -> Caution {
        let chance = Chance { max_entries: 8_000_000, a_page: 0.002, a_day: 6012.4 };
        Caution { pages, duplicates, at_limit, bits: 8, chance: Some(chance) }
    }

    #[test]
    fn a_large_sample_with_a_recommendation_inside_the_range_needs_no_caution() {
        assert_eq!(caution(2000, 50, Vec::new()).line(), None);
        for small in [caution(1999, 50, Vec::new()), caution(2000, 49, Vec::new())] {
            assert!(small.line().unwrap().contains(
                " are a small sample (take 2,000 pages, 50 pairs); unrelated pages in an index of 8,000,000 "
            ));
        }
        let line = caution(4000, 900, vec!["match.simhash.max_distance"]).line().unwrap();
        assert!(
            line.starts_with("caution: the recommended match.simhash.max_distance is the last value of its range; "),
            "{line}"
        );
        assert!(line.contains("with match.simhash.max_distance 8 about 6,012 pages a day match by chance"), "{line}");
    }
}
