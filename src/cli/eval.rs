//! `eval`: measures verdict quality on the user's texts or on generated ones.

mod baselines;
mod sites;
mod table;
mod texts;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use baselines::Judged;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::Global;
use super::help::one_of;
use super::output::{Format as OutputFormat, print, print_json};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::deduplicator::{Deduplicator, DeduplicatorSettings, Route};
use crate::error::{Fatal, Reason};
use crate::fingerprint::{Fingerprinter, Scratch};
use crate::quality::{
    BackgroundSimilarity, Count, Edit, Half, PlantSettings, Planted, Report, Role, plant, plant_joined, scored,
};
use crate::record::{EventTime, Fields, Format, InputSettings, PartitionId, RawRecord, Timestamp};
use crate::runtime::clock::Clock;

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
    let found = texts::gather(args, args.half, &reader).map_err(|error| Reason::Input.because(error))?;
    if args.sites {
        return sites::sites(args, found, &settings, format);
    }
    let background = settings.rules.minhash.map(|minhash| {
        let minhash_of = &settings.fingerprint.minhash;
        let background = BackgroundSimilarity::of(&texts::sets(&found, &reader, minhash_of.shingle, &minhash_of.stop));
        let candidates = [1, minhash.min_shared_bands]
            .map(|min_shared_bands| background.candidates(minhash.banding, min_shared_bands, ORIGINALS));
        (candidates, background.histogram())
    });
    let (stream, joined) = if let Some(pairs) = &args.pairs {
        (texts::labelled(&found, pairs).map_err(|error| Reason::Input.because(error))?, None)
    } else {
        let texts = texts::without_names(found);
        (planted(&texts, args), Some(plant_joined(&texts)))
    };
    let others = args.baselines.then(|| baselines::baselines(&stream, args, &reader, &settings)).transpose()?;
    let clock = Clock::start();
    let report = scored(&stream, &judge(&stream, &reader, &settings)?);
    let ours = Judged::ours(report, clock.now());
    let one_known = match &joined {
        Some(joined) => OneKnown::of(&scored(joined, &judge(joined, &reader, &settings)?)),
        None => None,
    };
    let (candidates, likeness) = background.unzip();
    let mut shown = table::table(&ours.report, candidates, one_known.as_ref());
    let mut report = table::json(&ours.report, candidates, likeness.as_deref());
    report = table::with(report, json!({ "joined_one_known": one_known }));
    if let Some(others) = others {
        let judges: Vec<Judged> = std::iter::once(ours).chain(others).collect();
        shown += &baselines::table(&judges);
        let judges: Vec<Value> = judges.iter().map(Judged::json).collect();
        report = table::with(report, json!({ "judges": judges }));
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
