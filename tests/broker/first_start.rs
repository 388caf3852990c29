//! Steps of operators before the first start: create topics, check, fix the reported problems.

use std::process::Command;
use std::time::Duration;

use dupgate::clock::Clock;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::broker::Broker;
use super::broker::wait;

/// A configuration file and the names in it.
pub(super) struct CliRunner {
    pub(super) input: String,
    pub(super) outputs: [String; 3],
    pub(super) group: String,
    folder: tempfile::TempDir,
}

/// Output and exit code of a command.
pub(super) struct CliOutput {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: Option<i32>,
}

impl CliRunner {
    /// Writes a configuration for these brokers; its topics do not exist yet.
    pub(super) fn new(broker: &Broker) -> Self {
        let outputs = ["unique", "duplicate", "dead"].map(|name| broker.unique(name));
        let (input, group) = (broker.unique("pages"), broker.unique("group"));
        Self { input, outputs, group, folder: tempfile::tempdir().expect("a folder") }
    }

    /// Writes the configuration and further settings, and returns both files as `-c` takes them.
    pub(super) fn files(&self, address: &str, more: &str) -> String {
        let [unique, duplicate, dead] = &self.outputs;
        let text = format!(
            "version: 1\nkafka: {{brokers: [\"{}\"]}}\n\
             input: {{topics: [\"{}\"], group: \"{}\", instance_id: one}}\n\
             output:\n  unique: {{topic: \"{unique}\"}}\n  duplicate: {{topic: \"{duplicate}\"}}\n  dead_letter: {{topic: \"{dead}\"}}\n\
             index: {{path: \"{}\", max_memory: 64MiB}}\nhttp: {{listen: \"127.0.0.1:0\"}}\n",
            address.replace(',', "\", \""),
            self.input,
            self.group,
            self.folder.path().join("index").display()
        );
        let (first, second) = (self.folder.path().join("dupgate.yaml"), self.folder.path().join("more.yaml"));
        for (path, text) in [(&first, text.as_str()), (&second, more)] {
            // A service that starts meanwhile must not find a partial file.
            if std::fs::read_to_string(path).ok().as_deref() != Some(text) {
                std::fs::write(path, text).expect("a file");
            }
        }
        format!("{},{}", first.display(), second.display())
    }

    /// Returns the folder of an instance with this name.
    pub(super) fn folder(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the log file of a service with this name, which receives standard error.
    pub(super) fn log_of(&self, name: &str) -> std::fs::File {
        std::fs::File::create(self.folder.path().join(name).with_extension("log")).expect("a file")
    }

    /// The log of the service with this name.
    pub(super) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name).with_extension("log")).expect("a log")
    }

    /// Runs a command with this configuration and further settings.
    pub(super) fn ask_with(&self, address: &str, more: &str, arguments: &[&str]) -> CliOutput {
        let output = Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(arguments)
            .args(["-q", "-c", &self.files(address, more)])
            .env("ADMIN_TOKEN", super::running_service::TOKEN)
            .output()
            .expect("the program");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        CliOutput { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }

    /// Creates the topics that are missing, the input too, and returns the names of all.
    pub(super) fn create_topics(&self, address: &str, more: &str, flags: &[&str]) -> Vec<String> {
        let create = ["topics", "create", "--with-input", "--execute", "-o", "jsonl"];
        let made = self.ask_with(address, more, &[&create, flags].concat());
        assert_eq!(made.code, Some(0), "{}", made.err);
        let rows = made.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        rows.map(|row| row.get("topic").and_then(|name| name.as_str()).expect("a name").to_owned()).collect()
    }

    fn ask(&self, broker: &Broker, arguments: &[&str]) -> CliOutput {
        self.ask_with(broker.address(), "", arguments)
    }
}

/// Returns which of these topics are the fingerprint log and the verdict log.
pub(super) fn logs_of(topics: &[String]) -> [String; 2] {
    [".fingerprints.", ".verdicts."].map(|log| topics.iter().find(|name| name.contains(log)).expect("a log").clone())
}

/// States of the rows of a table that begin with this subject.
fn states<'o>(out: &'o str, subject: &str) -> Vec<&'o str> {
    let rows = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.first() == Some(&subject)).filter_map(|row| row.get(1).copied()).collect()
}

#[test]
fn topics_are_created_like_the_input_and_only_with_execute() {
    let Some(broker) = Broker::shared() else { return };
    let mut cli = CliRunner::new(broker);
    let create =
        |cli: &CliRunner, more: &[&str]| cli.ask(broker, &[&["topics", "create", "-o", "table"], more].concat());
    let output = create(&cli, &[]);
    assert_eq!(output.code, Some(78), "{}", output.err);
    assert!(output.err.contains("does not exist, so nothing can be derived from it"), "{}", output.err);

    cli.input = broker.topic_with("pages", 3, &[("max.message.bytes", "4194304"), ("retention.ms", "3600000")]);
    let dry = create(&cli, &[]);
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    assert!(dry.err.contains("nothing was done: add --execute"), "{}", dry.err);
    assert_eq!(dry.out.lines().filter(|line| line.starts_with("missing  ")).count(), 5, "{}", dry.out);
    assert_eq!(create(&cli, &[]).out, dry.out, "a dry run creates nothing");
    let unique = dry.out.lines().find(|line| line.contains(&cli.outputs[0])).unwrap();
    for expected in ["3 partitions, replication factor 1", "max.message.bytes=8454144", "retention.ms=3600000"] {
        assert!(unique.contains(expected), "{unique}");
    }

    let made = create(&cli, &["--execute"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert_eq!(made.out.lines().filter(|line| line.starts_with("created  ")).count(), 5, "{}", made.out);
    let again = create(&cli, &["--execute"]);
    assert_eq!(again.out.lines().filter(|line| line.starts_with("exists  ")).count(), 5, "{}", again.out);
    let checked = cli.ask(broker, &["check", "-o", "table"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    for subject in ["brokers", &cli.input, "group", &cli.outputs[0], "transactions", "disk"] {
        assert!(states(&checked.out, subject).contains(&"ok"), "{subject}: {}", checked.out);
    }
}

#[test]
fn the_input_is_created_with_with_input() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let output =
        cli.ask(broker, &["topics", "create", "--with-input", "--partitions", "2", "--execute", "-o", "jsonl"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let rows: Vec<serde_json::Value> = output.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 6);
    assert_eq!((&rows[0]["topic"], &rows[0]["partitions"]), (&cli.input.as_str().into(), &2.into()));
    assert!(rows.iter().all(|row| row["state"] == "created"), "{}", output.out);
}

#[test]
fn check_names_what_is_missing_and_what_does_not_fit() {
    let Some(broker) = Broker::shared() else { return };
    let mut cli = CliRunner::new(broker);
    cli.input = broker.topic_with("pages", 2, &[("max.message.bytes", "4194304")]);
    cli.outputs[0] = broker.topic_with("small", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let output = cli.ask(broker, &["check", "-o", "table"]);
    assert_eq!(output.code, Some(69), "{}{}", output.out, output.err);
    assert!(output.err.contains("3 warnings, 2 failures"), "{}\n{}", output.out, output.err);
    assert_eq!(states(&output.out, &cli.outputs[0]), ["warn"; 3], "{}", output.out);
    for expected in [
        "topic does not exist",
        "fix: dupgate topics create -c ",
        "max.message.bytes 1 MiB is below the input's 4 MiB",
        "--add-config max.message.bytes=8454144",
        "takes the brokers' time instead of the page's",
        "1 partitions, the input has 2",
        "is new here and begins at input.start",
    ] {
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
    // After the suggested fixes there are no findings.
    broker.alter(&cli.outputs[0], &[("max.message.bytes", "8454144"), ("message.timestamp.type", "CreateTime")]);
    let made = cli.ask(broker, &["topics", "create", "--execute"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let output = cli.ask(broker, &["check", "-o", "table"]);
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert!(output.err.contains("1 warning, 0 failures"), "{}\n{}", output.out, output.err);
    assert_eq!(cli.ask(broker, &["check", "--strict"]).code, Some(69));
}

/// The client waits for records that will never come if it starts before the first one.
#[test]
fn check_does_not_wait_for_records_that_were_deleted() {
    let Some(broker) = Broker::shared() else { return };
    let mut cli = CliRunner::new(broker);
    cli.input = broker.topic_with("pages", 3, &[("retention.ms", "3600000")]);
    cli.create_topics(broker.address(), "", &[]);
    let check = || {
        let clock = Clock::start();
        let output = cli.ask(broker, &["check", "-o", "table"]);
        assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
        clock.now()
    };
    let before = check();
    for partition in 0..2 {
        produce(broker, &cli.input, partition, 20);
    }
    // A few records are left in one partition, none in another.
    broker.delete_before(&cli.input, 0, 18);
    broker.delete_before(&cli.input, 1, 20);
    let after = check();
    assert!(after < before + Duration::from_secs(8), "{after:?}, {before:?} without records");
}

fn produce(broker: &Broker, topic: &str, partition: i32, records: usize) {
    let producer: BaseProducer = broker.client().create().expect("a producer");
    for _ in 0..records {
        producer.send(BaseRecord::<(), str>::to(topic).partition(partition).payload("{}")).expect("a record");
    }
    producer.flush(wait::LIMIT).expect("the records are written");
}

#[test]
fn check_names_the_logs_of_an_older_scheme() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let [_, verdicts] = &logs_of(&cli.create_topics(broker.address(), "", &[]));
    assert_eq!(states(&cli.ask(broker, &["check", "-o", "table"]).out, "schemes"), [""; 0]);
    let (prefix, _) = verdicts.rsplit_once('.').unwrap();
    let old = format!("{prefix}.sh64-0dd5ce");
    broker.create_topic(&old, 1, &[]);
    let output = cli.ask(broker, &["check", "-o", "table"]);
    assert_eq!(output.code, Some(0), "{}", output.out);
    assert_eq!(states(&output.out, "schemes"), ["warn"], "{}", output.out);
    let pattern = old.replace('.', "\\.");
    for expected in [format!("{old}: of scheme sh64-0dd5ce"), format!("--delete --topic '{pattern}'")] {
        assert!(output.out.contains(&expected), "{expected}: {}", output.out);
    }
}

#[test]
fn a_log_that_would_lose_records_fails_the_check() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let [_, verdicts] = &logs_of(&cli.create_topics(broker.address(), "", &[]));
    broker.alter(verdicts, &[("retention.ms", "1000"), ("unclean.leader.election.enable", "true")]);
    let output = cli.ask(broker, &["check", "-o", "table"]);
    assert_eq!(output.code, Some(69), "{}", output.out);
    assert_eq!(states(&output.out, verdicts), ["FAIL", "warn"], "{}", output.out);
    assert!(output.out.contains("retention.ms is 1000, expected -1: records would be deleted"), "{}", output.out);
}

#[test]
fn unreachable_brokers_are_reported_with_advice() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let output = cli.ask_with("127.0.0.1:1", "", &["check", "-o", "table"]);
    assert_eq!(output.code, Some(69), "{}{}", output.out, output.err);
    assert_eq!(states(&output.out, "brokers"), ["FAIL"], "{}", output.out);
    assert!(output.out.contains("127.0.0.1:1") && output.out.contains("check kafka.brokers"), "{}", output.out);
}
