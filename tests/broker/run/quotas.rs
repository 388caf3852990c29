//! Brokers that are slow: pages are delivered at the rate that they allow, and hardly anything is written for nothing.
//!
//! `DUPGATE_TEST_QUOTAS="2000000 1000000"` measures other rates, in bytes a second.

use std::process::Stdio;
use std::time::Duration;

use dupgate::clock::Clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::super::process::Process;
use super::instance::Site;
use super::text;
use super::topics::{Given, produce};

const PARTITIONS: i32 = 3;
/// Bytes of a page's picture, which is most of it.
const PICTURE_BYTES: usize = 8_000;
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

/// How pages were written at a quota.
#[derive(Debug)]
struct Delivered {
    /// Share of the quota that committed pages have used.
    share: f64,
    /// Number of records written for each committed one.
    written: f64,
}

/// Measures how the pages of a topic are written until all are.
fn measure(broker: &Broker, topic: &str, pages: usize, (packed, bytes_per_second): (usize, usize)) -> Delivered {
    let (clock, consumer) = (Clock::start(), reader(broker, topic, "read_committed"));
    let first = read(&consumer, clock, pages / 3);
    let all = read(&consumer, clock, pages - pages / 3);
    let (all_records, mut written, mut ends) = (reader(broker, topic, "read_uncommitted"), 0, 0);
    wait::until("everything that was written", || {
        while let Some(message) = all_records.poll(Duration::from_millis(200)) {
            if is_end(&message) { ends += 1 } else { written += 1 }
        }
        (ends == PARTITIONS).then_some(())
    });
    let number = |count: usize| f64::from(u32::try_from(count).expect("a small number"));
    let possible = number(bytes_per_second) * all.saturating_sub(first).as_secs_f64();
    let committed = number((pages - pages / 3) * packed);
    Delivered { share: committed / possible, written: f64::from(written) / number(pages) }
}

/// A picture in base64, which compresses to what it had before.
fn picture(seed: usize) -> String {
    let mut bits = u64::try_from(seed).expect("a seed");
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let mut symbol = || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet.get(usize::try_from(bits >> 58).expect("six bits")).expect("64 symbols")
    };
    (0..PICTURE_BYTES).map(|_| symbol()).collect()
}

/// Delivers pages while the brokers take this many bytes a second, then replays them.
fn deliver(broker: &'static Broker, bytes_per_second: usize) -> [Delivered; 2] {
    let site = Site::new(broker, PARTITIONS);
    let client_id = broker.unique("slow");
    broker.limit(&client_id, "producer_byte_rate", Some(bytes_per_second as u64));
    let page = |seed: usize| {
        let text = text(u32::try_from(bytes_per_second + seed).expect("a seed"));
        json!({ "text": text, "picture": picture(seed) }).to_string()
    };
    let packed = zstd::bulk::compress(page(0).as_bytes(), 1).expect("a compressed page").len();
    let pages = bytes_per_second * SECONDS / packed;
    for partition in 0..PARTITIONS {
        let own = (0..pages).skip(usize::try_from(partition).expect("a number")).step_by(PARTITIONS as usize);
        produce(broker, &site.input, partition, &own.map(|seed| Given::value(&page(seed))).collect::<Vec<_>>());
    }
    // Among this many random texts some are near: all go to one topic.
    let slow = json!({ "mode": "tag", "kafka": { "client_id": client_id } });
    let instance = site.start_with("one", slow);
    let delivered = measure(broker, &site.unique, pages, (packed, bytes_per_second));
    instance.stop();
    let client = format!("kafka.client_id={client_id}");
    let settings = ["-s", "mode=tag", "-s", &client];
    let run = ["replay", "run", "--from", "start", "--order", "log", "--id", "slow", "--execute", "-q"];
    let mut running = Process::start(site.command(&[&run[..], &settings].concat()).stdin(Stdio::null()));
    let shadow = format!("{}.replay.slow", site.unique);
    wait::until("the topic of the replay", || {
        assert!(running.try_wait().expect("a status").is_none(), "the replay has ended");
        site.topics().contains(&shadow).then_some(())
    });
    let replayed = measure(broker, &shadow, pages, (packed, bytes_per_second));
    let status = wait::until("the end of the replay", || running.try_wait().expect("a status"));
    assert!(status.success(), "{status}");
    [delivered, replayed]
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
            for (name, delivered) in ["service", "replay"].into_iter().zip(run.join().expect("a run")) {
                let Delivered { share, written } = delivered;
                let percent = 100.0 * share;
                println!("{rate} bytes/s, {name}: {percent:.0} % used, {written:.3} records written for each page");
                assert!(share >= 0.8, "{rate} bytes/s, {name}: only {percent:.0} % were used");
                assert!(written < 1.05, "{rate} bytes/s, {name}: {written:.2} records written for each page");
            }
        }
    });
}
