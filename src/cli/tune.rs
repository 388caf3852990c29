//! `tune`: tries thresholds on a sample of pages, with cautions if it is small or the index large, and writes pairs to
//! review as one self-contained HTML page.

mod stop;

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::html::{self, Named, escaped};
use super::output::{self, Format, columns, print, print_json};
use super::page::guarded;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::deduplicator::place_of;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Fingerprinter, Inspection, MAX_DISTANCE, PerMille, ShingleBuffer};
use crate::processing::lines::{self, Line};
use crate::protocol::Stage;
use crate::quality::{Alike, Sample, Sweep, Tried, set_of};
use crate::text::Analyzer;

/// Thresholds of the `minhash` stage that are tried.
const SIMILARITIES: [PerMille; 9] = [
    PerMille(100),
    PerMille(200),
    PerMille(300),
    PerMille(400),
    PerMille(500),
    PerMille(600),
    PerMille(700),
    PerMille(800),
    PerMille(900),
];

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
    StopShingles(stop::StopArgs),
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
        return stop::stop(args, global);
    }
    if let Some(truth) = args.truth.filter(|truth| !(0.0..=1.0).contains(truth)) {
        return Err(Reason::Usage.because(anyhow::anyhow!("--truth {truth} is not a Jaccard index (expected 0 to 1)")));
    }
    let settings = global.start(Purpose::Sieve)?.settings;
    lines::hold(settings.record.format)?;
    let reader = Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN)
        .map_err(|error| Reason::Config.because(error))?;
    let (pages, refused) = sampled(args, &settings, &reader)?;
    if refused > 0 {
        super::note(&format!("{refused} lines hold no page that can be judged; they are left out"));
    }
    let samples: Vec<Sample> = pages.iter().map(|page| page.sample.clone()).collect();
    let sweep = Sweep::of(&samples, settings.rules.minhash);
    if sweep.alike.is_empty() {
        let why = format!("no two of {} pages are similar: thresholds cannot be tried", pages.len());
        return Err(Reason::Failure.because(anyhow::anyhow!(why)));
    }
    let tuned = Tuned::of(&sweep, args.truth, pages.len(), &settings);
    let doubtful = sweep.doubtful(tuned.truth, tuned.bits, tuned.similarity, args.look);
    let html = html(reader.analyzer(), &pages, &doubtful, &tuned);
    std::fs::write(&args.html, html).map_err(|error| {
        let name = args.html.display();
        Reason::State.because(anyhow::Error::from(error).context(format!("cannot write {name}")))
    })?;
    match Format::or_usual(global.output) {
        Format::Table => print(&tuned.table(&settings, doubtful.len(), &args.html.display().to_string())),
        format @ (Format::Json | Format::Jsonl) => print_json(&tuned.json(&settings), format),
    }
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
    let (inputs, _) = lines::open(files, settings.record.max_document).map_err(|error| Reason::Input.because(error))?;
    let mut all = Vec::new();
    for mut input in inputs {
        loop {
            let lines = input.batch().map_err(|error| Reason::Input.because(error))?;
            if lines.is_empty() {
                break;
            }
            all.extend(lines);
        }
    }
    let step = all.len().div_ceil(max.max(1)).max(1);
    Ok(all.into_iter().step_by(step).collect())
}

/// The source of the reference's threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// `--truth`.
    Given,
    /// The valley between unrelated texts and copies.
    Valley,
    /// There is no valley: the configured similarity.
    Configured,
}

/// The results.
struct Tuned {
    pages: usize,
    pairs: usize,
    truth: f64,
    /// The source of the reference's threshold.
    from: From,
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
        let (truth, from) = match (given, sweep.valley()) {
            (Some(truth), _) => (truth, From::Given),
            (None, Some(truth)) => (truth, From::Valley),
            (None, None) => (configured.share(), From::Configured),
        };
        let similarities: &[PerMille] = if minhash.is_some() { &SIMILARITIES } else { &[] };
        let similarity = PerMille::rounded(truth).unwrap_or(PerMille::ONE);
        Self {
            pages,
            pairs: sweep.alike.len(),
            truth,
            from,
            by_bits: (0..=MAX_DISTANCE).map(|bits| (bits, sweep.bits(bits, truth))).collect(),
            by_similarity: similarities.iter().map(|&min| (min, sweep.similarity(min, truth))).collect(),
            bits: sweep.recommended_bits(truth).unwrap_or(settings.rules.max_distance),
            similarity,
        }
    }

    fn table(&self, settings: &Settings, looked: usize, html: &str) -> String {
        let how = match self.from {
            From::Given => "",
            From::Valley => ", above unrelated pages",
            From::Configured => ", as configured: the sample does not show where unrelated pages end",
        };
        let mut parts = vec![format!(
            "{} pages, {} similar pairs; precision and recall count pairs with a Jaccard index of {} or more as duplicates{how}\n",
            self.pages, self.pairs, self.truth
        )];
        let rules = &settings.rules;
        let bits = self
            .by_bits
            .iter()
            .map(|(bits, tried)| self.row(bits.to_string(), tried, *bits == rules.max_distance, *bits == self.bits));
        parts.push(columns(&std::iter::once(head("BITS")).chain(bits).collect::<Vec<_>>()) + "\n");
        let mut recommended = format!("recommended: match.simhash.max_distance: {}", self.bits);
        if !self.by_similarity.is_empty() {
            let now = rules.minhash.map(|minhash| minhash.min_similarity);
            let rows = self
                .by_similarity
                .iter()
                .map(|(min, tried)| self.row(min.to_string(), tried, now == Some(*min), *min == self.similarity));
            parts.push(columns(&std::iter::once(head("SIMILARITY")).chain(rows).collect::<Vec<_>>()) + "\n");
            recommended = format!("{recommended}, match.minhash.min_similarity: {}", self.similarity);
        }
        parts.push(recommended);
        parts.extend(Caution::of(self, settings).line());
        parts.push(format!("{looked} pairs to review were written to {html}"));
        parts.join("\n")
    }

    fn row(&self, threshold: String, tried: &Tried, is_now: bool, is_recommended: bool) -> Vec<String> {
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        #[expect(clippy::cast_precision_loss, reason = "counts of pages")]
        let near = tried.near as f64 / self.pages.max(1) as f64;
        let mark = match (is_now, is_recommended) {
            (true, true) => "as configured, recommended",
            (true, false) => "as configured",
            (false, true) => "recommended",
            (false, false) => "",
        };
        vec![
            threshold,
            share(near),
            tried.pairs.said.to_string(),
            share(tried.pairs.precision()),
            share(tried.pairs.recall()),
            mark.to_owned(),
        ]
    }

    fn json(&self, settings: &Settings) -> Value {
        let tried = |threshold: Value, tried: &Tried| {
            json!({
                "threshold": threshold, "pages_near": tried.near, "pairs": tried.pairs.said,
                "precision": tried.pairs.precision(), "recall": tried.pairs.recall(),
            })
        };
        let sketches = !self.by_similarity.is_empty();
        let bits = self.by_bits.iter().map(|(bits, of)| tried((*bits).into(), of));
        let similarity = self.by_similarity.iter().map(|(min, of)| tried(min.share().into(), of));
        json!({
            "pages": self.pages, "pairs": self.pairs, "truth": self.truth,
            "max_distance": bits.collect::<Vec<_>>(),
            "min_similarity": similarity.collect::<Vec<_>>(),
            "sample": Caution::of(self, settings).json(),
            "recommended": {
                "match.simhash.max_distance": self.bits,
                "match.minhash.min_similarity": sketches.then(|| self.similarity.share()),
            },
        })
    }
}

fn head(threshold: &str) -> Vec<String> {
    [threshold, "PAGES WITH A MATCH", "PAIRS", "PRECISION", "RECALL", ""].map(str::to_owned).to_vec()
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
            let pairs = output::count(self.duplicates);
            let [enough, copies] = [ENOUGH_PAGES as u64, ENOUGH_PAIRS].map(output::count);
            format!("{pages} pages with {pairs} pairs of duplicates are a small sample (take {enough} pages, {copies} pairs)")
        });
        let begin = [small, limit].into_iter().flatten().collect::<Vec<_>>();
        if begin.is_empty() {
            return None;
        }
        let chance = self.chance.as_ref().map(|chance| {
            format!(
                "; unrelated pages in an index of {} come closer than in {pages} pages: with match.simhash.max_distance {} about {} \
                 pages a day match by chance, if the index fills within its window and codes are random (those of texts are closer)",
                output::count(chance.max_entries),
                self.bits,
                a_day(chance.a_day)
            )
        });
        Some(format!("caution: {}{}", begin.join("; "), chance.unwrap_or_default()))
    }

    fn json(&self) -> Value {
        let chance = self
            .chance
            .as_ref()
            .map(|chance| json!({"max_entries": chance.max_entries, "a_page": chance.a_page, "a_day": chance.a_day}));
        json!({
            "pages": self.pages, "duplicate_pairs": self.duplicates, "is_small": self.is_small(),
            "at_limit": self.at_limit, "chance_matches": chance, "caution": self.line(),
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
    let estimate = alike
        .estimate
        .map_or_else(|| "not compared by sketches".to_owned(), |estimate| format!("estimated {estimate}"));
    let _ = writeln!(
        out,
        "<section><h2>Jaccard index {:.3}: {verdict} <small>{bits}, {estimate}</small></h2>",
        alike.jaccard
    );
    let [one, other] = pages;
    let [one_name, other_name] = pages.map(|page| {
        let name = page.id.as_deref().map_or_else(|| page.place.clone(), |id| format!("{} {id}", page.place));
        escaped(&name)
    });
    let one = Named { name: &one_name, text: &one.text };
    html::pair(out, analyzer, one, Named { name: &other_name, text: &other.text });
    out.push_str("</section>\n");
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
