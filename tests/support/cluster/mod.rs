//! A deployment of the real program on a real broker: topics, group, configuration, processes.
//!
//! Every name is unique, so that deployments share a broker. [`records`] reads the topics.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a harness stops the test that it cannot serve"
)]
#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

pub(crate) mod http;
pub(crate) mod instance;
pub(crate) mod records;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::broker::{Broker, wait};
use instance::Instance;

/// Settings of every topic: records are kept, whatever their timestamps.
const LASTING: (&str, &str) = ("retention.ms", "-1");

/// One deployment.
pub(crate) struct Cluster<'b> {
    broker: &'b Broker,
    folder: TempDir,
    inputs: Vec<String>,
    input_partitions: i32,
    unique: String,
    duplicate: String,
    dead: String,
    group: String,
    config: Value,
}

/// Parameters of a deployment.
pub(crate) struct Shape<'s> {
    /// Input topics.
    pub(crate) topics: usize,
    /// Partitions of each topic, inputs and outputs.
    pub(crate) partitions: i32,
    /// Settings of the input topics.
    pub(crate) input_settings: &'s [(&'s str, &'s str)],
    /// Settings of the output topics.
    pub(crate) output_settings: &'s [(&'s str, &'s str)],
    /// Configuration besides names and addresses.
    pub(crate) config: Value,
}

impl<'b> Cluster<'b> {
    /// Creates the topics and the configuration. No process runs yet.
    pub(crate) fn new(broker: &'b Broker, shape: Shape<'_>) -> Self {
        let create = |name: &str, settings: &[(&str, &str)]| {
            broker.topic_with(name, shape.partitions, &[&[LASTING], settings].concat())
        };
        let inputs: Vec<String> = (0..shape.topics).map(|_| create("pages", shape.input_settings)).collect();
        let output = |name: &str| create(name, shape.output_settings);
        let (unique, duplicate, dead) = (output("unique"), output("duplicate"), output("dead"));
        let group = broker.unique("dupgate");
        let mut config = json!({
            "kafka": {
                "brokers": broker.address().split(',').collect::<Vec<_>>(),
                // Shorter than the defaults, so that the group notices a silent member soon.
                "consumer_properties": { "session.timeout.ms": 6000 },
                "producer_properties": { "transaction.timeout.ms": 4000 },
            },
            "input": { "topics": &inputs, "group": &group },
            "output": {
                "unique": { "topic": &unique },
                "duplicate": { "topic": &duplicate },
                "dead_letter": { "topic": &dead },
            },
            "logging": { "level": "info", "format": "json" },
        });
        merge(&mut config, shape.config);
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { broker, folder, inputs, input_partitions: shape.partitions, unique, duplicate, dead, group, config }
    }

    /// Starts an instance with a separate folder for snapshots, which a later instance of the same name finds again.
    pub(crate) fn start(&self, name: &str) -> Instance {
        self.start_with(name, json!({}))
    }

    /// Like [`Cluster::start`], with further settings.
    pub(crate) fn start_with(&self, name: &str, more: Value) -> Instance {
        let disk = self.disk(name);
        std::fs::create_dir_all(&disk).expect("a folder for snapshots");
        let mut config = self.config.clone();
        merge(&mut config, json!({ "index": { "path": disk } }));
        merge(&mut config, more);
        Instance::start(name, self.folder.path(), config)
    }

    /// A command of the program with the deployment's configuration, and a separate folder for state.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_with(arguments, json!({}))
    }

    /// Like [`Cluster::command`], with further settings.
    pub(crate) fn command_with(&self, arguments: &[&str], more: Value) -> Command {
        let (file, disk) = (self.folder.path().join("operator.yaml"), self.disk("operator"));
        let mut config = self.config.clone();
        merge(&mut config, json!({ "index": { "path": disk } }));
        merge(&mut config, more);
        let text = config.to_string();
        // A command that is starting must not find a partial file.
        if std::fs::read_to_string(&file).ok().as_deref() != Some(&text) {
            std::fs::write(&file, text).expect("the configuration is written");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        command.args(arguments).arg("--config").arg(file).current_dir(self.folder.path());
        command
    }

    /// The group of the deployment.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// What the group has committed for each partition of the input, as text: to see whether anything moved.
    pub(crate) fn committed(&self) -> String {
        format!("{:?}", self.committed_of(&self.member(), &self.inputs))
    }

    /// The folder of configurations, logs and snapshots.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that an instance of this name keeps its snapshots in.
    pub(crate) fn disk(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.state"))
    }

    /// First offset of partition 0 of a topic.
    pub(crate) fn beginning(&self, topic: &str) -> i64 {
        self.watermarks(topic).0
    }

    /// How many offsets of partition 0 of a topic have records or markers.
    pub(crate) fn kept(&self, topic: &str) -> i64 {
        let (first, end) = self.watermarks(topic);
        end - first
    }

    fn watermarks(&self, topic: &str) -> (i64, i64) {
        let client: BaseConsumer = self.broker.client().create().expect("a client");
        client.fetch_watermarks(topic, 0, wait::LIMIT).expect("watermarks")
    }

    pub(crate) fn broker(&self) -> &'b Broker {
        self.broker
    }

    pub(crate) fn inputs(&self) -> &[String] {
        &self.inputs
    }

    pub(crate) fn unique(&self) -> &str {
        &self.unique
    }

    pub(crate) fn duplicate(&self) -> &str {
        &self.duplicate
    }

    pub(crate) fn dead(&self) -> &str {
        &self.dead
    }

    /// What the names of a log's topics begin with.
    pub(crate) fn log_prefix(&self, log: &str) -> String {
        format!("{}.{log}.", self.group)
    }

    /// Names of the topics that begin with the group and `.log.`: one for each scheme.
    pub(crate) fn log_topics(&self, log: &str) -> BTreeSet<String> {
        let prefix = self.log_prefix(log);
        let client: BaseConsumer = self.broker.client().create().expect("a client");
        let metadata = client.fetch_metadata(None, wait::LIMIT).expect("metadata");
        let names = metadata.topics().iter().map(MetadataTopic::name);
        names.filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect()
    }

    /// Name of the only topic that begins with the group and `.log.`.
    pub(crate) fn log_topic(&self, log: &str) -> String {
        let mut found = self.log_topics(log).into_iter();
        let name = found.next().unwrap_or_else(|| panic!("no topic begins with {}.{log}.", self.group));
        assert_eq!(found.next(), None, "one scheme, one log");
        name
    }

    /// Every partition of these input topics.
    fn places(&self, topics: &[String], offset: Offset) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for topic in topics {
            for partition in 0..self.input_partitions {
                list.add_partition_offset(topic, partition, offset).expect("a valid offset");
            }
        }
        list
    }

    /// What the group has committed of these topics, once its coordinator answers.
    fn committed_of(&self, client: &BaseConsumer, topics: &[String]) -> TopicPartitionList {
        wait::until("the committed offsets", || {
            client.committed_offsets(self.places(topics, Offset::Invalid), wait::LIMIT).ok()
        })
    }

    fn member(&self) -> BaseConsumer {
        let mut config: ClientConfig = self.broker.client();
        config.set("group.id", &self.group).set("enable.auto.commit", "false").create().expect("a client of the group")
    }

    /// Sets the input group back to the beginning of every partition. All instances must have left.
    pub(crate) fn rewind(&self) {
        let client = self.member();
        wait::until("the input group to be empty", || {
            let list = client.fetch_group_list(Some(&self.group), wait::LIMIT).expect("a group list");
            let group = list.groups().first()?;
            (group.members().is_empty()).then_some(())
        });
        client
            .commit(&self.places(&self.inputs, Offset::Offset(0)), CommitMode::Sync)
            .expect("the offsets are set back");
    }

    /// Whether the group has committed an offset of this topic.
    pub(crate) fn has_committed(&self, topic: &String) -> bool {
        let committed = self.committed_of(&self.member(), std::slice::from_ref(topic));
        committed.elements().iter().any(|element| element.offset() != Offset::Invalid)
    }

    /// The group's lag on the input, in records.
    pub(crate) fn lag(&self) -> i64 {
        self.lag_of(&self.inputs)
    }

    /// The group's lag on these topics of the input.
    pub(crate) fn lag_of(&self, topics: &[String]) -> i64 {
        let client = self.member();
        let committed = self.committed_of(&client, topics);
        let ahead = committed.elements().into_iter().map(|element| {
            let (_, end) = client
                .fetch_watermarks(element.topic(), element.partition(), wait::LIMIT)
                .expect("the end of the partition");
            end - element.offset().to_raw().unwrap_or(0).max(0)
        });
        ahead.sum()
    }
}

impl Drop for Cluster<'_> {
    /// A test that fails leaves configurations, logs and snapshots in the folder `DUPGATE_TEST_KEEP`.
    fn drop(&mut self) {
        let Some(keep) = std::env::var_os("DUPGATE_TEST_KEEP").filter(|_| std::thread::panicking()) else { return };
        let name = PathBuf::from(keep).join(&self.group);
        let copied = Command::new("cp").arg("-r").arg(self.folder.path()).arg(&name).status();
        eprintln!("files of the instances are in {}: {copied:?}", name.display());
    }
}

/// Merges `more` into `base`, member by member.
pub(crate) fn merge(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more,
    }
}
