//! Records of topics: produced, and read back with `read_committed`.

use std::collections::BTreeMap;
use std::time::Duration;

use dupgate::record::{PartitionId, Source};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use crate::broker::{Broker, wait};

/// A header: its name, and bytes or null.
pub(crate) type HeaderLine = (String, Option<Vec<u8>>);

/// One record, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) source: Source,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) headers: Vec<HeaderLine>,
}

impl Record {
    /// The text of the only header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(given, _)| given == name);
        let found = named.next()?;
        assert!(named.next().is_none(), "{}: two headers {name}", self.source);
        std::str::from_utf8(found.1.as_deref()?).ok()
    }

    fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map(|headers| {
            let owned = |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
            headers.iter().map(owned).collect()
        });
        Self {
            source: PartitionId::new(message.topic(), message.partition()).at(message.offset()),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            timestamp: message.timestamp().to_millis(),
            headers: headers.unwrap_or_default(),
        }
    }
}

/// A record to write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) key: String,
    /// Null if absent.
    pub(crate) value: Option<Vec<u8>>,
    /// The time of writing if absent.
    pub(crate) timestamp: Option<i64>,
    pub(crate) headers: Vec<HeaderLine>,
}

/// Writes pages, in order within a partition.
pub(crate) struct PageProducer(ThreadedProducer<DefaultProducerContext>);

impl PageProducer {
    pub(crate) fn new(broker: &Broker) -> Self {
        let mut config = broker.client();
        config.set("enable.idempotence", "true").set("linger.ms", "5").set("message.max.bytes", "20000000");
        Self(config.create().expect("a producer"))
    }

    /// Hands a page over.
    pub(crate) fn write(&self, topic: &str, partition: i32, page: &Page) {
        let mut headers = OwnedHeaders::new();
        for (key, value) in &page.headers {
            headers = headers.insert(Header { key, value: value.as_deref() });
        }
        let mut record = BaseRecord::to(topic).partition(partition).key(&page.key).headers(headers);
        record.payload = page.value.as_deref();
        record.timestamp = page.timestamp;
        self.0.send(record).map_err(|(why, _)| why).expect("room in the queue");
    }

    /// Waits until everything handed over is stored.
    pub(crate) fn flush(&self) {
        self.0.flush(wait::LIMIT).expect("everything is stored");
        assert_eq!(self.0.in_flight_count(), 0, "everything is stored");
    }
}

/// Reads whole topics from their beginning, up to the end of the committed records, and keeps them.
pub(crate) struct TopicReader {
    config: ClientConfig,
    consumer: BaseConsumer,
    /// Sees open transactions, too.
    outsider: BaseConsumer,
    /// Partitions, and the next offsets to read.
    places: BTreeMap<(String, i32), Offset>,
    /// Whether brokers were unreachable since the consumer was created: it may have forgotten them for good (librdkafka
    /// issue 5301).
    is_shaken: bool,
    records: Vec<Record>,
}

impl TopicReader {
    /// Starts reading these topics.
    pub(crate) fn open(broker: &Broker, topics: &[&str]) -> Self {
        let mut config = broker.client();
        config
            .set("group.id", broker.unique("reader"))
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            .set("fetch.message.max.bytes", "20000000");
        let outsider: BaseConsumer =
            broker.client().set("isolation.level", "read_uncommitted").create().expect("a client");
        let metadata = outsider.fetch_metadata(None, wait::LIMIT).expect("metadata");
        let mut places = BTreeMap::new();
        for topic in metadata.topics().iter().filter(|topic| topics.contains(&topic.name())) {
            for partition in topic.partitions() {
                places.insert((topic.name().to_owned(), partition.id()), Offset::Beginning);
            }
        }
        assert!(places.len() >= topics.len(), "{topics:?} are not all there");
        let consumer = reading(&config, &places);
        Self { config, consumer, outsider, places, is_shaken: false, records: Vec::new() }
    }

    /// Reads the current records, and returns the total number read so far.
    pub(crate) fn advance(&mut self) -> usize {
        // The first fetch takes a moment, and a broker may be starting.
        let mut timeout = Duration::from_millis(100);
        while let Some(polled) = self.consumer.poll(timeout) {
            match polled {
                Ok(message) => {
                    let place = (message.topic().to_owned(), message.partition());
                    self.places.insert(place, Offset::Offset(message.offset() + 1));
                    self.records.push(Record::of(&message));
                }
                Err(KafkaError::PartitionEOF(_)) => {}
                // Brokers may be down; the test detects missing records.
                Err(why) => {
                    eprintln!("reading {:?}: {why}", self.places.keys().next());
                    self.is_shaken = true;
                }
            }
            timeout = Duration::from_millis(5);
        }
        if self.is_shaken {
            let known = self.consumer.fetch_metadata(None, Duration::from_secs(2));
            self.is_shaken = known.is_err();
            // Do not probe it: replace it by another one that continues at its position.
            self.consumer = reading(&self.config, &self.places);
        }
        self.records.len()
    }

    /// Reads until there are `count` records.
    pub(crate) fn wait_for(&mut self, count: usize) {
        self.wait_while(count, || {});
    }

    /// Reads until there are `count` records, calling `meanwhile` repeatedly.
    pub(crate) fn wait_while(&mut self, count: usize, mut meanwhile: impl FnMut()) {
        let mut had = self.records.len();
        // The limit applies to a lack of progress, not to the whole.
        while self.records.len() < count {
            let what = format!("more than {had} of {count} records");
            had = wait::until(&what, || {
                meanwhile();
                Some(self.advance()).filter(|&now| now > had)
            });
        }
    }

    /// Reads to the end, once no transaction is open there, and returns everything read.
    pub(crate) fn read_to_end(mut self) -> Vec<Record> {
        for (topic, partition) in self.places.clone().into_keys() {
            let end = self.stable_end(&topic, partition);
            let what = format!("the end {end:?} of {topic}:{partition}");
            wait::until(&what, || {
                self.advance();
                let position = self.consumer.position().expect("positions");
                let at = position.find_partition(&topic, partition)?.offset().to_raw();
                (end.is_none() || at >= end).then_some(())
            });
        }
        self.records
    }

    /// The end of a partition, once everything before it is decided; `None` if it is empty.
    fn stable_end(&self, topic: &str, partition: i32) -> Option<i64> {
        wait::until("the end of the open transaction", || {
            let (_, stable) = self.consumer.fetch_watermarks(topic, partition, wait::LIMIT).expect("the stable end");
            let (low, end) = self.outsider.fetch_watermarks(topic, partition, wait::LIMIT).expect("the very end");
            (stable == end).then(|| Some(end).filter(|&end| end > low))
        })
    }
}

fn reading(config: &ClientConfig, places: &BTreeMap<(String, i32), Offset>) -> BaseConsumer {
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for ((topic, partition), offset) in places {
        list.add_partition_offset(topic, *partition, *offset).expect("a valid offset");
    }
    consumer.assign(&list).expect("assign");
    consumer
}

/// Records by place.
pub(crate) fn by_source(records: Vec<Record>) -> BTreeMap<Source, Record> {
    records.into_iter().map(|record| (record.source.clone(), record)).collect()
}
