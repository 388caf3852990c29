//! `verdicts`: prints verdicts from the verdict log, and reopens ranges of the input.
//!
//! The verdict log has no ids of duplicates: the running instance is asked first, and then their output topic is
//! searched.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::instance::{Instance, in_query};
use super::operator_requests::operator_requests;
use super::output::{self, Format, NamedRows, age, print, print_list};
use super::progress_bar::ProgressDisplay;
use super::replay::range_bound;
use super::tap::Names;
use super::{Global, note, verdict};
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, fatal};
use crate::fingerprint::{IdHash, id_hash};
use crate::operators::page_search::{Progress, Searched, Wanted, search_pages, searched_topics};
use crate::operators::verdicts::{LogExtent, Read, read};
use crate::protocol::{Answer, ForgetTarget, PageVerdict, RequestBody, VerdictKind, VerdictRecord};
use crate::record::{PartitionId, Source, Timestamp};
use crate::replay::RangeBound;

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
    #[arg(long, value_name = "WHEN", requires = "id", allow_hyphen_values = true, value_parser = range_bound)]
    pub since: Option<RangeBound>,
    /// List the duplicates of these pages as well
    #[arg(long)]
    pub duplicates: bool,
}

/// Arguments of `verdicts reopen`.
#[derive(Clone, Debug, Args)]
pub struct ReopenArgs {
    /// Offsets of an input partition: topic:partition:from-to, `to` exclusive. What the input group has not committed
    /// since it was judged is left out
    #[arg(value_name = "RANGE", required = true, value_parser = reopen)]
    pub ranges: Vec<RequestBody>,
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
}

/// Runs the command.
///
/// # Errors
///
/// Any failure of the command.
pub fn verdicts(command: &VerdictsCommand, global: &Global) -> Result<(), Fatal> {
    match command {
        VerdictsCommand::Show(args) => show(args, global),
        VerdictsCommand::Withdrawn => withdrawn(global),
        VerdictsCommand::Reopen(args) => operator_requests(global, &args.ranges, args.execute),
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
    ids: &Ids<'_>,
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
    let ids: Ids<'_> = args.id.iter().map(|id| (id_hash(id), id.as_str())).collect();
    let mut sources: BTreeSet<Source> = args.source.iter().cloned().collect();
    let recent = recent_duplicates(&settings, &ids);
    sources.extend(recent.values().flatten().cloned());
    let mut searched = None;
    if limits.is_wanted {
        let done = search(&settings, limits, &ids)?;
        sources.extend(done.sources());
        searched = Some((ids.clone(), done));
    }
    let (mut found, originals) = answers_about(&settings, sources.clone(), &ids, args.duplicates)?;
    let is_missing = |id: &IdHash| !recent.contains_key(id) && !originals.contains(id);
    let missing: Ids<'_> = ids.iter().filter(|(id, _)| is_missing(id)).map(|(id, name)| (*id, *name)).collect();
    if searched.is_none() && !missing.is_empty() {
        match search(&settings, limits, &missing) {
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
    let not_found = searched.as_ref().and_then(|(ids, searched)| not_found(ids, searched, limits));
    if found.is_empty() {
        let no_verdict = if ids.is_empty() { NO_VERDICT.to_owned() } else { format!("{NO_VERDICT}; {NOT_KEPT}") };
        let mut why = vec![no_verdict];
        why.extend(searched.iter().flat_map(|(ids, searched)| without_verdict(ids, searched)));
        why.extend(not_found);
        return Err(fatal!(Failure, why.join("; ")));
    }
    if let Some(not_found) = not_found {
        super::note(&not_found);
    }
    let (form, format) = (settings.fingerprint.minhash.form, global.format());
    if format != Format::Table {
        return print_all(&found, form, format);
    }
    let names = Names::open(&settings)?;
    found.iter().try_for_each(|found| match found {
        (offset, Answer::Page(page)) => print(&labelled(page, form, *offset, &names.of(page))),
        _ => print_all(std::slice::from_ref(found), form, format),
    })
}

/// Formats a verdict with a label for each part of it.
fn labelled(page: &PageVerdict, form: verdict::Form, offset: i64, ids: &BTreeMap<Source, String>) -> String {
    let named = |source: &Source| ids.get(source).map_or_else(|| source.to_string(), |id| format!("{source}  {id}"));
    let mut rows = NamedRows::default();
    rows.add("page", named(&page.source));
    rows.add("verdict", page.decision.kind().name());
    rows.add("event time", output::time(page.event_time));
    if let Some(of) = page.decision.matched() {
        rows.add("found by", format!("{}, {}", of.by.stage().name(), verdict::Measure::of(of, form).in_words()));
        rows.add("original", named(&of.source));
        let when = if of.age_ms < 0 { "before" } else { "after" };
        rows.add("age", format!("{} {when} the original", age(of.age_ms.saturating_abs())));
        rows.add("cluster", of.cluster.to_string());
    }
    rows.add("verdict log", format!("offset {offset}"));
    rows.text() + "\n"
}

fn withdrawn(global: &Global) -> Result<(), Fatal> {
    let settings = global.start(Purpose::Run)?.settings;
    let mut pages = BTreeSet::new();
    let mut found = collect(&settings, |answer| match answer {
        Answer::Withdrawn { source, .. } => {
            pages.insert(source.clone());
            true
        }
        Answer::Page(page) => page.decision.matched().is_some(),
        Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => false,
    })?;
    found.retain(|(_, answer)| {
        let Answer::Page(page) = answer else { return true };
        page.decision.matched().is_some_and(|of| pages.contains(&of.source))
    });
    let format = global.format();
    if found.is_empty() {
        super::note("no page was withdrawn, as far as the verdict log reaches");
        if format == Format::Table {
            return Ok(());
        }
    }
    print_all(&found, settings.fingerprint.minhash.form, format)
}

fn print_all(found: &[Found], form: verdict::Form, format: Format) -> Result<(), Fatal> {
    let json = |(offset, answer): &Found| {
        let mut json = verdict::other(answer, form);
        output::extend(&mut json, json!({"log_offset": offset}));
        json
    };
    let [verdict, nearness, age, page, original, ..] = verdict::HEADS;
    let heads = ["LOG OFFSET", verdict, nearness, age, page, original];
    print_list(format, &heads, found, |(offset, answer)| row(*offset, answer, form), json)
}

/// Formats any answer as a row.
fn row(offset: i64, answer: &Answer, form: verdict::Form) -> Vec<String> {
    let (what, page, why) = match answer {
        Answer::Page(page) => {
            let cells = verdict::cells(page, form, |_| None).into_iter().take(5);
            return std::iter::once(offset.to_string()).chain(cells).collect();
        }
        Answer::Withdrawn { source, reason } => {
            (VerdictKind::Withdrawn.name(), source.to_string(), format!("({})", reason.name()))
        }
        Answer::Forgotten(ForgetTarget::Source(source)) => ("forgotten", source.to_string(), String::new()),
        Answer::Forgotten(ForgetTarget::Id(id)) => ("forgotten", format!("id of hash {:016x}", id.0), String::new()),
        Answer::Reopened { partition, from, to } => {
            ("reopened", format!("{partition}:{from}-{to}"), "(verdicts before this one are void)".to_owned())
        }
        Answer::TimeSet { before, after } => {
            ("time set", output::time(*after), format!("(before {})", output::time(*before)))
        }
    };
    [&offset.to_string(), what, "-", "-", &page, &why].map(str::to_owned).to_vec()
}

/// Parses the offsets `from <= offset < to` of one partition, which are to be judged again.
fn reopen(text: &str) -> Result<RequestBody, String> {
    let parse = || {
        let mut parts = text.rsplitn(3, ':');
        let (from, to) = parts.next()?.split_once('-')?;
        let (from, to) = (from.parse::<i64>().ok()?, to.parse::<i64>().ok()?);
        let number = parts.next()?.parse::<i32>().ok().filter(|number| *number >= 0)?;
        let topic = parts.next().filter(|topic| !topic.is_empty() && !topic.contains(':'))?;
        let partition = PartitionId::new(topic, number);
        (from >= 0 && from < to).then_some(RequestBody::Reopen { partition, from, to })
    };
    let expected = "expected topic:partition:from-to, such as crawl.pages:3:0-1200";
    parse().ok_or_else(|| format!("`{text}` is not a range: {expected}"))
}

/// Number of records to search for an id that is not found otherwise.
const DEFAULT_RECORDS: u64 = 1_000_000;

/// How far back to search.
#[derive(Clone, Copy, Debug)]
struct Limits {
    records: Option<u64>,
    since: Option<Timestamp>,
    /// Whether to search also for ids that are found otherwise.
    is_wanted: bool,
}

impl Limits {
    /// Takes the limits from the command line.
    fn of(args: &ShowArgs) -> Result<Self, Fatal> {
        let since = match args.since {
            None | Some(RangeBound::Start) => None,
            Some(RangeBound::At(time)) => Some(time),
            Some(RangeBound::End | RangeBound::Offset(_)) => {
                return Err(fatal!(
                    Usage,
                    "--since: expected a time such as 2026-09-01, an age such as -48h, or start"
                ));
            }
        };
        let is_wanted = args.scan.is_some() || args.since.is_some();
        let records = if is_wanted { args.scan } else { Some(DEFAULT_RECORDS) };
        Ok(Self { records, since, is_wanted })
    }
}

/// The ids of the command line by their hashes.
type Ids<'a> = BTreeMap<IdHash, &'a str>;

/// Returns the positions of the recent duplicates with these ids, as far as the running instance reports them.
fn recent_duplicates(settings: &Settings, ids: &Ids<'_>) -> BTreeMap<IdHash, BTreeSet<Source>> {
    let mut found: BTreeMap<IdHash, BTreeSet<Source>> = BTreeMap::new();
    if settings.http.admin.is_none() {
        return found;
    }
    let Ok(Some(running)) = (Instance { running: Some(None) }).of(settings) else { return found };
    for (hash, id) in ids {
        match running.get(&format!("pairs?id={}", in_query(id))) {
            Ok(page) => {
                for pair in page.get("pairs").and_then(Value::as_array).into_iter().flatten() {
                    let source = pair["source"].as_str().and_then(|source| source.parse().ok());
                    found.entry(*hash).or_default().extend(source);
                }
            }
            Err(fatal) => note(&format!("warning: cannot search recent duplicates: {fatal}")),
        }
    }
    found.retain(|_, sources| !sources.is_empty());
    found
}

/// Searches the topic for these ids.
fn search(settings: &Settings, limits: Limits, ids: &Ids<'_>) -> Result<Searched, Fatal> {
    let max =
        limits.records.map_or_else(String::new, |max| format!(", at most its last {} records", output::count(max)));
    let names = ids.values().copied().collect::<Vec<_>>().join(", ");
    note(&format!("searching {names} in {}{max}", quoted(&searched_topics(settings))));
    let template = "search {bar:28} {percent:>3} %  {human_pos} / {human_len} records  {per_sec}  left {eta}";
    let progress = ProgressDisplay::new(Some(0), template);
    let wanted = Wanted { ids: ids.keys().copied().collect(), records: limits.records, since: limits.since };
    let searched = search_pages(settings, &wanted, |Progress { records, max }| {
        if let Some(bar) = progress.bar() {
            bar.set_length(max);
            bar.set_position(records);
        }
    });
    progress.finish();
    searched
}

/// Returns which ids were not found, and where they were searched.
fn not_found(ids: &Ids<'_>, searched: &Searched, since: Limits) -> Option<String> {
    let missing: Vec<&str> =
        ids.iter().filter(|(hash, _)| !searched.found.contains_key(hash)).map(|(_, id)| *id).collect();
    if missing.is_empty() {
        return None;
    }
    let (missing, topics, records) = (missing.join(", "), quoted(&searched.topics), output::count(searched.records));
    if searched.records == 0 {
        return Some(format!("{missing}: no record was searched: {topics} holds none of that time"));
    }
    let times = searched.times.map_or_else(String::new, |(oldest, newest)| {
        format!(", from {} to {}", output::time(oldest), output::time(newest))
    });
    let further = match (searched.is_whole, since.since) {
        (true, None) => "; it holds no more",
        (true, Some(_)) => "; an earlier --since searches further back",
        (false, _) => "; --scan RECORDS or --since WHEN searches further back",
    };
    Some(format!("{missing} is in none of the last {records} records of {topics}{times}{further}"))
}

/// Returns what the record of each found page shows, for pages without a verdict in the log.
fn without_verdict(ids: &Ids<'_>, searched: &Searched) -> Vec<String> {
    let pages = searched.found.iter().flat_map(|(hash, pages)| pages.iter().map(move |page| (ids.get(hash), page)));
    let lines = pages.filter_map(|(id, page)| {
        let verdict = page.verdict.as_ref().map(|verdict| format!(", written as {verdict} to {}", page.record));
        Some(format!("{} is {}{}", id?, page.source, verdict.unwrap_or_default()))
    });
    lines.collect()
}

fn quoted(topics: &[String]) -> String {
    let quoted: Vec<String> = topics.iter().map(|topic| format!("`{topic}`")).collect();
    format!("topic{} {}", if quoted.len() == 1 { "" } else { "s" }, quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_at_least_one_offset() {
        let range = RequestBody::Reopen { partition: PartitionId::new("crawl.pages", 3), from: 10, to: 11 };
        assert_eq!(reopen("crawl.pages:3:10-11"), Ok(range));
        for text in ["", "a:3:10-10", "a:3:11-10", "a:3:10", ":3:1-2", "a:-1:1-2", "a:b:3:1-2", "a:3:-5-2", "3:1-2"] {
            assert!(reopen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_missing_id_is_reported_with_where_it_was_searched() {
        let id = "http://a/1";
        let ids = Ids::from([(id_hash(id), id)]);
        let limits = Limits { records: Some(20), since: None, is_wanted: false };
        let time = Timestamp::from_millis;
        let mut searched = Searched {
            topics: vec!["dup".to_owned()],
            records: 1_200_000,
            times: Some((time(1_788_220_800_000), time(1_788_220_860_000))),
            ..Searched::default()
        };
        let place = "http://a/1 is in none of the last 1,200,000 records of topic `dup`, \
                     from 2026-09-01T00:00:00Z to 2026-09-01T00:01:00Z";
        let message_of = |searched: &Searched, limits| not_found(&ids, searched, limits).unwrap();
        assert_eq!(
            message_of(&searched, limits),
            format!("{place}; --scan RECORDS or --since WHEN searches further back")
        );
        searched.is_whole = true;
        assert_eq!(message_of(&searched, limits), format!("{place}; it holds no more"));
        let since = Limits { since: Some(time(1)), ..limits };
        assert_eq!(message_of(&searched, since), format!("{place}; an earlier --since searches further back"));
    }
}
