//! Near-duplicates are found across partitions and workers.

use dupgate::record::PartitionId;
use serde_json::json;

use crate::accounting::{Ledger, OutputKind, originals_are_delivered};
use crate::broker::{Broker, wait};
use crate::cluster::records::{Page, PageProducer, TopicReader};
use crate::cluster::{Cluster, Shape};
use crate::several_instances::Team;

const PARTITIONS: i32 = 6;
const FAMILIES: usize = 40;

/// A text of many words that are specific to the family; the edit replaces one word at the end.
fn text(family: usize, edit: i32) -> String {
    let mut words: Vec<String> = (0..300).map(|word| format!("w{family}x{word}")).collect();
    if edit > 0 {
        words.push(format!("edit{edit}"));
    }
    words.join(" ")
}

fn page(family: usize, edit: i32) -> Page {
    let url = format!("https://site{edit}.example/{family}");
    let value = json!({ "url": url, "text": text(family, edit) }).to_string();
    Page { key: url, value: Some(value.into_bytes()), timestamp: Some(1_788_220_800_000), ..Page::default() }
}

#[test]
fn near_duplicates_on_other_partitions_and_workers_are_found() {
    let _turn = crate::turn();
    let Some(broker) = Broker::shared() else { return };
    let config = json!({ "match": { "simhash": { "max_distance": 8 } } });
    let shape = Shape { topics: 1, partitions: PARTITIONS, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let mut team = Team::new(&cluster);
    for name in ["one", "two", "three"] {
        team.join(name);
    }
    team.wait_ready();
    wait::until("two partitions for each worker", || {
        team.members().all(|member| (member.partitions() - 2.0).abs() < 0.5).then_some(())
    });

    // Every family has one page on each partition, each with a different edit.
    let producer = PageProducer::new(broker);
    let topic = cluster.inputs()[0].clone();
    for family in 0..FAMILIES {
        for partition in 0..PARTITIONS {
            producer.write(&topic, partition, &page(family, partition));
        }
    }
    producer.flush();
    let total = FAMILIES * usize::try_from(PARTITIONS).unwrap();
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    team.deliver(&mut out, total);
    for member in team.members() {
        let read = member.metric("dupgate_records_consumed_total", &[]);
        assert!(read > 0.0, "{} read nothing", member.name());
    }
    team.disband();

    let outcomes = Ledger::read(&cluster).outcomes(1).unwrap();
    originals_are_delivered(&outcomes).unwrap();
    let mut across = 0;
    for family in 0..FAMILIES {
        let offset = i64::try_from(family).unwrap();
        let of_family = (0..PARTITIONS).map(|number| PartitionId::new(topic.as_str(), number).at(offset));
        let fates: Vec<_> = of_family.map(|source| (outcomes[&source].clone(), source)).collect();
        let uniques: Vec<_> = fates.iter().filter(|(fate, _)| fate.output_kind == OutputKind::Unique).collect();
        assert_eq!(uniques.len(), 1, "family {family}: {fates:?}");
        for (fate, source) in fates.iter().filter(|(fate, _)| fate.output_kind == OutputKind::Duplicate) {
            assert_eq!(fate.verdict(), ("near", Some(&uniques[0].1)), "{source}");
            across += 1;
        }
    }
    assert_eq!(across, total - FAMILIES);
}
