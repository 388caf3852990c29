//! The fleet, and how each fault is caused and ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use dupgate::record::Source;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::crawl::Crawl;
use super::faults::{Event, Fault};
use super::{NAMES, PARTITIONS};
use crate::accounting::Incarnation;
use crate::broker::wait;
use crate::cluster::instance::Instance;
use crate::cluster::records::{Record, TopicReader, by_source};
use crate::cluster::{Cluster, merge};
use crate::several_instances::Team;

/// How long instances and brokers stall: longer than the time-outs of groups and transactions.
const STALL: Duration = Duration::from_secs(12);

/// How long a crawler's clock is ahead.
const WRONG: Duration = Duration::from_secs(5);

/// How long brokers are slow, and what they take of all instances together then, in bytes a second and broker.
const SLOW: Duration = Duration::from_secs(10);
const SLOW_BYTES: u64 = 20_000;

/// Characters of a shingle in the first scheme, which is the default. Each scheme has one more than the one before.
pub(super) const SHINGLE: usize = 6;

pub(super) fn shingles_of(length: usize) -> Value {
    json!({ "match": { "minhash": { "shingle": { "other": length } } } })
}

/// The topic that is deleted and created again. The last one is dropped.
const RECREATED: usize = 1;

/// The fleet, and what is known of it.
pub(super) struct Fleet<'c> {
    cluster: &'c Cluster<'c>,
    /// All clients of the instances.
    client_id: String,
    crawl: &'c Crawl,
    pub(super) team: Team<'c>,
    /// Logs of earlier schemes.
    old_logs: BTreeSet<String>,
    /// What differs from the first configuration.
    changed: Value,
    /// Number of faults so far.
    count: u32,
    /// The topics of the input, and the pages of the one that was dropped.
    topics: &'c [String],
    pub(super) dropped: BTreeMap<Source, Record>,
    /// What a topic held before it was created again, each time.
    pub(super) earlier: Vec<Incarnation>,
    pub(super) peak_memory: u64,
}

/// A fault that lasts: until when at least, and what ends it.
struct Lasting {
    until: Instant,
    ended_by: End,
}

enum End {
    /// The instance is started again, once another one judges if it was the judge.
    Start {
        name: String,
        judged: bool,
    },
    /// SIGCONT.
    Thaw(String),
    StartBroker(i32),
    ResumeBroker(i32),
    LiftLimit,
    /// The folder of an instance is put back, once a snapshot has failed.
    PutBack(String),
    SetClockRight,
}

impl<'c> Fleet<'c> {
    /// A fleet without instances, whose choices are numbered from `count`.
    pub(super) fn new(cluster: &'c Cluster<'c>, client_id: String, crawl: &'c Crawl, count: u32) -> Self {
        Self {
            cluster,
            client_id,
            crawl,
            team: Team::new(cluster),
            old_logs: BTreeSet::new(),
            changed: json!({}),
            count,
            topics: cluster.inputs(),
            dropped: BTreeMap::new(),
            earlier: Vec::new(),
            peak_memory: 0,
        }
    }

    pub(super) fn join(&mut self, name: &str) {
        let mut config = self.changed.clone();
        merge(&mut config, json!({ "input": { "instance_id": name } }));
        self.team.join_as(name, config);
    }

    /// Keeps the largest memory of the instances that run.
    pub(super) fn weigh(&mut self) {
        let most = self.team.members().filter_map(Instance::peak_memory).max();
        self.peak_memory = self.peak_memory.max(most.unwrap_or(0));
    }

    /// Causes the faults of an event, and ends them.
    pub(super) fn cause(&mut self, event: Event) {
        let begun = Instant::now();
        let first = self.begin(event.first);
        if let Some(second) = event.second {
            // At any time while the first one lasts.
            let rest = first.as_ref().map_or(Duration::ZERO, |first| first.until.saturating_duration_since(begun));
            let share = u32::try_from(xxh3_64_with_seed(&self.count.to_le_bytes(), 0) % 100).unwrap();
            std::thread::sleep(rest * share / 100);
            let second = self.begin(second);
            self.end(second);
        }
        self.end(first);
        self.count += 1;
    }

    /// Begins a fault. One that does not last has happened then.
    fn begin(&mut self, fault: Fault) -> Option<Lasting> {
        let broker = self.cluster.broker();
        let (time, ended_by) = match fault {
            Fault::JudgeKilled => {
                let name = self.team.judge();
                self.team.kill(&name);
                (Duration::ZERO, End::Start { name, judged: true })
            }
            Fault::WorkerKilled => {
                let name = self.team.plain_worker();
                self.team.kill(&name);
                (Duration::ZERO, End::Start { name, judged: false })
            }
            Fault::JudgeSuspended => {
                let judge = self.team.judge();
                self.team.member(&judge).freeze();
                (STALL, End::Thaw(judge))
            }
            Fault::WorkerSuspended => {
                let worker = self.team.plain_worker();
                self.team.member(&worker).freeze();
                (STALL, End::Thaw(worker))
            }
            Fault::BrokerKilled => {
                broker.kill_one(self.next_broker());
                (STALL, End::StartBroker(self.next_broker()))
            }
            Fault::BrokerStalled => {
                broker.pause_one(self.next_broker());
                (STALL, End::ResumeBroker(self.next_broker()))
            }
            Fault::BrokersSlow => {
                broker.limit(&self.client_id, "producer_byte_rate", Some(SLOW_BYTES));
                (SLOW, End::LiftLimit)
            }
            Fault::SnapshotsRefused => {
                let judge = self.team.judge();
                let (disk, aside) = self.disk(&judge);
                fs::rename(&disk, &aside).expect("the folder is moved");
                fs::write(&disk, "").expect("a file in its place");
                (Duration::ZERO, End::PutBack(judge))
            }
            Fault::ClockAhead => {
                self.crawl.set_ahead(true);
                (WRONG, End::SetClockRight)
            }
            Fault::RequestsDeleted => return self.delete_log("fingerprints"),
            Fault::VerdictsDeleted => return self.delete_log("verdicts"),
            Fault::RulesChanged => return self.change_rules(),
            Fault::SchemeChanged => return self.change_scheme(),
            Fault::TopicDropped => return self.drop_a_topic(),
            Fault::TopicRecreated => return self.recreate_a_topic(),
        };
        Some(Lasting { until: Instant::now() + time, ended_by })
    }

    fn end(&mut self, fault: Option<Lasting>) {
        let Some(Lasting { until, ended_by }) = fault else { return };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let broker = self.cluster.broker();
        match ended_by {
            End::Start { name, judged } => {
                if judged {
                    self.team.judge_other_than(&name);
                }
                self.join(&name);
            }
            End::Thaw(name) => self.team.member(&name).thaw(),
            End::StartBroker(number) => broker.start_one(number),
            End::ResumeBroker(number) => broker.resume_one(number),
            End::LiftLimit => broker.limit(&self.client_id, "producer_byte_rate", None),
            End::PutBack(name) => {
                let refused = "dupgate_snapshot_failures_total";
                wait::until("a snapshot to fail", || {
                    let is_refused = self.team.member(&name).metric(refused, &[]) > 0.0;
                    (is_refused || !self.team.member(&name).judges()).then_some(())
                });
                let (disk, aside) = self.disk(&name);
                fs::remove_file(&disk).expect("the file is removed");
                fs::rename(&aside, &disk).expect("the folder is back");
            }
            End::SetClockRight => self.crawl.set_ahead(false),
        }
    }

    /// A broker, another one each time.
    fn next_broker(&self) -> i32 {
        1 + i32::try_from(self.count % 3).unwrap()
    }

    /// The folder of an instance, and where it is meanwhile.
    fn disk(&self, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
        (self.cluster.disk(name), self.cluster.disk(&format!("{name}.aside")))
    }

    /// Deletes a log of the current scheme, and creates an empty one.
    fn delete_log(&self, kind: &str) -> Option<Lasting> {
        let logs = self.cluster.log_topics(kind);
        let log = logs.difference(&self.old_logs).next().expect("a log of the scheme");
        self.cluster.broker().recreate_topic(log, 1);
        None
    }

    /// Restarts one instance after the other with another configuration.
    fn roll(&mut self, change: Value) -> Option<Lasting> {
        merge(&mut self.changed, change);
        for name in NAMES {
            self.team.leave(name);
            self.join(name);
            self.team.wait_until_ready(name);
        }
        None
    }

    fn change_rules(&mut self) -> Option<Lasting> {
        let least = if self.count.is_multiple_of(2) { 0.32 } else { 0.31 };
        self.roll(json!({ "match": { "minhash": { "min_similarity": least } } }))
    }

    /// Changes the scheme, with a dual period: the one before it must be over.
    fn change_scheme(&mut self) -> Option<Lasting> {
        wait::until("the dual period before to be over", || {
            let mut left =
                self.team.members().map(|member| member.metric("dupgate_dual_period_remaining_seconds", &[]));
            left.all(|left| left <= 0.0).then_some(())
        });
        let before = &self.cluster.log_topics("fingerprints") | &self.cluster.log_topics("verdicts");
        // Two logs for each scheme: a length that no scheme had before.
        let length = SHINGLE + before.len() / 2;
        let mut change = shingles_of(length);
        change["previous"] = shingles_of(length - 1);
        self.roll(change);
        self.old_logs = before;
        None
    }

    /// Holds the crawl, and waits until every page is out.
    fn settle(&self) {
        self.crawl.hold();
        wait::until("every page to be committed", || (self.cluster.lag_of(self.topics) == 0).then_some(()));
    }

    /// Takes the last topic from the crawl, and then from the configuration.
    fn drop_a_topic(&mut self) -> Option<Lasting> {
        let (last, others) = self.topics.split_last().expect("a topic");
        self.settle();
        self.dropped = by_source(TopicReader::open(self.cluster.broker(), &[last]).read_to_end());
        self.crawl.drop_the_last_topic();
        self.cluster.broker().delete_topic(last);
        self.topics = others;
        self.crawl.go_on();
        self.roll(json!({ "input": { "topics": others } }))
    }

    /// Deletes a topic and creates it again, as `docs/OPERATIONS.md` says: all instances are stopped, and what was judged
    /// of its positions is reopened.
    fn recreate_a_topic(&mut self) -> Option<Lasting> {
        let topic = &self.topics[RECREATED];
        self.settle();
        self.earlier.push(Incarnation::read(self.cluster, topic));
        NAMES.iter().for_each(|name| self.team.leave(name));
        self.cluster.broker().recreate_topic(topic, PARTITIONS);
        wait::until("the group to have no offsets of it", || (!self.cluster.has_committed(topic)).then_some(()));
        NAMES.iter().for_each(|name| self.join(name));
        let ranges = (0..PARTITIONS).map(|partition| format!("{topic}:{partition}:0-999999999"));
        let words: Vec<String> =
            ["verdicts", "reopen", "--execute"].map(str::to_owned).into_iter().chain(ranges).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reopened = self.cluster.command_with(&words, self.changed.clone()).output().expect("dupgate runs");
        let said = [reopened.stdout, reopened.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(reopened.status.success() && !said.concat().contains("left_out"), "{said:?}");
        self.crawl.go_on();
        None
    }
}
