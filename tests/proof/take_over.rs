//! How long a consumer of the outputs waits when the judging instance is stopped or killed, or the broker was down.
//! [`crate::rolling_upgrade`] replaces instances.
//!
//! These tests measure; they take minutes and are run by `make test-failover`.
#![expect(clippy::disallowed_methods, reason = "the tests measure time")]

use std::time::{Duration, Instant};

use serde_json::json;

use crate::broker::{Broker, wait};
use crate::cluster::instance::Instance;
use crate::cluster::{Cluster, Shape};
use crate::flow::{Consumed, Feed, each_page_came_out_once, printed};

/// The shortest session that brokers allow by default (`group.min.session.timeout.ms`).
const SESSION: Duration = Duration::from_secs(6);

/// Longest pause of all outputs after the judging instance was killed.
const KILLED: Duration = SESSION.saturating_add(Duration::from_secs(1));

/// Longest pause after a clean stop, with a standby or without one.
pub(crate) const STOPPED: Duration = Duration::from_secs(2);

/// Tolerance of the longest pause, for what else a busy machine does at that moment: two cores run the broker, both
/// instances, the writer and the reader. Nine pauses in ten must be within the promise.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Longest pause after the return of a broker that was down for [`AWAY`].
const BROKER_BACK: Duration = Duration::from_secs(30);

/// How long the broker is down.
const AWAY: Duration = Duration::from_secs(20);

/// Partitions of the input.
const PARTITIONS: i32 = 4;

/// How often each event is measured: `DUPGATE_FAILOVER_TIMES`, or three times.
pub(crate) fn rounds() -> usize {
    std::env::var("DUPGATE_FAILOVER_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(3)
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
        let feed = Feed::start(broker, &cluster.inputs()[0], PARTITIONS);
        let consumed = Consumed::start(broker, &[cluster.unique(), cluster.duplicate()]);
        Self { cluster, feed, consumed }
    }

    fn start(&self, name: &str) -> Instance {
        self.cluster.start_with(name, json!({ "input": { "instance_id": name } }))
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
        each_page_came_out_once(&self.cluster);
    }
}

/// Prints the pauses of one kind, and compares nine in ten with their limit, and the longest with the tolerance, too.
fn report(what: &str, mut pauses: Vec<Duration>, limit: Duration) {
    pauses.sort_unstable();
    let most = pauses[(pauses.len() - 1) * 9 / 10];
    let (_, longest) = printed(what, pauses, limit);
    assert!(most <= limit, "{what}: {most:?}");
    assert!(longest <= limit + SLACK, "{what}: {longest:?}");
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
