//! What the service is compared with: an exactly-once copy that reads, writes and does nothing between.
//!
//! Same clients with the same settings as the service's own: `read_committed` consumer, one transactional producer, a
//! transaction each commit interval with the input offsets in it, key, value, timestamp and partition as they came.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dupgate::config::Settings;
use dupgate::config::settings::Compression;
use dupgate::kafka::client::{BATCH_BYTES, ClientSettings, ConnectionSettings, ConsumerTimeouts, ProducerSettings};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::Broker;
use crate::bus::{self, Look, TIMEOUT};

const POLL: Duration = Duration::from_millis(20);

/// The largest batch that a topic takes in the broker's default.
const MAX_BYTES: usize = 1_048_588;

/// Copies a topic once, with the settings of a service that ran before; returns how it came along.
pub(crate) fn run(broker: &Broker, settings: &Settings, input: &str, pages: usize) -> Vec<Look> {
    let group = broker.unique("copy");
    let output = bus::topic(broker, "copy");
    let (consumer, producer) = clients(broker, settings, &group);
    let interval = settings.output.commit_interval;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            producer.init_transactions(TIMEOUT).unwrap();
            consumer.subscribe(&[input]).unwrap();
            while !over.load(Ordering::Relaxed) {
                copy_for(interval, &consumer, &producer, input, &output);
            }
        });
        let looks = bus::follow(broker, &group, input, pages, || true);
        over.store(true, Ordering::Relaxed);
        looks
    })
}

/// One transaction.
fn copy_for(
    interval: Duration,
    consumer: &BaseConsumer,
    producer: &ThreadedProducer<DefaultProducerContext>,
    input: &str,
    output: &str,
) {
    let mut next: BTreeMap<i32, i64> = BTreeMap::new();
    let start = Instant::now();
    while start.elapsed() < interval {
        let message = match consumer.poll(POLL) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => continue,
            Some(message) => message.unwrap(),
        };
        if next.is_empty() {
            producer.begin_transaction().unwrap();
        }
        send(producer, output, &message);
        next.insert(message.partition(), message.offset() + 1);
    }
    if next.is_empty() {
        return;
    }
    let mut offsets = TopicPartitionList::new();
    for (partition, offset) in next {
        offsets.add_partition_offset(input, partition, Offset::Offset(offset)).unwrap();
    }
    producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), TIMEOUT).unwrap();
    producer.commit_transaction(TIMEOUT).unwrap();
}

fn send(producer: &ThreadedProducer<DefaultProducerContext>, output: &str, message: &BorrowedMessage<'_>) {
    let mut record = BaseRecord::<[u8], [u8]>::to(output).partition(message.partition());
    record.key = message.key();
    record.payload = message.payload();
    record.timestamp = message.timestamp().to_millis();
    while let Err((error, again)) = producer.send(record) {
        assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "{error}");
        record = again;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn clients(
    broker: &Broker,
    settings: &Settings,
    group: &str,
) -> (BaseConsumer, ThreadedProducer<DefaultProducerContext>) {
    let kafka = &settings.kafka;
    let connection = ConnectionSettings {
        brokers: vec![broker.address().to_owned()],
        client_id: kafka.client_id.clone(),
        ..ConnectionSettings::default()
    };
    let timeouts = ConsumerTimeouts { session: kafka.session_timeout, poll: kafka.max_poll_interval };
    let mut consumer: ClientSettings = connection.input_consumer(group, Some("copy"), timeouts);
    // The service seeks by itself.
    consumer.set("auto.offset.reset", "earliest");
    let sending = ProducerSettings {
        compression: codec(settings.output.compression).to_owned(),
        max_record_bytes: MAX_BYTES,
        max_batch_bytes: BATCH_BYTES,
        transaction_timeout: kafka.transaction_timeout,
    };
    let producer = connection.transactional_producer(&format!("{group}.copy"), &sending);
    (consumer.create().unwrap(), producer.create().unwrap())
}

/// Returns the clients' name of a compression.
pub(crate) const fn codec(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Snappy => "snappy",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}
