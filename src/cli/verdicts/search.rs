//! Finds duplicates by their ids. The verdict log has no ids of duplicates, so the running instance is asked first, and
//! then their output topic is searched.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ShowArgs;
use crate::cli::instance::{Instance, in_query};
use crate::cli::progress_bar::ProgressDisplay;
use crate::cli::{human, note};
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::fingerprint::{IdHash, id_hash};
use crate::operators::page_search::{Progress, Searched, Wanted, search_pages, searched_topics};
use crate::record::{Source, Timestamp};
use crate::replay::RangeBound;
use crate::runtime::clock::wall_time;

/// Number of records to search for an id that is not found otherwise.
const DEFAULT_RECORDS: u64 = 1_000_000;

/// How far back to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    records: Option<u64>,
    since: Option<Timestamp>,
    /// Whether to search also for ids that are found otherwise.
    pub(super) is_wanted: bool,
}

impl Limits {
    /// Takes the limits from the command line.
    pub(super) fn of(args: &ShowArgs) -> Result<Self, Fatal> {
        let since = match args.since.map(|when| when.extent(wall_time())) {
            None | Some(RangeBound::Start) => None,
            Some(RangeBound::At(time)) => Some(time),
            Some(RangeBound::End | RangeBound::Offset(_)) => {
                let why = anyhow::anyhow!("--since: expected a time such as 2026-09-01, an age such as -48h, or start");
                return Err(Reason::Usage.because(why));
            }
        };
        let is_wanted = args.scan.is_some() || args.since.is_some();
        let records = if is_wanted { args.scan } else { Some(DEFAULT_RECORDS) };
        Ok(Self { records, since, is_wanted })
    }
}

/// The ids of the command line by their hashes.
pub(super) type Ids<'a> = BTreeMap<IdHash, &'a str>;

/// Returns the ids by their hashes.
pub(super) fn ids(args: &ShowArgs) -> Ids<'_> {
    args.id.iter().map(|id| (id_hash(id), id.as_str())).collect()
}

/// Returns the positions of the recent duplicates with these ids, as far as the running instance reports them.
pub(super) fn recent_duplicates(settings: &Settings, ids: &Ids<'_>) -> BTreeMap<IdHash, BTreeSet<Source>> {
    let mut found: BTreeMap<IdHash, BTreeSet<Source>> = BTreeMap::new();
    if settings.http.admin.is_none() {
        return found;
    }
    let Ok(Some(running)) = (Instance { running: Some(None) }).of(settings) else { return found };
    for (hash, id) in ids {
        match running.get(&format!("pairs?id={}", in_query(id))) {
            Ok(page) => {
                let pairs = page.get("pairs").and_then(Value::as_array).into_iter().flatten();
                let sources = pairs.filter_map(|pair| pair.get("source")?.as_str()?.parse::<Source>().ok());
                let sources: BTreeSet<Source> = sources.collect();
                if !sources.is_empty() {
                    found.insert(*hash, sources);
                }
            }
            Err(fatal) => note(&format!("warning: cannot search recent duplicates: {fatal}")),
        }
    }
    found
}

/// Searches the topic for these ids.
pub(super) fn search(settings: &Settings, limits: Limits, ids: &Ids<'_>) -> Result<Searched, Fatal> {
    let max =
        limits.records.map_or_else(String::new, |max| format!(", at most its last {} records", human::count(max)));
    note(&format!("searching {} in {}{max}", listed(ids.values().copied()), quoted(&searched_topics(settings))));
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
pub(super) fn not_found(ids: &Ids<'_>, searched: &Searched, since: Limits) -> Option<String> {
    let missing: Vec<&str> =
        ids.iter().filter(|(hash, _)| !searched.found.contains_key(hash)).map(|(_, id)| *id).collect();
    if missing.is_empty() {
        return None;
    }
    let (missing, topics, records) = (listed(missing), quoted(&searched.topics), human::count(searched.records));
    if searched.records == 0 {
        return Some(format!("{missing}: no record was searched: {topics} holds none of that time"));
    }
    let times = searched.times.map_or_else(String::new, |(oldest, newest)| {
        format!(", from {} to {}", human::time(oldest), human::time(newest))
    });
    let further = match (searched.is_whole, since.since) {
        (true, None) => "; it holds no more",
        (true, Some(_)) => "; an earlier --since searches further back",
        (false, _) => "; --scan RECORDS or --since WHEN searches further back",
    };
    Some(format!("{missing} is in none of the last {records} records of {topics}{times}{further}"))
}

/// Returns what the record of each found page shows, for pages without a verdict in the log.
pub(super) fn without_verdict(ids: &Ids<'_>, searched: &Searched) -> Vec<String> {
    let pages = searched.found.iter().flat_map(|(hash, pages)| pages.iter().map(move |page| (ids.get(hash), page)));
    let lines = pages.filter_map(|(id, page)| {
        let verdict = page.verdict.as_ref().map(|verdict| format!(", written as {verdict} to {}", page.record));
        Some(format!("{} is {}{}", id?, page.source, verdict.unwrap_or_default()))
    });
    lines.collect()
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn quoted(topics: &[String]) -> String {
    let quoted: Vec<String> = topics.iter().map(|topic| format!("`{topic}`")).collect();
    format!("topic{} {}", if quoted.len() == 1 { "" } else { "s" }, quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
