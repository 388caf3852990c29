//! The real program, as its users start it: topics and configuration of one test.

use std::path::PathBuf;
use std::process::Command;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::broker::{Broker, wait};
use crate::cluster::{instance::Instance, merge};

/// Topics, group and folder of one test.
pub(in super::super) struct Site {
    pub(in super::super) broker: &'static Broker,
    pub(in super::super) input: String,
    pub(in super::super) unique: String,
    pub(in super::super) duplicate: String,
    pub(in super::super) dead: String,
    pub(in super::super) group: String,
    folder: tempfile::TempDir,
}

impl Site {
    /// Creates the topics, each with this many partitions.
    pub(in super::super) fn new(broker: &'static Broker, partitions: i32) -> Self {
        Self {
            input: broker.topic("pages", partitions),
            unique: broker.topic("unique", partitions),
            duplicate: broker.topic("duplicate", partitions),
            dead: broker.topic("dead", 1),
            group: broker.unique("group"),
            folder: tempfile::tempdir().expect("a folder"),
            broker,
        }
    }

    fn configuration(&self, instance: &str) -> Value {
        json!({
            "kafka": { "brokers": self.broker.address().split(',').collect::<Vec<_>>() },
            "input": { "topics": [&self.input], "group": &self.group, "instance_id": instance },
            "output": {
                "unique": { "topic": &self.unique },
                "duplicate": { "topic": &self.duplicate },
                "dead_letter": { "topic": &self.dead },
            },
            "index": { "path": self.folder.path().join(format!("{instance}-index")) },
            "logging": { "level": "info", "format": "text" },
        })
    }

    /// Starts an instance.
    pub(in super::super) fn start(&self, instance: &str) -> Instance {
        self.start_with(instance, json!({}))
    }

    /// Starts an instance with further settings.
    pub(in super::super) fn start_with(&self, instance: &str, more: Value) -> Instance {
        let mut configuration = self.configuration(instance);
        merge(&mut configuration, more);
        Instance::start(instance, self.folder.path(), configuration)
    }

    /// Writes the configuration of an operator, and returns its path.
    pub(in super::super) fn operator_file(&self) -> PathBuf {
        let path = self.folder.path().join("operator.yaml");
        let text = self.configuration("operator").to_string();
        // A command that starts meanwhile must not find a partial file.
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            std::fs::write(&path, text).expect("a configuration");
        }
        path
    }

    /// A command of an operator.
    pub(in super::super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        command.args(arguments).arg("-c").arg(self.operator_file());
        command
    }

    /// Runs a command to its end and returns what it printed.
    pub(in super::super) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// All topics of the broker.
    pub(in super::super) fn topics(&self) -> Vec<String> {
        let client: BaseConsumer = self.broker.client().create().expect("a client");
        let metadata = client.fetch_metadata(None, wait::LIMIT).expect("metadata");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// Sets the offsets of the group back, one for each partition. No instance runs.
    pub(in super::super) fn rewind(&self, offsets: &[i64]) {
        let client: BaseConsumer = self.broker.client().set("group.id", &self.group).create().expect("a client");
        wait::until("the group to be empty", || {
            let list = client.fetch_group_list(Some(&self.group), wait::LIMIT).expect("the group");
            list.groups().first().is_none_or(|group| group.members().is_empty()).then_some(())
        });
        let mut places = TopicPartitionList::new();
        for (partition, offset) in (0..).zip(offsets) {
            let place = Offset::Offset(*offset);
            places.add_partition_offset(&self.input, partition, place).expect("an offset");
        }
        client.commit(&places, CommitMode::Sync).expect("the offsets are set back");
    }

    /// The log of an instance.
    pub(in super::super) fn log(&self, instance: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{instance}.log"))).unwrap_or_default()
    }
}
