//! `explain`: shows what is read from one page, the originals near it in the newest snapshot, and the verdict that it
//! would get.

use std::cmp::Reverse;

use clap::Args;
use dupgate_core::judge::{Snapshot, State, decide, refusal};
use serde_json::{Value, json};

use super::Global;
use super::index::snapshots_at_hand;
use super::output::{NamedRows, print_report};
use super::page::{self, PageReader, Place};
use super::verdict::by_stage;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::Fatal;
use crate::fingerprint::{
    FingerprintedPage, Inspection, MAX_DISTANCE, PerMille, ReadFrom, Shingling, WeighedWord, partition_of,
};
use crate::index::{Original, run_sequential};
use crate::protocol::{Answer, LogPartition, PageRequest, PageVerdict, Request, RequestBody, RequestId, VerdictOffset};
use crate::record::{self, Encoding, PartitionId, Timestamp};
use crate::text::{CutBy, Extraction, runs};

/// Number of words and of shingles shown to people.
const SHOWN: usize = 12;

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  dupgate explain page.html\n  dupgate explain pages.jsonl:17 -c dupgate.yaml -o json\n  \
                  dupgate explain pages.warc.gz:3"
)]
pub struct ExplainArgs {
    /// Page to read: a file, `FILE:LINE` for one of its lines or WARC records, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub page: Place,
    /// Format of the file [default: by extension: .txt, .html, .warc; otherwise `input.format`]
    #[arg(long = "as", value_parser = page::format(), value_name = "FORMAT")]
    pub format: Option<record::Format>,
    /// Number of nearest originals to show, if a snapshot is available
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    pub nearest: usize,
}

/// Prints the extracted text, the fingerprints, and the nearest originals of the newest snapshot, if there is one.
///
/// # Errors
///
/// A configuration that is refused, a page or a snapshot that cannot be read.
pub fn explain(args: &ExplainArgs, global: &Global) -> Result<(), Fatal> {
    let mut page_reader = PageReader::new(global.start(Purpose::Sieve)?.settings);
    let page = page_reader.open(&args.page, args.format)?;
    let found = find(&page, &page_reader.settings, args.nearest)?;
    let explanation =
        Explanation { place: &args.page, page: &page, found: found.as_ref(), settings: &page_reader.settings };
    print_report(global.format(), &explanation.json(), || explanation.table())
}

struct Explanation<'a> {
    place: &'a Place,
    page: &'a Inspection,
    found: Option<&'a Found>,
    settings: &'a Settings,
}

impl Explanation<'_> {
    fn table(&self) -> String {
        let Inspection { reading, text, words, shingles, stopped, numbers, .. } = self.page;
        let mut rows = NamedRows::default();
        rows.add("page", self.place.to_string());
        rows.add("id", reading.id_text.as_deref().unwrap_or("-"));
        if let Some(canonical) = &reading.canonical {
            rows.add("canonical", format!("{canonical} (counts as the id)"));
        }
        rows.add("site", self.page.site.as_deref().unwrap_or("-: no address"));
        if let (Some(title), Some(_)) = (&self.page.title, &self.page.site) {
            rows.add("title", format!("{title} (tells pages of the site apart)"));
        }
        rows.add("text", self.text_row());
        rows.add("", quoted(text));
        rows.add("segmenter", self.segmenter_row());
        let counting = words.iter().filter(|word| word.counts);
        let heaviest = counting.clone().take(SHOWN).map(|word| format!("{} {:.1}", word.text, weight(word)));
        let (heaviest, all, count) = (heaviest.collect::<Vec<_>>().join(", "), words.len(), counting.count());
        let tokens = reading.tokens;
        rows.add("tokens", format!("{tokens} after stop words, {all} different, {count} count; heaviest: {heaviest}"));
        let Shingling { unit, lengths } = self.settings.fingerprint.minhash.shingle;
        let stopped = if *stopped > 0 { format!(", {stopped} stop-shingles left out") } else { String::new() };
        let shown = |texts: &[String]| texts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        let (all, first) = (shingles.len(), shown(shingles));
        let of = format!("{} (Han) or {} {}", lengths.han, lengths.other, unit.name());
        rows.add("shingles", format!("{all} different of {of}{stopped}; first: {first}"));
        let first = if numbers.is_empty() { String::new() } else { format!("; first: {}", shown(numbers)) };
        rows.add("numbers", format!("{} different{first}", numbers.len()));
        rows.add("exact", format!("{:032x}", reading.fingerprints.exact.0));
        let simhash = reading.fingerprints.simhash.map(|simhash| simhash.to_string());
        let missing = reading.fp_missing(self.settings.text.min_features).map(|why| format!("none: {why}"));
        rows.add("simhash", simhash.or(missing).unwrap_or_default());
        rows.add("minhash", self.sketch_row(reading));
        rows.add("scheme", self.settings.scheme().to_string());
        self.lookup_rows(&mut rows);
        rows.text()
    }

    fn text_row(&self) -> String {
        let Inspection { reading, from, visible, text, .. } = self.page;
        let length = text.chars().count();
        let from = match from {
            ReadFrom::Text => "text".to_owned(),
            ReadFrom::Html => format!("HTML ({})", self.extraction(percent(length, *visible))),
        };
        let from =
            if reading.encoding == Encoding::Utf8 { from } else { format!("{from} in {}", reading.encoding.name()) };
        let cut = if reading.cut { ", cut at text.max_bytes" } else { "" };
        format!("{length} characters from {from}{cut}")
    }

    fn extraction(&self, percent: usize) -> String {
        let name = self.page.reading.extraction.name();
        match self.page.reading.extraction {
            Extraction::Main | Extraction::Text => format!("{name}, {percent} % of the visible text kept"),
            Extraction::All => format!("{name}, as text.html sets"),
            Extraction::AllFallback => format!("{name}: no article found, or too small a part of the page"),
            Extraction::Stripped => format!("{name}: too many tags for a tree"),
        }
    }

    fn segmenter_row(&self) -> String {
        let (han, all) = self.han();
        let cut_by = match self.page.reading.cut_by {
            CutBy::Jieba => "jieba",
            CutBy::Unicode => "Unicode word breaks",
        };
        let runs = runs(&self.page.text).count();
        format!("{cut_by} (Han {} % of the letters, {runs} runs)", percent(han, all))
    }

    /// Returns the number of letters that are Han characters, and of all letters.
    fn han(&self) -> (usize, usize) {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
        let han = runs(&self.page.text).filter(|run| run.han).map(|run| letters(run.text)).sum();
        (han, letters(&self.page.text))
    }

    fn sketch_row(&self, reading: &FingerprintedPage) -> String {
        match (&reading.fingerprints.sketch, self.settings.fingerprint.minhash.form) {
            (Some(sketch), Some(form)) => {
                let head: String = sketch.to_string().chars().take(16).collect();
                let count = form.count(sketch).map_or_else(String::new, |count| format!(", of about {count} shingles"));
                let bottom = form.bottom().map_or_else(String::new, |k| format!(", the {k} smallest"));
                format!("{head}… ({} slots of {} bits{count}{bottom})", form.slots(), form.bits().count())
            }
            (_, None) => "none: match.minhash.permutations is 0".to_owned(),
            (None, Some(_)) => {
                format!("none: fewer than {} different shingles", self.settings.fingerprint.minhash.min_shingles)
            }
        }
    }

    fn lookup_rows(&self, rows: &mut NamedRows) {
        let Some(Found { log, at, originals, nearest, verdict }) = self.found else {
            let path = self.settings.index.path.display();
            return rows.add("lookup", format!("no snapshot of this scheme in {path} (index.path)"));
        };
        let name = verdict.as_ref().map_or("none", |page| page.decision.kind().name());
        let of = verdict.as_ref().and_then(|verdict| verdict.decision.matched());
        let of = of.map_or_else(String::new, |of| format!(" of {}{}", of.source, by_stage(of.by)));
        rows.add("lookup", format!("{name}{of}, among {originals} originals (log {log}, offset {at})"));
        for near in nearest {
            rows.add("", near_line(near));
            if let Some((_, why)) = &near.refusal {
                rows.add("", format!("  not a duplicate: {why}"));
            }
        }
    }

    fn json(&self) -> Value {
        let Inspection { reading, site, title, from, visible, text, words, shingles, stopped, numbers } = self.page;
        let (han, letters) = self.han();
        let runs = runs(text).map(|run| json!({"han": run.han, "text": run.text})).collect::<Vec<_>>();
        let words = words
            .iter()
            .map(|word| json!({"text": word.text, "count": word.count, "weight": weight(word), "counts": word.counts}));
        json!({
            "page": self.place.to_string(), "id": reading.id_text, "canonical": reading.canonical, "site": site,
            "title": title, "encoding": reading.encoding.name(), "extraction": reading.extraction.name(),
            "from": match from { ReadFrom::Text => "text", ReadFrom::Html => "html" },
            "text": text, "characters": text.chars().count(), "visible_characters": visible, "cut": reading.cut,
            "han_letters": han, "letters": letters, "runs": runs, "cut_by": reading.cut_by.name(),
            "tokens": reading.tokens, "words": words.collect::<Value>(), "shingles": shingles,
            "shingle_unit": self.settings.fingerprint.minhash.shingle.unit.name(), "stop_shingles": stopped,
            "numbers": numbers, "scheme": self.settings.scheme().to_string(),
            "exact": format!("{:032x}", reading.fingerprints.exact.0),
            "fp": reading.fingerprints.simhash.map(|simhash| simhash.to_string()),
            "fp_missing": reading.fp_missing(self.settings.text.min_features),
            "sketch": reading.fingerprints.sketch.as_ref().map(ToString::to_string),
            "lookup": self.found.map(found_json),
        })
    }
}

/// Returns the weight of a word in the `SimHash`.
fn weight(word: &WeighedWord) -> f64 {
    f64::from(word.weight) / 256.0
}

fn found_json(found: &Found) -> Value {
    let of = found.verdict.as_ref().and_then(|verdict| verdict.decision.matched());
    let near = |near: &Near| {
        json!({
            "source": near.original.source.to_string(), "exact": near.exact, "distance": near.bits,
            "similarity": near.similarity.map(PerMille::share), "containment": near.contained.map(PerMille::share),
            "event_time_ms": near.original.event_time.millis(), "cluster": near.original.cluster.to_string(),
            "refused_by": near.refusal.as_ref().map(|(rule, _)| rule),
            "reason": near.refusal.as_ref().map(|(_, why)| why),
        })
    };
    json!({
        "log_partition": found.log.0, "verdict_log_offset": found.at.0, "originals": found.originals,
        "verdict": found.verdict.as_ref().map(|page| page.decision.kind().name()),
        "stage": of.map(|of| of.by.stage().name()), "match": of.map(|of| of.source.to_string()),
        "containment": of.and_then(|of| of.by.contained()).map(PerMille::share),
        "nearest": found.nearest.iter().map(near).collect::<Value>(),
    })
}

fn near_line(near: &Near) -> String {
    let mut parts = vec![near.original.source.to_string()];
    if near.exact {
        parts.push("equal text".to_owned());
    }
    parts.extend(near.bits.map(|bits| format!("{bits} bits")));
    parts.extend(near.similarity.map(|similarity| format!("similarity {similarity}")));
    parts.extend(near.contained.map(|contained| format!("containment {contained}")));
    parts.push(format!("cluster {}", near.original.cluster));
    parts.join("  ")
}

fn percent(part: usize, whole: usize) -> usize {
    part * 100 / whole.max(1)
}

/// Returns the beginning of a text, in quotes.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 100;
    let head: String = text.chars().take(SHOWN).collect();
    let more = if head.len() < text.len() { "…" } else { "" };
    format!("\"{head}{more}\"")
}

/// Originals that are less similar than this match under no useful rules.
const MIN_SIMILARITY: PerMille = PerMille(100);

/// The result for one page from the snapshot of one log partition.
struct Found {
    /// The partition of the log.
    log: LogPartition,
    /// Verdict log offset of the snapshot.
    at: VerdictOffset,
    /// Number of originals in it.
    originals: usize,
    /// The nearest ones, nearest first.
    nearest: Vec<Near>,
    /// The verdict that the page would get if it arrived now. Its position is a placeholder.
    verdict: Option<PageVerdict>,
}

/// One nearby original.
#[derive(Clone)]
struct Near {
    original: Original,
    /// Whether the texts are equal.
    exact: bool,
    /// Differing bits.
    bits: Option<u32>,
    /// Estimated Jaccard index.
    similarity: Option<PerMille>,
    /// Estimated share of the smaller page in the other one, where containment is in use.
    contained: Option<PerMille>,
    /// The name of the rule that keeps the page from being a duplicate of it, and why: the measured value, and the
    /// setting.
    refusal: Option<(&'static str, String)>,
}

/// Looks through the newest snapshot of the page's log partition; `None` if there is none.
fn find(page: &Inspection, settings: &Settings, max: usize) -> Result<Option<Found>, Fatal> {
    let wanted = partition_of(page.reading.scope, settings.log_partitions());
    let snapshots = snapshots_at_hand(settings)?;
    let found = snapshots.into_iter().find(|(log, _)| log.index() == wanted);
    Ok(found.map(|(log, snapshot)| look(page, log, &snapshot, max)))
}

fn look(page: &Inspection, log: LogPartition, snapshot: &Snapshot, max: usize) -> Found {
    let minhash = snapshot.state.rules.minhash;
    let form = minhash.map(|minhash| minhash.form);
    let min = minhash.map_or(MIN_SIMILARITY, |minhash| minhash.min_similarity);
    let ours = &page.reading.fingerprints;
    let measure = |original: &Original| {
        let theirs = &original.fingerprints;
        let exact = ours.exact == theirs.exact;
        let bits = ours.distance(theirs);
        let similarity = form.and_then(|form| ours.similarity(theirs, form));
        let contained = minhash
            .filter(|minhash| minhash.containment.is_some())
            .and_then(|minhash| minhash.share_contained(ours, theirs));
        let holds = contained.zip(minhash.and_then(|minhash| minhash.containment));
        let is_near = exact
            || bits.is_some_and(|bits| bits <= u32::from(MAX_DISTANCE))
            || similarity.is_some_and(|similarity| similarity >= min.min(MIN_SIMILARITY))
            || holds.is_some_and(|(share, min)| share >= min);
        is_near.then(|| Near { original: original.clone(), exact, bits, similarity, contained, refusal: None })
    };
    let mut nearest: Vec<Near> = snapshot.originals.iter().filter_map(measure).collect();
    // Every original that can match is among them, so the verdict is the same as with all originals.
    let few: Vec<Original> = nearest.iter().map(|near| near.original.clone()).collect();
    let state = state_of(snapshot, &few);
    let event_time = page.reading.event_time.unwrap_or(snapshot.state.stream_time);
    let request = PageRequest::of(page.reading.clone(), PartitionId::new("", 0).at(0), event_time);
    let verdict = judge(&state, request.clone(), snapshot.state.stream_time);
    nearest.sort_by_key(|near| (!near.exact, Reverse(near.similarity), near.bits, near.original.sequence));
    nearest.truncate(max);
    for near in &mut nearest {
        let refusal = refusal(&state, &request, snapshot.state.stream_time, near.original.sequence);
        let rules = &snapshot.state.rules;
        near.refusal = refusal.map(|refusal| (refusal.name(), refusal.sentence(rules)));
    }
    Found { log, at: snapshot.at, originals: snapshot.originals.len(), nearest, verdict }
}

/// Returns the state of the snapshot with a few of its originals.
fn state_of(snapshot: &Snapshot, originals: &[Original]) -> State {
    let mut checkpoint = snapshot.state.clone();
    // Size the tables for a handful of originals, not for millions.
    checkpoint.rules.max_entries = checkpoint.rules.max_entries.min(originals.len() as u64 + 1);
    State::load(&checkpoint, originals, run_sequential)
}

fn judge(state: &State, request: PageRequest, now: Timestamp) -> Option<PageVerdict> {
    let entry = Request { id: RequestId(0), body: RequestBody::Page(request) };
    if let Answer::Page(page) = decide(state, &entry, now)?.answer { Some(page) } else { None }
}
