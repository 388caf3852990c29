//! Producing and consuming helpers.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::broker::{Broker, wait};

pub(crate) type TransactionalProducer = ThreadedProducer<DefaultProducerContext>;

/// A producer with `transactional.id = id`, ready to begin.
pub(crate) fn transactional_producer(broker: &Broker, id: &str) -> TransactionalProducer {
    let producer: TransactionalProducer =
        broker.client().set("transactional.id", id).create().expect("a transactional producer");
    producer.init_transactions(wait::LIMIT).expect("init_transactions");
    producer
}

/// Hands `payloads` to partition 0 of `topic`; `flush` or `commit_transaction` shows whether they have arrived.
pub(crate) fn send(producer: &TransactionalProducer, topic: &str, payloads: &[&str]) {
    for payload in payloads {
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload(payload);
        producer.send(record).map_err(|(why, _)| why).expect("room in the queue");
    }
}

/// Writes `payloads` to partition 0 of `topic` in one committed transaction.
pub(crate) fn commit(producer: &TransactionalProducer, topic: &str, payloads: &[&str]) {
    producer.begin_transaction().expect("begin");
    send(producer, topic, payloads);
    producer.commit_transaction(wait::LIMIT).expect("commit");
}

/// Writes `payloads` to partition 0 of `topic` outside of any transaction and waits for them to be stored.
pub(crate) fn produce(broker: &Broker, topic: &str, payloads: &[&str]) {
    let producer: TransactionalProducer =
        broker.client().set("enable.idempotence", "true").create().expect("a producer");
    send(&producer, topic, payloads);
    producer.flush(wait::LIMIT).expect("flush");
}

/// A consumer of partition 0 of `topic` from `offset` that reports the end of the partition and reads `read_committed`.
pub(crate) fn reader(broker: &Broker, topic: &str, offset: Offset) -> BaseConsumer {
    let consumer: BaseConsumer = broker
        .client()
        .set("group.id", broker.unique("reader"))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .create()
        .expect("a consumer");
    consumer.assign(&place(topic, offset)).expect("assign");
    consumer
}

/// Partition 0 of `topic` with `offset`.
pub(crate) fn place(topic: &str, offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, offset).expect("a valid offset");
    list
}

/// Reads up to the reported end of the partition: the payloads in order.
pub(crate) fn read_to_end(consumer: &BaseConsumer) -> Vec<String> {
    let mut payloads = Vec::new();
    wait::until("the end of the partition", || match consumer.poll(Duration::from_millis(200)) {
        None => None,
        Some(Ok(message)) => {
            payloads.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
            None
        }
        Some(Err(KafkaError::PartitionEOF(_))) => Some(()),
        Some(Err(why)) => panic!("reading failed: {why}"),
    });
    payloads
}

/// Start and end of partition 0 of `topic` for the isolation level: the last stable offset or the high watermark.
pub(crate) fn marks(broker: &Broker, topic: &str, isolation: &str) -> (i64, i64) {
    let client: BaseConsumer = broker.client().set("isolation.level", isolation).create().expect("a client");
    // A restarted broker answers before it leads its partitions again.
    wait::until("a leader", || match client.fetch_watermarks(topic, 0, wait::LIMIT) {
        Err(KafkaError::MetadataFetch(RDKafkaErrorCode::NotLeaderForPartition)) => None,
        marks => Some(marks.expect("watermarks")),
    })
}

/// Waits until no transaction is open in partition 0 of `topic`.
///
/// The wait matters: `commit_transaction` returns when the decision is stored, the marker that ends the transaction in
/// the partition is written after that, and until then a reader sees the end before it.
pub(crate) fn no_transaction_is_open(broker: &Broker, topic: &str) {
    wait::until("the end of the open transaction", || {
        (marks(broker, topic, "read_committed") == marks(broker, topic, "read_uncommitted")).then_some(())
    });
}

/// All records of partition 0 that are visible to `read_committed` of `topic`, once no transaction is open there.
pub(crate) fn committed_payloads(broker: &Broker, topic: &str) -> Vec<String> {
    no_transaction_is_open(broker, topic);
    read_to_end(&reader(broker, topic, Offset::Beginning))
}
