//! Topics of pages on the broker, and how far a group has come in them.

use std::time::{Duration, Instant};

use dupgate::crawl::{Crawl, Planted};
use rdkafka::config::FromClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::Broker;

/// Partitions of every topic of pages.
pub(crate) const PARTITIONS: i32 = 6;

/// How long the broker may be silent, and a run may stand still.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Creates a topic that keeps what it is given: the pages' timestamps are not of today.
pub(crate) fn topic(broker: &Broker, name: &str) -> String {
    broker.topic_with(name, PARTITIONS, &[("retention.ms", "-1")])
}

/// A producer as a crawler may have it.
pub(crate) fn crawler(broker: &Broker) -> ThreadedProducer<DefaultProducerContext> {
    let mut config = broker.client();
    config.set("enable.idempotence", "true").set("compression.type", "zstd").set("linger.ms", "1");
    ThreadedProducer::from_config(&config).unwrap()
}

/// Sends one page to the partition that its number says.
pub(crate) fn send(crawler: &ThreadedProducer<DefaultProducerContext>, topic: &str, page: &Planted) {
    let partition = i32::try_from(page.number % u64::try_from(PARTITIONS).unwrap()).unwrap();
    let mut record = BaseRecord::to(topic)
        .partition(partition)
        .key(page.key.as_str())
        .payload(page.value.as_slice())
        .timestamp(page.timestamp.millis());
    while let Err((error, again)) = crawler.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "{error}");
        record = again;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fills a topic with pages, and returns how many bytes of key and value they have.
pub(crate) fn fill(broker: &Broker, topic: &str, crawl: Crawl, pages: usize) -> usize {
    let crawler = crawler(broker);
    let mut bytes = 0;
    for page in crawl.take(pages) {
        bytes += page.key.len() + page.value.len();
        send(&crawler, topic, &page);
    }
    crawler.flush(TIMEOUT).unwrap();
    bytes
}

/// One look at a group: when, and how many records of the topic it has after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) at: Instant,
    pub(crate) committed: usize,
}

/// Follows the committed offsets of a group until it has all `pages`; keeps the looks at which it had come further.
/// `alive` returns whether the consumer still runs.
pub(crate) fn follow(
    broker: &Broker,
    group: &str,
    topic: &str,
    pages: usize,
    mut alive: impl FnMut() -> bool,
) -> Vec<Look> {
    let mut config = broker.client();
    // What is committed, and not what may come to be.
    config.set("group.id", group).set("isolation.level", "read_uncommitted");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(topic, 0, PARTITIONS - 1);
    let mut looks: Vec<Look> = Vec::new();
    let mut moved = Instant::now();
    loop {
        // A group that is only just made may have no coordinator yet.
        let committed = consumer.committed_offsets(asked.clone(), TIMEOUT).map_or(0, |offsets| {
            offsets
                .elements()
                .iter()
                .map(|element| if let Offset::Offset(offset) = element.offset() { offset } else { 0 })
                .map(|offset| usize::try_from(offset).unwrap_or(0))
                .sum()
        });
        let at = Instant::now();
        if committed > looks.last().map_or(0, |look| look.committed) {
            looks.push(Look { at, committed });
            moved = at;
        }
        if committed >= pages {
            return looks;
        }
        assert!(alive(), "the process has ended after {committed} of {pages} pages");
        assert!(moved.elapsed() < TIMEOUT, "no progress since {TIMEOUT:?}: {committed} of {pages} pages");
        // Seldom enough to cost the broker nothing that shows beside the service.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Records a second in the middle of a run, from a fifth to nine tenths of the pages: neither the first fetches nor
/// the emptying of what was in flight counts.
pub(crate) fn rate(looks: &[Look], pages: usize) -> f64 {
    let first = looks.iter().find(|look| look.committed * 5 >= pages).unwrap();
    let last = looks.iter().rfind(|look| look.committed * 10 <= pages * 9).filter(|last| last.at > first.at);
    // Few commits, as in a short run: up to the end.
    let last = last.or(looks.last()).filter(|last| last.at > first.at);
    last.map_or(f64::NAN, |last| {
        (last.committed - first.committed) as f64 / last.at.duration_since(first.at).as_secs_f64()
    })
}
