//! `eval`: measures verdict quality on the user's texts or on generated ones, beside that of other methods.

mod sites;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Global;
use super::help::one_of;
use super::output::{Format as OutputFormat, columns, print, print_json};
use crate::clock::Clock;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::crawl::{Crawl, CrawlSettings};
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, Route};
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Fingerprinter, PerMille, Scratch, ShingleBuffer, Shingling, StopShingles};
use crate::quality::{
    BackgroundSimilarity, Baseline, Count, Edit, Half, MAX_PAGES, PairwiseReader, PlantSettings, Planted, Report, Role,
    clean, plant, plant_joined, scored, set_of,
};
use crate::record::{Body, EventTime, Fields, Format, InputSettings, PartitionId, RawRecord, Timestamp};

/// Size of the index for which the chance candidates of a probe are estimated.
const ORIGINALS: u64 = 10_000_000;

/// Arguments of `eval`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  dupgate eval\n  dupgate eval pages.jsonl --pairs pairs.txt\n  \
                     dupgate eval pages.jsonl --baselines\n  dupgate eval --sites --pages 100000")]
pub struct EvalArgs {
    /// Files of JSON lines with `text` (and `id`) [default: a generated crawl]
    #[arg(value_name = "FILE")]
    pub base: Vec<PathBuf>,
    /// File of duplicate pairs, two ids per line: judge the texts as they are and plant nothing
    #[arg(long, value_name = "FILE", requires = "base")]
    pub pairs: Option<PathBuf>,
    /// Which texts to use: one half to choose settings, the other to report on
    #[arg(
        long,
        value_parser = one_of(&Half::ALL, Half::name, half_help),
        value_name = "WHICH",
        default_value = Half::Report.name()
    )]
    pub half: Half,
    /// Edited copies per text
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub copies: usize,
    /// Seed of the stream
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Number of generated texts if no file is given
    #[arg(long, value_name = "NUMBER", default_value_t = 2000, conflicts_with = "base")]
    pub texts: usize,
    /// Skip shorter texts
    #[arg(long, value_name = "CHARACTERS", default_value_t = 0)]
    pub min_chars: usize,
    /// Skip longer texts
    #[arg(long, value_name = "CHARACTERS", default_value_t = usize::MAX, hide_default_value = true)]
    pub max_chars: usize,
    /// Skip texts that share at least this much with an earlier one: natural copies would count as errors
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub clean: f64,
    /// Judge the same stream with other methods as well: `SimHash` alone, word bands, exact Jaccard index, TF-IDF
    /// vectors
    #[arg(long)]
    pub baselines: bool,
    /// Judge streams of sites instead: different pages with the same boilerplate, views of one page, posts
    #[arg(long, conflicts_with_all = ["pairs", "baselines"])]
    pub sites: bool,
    /// Pages per stream of different generated articles on sites
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, requires = "sites", conflicts_with = "base")]
    pub pages: usize,
    /// Judge only the streams that repeat this percentage of each page's text: 20, 30, 40, 50 or 60, or several of them
    #[arg(long = "share", value_name = "PERCENT", value_delimiter = ',', requires = "sites", value_parser = sites::share)]
    pub shares: Vec<usize>,
    /// End with exit code 1 if a row of `--sites` misses its goal
    #[arg(long, requires = "sites")]
    pub check: bool,
}

const fn half_help(half: Half) -> &'static str {
    match half {
        Half::Tune => "The first, third, fifth...",
        Half::Report => "The others",
        Half::Both => "All",
    }
}

/// Plants copies, judges the stream and scores the verdicts. Prints one table, or the same results as JSON.
///
/// # Errors
///
/// A configuration that is refused, a file that cannot be read.
pub fn eval(args: &EvalArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Sieve)?.settings;
    let format = OutputFormat::or_usual(global.output);
    // Only the texts count: without ids (which could make a page an update), scope and times.
    let input = InputSettings {
        format: Format::Text,
        fields: Fields::nowhere(),
        event_time: EventTime::Record,
        ..settings.record.clone()
    };
    let reader = Fingerprinter::new(&input, &settings.text, &settings.fingerprint, NonZeroUsize::MIN)
        .map_err(|error| Reason::Config.because(error))?;
    let found = gather(args, args.half, &reader).map_err(|error| Reason::Input.because(error))?;
    if args.sites {
        return sites::sites(args, found, &settings, format);
    }
    let background = settings.rules.minhash.map(|minhash| {
        let minhash_of = &settings.fingerprint.minhash;
        let background = BackgroundSimilarity::of(&sets(&found, &reader, minhash_of.shingle, &minhash_of.stop));
        let candidates = [1, minhash.min_shared_bands]
            .map(|min_shared_bands| background.candidates(minhash.banding, min_shared_bands, ORIGINALS));
        (candidates, background.histogram())
    });
    let (stream, joined) = if let Some(pairs) = &args.pairs {
        (labelled(&found, pairs).map_err(|error| Reason::Input.because(error))?, None)
    } else {
        let texts = without_names(found);
        (planted(&texts, args), Some(plant_joined(&texts)))
    };
    let others = args.baselines.then(|| baselines(&stream, args, &reader, &settings)).transpose()?;
    let clock = Clock::start();
    let report = scored(&stream, &judge(&stream, &reader, &settings)?);
    let ours = Judged::ours(report, clock.now());
    let one_known = match &joined {
        Some(joined) => OneKnown::of(&scored(joined, &judge(joined, &reader, &settings)?)),
        None => None,
    };
    let (candidates, likeness) = background.unzip();
    let mut shown = table(&ours.report, candidates, one_known.as_ref());
    let mut report = json(&ours.report, candidates, likeness.as_deref());
    report = with(report, json!({ "joined_one_known": one_known }));
    if let Some(others) = others {
        let judges: Vec<Judged> = std::iter::once(ours).chain(others).collect();
        shown += &comparison(&judges);
        let judges: Vec<Value> = judges.iter().map(Judged::json).collect();
        report = with(report, json!({ "judges": judges }));
    }
    print_report(&shown, &report, format)
}

/// Prints the table, or the same results as JSON.
fn print_report(table: &str, report: &Value, format: OutputFormat) -> Result<(), Fatal> {
    match format {
        OutputFormat::Table => print(table.trim_end()),
        OutputFormat::Json | OutputFormat::Jsonl => print_json(report, format),
    }
}

fn planted(texts: &[String], args: &EvalArgs) -> Vec<Planted> {
    plant(texts, PlantSettings { seed: args.seed, copies: args.copies })
}

/// Pages that join two texts, one of them seen before.
#[derive(Clone, Copy, Debug, Serialize)]
struct OneKnown {
    /// Pages, and those that were called duplicates of the text they hold.
    #[serde(flatten)]
    pages: Count,
    /// Their share.
    share: f64,
}

impl OneKnown {
    /// Takes the counts from the results of the stream; `None` if it has no such pages.
    fn of(report: &Report) -> Option<Self> {
        let pages = report.apart.iter().find(|(edit, _)| *edit == Edit::Joined)?.1;
        Some(Self { pages, share: pages.share() })
    }
}

/// Judges the stream as `sieve` would. Returns, for each page, the number of the page that it was called a duplicate
/// of.
fn judge(stream: &[Planted], reader: &Fingerprinter, settings: &Settings) -> Result<Vec<Option<usize>>, Fatal> {
    let mut sieve = Deduplicator::new(DeduplicatorSettings {
        rules: settings.rules.clone(),
        event_time: EventTime::Record,
        partitions: NonZeroUsize::MIN,
        clock: Timestamp::from_millis(i64::MAX / 2),
    });
    let mut scratch = Scratch::default();
    let place = PartitionId::new("stream", 0);
    let mut sift = |(number, page): (i64, &Planted)| {
        let record = RawRecord { key: None, value: Some(page.text.as_bytes()), headers: &() };
        let sifted = sieve.judge(place.at(number), reader.read(&record, &mut scratch));
        let sifted = sifted.map_err(|error| Reason::Bug.because(error))?;
        let duplicate = sifted.verdict.original().filter(|_| sifted.verdict.route() == Route::Duplicate);
        Ok(duplicate.and_then(|original| usize::try_from(original.source.offset).ok()))
    };
    (0..).zip(stream).map(&mut sift).collect()
}

/// Creates a page without edits.
fn original(family: usize, text: String) -> Planted {
    Planted { family, role: Role::Original, also: None, text }
}

/// A text with its name.
#[derive(Clone, Debug, Deserialize)]
struct Named {
    #[serde(default)]
    id: String,
    text: String,
}

/// Reads or generates the texts of a half.
fn gather(args: &EvalArgs, half: Half, reader: &Fingerprinter) -> anyhow::Result<Vec<Named>> {
    let mut texts = Vec::new();
    for path in &args.base {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (number, line) in (1..).zip(BufReader::new(file).lines()) {
            let place = || format!("{}:{number}", path.display());
            let line = line.with_context(place)?;
            if !line.trim().is_empty() {
                texts.push(serde_json::from_str::<Named>(&line).with_context(place)?);
            }
        }
    }
    if args.base.is_empty() {
        let crawl =
            CrawlSettings { seed: args.seed, html: 0.0, exact: 0.0, near: 0.0, broken: 0.0, ..Default::default() };
        let pages = Crawl::new(crawl)?.take(args.texts);
        texts.extend(pages.filter_map(|page| serde_json::from_slice::<Named>(&page.value).ok()));
    }
    if args.pairs.is_some() {
        return Ok(texts);
    }
    let lengths = args.min_chars..=args.max_chars;
    let mut used: Vec<Named> = (0..)
        .zip(texts)
        .filter(|(number, text)| half.has(*number) && lengths.contains(&text.text.chars().count()))
        .map(|(_, text)| text)
        .collect();
    let whole = Shingling::of_characters(5, 8);
    let mut kept = clean(&sets(&used, reader, whole, &StopShingles::default()), args.clean).into_iter();
    used.retain(|_| kept.next().unwrap_or(true));
    if used.is_empty() {
        bail!("no text is left to plant");
    }
    Ok(used)
}

/// Returns only the texts.
fn without_names(texts: Vec<Named>) -> Vec<String> {
    texts.into_iter().map(|text| text.text).collect()
}

/// Returns the counting shingles of each text, without repetitions.
fn sets(texts: &[Named], reader: &Fingerprinter, shingling: Shingling, stop: &StopShingles) -> Vec<Vec<u32>> {
    let (mut normal, mut buffer, mut hashes) = (String::new(), ShingleBuffer::default(), Vec::new());
    let set = |text: &Named| {
        let normal = reader.analyzer().normalize(&Body::Text((&*text.text).into()), &mut normal);
        shingling.hashes(reader.analyzer(), normal.map_or("", |normal| normal.text), &mut buffer, &mut hashes);
        stop.drop_from(&mut hashes);
        set_of(&hashes)
    };
    texts.iter().map(set).collect()
}

/// Forms families from the pairs in a file, which has two ids per line. The first text of a family counts as its
/// original, whichever of its copies was really first.
fn labelled(texts: &[Named], pairs: &Path) -> anyhow::Result<Vec<Planted>> {
    let numbers: HashMap<&str, usize> = (0..).zip(texts).map(|(number, text)| (text.id.as_str(), number)).collect();
    let mut families: Vec<usize> = (0..texts.len()).collect();
    let lines = std::fs::read_to_string(pairs).with_context(|| format!("cannot read {}", pairs.display()))?;
    for (number, line) in (1..).zip(lines.lines()) {
        let mut ids = line.split_whitespace();
        let (Some(one), Some(other)) = (ids.next(), ids.next()) else { continue };
        let find =
            |id: &str| numbers.get(id).copied().with_context(|| format!("line {number}: no text has the id {id}"));
        let (one, other) = (find(one)?, find(other)?);
        let family = |text: usize| families.get(text).copied().unwrap_or(text);
        let (low, high) = (family(one).min(family(other)), family(one).max(family(other)));
        families.iter_mut().filter(|family| **family == high).for_each(|family| *family = low);
    }
    let pages = texts.iter().zip(families).enumerate().map(|(number, (text, family))| {
        let mut page = original(family, text.text.clone());
        if family != number {
            page.role = Role::Copy(Edit::Found);
        }
        page
    });
    Ok(pages.collect())
}

/// Writes the table. `background` is the number of texts among ten million that share a key with a probe by chance, and
/// the number of those that share enough keys. `one_known` counts pages that join two texts, one of them seen before.
fn table(report: &Report, background: Option<[f64; 2]>, one_known: Option<&OneKnown>) -> String {
    let Report { pages, removed, lost, strayed, pairs, rand_index, largest, edits, apart } = report;
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{text}");
    };
    let of = |count: &Count| format!("{:>7.2} %  {:>7} of {}", count.share() * 100.0, count.found, count.planted);
    line(format!("pages                {pages:>7}"));
    line(format!("duplicates removed   {}", of(removed)));
    line(format!("uniques lost         {}", of(lost)));
    line(format!(
        "strayed              {strayed:>7}  (copies that were called duplicates of a page they are no copy of)"
    ));
    line(format!("pair precision       {:>9.4}", pairs.precision()));
    line(format!("pair recall          {:>9.4}", pairs.recall()));
    line(format!("pair F1              {:>9.4}", pairs.f1()));
    line(format!("adjusted Rand index  {rand_index:>9.4}"));
    line(format!("largest cluster      {largest:>7}"));
    if let Some([found, compared]) = background {
        line(format!(
            "chance candidates    {found:>9.0} of 10,000,000 unrelated texts share a band with a page, {compared:.0} share enough to be compared"
        ));
    }
    for (edit, count) in edits {
        line(format!("  {:<18} {}", edit.name(), of(count)));
    }
    for (edit, count) in apart {
        let of_what = if *edit == Edit::Joined { "called near either text" } else { "called near" };
        line(format!("  {:<18} {}  (apart: {of_what})", edit.name(), of(count)));
    }
    if let Some(OneKnown { pages, .. }) = one_known {
        line(format!("  {:<18} {}  (apart: called near the one that was seen before)", "joined_one_known", of(pages)));
    }
    out
}

/// Returns the same results as one JSON object, and the similarities of the texts (`BackgroundSimilarity::histogram`).
fn json(report: &Report, background: Option<[f64; 2]>, likeness: Option<&[u32]>) -> Value {
    let by_edit = |counts: &[(Edit, Count)]| {
        let members = counts.iter().map(|(edit, count)| (edit.name().to_owned(), json!(count)));
        Value::Object(members.collect::<Map<_, _>>())
    };
    json!({
        "pages": report.pages, "removed": report.removed, "lost": report.lost, "strayed": report.strayed,
        "removed_share": report.removed.share(), "lost_share": report.lost.share(),
        "precision": report.pairs.precision(), "recall": report.pairs.recall(), "f1": report.pairs.f1(),
        "pairs": report.pairs, "adjusted_rand_index": report.rand_index, "largest_cluster": report.largest,
        "chance_candidates_at_1e7": background, "likeness": likeness, "edits": by_edit(&report.edits), "apart": by_edit(&report.apart),
    })
}

/// Adds the members of the second object to the first.
fn with(mut report: Value, more: Value) -> Value {
    if let (Value::Object(report), Value::Object(more)) = (&mut report, more) {
        report.extend(more);
    }
    report
}

/// Results of one judge.
#[derive(Clone, Debug)]
struct Judged {
    name: String,
    /// Its threshold, as people write it.
    setting: String,
    report: Report,
    /// Time from texts to verdicts.
    seconds: f64,
}

impl Judged {
    fn ours(report: Report, took: Duration) -> Self {
        let setting = "as configured".to_owned();
        Self { name: "dupgate".to_owned(), setting, report, seconds: took.as_secs_f64() }
    }

    fn json(&self) -> Value {
        let report = json(&self.report, None, None);
        let own = json!({ "name": self.name, "setting": self.setting, "seconds": self.seconds });
        with(report, own)
    }
}

/// Judges the stream by every baseline.
fn baselines(
    stream: &[Planted],
    args: &EvalArgs,
    reader: &Fingerprinter,
    settings: &Settings,
) -> Result<Vec<Judged>, Fatal> {
    // Choose thresholds on the tuning half: never on the reported half, unless the user wants a report on the tuning
    // half itself. Labelled pairs are not divided into halves.
    let to_tune_on = if args.pairs.is_some() {
        None
    } else {
        let texts = gather(args, Half::Tune, reader).map_err(|error| Reason::Input.because(error))?;
        Some(planted(&without_names(texts), args))
    };
    let longest = to_tune_on.iter().map(Vec::len).fold(stream.len(), usize::max);
    if longest > MAX_PAGES {
        let why = anyhow!("{longest} pages are too many to compare every pair for --baselines (at most {MAX_PAGES})");
        return Err(Reason::Config.because(why));
    }
    let looker = PairwiseReader::new(reader, &settings.fingerprint).map_err(|error| Reason::Config.because(error))?;
    let judge = |baseline: Baseline| {
        let tuned = to_tune_on.as_ref().filter(|_| baseline.is_tuned());
        let min = tuned.map_or(baseline.usual(), |stream| baseline.choose(&looker.likes(baseline, stream), stream));
        let clock = Clock::start();
        let verdicts = baseline.verdicts(&looker.likes(baseline, stream), min, stream);
        let seconds = clock.now().as_secs_f64();
        let chosen = if tuned.is_some() { "tuned" } else { "fixed" };
        let setting = match baseline {
            Baseline::SimHash => format!("3 of {} bits", settings.fingerprint.simhash.bits.bits()),
            Baseline::WordBands => "14 x 8, 5 words".to_owned(),
            Baseline::Jaccard | Baseline::Cosine => format!(">= {:.2} ({chosen})", PerMille(min).share()),
        };
        Judged { name: baseline.name().to_owned(), setting, report: scored(stream, &verdicts), seconds }
    };
    Ok(Baseline::ALL.into_iter().map(judge).collect())
}

/// Writes two tables: all results, with a row for each judge, and the edits, with a column for each judge.
fn comparison(judged: &[Judged]) -> String {
    let head = ["judge", "setting", "precision", "recall", "F1", "removed", "lost", "strayed", "Rand", "largest", "s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(judged.iter().map(|Judged { name, setting, report, seconds }| {
        let Report { removed, lost, strayed, pairs, rand_index, largest, .. } = report;
        let four = |share: f64| format!("{share:.4}");
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        vec![
            name.clone(),
            setting.clone(),
            four(pairs.precision()),
            four(pairs.recall()),
            four(pairs.f1()),
            percent(removed.share()),
            percent(lost.share()),
            strayed.to_string(),
            four(*rand_index),
            largest.to_string(),
            format!("{seconds:.2}"),
        ]
    }));
    let mut edits = vec![vec!["removed".to_owned()]];
    edits.extend(kinds().map(|edit| vec![edit.name().to_owned()]));
    for Judged { name, report, .. } in judged {
        let mut column = edits.iter_mut();
        column.next().into_iter().for_each(|head| head.push(name.clone()));
        for (edit, row) in kinds().zip(column) {
            let counts = report.edits.iter().chain(&report.apart);
            let count = counts.into_iter().find(|(counted, _)| *counted == edit);
            row.push(count.map_or(String::new(), |(_, count)| format!("{:.3}", count.share())));
        }
    }
    // Leave out edits that no method has judged.
    edits.retain(|row| row.iter().skip(1).any(|cell| !cell.is_empty()));
    format!("\n{}\n\n{}\n\n", columns(&rows), columns(&edits))
}

fn kinds() -> impl Iterator<Item = Edit> {
    Edit::DUPLICATES.into_iter().chain([Edit::DigitsChanged, Edit::DatesChanged, Edit::Joined, Edit::Found])
}
