//! `make chaos`: a crawl through a fleet to which everything happens that happens to fleets, for as long as is wished.
//!
//! Four instances judge three topics of six partitions on three brokers, among the pages records of every hostile kind.
//! Meanwhile one fault after the other is caused, and from time to time two at once, in an order drawn from a seed that is
//! printed. Then everything is read back and compared with the input. `DUPGATE_CHAOS_FOR` sets how long faults are caused
//! (`10m`), `DUPGATE_CHAOS_SEED` their order, `DUPGATE_CHAOS_FAULTS` which ones (names from the table, with commas).
//!
//! [`faults`] says what happens and in which order, [`fleet`] how, [`crawl`] what is written, and [`trims`] what is seen of
//! the logs meanwhile.
#![expect(clippy::disallowed_methods, reason = "faults last for some time, and pauses are measured")]

mod crawl;
mod faults;
mod fleet;
mod trims;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::crawl::Crawl;
use self::faults::{KINDS, schedule};
use self::fleet::{Fleet, SHINGLE, shingles_of};
use self::trims::{TrimWatch, Trims};
use crate::accounting::{Audit, Ledger};
use crate::broker::{Broker, wait};
use crate::cluster::records::TopicReader;
use crate::cluster::{Cluster, Shape};
use crate::flow::Consumed;

const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const TOPICS: usize = 3;
const PARTITIONS: i32 = 6;

/// The window, the lateness allowed, and the verdicts between two checkpoints, which take ten seconds: small, so that both
/// logs are trimmed in a run of two minutes.
const WINDOW: Duration = Duration::from_secs(20);
const LATENESS: Duration = Duration::from_secs(10);
const CHECKPOINT: u32 = 500;

/// Time of a rolling restart, during which little is judged in the logs of a new scheme, and of three checkpoints: a trim
/// takes whole spans between them, of which the newest is never trimmed.
const SPANS: Duration = Duration::from_secs(45);

/// In this time, every kind of event happens.
const WHOLE: Duration = Duration::from_mins(10);

/// What was seen of one kind of event.
#[derive(Clone, Copy, Default)]
struct Survived {
    times: u32,
    /// The longest pause of the outputs, as a share of what is promised, and what is promised.
    pause: Duration,
    promised: Duration,
    /// The longest pause that was promised for one of them.
    longest_promised: Duration,
}

/// What was seen of a run.
struct Run {
    survived: BTreeMap<&'static str, Survived>,
    trims: Trims,
    /// The most that an instance took, and what is planned for it.
    memory: u64,
    planned: u64,
}

impl Run {
    /// The longest time between two trims. What a log holds at its beginning is needed until the window and the lateness
    /// have passed, and no checkpoint is written while the outputs pause.
    fn longest_without_trim(&self) -> Duration {
        let pause = self.survived.values().map(|kind| kind.longest_promised).max().unwrap_or_default();
        WINDOW + LATENESS + SPANS + pause
    }

    fn print(&self, audit: &Audit) {
        eprintln!("\n| fault | times | longest pause of the outputs | promised |\n|---|---|---|---|");
        for (name, Survived { times, pause, promised, .. }) in &self.survived {
            eprintln!("| {name} | {times} | {pause:.1?} | {promised:?} |");
        }
        let Audit { pages, lost, doubled, own, orphans, changed, duplicates, .. } = audit;
        eprintln!("\n| pages | lost | doubled | self | orphan | changed | duplicates |\n|---|---|---|---|---|---|---|");
        eprintln!("| {pages} | {lost} | {doubled} | {own} | {orphans} | {changed} | {duplicates} |");
        let (Trims { times, longest, last }, most) = (self.trims, self.longest_without_trim());
        eprintln!("\npeak memory of an instance: {} of {} MiB planned", self.memory >> 20, self.planned >> 20);
        eprintln!(
            "age of the last trim: {last:.1?}; the longest time without one {longest:.1?} of {most:?}, {times} trims\n"
        );
    }

    /// Checks what was seen against what is promised.
    fn check(&self, audit: &Audit) -> Result<(), String> {
        let fails = |is_kept: bool, why: String| if is_kept { Ok(()) } else { Err(why) };
        fails(audit.is_clean(), format!("{audit:?}"))?;
        for (name, Survived { pause, promised, .. }) in &self.survived {
            fails(pause <= promised, format!("{name}: outputs paused for {pause:?}, promised {promised:?}"))?;
        }
        let (memory, planned) = (self.memory, self.planned);
        fails(memory <= planned, format!("an instance took {memory} bytes, planned are {planned}"))?;
        let (longest, most) = (self.trims.longest, self.longest_without_trim());
        fails(longest <= most, format!("a log was not trimmed for {longest:?}, promised {most:?}"))
    }
}

/// The value of an environment variable.
fn variable<T>(name: &str, default: T, parse: impl Fn(&str) -> Option<T>) -> T {
    std::env::var(name).map_or(default, |text| parse(&text).unwrap_or_else(|| panic!("{name}={text} is malformed")))
}

/// The memory that a process may take in a dual period, as the program plans it.
fn planned_memory(cluster: &Cluster<'_>) -> u64 {
    let earlier = json!({ "previous": shingles_of(SHINGLE - 1) });
    let output = cluster.command_with(&["validate", "-o", "json"], earlier).output().expect("dupgate runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    report["memory_bytes"].as_u64().expect("a number of bytes")
}

/// Causes faults until the time is over, each while pages flow.
fn cause_faults(
    fleet: &mut Fleet<'_>,
    consumed: &Consumed,
    seed: u64,
    time: Duration,
) -> BTreeMap<&'static str, Survived> {
    let wanted = std::env::var("DUPGATE_CHAOS_FAULTS").unwrap_or_default();
    let (start, mut survived) = (Instant::now(), BTreeMap::<_, Survived>::new());
    for event in schedule(seed, &wanted).take_while(|_| start.elapsed() < time) {
        let begun = Instant::now();
        eprintln!("{:>5} s  {event}", start.elapsed().as_secs());
        fleet.weigh();
        fleet.cause(event);
        fleet.team.wait_ready();
        consumed.wait_for_a_steady_flow();
        let (recovered, count) = (Instant::now(), consumed.count());
        wait::until("another record", || (consumed.count() > count).then_some(()));
        let (pause, promised) = (consumed.longest_pause_between(begun, recovered), event.promised());
        eprintln!("{:>5} s  survived, the outputs paused for {pause:.1?}", start.elapsed().as_secs());
        let kind = survived.entry(event.row()).or_default();
        kind.times += 1;
        kind.longest_promised = promised.max(kind.longest_promised);
        if kind.times == 1 || pause.div_duration_f64(promised) > kind.pause.div_duration_f64(kind.promised) {
            (kind.pause, kind.promised) = (pause, promised);
        }
    }
    fleet.weigh();
    survived
}

#[test]
#[ignore = "needs the machine for itself: make chaos"]
fn every_page_comes_out_once_whatever_happens_to_the_fleet() {
    let _turn = crate::turn();
    // Writers that wait for two of three replicas, as in production.
    let Some(broker) = Broker::three("default.replication.factor=3\nmin.insync.replicas=2") else { return };
    let time = variable("DUPGATE_CHAOS_FOR", Duration::from_mins(2), |text| humantime::parse_duration(text).ok());
    let seed = variable("DUPGATE_CHAOS_SEED", 1, |text| text.parse().ok());
    let client_id = broker.unique("chaos");
    let replicated = json!({
        "kafka": { "client_id": &client_id },
        // Records of every hostile kind are a tenth of the pages.
        "processing": { "pause_above_dead_letter_ratio": 1.0 },
        "index": { "max_memory": "256MiB", "snapshot": { "interval": "2s" } },
        "window": {
            "size": format!("{}s", WINDOW.as_secs()),
            "allowed_lateness": format!("{}s", LATENESS.as_secs()),
            "max_future_skew": "1s",
        },
        "judge": { "checkpoint_interval_records": CHECKPOINT },
        "logs": { "replication_factor": 3 },
    });
    let shape =
        Shape { topics: TOPICS, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config: replicated };
    let cluster = Cluster::new(&broker, shape);
    let (crawl, planned) = (Crawl::default(), planned_memory(&cluster));
    let (audit, run) = std::thread::scope(|scope| {
        let _over = Over(&crawl);
        let writer = scope.spawn(|| crawl.write(&cluster));
        let mut fleet = Fleet::new(&cluster, client_id, &crawl, u32::try_from(seed % 1_000).unwrap());
        NAMES.iter().for_each(|name| fleet.join(name));
        fleet.team.wait_ready();
        let outputs = [cluster.unique(), cluster.duplicate(), cluster.dead()];
        let (consumed, trims) = (Consumed::start(&broker, &outputs), TrimWatch::start(&broker, &cluster));
        consumed.wait_for_a_steady_flow();
        eprintln!("seed {seed}: faults for {time:?}");
        let survived = cause_faults(&mut fleet, &consumed, seed, time);
        let trims = trims.end();
        crawl.end();
        writer.join().expect("the crawl ends well");
        fleet.team.deliver(&mut TopicReader::open(&broker, &outputs), crawl.written());
        fleet.team.disband();
        let mut ledger = Ledger::read(&cluster);
        ledger.inputs.extend(fleet.dropped);
        ledger.restore(fleet.earlier);
        let audit = ledger.audit(survived.contains_key("verdict log deleted"));
        let is_whole = time >= WHOLE && std::env::var_os("DUPGATE_CHAOS_FAULTS").is_none();
        assert!(!is_whole || survived.len() == KINDS, "not everything has happened: {:?}", survived.keys());
        (audit, Run { survived, trims, memory: fleet.peak_memory, planned })
    });
    run.print(&audit);
    run.check(&audit).unwrap();
}

/// Ends the crawl, even if the test fails.
struct Over<'c>(&'c Crawl);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[test]
fn what_is_not_as_promised_fails_the_run() {
    let seconds = Duration::from_secs;
    let survived =
        |pause| Survived { times: 1, pause: seconds(pause), promised: seconds(30), longest_promised: seconds(30) };
    let run = |pause: u64, memory: u64, longest: u64| Run {
        survived: [("judge killed", survived(pause))].into(),
        trims: Trims { times: 1, longest: seconds(longest), last: Duration::ZERO },
        memory,
        planned: 100,
    };
    let audit = Audit::default();
    let trimmed = (WINDOW + LATENESS + SPANS).as_secs() + 30;
    assert_eq!(run(30, 100, trimmed).check(&audit), Ok(()));
    let fails = |run: Run, audit: &Audit, why: &str| assert!(run.check(audit).unwrap_err().contains(why), "{why}");
    fails(run(31, 100, trimmed), &audit, "outputs paused for 31s");
    fails(run(30, 101, trimmed), &audit, "took 101 bytes");
    fails(run(30, 100, trimmed + 1), &audit, "not trimmed for");
    fails(run(30, 100, trimmed), &Audit { lost: 1, ..Audit::default() }, "lost: 1");
}
