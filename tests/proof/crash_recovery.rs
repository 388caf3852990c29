//! Twenty thousand pages while workers, judges and the broker crash and restart.

use std::collections::BTreeMap;

use dupgate::crawl::{Crawl, CrawlSettings, Truth};
use dupgate::record::Source;
use serde_json::{Value, json};

use crate::accounting::{Ledger, Outcome, OutputKind, originals_are_delivered};
use crate::broker::Broker;
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::judge_alone::{self, Logs};
use crate::several_instances::Team;

const PAGES: usize = 20_000;
const TOPICS: usize = 3;
const PARTITIONS: i32 = 2;
/// Input partitions in all.
const ALL: f64 = 6.0;

/// Feeds a generated crawl, page after page.
struct Feed<'c> {
    cluster: &'c Cluster<'c>,
    crawl: Crawl,
    producer: PageProducer,
    written: usize,
}

impl<'c> Feed<'c> {
    fn new(cluster: &'c Cluster<'c>) -> Self {
        let settings =
            CrawlSettings { seed: 20_000, topics: TOPICS, bytes: 200..=900, broken: 0.02, ..CrawlSettings::default() };
        let crawl = Crawl::new(settings).expect("a crawl");
        Self { cluster, crawl, producer: PageProducer::new(cluster.broker()), written: 0 }
    }

    /// Writes pages until `total` are written.
    fn up_to(&mut self, total: usize) {
        for planted in self.crawl.by_ref().take(total - self.written) {
            let partition = i32::try_from(planted.number / 7 % 2).expect("0 or 1");
            let page = Page {
                key: planted.key,
                value: Some(planted.value),
                timestamp: Some(planted.timestamp.millis()),
                headers: vec![
                    (Truth::HEADER.to_owned(), Some(planted.truth.to_string().into_bytes())),
                    ("trace".to_owned(), Some(planted.number.to_le_bytes().to_vec())),
                    // Headers repeat, hold any bytes or null, and may be ours, from an earlier run.
                    ("trace".to_owned(), Some(vec![0xff, 0x00])),
                    ("empty".to_owned(), None),
                    ("dupgate.verdict".to_owned(), Some(b"of an earlier pass".to_vec())),
                ],
            };
            let topic = &self.cluster.inputs()[planted.topic];
            self.producer.write(topic, partition, &page);
        }
        self.producer.flush();
        self.written = total;
    }
}

#[test]
fn twenty_thousand_pages_go_out_once_while_workers_judges_and_the_broker_crash() {
    let _turn = crate::turn();
    // A separate broker: this test kills it.
    let Some(broker) = Broker::private() else { return };
    let shape = Shape {
        topics: TOPICS,
        partitions: PARTITIONS,
        input_settings: &[],
        output_settings: &[],
        config: json!({
            "index": { "max_entries": 1_000_000, "snapshot": { "interval": "2s" } },
            "judge": { "checkpoint_interval_records": 2_000 },
            // Nothing is trimmed: the copy of the fingerprint log is the log itself.
            "logs": { "retention": "3650d" },
        }),
    };
    let cluster = Cluster::new(&broker, shape);
    let mut feed = Feed::new(&cluster);
    let mut out = TopicReader::open(&broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    let mut team = Team::new(&cluster);
    drive(&broker, &mut feed, &mut out, &mut team);
    team.deliver(&mut out, PAGES);
    team.disband();
    assert_eq!(cluster.lag(), 0, "every offset is committed with its output (L2)");

    let ledger = Ledger::read(&cluster);
    assert_eq!(ledger.inputs.len(), PAGES);
    let outcomes = ledger.outcomes(1).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    dead_letters_say_why(&ledger, &outcomes);
    equal_texts_are_delivered_once(&ledger, &outcomes);

    let logs = Logs::read(&cluster);
    let alone = logs.judged_alone();
    let written: Vec<_> = logs.verdicts().into_iter().cloned().collect();
    assert_eq!(written.len(), alone.len());
    if let Some((one, other)) = written.iter().zip(&alone).find(|(one, other)| one != other) {
        panic!("the cluster judged {one:?}, a judge alone {other:?}");
    }
    assert_eq!(judge_alone::delivered(&outcomes), judge_alone::verdicts_by_page(&alone));
}

/// Causes all failures, each in the middle of some pages.
fn drive<'c>(broker: &Broker, feed: &mut Feed<'c>, out: &mut TopicReader, team: &mut Team<'c>) {
    // One does all the work; two more join meanwhile.
    team.join("one");
    feed.up_to(2_500);
    team.deliver(out, 500);
    team.join("two");
    team.join("three");
    team.deliver(out, 2_000);
    team.wait_ready();

    // The active judge is killed, and with it a worker.
    feed.up_to(6_000);
    team.deliver(out, 3_000);
    let judge = team.judge();
    team.kill(&judge);
    team.judge_other_than(&judge);
    team.join(&judge);
    team.deliver(out, 5_000);

    // A worker is killed; its partitions go to the others, before it restarts with its name.
    feed.up_to(9_000);
    team.deliver(out, 6_500);
    let worker = team.plain_worker();
    team.kill(&worker);
    team.wait_for_others_to_own(ALL, &worker);
    team.join(&worker);
    team.deliver(out, 8_000);

    // The active judge is stopped until another judges and its partitions are reassigned; then it resumes.
    feed.up_to(12_000);
    team.deliver(out, 9_500);
    let judge = team.judge();
    team.member(&judge).freeze();
    team.judge_other_than(&judge);
    team.wait_for_others_to_own(ALL, &judge);
    team.member(&judge).thaw();
    team.deliver(out, 11_000);

    // The same with a worker.
    feed.up_to(14_000);
    team.deliver(out, 12_500);
    let worker = team.plain_worker();
    team.member(&worker).freeze();
    team.wait_for_others_to_own(ALL, &worker);
    team.member(&worker).thaw();
    team.deliver(out, 13_500);

    // The broker is killed, and comes back.
    feed.up_to(17_000);
    team.deliver(out, 14_500);
    broker.kill();
    broker.start();
    team.deliver(out, 16_000);

    // The judge leaves cleanly, and a worker without an instance id, a disk and the judge's role joins.
    feed.up_to(PAGES);
    team.deliver(out, 17_500);
    let judge = team.judge();
    team.leave(&judge);
    team.join_as("stranger", json!({ "roles": ["worker"] }));
}

/// Every broken record, and no other, is a dead letter for the intended reason.
fn dead_letters_say_why(ledger: &Ledger, outcomes: &BTreeMap<Source, Outcome>) {
    for (source, outcome) in outcomes {
        let truth: Truth = ledger.inputs[source].header(Truth::HEADER).unwrap().parse().unwrap();
        let reason = match truth {
            Truth::Broken { damage } => Some(damage.reason().name()),
            Truth::Unique | Truth::Exact { .. } | Truth::Near { .. } => None,
        };
        let dead_letter = (outcome.output_kind == OutputKind::Dead).then_some(outcome.word.as_str());
        assert_eq!(dead_letter, reason, "{source}, {truth}");
    }
}

/// Of the pages with the same text, only one is unique, on whichever partition and worker (L7).
fn equal_texts_are_delivered_once(ledger: &Ledger, outcomes: &BTreeMap<Source, Outcome>) {
    let mut uniques: BTreeMap<String, Vec<&Source>> = BTreeMap::new();
    let mut copies = 0;
    for (source, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.output_kind != OutputKind::Dead) {
        let value = ledger.inputs[source].value.as_deref().unwrap();
        let page: Value = serde_json::from_slice(value).unwrap();
        let Some(text) = page["text"].as_str() else { continue };
        let uniques = uniques.entry(text.to_owned()).or_default();
        match outcome.output_kind {
            OutputKind::Unique => uniques.push(source),
            OutputKind::Duplicate => copies += 1,
            OutputKind::Dead => {}
        }
        assert!(uniques.len() <= 1, "equal texts, and both unique: {uniques:?}");
    }
    assert!(copies > PAGES / 10, "only {copies} duplicates among {PAGES} pages");
}
