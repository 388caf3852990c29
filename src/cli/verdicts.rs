//! `verdicts`: prints verdicts from the verdict log, and reopens ranges of the input.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::str::FromStr;

use clap::{Args, Subcommand};
use serde_json::Value;

use self::search::Limits;
use super::human::{self, age};
use super::operator_requests::operator_requests;
use super::output::{Format, columns, print, print_list};
use super::replay::When;
use super::tap::Names;
use super::{Global, verdict};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::IdHash;
use crate::operators::verdicts::{LogExtent, Read, read};
use crate::protocol::{Answer, ForgetTarget, PageVerdict, RequestBody, VerdictKind, VerdictRecord};
use crate::record::{PartitionId, Source};

/// Arguments of `verdicts`.
#[derive(Clone, Debug, Args)]
pub struct VerdictsArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: VerdictsCommand,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum VerdictsCommand {
    /// Print the verdict of a page and why, from the verdict log
    #[command(
        after_help = "Examples:\n  dupgate verdicts show crawl.pages:3:190112 -c dupgate.yaml\n  dupgate verdicts show --id https://a.example/1\n  dupgate verdicts show --id https://a.example/1 --since -48h"
    )]
    Show(ShowArgs),
    /// List pages that became dead letters after their verdict was requested, with the duplicates they had by then
    #[command(after_help = "Example:\n  dupgate verdicts withdrawn -c dupgate.yaml")]
    Withdrawn,
    /// Judge a range of the input again, and forget its originals
    #[command(after_help = "Example:\n  dupgate verdicts reopen crawl.pages:3:0-1200 -c dupgate.yaml --execute")]
    Reopen(ReopenArgs),
}

/// Arguments of `verdicts show`. At least one is required.
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true).args(["source", "id"])))]
pub struct ShowArgs {
    /// Positions of pages: topic:partition:offset
    #[arg(value_name = "SOURCE")]
    pub source: Vec<Source>,
    /// Ids of pages: finds originals in the verdict log, recent duplicates of the running instance, and else those in
    /// the topic of duplicates (or in the input, where duplicates are not written as they came)
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// Search this many of the newest records of the topic for the ids [default: 1000000 for ids that are not found
    /// otherwise]
    #[arg(long, value_name = "RECORDS", requires = "id")]
    pub scan: Option<u64>,
    /// Search the topic back to this time (2026-09-01, 2026-09-01T00:00:00Z, milliseconds), age (-48h), or start
    #[arg(long, value_name = "WHEN", requires = "id", allow_hyphen_values = true)]
    pub since: Option<When>,
    /// List the duplicates of these pages as well
    #[arg(long)]
    pub duplicates: bool,
}

/// Arguments of `verdicts reopen`.
#[derive(Clone, Debug, Args)]
pub struct ReopenArgs {
    /// Offsets of an input partition: topic:partition:from-to, `to` exclusive. What the input group has not committed
    /// since it was judged is left out
    #[arg(value_name = "RANGE", required = true)]
    pub ranges: Vec<OffsetRange>,
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
}

/// Runs the command.
///
/// # Errors
///
/// Any failure of the command.
pub fn verdicts(args: &VerdictsArgs, global: &Global) -> Result<(), Fatal> {
    match &args.command {
        VerdictsCommand::Show(args) => show(args, global),
        VerdictsCommand::Withdrawn => withdrawn(global),
        VerdictsCommand::Reopen(args) => {
            let ranges = args.ranges.iter().cloned();
            let bodies = ranges.map(|OffsetRange { partition, from, to }| RequestBody::Reopen { partition, from, to });
            operator_requests(global, &bodies.collect::<Vec<_>>(), args.execute)
        }
    }
}

/// Why a page may have no verdict.
const NO_VERDICT: &str = "no verdict: not judged under this scheme yet, trimmed past logs.retention, or a dead letter, \
    which is never judged (its error headers say why)";

/// Why a search by id may have missed a verdict.
const NOT_KEPT: &str = "or judged and not kept as an original (late), which is found by --source only";

/// One answer, and the offset of its record in the verdict log.
type Found = (i64, Answer);

fn collect(settings: &Settings, mut is_wanted: impl FnMut(&Answer) -> bool) -> Result<Vec<Found>, Fatal> {
    let mut found = Vec::new();
    read(settings, LogExtent::Kept, |news| {
        if let Some(Read { offset, record: VerdictRecord::Verdicts(batch), .. }) = news {
            let answers = batch.verdicts.into_iter().map(|verdict| verdict.answer);
            found.extend(answers.filter(&mut is_wanted).map(|answer| (offset.0, answer)));
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Returns the answers about the pages at these positions and with these ids, and the ids that have an original.
fn answers_about(
    settings: &Settings,
    mut sources: BTreeSet<Source>,
    ids: &search::Ids<'_>,
    with_duplicates: bool,
) -> Result<(Vec<Found>, BTreeSet<IdHash>), Fatal> {
    let mut originals = BTreeSet::new();
    let found = collect(settings, |answer| match answer {
        Answer::Page(page) => {
            let id = page.decision.original().and_then(|original| original.id).filter(|id| ids.contains_key(id));
            if let Some(id) = id {
                originals.insert(id);
                sources.insert(page.source.clone());
            }
            let of = page.decision.matched().filter(|_| with_duplicates);
            sources.contains(&page.source) || of.is_some_and(|of| sources.contains(&of.source))
        }
        Answer::Withdrawn { source, .. } | Answer::Forgotten(ForgetTarget::Source(source)) => sources.contains(source),
        Answer::Forgotten(ForgetTarget::Id(id)) => ids.contains_key(id),
        Answer::Reopened { partition, from, to } => {
            sources.iter().any(|source| source.partition == *partition && (*from..*to).contains(&source.offset))
        }
        Answer::TimeSet { .. } => false,
    })?;
    Ok((found, originals))
}

fn show(args: &ShowArgs, global: &Global) -> Result<(), Fatal> {
    let limits = Limits::of(args)?;
    let settings = global.start(Purpose::Run)?.settings;
    let ids = search::ids(args);
    let mut sources: BTreeSet<Source> = args.source.iter().cloned().collect();
    let recent = search::recent_duplicates(&settings, &ids);
    sources.extend(recent.values().flatten().cloned());
    let mut searched = None;
    if limits.is_wanted {
        let done = search::search(&settings, limits, &ids)?;
        sources.extend(done.sources());
        searched = Some((ids.clone(), done));
    }
    let (mut found, originals) = answers_about(&settings, sources.clone(), &ids, args.duplicates)?;
    let is_missing = |id: &IdHash| !recent.contains_key(id) && !originals.contains(id);
    let missing: search::Ids<'_> = ids.iter().filter(|(id, _)| is_missing(id)).map(|(id, name)| (*id, *name)).collect();
    if searched.is_none() && !missing.is_empty() {
        match search::search(&settings, limits, &missing) {
            Ok(done) => {
                if !done.found.is_empty() {
                    sources.extend(done.sources());
                    found = answers_about(&settings, sources, &ids, args.duplicates)?.0;
                }
                searched = Some((missing, done));
            }
            Err(fatal) if found.is_empty() => return Err(fatal),
            // The search was not requested, so its failure must not hide what was found otherwise.
            Err(fatal) => super::note(&format!("warning: cannot search duplicates: {fatal}")),
        }
    }
    let not_found = searched.as_ref().and_then(|(ids, searched)| search::not_found(ids, searched, limits));
    if found.is_empty() {
        let no_verdict = if ids.is_empty() { NO_VERDICT.to_owned() } else { format!("{NO_VERDICT}; {NOT_KEPT}") };
        let mut why = vec![no_verdict];
        why.extend(searched.iter().flat_map(|(ids, searched)| search::without_verdict(ids, searched)));
        why.extend(not_found);
        return Err(Reason::Failure.because(anyhow::anyhow!(why.join("; "))));
    }
    if let Some(not_found) = not_found {
        super::note(&not_found);
    }
    let (form, format) = (settings.fingerprint.minhash.form, Format::or_usual(global.output));
    if format != Format::Table {
        return print_all(&found, form, format);
    }
    let names = Names::open(&settings)?;
    for (offset, answer) in &found {
        match answer {
            Answer::Page(page) => print(&labelled(page, form, *offset, &names.of(page)))?,
            Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => {
                print_all(&[(*offset, answer.clone())], form, format)?;
            }
        }
    }
    Ok(())
}

/// Formats a verdict with a label for each part of it.
fn labelled(page: &PageVerdict, form: verdict::Form, offset: i64, ids: &BTreeMap<Source, String>) -> String {
    let named = |source: &Source| ids.get(source).map_or_else(|| source.to_string(), |id| format!("{source}  {id}"));
    let mut rows = vec![
        ("page", named(&page.source)),
        ("verdict", page.decision.kind().name().to_owned()),
        ("event time", human::time(page.event_time)),
    ];
    if let Some(of) = page.decision.matched() {
        rows.push(("found by", format!("{}, {}", of.by.stage().name(), verdict::Measure::of(of, form).in_words())));
        rows.push(("original", named(&of.source)));
        let when = if of.age_ms < 0 { "before" } else { "after" };
        rows.push(("age", format!("{} {when} the original", age(of.age_ms.saturating_abs()))));
        rows.push(("cluster", of.cluster.to_string()));
    }
    rows.push(("verdict log", format!("offset {offset}")));
    columns(&rows.into_iter().map(|(label, text)| vec![label.to_owned(), text]).collect::<Vec<_>>()) + "\n"
}

fn withdrawn(global: &Global) -> Result<(), Fatal> {
    let mut pages = BTreeSet::new();
    let settings = global.start(Purpose::Run)?.settings;
    let form = settings.fingerprint.minhash.form;
    let found = collect(&settings, |answer| {
        if let Answer::Withdrawn { source, .. } = answer {
            pages.insert(source.clone());
        }
        matches!(answer, Answer::Withdrawn { .. })
            || matches!(answer, Answer::Page(page) if page.decision.matched().is_some())
    })?;
    let concerns = |(_, answer): &Found| match answer {
        Answer::Page(page) => page.decision.matched().is_some_and(|of| pages.contains(&of.source)),
        Answer::Withdrawn { .. } => true,
        Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => false,
    };
    let found: Vec<Found> = found.into_iter().filter(concerns).collect();
    if found.is_empty() {
        super::note("no page was withdrawn, as far as the verdict log reaches");
    }
    let format = Format::or_usual(global.output);
    if found.is_empty() && format == Format::Table {
        return Ok(());
    }
    print_all(&found, form, format)
}

fn print_all(found: &[Found], form: verdict::Form, format: Format) -> Result<(), Fatal> {
    let object = |(offset, answer): &Found| {
        let mut value = verdict::other(answer, form);
        if let Value::Object(object) = &mut value {
            object.insert("log_offset".to_owned(), (*offset).into());
        }
        value
    };
    let rows: Vec<Vec<String>> = found.iter().map(|(offset, answer)| row(*offset, answer, form)).collect();
    let [verdict, nearness, age, page, original, ..] = verdict::HEADS;
    let heads = ["LOG OFFSET", verdict, nearness, age, page, original];
    print_list(format, &heads, &rows, found.iter().map(object).collect())
}

/// Formats any answer as a row.
fn row(offset: i64, answer: &Answer, form: verdict::Form) -> Vec<String> {
    let other = |what: &str, page: String, why: String| [what, "-", "-", &page, &why].map(str::to_owned).to_vec();
    let cells = match answer {
        Answer::Page(page) => verdict::cells(page, form, |_| None).into_iter().take(5).collect(),
        Answer::Withdrawn { source, reason } => {
            other(VerdictKind::Withdrawn.name(), source.to_string(), format!("({})", reason.name()))
        }
        Answer::Forgotten(ForgetTarget::Source(source)) => other("forgotten", source.to_string(), String::new()),
        Answer::Forgotten(ForgetTarget::Id(id)) => {
            other("forgotten", format!("id of hash {:016x}", id.0), String::new())
        }
        Answer::Reopened { partition, from, to } => {
            other("reopened", format!("{partition}:{from}-{to}"), "(verdicts before this one are void)".to_owned())
        }
        Answer::TimeSet { before, after } => {
            other("time set", human::time(*after), format!("(before {})", human::time(*before)))
        }
    };
    std::iter::once(offset.to_string()).chain(cells).collect()
}

/// The offsets `from <= offset < to` of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The input partition.
    pub partition: PartitionId,
    /// First offset of the range.
    pub from: i64,
    /// First offset after the range.
    pub to: i64,
}

impl FromStr for OffsetRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.rsplitn(3, ':');
            let (from, to) = parts.next()?.split_once('-')?;
            let (from, to) = (from.parse::<i64>().ok()?, to.parse::<i64>().ok()?);
            let number = parts.next()?.parse::<i32>().ok().filter(|number| *number >= 0)?;
            let topic = parts.next().filter(|topic| !topic.is_empty() && !topic.contains(':'))?;
            (from >= 0 && from < to).then(|| Self { partition: PartitionId::new(topic, number), from, to })
        };
        parse().ok_or_else(|| {
            format!("`{text}` is not a range: expected topic:partition:from-to, such as crawl.pages:3:0-1200")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_at_least_one_offset() {
        let range = "crawl.pages:3:10-11".parse::<OffsetRange>().unwrap();
        assert_eq!(range, OffsetRange { partition: PartitionId::new("crawl.pages", 3), from: 10, to: 11 });
        for text in ["", "a:3:10-10", "a:3:11-10", "a:3:10", ":3:1-2", "a:-1:1-2", "a:b:3:1-2", "a:3:-5-2", "3:1-2"] {
            assert!(text.parse::<OffsetRange>().is_err(), "{text}");
        }
    }
}
