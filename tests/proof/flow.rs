//! Pages that flow through a deployment all the time, and how long its outputs pause.
#![expect(clippy::disallowed_methods, reason = "the tests measure time")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

use crate::accounting::{Ledger, OutputKind, originals_are_delivered};
use crate::broker::{Broker, wait};
use crate::cluster::Cluster;
use crate::cluster::records::{Page, PageProducer};

/// Pages written in a second, over all partitions.
const RATE: u32 = 100;

/// One page in this many is a copy.
const COPIES: u32 = 10;

/// A copy has the text of the page this many before it: 6 s, which is longer than most pauses, so that originals and
/// copies are judged by different judges. A multiple of the number of partitions, so that both are in one partition and
/// the original is judged first.
const COPIED: u32 = 600;

/// Whether the page of this number is a copy, if one of `every` is, of the page `distance` before it.
fn is_copy(number: u32, every: u32, distance: u32) -> bool {
    number >= distance && number % every == every - 1
}

/// The number that the text of a page is made of. A copy of a copy has the text of the first one.
fn text_of(number: u32, every: u32, distance: u32) -> u32 {
    if is_copy(number, every, distance) { text_of(number - distance, every, distance) } else { number }
}

/// A word of a page, of eight letters: no two texts have a word in common, or are near each other.
fn word(text: u32, place: u32) -> String {
    // SplitMix64.
    let mixed = (u64::from(text) << 32 | u64::from(place)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).to_le_bytes().map(|byte| char::from(b'a' + byte % 26)).iter().collect()
}

/// The text of a page: 40 words.
fn words(text: u32) -> String {
    (0..40).map(|place| word(text, place)).collect::<Vec<_>>().join(" ")
}

/// The page of this number, if one of `every` is a copy of the page `distance` before it.
pub(crate) fn page(number: u32, every: u32, distance: u32) -> Page {
    let url = format!("https://a.example/{number}");
    let value = json!({ "url": url, "text": words(text_of(number, every, distance)) });
    Page { key: number.to_string(), value: Some(value.to_string().into()), ..Page::default() }
}

/// Writes pages to all partitions of a topic in turn, `rate` a second at even intervals, until it is over. The page of
/// each number is what `page` returns. Returns how many were written.
pub(crate) fn write_evenly(
    producer: &PageProducer,
    (topic, partitions): (&str, i32),
    rate: u32,
    is_over: &AtomicBool,
    page: impl Fn(u32) -> Page,
) -> usize {
    let start = Instant::now();
    let mut number = 0_u32;
    while !is_over.load(Ordering::SeqCst) {
        let place = i32::try_from(number).expect("few pages") % partitions;
        producer.write(topic, place, &page(number));
        number += 1;
        let due = start + Duration::from_secs(1) * number / rate;
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
    }
    producer.flush();
    usize::try_from(number).expect("a small number")
}

/// Writes [`RATE`] pages a second until dropped.
pub(crate) struct Feed {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Starts to write to all partitions in turn.
    pub(crate) fn start(broker: &Broker, topic: &str, partitions: i32) -> Self {
        assert!(i32::try_from(COPIED).is_ok_and(|distance| distance % partitions == 0), "copies in another partition");
        let (producer, topic, stop) = (PageProducer::new(broker), topic.to_owned(), Arc::new(AtomicBool::new(false)));
        let is_over = stop.clone();
        let thread = std::thread::spawn(move || {
            write_evenly(&producer, (&topic, partitions), RATE, &is_over, |number| page(number, COPIES, COPIED));
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends, once every page is stored.
    pub(crate) fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().expect("a thread").join().expect("the feed ends well");
    }
}

/// Checks that each page came out once, as what it is: a copy as a duplicate of a delivered page, any other as unique.
pub(crate) fn each_page_came_out_once(cluster: &Cluster<'_>) {
    let ledger = Ledger::read(cluster);
    let outcomes = ledger.outcomes(1).expect("each page comes out once (L1)");
    originals_are_delivered(&outcomes).expect("every duplicate points to a delivered original (L8)");
    for (source, record) in &ledger.inputs {
        let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()).expect("a key of text");
        let is_copy = is_copy(key.parse().expect("a number"), COPIES, COPIED);
        let expected = if is_copy { OutputKind::Duplicate } else { OutputKind::Unique };
        assert_eq!(outcomes[source].output_kind, expected, "{source}, page {key}: {:?}", outcomes[source]);
    }
}

/// A consumer that records arrival times.
pub(crate) struct Consumed {
    arrivals: Arc<Mutex<Vec<Instant>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Consumed {
    /// Starts to read these topics, with `read_committed`.
    pub(crate) fn start(broker: &Broker, topics: &[&str]) -> Self {
        let mut config = broker.client();
        config.set("group.id", broker.unique("consumer")).set("auto.offset.reset", "earliest");
        config.set("isolation.level", "read_committed").set("fetch.wait.max.ms", "50");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        // Without a group: its own recovery is not to be measured.
        let mut all = TopicPartitionList::new();
        for topic in topics {
            let metadata = consumer.fetch_metadata(Some(topic), wait::LIMIT).expect("metadata");
            for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
                all.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("a place");
            }
        }
        consumer.assign(&all).expect("assigned");
        let (arrivals, stop): (Arc<Mutex<Vec<Instant>>>, _) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (noted, stopped) = (arrivals.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Some(Ok(_)) = consumer.poll(Duration::from_millis(100)) {
                    noted.lock().expect("a list").push(Instant::now());
                }
            }
        });
        Self { arrivals, stop, thread: Some(thread) }
    }

    /// Number of records so far.
    pub(crate) fn count(&self) -> usize {
        self.arrivals.lock().expect("a list").len()
    }

    /// Waits for a second of records without a pause of more than half a second.
    pub(crate) fn wait_for_a_steady_flow(&self) {
        let from = Instant::now();
        wait::until("a steady flow of outputs", || {
            let arrivals = self.arrivals.lock().expect("a list");
            let now = Instant::now();
            let recent = |at: &Instant| *at >= from && now - *at < Duration::from_millis(1500);
            let last: Vec<Instant> = arrivals.iter().rev().copied().take_while(recent).collect();
            let is_long = last.last().is_some_and(|first| now - *first > Duration::from_secs(1));
            let is_dense = last.windows(2).all(|two| two[0] - two[1] < Duration::from_millis(500));
            (is_long && is_dense).then_some(())
        });
    }

    /// The longest time without a record since `from`.
    pub(crate) fn longest_pause_since(&self, from: Instant) -> Duration {
        let arrivals = self.arrivals.lock().expect("a list");
        let since: Vec<Instant> = arrivals.iter().copied().filter(|at| *at >= from).collect();
        let first = since.first().map_or(Duration::ZERO, |first| *first - from);
        since.windows(2).map(|two| two[1] - two[0]).fold(first, Duration::max)
    }

    /// The longest time without a record that begins or ends between these times, once records have arrived after them.
    pub(crate) fn longest_pause_between(&self, from: Instant, until: Instant) -> Duration {
        let arrivals = self.arrivals.lock().expect("a list");
        assert!(arrivals.last().is_some_and(|last| *last > until), "no record has arrived since");
        let overlap = arrivals.windows(2).filter(|two| two[1] > from && two[0] < until);
        overlap.map(|two| two[1] - two[0]).max().expect("a record before and one after")
    }
}

impl Drop for Consumed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the consumer ends well");
    }
}

/// Prints the pauses of one kind and returns the median and the longest.
pub(crate) fn printed(what: &str, mut pauses: Vec<Duration>, limit: Duration) -> (Duration, Duration) {
    pauses.sort_unstable();
    let (median, longest) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
    eprintln!(
        "{what}: outputs paused for {median:.2?} (median), {longest:.2?} (longest of {}); promised {limit:?}",
        pauses.len()
    );
    (median, longest)
}
