//! End to end on a real broker, beside a copy of the same topic; and what CPU the service burns for it.
//!
//! Corpus: a topic of 2 KB pages in six partitions, JSON with ready text, half Chinese, a quarter of them copies,
//! filled before. Unit: records a second, in the middle of a run, seen from outside in the group's committed offsets.
//! The service and the copy take turns. The broker shares the machine's cores with both.

use std::collections::BTreeMap;

use dupgate::config::Settings;
use dupgate::crawl::{Crawl, CrawlSettings};
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::bus::{self, PARTITIONS};
use crate::measure::{cores, median, process_cpu, round, threads_cpu};
use crate::pure::{self, Pure};
use crate::report::Floor;
use crate::service::Service;
use crate::{Scale, copy};

/// Least share of the copy's rate.
const RATE_FLOOR: f64 = 0.08;

/// Most CPU of the process, in times of its pure stages.
const CPU_FLOOR: f64 = 1.6;

/// Pages of 2 KB.
pub(crate) fn crawl() -> Crawl {
    Crawl::new(CrawlSettings { html: 0.0, broken: 0.0, bytes: 1_900..=2_100, ..CrawlSettings::default() }).unwrap()
}

struct Run {
    rate: f64,
    /// From the start of the process to the last commit.
    cpu: f64,
    seconds: f64,
    threads: BTreeMap<String, f64>,
    /// CPU of the broker meanwhile; 0 for one that the bench has not started.
    broker: f64,
}

/// Measures rate and CPU; prints both tables.
pub(crate) fn run(broker: &Broker, scale: &Scale, floors: &mut Vec<Floor>) -> (Value, Value) {
    let pages = scale.pages;
    let input = bus::topic(broker, "pages");
    let bytes = bus::fill(broker, &input, crawl(), pages);
    let (settings, start_cpu) = idle_start(broker);
    println!(
        "End to end: {pages} pages of {} bytes in {PARTITIONS} partitions, exactly once, the broker on the same {} cores",
        bytes / pages,
        cores()
    );
    println!("{:<8} {:>14} {:>14} {:>8}", "round", "dupgate rec/s", "copy rec/s", "ratio");
    let (mut runs, mut copies, mut brokers) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=scale.turns {
        let run = serve(broker, &input, pages);
        let before = broker.cpu();
        let copy = bus::rate(&copy::run(broker, &settings, &input, pages), pages);
        brokers.push(broker.cpu() - before);
        println!("{turn:<8} {:>14.0} {copy:>14.0} {:>8.3}", run.rate, run.rate / copy);
        runs.push(run);
        copies.push(copy);
    }
    let (rate, copy) = (median(runs.iter().map(|run| run.rate)), median(copies));
    println!("{:<8} {rate:>14.0} {copy:>14.0} {:>8.3}\n", "median", rate / copy);
    floors.push(Floor::at_least("end to end, share of an exactly-once copy", RATE_FLOOR, rate / copy));
    let end_to_end = json!({
        "pages": pages, "page_bytes": bytes / pages, "partitions": PARTITIONS, "turns": scale.turns,
        "dupgate_records_per_second": rate.round(), "copy_records_per_second": copy.round(), "ratio": round(rate / copy),
        "seconds_from_start_to_last_commit": round(median(runs.iter().map(|run| run.seconds))),
    });
    let sample: Vec<_> = crawl().take(pages.min(scale.pure_pages)).collect();
    let pure = pure::measure(&settings, &sample);
    (end_to_end, cpu(&runs, start_cpu, median(brokers), pages, pure, floors))
}

/// What a start costs before the first page: dictionaries, clients, groups. Returns the settings too.
fn idle_start(broker: &Broker) -> (Settings, f64) {
    let empty = bus::topic(broker, "empty");
    let mut service = Service::start(broker, &empty);
    service.wait_until_ready();
    let cpu = process_cpu(service.pid()).unwrap();
    let settings = service.settings.clone();
    service.stop();
    (settings, cpu)
}

fn serve(broker: &Broker, input: &str, pages: usize) -> Run {
    let (start, before) = (std::time::Instant::now(), broker.cpu());
    let mut service = Service::start(broker, input);
    let group = service.group.clone();
    let looks = bus::follow(broker, &group, input, pages, || service.lives());
    let cpu = process_cpu(service.pid()).unwrap();
    let threads = threads_cpu(service.pid());
    let broker = broker.cpu() - before;
    service.stop();
    Run {
        rate: bus::rate(&looks, pages),
        cpu,
        seconds: looks.last().unwrap().at.duration_since(start).as_secs_f64(),
        threads,
        broker,
    }
}

/// `copy_broker` is the CPU of the broker for the copy.
fn cpu(runs: &[Run], start_cpu: f64, copy_broker: f64, pages: usize, pure: Pure, floors: &mut Vec<Floor>) -> Value {
    let micros = |seconds: f64| seconds * 1e6 / pages as f64;
    let process = median(runs.iter().map(|run| micros(run.cpu - start_cpu)));
    let ratio = process / pure.all();
    let (broker, copy_broker) = (micros(median(runs.iter().map(|run| run.broker))), micros(copy_broker));
    println!("CPU: microseconds a page, over the runs above; a start without pages ({start_cpu:.2} s) is taken off");
    println!(
        "{:<24} {:>8.1}\n{:<24} {:>8.1}  (read {:.1}, codec {:.1}, judge {:.1}; {} threads at once)\n{:<24} {ratio:>8.2}",
        "process",
        process,
        "its pure stages",
        pure.all(),
        pure.read,
        pure.codec,
        pure.judge,
        cores(),
        "ratio"
    );
    println!("{:<24} {broker:>8.1}  (for the copy {copy_broker:.1})", "broker");
    println!("  by thread (start included):");
    let mut threads: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, cpu) in runs.iter().flat_map(|run| &run.threads) {
        threads.entry(name).or_default().push(micros(*cpu));
    }
    let threads: BTreeMap<&str, f64> = threads.into_iter().map(|(name, cpu)| (name, round(median(cpu)))).collect();
    let mut sorted: Vec<_> = threads.iter().filter(|(_, cpu)| **cpu >= 0.5).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, cpu) in sorted {
        println!("  {name:<22} {cpu:>8.1}");
    }
    println!();
    floors.push(Floor::at_most("CPU of the process, in times of its pure stages", CPU_FLOOR, ratio));
    json!({
        "process_us": round(process), "pure_us": round(pure.all()), "ratio": round(ratio), "broker_us": round(broker),
        "copy_broker_us": round(copy_broker), "start_seconds": round(start_cpu),
        "pure": { "read_us": round(pure.read), "codec_us": round(pure.codec), "judge_us": round(pure.judge) },
        "threads_us": threads,
    })
}
