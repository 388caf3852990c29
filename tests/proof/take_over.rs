//! How long a consumer of the outputs waits when the judging instance is stopped, killed or replaced.
//!
//! These tests measure; they take minutes and are run by `make test-failover`.
#![expect(clippy::disallowed_methods, reason = "the tests measure time")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

use crate::accounting::{Ledger, originals_are_delivered};
use crate::broker::{Broker, wait};
use crate::cluster::instance::Instance;
use crate::cluster::records::{Page, Pen};
use crate::cluster::{Cluster, Shape};

/// The shortest session that brokers allow by default (`group.min.session.timeout.ms`).
const SESSION: Duration = Duration::from_secs(6);

/// Longest pause of all outputs after the judging instance was killed.
const KILLED: Duration = SESSION.saturating_add(Duration::from_secs(1));

/// Longest pause after a clean stop, with a standby or without one.
const STOPPED: Duration = Duration::from_secs(2);

/// Tolerance of the longest pause, for what else a busy machine does at that moment: two cores run the broker, both
/// instances, the writer and the reader. Nine pauses in ten must be within the promise.
const SLACK: Duration = Duration::from_secs(2);

/// Longest pause after the return of a broker that was down for [`AWAY`].
const BROKER_BACK: Duration = Duration::from_secs(30);

/// How long the broker is down.
const AWAY: Duration = Duration::from_secs(20);

/// Partitions of the input.
const PARTITIONS: i32 = 4;

/// Time between two pages, over all partitions.
const BEAT: Duration = Duration::from_millis(10);

/// Minimum number of upgrades of two pods.
const UPGRADES: usize = 5;

/// How often each event is measured: `DUPGATE_FAILOVER_TIMES`, or three times.
fn rounds() -> usize {
    std::env::var("DUPGATE_FAILOVER_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(3)
}

/// Writes a page every [`BEAT`] until dropped.
struct Feed {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    fn start(broker: &Broker, topic: &str) -> Self {
        let (pen, topic, stop) = (Pen::new(broker), topic.to_owned(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            for number in 0_u32.. {
                if stopped.load(Ordering::Relaxed) {
                    return pen.flush();
                }
                let words: Vec<String> = (0..40).map(|word| format!("w{number}x{word}")).collect();
                let value = json!({ "url": format!("https://a.example/{number}"), "text": words.join(" ") });
                let page = Page { key: number.to_string(), value: Some(value.to_string().into()), ..Page::default() };
                pen.write(&topic, i32::try_from(number).expect("few pages") % PARTITIONS, &page);
                std::thread::park_timeout((start + BEAT * number).saturating_duration_since(Instant::now()));
            }
        });
        Self { stop, thread: Some(thread) }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("the feed ends well");
    }
}

/// A consumer of both outputs that records arrival times.
struct Consumed {
    arrivals: Arc<Mutex<Vec<Instant>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Consumed {
    fn start(broker: &Broker, topics: &[&str]) -> Self {
        let mut config = broker.client();
        config.set("group.id", broker.unique("consumer")).set("auto.offset.reset", "earliest");
        config.set("isolation.level", "read_committed").set("fetch.wait.max.ms", "50");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        // Without a group: its own recovery is not to be measured.
        let mut all = TopicPartitionList::new();
        for topic in topics {
            let metadata = consumer.fetch_metadata(Some(topic), wait::LIMIT).expect("metadata");
            for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
                all.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("a place");
            }
        }
        consumer.assign(&all).expect("assigned");
        let (arrivals, stop): (Arc<Mutex<Vec<Instant>>>, _) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (noted, stopped) = (arrivals.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Some(Ok(_)) = consumer.poll(Duration::from_millis(100)) {
                    noted.lock().expect("a list").push(Instant::now());
                }
            }
        });
        Self { arrivals, stop, thread: Some(thread) }
    }

    fn count(&self) -> usize {
        self.arrivals.lock().expect("a list").len()
    }

    /// Waits for a second of records without a pause of more than half a second.
    fn wait_for_a_steady_flow(&self) {
        let from = Instant::now();
        wait::until("a steady flow of outputs", || {
            let arrivals = self.arrivals.lock().expect("a list");
            let now = Instant::now();
            let recent = |at: &Instant| *at >= from && now - *at < Duration::from_millis(1500);
            let last: Vec<Instant> = arrivals.iter().rev().copied().take_while(recent).collect();
            let is_long = last.last().is_some_and(|first| now - *first > Duration::from_secs(1));
            let is_dense = last.windows(2).all(|two| two[0] - two[1] < Duration::from_millis(500));
            (is_long && is_dense).then_some(())
        });
    }

    /// The longest time without a record since `from`.
    fn longest_pause_since(&self, from: Instant) -> Duration {
        let arrivals = self.arrivals.lock().expect("a list");
        let since: Vec<Instant> = arrivals.iter().copied().filter(|at| *at >= from).collect();
        let first = since.first().map_or(Duration::ZERO, |first| *first - from);
        since.windows(2).map(|two| two[1] - two[0]).fold(first, Duration::max)
    }
}

impl Drop for Consumed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the consumer ends well");
    }
}

/// One deployment with a feed and a consumer.
struct Scene<'b> {
    cluster: Cluster<'b>,
    feed: Feed,
    consumed: Consumed,
}

impl<'b> Scene<'b> {
    fn new(broker: &'b Broker) -> Self {
        let config = json!({ "judge": { "session_timeout": format!("{}s", SESSION.as_secs()) } });
        let shape = Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config };
        let cluster = Cluster::new(broker, shape);
        let feed = Feed::start(broker, &cluster.inputs()[0]);
        let consumed = Consumed::start(broker, &[cluster.unique(), cluster.duplicate()]);
        Self { cluster, feed, consumed }
    }

    fn start(&self, name: &str) -> Instance {
        self.cluster.start_with(name, json!({ "input": { "instance_id": name } }))
    }

    /// Starts a pod with the configuration of this generation: each changes rules, and operational settings.
    fn start_pod(&self, name: &str, generation: usize) -> Instance {
        let (hours, distance, entries) = if generation.is_multiple_of(2) { (72, 3, 50_000) } else { (48, 2, 40_000) };
        let changed = json!({
            "window": { "size": format!("{hours}h") },
            "match": { "simhash": { "max_distance": distance } },
            "index": { "max_entries": entries },
            "output": { "commit_interval": format!("{}ms", 200 + generation) },
        });
        self.cluster.start_pod(name, changed)
    }

    /// Measures how long all outputs pause after `event`, until `is_over` and outputs flow again.
    fn pause(&self, event: impl FnOnce(), mut is_over: impl FnMut() -> bool) -> Duration {
        self.consumed.wait_for_a_steady_flow();
        let from = Instant::now();
        event();
        wait::until("the event to be over", || is_over().then_some(()));
        self.consumed.wait_for_a_steady_flow();
        self.consumed.longest_pause_since(from)
    }

    /// Ends the feed, waits until everything is delivered, and checks that each page came out once.
    fn end(self, instances: Vec<Instance>) {
        self.feed.end();
        wait::until("every page to be committed", || (self.cluster.lag() == 0).then_some(()));
        instances.into_iter().for_each(Instance::stop);
        assert!(self.consumed.count() > 0);
        let outcomes = Ledger::read(&self.cluster).outcomes(1).expect("each page comes out once (L1)");
        originals_are_delivered(&outcomes).expect("every duplicate points to a delivered original (L8)");
    }
}

/// The configuration series of an instance, without the instance's name.
fn configuration(instance: &Instance) -> String {
    let metrics = instance.metrics();
    let line = metrics.lines().find(|line| line.starts_with("dupgate_config_info"));
    line.expect("dupgate_config_info").to_owned()
}

/// Prints the pauses of one kind, and compares nine in ten with their limit, and the longest with the tolerance, too.
fn report(what: &str, mut pauses: Vec<Duration>, limit: Duration) {
    pauses.sort_unstable();
    let most = pauses[(pauses.len() - 1) * 9 / 10];
    let (_, longest) = printed(what, pauses, limit);
    assert!(most <= limit, "{what}: {most:?}");
    assert!(longest <= limit + SLACK, "{what}: {longest:?}");
}

/// Prints the pauses of one kind and returns the median and the longest.
fn printed(what: &str, mut pauses: Vec<Duration>, limit: Duration) -> (Duration, Duration) {
    pauses.sort_unstable();
    let (median, longest) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
    eprintln!(
        "{what}: outputs paused for {median:.2?} (median), {longest:.2?} (longest of {}); promised {limit:?}",
        pauses.len()
    );
    (median, longest)
}

#[test]
#[ignore = "measures for minutes; make test-failover runs it"]
fn a_standby_takes_over_within_the_session_timeout() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let scene = Scene::new(&broker);
    let mut judging = scene.start("one");
    wait::until("a judge", || judging.judges().then_some(()));
    let mut standby = scene.start("two");
    let (mut stopped, mut killed) = (Vec::new(), Vec::new());
    for round in 0..2 * rounds() {
        standby.wait_ready();
        // A stopped static member keeps its partitions until its session ends; the judge is measured.
        wait::until("partitions for the standby", || (standby.partitions() > 0.5).then_some(()));
        let name = judging.name().to_owned();
        let pause = if round % 2 == 0 {
            let gone = &mut Some(judging);
            let pause = scene.pause(|| gone.take().expect("an instance").stop(), || standby.judges());
            stopped.push(pause);
            pause
        } else {
            let pause = scene.pause(|| judging.kill(), || standby.judges());
            killed.push(pause);
            pause
        };
        eprintln!("round {round}: {pause:.2?}");
        judging = standby;
        standby = scene.start(&name);
    }
    standby.wait_ready();
    scene.end(vec![standby, judging]);
    report("SIGTERM of the judging instance, standby ready", stopped, STOPPED);
    report("kill -9 of the judging instance, standby ready", killed, KILLED);
}

#[test]
#[ignore = "measures for minutes; make test-failover runs it"]
fn a_single_instance_judges_soon_after_its_restart() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let scene = Scene::new(&broker);
    let mut instance = scene.start("one");
    instance.wait_ready();
    let mut times = Vec::new();
    for _ in 0..rounds() {
        scene.consumed.wait_for_a_steady_flow();
        instance.stop();
        let from = Instant::now();
        instance = scene.start("one");
        wait::until("the instance to judge", || instance.judges().then_some(()));
        times.push(from.elapsed());
        instance.wait_ready();
    }
    scene.end(vec![instance]);
    report("restart of a single instance, from its start until it judges", times, STOPPED);
}

#[test]
#[ignore = "measures for minutes; make test-failover runs it"]
fn a_rolling_upgrade_of_a_stateful_set_loses_nothing_and_hands_over_the_judge() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let scene = Scene::new(&broker);
    let mut pods = vec![scene.start_pod("dupgate-0", 0), scene.start_pod("dupgate-1", 0)];
    pods.iter_mut().for_each(Instance::wait_ready);
    let mut pauses = Vec::new();
    for generation in 1..=rounds().max(UPGRADES) {
        // The controller replaces the pods from last to first, each when the previous one is ready.
        for number in (0..pods.len()).rev() {
            let pod = pods.remove(number);
            let name = pod.name().to_owned();
            let mut next = None;
            let pause = scene.pause(
                || {
                    pod.stop();
                    let mut started = scene.start_pod(&name, generation);
                    started.wait_ready();
                    next = Some(started);
                },
                || true,
            );
            pauses.push(pause);
            pods.insert(number, next.expect("a pod"));
        }
    }
    let hashes: BTreeSet<String> = pods.iter().map(configuration).collect();
    assert_eq!(hashes.len(), 1, "the newest configuration has reached all pods: {hashes:?}");
    scene.end(pods);
    let what = "rolling upgrade of a StatefulSet of two, with another configuration each time";
    let (_, longest) = printed(what, pauses, KILLED);
    assert!(longest <= KILLED, "{what}: {longest:?}");
}

#[test]
#[ignore = "measures for minutes; make test-failover runs it"]
fn outputs_flow_again_soon_after_the_broker_is_back() {
    let _turn = crate::turn();
    let Some(broker) = Broker::private() else { return };
    let scene = Scene::new(&broker);
    let mut instances = [scene.start("one"), scene.start("two")];
    instances.iter_mut().for_each(Instance::wait_ready);
    let (mut pauses, mut noticed) = (Vec::new(), Vec::new());
    for _ in 0..rounds().div_ceil(3) {
        scene.consumed.wait_for_a_steady_flow();
        let gone = Instant::now();
        broker.kill();
        wait::until("every instance to report that it is not ready", || {
            (!instances.iter().any(Instance::is_ready)).then_some(())
        });
        noticed.push(gone.elapsed());
        std::thread::park_timeout(AWAY.saturating_sub(gone.elapsed()));
        broker.start();
        let back = Instant::now();
        scene.consumed.wait_for_a_steady_flow();
        pauses.push(scene.consumed.longest_pause_since(back));
        instances.iter_mut().for_each(Instance::wait_ready);
    }
    scene.end(instances.into());
    report("a broker that is down: noticed by readiness", noticed, AWAY);
    report("a broker that was down, from its return on", pauses, BROKER_BACK);
}
