//! Single partitions: a blocked one, one that begins at its end.

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::super::cluster::instance::Instance;
use super::instance::Site;
use super::text;
use super::topics::{Given, committed, page, produce};

fn delete_before(broker: &Broker, topic: &str, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
    let admin: AdminClient<DefaultClientContext> = broker.client().create().expect("an admin client");
    wait::block_on(admin.delete_records(&list, &AdminOptions::new())).expect("records are deleted");
}

fn committed_offset(broker: &Broker, site: &Site, partition: i32) -> Option<i64> {
    let client: BaseConsumer = broker.client().set("group.id", &site.group).create().expect("a client");
    let mut list = TopicPartitionList::new();
    list.add_partition(&site.input, partition);
    let answer = client.committed_offsets(list, wait::LIMIT).expect("offsets");
    answer.elements().first().and_then(|element| element.offset().to_raw()).filter(|offset| *offset >= 0)
}

fn pages(partition: i32, numbers: std::ops::Range<u32>) -> Vec<Given> {
    numbers.map(|number| page(&text(u32::try_from(partition).expect("a number") * 1000 + number))).collect()
}

#[test]
fn a_partition_that_has_lost_its_next_offset_does_not_stop_others() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 4);
    (0..4).for_each(|partition| produce(broker, &site.input, partition, &pages(partition, 0..1)));
    let first = site.start("one");
    committed(broker, &site.unique, 4);
    first.stop();
    (0..4).for_each(|partition| produce(broker, &site.input, partition, &pages(partition, 1..4)));
    delete_before(broker, &site.input, 2, 3);

    let mut instances = [site.start("one"), site.start("two")];
    let unique = committed(broker, &site.unique, 4 + 9);
    assert_eq!(unique.iter().filter(|page| page.partition == 2).count(), 1, "nothing is skipped without a request");
    let why = format!("{}:2 is blocked: offset 1 comes next and the partition holds 3 to 4", site.input);
    wait::until("the partition to be named", || {
        instances.iter().any(|one| one.readiness().contains(&why)).then_some(())
    });
    let blocked = |one: &Instance| one.metric("dupgate_blocked_partitions", &["out_of_range"]);
    wait::until("the partition to be counted", || {
        (instances.iter().map(blocked).sum::<f64>().to_bits() == 1.0_f64.to_bits()).then_some(())
    });
    for partition in [0, 1, 3] {
        produce(broker, &site.input, partition, &pages(partition, 4..6));
    }
    committed(broker, &site.unique, 4 + 9 + 6);
    instances.iter_mut().for_each(|one| assert_eq!(one.has_ended(), None));
    instances.into_iter().for_each(Instance::stop);
}

#[test]
fn a_partition_that_begins_at_its_end_loses_no_pages_after_a_restart() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &pages(0, 0..2));
    let start = || site.start_with("one", json!({ "input": { "start": "latest" } }));
    let mut first = start();
    wait::until("the offset to be committed without a page", || {
        (committed_offset(broker, &site, 0) == Some(2)).then_some(())
    });
    first.kill();
    produce(broker, &site.input, 0, &pages(0, 2..4));
    let second = start();
    let unique = committed(broker, &site.unique, 2);
    second.stop();
    let sources: Vec<String> = unique.iter().map(|page| page.header("dupgate.source").concat()).collect();
    assert_eq!(sources, [format!("{}:0:2", site.input), format!("{}:0:3", site.input)]);
}

#[test]
fn a_recreated_topic_does_not_stop_others_and_is_judged_once_its_range_is_reopened() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    let other = broker.topic("pages", 1);
    let start = |at: &str| site.start_with("one", json!({ "input": { "topics": [&site.input, &other], "start": at } }));
    produce(broker, &site.input, 0, &pages(0, 0..3));
    produce(broker, &other, 0, &pages(1, 0..3));
    let first = start("earliest");
    committed(broker, &site.unique, 6);
    first.stop();

    broker.recreate_topic(&other, 1);
    produce(broker, &other, 0, &pages(1, 3..5));
    produce(broker, &site.input, 0, &pages(0, 3..6));
    // The start of new topics does not apply to one that was read before.
    let mut second = start("latest");
    committed(broker, &site.unique, 6 + 3);
    let why = format!("{other}:0 is blocked: ");
    wait::until("the partition to be named", || second.readiness().contains(&why).then_some(()));
    assert_eq!(second.has_ended(), None);

    // The named remedy.
    let readiness_text = second.readiness();
    assert!(readiness_text.contains("`dupgate verdicts reopen`"), "{readiness_text}");
    site.ask(&["verdicts", "reopen", &format!("{other}:0:0-3"), "--execute"]);
    committed(broker, &site.unique, 6 + 3 + 2);
    second.stop();
}
