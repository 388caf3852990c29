//! `make soak`: a fleet of two through twenty turnovers of a small window, after which nothing may have grown.
//!
//! `DUPGATE_SOAK_FOR` sets how long it takes (`1h`); a window lasts a twentieth of it. All the time, memory, threads, open
//! files, snapshots and the records that both logs keep are measured. The last third of the turnovers is compared with the
//! third before. By then, the first windows have filled every table, and each
//! worker remembers all the verdicts that it can, 100,000: so it takes 20 minutes at least.
#![expect(clippy::disallowed_methods, reason = "a crawl goes on for some time")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::accounting::Ledger;
use crate::broker::Broker;
use crate::cluster::instance::Instance;
use crate::cluster::records::{PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::flow::{page, write_evenly};
use crate::several_instances::Team;

const PARTITIONS: i32 = 6;
const TURNOVERS: u32 = 20;

/// Pages written in a second.
const RATE: u32 = 300;

/// One page in this many is a copy of the page this many before it, in the same partition.
const COPIES: u32 = 7;
const COPIED: u32 = 6 * 50;

/// What is measured, and what stands for many samples. Clients that are being closed add memory, threads and files for a
/// moment. Logs and snapshots are cut at checkpoints, so their sizes rise and fall.
const MEASURED: [(&str, Summary); 5] = [
    ("MiB of memory", lowest_tenth),
    ("threads", lowest_tenth),
    ("open files", lowest_tenth),
    ("MiB of snapshots", mean),
    ("records in both logs", mean),
];

/// A number for many, which ascend.
type Summary = fn(&[u64]) -> u64;

fn lowest_tenth(numbers: &[u64]) -> u64 {
    numbers[numbers.len() / 10]
}

fn mean(numbers: &[u64]) -> u64 {
    numbers.iter().sum::<u64>() / u64::try_from(numbers.len()).unwrap()
}

/// How much more of anything the last third may have than the one before, in percent.
const MAX_GROWTH: u64 = 1;

/// Samples in each window: many in each time between two checkpoints.
const SAMPLES: u32 = 60;

/// One number for each of [`MEASURED`], in the smallest units.
type Sample = [u64; MEASURED.len()];

fn sample(cluster: &Cluster<'_>, team: &Team<'_>) -> Sample {
    let sum = |of: &dyn Fn(&Instance) -> u64| team.members().map(of).sum::<u64>();
    let count = |number: usize| u64::try_from(number).unwrap();
    let kept = ["fingerprints", "verdicts"].map(|log| cluster.kept(&cluster.log_topic(log)));
    [
        sum(&|instance| instance.resident_memory().unwrap_or(0)),
        sum(&|instance| count(instance.threads().len())),
        sum(&|instance| count(instance.open_files())),
        sum(&|instance| size_of(&cluster.disk(instance.name()))),
        kept.into_iter().sum::<i64>().cast_unsigned(),
    ]
}

/// Bytes in all files below a folder; files may vanish meanwhile.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let sizes = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    sizes.map(|(path, metadata)| if metadata.is_dir() { size_of(&path) } else { metadata.len() }).sum()
}

fn summary(samples: &[Sample]) -> Sample {
    std::array::from_fn(|at| {
        let mut numbers: Vec<u64> = samples.iter().map(|sample| sample[at]).collect();
        numbers.sort_unstable();
        MEASURED[at].1(&numbers)
    })
}

fn shown(sample: Sample) -> String {
    let unit = |name: &str| if name.starts_with("MiB") { 1 << 20 } else { 1 };
    let numbers = MEASURED.iter().zip(sample).map(|((name, ..), number)| format!("{} {name}", number / unit(name)));
    numbers.collect::<Vec<_>>().join(", ")
}

#[test]
#[ignore = "takes an hour: make soak"]
fn nothing_grows_in_twenty_turnovers_of_the_window() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let time = std::env::var("DUPGATE_SOAK_FOR").unwrap_or_else(|_| "1h".to_owned());
    let time = humantime::parse_duration(&time).expect("DUPGATE_SOAK_FOR is a duration");
    let window = time / TURNOVERS;
    let millis = |span: Duration| format!("{}ms", span.as_millis());
    let config = json!({
        "window": { "size": millis(window), "allowed_lateness": millis(window / 10), "max_future_skew": "1s" },
        "index": { "max_memory": "256MiB", "snapshot": { "interval": millis(window / 4) } },
        "judge": { "checkpoint_interval_records": u64::from(RATE) * window.as_secs() / 4 },
    });
    let shape = Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(&broker, shape);
    let mut team = Team::new(&cluster);
    ["one", "two"].iter().for_each(|name| team.join(name));
    team.wait_ready();
    let is_over = AtomicBool::new(false);
    let (samples, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (producer, input) = (PageProducer::new(cluster.broker()), cluster.inputs()[0].as_str());
            write_evenly(&producer, (input, PARTITIONS), RATE, &is_over, |number| page(number, COPIES, COPIED))
        });
        let mut samples = Vec::new();
        for turnover in 1..=TURNOVERS {
            let before = samples.len();
            for _ in 0..SAMPLES {
                std::thread::sleep(window / SAMPLES);
                samples.push(sample(&cluster, &team));
            }
            eprintln!("turnover {turnover:>2}: {}", shown(summary(&samples[before..])));
        }
        is_over.store(true, Ordering::SeqCst);
        (samples, writer.join().expect("the crawl ends well"))
    });
    team.deliver(&mut TopicReader::open(&broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]), written);
    assert_eq!(team.disband(), 0, "no instance was restarted");
    let audit = Ledger::read(&cluster).audit(false);
    assert!(audit.is_clean(), "{audit:?}");
    let mut thirds = samples.rchunks(samples.len() / 3).map(summary);
    let (after, before) = (thirds.next().expect("the last third"), thirds.next().expect("the one before"));
    eprintln!("{written} pages\nmiddle third: {}\nlast third:   {}", shown(before), shown(after));
    for (at, (name, _)) in MEASURED.into_iter().enumerate() {
        assert!(after[at] * 100 <= before[at] * (100 + MAX_GROWTH), "{name}: {} after {}", after[at], before[at]);
    }
}
