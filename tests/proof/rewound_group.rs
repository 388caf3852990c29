//! The input group is reset to the beginning: the written verdicts count.

use dupgate::crawl::{Crawl, CrawlSettings};
use serde_json::json;

use crate::accounting::{Ledger, originals_are_delivered};
use crate::broker::Broker;
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::judge_alone::Logs;
use crate::several_instances::Team;

const PAGES: usize = 1_500;

#[test]
fn the_input_read_again_from_the_beginning_gets_the_same_verdicts() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    // Most verdicts precede the latest checkpoint: a worker that starts must read them back.
    let config = json!({ "judge": { "checkpoint_interval_records": 200 } });
    let shape = Shape { topics: 1, partitions: 4, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let settings = CrawlSettings { seed: 3, topics: 1, bytes: 200..=900, ..CrawlSettings::default() };
    let producer = PageProducer::new(broker);
    for planted in Crawl::new(settings).unwrap().take(PAGES) {
        let page = Page {
            key: planted.key,
            value: Some(planted.value),
            timestamp: Some(planted.timestamp.millis()),
            ..Page::default()
        };
        producer.write(&cluster.inputs()[0], i32::try_from(planted.number % 4).unwrap(), &page);
    }
    producer.flush();

    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    for pass in 1..=2 {
        // Without instance ids, so that the group is empty as soon as they have left.
        let mut team = Team::new(&cluster);
        for name in ["one", "two"] {
            team.join_as(name, json!({}));
        }
        team.deliver(&mut out, PAGES * pass);
        team.disband();
        assert_eq!(cluster.lag(), 0);
        if pass == 1 {
            cluster.rewind();
        }
    }

    // Twice each, and both times the same.
    let outcomes = Ledger::read(&cluster).outcomes(2).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    assert!(outcomes.values().filter(|outcome| outcome.matched.is_some()).count() > PAGES / 10);

    // And no page was judged twice.
    let logs = Logs::read(&cluster);
    let verdicts = logs.verdicts();
    let judged = outcomes.values().filter(|outcome| outcome.output_kind != crate::accounting::OutputKind::Dead).count();
    assert_eq!(verdicts.len(), judged);
}
