//! The pages of a replay: read by one thread for each topic, or by one for all files, their text processed on all
//! cores, handed over in the order of each partition. The lines of a file form a partition.
//!
//! Every partition of a topic has its own share of the memory for pages in flight and is paused beyond it, so that
//! pages of other partitions never block an awaited page. Records on their way from the readers are at most one share
//! more, even while nothing is taken. Files are read one after the other, and all lines count together until they are
//! taken: they are taken in the order of reading.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use dupgate_core::replay::{ArchiveFile, FilePlace, InputRange, LOOKAHEAD, Mark, Marks, Plan, Reads, Shadow, Target};
use dupgate_core::worker::Page;

use super::files::{self, FileEvent};
use crate::clock::Clock;
use crate::config::settings::{Settings, Topics};
use crate::error::{Fatal, fatal};
use crate::fatal::{failure, unavailable};
use crate::kafka::admin::{Admin, Brokers};
use crate::kafka::budget::{ByteBudget, Permit};
use crate::kafka::client::ClientSettings;
use crate::kafka::group_consumer::ConsumedRecord;
use crate::kafka::offsets::Offsets;
use crate::kafka::output::{Outputs, PagePayload};
use crate::kafka::range::{RangeEvent, RangeReader};
use crate::processing::schema_registry;
use crate::processing::text_pool::{CHECK_INTERVAL, Done, Job, RecordProcessor, TextPool, TextWork, TreeBudget};
use crate::record::{PartitionId, Timestamp};
use crate::telemetry::Metrics;
use crate::{context, topics};

/// Time limit of the text work on one page.
const TEXT_LIMIT: Duration = Duration::from_secs(20);

/// How long to wait for the next event before other work.
const STEP: Duration = Duration::from_millis(100);

/// Minimum share of one partition, in bytes.
const MIN_SHARE: usize = 256 << 10;

/// The offsets of each partition.
pub(super) type Extents = BTreeMap<PartitionId, Range<i64>>;

/// What happened during a wait.
pub(super) enum FeedEvent {
    /// The next page of a partition was read, with this event time.
    Page(PartitionId, Timestamp),
    /// A partition has no more pages.
    Ended(PartitionId),
    /// Nothing new.
    Nothing,
}

enum Event {
    Reader(RangeEvent),
    File(FileEvent),
    Done(Box<Done>),
}

/// Reads pages.
pub(super) struct Feed {
    feeds: BTreeMap<PartitionId, PartitionFeed>,
    readers: BTreeMap<Arc<str>, RangeReader>,
    pool: TextPool,
    /// Counts records of topics until they arrive here, lines of files until they are taken.
    budget: Arc<ByteBudget>,
    events: Receiver<Event>,
    clock: Clock,
    /// Bytes of one partition that may wait.
    share: usize,
    /// Events that were not returned yet.
    news: VecDeque<FeedEvent>,
}

#[derive(Default)]
struct PartitionFeed {
    first: u64,
    pages: VecDeque<Slot>,
    bytes: usize,
    is_paused: bool,
    /// Whether the reader has handed over the last record.
    is_read: bool,
    /// Number of pages at the front that were reported.
    announced: usize,
    has_ended: bool,
    /// Place of the last page that was taken, in files.
    taken: FilePlace,
}

struct Slot {
    /// Absent during its text work.
    page: Option<Box<Page<PagePayload>>>,
    /// The place after it in the file.
    place: FilePlace,
    /// Counts a line until it is taken.
    _permit: Option<Permit>,
}

impl Feed {
    /// Starts reading partitions of topics.
    pub(super) fn of_topics(
        config: &ClientSettings,
        extents: &Extents,
        work: impl TextWork + 'static,
        threads: usize,
        memory: usize,
        clock: Clock,
    ) -> Result<Self, Fatal> {
        let share = (memory / extents.len().max(1)).max(MIN_SHARE);
        let (mut feed, sender) = Self::build(extents.keys().cloned(), work, threads, share, clock)?;
        feed.share = share;
        let mut topics: BTreeMap<Arc<str>, BTreeMap<i32, Range<i64>>> = BTreeMap::new();
        for (partition, extent) in extents {
            topics.entry(Arc::clone(&partition.topic)).or_default().insert(partition.number, extent.clone());
        }
        for (topic, ranges) in topics {
            let announced = sender.clone();
            let sink = move |event| drop(announced.send(Event::Reader(event)));
            let reader =
                RangeReader::start(config, &topic, &ranges, Arc::clone(&feed.budget), sink).map_err(failure)?;
            feed.readers.insert(topic, reader);
        }
        Ok(feed)
    }

    /// Starts reading files after a place. Of lines longer than `max_document` bytes only the beginning is kept.
    pub(super) fn of_files(
        files: &[ArchiveFile],
        from: FilePlace,
        max_document: usize,
        work: impl TextWork + 'static,
        threads: usize,
        memory: usize,
        clock: Clock,
    ) -> Result<Self, Fatal> {
        let partitions = files.iter().enumerate().map(|(number, file)| file.partition(number));
        let (feed, sender) = Self::build(partitions, work, threads, memory.max(MIN_SHARE), clock)?;
        let sink = move |event| sender.send(Event::File(event)).is_ok();
        files::start(files, from, max_document, Arc::clone(&feed.budget), sink).map_err(failure)?;
        Ok(feed)
    }

    fn build(
        partitions: impl Iterator<Item = PartitionId>,
        work: impl TextWork + 'static,
        threads: usize,
        budget: usize,
        clock: Clock,
    ) -> Result<(Self, Sender<Event>), Fatal> {
        let (sender, events): (Sender<Event>, _) = unbounded();
        let done = sender.clone();
        let pool = TextPool::start(threads, work, clock, move |one| drop(done.send(Event::Done(Box::new(one)))));
        let feed = Self {
            feeds: partitions.map(|partition| (partition, PartitionFeed::default())).collect(),
            readers: BTreeMap::new(),
            pool: pool.map_err(failure)?,
            budget: ByteBudget::new(budget),
            events,
            clock,
            share: usize::MAX,
            news: VecDeque::new(),
        };
        Ok((feed, sender))
    }

    /// Waits briefly for an event.
    pub(super) fn wait(&mut self) -> Result<FeedEvent, Fatal> {
        if let Some(news) = self.news.pop_front() {
            return Ok(news);
        }
        let overdue = self.pool.give_up_overdue(self.clock.now(), TEXT_LIMIT).map_err(failure)?;
        if overdue {
            return Err(fatal!(
                Failure,
                "too many pages took longer than {TEXT_LIMIT:?} of text work: resume the replay"
            ));
        }
        let Ok(event) = self.events.recv_timeout(STEP.min(CHECK_INTERVAL)) else { return Ok(FeedEvent::Nothing) };
        self.take_in(event)?;
        self.take_in_arrived()?;
        Ok(self.news.pop_front().unwrap_or(FeedEvent::Nothing))
    }

    /// Takes the next page of a partition, if it was read, for a caller that needs no reports of new pages: they are
    /// dropped.
    pub(super) fn next(&mut self, partition: &PartitionId) -> Result<Option<Page<PagePayload>>, Fatal> {
        // A caller that finds one page after the other never waits, and the pool needs work meanwhile.
        self.take_in_arrived()?;
        self.news.clear();
        Ok(self.take(partition))
    }

    /// Takes the next page of a partition, if it was read.
    pub(super) fn take(&mut self, partition: &PartitionId) -> Option<Page<PagePayload>> {
        let feed = self.feeds.get_mut(partition)?;
        feed.pages.front()?.page.as_ref()?;
        let Slot { page, place, .. } = feed.pages.pop_front()?;
        let page = page?;
        feed.taken = place;
        feed.first += 1;
        feed.announced = feed.announced.saturating_sub(1);
        feed.bytes = feed.bytes.saturating_sub(page.payload.record.bytes());
        if feed.is_paused && (feed.bytes < self.share / 2 || feed.pages.len() < LOOKAHEAD) {
            self.resume(partition);
        }
        Some(*page)
    }

    /// Returns the place after the last line that was taken.
    pub(super) fn place(&self, partition: &PartitionId) -> FilePlace {
        self.feeds.get(partition).map_or_else(FilePlace::default, |feed| feed.taken)
    }

    /// Returns whether every page of a partition was taken.
    pub(super) fn is_over(&self, partition: &PartitionId) -> bool {
        self.feeds.get(partition).is_none_or(|feed| feed.is_read && feed.pages.is_empty())
    }

    fn resume(&mut self, partition: &PartitionId) {
        if let (Some(feed), Some(reader)) = (self.feeds.get_mut(partition), self.readers.get(&partition.topic)) {
            feed.is_paused = false;
            reader.resume(partition.number);
        }
    }

    /// Processes everything that has arrived: all of it is needed soon.
    fn take_in_arrived(&mut self) -> Result<(), Fatal> {
        while let Ok(event) = self.events.try_recv() {
            self.take_in(event)?;
        }
        Ok(())
    }

    fn take_in(&mut self, event: Event) -> Result<(), Fatal> {
        match event {
            Event::Reader(RangeEvent::Record { partition, offset, record, permit }) => {
                drop(permit);
                self.read(&partition, offset, record, FilePlace::default(), None);
            }
            Event::File(FileEvent::Line { source, record, place, permit }) => {
                self.read(&source.partition, source.offset, record, place, Some(permit));
            }
            Event::Reader(RangeEvent::Ended(partition)) | Event::File(FileEvent::Ended(partition)) => {
                if let Some(feed) = self.feeds.get_mut(&partition) {
                    feed.is_read = true;
                }
                self.announce(&partition);
            }
            Event::Reader(RangeEvent::Failed(why)) | Event::File(FileEvent::Failed(why)) => {
                return Err(fatal!(State, why));
            }
            Event::Done(done) => {
                let Done { place, page, .. } = *done;
                let partition = page.source.partition.clone();
                if let Some(feed) = self.feeds.get_mut(&partition) {
                    let at = place.checked_sub(feed.first).and_then(|at| usize::try_from(at).ok());
                    if let Some(slot) = at.and_then(|at| feed.pages.get_mut(at)) {
                        slot.page = Some(Box::new(page));
                    }
                }
                self.announce(&partition);
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        partition: &PartitionId,
        offset: i64,
        record: ConsumedRecord,
        place_after: FilePlace,
        permit: Option<Permit>,
    ) {
        let Some(feed) = self.feeds.get_mut(partition) else { return };
        let bytes = record.bytes();
        let place = feed.first + feed.pages.len() as u64;
        feed.pages.push_back(Slot { page: None, place: place_after, _permit: permit });
        feed.bytes += bytes;
        // The order of time needs this many pages of each partition, whatever their size.
        if !feed.is_paused && feed.bytes > self.share && feed.pages.len() >= LOOKAHEAD {
            feed.is_paused = true;
            if let Some(reader) = self.readers.get(&partition.topic) {
                reader.pause(partition.number);
            }
        }
        let (source, record, permit) = (partition.at(offset), Arc::new(record), self.budget.hold(0));
        self.pool.read(Job { source, serial: 0, place, record, permit });
    }

    /// Reports new pages at the front of a partition, and its end.
    fn announce(&mut self, partition: &PartitionId) {
        let Some(feed) = self.feeds.get_mut(partition) else { return };
        while let Some(page) = feed.pages.get(feed.announced).and_then(|slot| slot.page.as_ref()) {
            feed.announced += 1;
            self.news.push_back(FeedEvent::Page(partition.clone(), page.event_time));
        }
        if feed.is_read && feed.announced == feed.pages.len() && !std::mem::replace(&mut feed.has_ended, true) {
            self.news.push_back(FeedEvent::Ended(partition.clone()));
        }
    }
}

/// The start of a replay in a partition.
pub(super) fn start_of(plan: &Plan, partition: &PartitionId) -> Mark {
    let range = plan.input.iter().find(|range| range.id() == *partition);
    Mark::at(range.map_or(0, |range| range.warm_from))
}

/// Returns the range to read of each partition, after the committed offsets; none if fingerprints are read.
pub(super) fn extents(plan: &Plan, marks: &Marks) -> Extents {
    if plan.reads == Reads::Fingerprints {
        return Extents::new();
    }
    let extent = |range: &InputRange| {
        let from = marks.get(&range.id()).map_or(range.warm_from, |mark| mark.offset);
        (range.id(), from..range.to.max(from))
    };
    plan.input.iter().map(extent).collect()
}

/// Checks that the input still holds the range.
pub(super) fn still_there(offsets: &Offsets, extents: &Extents) -> Result<(), Fatal> {
    for (partition, extent) in extents {
        if extent.is_empty() {
            continue;
        }
        let Range { start: from, end: to } = *extent;
        let Range { start: first, end } = offsets.range(partition).map_err(unavailable)?;
        if end < to {
            return Err(fatal!(
                State,
                "{partition} ends at offset {end}, before the end of the range ({to}): the topic was recreated after the plan was made"
            ));
        }
        if first > from {
            return Err(fatal!(
                State,
                "{partition} begins at offset {first}: retention has deleted {} records of the range since; make a new plan",
                first - from
            ));
        }
    }
    Ok(())
}

/// Converts pages to records of the plan's topics.
pub(super) fn outputs(plan: &Plan, settings: &Settings) -> Result<Outputs, Fatal> {
    let mut settings = settings.clone();
    let output = if plan.into.has_pages() { plan.output.clone() } else { Shadow::default() };
    settings.output.unique = output.unique;
    settings.output.duplicate = output.duplicate;
    settings.output.dead_letter = output.dead_letter;
    settings.roles.worker = true;
    if plan.is_of_files() {
        // The topics of the pages may be gone.
        settings.input.topics = Topics::Names(Vec::new());
    }
    let admin =
        Admin::of(&context::connection(&settings.kafka).admin(), Brokers::Cluster).map_err(topics::topic_error)?;
    let mut outputs = topics::outputs(&admin, &settings, plan.scheme.clone()).map_err(topics::topic_error)?;
    // For a pattern, the plan lists the topics.
    for topic in plan.input.iter().map(|range| &range.topic).collect::<BTreeSet<_>>() {
        let partitions = admin.expect_topic(topic).map_err(topics::topic_error)?;
        outputs.partition_counts.learn(Arc::from(topic.as_str()), partitions);
    }
    if plan.into == Target::Live {
        outputs.headers.replay = Some(plan.id.clone());
    }
    Ok(outputs)
}

/// Starts reading the pages of a plan: these offsets of its topics, or its files after a place.
pub(super) fn feed(
    plan: &Plan,
    settings: &Settings,
    (extents, place): (&Extents, Option<FilePlace>),
    outputs: Arc<Outputs>,
    (config, metrics, clock): (&ClientSettings, &Metrics, Clock),
) -> Result<Feed, Fatal> {
    let mut settings = settings.clone();
    schema_registry::connect_waiting(&mut settings, metrics, None, clock)?;
    let fingerprinter = context::fingerprinter(&settings)?;
    let memory = settings.processing.max_in_flight_bytes;
    let processor = RecordProcessor {
        earlier: None,
        fingerprinter,
        outputs,
        clock,
        metrics: metrics.clone(),
        trees: TreeBudget::new(memory, settings.record.format),
        untimed: if plan.is_of_files() { super::UNTIMED } else { Timestamp::default() },
        max_future_skew: settings.rules.max_future_skew,
    };
    let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = settings.processing.threads.unwrap_or_else(cpus);
    match place {
        Some(place) => {
            let max_document = settings.record.max_document;
            Feed::of_files(&plan.files, place, max_document, processor, threads, memory, clock)
        }
        None => Feed::of_topics(config, extents, processor, threads, memory, clock),
    }
}

#[cfg(test)]
mod tests {
    use dupgate_core::worker::{PageAction, PageOutcome};
    use rdkafka::ClientConfig;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

    use super::*;
    use crate::fingerprint::Scratch;
    use crate::kafka::client::ConnectionSettings;
    use crate::kafka::demo::InProcessBroker;
    use crate::processing::text_pool::Taken;
    use crate::record::{Reject, Source};

    /// Far longer than anything that is waited for.
    const LIMIT: Duration = Duration::from_mins(1);

    /// Pages of each partition, and their size.
    const PAGES: i64 = 100;
    const PAGE_BYTES: usize = 32 << 10;

    /// Each partition's share is the smallest one.
    const MEMORY: usize = 2 * MIN_SHARE;

    /// Takes no time.
    struct NoWork;

    impl TextWork for NoWork {
        fn wait_for_memory(&self, _: &ConsumedRecord) -> Option<Taken> {
            None
        }

        fn read(&self, source: Source, record: &Arc<ConsumedRecord>, _: &mut Scratch) -> Page<PagePayload> {
            let payload = PagePayload { record: Arc::clone(record), ..PagePayload::default() };
            let (event_time, action) = (Timestamp::default(), PageAction::Settled(PageOutcome::Tombstone));
            Page { source, bytes: record.bytes(), event_time, paced_by: event_time, action, earlier: None, payload }
        }

        fn withdraw(&self, source: Source, record: &Arc<ConsumedRecord>, _: Reject) -> Page<PagePayload> {
            self.read(source, record, &mut Scratch::default())
        }

        fn was_busy(&self, _: Duration) {}
    }

    fn fill(brokers: &str, partition: &PartitionId) {
        let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
        for _ in 0..PAGES {
            let record = BaseRecord::<str, _>::to(&partition.topic).partition(partition.number);
            producer.send(record.payload(&vec![0; PAGE_BYTES])).unwrap();
        }
        producer.flush(LIMIT).unwrap();
    }

    fn take_all(feed: &mut Feed, partition: &PartitionId) {
        let clock = Clock::start();
        let mut offset = 0;
        while !feed.is_over(partition) {
            while let Some(page) = feed.next(partition).unwrap() {
                assert_eq!(page.source, partition.at(offset));
                assert!(feed.news.is_empty(), "reports pile up");
                offset += 1;
            }
            feed.wait().unwrap();
            assert!(clock.now() < LIMIT, "{offset} pages of {partition} arrived");
        }
        assert_eq!(offset, PAGES);
    }

    #[test]
    fn a_partition_that_is_not_taken_is_read_up_to_its_share() {
        let broker = InProcessBroker::start().unwrap();
        broker.create_topic("pages", 2).unwrap();
        let [waiting, taken] = [0, 1].map(|number| PartitionId::new("pages", number));
        let extents: Extents = [&waiting, &taken].map(|partition| (partition.clone(), 0..PAGES)).into();
        extents.keys().for_each(|partition| fill(&broker.address(), partition));
        let connection = ConnectionSettings { brokers: vec![broker.address()], ..ConnectionSettings::default() };

        let clock = Clock::start();
        let mut feed = Feed::of_topics(&connection.follower("replay"), &extents, NoWork, 1, MEMORY, clock).unwrap();
        // Nothing is taken in until the reader stops by itself.
        while feed.budget.wait_for_room(Duration::ZERO) {
            assert!(clock.now() < LIMIT, "the reader does not stop");
            std::thread::yield_now();
        }
        let arrived = feed.budget.held();
        assert!(arrived <= MIN_SHARE + 2 * PAGE_BYTES, "{arrived} bytes have arrived");
        // Meanwhile the reader would have read all of the other one.
        take_all(&mut feed, &taken);
        let held = feed.feeds[&waiting].bytes;
        // What was on its way when the partition was paused is at most another share.
        assert!(held <= 2 * (MIN_SHARE + PAGE_BYTES), "{held} bytes are held");
        assert!(feed.feeds[&waiting].is_paused);
        take_all(&mut feed, &waiting);
        assert_eq!(feed.feeds[&waiting].bytes, 0);
    }
}
