//! Trimming of the logs: a new instance without a disk on a trimmed verdict log, and a topic of the input that is
//! deleted.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use dupgate::fingerprint::SchemeId;
use dupgate::index::run_sequential;
use dupgate::snapshot::Folder;
use dupgate_core::judge::State;
use serde_json::{Value, json};

use crate::accounting::{Ledger, OutputKind, originals_are_delivered};
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::judge_alone::decode_verdicts;

const START: i64 = 1_788_220_800_000;
/// Pages between two checks of the log: more than a window, and more than a checkpoint.
const STRIDE: usize = 400;

/// Page `number`, a second after the previous one; every fifth has the text of the page three before it.
fn page(number: usize) -> Page {
    let original = if number % 5 == 4 { number - 3 } else { number };
    let words: Vec<String> = (0..30).map(|word| format!("w{original}x{word}")).collect();
    let url = format!("https://site.example/{number}");
    let value = json!({ "url": url, "text": words.join(" ") }).to_string();
    let second = i64::try_from(number).unwrap();
    Page { key: url, value: Some(value.into_bytes()), timestamp: Some(START + 1000 * second), ..Page::default() }
}

/// Writes pages, and waits for their outputs.
pub(crate) struct Writer<'c> {
    cluster: &'c Cluster<'c>,
    producer: PageProducer,
    out: TopicReader,
    written: usize,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(cluster: &'c Cluster<'c>) -> Self {
        let out = TopicReader::open(cluster.broker(), &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
        Self { cluster, producer: PageProducer::new(cluster.broker()), out, written: 0 }
    }

    pub(crate) fn write(&mut self, count: usize) {
        self.write_to(0, count);
    }

    /// Writes pages on the first partition of a topic.
    fn write_to(&mut self, topic: usize, count: usize) {
        for number in self.written..self.written + count {
            self.producer.write(&self.cluster.inputs()[topic], 0, &page(number));
        }
        self.producer.flush();
        self.written += count;
        self.out.wait_for(self.written);
    }
}

/// Verdict log offset and digest of an instance's newest snapshot. `None` while it cannot be read.
fn snapshot(disk: &Path, scheme: &SchemeId) -> Option<(i64, u64)> {
    // The instance holds the lock of its folder and deletes old files: an incomplete copy is retried.
    let copy = tempfile::tempdir().expect("a folder");
    let name = copy.path().join("0");
    std::fs::create_dir(&name).expect("a folder");
    for file in std::fs::read_dir(disk.join("0")).ok()? {
        let file = file.ok()?;
        std::fs::copy(file.path(), name.join(file.file_name())).ok()?;
    }
    let folder = Folder::open(copy.path(), NonZeroUsize::MIN, Duration::ZERO).expect("the copy opens");
    let found = folder.load("0", scheme).expect("the copy is read").found?;
    Some((found.at.0, State::load(&found.state, &found.originals, run_sequential).digest()))
}

/// Logs whose verdicts expire after four hundred pages.
pub(crate) fn config() -> Value {
    json!({
        "window": { "size": "60s", "allowed_lateness": "10s" },
        "judge": { "checkpoint_interval_records": 300 },
        "index": { "snapshot": { "interval": "1s" } },
    })
}

/// Writes pages to the first topic until the verdict log was trimmed this many times.
pub(crate) fn write_until_trimmed(writer: &mut Writer<'_>, log: &str, times: usize) {
    let (before, first) = (writer.cluster.beginning(log), writer.written);
    let mut starts = BTreeSet::new();
    while starts.len() < times {
        let written = writer.written - first;
        assert!(written < 20 * STRIDE, "{written} pages, and the log was trimmed to {starts:?} only");
        writer.write(STRIDE);
        starts.extend(Some(writer.cluster.beginning(log)).filter(|&start| start > before));
    }
}

#[test]
fn a_new_instance_without_a_disk_holds_the_state_of_one_that_never_stopped() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let shape = Shape { topics: 1, partitions: 2, input_settings: &[], output_settings: &[], config: config() };
    let cluster = Cluster::new(broker, shape);
    let mut writer = Writer::new(&cluster);

    let mut veteran = cluster.start("veteran");
    veteran.wait_ready();
    let log = cluster.log_topic("verdicts");
    write_until_trimmed(&mut writer, &log, 2);

    let mut novice = cluster.start("novice");
    novice.wait_ready();
    writer.write(STRIDE);
    let scheme = SchemeId(log.rsplit('.').next().unwrap().to_owned());
    // A checkpoint may follow the last verdicts a moment later.
    let (records, old, new) = wait::until("snapshots of both at the end of the log", || {
        let records = TopicReader::open(broker, &[&log]).read_to_end();
        let end = records.last()?.source.offset + 1;
        let digest_of =
            |name: &str| snapshot(&cluster.disk(name), &scheme).filter(|(at, _)| *at == end).map(|(_, digest)| digest);
        Some((records, digest_of("veteran")?, digest_of("novice")?))
    });
    assert!(records[0].source.offset > 0, "the log was trimmed");
    assert_eq!(old, new);
    // Instances that follow the same log hold the same state (L5).
    let mut state = State::default();
    for (_, record) in decode_verdicts(&records) {
        state.follow_record(&record).unwrap();
    }
    assert_eq!(state.digest(), old);

    // And it judges by it: copies of pages that the older instance has judged are found.
    veteran.stop();
    writer.write(STRIDE);
    novice.stop();
    let outcomes = Ledger::read(&cluster).outcomes(1).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    for (source, outcome) in &outcomes {
        let copy = source.offset % 5 == 4;
        assert_eq!(outcome.output_kind == OutputKind::Duplicate, copy, "{source}: {outcome:?}");
        if copy {
            assert_eq!(outcome.matched, Some(source.partition.at(source.offset - 3)), "{source}");
        }
    }
}

#[test]
fn the_logs_are_trimmed_although_a_topic_of_the_input_was_deleted() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let shape = Shape { topics: 2, partitions: 1, input_settings: &[], output_settings: &[], config: config() };
    let cluster = Cluster::new(broker, shape);
    let mut writer = Writer::new(&cluster);
    let mut instance = cluster.start("one");
    instance.wait_ready();
    writer.write_to(1, 10);

    // The group's offsets of the topic go with it: nothing shows any more that its verdicts were delivered.
    broker.delete_topic(&cluster.inputs()[1]);
    write_until_trimmed(&mut writer, &cluster.log_topic("verdicts"), 2);
    assert!(cluster.beginning(&cluster.log_topic("fingerprints")) > 0, "both logs are trimmed");
    let committed = instance.metric("dupgate_last_commit_timestamp_seconds", &[]);
    let trimmed = instance.metric("dupgate_last_trim_timestamp_seconds", &["log_partition=\"0\""]);
    assert!((trimmed - committed).abs() < 300.0, "trimmed at {trimmed}, the last commit was at {committed}");
    assert_eq!(instance.has_ended(), None);
    instance.stop();
}
