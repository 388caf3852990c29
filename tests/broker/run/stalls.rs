//! The coordinator of the judges' group stalls under load: it keeps its connections, and answers nothing.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use dupgate::clock::Clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::{Value, json};

use super::super::broker::{Broker, wait};
use super::instance::Site;
use super::text;
use super::topics::{committed, page, produce};
use crate::cluster::instance::Instance;

/// How long a stall lasts: longer than the other brokers wait for a silent one (9 s).
const STALL: Duration = Duration::from_secs(12);

/// How long no page may come out.
const LONGEST_GAP: Duration = Duration::from_secs(15);

/// How many stalls there are, unless `DUPGATE_STALLS` says so.
const STALLS: u32 = 2;

/// Partitions of the input; each has its own producer.
const PARTITIONS: usize = 3;

/// Ends the threads of a test, even if it fails.
struct Ending<'t>(&'t AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the group of the judges of the one log partition.
fn judges_of(site: &Site) -> String {
    let prefix = format!("{}.verdicts.", site.group);
    let scheme = site.topics().into_iter().find_map(|topic| topic.strip_prefix(&prefix).map(str::to_owned));
    format!("{}.judge.{}.0", site.group, scheme.expect("a verdict log"))
}

/// Looks at the ends of a topic's partitions. One whose leader stalls does not answer.
struct Ends {
    client: BaseConsumer,
    ends: [i64; PARTITIONS],
}

impl Ends {
    fn of(broker: &Broker) -> Self {
        Self { client: broker.client().create().expect("a client"), ends: [0; PARTITIONS] }
    }

    /// Returns about how many records the topic holds: transaction markers are included.
    fn records(&mut self, topic: &str) -> i64 {
        for (partition, end) in (0..).zip(&mut self.ends) {
            if let Ok((_, now)) = self.client.fetch_watermarks(topic, partition, Duration::from_millis(500)) {
                *end = now;
            }
        }
        self.ends.iter().sum()
    }
}

/// Returns the longest time without a new record in a topic.
fn longest_gap(site: &Site, is_over: &AtomicBool) -> Duration {
    let (clock, mut ends) = (Clock::start(), Ends::of(site.broker));
    let (mut records, mut since, mut longest) = (0, clock.now(), Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let now_there = ends.records(&site.unique);
        longest = longest.max(clock.now().saturating_sub(since));
        if now_there > records {
            (records, since) = (now_there, clock.now());
        }
    }
    longest
}

#[test]
#[ignore = "needs the machine for itself: make test-failover"]
fn stalls_of_the_coordinator_of_the_judges_cost_no_index_and_little_time() {
    let stalls = std::env::var("DUPGATE_STALLS").map_or(STALLS, |text| text.parse().expect("a number of stalls"));
    let Some((gap, _)) = stall(stalls..=stalls, &json!({})) else { return };
    assert!(gap <= LONGEST_GAP, "{gap:?}");
}

#[test]
#[ignore = "needs the machine for itself: make test-failover"]
fn a_judge_that_loses_its_membership_keeps_its_index() {
    // A session outlasts many of them: another broker may become coordinator meanwhile, and counts anew.
    let Some((_, lost)) = stall(1..=9, &json!({ "session_timeout": "6s" })) else { return };
    assert!(lost > 0, "the session outlasted each stall");
}

/// Lets the coordinator of the judges' group stall under load: so many times at least, and then until a judge has lost its
/// membership, but no more often than the range says. Returns how long no page came out and how many judges lost their
/// membership, or `None` without brokers.
///
/// # Panics
///
/// A page is lost or comes out twice, an instance ends, or one restores its index.
fn stall(stalls: RangeInclusive<u32>, judge: &Value) -> Option<(Duration, usize)> {
    let cluster: &'static Broker = Box::leak(Box::new(Broker::three("")?));
    let site = Site::new(cluster, 3);
    let settings = json!({ "mode": "tag", "logs": { "replication_factor": 3 }, "judge": judge });
    let mut instances = ["one", "two"].map(|name| site.start_with(name, settings.clone()));
    for instance in &mut instances {
        instance.wait_ready();
    }
    let lost = |instances: &[Instance]| -> usize {
        instances.iter().map(|instance| instance.log().matches("stopped judging").count()).sum()
    };
    let (is_over, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let (gap, stalls) = std::thread::scope(|scope| {
        let _ending = Ending(&is_over);
        let (site, is_over, written) = (&site, &is_over, &written);
        for partition in (0..).take(PARTITIONS) {
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let first = written.fetch_add(10, Ordering::Relaxed);
                    let pages: Vec<_> = (first..first + 10).map(|seed| page(&text(seed))).collect();
                    produce(cluster, &site.input, partition, &pages);
                }
            });
        }
        let mut ends = Ends::of(cluster);
        let mut come =
            |what, records| wait::until(what, || Some(ends.records(&site.unique)).filter(|now| *now > records));
        come("pages", 100);
        let gap = scope.spawn(move || longest_gap(site, is_over));
        let judges = judges_of(site);
        let mut seen = 0;
        while seen < *stalls.start() || seen < *stalls.end() && lost(&instances) == 0 {
            seen += 1;
            // A take-over that is under way would last as long as the stall, and its own time after it.
            wait::until("a judge", || instances.iter().any(Instance::judges).then_some(()));
            let (clock, coordinator) = (Clock::start(), cluster.group_coordinator(&judges));
            cluster.pause_one(coordinator);
            wait::until("the end of the stall", || (clock.now() >= STALL).then_some(()));
            cluster.resume_one(coordinator);
            let now_there = come("a page", 0);
            come("pages after the stall", now_there + 200);
        }
        is_over.store(true, Ordering::Relaxed);
        (gap.join().expect("the longest gap"), seen)
    });
    let written = usize::try_from(written.into_inner()).expect("few pages");
    let unique = committed(cluster, &site.unique, written);
    let sources: BTreeSet<String> = unique.iter().map(|record| record.header("dupgate.source").concat()).collect();
    assert_eq!((unique.len(), sources.len()), (written, written), "each page once");
    for instance in &mut instances {
        assert_eq!(instance.has_ended(), None);
        assert!(instance.metric("dupgate_index_restores_total", &[]) < 0.5, "{}", instance.log());
    }
    eprintln!("{stalls} stalls of {STALL:?}, {written} pages: no page came out for {gap:?} at most");
    let lost = lost(&instances);
    for instance in instances {
        instance.stop();
    }
    Some((gap, lost))
}
