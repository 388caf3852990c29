//! Several instances of the service on one broker: pages a second, and what of the machine they take.
//!
//! Corpus: the topic of the end-to-end part, twice as long, so each instance has at least one of the six partitions.
//! Where there is `taskset`, each has its share of the cores, or one of them in turn; the broker has all of them. All
//! numbers are of one stretch: from a fifth of the pages on, or the moment when all instances are ready, to nine tenths.
//! *Other* is what programs that the bench has not started use: if it is not small, the machine was not quiet.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Scale;
use crate::broker::Broker;
use crate::bus::{self, Look, PARTITIONS};
use crate::end_to_end::crawl;
use crate::measure::{cores, machine_cpu, process_cpu, round, threads_cpu};
use crate::service::Service;

const INSTANCES: RangeInclusive<usize> = 1..=6;

/// Pages, in times of the end-to-end part.
const TIMES: usize = 2;

/// From one look at the CPU time to the next.
const INTERVAL: Duration = Duration::from_millis(250);

/// A share of a core, or of all cores, from which on nothing more is to be had of it.
const SATURATED: f64 = 0.93;

/// CPU seconds so far.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    machine: f64,
    broker: f64,
    /// All instances.
    service: f64,
    /// The threads of theirs that judge.
    judge: f64,
}

impl Sample {
    fn take(broker: &Broker, services: &[Service]) -> Self {
        let of_judge = |service: &Service| {
            let threads = threads_cpu(service.pid());
            threads.iter().filter(|(name, _)| name.starts_with("judge")).map(|(_, cpu)| *cpu).sum::<f64>()
        };
        Self {
            at: Instant::now(),
            machine: machine_cpu(),
            broker: broker.cpu(),
            service: services.iter().filter_map(|service| process_cpu(service.pid())).sum(),
            judge: services.iter().map(of_judge).sum(),
        }
    }
}

/// Measures; prints the table.
pub(crate) fn run(broker: &Broker, scale: &Scale) -> Value {
    let pages = scale.pages * TIMES;
    let input = bus::topic(broker, "scaling");
    bus::fill(broker, &input, crawl(), pages);
    println!("Scaling: {pages} pages in {PARTITIONS} partitions, one broker on the same {} cores", cores());
    println!(
        "{:<9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>11} {:>10}  first limit",
        "instances", "pages/s", "instances", "judge", "broker", "other", "idle", "us a page", "of broker"
    );
    INSTANCES.map(|instances| measure(broker, &input, pages, instances)).collect()
}

fn measure(broker: &Broker, input: &str, pages: usize, instances: usize) -> Value {
    let mut services = Service::start_fleet(broker, input, instances);
    let group = services[0].group.clone();
    let (mut samples, mut ready) = (Vec::<Sample>::new(), None);
    let looks = bus::follow(broker, &group, input, pages, || {
        if ready.is_none() && services.iter().all(Service::is_ready) {
            ready = Some(Instant::now());
        }
        if ready.is_some() && samples.last().is_none_or(|last| last.at.elapsed() >= INTERVAL) {
            samples.push(Sample::take(broker, &services));
        }
        services.iter_mut().all(Service::lives)
    });
    services.into_iter().for_each(|service| drop(service.stop()));
    let committed = |sample: &Sample| committed_at(&looks, sample.at);
    let first = samples.iter().find(|sample| committed(sample) * 5 >= pages);
    let last = samples.iter().rfind(|sample| committed(sample) * 10 <= pages * 9);
    let Some((first, last)) = first.zip(last).filter(|(first, last)| first.at + INTERVAL < last.at) else {
        println!("{instances:<9} not ready before the pages were judged");
        return json!({ "instances": instances });
    };
    let seconds = (last.at - first.at).as_secs_f64();
    let judged = (committed(last) - committed(first)) as f64;
    let used = |cpu: fn(&Sample) -> f64| (cpu(last) - cpu(first)) / seconds;
    let [machine, of_broker, service, judge] = [
        used(|sample| sample.machine),
        used(|sample| sample.broker),
        used(|sample| sample.service),
        used(|sample| sample.judge),
    ];
    let (rate, cores) = (judged / seconds, cores() as f64);
    let (other, idle) = (machine - of_broker - service, cores - machine);
    let limit = if judge >= SATURATED {
        "judge"
    } else if machine >= SATURATED * cores {
        "cores"
    } else {
        "none: commits are waited for"
    };
    let micros = |cores: f64| cores * 1e6 / rate;
    println!(
        "{instances:<9} {rate:>9.0} {service:>10.2} {judge:>8.2} {of_broker:>8.2} {other:>8.2} {idle:>8.2} {:>11.1} {:>10.1}  {limit}",
        micros(service),
        micros(of_broker)
    );
    json!({
        "instances": instances, "pages_per_second": rate.round(), "seconds": round(seconds),
        "instances_cores": round(service), "judge_cores": round(judge), "broker_cores": round(of_broker),
        "other_cores": round(other), "idle_cores": round(idle), "instances_us": round(micros(service)),
        "broker_us": round(micros(of_broker)), "first_limit": limit,
    })
}

fn committed_at(looks: &[Look], at: Instant) -> usize {
    looks.iter().rfind(|look| look.at <= at).map_or(0, |look| look.committed)
}
