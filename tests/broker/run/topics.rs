//! Writing and reading whole records.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use super::super::broker::{Broker, wait};

/// A recent time, in milliseconds: brokers refuse records that are far ahead.
const MOMENT: i64 = 1_760_000_000_123;

/// A record to write.
#[derive(Clone, Debug)]
pub(in super::super) struct Given {
    pub(in super::super) key: Option<&'static str>,
    pub(in super::super) value: Option<String>,
    pub(in super::super) headers: &'static [(&'static str, Option<&'static str>)],
    pub(in super::super) timestamp: Option<i64>,
}

impl Given {
    /// A record without key and headers.
    pub(in super::super) fn value(value: &str) -> Self {
        Self { key: None, value: Some(value.to_owned()), headers: &[], timestamp: Some(MOMENT) }
    }

    /// A record without a value.
    pub(in super::super) fn tombstone(key: &'static str) -> Self {
        Self { key: Some(key), value: None, headers: &[], timestamp: Some(MOMENT) }
    }
}

/// A page with this text.
pub(in super::super) fn page(text: &str) -> Given {
    Given::value(&serde_json::json!({ "text": text }).to_string())
}

/// A record that was read.
#[derive(Clone, Debug)]
pub(in super::super) struct Got {
    pub(in super::super) partition: i32,
    pub(in super::super) key: Option<Vec<u8>>,
    pub(in super::super) value: Option<Vec<u8>>,
    pub(in super::super) headers: Vec<(String, Option<String>)>,
    pub(in super::super) timestamp: Option<i64>,
}

impl Got {
    /// The values of all headers with this name.
    pub(in super::super) fn header(&self, name: &str) -> Vec<String> {
        self.headers.iter().filter(|(known, _)| known == name).filter_map(|(_, value)| value.clone()).collect()
    }
}

/// Writes records, each once, and waits until they are stored.
pub(in super::super) fn produce(broker: &Broker, topic: &str, partition: i32, records: &[Given]) {
    let mut config = broker.client();
    // A broker that stalls may have stored what it did not acknowledge.
    config.set("enable.idempotence", "true");
    let producer: ThreadedProducer<DefaultProducerContext> = config.create().expect("a producer");
    for given in records {
        let mut record = BaseRecord::<str, str>::to(topic).partition(partition);
        record.key = given.key;
        record.payload = given.value.as_deref();
        record.timestamp = given.timestamp;
        if !given.headers.is_empty() {
            let headers = given.headers.iter();
            record.headers =
                Some(headers.fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: *value })));
        }
        producer.send(record).map_err(|(why, _)| why).expect("room in the queue");
    }
    producer.flush(wait::LIMIT).expect("flush");
}

/// Waits until at least this many records are committed in a topic, and returns all, in order of partitions.
pub(in super::super) fn committed(broker: &Broker, topic: &str, at_least: usize) -> Vec<Got> {
    let consumer: BaseConsumer = broker
        .client()
        .set("group.id", broker.unique("reader"))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .create()
        .expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), wait::LIMIT).expect("metadata");
    let mut list = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
        list.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("assign");
    let mut records = Vec::new();
    wait::until(&format!("{at_least} records in {topic}"), || {
        while let Some(message) = consumer.poll(Duration::from_millis(200)) {
            let message = message.expect("a record");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let headers = message.headers().map_or_else(Vec::new, |headers| {
                headers.iter().map(|header| (header.key.to_owned(), header.value.map(text))).collect()
            });
            records.push(Got {
                partition: message.partition(),
                key: message.key().map(<[u8]>::to_vec),
                value: message.payload().map(<[u8]>::to_vec),
                headers,
                timestamp: message.timestamp().to_millis(),
            });
        }
        (records.len() >= at_least).then_some(())
    });
    records.sort_by_key(|record| record.partition);
    records
}

/// Returns the approximate number of records in a topic: transaction markers are included.
pub(in super::super) fn count(broker: &Broker, topic: &str) -> usize {
    let consumer: BaseConsumer = broker.client().set("isolation.level", "read_committed").create().expect("a client");
    let metadata = consumer.fetch_metadata(Some(topic), wait::LIMIT).expect("metadata");
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    let ends = partitions
        .map(|partition| consumer.fetch_watermarks(topic, partition.id(), wait::LIMIT).expect("watermarks").1);
    usize::try_from(ends.sum::<i64>()).expect("a count")
}
