//! `replay diff`: the verdicts of a replay against those of the service, or of another replay.

mod page;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use dupgate_core::replay::{Changes, Compared, Example, Plan, Ranges, Side, Sides, VerdictPair};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use self::page::Shown;
use super::settings::{self, Both};
use crate::cli::output::{Format, print, print_json};
use crate::cli::progress_bar::ProgressDisplay;
use crate::cli::{Global, human, note, tap, verdict};
use crate::error::{Fatal, Reason};
use crate::fingerprint::Fingerprinter;
use crate::kafka::admin::LogNames;
use crate::kafka::pages::PageBytes;
use crate::record::{Decoder, Source};
use crate::replay::{Store, Stored, Texts, compare, fetch_lines};
use crate::runtime::fatal::failure;

/// The name of the service in `--against`.
const LIVE: &str = "live";

/// Examples whose pages are fetched at once.
const AT_ONCE: usize = 16;

/// Arguments of `replay diff`.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The replay
    #[arg(value_name = "ID")]
    pub id: String,
    /// Compare with the live verdicts, or with those of another replay
    #[arg(long, value_name = "live|ID", default_value = LIVE)]
    pub against: String,
    /// Write examples to this HTML file [default: replay-ID-diff.html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_page")]
    pub page: Option<PathBuf>,
    /// Write no HTML file
    #[arg(long)]
    pub no_page: bool,
    /// Maximum number of examples of each kind of change
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub examples: usize,
    /// Exit with code 1 when verdicts differ
    #[arg(long)]
    pub exit_code: bool,
}

/// What was compared, and the result.
struct Counted<'a> {
    plan: &'a Plan,
    /// Names of both runs.
    names: Sides<String>,
    compared: Compared,
    /// Offsets of the range.
    records: u64,
    /// Pages that are examples.
    anchors: BTreeSet<Source>,
}

impl Counted<'_> {
    fn why(&self, example: &Example) -> String {
        why::why(example, &self.names, |side, source| self.compared.verdict(side, source))
    }
}

/// Compares, prints the counts, and writes examples to a file.
pub(super) fn diff(args: &DiffArgs, global: &Global) -> Result<(), Fatal> {
    let base = settings::read(global)?;
    let store = Store::open(&base.live)?;
    let stored = written(&store, &args.id)?;
    let both = settings::of_plan(global, &stored.plan)?;
    let plan = &stored.plan;
    let (ranges, topic, name, records) = against(&store, &stored, &args.against)?;
    let names = Sides { before: name, after: format!("replay {}", plan.id) };
    let topics = Sides { before: topic, after: plan.own_verdicts() };
    let mut changes = Changes::new(&ranges, args.examples);
    let progress = ProgressDisplay::new(None, "{spinner} {msg}");
    let read = compare(&both.live, &topics, &mut changes, |verdicts| {
        let draw = |bar: &ProgressBar| {
            bar.set_position(verdicts);
            bar.set_message(format!("{} verdicts read", human::count(verdicts)));
        };
        progress.show(draw, || tracing::info!(target: "dupgate::replay", verdicts, "comparing"));
    });
    progress.finish();
    read?;
    let compared = changes.finish();
    let anchors = compared.examples.iter().map(|example| example.source.clone()).collect();
    let counted = Counted { plan, names, compared, records, anchors };
    match Format::or_usual(global.output) {
        Format::Table => print(&line(&counted))?,
        format @ (Format::Json | Format::Jsonl) => print_json(&object(&counted), format)?,
    }
    if !args.no_page {
        let file = args.page.clone().unwrap_or_else(|| format!("replay-{}-diff.html", plan.id).into());
        write_page(&counted, &both, &file)?;
        note(&format!("examples written to {}", file.display()));
    }
    let differ = counted.compared.total() - counted.compared.same();
    if args.exit_code && differ > 0 {
        return Err(Reason::Failure.because(anyhow::anyhow!("{} verdicts differ", human::count(differ))));
    }
    Ok(())
}

/// Reads a replay. An unfinished one is compared as far as it got.
fn written(store: &Store, id: &str) -> Result<Stored, Fatal> {
    let stored = store.look(id)?;
    let done = stored.total.as_ref().map_or(0, |total| total.counts.pages);
    if stored.total.as_ref().is_none_or(|total| !total.is_done) {
        note(&format!(
            "warning: replay {id} is not done: it has judged {} of {} pages; `dupgate replay resume {id}` continues",
            human::count(done),
            if stored.plan.is_of_files() { "the".to_owned() } else { human::count(stored.plan.records) }
        ));
    }
    Ok(stored)
}

/// Returns the other side: the offsets that both have, the topic of the verdicts, the name of the run, and how many
/// records there are.
fn against(store: &Store, stored: &Stored, other: &str) -> Result<(Ranges, String, String, u64), Fatal> {
    let plan = &stored.plan;
    if other == LIVE {
        if plan.is_of_files() {
            let id = &plan.id;
            let why = anyhow::anyhow!(
                "replay `{id}` has read files, whose lines the service has not judged: --against names another replay of them"
            );
            return Err(Reason::Usage.because(why));
        }
        let verdicts = LogNames::new(&plan.logs, &plan.live_scheme).verdicts.to_string();
        return Ok((plan.ranges(), verdicts, LIVE.to_owned(), plan.ranges().records()));
    }
    let other_stored = written(store, other)?;
    let other = &other_stored.plan;
    if plan.is_of_files() && plan.files != other.files {
        let why = anyhow::anyhow!(
            "replays `{}` and `{}` have not read the same files in the same order: a verdict depends on what was judged before",
            plan.id,
            other.id
        );
        return Err(Reason::Input.because(why));
    }
    let ranges = plan.ranges().common(&other.ranges());
    let name = format!("replay {}", other.id);
    if plan.is_of_files() {
        // Lines are counted where they were read.
        let pages = |stored: &Stored| stored.total.as_ref().map_or(0, |total| total.counts.pages);
        return Ok((ranges, other.own_verdicts(), name, pages(stored).min(pages(&other_stored))));
    }
    let (records, of) = (ranges.records(), plan.ranges().records());
    if records == 0 {
        let why = anyhow::anyhow!("replays `{}` and `{}` have no offset in common", plan.id, other.id);
        return Err(Reason::Input.because(why));
    }
    if records < of {
        let [few, of] = [records, of].map(human::count);
        note(&format!("warning: only {few} of the {of} offsets of replay {} are in replay {}, too", plan.id, other.id));
    }
    Ok((ranges, other.own_verdicts(), name, records))
}

/// Names a kind of change: `unique -> near`, `only in live`.
fn kind_name(kind: VerdictPair, names: &Sides<String>) -> String {
    match (kind.before, kind.after) {
        (Some(before), Some(after)) => format!("{} -> {}", before.name(), after.name()),
        (Some(only), None) => format!("{} only in {}", only.name(), names.before),
        (None, Some(only)) => format!("{} only in {}", only.name(), names.after),
        (None, None) => "none".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn percent(count: u64, of: u64) -> String {
    format!("{:.1} %", count as f64 * 100.0 / of.max(1) as f64)
}

/// The counts in one line, the most frequent change first.
fn line(counted: &Counted<'_>) -> String {
    let Counted { names, compared, .. } = counted;
    let same = compared.same();
    let mut parts = vec![format!("same verdict {} ({})", human::count(same), percent(same, compared.total()))];
    let mut changed: Vec<(VerdictPair, u64)> = compared.changed().collect();
    changed.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
    parts
        .extend(changed.into_iter().map(|(kind, count)| format!("{} {}", kind_name(kind, names), human::count(count))));
    parts.extend(compared.unchanged().map(|verdict| format!("{} unchanged", verdict.name())));
    parts.join("   ")
}

fn object(counted: &Counted<'_>) -> Value {
    let Counted { plan, names, compared, records, .. } = counted;
    let (mut changed, mut only): (Map<String, Value>, BTreeMap<Side, Map<String, Value>>) = Default::default();
    for (kind, count) in compared.changed() {
        let (object, name) = match (kind.only_in(), kind.before.or(kind.after)) {
            (Some(side), Some(verdict)) => (only.entry(side).or_default(), verdict.name().to_owned()),
            (_, _) => (&mut changed, kind_name(kind, names)),
        };
        object.insert(name, count.into());
    }
    let against = names.before.strip_prefix("replay ").unwrap_or(&names.before);
    let examples: Vec<Value> = compared.examples.iter().map(|example| example_object(counted, example)).collect();
    json!({
        "replay": plan.id, "against": against, "set": plan.set, "offsets": records, "pages": compared.total(),
        "same": compared.same(), "changed": changed,
        "only_in_against": only.remove(&Side::Before).unwrap_or_default(),
        "only_in_replay": only.remove(&Side::After).unwrap_or_default(),
        "examples": examples,
    })
}

fn example_object(counted: &Counted<'_>, example: &Example) -> Value {
    let side = |side: Side| {
        let Some(recorded) = example.verdicts.of(side) else { return Value::Null };
        let mut object = Map::new();
        object.insert("verdict".to_owned(), recorded.verdict.name().into());
        if let Some(reason) = recorded.reason {
            object.insert("reason".to_owned(), reason.name().into());
        }
        if let Some(of) = &recorded.of {
            object.extend(verdict::matched(of, why::form(recorded)));
        }
        Value::Object(object)
    };
    json!({
        "change": kind_name(example.kind(), &counted.names), "source": example.source.to_string(),
        "against": side(Side::Before), "replay": side(Side::After), "why": counted.why(example),
    })
}

/// Fetches the pages of the examples and writes them to a file.
fn write_page(counted: &Counted<'_>, both: &Both, file: &std::path::Path) -> Result<(), Fatal> {
    let settings = both.tried.first().unwrap_or(&both.live);
    let reader = Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN)
        .map_err(|error| Reason::Config.because(error))?;
    let decoder = Decoder::new(&settings.record, settings.text.max_nesting).map_err(failure)?;
    let mut texts = Texts::open(&both.live)?;
    let mut out = page::begin(counted);
    let (files, all) = (&counted.plan.files, &counted.compared.examples);
    // A file is read from the start, so read it once for all examples.
    let at_once = if files.is_empty() { AT_ONCE } else { all.len().max(1) };
    for examples in all.chunks(at_once) {
        let matches = examples.iter().filter_map(page::shown_match).map(|(_, of)| of);
        let sources: Vec<&Source> = examples.iter().map(|example| &example.source).chain(matches).collect();
        let read = |(source, bytes): (Source, PageBytes)| {
            let text = reader.normal_text(&bytes.record()).map_err(|rejection| rejection.to_string());
            (source, Shown { id: tap::id(&decoder, &bytes), text })
        };
        let found = if files.is_empty() {
            texts.fetch(&sources)?
        } else {
            fetch_lines(files, &sources, settings.record.max_document)
        };
        let pages: BTreeMap<Source, Shown> = found.into_iter().map(read).collect();
        for example in examples {
            page::section(&mut out, counted, example, reader.analyzer(), &pages);
        }
    }
    page::end(&mut out);
    std::fs::write(file, out).map_err(|error| {
        Reason::State.because(anyhow::anyhow!("the examples are not written to {}: {error}", file.display()))
    })
}

#[cfg(test)]
mod tests;
