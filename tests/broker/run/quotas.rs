//! Brokers that are slow: pages are delivered at the rate that they allow, and hardly anything is written for nothing.
//!
//! `DUPGATE_TEST_QUOTAS="2000000 1000000"` measures other rates, in bytes a second.

use std::time::Duration;

use dupgate::runtime::clock::Clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::text;
use super::topics::{Given, produce};

const PARTITIONS: i32 = 3;
const PAGE_BYTES: usize = 6_000;
/// The pages take this long at the quota. Brokers let a client exceed it during the first ten seconds.
const SECONDS: usize = 45;

/// A consumer of all partitions of a topic.
fn reader(broker: &Broker, topic: &str, isolation_level: &str) -> BaseConsumer {
    let mut client = broker.client();
    client.set("group.id", broker.unique("reader")).set("enable.auto.commit", "false");
    client.set("isolation.level", isolation_level).set("enable.partition.eof", "true");
    let consumer: BaseConsumer = client.create().expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), wait::LIMIT).expect("metadata");
    let mut list = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
        list.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("assign");
    consumer
}

fn is_end(message: &Result<BorrowedMessage<'_>, KafkaError>) -> bool {
    match message {
        Ok(_) => false,
        Err(KafkaError::PartitionEOF(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Reads until this many records have come, and returns when.
fn read(consumer: &BaseConsumer, clock: Clock, records: usize) -> Duration {
    let mut count = 0;
    wait::within(Duration::from_secs(4 * SECONDS as u64), &format!("{records} records"), || {
        while count < records
            && let Some(message) = consumer.poll(Duration::from_millis(200))
        {
            count += usize::from(!is_end(&message));
        }
        (count == records).then(|| clock.now())
    })
}

/// Delivers pages while the brokers take this many bytes a second. Returns the share of the quota that committed pages
/// have used, and how many records were written for each committed one.
fn deliver(broker: &'static Broker, bytes_per_second: usize) -> (f64, f64) {
    let site = Site::new(broker, PARTITIONS);
    let client_id = broker.unique("slow");
    broker.limit(&client_id, "producer_byte_rate", Some(bytes_per_second as u64));
    let pages = bytes_per_second * SECONDS / PAGE_BYTES;
    let page = |seed: usize| {
        let text = text(u32::try_from(bytes_per_second + seed).expect("a seed"));
        Given::value(&json!({ "text": text, "picture": "x".repeat(PAGE_BYTES) }).to_string())
    };
    for partition in 0..PARTITIONS {
        let own = (0..pages).skip(usize::try_from(partition).expect("a number")).step_by(PARTITIONS as usize);
        produce(broker, &site.input, partition, &own.map(page).collect::<Vec<_>>());
    }
    // Among this many random texts some are near: all go to one topic.
    let slow = json!({ "mode": "tag", "kafka": { "client_id": client_id }, "output": { "compression": "none" } });
    let instance = site.start_with("one", slow);
    let (clock, consumer) = (Clock::start(), reader(broker, &site.unique, "read_committed"));
    let first = read(&consumer, clock, pages / 3);
    let all = read(&consumer, clock, pages - pages / 3);
    instance.stop();
    let (all_records, mut written, mut ends) = (reader(broker, &site.unique, "read_uncommitted"), 0, 0);
    wait::until("everything that was written", || {
        while let Some(message) = all_records.poll(Duration::from_millis(200)) {
            if is_end(&message) { ends += 1 } else { written += 1 }
        }
        (ends == PARTITIONS).then_some(())
    });
    let number = |count: usize| f64::from(u32::try_from(count).expect("a small number"));
    let possible = number(bytes_per_second) * all.saturating_sub(first).as_secs_f64();
    let committed = number((pages - pages / 3) * PAGE_BYTES);
    (committed / possible, f64::from(written) / number(pages))
}

#[test]
#[ignore = "needs the machine for itself: make test-failover"]
fn pages_are_delivered_at_the_rate_that_brokers_allow() {
    let Some(broker) = Broker::shared() else { return };
    let rates = std::env::var("DUPGATE_TEST_QUOTAS").unwrap_or_else(|_| "300000 100000".to_owned());
    let rates = rates.split_whitespace().map(|rate| rate.parse::<usize>().expect("bytes a second"));
    std::thread::scope(|scope| {
        let runs: Vec<_> = rates.map(|rate| (rate, scope.spawn(move || deliver(broker, rate)))).collect();
        for (rate, run) in runs {
            let (share, written) = run.join().expect("a run");
            println!("{rate} bytes/s: {:.0} % used, {written:.3} records written for each page", 100.0 * share);
            assert!(share >= 0.8, "{rate} bytes/s: only {:.0} % were used", 100.0 * share);
            assert!(written < 1.05, "{rate} bytes/s: {written:.2} records written for each page");
        }
    });
}
