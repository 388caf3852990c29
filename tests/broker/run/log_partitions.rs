//! Many partitions of both logs.

use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::super::broker::{Broker, wait};
use super::super::cluster::instance::Instance;
use super::instance::Site;
use super::text;
use super::topics::{Given, committed, produce};

const LOG_PARTITIONS: u64 = 64;

/// Tenants on four partitions of the logs.
const TENANTS: [&str; 4] = ["a", "b", "c", "d"];

/// Pages of every tenant.
fn pages(numbers: std::ops::Range<u32>) -> Vec<Given> {
    let page = |number: u32| {
        let page = |(seed, tenant)| json!({ "text": text(number * 100 + seed), "tenant": tenant }).to_string();
        (0..).zip(TENANTS).map(page).map(|page| Given::value(&page)).collect::<Vec<_>>()
    };
    numbers.flat_map(page).collect()
}

/// The most threads and files that a worker may have.
const THREADS: usize = 100;
const FILES: usize = 200;

/// The most threads and files that an instance has had while it started.
#[derive(Debug, Default)]
struct Most {
    threads: usize,
    files: usize,
}

impl Most {
    /// Waits until the instance is ready.
    fn while_starting(&mut self, instance: &Instance) {
        wait::until("the worker to be ready", || {
            self.threads = self.threads.max(instance.threads().len());
            self.files = self.files.max(instance.open_files());
            instance.is_ready().then_some(())
        });
    }
}

/// Waits until the clients of the start are closed.
fn settled(instance: &Instance) {
    let is_settled = || instance.threads().len() <= THREADS && instance.open_files() <= FILES;
    wait::until("few threads and files", || is_settled().then_some(()));
}

/// It has one client for all of them, not one for each.
#[test]
fn a_worker_of_many_log_partitions_has_few_threads_and_files() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    let served = TENANTS.map(|tenant| xxh3_64(tenant.as_bytes()) % LOG_PARTITIONS);
    let settings = |role: &str| {
        json!({
            "roles": [role],
            "judge": { "partitions": LOG_PARTITIONS, "served_partitions": served },
            "input": { "fields": { "scope": "/tenant" } },
            "processing": { "threads": 2 },
        })
    };
    let judge = site.start_with("judge", settings("judge"));
    let worker = site.start_with("worker", settings("worker"));
    let mut most = Most::default();
    most.while_starting(&worker);
    (0..2).for_each(|partition| produce(broker, &site.input, partition, &pages(0..1)));
    // The second page of each tenant has the text of the first one.
    let count = TENANTS.len();
    let unique = committed(broker, &site.unique, count);
    let duplicate = committed(broker, &site.duplicate, count);
    assert_eq!((unique.len(), duplicate.len()), (count, count), "each partition of the logs judges its own pages");
    settled(&worker);
    worker.stop();

    // Another client reads the verdicts back, for all partitions again.
    site.rewind(&[0, 0]);
    let worker = site.start_with("worker", settings("worker"));
    most.while_starting(&worker);
    committed(broker, &site.unique, 2 * count);
    committed(broker, &site.duplicate, 2 * count);
    (0..2).for_each(|partition| produce(broker, &site.input, partition, &pages(1..2)));
    committed(broker, &site.unique, 3 * count);
    settled(&worker);
    worker.stop();
    judge.stop();
    eprintln!("while starting: {most:?}");
    assert!(most.threads <= THREADS && most.files <= FILES, "{most:?}");
}
