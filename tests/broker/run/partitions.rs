//! Single partitions: a blocked one, one that begins at its end.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;

use super::super::broker::{Broker, wait};
use super::super::cluster::instance::Instance;
use super::instance::Site;
use super::text;
use super::topics::{Given, committed, page, produce};

/// The offset that a group has committed.
pub(super) fn committed_offset(broker: &Broker, group: &str, topic: &str, partition: i32) -> Option<i64> {
    let client: BaseConsumer = broker.client().set("group.id", group).create().expect("a client");
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    // A new broker has no coordinator for a moment.
    let answer = wait::until("the offset", || client.committed_offsets(list.clone(), wait::LIMIT).ok());
    answer.elements().first().and_then(|element| element.offset().to_raw()).filter(|offset| *offset >= 0)
}

/// Sets a group's offset, although the group has members: brokers accept it in a transaction that names no member.
pub(in super::super) fn set_offset(broker: &Broker, group: &str, topic: &str, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
    let operator: BaseConsumer = broker.client().set("group.id", group).create().expect("a client");
    let members = operator.group_metadata().expect("no membership");
    let mut config = broker.client();
    config.set("transactional.id", broker.unique("operator"));
    let producer: ThreadedProducer<DefaultProducerContext> = config.create().expect("a producer");
    producer.init_transactions(wait::LIMIT).expect("a transactional id");
    producer.begin_transaction().expect("a transaction");
    producer.send_offsets_to_transaction(&list, &members, wait::LIMIT).expect("the offset is sent");
    producer.commit_transaction(wait::LIMIT).expect("the offset is committed");
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
    broker.delete_before(&site.input, 2, 3);

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
    let waiting = |one: &Instance| one.metric("dupgate_blocked_lag_records", &[]);
    wait::until("the records after its last offset to be counted", || {
        (instances.iter().map(waiting).sum::<f64>().to_bits() == 3.0_f64.to_bits()).then_some(())
    });
    for partition in [0, 1, 3] {
        produce(broker, &site.input, partition, &pages(partition, 4..6));
    }
    committed(broker, &site.unique, 4 + 9 + 6);
    instances.iter_mut().for_each(|one| assert_eq!(one.has_ended(), None));
    instances.into_iter().for_each(Instance::stop);
}

#[test]
fn a_topic_that_is_configured_no_more_is_read_no_more() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    let other = broker.topic("other", 2);
    let both = json!({ "input": { "topics": [&site.input, &other] } });
    let owned = |instance: &Instance, topic: &str| {
        let count = instance.metric("dupgate_assigned_partitions", &[&format!("topic=\"{topic}\"")]);
        count.to_bits() == 2.0_f64.to_bits()
    };
    let first = site.start_with("one", both);
    wait::until("all partitions", || (owned(&first, &site.input) && owned(&first, &other)).then_some(()));
    first.stop();
    // A static member that comes back in time gets its partitions back: without a rebalance, by its former subscription.
    let mut second = site.start("one");
    second.wait_ready();
    wait::until("the partitions of one topic", || {
        (owned(&second, &site.input) && !owned(&second, &other)).then_some(())
    });
    (0..2).for_each(|partition| produce(broker, &other, partition, &pages(partition, 10..12)));
    (0..2).for_each(|partition| produce(broker, &site.input, partition, &pages(partition, 0..2)));
    let unique = committed(broker, &site.unique, 4);
    assert!(unique.iter().all(|page| page.header("dupgate.source").concat().starts_with(&site.input)));
    second.stop();
}

#[test]
fn an_output_topic_that_grows_gets_pages_on_its_new_partitions() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    // Among many random texts some are near: all go to one topic.
    let mut instance = site.start_with("one", json!({ "mode": "tag" }));
    produce(broker, &site.input, 0, &pages(0, 0..4));
    let unique = committed(broker, &site.unique, 4);
    assert!(unique.iter().all(|page| page.partition == 0), "{unique:?}");
    broker.grow_topic(&site.unique, 3);
    let mut next = 4;
    wait::until("pages on the new partitions", || {
        produce(broker, &site.input, 0, &pages(0, next..next + 6));
        next += 6;
        let unique = committed(broker, &site.unique, usize::try_from(next).expect("a number"));
        let reached = |partition| unique.iter().any(|page| page.partition == partition);
        (reached(1) && reached(2)).then_some(())
    });
    let unique = committed(broker, &site.unique, 0);
    assert_eq!(unique.len(), usize::try_from(next).expect("a number"), "each page once");
    assert!(instance.metric("dupgate_dead_letters_total", &[]) < 0.5, "{}", instance.log());
    assert_eq!(instance.has_ended(), None);
    instance.stop();
}

#[test]
fn a_partition_without_an_offset_does_not_stop_others_and_continues_where_an_operator_sets_it() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    // A dynamic member leaves the group when it stops.
    let start = || site.start_with("one", json!({ "input": { "instance_id": "" } }));
    (0..2).for_each(|partition| produce(broker, &site.input, partition, &pages(partition, 0..3)));
    let first = start();
    committed(broker, &site.unique, 6);
    first.stop();
    broker.delete_group(&site.group);
    set_offset(broker, &site.group, &site.input, 0, 3);
    (0..2).for_each(|partition| produce(broker, &site.input, partition, &pages(partition, 3..5)));

    let mut second = start();
    committed(broker, &site.unique, 6 + 2);
    let why = format!("{}:1 is blocked: it has judged positions but no committed offset", site.input);
    wait::until("the partition to be named", || second.readiness().contains(&why).then_some(()));
    let blocked = |one: &Instance| one.metric("dupgate_blocked_partitions", &["no_offset"]);
    wait::until("the partition to be counted", || (blocked(&second).to_bits() == 1.0_f64.to_bits()).then_some(()));
    assert_eq!(committed_offset(broker, &site.group, &site.input, 1), None, "nothing is skipped without a request");

    set_offset(broker, &site.group, &site.input, 1, 3);
    // Blocked partitions are rechecked each minute.
    wait::until("the partition to be read on", || {
        (committed_offset(broker, &site.group, &site.input, 1) == Some(5)).then_some(())
    });
    let unique = committed(broker, &site.unique, 6 + 4);
    assert_eq!((unique.len(), unique.iter().filter(|page| page.partition == 1).count()), (10, 5));
    wait::until("readiness", || second.is_ready().then_some(()));
    assert_eq!((second.has_ended(), blocked(&second).to_bits()), (None, 0.0_f64.to_bits()));
    second.stop();
}

#[test]
fn a_partition_that_begins_at_its_end_loses_no_pages_after_a_restart() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &pages(0, 0..2));
    let start = || site.start_with("one", json!({ "input": { "start": "latest" } }));
    let mut first = start();
    wait::until("the offset to be committed without a page", || {
        (committed_offset(broker, &site.group, &site.input, 0) == Some(2)).then_some(())
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
    let other = broker.topic("pages", 2);
    let start = |at: &str| site.start_with("one", json!({ "input": { "topics": [&site.input, &other], "start": at } }));
    produce(broker, &site.input, 0, &pages(0, 0..3));
    (0..2).for_each(|partition| produce(broker, &other, partition, &pages(1 + partition, 0..3)));
    let first = start("earliest");
    committed(broker, &site.unique, 9);
    first.stop();

    broker.recreate_topic(&other, 2);
    (0..2).for_each(|partition| produce(broker, &other, partition, &pages(1 + partition, 3..5)));
    produce(broker, &site.input, 0, &pages(0, 3..6));
    // The start of new topics does not apply to one that was read before.
    let mut second = start("latest");
    committed(broker, &site.unique, 9 + 3);
    let why = [0, 1].map(|partition| format!("{other}:{partition} is blocked: "));
    let are_named = |text: &String| why.iter().all(|why| text.contains(why));
    let readiness_text = wait::until("the partitions to be named", || Some(second.readiness()).filter(are_named));
    assert_eq!(second.has_ended(), None);

    // The named remedy, for both in one command.
    assert!(readiness_text.contains("`dupgate verdicts reopen`"), "{readiness_text}");
    let [first, last] = [0, 1].map(|partition| format!("{other}:{partition}:0-999999999"));
    let reopened = site.ask(&["verdicts", "reopen", &first, &last, "--execute"]);
    assert!(!reopened.contains("left_out"), "{reopened}");
    committed(broker, &site.unique, 9 + 3 + 4);
    second.stop();
}

#[test]
fn a_topic_that_was_recreated_and_refilled_meanwhile_is_blocked_before_its_first_records_are_skipped() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &pages(0, 0..30));
    let first = site.start("one");
    committed(broker, &site.unique, 30);
    // Meanwhile: the consumer does not see that the topic was gone.
    first.freeze();
    broker.recreate_topic(&site.input, 1);
    produce(broker, &site.input, 0, &pages(0, 100..200));
    first.thaw();
    let why = format!("{}:0 is blocked: it has judged positions but no committed offset", site.input);
    wait::until("the partition to be blocked", || first.readiness().contains(&why).then_some(()));
    wait::until("its records to count as lag", || {
        (first.metric("dupgate_consumer_lag_records", &[]).to_bits() == 100.0_f64.to_bits()).then_some(())
    });
    assert_eq!(committed_offset(broker, &site.group, &site.input, 0), None);
    committed(broker, &site.unique, 30);

    let report = site.ask(&["check", "-o", "table"]);
    assert!(report.contains("has no committed offset, but the verdict log is not empty"), "{report}");

    // The named remedy; in this case the worker need not be restarted.
    site.ask(&["verdicts", "reopen", &format!("{}:0:0-999999999", site.input), "--execute"]);
    committed(broker, &site.unique, 30 + 100);
    first.stop();
}

#[test]
fn an_input_topic_that_was_deleted_makes_the_worker_unready() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 1);
    produce(broker, &site.input, 0, &pages(0, 0..1));
    let instance = site.start("one");
    committed(broker, &site.unique, 1);
    broker.delete_topic(&site.input);
    let why = format!("worker: input topic {} does not exist", site.input);
    wait::until("the topic to be named", || instance.readiness().contains(&why).then_some(()));
    assert!(instance.metric("dupgate_errors_total", &["component=\"consumer\""]) > 0.0, "{}", instance.metrics());
    assert!(instance.log().contains("does not exist (any more)"), "{}", instance.log());
    instance.stop();
}
