//! Assumptions of the Kafka edge about rdkafka and the broker, each in a separate test.

use std::collections::BTreeSet;
use std::time::Duration;

use dupgate::kafka::offsets::Offsets;
use dupgate::record::PartitionId;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use super::broker::{Broker, admin, wait};
use super::messages::{
    commit, committed_payloads, marks, no_transaction_is_open, place, produce, read_to_end, reader, send,
    transactional_producer,
};

#[test]
fn the_client_is_built_with_every_protocol_that_operators_need() {
    let features = ClientConfig::new().create_native_config().unwrap().get("builtin.features").unwrap();
    let features: Vec<&str> = features.split(',').collect();
    for wanted in ["gzip", "snappy", "lz4", "zstd", "ssl", "sasl_plain", "sasl_scram", "sasl_oauthbearer", "oidc"] {
        assert!(features.contains(&wanted), "{wanted} is missing in {features:?}");
    }
}

#[test]
fn metadata_of_offsets_in_a_transaction_is_read_back() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("metadata", 2);
    let group = broker.unique("metadata-group");
    let consumer: BaseConsumer = broker.client().set("group.id", &group).create().unwrap();
    let producer = transactional_producer(broker, &broker.unique("metadata"));
    producer.begin_transaction().unwrap();
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&topic, 0, Offset::Offset(7)).unwrap();
    offsets.add_partition_offset(&topic, 1, Offset::Offset(9)).unwrap();
    offsets.find_partition(&topic, 0).unwrap().set_metadata("checkpoint 42");
    producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), wait::LIMIT).unwrap();
    producer.commit_transaction(wait::LIMIT).unwrap();

    let mut requested = TopicPartitionList::new();
    requested.add_partition_range(&topic, 0, 1);
    let committed = consumer.committed_offsets(requested, wait::LIMIT).unwrap();
    let with = committed.find_partition(&topic, 0).unwrap();
    assert_eq!((with.offset(), with.metadata()), (Offset::Offset(7), "checkpoint 42"));
    let without = committed.find_partition(&topic, 1).unwrap();
    assert_eq!((without.offset(), without.metadata()), (Offset::Offset(9), ""));
}

#[test]
fn committed_offsets_wait_only_for_open_transactions_on_the_requested_partitions() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("pending", 2);
    let group = broker.unique("pending-group");
    let consumer: BaseConsumer = broker.client().set("group.id", &group).create().unwrap();
    let producer = transactional_producer(broker, &broker.unique("pending"));
    let send = |partition: i32, offset: i64| {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&topic, partition, Offset::Offset(offset)).unwrap();
        producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), wait::LIMIT).unwrap();
    };
    producer.begin_transaction().unwrap();
    send(0, 3);
    send(1, 4);
    producer.commit_transaction(wait::LIMIT).unwrap();
    producer.begin_transaction().unwrap();
    send(1, 9);

    let [first, second] = [0, 1].map(|number| PartitionId::new(topic.as_str(), number));
    let of = |offsets: &Offsets, partition: &PartitionId, is_final: bool| {
        let requested = BTreeSet::from([partition.clone()]);
        let answer = if is_final { offsets.committed(&requested) } else { offsets.last_committed(&requested) };
        answer.map(|known| known[partition].as_ref().map(|committed| committed.offset))
    };
    let config = broker.client().set("group.id", &group).set("isolation.level", "read_committed").clone();
    let brief = Offsets::new(&config, Duration::from_secs(2)).unwrap();
    let patient = Offsets::new(&config, wait::LIMIT).unwrap();
    assert_eq!(of(&patient, &first, true), Ok(Some(3)), "no open transaction moves it");
    assert!(of(&brief, &second, true).is_err(), "its transaction is open");
    assert_eq!(of(&patient, &second, false), Ok(Some(4)), "the last committed one");

    let message = std::thread::scope(|scope| {
        let asker = scope.spawn(|| of(&patient, &second, true));
        producer.commit_transaction(wait::LIMIT).unwrap();
        asker.join().unwrap()
    });
    assert_eq!(message, Ok(Some(9)));
}

#[test]
fn watermarks_end_at_the_first_open_transaction_only_for_read_committed() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("watermarks", 1);
    let producer = transactional_producer(broker, &broker.unique("watermarks"));
    commit(&producer, &topic, &["a", "b"]);
    producer.begin_transaction().unwrap();
    send(&producer, &topic, &["c"]);
    producer.flush(wait::LIMIT).unwrap();
    let ends = |isolation: &str| marks(broker, &topic, isolation);
    // Two records and the marker of their commit, then the open record.
    assert_eq!(ends("read_committed"), (0, 3));
    assert_eq!(ends("read_uncommitted"), (0, 4));
    producer.commit_transaction(wait::LIMIT).unwrap();
    wait::until("the marker of the second commit", || (ends("read_committed") == (0, 5)).then_some(()));
}

#[test]
fn the_end_and_the_position_are_after_trailing_markers() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("end", 1);
    let producer = transactional_producer(broker, &broker.unique("end"));
    commit(&producer, &topic, &["a", "b"]);
    producer.begin_transaction().unwrap();
    send(&producer, &topic, &["aborted"]);
    producer.flush(wait::LIMIT).unwrap();
    producer.abort_transaction(wait::LIMIT).unwrap();
    wait::until("the marker of the abort", || (marks(broker, &topic, "read_committed") == (0, 5)).then_some(()));
    let consumer = reader(broker, &topic, Offset::Beginning);
    assert_eq!(read_to_end(&consumer), ["a", "b"]);
    // Two records, a marker, the aborted record, its marker: the position is after all of them.
    let position = consumer.position().unwrap();
    assert_eq!(position.find_partition(&topic, 0).unwrap().offset(), Offset::Offset(5));
}

#[test]
fn deleted_records_are_an_error_for_a_reader_below_the_start() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("trimmed", 1);
    produce(broker, &topic, &["a", "b", "c", "d"]);
    let admin: AdminClient<DefaultClientContext> = broker.client().create().unwrap();
    let deleted =
        admin::block_on(admin.delete_records(&place(&topic, Offset::Offset(3)), &AdminOptions::new())).unwrap();
    let deleted = deleted.find_partition(&topic, 0).unwrap();
    assert_eq!((deleted.offset(), deleted.error().is_ok()), (Offset::Offset(3), true));

    let below = reader(broker, &topic, Offset::Offset(1));
    let why = wait::until("an error of the reader below the start", || below.poll(Duration::from_millis(200)));
    let why = why.map(|message| message.offset());
    assert_eq!(why, Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset)));
    assert_eq!(committed_payloads(broker, &topic), ["d"]);
}

#[test]
fn markers_of_transactions_are_no_lag() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, group) = (broker.topic("markers", 1), broker.unique("markers-group"));
    let consumer: BaseConsumer = broker.client().set("group.id", &group).create().unwrap();
    let producer = transactional_producer(broker, &broker.unique("markers"));
    commit(&producer, &topic, &["one", "two"]);
    no_transaction_is_open(broker, &topic);
    let mut config = broker.client();
    config.set("group.id", &group).set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let offsets = Offsets::new(&config, wait::LIMIT).unwrap();
    let partitions = BTreeSet::from([PartitionId::new(topic.as_str(), 0)]);
    let lags = |committed: i64| {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Offset(committed)).unwrap();
        consumer.commit(&list, CommitMode::Sync).unwrap();
        (offsets.lag(&partitions).unwrap(), offsets.lag_in_records(&partitions).unwrap())
    };
    assert_eq!(lags(1), (2, 2), "a record and the marker after it");
    assert_eq!(lags(2), (1, 0), "the marker");
    assert_eq!(lags(3), (0, 0));
}
