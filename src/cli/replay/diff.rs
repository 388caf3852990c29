//! `replay diff`: the verdicts of a replay against those of the service, or of another replay, as text,
//! as JSON, and with examples as one self-contained HTML page.

mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use dupgate_core::replay::{Changes, Compared, Example, Plan, Ranges, RecordedVerdict, Side, Sides, VerdictPair};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::Both;
use crate::cli::html::{self, Named, Script, escaped};
use crate::cli::output::{self, print_report};
use crate::cli::page::fingerprinter;
use crate::cli::progress_bar::ProgressDisplay;
use crate::cli::{Global, note, tap, verdict};
use crate::error::{Fatal, fatal};
use crate::fatal::failure;
use crate::kafka::admin::LogNames;
use crate::kafka::pages::PageBytes;
use crate::record::{Decoder, Source};
use crate::replay::{Store, Stored, Texts, compare, fetch_lines};
use crate::text::Analyzer;

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
    let store = Store::open(&super::read(global, None)?.live)?;
    let stored = written(&store, &args.id)?;
    let both = super::read(global, Some(&stored.plan))?;
    let plan = &stored.plan;
    let (ranges, topic, name, records) = against(&store, &stored, &args.against)?;
    let names = Sides { before: name, after: format!("replay {}", plan.id) };
    let topics = Sides { before: topic, after: plan.own_verdicts() };
    let mut changes = Changes::new(&ranges, args.examples);
    let progress = ProgressDisplay::new(None, "{spinner} {msg}");
    let read = compare(&both.live, &topics, &mut changes, |verdicts| {
        let draw = |bar: &ProgressBar| {
            bar.set_position(verdicts);
            bar.set_message(format!("{} verdicts read", output::count(verdicts)));
        };
        progress.show(draw, || tracing::info!(target: "dupgate::replay", verdicts, "comparing"));
    });
    progress.finish();
    read?;
    let compared = changes.finish();
    let anchors = compared.examples.iter().map(|example| example.source.clone()).collect();
    let counted = Counted { plan, names, compared, records, anchors };
    print_report(global.format(), &object(&counted), || line(&counted))?;
    if !args.no_page {
        let file = args.page.clone().unwrap_or_else(|| format!("replay-{}-diff.html", plan.id).into());
        write_page(&counted, &both, &file)?;
        note(&format!("examples written to {}", file.display()));
    }
    let differ = counted.compared.total() - counted.compared.same();
    if args.exit_code && differ > 0 {
        return Err(fatal!(Failure, "{} verdicts differ", output::count(differ)));
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
            output::count(done),
            if stored.plan.is_of_files() { "the".to_owned() } else { output::count(stored.plan.records) }
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
            return Err(fatal!(
                Usage,
                "replay `{id}` has read files, whose lines the service has not judged: --against names another replay of them"
            ));
        }
        let verdicts = LogNames::new(&plan.logs, &plan.live_scheme).verdicts.to_string();
        return Ok((plan.ranges(), verdicts, LIVE.to_owned(), plan.ranges().records()));
    }
    let other_stored = written(store, other)?;
    let other = &other_stored.plan;
    if plan.is_of_files() && plan.files != other.files {
        return Err(fatal!(
            Input,
            "replays `{}` and `{}` have not read the same files in the same order: a verdict depends on what was judged before",
            plan.id,
            other.id
        ));
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
        return Err(fatal!(Input, "replays `{}` and `{}` have no offset in common", plan.id, other.id));
    }
    if records < of {
        let [few, of] = [records, of].map(output::count);
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
    let mut parts = vec![format!("same verdict {} ({})", output::count(same), percent(same, compared.total()))];
    let mut changed: Vec<(VerdictPair, u64)> = compared.changed().collect();
    changed.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
    parts.extend(changed.iter().map(|(kind, count)| format!("{} {}", kind_name(*kind, names), output::count(*count))));
    parts.extend(compared.unchanged().map(|verdict| format!("{} unchanged", verdict.name())));
    parts.join("   ")
}

fn object(counted: &Counted<'_>) -> Value {
    let Counted { plan, names, compared, records, .. } = counted;
    let (mut changed, mut only) = (json!({}), Sides { before: json!({}), after: json!({}) });
    for (kind, count) in compared.changed() {
        let (object, name) = match (kind.only_in(), kind.before.or(kind.after)) {
            (Some(side), Some(verdict)) => (only.of_mut(side), verdict.name().to_owned()),
            (_, _) => (&mut changed, kind_name(kind, names)),
        };
        output::extend(object, json!({name: count}));
    }
    let against = names.before.strip_prefix("replay ").unwrap_or(&names.before);
    let examples: Value = compared.examples.iter().map(|example| example_object(counted, example)).collect();
    json!({
        "replay": plan.id, "against": against, "set": plan.set, "offsets": records, "pages": compared.total(),
        "same": compared.same(), "changed": changed, "only_in_against": only.before, "only_in_replay": only.after,
        "examples": examples,
    })
}

fn example_object(counted: &Counted<'_>, example: &Example) -> Value {
    let side = |side: Side| {
        let Some(recorded) = example.verdicts.of(side) else { return Value::Null };
        let of = recorded.of.as_ref().map(|of| verdict::matched(of, why::form(recorded)));
        let mut object = of.unwrap_or_else(|| json!({}));
        output::extend(&mut object, json!({"verdict": recorded.verdict.name()}));
        if let Some(reason) = recorded.reason {
            output::extend(&mut object, json!({"reason": reason.name()}));
        }
        object
    };
    json!({
        "change": kind_name(example.kind(), &counted.names), "source": example.source.to_string(),
        "against": side(Side::Before), "replay": side(Side::After), "why": counted.why(example),
    })
}

/// Fetches the pages of the examples and writes them to a file.
fn write_page(counted: &Counted<'_>, both: &Both, file: &std::path::Path) -> Result<(), Fatal> {
    let settings = both.tried.first().unwrap_or(&both.live);
    let reader = fingerprinter(&settings.record, settings)?;
    let decoder = Decoder::new(&settings.record, settings.text.max_nesting).map_err(failure)?;
    let mut texts = Texts::open(&both.live)?;
    let mut out = begin(counted);
    let (files, all) = (&counted.plan.files, &counted.compared.examples);
    // A file is read from the start, so read it once for all examples.
    let at_once = if files.is_empty() { AT_ONCE } else { all.len().max(1) };
    for examples in all.chunks(at_once) {
        let matches = examples.iter().filter_map(shown_match).map(|(_, of)| of);
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
            section(&mut out, counted, example, reader.analyzer(), &pages);
        }
    }
    html::end(&mut out, Some(SCRIPT));
    std::fs::write(file, out)
        .map_err(|error| fatal!(State, "the examples are not written to {}: {error}", file.display()))
}

/// Shows the sections of one kind that hold a text. A link to a hidden section shows all again.
const SCRIPT: Script = Script {
    text: r"
const by=id=>document.getElementById(id),kind=by('kind'),text=by('text'),shown=by('shown');
const all=[...document.querySelectorAll('section')].map(e=>[e,e.textContent.toLowerCase()]);
function filter(){
  const wanted=text.value.trim().toLowerCase();let n=0;
  for(const [e,t] of all){const is=(!kind.value||e.dataset.kind===kind.value)&&t.includes(wanted);e.hidden=!is;n+=is}
  shown.textContent=n+' of '+all.length+' examples';
}
addEventListener('hashchange',()=>{
  const e=by(decodeURIComponent(location.hash.slice(1)));
  if(e&&e.hidden){kind.value='';text.value='';filter();e.scrollIntoView()}
});
kind.addEventListener('change',filter);text.addEventListener('input',filter);
by('filters').addEventListener('submit',e=>e.preventDefault());
by('filters').hidden=false;filter();
",
    sha256: "2M+roObovzkF/bDtz2guemnxJKE9oJNO9I6o+hJWutY=",
};

/// A page as shown: its id, and its normalised text or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    /// Its id.
    id: Option<String>,
    /// The text.
    text: Result<String, String>,
}

/// Begins the page: title, counts, filters.
fn begin(counted: &Counted<'_>) -> String {
    let Counted { names, compared, plan, records, .. } = counted;
    let title = format!("{} against {}", names.after, names.before);
    let mut out = html::begin(&title, Some(SCRIPT));
    let set = if plan.set.is_empty() { "none".to_owned() } else { plan.set.join(" ") };
    // Writing to a `String` cannot fail.
    let _ = write!(
        out,
        "<h1>{}</h1>\n<p>Verdicts on {} pages at {} offsets. Settings that differ from the live ones: <code>{}</code></p>\n\
         <table><tr><th>verdict in {} -&gt; in {}</th><th class=\"n\">pages</th><th class=\"n\">share</th></tr>\n",
        escaped(&title),
        output::count(compared.total()),
        output::count(*records),
        escaped(&set),
        escaped(&names.before),
        escaped(&names.after),
    );
    let same = ("same verdict".to_owned(), compared.same());
    let changed = compared.changed().map(|(kind, count)| (kind_name(kind, names), count));
    for (name, count) in std::iter::once(same).chain(changed) {
        let (name, share) = (escaped(&name), percent(count, compared.total()));
        let _ = writeln!(
            out,
            "<tr><td>{name}</td><td class=\"n\">{}</td><td class=\"n\">{share}</td></tr>",
            output::count(count)
        );
    }
    out.push_str(
        "</table>\n<form id=\"filters\" hidden><label>change <select id=\"kind\"><option value=\"\">all</option>",
    );
    let kinds: BTreeSet<String> = compared.examples.iter().map(|example| kind_name(example.kind(), names)).collect();
    for kind in kinds {
        let kind = escaped(&kind);
        let _ = write!(out, "<option value=\"{kind}\">{kind}</option>");
    }
    out.push_str(
        "</select></label> <label>text <input id=\"text\" type=\"search\"></label> <small id=\"shown\"></small></form>\n",
    );
    out
}

/// Writes one example: the page, what it was matched with, and why the verdicts of the runs differ.
fn section(
    out: &mut String,
    counted: &Counted<'_>,
    example: &Example,
    analyzer: &Analyzer,
    pages: &BTreeMap<Source, Shown>,
) {
    let Counted { names, anchors, .. } = counted;
    let kind = escaped(&kind_name(example.kind(), names));
    let place = escaped(&example.source.to_string());
    let _ = write!(
        out,
        "<section id=\"{place}\" data-kind=\"{kind}\"><h2>{kind} <small><a href=\"#{place}\">{place}</a></small></h2>\n\
         <p>{}</p>\n",
        escaped(&counted.why(example))
    );
    let named = |word: &str, source: &Source| {
        let place = escaped(&source.to_string());
        let place = if anchors.contains(source) && *source != example.source {
            format!("<a href=\"#{place}\">{place}</a>")
        } else {
            place
        };
        let id = pages.get(source).and_then(|page| page.id.as_deref()).map(escaped);
        [Some(word.to_owned()), Some(place), id].into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let text = |source: &Source| match pages.get(source).map(|page| &page.text) {
        Some(Ok(text)) => (true, text.clone()),
        Some(Err(why)) => (false, format!("({why})")),
        None => (false, "(the input does not hold this page any more)".to_owned()),
    };
    let page_name = named("page", &example.source);
    let (has_page, page_text) = text(&example.source);
    let page = Named { name: &page_name, text: &page_text };
    let shown = shown_match(example);
    if let Some((side, of)) = shown {
        let name = named(&format!("original in {}", escaped(names.of(side))), of);
        let (has_original, original) = text(of);
        let original = Named { name: &name, text: &original };
        if has_page && has_original {
            html::pair(out, analyzer, original, page);
        } else {
            html::side_by_side(out, &[original, page]);
        }
    } else {
        html::side_by_side(out, &[page]);
    }
    out.push_str("</section>\n");
}

/// Returns the original to show beside the page: that of the replay, if any.
fn shown_match(example: &Example) -> Option<(Side, &Source)> {
    let of = |side: Side| {
        let of = example.verdicts.of(side).as_ref().and_then(|recorded: &RecordedVerdict| recorded.of.as_deref())?;
        Some((side, &of.source))
    };
    of(Side::After).or_else(|| of(Side::Before))
}

#[cfg(test)]
mod tests;
