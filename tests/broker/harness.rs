//! The harness starts a broker that keeps its records.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::Producer;

use super::broker::{Broker, wait};
use super::messages::{commit, committed_payloads, produce, send, transactional_producer};

#[test]
fn produced_records_are_consumed_in_order() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("round-trip", 1);
    produce(broker, &topic, &["one", "two", "three"]);
    assert_eq!(committed_payloads(broker, &topic), ["one", "two", "three"]);
}

#[test]
fn topics_of_one_name_are_distinct() {
    let Some(broker) = Broker::shared() else { return };
    let (first, second) = (broker.topic("same", 1), broker.topic("same", 3));
    assert_ne!(first, second);
    let client: BaseConsumer = broker.client().create().unwrap();
    let metadata = client.fetch_metadata(Some(&second), wait::LIMIT).unwrap();
    assert_eq!(metadata.topics()[0].partitions().len(), 3);
}

#[test]
fn an_aborted_transaction_is_invisible_to_read_committed() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("aborted", 1);
    let producer = transactional_producer(broker, &broker.unique("aborting"));
    commit(&producer, &topic, &["before"]);
    producer.begin_transaction().unwrap();
    send(&producer, &topic, &["never"]);
    producer.flush(wait::LIMIT).unwrap();
    producer.abort_transaction(wait::LIMIT).unwrap();
    commit(&producer, &topic, &["after"]);
    assert_eq!(committed_payloads(broker, &topic), ["before", "after"]);
}

#[test]
fn a_stopped_or_killed_broker_comes_back_with_its_data_at_its_address() {
    let Some(broker) = Broker::private() else { return };
    let topic = broker.topic("lasting", 1);
    let producer = transactional_producer(&broker, "lasting");
    commit(&producer, &topic, &["first"]);
    // Not while its marker is missing: see `version` in `kafka.sh`.
    assert_eq!(committed_payloads(&broker, &topic), ["first"]);
    broker.kill();
    broker.start();
    assert_eq!(committed_payloads(&broker, &topic), ["first"]);
    commit(&producer, &topic, &["second"]);
    assert_eq!(committed_payloads(&broker, &topic), ["first", "second"]);
    broker.stop();
    broker.start();
    assert_eq!(committed_payloads(&broker, &topic), ["first", "second"]);
}
