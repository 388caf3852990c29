//! From produce to committed output, at a steady 1,000 pages a second.
//!
//! A page's time runs from the call that hands it to the producer to the poll by which a `read_committed` consumer gets
//! it from an output topic; both are in this process. The first seconds are not counted.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use dupgate::crawl::Planted;
use dupgate::record::Timestamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::bus::{self, PARTITIONS, TIMEOUT};
use crate::measure::{percentile, round};
use crate::service::Service;
use crate::{Scale, end_to_end};

const PAGES_PER_SECOND: u32 = 1_000;

/// Measures; prints the table.
pub(crate) fn run(broker: &Broker, scale: &Scale) -> Value {
    let input = bus::topic(broker, "live");
    let mut service = Service::start(broker, &input);
    service.wait_until_ready();
    let rate = usize::try_from(PAGES_PER_SECOND).unwrap();
    let (warm_up, counted) = (scale.warm_up_seconds * rate, scale.latency_seconds * rate);
    let pages: Vec<Planted> = end_to_end::crawl().take(warm_up + counted).collect();
    let sent: Mutex<HashMap<String, Instant>> = Mutex::new(HashMap::with_capacity(pages.len()));
    let reader = reader(broker, &service);

    let mut latencies = Vec::with_capacity(counted);
    std::thread::scope(|scope| {
        scope.spawn(|| produce(broker, &input, &pages, &sent));
        let mut moved = Instant::now();
        let mut arrived = 0;
        while arrived < pages.len() {
            assert!(moved.elapsed() < TIMEOUT, "{arrived} of {} pages arrived, no more since {TIMEOUT:?}", pages.len());
            let Some(message) = reader.poll(Duration::from_millis(100)) else {
                assert!(service.lives(), "the service has ended");
                continue;
            };
            let now = Instant::now();
            let message = message.unwrap();
            let key = str::from_utf8(message.key().unwrap()).unwrap();
            let since = sent.lock().unwrap().remove(key).unwrap();
            moved = now;
            arrived += 1;
            if number(key) >= warm_up {
                latencies.push(now.duration_since(since).as_secs_f64() * 1e3);
            }
        }
    });
    service.stop();
    latencies.sort_by(f64::total_cmp);
    let [p50, p90, p99, most] = [50, 90, 99, 100].map(|percent| percentile(&latencies, percent));
    println!(
        "Latency: produce to committed output, {PAGES_PER_SECOND} pages a second for {} s, milliseconds",
        scale.latency_seconds
    );
    println!("{:>8} {:>8} {:>8} {:>8} {:>8}", "pages", "p50", "p90", "p99", "most");
    println!("{:>8} {p50:>8.0} {p90:>8.0} {p99:>8.0} {most:>8.0}\n", latencies.len());
    json!({
        "pages_per_second": PAGES_PER_SECOND, "pages": latencies.len(), "p50_ms": round(p50), "p90_ms": round(p90),
        "p99_ms": round(p99), "most_ms": round(most),
    })
}

/// Every page has its own key, and the page's number is at its end.
fn number(key: &str) -> usize {
    key.rsplit('/').next().unwrap().parse().unwrap()
}

/// Hands every page to the producer when its time has come.
fn produce(broker: &Broker, topic: &str, pages: &[Planted], sent: &Mutex<HashMap<String, Instant>>) {
    let crawler = bus::crawler(broker);
    let start = Instant::now();
    let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for (index, page) in (0..).zip(pages) {
        let due = Duration::from_secs(1) * index / PAGES_PER_SECOND;
        if let Some(early) = (start + due).checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        let millis = i64::try_from((began + due).as_millis()).unwrap();
        let page = Planted { timestamp: Timestamp::from_millis(millis), ..page.clone() };
        sent.lock().unwrap().insert(page.key.clone(), Instant::now());
        bus::send(&crawler, topic, &page);
    }
    crawler.flush(TIMEOUT).unwrap();
}

fn reader(broker: &Broker, service: &Service) -> BaseConsumer {
    let mut config = broker.client();
    config
        .set("group.id", format!("{}.reader", service.group))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "100");
    let reader: BaseConsumer = config.create().unwrap();
    let mut all = TopicPartitionList::new();
    for topic in &service.outputs {
        for partition in 0..PARTITIONS {
            all.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
    }
    reader.assign(&all).unwrap();
    reader
}
