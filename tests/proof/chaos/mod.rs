//! `make chaos`: a crawl through a fleet to which everything happens that happens to fleets, for as long as is wished.
//!
//! Four instances judge three topics of six partitions on three brokers, among the pages records of every hostile kind.
//! Meanwhile one fault after the other is caused, in an order drawn from a seed that is printed. Then everything is read
//! back and compared with the input. `DUPGATE_CHAOS_FOR` sets how long faults are caused (`10m`), `DUPGATE_CHAOS_SEED`
//! their order, `DUPGATE_CHAOS_FAULTS` which ones (names from the table, with commas).
#![expect(clippy::disallowed_methods, reason = "faults last for some time, and pauses are measured")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dupgate::clock::wall_time;
use dupgate::record::Source;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::accounting::{Audit, Ledger};
use crate::bad_input::hostile_records;
use crate::broker::{Broker, wait};
use crate::cluster::instance::Instance;
use crate::cluster::records::{PageProducer, Record, TopicReader, by_source};
use crate::cluster::{Cluster, Shape, merge};
use crate::flow::{Consumed, page};
use crate::several_instances::Team;

const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const TOPICS: usize = 3;
const PARTITIONS: i32 = 6;

/// Time between two pages, over all partitions.
const BEAT: Duration = Duration::from_millis(20);

/// One page in this many is a copy, and one in this many is hostile.
const COPIES: u32 = 7;
const HOSTILE: u32 = 11;

/// A copy has the text of the page this many before it, which is in the same partition and so judged before it. 6 s: most
/// copies and originals are judged by different judges.
const COPIED: u32 = 18 * 17;

/// How long instances and brokers stall: longer than the time-outs of groups and transactions.
const STALL: Duration = Duration::from_secs(12);

/// How long a crawler's clock is ahead, and by how much: brokers accept an hour.
const WRONG: Duration = Duration::from_secs(5);
const AHEAD: Duration = Duration::from_mins(50);

/// How long brokers are slow, and what they take of all instances together then, in bytes a second and broker.
const SLOW: Duration = Duration::from_secs(10);
const SLOW_BYTES: u64 = 20_000;

/// What happens to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    JudgeKilled,
    WorkerKilled,
    JudgeSuspended,
    WorkerSuspended,
    BrokerKilled,
    BrokerStalled,
    BrokersSlow,
    SnapshotsRefused,
    RequestsDeleted,
    VerdictsDeleted,
    RulesChanged,
    SchemeChanged,
    TopicDropped,
    ClockAhead,
}

impl Fault {
    const ALL: [Self; 14] = [
        Self::JudgeKilled,
        Self::WorkerKilled,
        Self::JudgeSuspended,
        Self::WorkerSuspended,
        Self::BrokerKilled,
        Self::BrokerStalled,
        Self::BrokersSlow,
        Self::SnapshotsRefused,
        Self::RequestsDeleted,
        Self::VerdictsDeleted,
        Self::RulesChanged,
        Self::SchemeChanged,
        Self::TopicDropped,
        Self::ClockAhead,
    ];

    /// Its name in the table, and the longest time that the outputs may pause.
    const fn described(self) -> (&'static str, Duration) {
        let (name, seconds) = match self {
            Self::JudgeKilled => ("judge killed", 30),
            Self::WorkerKilled => ("worker killed", 20),
            Self::JudgeSuspended => ("judge suspended", 20),
            Self::WorkerSuspended => ("worker suspended", 20),
            Self::BrokerKilled => ("broker killed", 30),
            Self::BrokerStalled => ("broker stalled", 25),
            Self::BrokersSlow => ("brokers slow", 30),
            Self::SnapshotsRefused => ("snapshots refused", 10),
            Self::RequestsDeleted => ("fingerprint log deleted", 60),
            Self::VerdictsDeleted => ("verdict log deleted", 60),
            Self::RulesChanged => ("rules changed", 30),
            Self::SchemeChanged => ("scheme changed", 30),
            Self::TopicDropped => ("input topic dropped", 30),
            Self::ClockAhead => ("crawler's clock ahead", 10),
        };
        (name, Duration::from_secs(seconds))
    }
}

/// The crawl: writes a page every [`BEAT`], to the partitions of all topics in turn.
#[derive(Default)]
struct Crawl {
    is_over: AtomicBool,
    /// Whether nothing is to be written for now, and whether the writer has stored everything and waits.
    is_held: AtomicBool,
    is_still: AtomicBool,
    /// Whether the last topic is gone.
    is_dropped: AtomicBool,
    /// Whether the clock is ahead.
    is_ahead: AtomicBool,
    written: AtomicU32,
}

impl Crawl {
    fn write(&self, cluster: &Cluster<'_>) {
        let producer = PageProducer::new(cluster.broker());
        let hostile = hostile_records();
        let (start, mut held) = (Instant::now(), Duration::ZERO);
        for number in 0_u32.. {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            if self.is_held.load(Ordering::SeqCst) {
                let since = Instant::now();
                producer.flush();
                self.is_still.store(true, Ordering::SeqCst);
                wait::until("the crawl to go on", || (!self.is_held.load(Ordering::SeqCst)).then_some(()));
                self.is_still.store(false, Ordering::SeqCst);
                held += since.elapsed();
            }
            let places = u32::try_from(PARTITIONS).unwrap() * u32::try_from(TOPICS).unwrap();
            let place = usize::try_from(number % places).unwrap();
            let (topic, partition) = (place % TOPICS, i32::try_from(place / TOPICS).unwrap());
            if topic == TOPICS - 1 && self.is_dropped.load(Ordering::SeqCst) {
                continue;
            }
            let mut page = if number % HOSTILE == 0 {
                let kind = usize::try_from(number / HOSTILE).unwrap() % hostile.len();
                hostile[kind].clone()
            } else {
                page(number, COPIES, COPIED)
            };
            if self.is_ahead.load(Ordering::SeqCst) {
                page.timestamp = Some(wall_time().plus(AHEAD).millis());
            }
            producer.write(&cluster.inputs()[topic], partition, &page);
            self.written.fetch_add(1, Ordering::SeqCst);
            std::thread::park_timeout((start + held + BEAT * number).saturating_duration_since(Instant::now()));
        }
        producer.flush();
    }

    /// Waits until everything is stored; then nothing is written until [`Crawl::go_on`].
    fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
        wait::until("the crawl to pause", || self.is_still.load(Ordering::SeqCst).then_some(()));
    }

    fn go_on(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }
}

/// The fleet, and what is known of it.
struct Fleet<'c> {
    cluster: &'c Cluster<'c>,
    /// All clients of the instances.
    client_id: String,
    crawl: &'c Crawl,
    team: Team<'c>,
    /// Logs of earlier schemes.
    old_logs: BTreeSet<String>,
    /// What differs from the first configuration.
    changed: Value,
    /// Number of faults so far.
    count: u32,
    /// The pages of the topic that was dropped.
    dropped: BTreeMap<Source, Record>,
    peak_memory: u64,
}

impl Fleet<'_> {
    fn join(&mut self, name: &str) {
        let mut config = self.changed.clone();
        merge(&mut config, json!({ "input": { "instance_id": name } }));
        self.team.join_as(name, config);
    }

    /// Keeps the largest memory of the instances that run.
    fn weigh(&mut self) {
        let most = self.team.members().filter_map(Instance::peak_memory).max();
        self.peak_memory = self.peak_memory.max(most.unwrap_or(0));
    }

    fn suspend(&self, name: &str) {
        self.team.member(name).freeze();
        std::thread::sleep(STALL);
        self.team.member(name).thaw();
    }

    /// A broker, another one each time.
    fn next_broker(&self) -> i32 {
        1 + i32::try_from(self.count % 3).unwrap()
    }

    /// Deletes a log of the current scheme, and creates an empty one.
    fn recreate(&self, kind: &str) {
        let logs = self.cluster.log_topics(kind);
        let log = logs.difference(&self.old_logs).next().expect("a log of the scheme");
        self.cluster.broker().recreate_topic(log, 1);
    }

    /// Restarts one instance after the other with another configuration.
    fn roll(&mut self, change: Value) {
        merge(&mut self.changed, change);
        for name in NAMES {
            self.team.leave(name);
            self.join(name);
            self.team.wait_until_ready(name);
        }
    }

    fn cause(&mut self, fault: Fault) {
        let broker = self.cluster.broker();
        match fault {
            Fault::JudgeKilled => {
                let judge = self.team.judge();
                self.team.kill(&judge);
                self.team.judge_other_than(&judge);
                self.join(&judge);
            }
            Fault::WorkerKilled => {
                let worker = self.team.plain_worker();
                self.team.kill(&worker);
                self.join(&worker);
            }
            Fault::JudgeSuspended => {
                let judge = self.team.judge();
                self.suspend(&judge);
            }
            Fault::WorkerSuspended => {
                let worker = self.team.plain_worker();
                self.suspend(&worker);
            }
            Fault::BrokerKilled => {
                broker.kill_one(self.next_broker());
                std::thread::sleep(STALL);
                broker.start_one(self.next_broker());
            }
            Fault::BrokerStalled => {
                broker.pause_one(self.next_broker());
                std::thread::sleep(STALL);
                broker.resume_one(self.next_broker());
            }
            Fault::BrokersSlow => {
                broker.limit(&self.client_id, "producer_byte_rate", Some(SLOW_BYTES));
                std::thread::sleep(SLOW);
                broker.limit(&self.client_id, "producer_byte_rate", None);
            }
            Fault::SnapshotsRefused => {
                let judge = self.team.judge();
                let (disk, aside) = (self.cluster.disk(&judge), self.cluster.disk(&format!("{judge}.aside")));
                fs::rename(&disk, &aside).expect("the folder is moved");
                fs::write(&disk, "").expect("a file in its place");
                let refused = "dupgate_snapshot_failures_total";
                wait::until("a snapshot to fail", || {
                    let is_refused = self.team.member(&judge).metric(refused, &[]) > 0.0;
                    (is_refused || !self.team.member(&judge).judges()).then_some(())
                });
                fs::remove_file(&disk).expect("the file is removed");
                fs::rename(&aside, &disk).expect("the folder is back");
            }
            Fault::RequestsDeleted => self.recreate("fingerprints"),
            Fault::VerdictsDeleted => self.recreate("verdicts"),
            Fault::RulesChanged => {
                let least = if self.count.is_multiple_of(2) { 0.32 } else { 0.31 };
                self.roll(json!({ "match": { "minhash": { "min_similarity": least } } }));
            }
            Fault::SchemeChanged => {
                let before = &self.cluster.log_topics("fingerprints") | &self.cluster.log_topics("verdicts");
                // Two logs for each scheme: a length that no scheme had before.
                let length = 6 + before.len() / 2;
                self.roll(json!({ "match": { "minhash": { "shingle": { "other": length } } } }));
                self.old_logs = before;
            }
            Fault::TopicDropped => {
                let (last, others) = self.cluster.inputs().split_last().expect("a topic");
                self.crawl.hold();
                wait::until("every page to be committed", || (self.cluster.lag() == 0).then_some(()));
                self.dropped = by_source(TopicReader::open(broker, &[last]).read_to_end());
                self.crawl.is_dropped.store(true, Ordering::SeqCst);
                broker.delete_topic(last);
                self.crawl.go_on();
                self.roll(json!({ "input": { "topics": others } }));
            }
            Fault::ClockAhead => {
                self.crawl.is_ahead.store(true, Ordering::SeqCst);
                std::thread::sleep(WRONG);
                self.crawl.is_ahead.store(false, Ordering::SeqCst);
            }
        }
        self.count += 1;
    }
}

/// How often a fault was survived, and the longest pause of the outputs.
type Survived = BTreeMap<Fault, (u32, Duration)>;

/// The faults of a run, in the order of causing: all that were chosen, shuffled, again and again.
fn schedule(seed: u64, chosen: &[Fault]) -> impl Iterator<Item = Fault> {
    let rounds = 0_u64..;
    rounds.flat_map(move |round| {
        let mut faults = chosen.to_vec();
        faults.sort_by_key(|fault| xxh3_64_with_seed(fault.described().0.as_bytes(), seed.wrapping_add(round)));
        // A topic is dropped once.
        faults.into_iter().filter(move |fault| round == 0 || *fault != Fault::TopicDropped)
    })
}

/// The value of an environment variable.
fn variable<T>(name: &str, default: T, parse: impl Fn(&str) -> Option<T>) -> T {
    std::env::var(name).map_or(default, |text| parse(&text).unwrap_or_else(|| panic!("{name}={text} is malformed")))
}

/// Causes faults until the time is over, each while pages flow.
fn cause_faults(fleet: &mut Fleet<'_>, consumed: &Consumed, seed: u64, time: Duration) -> Survived {
    let wanted = std::env::var("DUPGATE_CHAOS_FAULTS").unwrap_or_default();
    let is_chosen = |fault: &Fault| wanted.is_empty() || wanted.contains(fault.described().0);
    let chosen: Vec<Fault> = Fault::ALL.into_iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty(), "DUPGATE_CHAOS_FAULTS names no fault: {wanted}");
    let (start, mut survived) = (Instant::now(), Survived::new());
    for fault in schedule(seed, &chosen).take_while(|_| start.elapsed() < time) {
        let (begun, name) = (Instant::now(), fault.described().0);
        eprintln!("{:>5} s  {name}", start.elapsed().as_secs());
        fleet.weigh();
        fleet.cause(fault);
        fleet.team.wait_ready();
        consumed.wait_for_a_steady_flow();
        let (recovered, count) = (Instant::now(), consumed.count());
        wait::until("another record", || (consumed.count() > count).then_some(()));
        let pause = consumed.longest_pause_between(begun, recovered);
        eprintln!("{:>5} s  survived, the outputs paused for {pause:.1?}", start.elapsed().as_secs());
        let (times, longest) = survived.entry(fault).or_default();
        *times += 1;
        *longest = pause.max(*longest);
    }
    fleet.weigh();
    survived
}

fn print(audit: &Audit, survived: &Survived, peak_memory: u64) {
    eprintln!("\n| fault | times | longest pause of the outputs | promised |\n|---|---|---|---|");
    for (fault, (times, pause)) in survived {
        let (name, promised) = fault.described();
        eprintln!("| {name} | {times} | {pause:.1?} | {promised:?} |");
    }
    let Audit { pages, lost, doubled, own, orphans, changed, duplicates, .. } = audit;
    let peak = peak_memory >> 20;
    eprintln!("\n| pages | lost | doubled | self | orphan | changed | duplicates | peak memory |");
    eprintln!("|---|---|---|---|---|---|---|---|");
    eprintln!("| {pages} | {lost} | {doubled} | {own} | {orphans} | {changed} | {duplicates} | {peak} MiB |\n");
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
        "logs": { "replication_factor": 3 },
    });
    let shape =
        Shape { topics: TOPICS, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config: replicated };
    let cluster = Cluster::new(&broker, shape);
    let crawl = Crawl::default();
    let (audit, survived, peak_memory) = std::thread::scope(|scope| {
        let _over = Over(&crawl);
        let writer = scope.spawn(|| crawl.write(&cluster));
        let mut fleet = Fleet {
            cluster: &cluster,
            client_id,
            crawl: &crawl,
            team: Team::new(&cluster),
            old_logs: BTreeSet::new(),
            changed: json!({}),
            count: u32::try_from(seed % 1_000).unwrap(),
            dropped: BTreeMap::new(),
            peak_memory: 0,
        };
        NAMES.iter().for_each(|name| fleet.join(name));
        fleet.team.wait_ready();
        let outputs = [cluster.unique(), cluster.duplicate(), cluster.dead()];
        let consumed = Consumed::start(&broker, &outputs);
        consumed.wait_for_a_steady_flow();
        eprintln!("seed {seed}: faults for {time:?}");
        let survived = cause_faults(&mut fleet, &consumed, seed, time);
        crawl.is_over.store(true, Ordering::SeqCst);
        writer.join().expect("the crawl ends well");
        let written = usize::try_from(crawl.written.load(Ordering::SeqCst)).unwrap();
        let mut out = TopicReader::open(&broker, &outputs);
        fleet.team.deliver(&mut out, written);
        let (dropped, peak_memory) = (fleet.dropped, fleet.peak_memory);
        fleet.team.disband();
        let mut ledger = Ledger::read(&cluster);
        ledger.inputs.extend(dropped);
        (ledger.audit(survived.contains_key(&Fault::VerdictsDeleted)), survived, peak_memory)
    });
    print(&audit, &survived, peak_memory);
    assert!(audit.is_clean(), "{audit:?}");
    for (fault, (_, pause)) in survived {
        let (name, promised) = fault.described();
        assert!(pause <= promised, "{name}: outputs paused for {pause:?}, promised {promised:?}");
    }
}

/// Ends the crawl, even if the test fails.
struct Over<'c>(&'c Crawl);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.go_on();
    }
}
