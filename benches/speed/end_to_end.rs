//! End to end on a real broker, beside copies of the same topic; and what CPU the service burns for it.
//!
//! Corpus: a topic of 2 KB pages in six partitions, JSON with ready text, half Chinese, a quarter of them copies,
//! filled before. Unit: records a second, in the middle of a run, seen from outside in the group's committed offsets.
//! The service, the copy and Kafka Streams take turns. The broker shares the machine's cores with all of them.

use std::collections::BTreeMap;

use dupgate::config::Settings;
use dupgate::crawl::{Crawl, CrawlSettings};
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::bus::{self, Look, PARTITIONS};
use crate::measure::{cores, median, process_cpu, round, threads_cpu};
use crate::pure::{self, Pure};
use crate::report::Floor;
use crate::service::Service;
use crate::streams::Streams;
use crate::{Scale, copy};

/// Least share of the copy's rate.
const RATE_FLOOR: f64 = 0.08;

/// Most CPU of the process, in times of its pure stages.
const CPU_FLOOR: f64 = 1.6;

/// Pages of 2 KB.
pub(crate) fn crawl() -> Crawl {
    Crawl::new(CrawlSettings { html: 0.0, broken: 0.0, bytes: 1_900..=2_100, ..CrawlSettings::default() }).unwrap()
}

/// One way of a program through the topic.
#[derive(Clone, Copy)]
struct Pass {
    rate: f64,
    /// Microseconds of CPU a page.
    process: f64,
    /// The same of the broker meanwhile; 0 for one that the bench has not started.
    broker: f64,
}

impl Pass {
    /// Measures what the process `pid` does in `run`.
    fn measure(broker: &Broker, pages: usize, pid: u32, run: impl FnOnce() -> Vec<Look>) -> Self {
        let (process_before, broker_before) = (process_cpu(pid).unwrap(), broker.cpu());
        let looks = run();
        let micros = |seconds: f64| seconds * 1e6 / pages as f64;
        Self {
            rate: bus::rate(&looks, pages),
            process: micros(process_cpu(pid).unwrap() - process_before),
            broker: micros(broker.cpu() - broker_before),
        }
    }

    /// The middle of several; none of none.
    fn median(passes: &[Self]) -> Option<Self> {
        let middle = |number: fn(&Self) -> f64| median(passes.iter().map(number));
        (!passes.is_empty()).then(|| Self {
            rate: middle(|pass| pass.rate),
            process: middle(|pass| pass.process),
            broker: middle(|pass| pass.broker),
        })
    }
}

/// A pass of the service.
struct Run {
    pass: Pass,
    /// From the start of the process to the last commit.
    seconds: f64,
    threads: BTreeMap<String, f64>,
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
    let mut streams = Streams::start(broker, &settings, &input, pages);
    println!(
        "{:<8} {:>14} {:>14} {:>8} {:>14} {:>8}",
        "round", "dupgate rec/s", "copy rec/s", "ratio", "streams rec/s", "ratio"
    );
    let print = |round: &str, rate: f64, copy: f64, streams: Option<f64>| {
        let streams = streams.map_or(String::new(), |streams| format!(" {streams:>14.0} {:>8.3}", rate / streams));
        println!("{round:<8} {rate:>14.0} {copy:>14.0} {:>8.3}{streams}", rate / copy);
    };
    let (mut runs, mut copies, mut streamed) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=scale.turns {
        let run = serve(broker, &input, pages, start_cpu);
        let copy = Pass::measure(broker, pages, std::process::id(), || copy::run(broker, &settings, &input, pages));
        if let Some(streams) = &mut streams {
            streamed.push(Pass::measure(broker, pages, streams.pid(), || streams.copy(broker, &input, pages)));
        }
        print(&turn.to_string(), run.pass.rate, copy.rate, streamed.last().map(|pass| pass.rate));
        runs.push(run);
        copies.push(copy);
    }
    drop(streams);
    let service = Pass::median(&runs.iter().map(|run| run.pass).collect::<Vec<_>>()).unwrap();
    let (copy, streams) = (Pass::median(&copies).unwrap(), Pass::median(&streamed));
    print("median", service.rate, copy.rate, streams.map(|pass| pass.rate));
    println!();
    let ratio = service.rate / copy.rate;
    floors.push(Floor::at_least("end to end, share of an exactly-once copy", RATE_FLOOR, ratio));
    let end_to_end = json!({
        "pages": pages, "page_bytes": bytes / pages, "partitions": PARTITIONS, "turns": scale.turns,
        "dupgate_records_per_second": service.rate.round(), "copy_records_per_second": copy.rate.round(),
        "ratio": round(ratio), "streams_records_per_second": streams.map(|pass| pass.rate.round()),
        "ratio_to_streams": streams.map(|pass| round(service.rate / pass.rate)),
        "seconds_from_start_to_last_commit": round(median(runs.iter().map(|run| run.seconds))),
    });
    let sample: Vec<_> = crawl().take(pages.min(scale.pure_pages)).collect();
    let pure = pure::measure(&settings, &sample);
    let mut cpu = cpu(service, copy, streams, start_cpu, pure, floors);
    cpu["threads_us"] = threads(&runs, pages);
    (end_to_end, cpu)
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

fn serve(broker: &Broker, input: &str, pages: usize, start_cpu: f64) -> Run {
    let (start, before) = (std::time::Instant::now(), broker.cpu());
    let mut service = Service::start(broker, input);
    let group = service.group.clone();
    let looks = bus::follow(broker, &group, input, pages, || service.lives());
    let cpu = process_cpu(service.pid()).unwrap() - start_cpu;
    let threads = threads_cpu(service.pid());
    let broker = broker.cpu() - before;
    service.stop();
    let micros = |seconds: f64| seconds * 1e6 / pages as f64;
    Run {
        pass: Pass { rate: bus::rate(&looks, pages), process: micros(cpu), broker: micros(broker) },
        seconds: looks.last().unwrap().at.duration_since(start).as_secs_f64(),
        threads,
    }
}

fn cpu(service: Pass, copy: Pass, streams: Option<Pass>, start_cpu: f64, pure: Pure, floors: &mut Vec<Floor>) -> Value {
    let ratio = service.process / pure.all();
    println!(
        "CPU: microseconds a page, over the runs above; a start of dupgate without pages ({start_cpu:.2} s) is taken off"
    );
    println!("{:<24} {:>8} {:>8}", "", "process", "broker");
    let others = [("copy", Some(copy)), ("Kafka Streams", streams)];
    for (name, pass) in [("dupgate", Some(service))].into_iter().chain(others) {
        if let Some(pass) = pass {
            println!("{name:<24} {:>8.1} {:>8.1}", pass.process, pass.broker);
        }
    }
    println!(
        "{:<24} {:>8.1}  (read {:.1}, codec {:.1}, judge {:.1}; {} threads at once)\n{:<24} {ratio:>8.2}",
        "pure stages of dupgate",
        pure.all(),
        pure.read,
        pure.codec,
        pure.judge,
        cores(),
        "ratio"
    );
    floors.push(Floor::at_most("CPU of the process, in times of its pure stages", CPU_FLOOR, ratio));
    json!({
        "process_us": round(service.process), "pure_us": round(pure.all()), "ratio": round(ratio),
        "broker_us": round(service.broker), "copy_process_us": round(copy.process),
        "copy_broker_us": round(copy.broker), "streams_process_us": streams.map(|pass| round(pass.process)),
        "streams_broker_us": streams.map(|pass| round(pass.broker)), "start_seconds": round(start_cpu),
        "pure": { "read_us": round(pure.read), "codec_us": round(pure.codec), "judge_us": round(pure.judge) },
    })
}

/// Prints the CPU of the service's threads.
fn threads(runs: &[Run], pages: usize) -> Value {
    println!("  threads of dupgate (start included):");
    let mut threads: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, cpu) in runs.iter().flat_map(|run| &run.threads) {
        threads.entry(name).or_default().push(*cpu * 1e6 / pages as f64);
    }
    let threads: BTreeMap<&str, f64> = threads.into_iter().map(|(name, cpu)| (name, round(median(cpu)))).collect();
    let mut sorted: Vec<_> = threads.iter().filter(|(_, cpu)| **cpu >= 0.5).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, cpu) in sorted {
        println!("  {name:<22} {cpu:>8.1}");
    }
    println!();
    json!(threads)
}
