//! A real Apache Kafka for the tests: one broker for a test binary, or separate ones that a test may kill, pause and
//! slow down by quotas.
//!
//! `tests/broker/kafka.sh` finds, starts and stops brokers; this module controls it over a pipe. When the test process
//! ends, for whatever reason, the pipe closes and the script stops the broker and removes its folder.
//!
//! Tests of one binary share a broker, so every name they use comes from [`Broker::topic`] or [`Broker::unique`].
#![expect(clippy::expect_used, clippy::panic, reason = "a harness stops the test that it cannot serve")]
#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

pub(crate) mod admin;
pub(crate) mod cpu;
mod script;

#[path = "../wait.rs"]
pub(crate) mod wait;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rdkafka::ClientConfig;

use self::script::Script;

/// Variables of `kafka.sh`: brokers of our own, by Maven, with secured listeners, three of them.
const OWN: (&str, &str) = ("DUPGATE_KAFKA_OWN", "1");
const MAVEN: (&str, &str) = ("DUPGATE_KAFKA_WAY", "maven");
const SECURE: (&str, &str) = ("DUPGATE_KAFKA_SECURE", "1");
const THREE: (&str, &str) = ("DUPGATE_KAFKA_BROKERS", "3");

/// A running broker, or a cluster of three, and the script that manages it.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The addresses of all brokers, as clients take them.
    address: String,
    /// Addresses of secured listeners and the folder of certificates, by name.
    secured: BTreeMap<String, String>,
    /// Differs between brokers, binaries and runs, which may share a cluster.
    run: String,
    script: Mutex<Script>,
}

impl Broker {
    /// The broker that all tests of this binary share, started at the first call.
    ///
    /// `None` only if `DUPGATE_SKIP_BROKER=1` is set outside of CI; a missing broker is a failure.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Result<Broker, String>> = OnceLock::new();
        Self::kept(&SHARED, &[])
    }

    /// Starts it at the first call, and returns it at every call.
    fn kept(place: &'static OnceLock<Result<Self, String>>, environment: &[(&str, &str)]) -> Option<&'static Self> {
        if skipped() {
            return None;
        }
        match place.get_or_init(|| Self::serve(environment)) {
            Ok(broker) => Some(broker),
            Err(why) => panic!("{why}"),
        }
    }

    /// A broker for one test, which may stop and kill it; ended when dropped.
    ///
    /// Never the one named by `DUPGATE_TEST_KAFKA`: that is not ours to kill.
    pub(crate) fn private() -> Option<Self> {
        Self::owned(&[OWN])
    }

    /// A broker for one test that runs another version of Apache Kafka.
    pub(crate) fn of_version(version: &str) -> Option<Self> {
        Self::owned(&[OWN, MAVEN, ("DUPGATE_KAFKA_VERSION", version)])
    }

    /// A cluster of three brokers for one test, which may stop, kill and pause each of them; ended when dropped. Groups
    /// and transactions are kept on all three, and need two of them; all other settings, the default replication factor
    /// of 1 among them, are Apache's own unless `settings` has lines like `name=value`.
    pub(crate) fn three(settings: &str) -> Option<Self> {
        Self::owned(&[OWN, MAVEN, THREE, ("DUPGATE_KAFKA_SETTINGS", settings)])
    }

    /// Like [`Broker::three`], with the listeners and users of [`Broker::secured`].
    pub(crate) fn three_secured(settings: &str) -> Option<Self> {
        Self::owned(&[OWN, MAVEN, THREE, SECURE, ("DUPGATE_KAFKA_SETTINGS", settings)])
    }

    fn owned(environment: &[(&str, &str)]) -> Option<Self> {
        if skipped() {
            return None;
        }
        match Self::serve(environment) {
            Ok(broker) => Some(broker),
            Err(why) => panic!("{why}"),
        }
    }

    /// A broker with the listeners `SSL`, `SASL_SSL` and `SASL_PLAINTEXT` beside the plain one, shared by all tests of
    /// this binary. Users: alice may do everything, bob what ACLs allow him; clients of the plain listener, everything.
    pub(crate) fn secured() -> Option<&'static Self> {
        static SECURED: OnceLock<Result<Broker, String>> = OnceLock::new();
        Self::kept(&SECURED, &[OWN, MAVEN, SECURE])
    }

    /// The address of a secured listener, or the folder of the certificates (`CERTS`).
    pub(crate) fn way(&self, name: &str) -> &str {
        self.secured.get(name).expect("a secured broker")
    }

    fn serve(environment: &[(&str, &str)]) -> Result<Self, String> {
        let (script, ready) = Script::serve(environment)?;
        let mut words = ready.split_whitespace();
        let address = words.next().unwrap_or_default().to_owned();
        let named = words.filter_map(|word| word.split_once('='));
        let secured = named.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let run = format!("{:016x}", RandomState::new().build_hasher().finish());
        Ok(Self { address, secured, run, script: Mutex::new(script) })
    }

    /// `host:port`, with commas between those of several brokers; stays the same when a broker is restarted.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Client settings that name this broker and nothing else.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Reconnect to a restarted broker at once.
        config.set("bootstrap.servers", &self.address).set("reconnect.backoff.max.ms", "200");
        // The brokers create topics for those who ask for them, as they do by default.
        config.set("allow.auto.create.topics", "false");
        config
    }

    /// A name that no other test, binary or run uses, or uses as a prefix: for groups, transactional ids and topics.
    pub(crate) fn unique(&self, name: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{name}-{}-{:05}", self.run, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates a topic with a unique name that begins with `name`, and returns the name.
    pub(crate) fn topic(&self, name: &str, partitions: i32) -> String {
        self.topic_with(name, partitions, &[])
    }

    /// Like [`Broker::topic`], with topic settings such as `("message.timestamp.type", "LogAppendTime")`.
    pub(crate) fn topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> String {
        let name = self.unique(name);
        self.create_topic(&name, partitions, settings);
        name
    }

    /// Creates a topic of exactly this name.
    pub(crate) fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        admin::create_topic(&self.client(), name, partitions, settings);
    }

    /// Deletes a topic.
    pub(crate) fn delete_topic(&self, name: &str) {
        admin::delete_topic(&self.client(), name);
    }

    /// Returns the settings and the replicas of a topic; `None` if there is no such topic.
    pub(crate) fn describe(&self, topic: &str) -> Option<(BTreeMap<String, String>, usize)> {
        admin::describe(&self.client(), topic)
    }

    /// Deletes a topic and creates an empty one with its name.
    pub(crate) fn recreate_topic(&self, name: &str, partitions: i32) {
        admin::delete_topic(&self.client(), name);
        // A topic is gone some time after its deletion was answered.
        wait::until("the name to be free", || {
            admin::try_create_topic(&self.client(), name, partitions, &[("retention.ms", "-1")]).ok()
        });
    }

    /// Adds partitions to a topic, up to this number.
    pub(crate) fn grow_topic(&self, topic: &str, partitions: usize) {
        admin::grow_topic(&self.client(), topic, partitions);
    }

    /// Sets a topic's settings; all others go back to the cluster's defaults.
    pub(crate) fn alter(&self, topic: &str, settings: &[(&str, &str)]) {
        admin::alter_topic(&self.client(), topic, settings);
    }

    /// Deletes the records of a partition before an offset, as retention does.
    pub(crate) fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        admin::delete_before(&self.client(), topic, partition, offset);
    }

    /// Deletes a group, once its members have left, and so its offsets.
    pub(crate) fn delete_group(&self, name: &str) {
        admin::delete_group(&self.client(), name);
    }

    /// Stops all brokers cleanly (SIGTERM) and waits for their end.
    ///
    /// Not with Apache Kafka 4.3 and 4.4 while transactions run: see `version` in `kafka.sh`.
    pub(crate) fn stop(&self) {
        self.order("stop");
    }

    /// Kills all brokers (`kill -9`) and waits for their end.
    pub(crate) fn kill(&self) {
        self.order("kill");
    }

    /// Starts the stopped or killed brokers again on the same data and addresses, and waits until they answer.
    pub(crate) fn start(&self) {
        self.order("start");
    }

    /// Stops one broker of a cluster, 1 to 3, cleanly (SIGTERM) and waits for its end.
    pub(crate) fn stop_one(&self, number: i32) {
        self.order(&format!("stop {number}"));
    }

    /// Kills one broker of a cluster, 1 to 3 (`kill -9`), and waits for its end.
    pub(crate) fn kill_one(&self, number: i32) {
        self.order(&format!("kill {number}"));
    }

    /// Starts a stopped or killed broker of a cluster again and waits until it answers, which takes a second broker.
    pub(crate) fn start_one(&self, number: i32) {
        self.order(&format!("start {number}"));
    }

    /// Stalls one broker of a cluster, 1 to 3 (SIGSTOP).
    pub(crate) fn pause_one(&self, number: i32) {
        self.order(&format!("pause {number}"));
    }

    /// Ends a stall (SIGCONT).
    pub(crate) fn resume_one(&self, number: i32) {
        self.order(&format!("resume {number}"));
    }

    /// Limits all clients with this `client.id`, or lifts the limit: `quota` is for instance `producer_byte_rate`, in
    /// bytes a second and broker.
    pub(crate) fn limit(&self, client_id: &str, quota: &str, limit: Option<u64>) {
        let change = limit.map_or(format!("--delete-config {quota}"), |limit| format!("--add-config {quota}={limit}"));
        self.order(&format!("configs --alter --entity-type clients --entity-name {client_id} {change}"));
    }

    /// Returns the number of the broker that coordinates a group that exists.
    pub(crate) fn group_coordinator(&self, group: &str) -> i32 {
        admin::coordinator(&self.client(), "__consumer_offsets", group)
    }

    /// Returns the number of the broker that coordinates a transactional id that has been used.
    pub(crate) fn transaction_coordinator(&self, transactional_id: &str) -> i32 {
        admin::coordinator(&self.client(), "__transaction_state", transactional_id)
    }

    /// CPU seconds that all brokers have used so far.
    pub(crate) fn cpu(&self) -> f64 {
        cpu::children_cpu(self.script().id())
    }

    fn order(&self, order: &str) {
        if let Err(why) = self.script().order(order, if order.starts_with("start") { "ready" } else { "done" }) {
            panic!("{why}");
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `DUPGATE_SKIP_BROKER=1` excuses this machine. CI is never excused.
fn skipped() -> bool {
    let is_skipped = std::env::var("DUPGATE_SKIP_BROKER").is_ok_and(|value| value == "1");
    let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    assert!(!(is_skipped && ci), "DUPGATE_SKIP_BROKER=1 has no place in CI: a missing broker is a failure there");
    is_skipped
}
