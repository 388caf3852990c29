//! `make fleet`: what workers and partitions cost, each by itself: the figures that docs/SCALING.md extrapolates.
//!
//! One instance judges, and some work, on topics of few and of many partitions, at the same rate of pages. CPU time is
//! taken from the system, so other work on the machine changes little of it.
#![expect(clippy::disallowed_methods, reason = "costs are measured over some time")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::broker::{Broker, wait};
use crate::cluster::instance::Instance;
use crate::cluster::records::PageProducer;
use crate::cluster::{Cluster, Shape};
use crate::flow::{page, write_evenly};
use crate::several_instances::Team;

/// Workers and input partitions.
const FLEETS: [(usize, i32); 8] = [(1, 10), (2, 10), (4, 10), (8, 10), (1, 100), (1, 1_000), (4, 1_000), (1, 5_000)];

/// Pages written in a second.
const RATE: u32 = 200;

const MEASURED: Duration = Duration::from_secs(20);

#[test]
#[ignore = "takes ten minutes: make fleet"]
fn costs_of_workers_and_partitions() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    eprintln!(
        "{RATE} pages a second; CPU in milliseconds a second\n{:>8} {:>11} {:>8} {:>8} {:>8} {:>12} {:>8} {:>8} {:>6}",
        "workers", "partitions", "pages/s", "broker", "judge", "each worker", "MiB", "threads", "files"
    );
    for (workers, partitions) in FLEETS {
        measure(&broker, workers, partitions);
    }
}

fn measure(broker: &Broker, workers: usize, partitions: i32) {
    let input = broker.topic("pages", partitions);
    let config = json!({ "input": { "topics": [&input] } });
    let cluster =
        Cluster::new(broker, Shape { topics: 0, partitions: 6, input_settings: &[], output_settings: &[], config });
    let mut judge = cluster.start_with("judge", json!({ "roles": ["judge"] }));
    judge.wait_ready();
    let mut team = Team::new(&cluster);
    for number in 0..workers {
        let name = format!("worker-{number}");
        team.join_as(&name, json!({ "roles": ["worker"], "input": { "instance_id": name } }));
    }
    team.wait_ready();
    let is_over = AtomicBool::new(false);
    let pages =
        |team: &Team<'_>| team.members().map(|worker| worker.metric("dupgate_documents_total", &[])).sum::<f64>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write_evenly(&PageProducer::new(broker), (&input, partitions), RATE, &is_over, |number| {
                page(number, 1, u32::MAX)
            });
        });
        // The first pages load the dictionary, and clients connect to what they have not used yet.
        wait::until("pages to flow", || (pages(&team) > f64::from(10 * RATE)).then_some(()));
        let cpu = |team: &Team<'_>| [broker.cpu(), judge.cpu(), team.members().map(Instance::cpu).sum()];
        let (start, before, first) = (Instant::now(), cpu(&team), pages(&team));
        std::thread::sleep(MEASURED);
        let (after, seconds) = (cpu(&team), start.elapsed().as_secs_f64());
        let [on_broker, judging, working] = std::array::from_fn(|at| (after[at] - before[at]) * 1_000.0 / seconds);
        let rate = (pages(&team) - first) / seconds;
        let largest = |of: &dyn Fn(&Instance) -> u64| team.members().map(of).max().unwrap_or_default();
        let count = |number: usize| u64::try_from(number).unwrap();
        eprintln!(
            "{workers:>8} {partitions:>11} {rate:>8.0} {on_broker:>8.0} {judging:>8.0} {:>12.0} {:>8} {:>8} {:>6}",
            working / f64::from(u32::try_from(workers).unwrap()),
            largest(&|worker| worker.resident_memory().unwrap_or_default()) >> 20,
            largest(&|worker| count(worker.threads().len())),
            largest(&|worker| count(worker.open_files())),
        );
        is_over.store(true, Ordering::SeqCst);
    });
    assert_eq!(team.disband(), 0, "no instance was restarted");
    judge.stop();
    broker.delete_topic(&input);
}
