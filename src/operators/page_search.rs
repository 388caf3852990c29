//! Finds pages by their ids in a topic, from the newest records backwards.
//!
//! So a recent page is found soon, and memory holds only the byte budget of the readers and the pages that were found.
//! Duplicates are searched in their own topic if it holds whole pages, else in the input.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};

use crate::config::settings::{DuplicateValue, Settings, Topics};
use crate::context;
use crate::error::{Fatal, Reason, fatal};
use crate::fatal::{ended, failure};
use crate::fingerprint::{IdHash, id_hash};
use crate::kafka::budget::ByteBudget;
use crate::kafka::client::ClientSettings;
use crate::kafka::group_consumer::ConsumedRecord;
use crate::kafka::offsets::Offsets;
use crate::kafka::range::{RangeEvent, RangeReader};
use crate::processing::text_pool::{Named, raw};
use crate::record::{Decoder, Headers as _, PartitionId, Source, Timestamp};

/// How long the cluster may be silent while there is something to read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of records that are read and not processed yet.
const AHEAD: usize = 16 << 20;

/// Number of offsets in the first chunk, over all partitions; each further one has twice as many, up to [`MAX_CHUNK`].
const FIRST_CHUNK: u64 = 10_000;
const MAX_CHUNK: u64 = 320_000;

/// Maximum number of pages kept for one id; a page that is read later replaces the first of them.
const MAX_FOUND: usize = 100;

/// Number of records between two progress reports.
const REPORT_INTERVAL: u64 = 1_000;

/// The search terms, and how far back to search.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub ids: BTreeSet<IdHash>,
    /// Maximum number of records to read; `None`: all.
    pub records: Option<u64>,
    /// Time of the oldest record to read; `None`: no limit.
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPage {
    /// Its position in the input.
    pub source: Source,
    pub record: Source,
    /// The verdict that the record names.
    pub verdict: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Searched {
    pub topics: Vec<String>,
    pub records: u64,
    /// Timestamps of the oldest and the newest of them.
    pub times: Option<(Timestamp, Timestamp)>,
    pub is_whole: bool,
    pub found: BTreeMap<IdHash, VecDeque<FoundPage>>,
}

impl Searched {
    /// Returns the positions of all pages that were found.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        self.found.values().flatten().map(|page| page.source.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub records: u64,
    /// Maximum number of records to read, by their offsets.
    pub max: u64,
}

/// Returns the topics to search for duplicates: their own topic if it holds whole pages, else the input.
#[must_use]
pub fn searched_topics(settings: &Settings) -> Vec<String> {
    match (&settings.output.duplicate, settings.output.duplicate_value, &settings.input.topics) {
        (Some(topic), DuplicateValue::Original, _) => vec![topic.clone()],
        (_, _, Topics::Names(names)) => names.clone(),
        (_, _, Topics::Pattern(pattern)) => vec![pattern.clone()],
    }
}

/// Searches until each id was found, or nothing is left to search. `report` is called periodically.
///
/// # Errors
///
/// A topic cannot be read, or the cluster does not answer.
pub fn search_pages(settings: &Settings, wanted: &Wanted, report: impl FnMut(Progress)) -> Result<Searched, Fatal> {
    let connection = context::connection(&settings.kafka);
    let group = &settings.input.group;
    let unavailable = |error| ended(Reason::Unavailable, error, group);
    let topics = searched_topics(settings);
    let offsets = Offsets::new(&connection.query(group), IDLE_TIMEOUT).map_err(failure)?;
    let partitions = offsets.partitions(&topics).map_err(unavailable)?;
    let first = wanted.since.map(|since| offsets.at_time(&partitions, since)).transpose().map_err(unavailable)?;
    let mut unread = Ranges::new();
    for partition in partitions {
        let kept = offsets.range(&partition).map_err(unavailable)?;
        let begin = first.as_ref().and_then(|first| first.get(&partition).copied()).unwrap_or(kept.start);
        unread.insert(partition, begin.max(kept.start)..kept.end);
    }
    let decoder = Decoder::new(&settings.record, settings.text.max_nesting).map_err(failure)?;
    let mut search = Search {
        config: connection.follower(group),
        group: group.clone(),
        source_header: format!("{}source", settings.output.header_prefix),
        verdict_header: format!("{}verdict", settings.output.header_prefix),
        decoder,
        wanted: wanted.clone(),
        is_input: settings.output.duplicate.as_ref().is_none_or(|duplicate| !topics.contains(duplicate)),
        searched: Searched { topics, ..Searched::default() },
        report,
    };
    search.run(unread, FIRST_CHUNK)?;
    Ok(search.searched)
}

struct Search<R> {
    config: ClientSettings,
    group: String,
    source_header: String,
    verdict_header: String,
    decoder: Decoder,
    wanted: Wanted,
    /// Whether the input is searched: the position of a page is then that of its record.
    is_input: bool,
    searched: Searched,
    report: R,
}

impl<R: FnMut(Progress)> Search<R> {
    fn run(&mut self, unread: Ranges, first_chunk: u64) -> Result<(), Fatal> {
        let mut unread = Unread { ranges: unread, chunk: first_chunk };
        while self.searched.found.len() < self.wanted.ids.len() {
            let left = self.wanted.records.map_or(u64::MAX, |max| max.saturating_sub(self.searched.records));
            let chunk = unread.newest(left);
            if chunk.is_empty() {
                break;
            }
            self.read(chunk, left.min(unread.offsets()).saturating_add(self.searched.records))?;
        }
        self.searched.is_whole = unread.offsets() == 0;
        Ok(())
    }

    fn read(&mut self, chunk: Ranges, max: u64) -> Result<(), Fatal> {
        let budget = ByteBudget::new(AHEAD);
        let (sender, events) = unbounded();
        let mut open = chunk.len();
        let mut topics: BTreeMap<Arc<str>, BTreeMap<i32, Range<i64>>> = BTreeMap::new();
        for (partition, range) in chunk {
            topics.entry(partition.topic).or_default().insert(partition.number, range);
        }
        let mut readers = Vec::new();
        for (topic, ranges) in &topics {
            let sender = sender.clone();
            let sink = move |event| drop(sender.send(event));
            readers.push(RangeReader::start(&self.config, topic, ranges, Arc::clone(&budget), sink).map_err(failure)?);
        }
        while open > 0 {
            if self.take_in(&events, max)?.is_break() {
                open -= 1;
            }
        }
        Ok(())
    }

    /// Processes the next event; breaks at the end of a partition.
    fn take_in(&mut self, events: &Receiver<RangeEvent>, max: u64) -> Result<ControlFlow<()>, Fatal> {
        match events.recv_timeout(IDLE_TIMEOUT) {
            Ok(RangeEvent::Record { partition, offset, record, permit }) => {
                self.look_at(&partition.at(offset), &record);
                drop(permit);
                if self.searched.records.is_multiple_of(REPORT_INTERVAL) {
                    (self.report)(Progress { records: self.searched.records, max });
                }
                Ok(ControlFlow::Continue(()))
            }
            Ok(RangeEvent::Ended(_)) => Ok(ControlFlow::Break(())),
            Ok(RangeEvent::Failed(why)) => Err(ended(Reason::State, why, &self.group)),
            Err(_) => {
                let topics = self.searched.topics.join(", ");
                Err(fatal!(
                    Unavailable,
                    "no record of {topics} arrived within {} s: is a broker of them down?",
                    IDLE_TIMEOUT.as_secs()
                ))
            }
        }
    }

    fn look_at(&mut self, at: &Source, record: &ConsumedRecord) {
        self.searched.records += 1;
        if let Some(time) = record.timestamp {
            let (oldest, newest) = self.searched.times.unwrap_or((time, time));
            self.searched.times = Some((oldest.min(time), newest.max(time)));
        }
        let headers = Named(&record.headers);
        let Ok(document) = self.decoder.decode(&raw(record, &headers)) else { return };
        let names = [document.id.as_deref(), document.address.as_deref()];
        let id = names.into_iter().flatten().map(id_hash).find(|id| self.wanted.ids.contains(id));
        let Some(id) = id else { return };
        let text = |name: &str| headers.last(name).and_then(|value| std::str::from_utf8(value).ok());
        let source =
            if self.is_input { Some(at.clone()) } else { text(&self.source_header).and_then(|it| it.parse().ok()) };
        // A record that names no position was not written by this service.
        let Some(source) = source else { return };
        let verdict = text(&self.verdict_header).filter(|_| !self.is_input).map(str::to_owned);
        let found = self.searched.found.entry(id).or_default();
        if found.len() == MAX_FOUND {
            found.pop_front();
        }
        found.push_back(FoundPage { source, record: at.clone(), verdict });
    }
}

/// Offsets of each partition.
type Ranges = BTreeMap<PartitionId, Range<i64>>;

/// The offsets that are not searched yet.
struct Unread {
    ranges: Ranges,
    /// Number of offsets in the next chunk.
    chunk: u64,
}

impl Unread {
    fn offsets(&self) -> u64 {
        self.ranges.values().map(|range| u64::try_from(range.end - range.start).unwrap_or(0)).sum()
    }

    /// Takes the newest offsets of each partition: at most `max` in all, but at least one of each partition unless
    /// `max` is 0.
    fn newest(&mut self, max: u64) -> Ranges {
        self.ranges.retain(|_, range| !range.is_empty());
        let partitions = u64::try_from(self.ranges.len()).unwrap_or(u64::MAX);
        let share = self.chunk.min(max).checked_div(partitions).unwrap_or(0).max(1);
        let share = if max == 0 { 0 } else { i64::try_from(share).unwrap_or(i64::MAX) };
        self.chunk = self.chunk.saturating_mul(2).min(MAX_CHUNK);
        let mut newest = Ranges::new();
        for (partition, range) in &mut self.ranges {
            let begin = range.end.saturating_sub(share).max(range.start);
            if begin < range.end {
                newest.insert(partition.clone(), begin..range.end);
                range.end = begin;
            }
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::message::{Header, OwnedHeaders};
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};

    use super::*;
    use crate::config::{ExternalInputs, Layers, Purpose};

    #[test]
    fn the_newest_offsets_come_first_and_each_once() {
        let [a, b] = [0, 1].map(|number| PartitionId::new("pages", number));
        let mut unread = Unread { ranges: [(a.clone(), 5..100), (b.clone(), 0..3)].into(), chunk: 20 };
        assert_eq!(unread.newest(u64::MAX), [(a.clone(), 90..100), (b, 0..3)].into());
        assert_eq!(unread.newest(30), [(a.clone(), 60..90)].into(), "40 offsets, of which 30 may be read");
        assert_eq!(unread.newest(0), Ranges::new());
        assert_eq!(unread.offsets(), 55);
        assert_eq!(unread.newest(u64::MAX), [(a, 5..60)].into());
        assert_eq!(unread.newest(u64::MAX), Ranges::new());
    }

    /// Duplicates 0 to 99, each with the address `http://a/NUMBER` and its position, in turns on two partitions.
    fn settings(cluster: &MockCluster<'_, DefaultProducerContext>) -> Settings {
        cluster.create_topic("duplicate", 2, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        let producer: ThreadedProducer<DefaultProducerContext> = config.create().unwrap();
        for number in 0..100 {
            let value = serde_json::json!({"url": format!("http://a/{number}"), "text": "some text"}).to_string();
            let source = format!("pages:7:{number}");
            let header = |key, value| Header { key, value: Some(value) };
            let headers = OwnedHeaders::new().insert(header("dupgate.verdict", "near"));
            let record = BaseRecord::<str, str>::to("duplicate").payload(&value).partition(number % 2);
            let record = record.timestamp(1_760_000_000_000 + i64::from(number));
            let record = record.headers(headers.insert(header("dupgate.source", &source)));
            producer.send(record).map_err(|(why, _)| why).unwrap();
        }
        producer.flush(Duration::from_secs(30)).unwrap();
        let file = format!(
            "kafka: {{brokers: [\"{}\"]}}\ninput: {{topics: [pages], group: g, instance_id: one}}\n\
             output: {{unique: {{topic: u}}, duplicate: {{topic: duplicate}}, dead_letter: {{topic: x}}}}\n",
            cluster.bootstrap_servers()
        );
        let mut layers = Layers::default();
        layers.file("dupgate.yaml", &file);
        let resolved = layers.resolve(&ExternalInputs::default(), Purpose::Run);
        resolved.unwrap_or_else(|refused| panic!("{refused}")).0
    }

    fn wanted(ids: &[&str], records: Option<u64>) -> Wanted {
        Wanted { ids: ids.iter().map(|id| id_hash(id)).collect(), records, since: None }
    }

    #[test]
    fn duplicates_are_found_by_their_ids_within_the_record_limit() {
        let cluster = MockCluster::new(1).unwrap();
        let settings = settings(&cluster);
        let search = |wanted: Wanted| search_pages(&settings, &wanted, |_| {}).unwrap();

        let all = search(wanted(&["http://a/3", "http://a/98"], None));
        assert_eq!((all.records, all.is_whole, all.topics), (100, true, vec!["duplicate".to_owned()]));
        let found: Vec<(String, String, Option<String>)> = all
            .found
            .into_values()
            .flatten()
            .map(|page| (page.source.to_string(), page.record.to_string(), page.verdict))
            .collect();
        let near = || Some("near".to_owned());
        assert!(found.contains(&("pages:7:3".to_owned(), "duplicate:1:1".to_owned(), near())), "{found:?}");
        assert!(found.contains(&("pages:7:98".to_owned(), "duplicate:0:49".to_owned(), near())), "{found:?}");

        let few = search(wanted(&["http://a/3"], Some(20)));
        assert_eq!((few.records, few.is_whole, few.found.len()), (20, false, 0));
        let time = |number: i64| Timestamp::from_millis(1_760_000_000_000 + number);
        assert_eq!(few.times, Some((time(80), time(99))), "the newest of both partitions");
    }

    #[test]
    fn the_search_ends_when_every_id_is_found() {
        let cluster = MockCluster::new(1).unwrap();
        let settings = settings(&cluster);
        let group = settings.input.group.clone();
        let mut search = Search {
            config: context::connection(&settings.kafka).follower(&group),
            group,
            source_header: "dupgate.source".to_owned(),
            verdict_header: "dupgate.verdict".to_owned(),
            decoder: Decoder::new(&settings.record, settings.text.max_nesting).unwrap(),
            wanted: wanted(&["http://a/85"], None),
            is_input: false,
            searched: Searched::default(),
            report: |_| {},
        };
        let both = [0, 1].map(|number| (PartitionId::new("duplicate", number), 0..50));
        // 10 newest records, then 20 more: numbers 70 to 99.
        search.run(both.into(), 10).unwrap();
        assert_eq!((search.searched.records, search.searched.is_whole, search.searched.found.len()), (30, false, 1));
    }
}
