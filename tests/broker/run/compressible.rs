//! Pages that take a ten-thousandth of their size in the topic.

use std::collections::BTreeMap;

use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Headers;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::instance::Site;

/// Enough that all of them, unpacked, take more memory than the process may.
const PAGES: usize = 120;

/// Length of a text, in bytes: a page is just below `input.max_document`.
const TEXT_BYTES: usize = 7_900_000;

/// What `dupgate check` requires of a worker with the default settings, without its index: 512 MiB, and 6 times
/// `processing.max_in_flight_bytes`.
const PLANNED_BYTES: u64 = (512 + 6 * 64) << 20;

/// Writes all pages to one partition. They are a few dozen kilobytes there.
fn produce(broker: &Broker, topic: &str) {
    let mut config = broker.client();
    config.set("compression.type", "zstd").set("message.max.bytes", "9000000").set("linger.ms", "0");
    let producer: ThreadedProducer<DefaultProducerContext> = config.create().expect("a producer");
    for number in 0..PAGES {
        let value = json!({ "text": format!("{number} {}", "a".repeat(TEXT_BYTES)) }).to_string();
        let record = BaseRecord::<str, str>::to(topic).partition(0).payload(&value);
        producer.send(record).map_err(|(why, _)| why).expect("room in the queue");
        producer.flush(wait::LIMIT).expect("flush");
    }
}

/// Reads the positions that the pages of these topics had in the input, as often as they come.
fn sources(broker: &Broker, topics: &[&str]) -> BTreeMap<String, usize> {
    let mut config = broker.client();
    config.set("group.id", broker.unique("reader")).set("auto.offset.reset", "earliest");
    config.set("enable.auto.commit", "false").set("fetch.message.max.bytes", "1000");
    config.set("isolation.level", "read_committed");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(topics).expect("a subscription");
    let mut found = BTreeMap::new();
    wait::until("all pages to be delivered", || {
        while let Some(message) = consumer.poll(std::time::Duration::from_millis(500)) {
            let message = message.expect("a record");
            let headers = message.headers().expect("headers");
            let source = headers.iter().find(|header| header.key == "dupgate.source").and_then(|header| header.value);
            let source = String::from_utf8(source.expect("a source").to_vec()).expect("text");
            *found.entry(source).or_default() += 1;
        }
        (found.len() >= PAGES).then_some(())
    });
    found
}

#[test]
fn pages_that_compress_well_stay_within_the_planned_memory_and_arrive_once() {
    let Some(broker) = Broker::shared() else { return };
    let large = [("max.message.bytes", "9000000")];
    let [unique, duplicate] = ["unique", "duplicate"].map(|name| broker.topic_with(name, 1, &large));
    let site = Site::new(broker, 1);
    produce(broker, &site.input);
    let outputs = json!({ "unique": { "topic": &unique }, "duplicate": { "topic": &duplicate } });
    let instance = site.start_with("one", json!({ "output": outputs }));
    let found = sources(broker, &[&unique, &duplicate]);
    let peak = instance.peak_memory().expect("it runs");
    instance.stop();
    let expected = (0..PAGES).map(|offset| (format!("{}:0:{offset}", site.input), 1));
    assert_eq!(found, expected.collect());
    assert!(peak < PLANNED_BYTES, "{} MiB, and {} MiB are planned", peak >> 20, PLANNED_BYTES >> 20);
}
