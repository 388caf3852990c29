//! `eval`: measures verdict quality on the user's texts or on generated ones, beside that of other methods, and on
//! streams of sites.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Global;
use super::help::one_of;
use super::output::{columns, extend, print_report, table};
use super::page::{deduplicator, fingerprinter};
use super::progress_bar::PageProgress;
use crate::clock::Clock;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::crawl::{Crawl, CrawlSettings};
use crate::deduplicator::Route;
use crate::error::{Fatal, OrFatal, Reason, fatal};
use crate::fingerprint::{Fingerprinter, PerMille, Scratch, ShingleBuffer, Shingling, StopShingles};
use crate::index::Task;
use crate::protocol::Rules;
use crate::quality::sites::{
    Form, Row, RowKind, SHARES, SiteCounts, SiteScorer, SiteSettings, SiteStream, SiteTexts, streams,
};
use crate::quality::{
    BackgroundSimilarity, Baseline, Count, Edit, Half, MAX_PAGES, PairwiseReader, PlantSettings, Planted, Report, Role,
    clean, plant, plant_joined, scored, set_of,
};
use crate::record::{Body, EventTime, Fields, Format, InputSettings, PartitionId, RawRecord};
use crate::threads::run_parallel;

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
    #[arg(long = "share", value_name = "PERCENT", value_delimiter = ',', requires = "sites", value_parser = share)]
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
    // Only the texts count: without ids (which could make a page an update), scope and times.
    let input = InputSettings {
        format: Format::Text,
        fields: Fields::nowhere(),
        event_time: EventTime::Record,
        ..settings.record.clone()
    };
    let reader = fingerprinter(&input, &settings)?;
    let found = gather(args, args.half, &reader).or_fatal(Reason::Input)?;
    if args.sites {
        return sites(args, found, &settings, global);
    }
    let background = settings.rules.minhash.map(|minhash| {
        let minhash_of = &settings.fingerprint.minhash;
        let background = BackgroundSimilarity::of(&sets(&found, &reader, minhash_of.shingle, &minhash_of.stop));
        let candidates = [1, minhash.min_shared_bands]
            .map(|min_shared_bands| background.candidates(minhash.banding, min_shared_bands, ORIGINALS));
        (candidates, background.histogram())
    });
    let (stream, joined) = if let Some(pairs) = &args.pairs {
        (labelled(&found, pairs).or_fatal(Reason::Input)?, None)
    } else {
        let texts = without_names(found);
        (planted(&texts, args), Some(plant_joined(&texts)))
    };
    let others = args.baselines.then(|| baselines(&stream, args, &reader, &settings)).transpose()?;
    let clock = Clock::start();
    let scored = |stream: &[Planted]| -> Result<Report, Fatal> {
        let mut judge = judge(settings.rules.clone(), &reader);
        let verdicts: Result<Vec<_>, Fatal> = stream.iter().map(|page| judge(page.text.as_bytes())).collect();
        Ok(scored(stream, &verdicts?))
    };
    let report = scored(&stream)?;
    let (name, setting) = ("dupgate".to_owned(), "as configured".to_owned());
    let ours = Judged { name, setting, report, seconds: clock.now().as_secs_f64() };
    // Pages that join two texts, one of them seen before, and those that were called duplicates of that one.
    let joined = joined.map(|joined| scored(&joined)).transpose()?;
    let one_known = joined.and_then(|report| report.apart.into_iter().find(|(edit, _)| *edit == Edit::Joined));
    let one_known = one_known.map(|(_, count)| count);
    let (candidates, likeness) = background.unzip();
    let mut shown = summary(&ours.report, candidates, one_known.as_ref());
    let mut report = json(&ours.report, candidates, likeness.as_deref());
    let one_known = one_known.map(|Count { planted, found }| {
        json!({"planted": planted, "found": found, "share": Count { planted, found }.share()})
    });
    extend(&mut report, json!({"joined_one_known": one_known}));
    if let Some(others) = others {
        let judges: Vec<Judged> = std::iter::once(ours).chain(others).collect();
        shown += &comparison(&judges);
        extend(&mut report, json!({"judges": judges.iter().map(Judged::json).collect::<Value>()}));
    }
    print_report(global.format(), &report, || shown.trim_end().to_owned())
}

fn planted(texts: &[String], args: &EvalArgs) -> Vec<Planted> {
    plant(texts, PlantSettings { seed: args.seed, copies: args.copies })
}

/// Returns a judge of a stream, as `sieve` would judge it: it takes page after page, and returns the number of the page
/// that each was called a duplicate of.
fn judge(rules: Rules, reader: &Fingerprinter) -> impl FnMut(&[u8]) -> Result<Option<usize>, Fatal> {
    let (mut sieve, mut scratch) = (deduplicator(rules), Scratch::default());
    let (place, mut offset) = (PartitionId::new("stream", 0), 0);
    move |value| {
        let record = RawRecord { key: None, value: Some(value), headers: &() };
        let sifted = sieve.judge(place.at(offset), reader.read(&record, &mut scratch)).or_fatal(Reason::Bug)?;
        offset += 1;
        let duplicate = sifted.verdict.original().filter(|_| sifted.verdict.route() == Route::Duplicate);
        Ok(duplicate.and_then(|original| usize::try_from(original.source.offset).ok()))
    }
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
        let role = if family == number { Role::Original } else { Role::Copy(Edit::Found) };
        Planted { family, role, also: None, text: text.text.clone() }
    });
    Ok(pages.collect())
}

/// Writes the table. `background` is the number of texts among ten million that share a key with a probe by chance, and
/// the number of those that share enough keys. `one_known` counts pages that join two texts, one of them seen before.
fn summary(report: &Report, background: Option<[f64; 2]>, one_known: Option<&Count>) -> String {
    let Report { pages, removed, lost, strayed, pairs, rand_index, largest, edits, apart } = report;
    let of = |count: &Count| format!("{:>7.2} %  {:>7} of {}", count.share() * 100.0, count.found, count.planted);
    let mut out = format!(
        "pages                {pages:>7}\n\
         duplicates removed   {}\n\
         uniques lost         {}\n\
         strayed              {strayed:>7}  (copies that were called duplicates of a page they are no copy of)\n\
         pair precision       {:>9.4}\n\
         pair recall          {:>9.4}\n\
         pair F1              {:>9.4}\n\
         adjusted Rand index  {rand_index:>9.4}\n\
         largest cluster      {largest:>7}\n",
        of(removed),
        of(lost),
        pairs.precision(),
        pairs.recall(),
        pairs.f1()
    );
    let mut line = |text: String| out.extend([text.as_str(), "\n"]);
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
    if let Some(count) = one_known {
        line(format!("  {:<18} {}  (apart: called near the one that was seen before)", "joined_one_known", of(count)));
    }
    out
}

/// Returns the same results as one JSON object, and the similarities of the texts (`BackgroundSimilarity::histogram`).
fn json(report: &Report, background: Option<[f64; 2]>, likeness: Option<&[u32]>) -> Value {
    let by_edit =
        |counts: &[(Edit, Count)]| counts.iter().map(|(edit, count)| (edit.name(), json!(count))).collect::<Value>();
    json!({
        "pages": report.pages, "removed": report.removed, "lost": report.lost, "strayed": report.strayed,
        "removed_share": report.removed.share(), "lost_share": report.lost.share(),
        "precision": report.pairs.precision(), "recall": report.pairs.recall(), "f1": report.pairs.f1(),
        "pairs": report.pairs, "adjusted_rand_index": report.rand_index, "largest_cluster": report.largest,
        "chance_candidates_at_1e7": background, "likeness": likeness, "edits": by_edit(&report.edits), "apart": by_edit(&report.apart),
    })
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
    fn json(&self) -> Value {
        let mut json = json(&self.report, None, None);
        extend(&mut json, json!({"name": self.name, "setting": self.setting, "seconds": self.seconds}));
        json
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
        let texts = gather(args, Half::Tune, reader).or_fatal(Reason::Input)?;
        Some(planted(&without_names(texts), args))
    };
    let longest = to_tune_on.iter().map(Vec::len).fold(stream.len(), usize::max);
    if longest > MAX_PAGES {
        let why = anyhow!("{longest} pages are too many to compare every pair for --baselines (at most {MAX_PAGES})");
        return Err(Reason::Config.because(why));
    }
    let looker = PairwiseReader::new(reader, &settings.fingerprint).or_fatal(Reason::Config)?;
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
    let heads = ["judge", "setting", "precision", "recall", "F1", "removed", "lost", "strayed", "Rand", "largest", "s"];
    let row = |Judged { name, setting, report, seconds }: &Judged| {
        let Report { removed, lost, strayed, pairs, rand_index, largest, .. } = report;
        let [precision, recall, f1, rand] =
            [pairs.precision(), pairs.recall(), pairs.f1(), *rand_index].map(|share| format!("{share:.4}"));
        let [removed, lost] = [removed, lost].map(|count| format!("{:.2} %", count.share() * 100.0));
        let [name, setting, strayed] = [name.clone(), setting.clone(), strayed.to_string()];
        let (largest, seconds) = (largest.to_string(), format!("{seconds:.2}"));
        [name, setting, precision, recall, f1, removed, lost, strayed, rand, largest, seconds]
    };
    let rows: Vec<_> = judged.iter().map(row).collect();
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
    format!("\n{}\n\n{}\n\n", table(&heads, &rows), columns(&edits))
}

fn kinds() -> impl Iterator<Item = Edit> {
    Edit::DUPLICATES.into_iter().chain([Edit::DigitsChanged, Edit::DatesChanged, Edit::Joined, Edit::Found])
}

/// Pages that a thread judges before it reports progress.
const PROGRESS_STEP: usize = 256;

/// A row and the counts of its pages.
type Counted = (Row, SiteCounts);

/// Parses a percentage of repeated text; only some percentages have streams.
fn share(given: &str) -> Result<usize, String> {
    let known = given.parse().ok().filter(|share| SHARES.contains(share));
    known.ok_or_else(|| format!("expected one of {}", SHARES.map(|share| share.to_string()).join(", ")))
}

/// Judges all streams, each by a separate judge; prints tables that mark rows that miss their goal, or JSON.
///
/// # Errors
///
/// [`Reason::Failure`] if a goal is missed and `--check` is given.
fn sites(args: &EvalArgs, found: Vec<Named>, settings: &Settings, global: &Global) -> Result<(), Fatal> {
    // The generated records have the default fields. All other settings of records are those of the service, including
    // those of addresses.
    let input = InputSettings {
        format: Format::Json,
        fields: Fields { fetched_at: None, scope: None, ..Fields::default() },
        event_time: EventTime::Record,
        ..settings.record.clone()
    };
    let reader = fingerprinter(&input, settings)?;
    let ordinary = without_names(found);
    let plain = planted(&ordinary, args);
    let articles =
        if args.base.is_empty() { SiteTexts::generated(args.seed) } else { SiteTexts::given(args.seed, &ordinary) };
    let mut streams = streams(&articles, &ordinary, &plain, SiteSettings { seed: args.seed, pages: args.pages });
    let is_wanted =
        |row: &Row| row.kind == RowKind::Unlike && row.share.is_some_and(|share| args.shares.contains(&share));
    streams.retain(|stream| args.shares.is_empty() || stream.rows().iter().all(is_wanted));
    let counted = judged(&streams, &reader, settings)?;
    let pages: usize = streams.iter().map(SiteStream::pages).sum();
    let missed = missed(&counted);
    let report = json!({"pages": pages, "missed": missed, "sites": counted.iter().map(json_of).collect::<Value>()});
    print_report(global.format(), &report, || tables(&counted).trim_end().to_owned())?;
    if args.check && missed > 0 {
        return Err(fatal!(Failure, "{missed} of {} rows miss their goal", counted.len()));
    }
    Ok(())
}

/// Judges the streams, as many at a time as there are cores. The results do not depend on the number of cores.
fn judged(streams: &[SiteStream<'_>], reader: &Fingerprinter, settings: &Settings) -> Result<Vec<Counted>, Fatal> {
    let progress = PageProgress::new(streams.iter().map(|stream| stream.pages() as u64).sum());
    let mut counted: Vec<Result<Vec<Counted>, Fatal>> = streams.iter().map(|_| Ok(Vec::new())).collect();
    let tasks = streams.iter().zip(&mut counted).map(|(stream, counted)| -> Task<'_> {
        let progress = &progress;
        Box::new(move || *counted = counts_of(stream, reader, settings, progress))
    });
    run_parallel(tasks.collect());
    progress.finish();
    Ok(counted.into_iter().collect::<Result<Vec<_>, Fatal>>()?.concat())
}

fn counts_of(
    stream: &SiteStream<'_>,
    reader: &Fingerprinter,
    settings: &Settings,
    progress: &PageProgress,
) -> Result<Vec<Counted>, Fatal> {
    // Size the tables for this stream, not for millions of originals.
    let originals = u64::try_from(stream.pages()).unwrap_or(u64::MAX).max(16);
    let mut rules = settings.rules.clone();
    rules.max_entries = rules.max_entries.min(originals);
    let (mut scorer, mut judge) = (SiteScorer::new(stream), judge(rules, reader));
    for number in 0..stream.pages() {
        let Some(page) = stream.page(number) else { break };
        scorer.note(page.truth, judge(&page.to_json())?);
        if (number + 1).is_multiple_of(PROGRESS_STEP) {
            progress.add(PROGRESS_STEP as u64);
        }
    }
    progress.add((stream.pages() % PROGRESS_STEP) as u64);
    Ok(stream.rows().iter().copied().zip(scorer.counts().iter().copied()).collect())
}

fn missed(counted: &[Counted]) -> usize {
    counted.iter().filter(|(row, counts)| !row.goal.is_met(counts)).count()
}

fn json_of((row, counts): &Counted) -> Value {
    json!({
        "kind": row.kind, "form": row.form, "addressed": row.addressed, "share": row.share,
        "site_pages": row.site_pages, "lost": counts.lost, "lost_share": counts.lost.share(),
        "lost_within": counts.lost_within, "lost_across": counts.lost_across(), "found": counts.found,
        "found_share": counts.found.share(), "strayed": counts.strayed, "goal": row.goal,
        "met": row.goal.is_met(counts),
    })
}

/// Writes one table of the pages that are unlike, and one of all others. Rows that miss their goal are marked.
fn tables(counted: &[Counted]) -> String {
    let unlike = unlike(counted);
    let mut others =
        vec![["pages", "form", "address", "copies found", "", "uniques lost", "", "goal"].map(str::to_owned).to_vec()];
    for (row, counts) in counted.iter().filter(|(row, _)| row.kind != RowKind::Unlike) {
        let share = |count: Count| match count.planted {
            0 => [String::new(), String::new()],
            planted => [format!("{:.2} %", count.share() * 100.0), format!("{} of {planted}", count.found)],
        };
        let names = [row.kind.name(), row.form.name(), yes(row.addressed)].map(str::to_owned).to_vec();
        let goal = goal(row) + mark(row, counts);
        others.push([names, share(counts.found).into(), share(counts.lost).into(), vec![goal]].concat());
    }
    if others.len() == 1 {
        others.clear();
    }
    let missed = missed(counted);
    format!(
        "unique pages called duplicates, by the share of text that their site repeats, and by pages of a site\n\n{}\n\n{}\n\n\
         {missed} of {} rows miss their goal (marked !)\n\n",
        columns(&unlike),
        columns(&others),
        counted.len()
    )
}

/// Returns one row for each share, form and kind of address, with a column for each size of site.
fn unlike(counted: &[Counted]) -> Vec<Vec<String>> {
    let of = |row: &&Counted| row.0.kind == RowKind::Unlike;
    let mut sizes: Vec<usize> = counted.iter().filter(of).filter_map(|(row, _)| row.site_pages).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = ["form", "address", "share"].map(str::to_owned).to_vec();
    head.extend(sizes.iter().map(|size| format!("{size} pages")));
    head.extend(["within", "across", "goal"].map(str::to_owned));
    let mut lines = vec![head];
    for form in Form::ALL {
        for addressed in [true, false] {
            for share in SHARES {
                let same =
                    |(row, _): &&Counted| row.form == form && row.addressed == addressed && row.share == Some(share);
                let cells: Vec<&Counted> = counted.iter().filter(of).filter(same).collect();
                let Some((first, _)) = cells.first() else { continue };
                let mut line = vec![form.name().to_owned(), yes(addressed).to_owned(), format!("{share} %")];
                line.extend(
                    cells
                        .iter()
                        .map(|(row, counts)| format!("{:.2} %{}", counts.lost.share() * 100.0, mark(row, counts))),
                );
                let sum =
                    |of: fn(&SiteCounts) -> u64| cells.iter().map(|(_, counts)| of(counts)).sum::<u64>().to_string();
                line.extend([sum(|counts| counts.lost_within), sum(SiteCounts::lost_across), goal(first)]);
                lines.push(line);
            }
        }
    }
    lines
}

/// Returns the mark of a row that misses its goal.
fn mark(row: &Row, counts: &SiteCounts) -> &'static str {
    if row.goal.is_met(counts) { "" } else { " !" }
}

fn yes(addressed: bool) -> &'static str {
    if addressed { "yes" } else { "no" }
}

fn goal(row: &Row) -> String {
    let percent = |share: f64| format!("{} %", (share * 100_000.0).round() / 1000.0);
    let found = row.goal.found.map(|min| format!(">= {}", percent(min)));
    let lost = row.goal.lost.map(|max| format!("<= {}", percent(max)));
    found.into_iter().chain(lost).collect::<Vec<_>>().join(", ")
}
