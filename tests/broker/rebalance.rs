//! Assumptions of the Kafka edge about consumer groups: leaving, staying, and giving up partitions.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

use dupgate::kafka::budget::ByteBudget;
use dupgate::kafka::errors::of_call;
use dupgate::kafka::group_consumer::{ConsumerEvent, GroupConsumer, GroupConsumerSettings};
use dupgate_core::transaction::{Call, CallError};
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::broker::{Broker, wait};
use super::messages::{TransactionalProducer, committed_payloads, send, transactional_producer};

fn member(broker: &Broker, group: &str) -> ClientConfig {
    let mut config = broker.client();
    config
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("session.timeout.ms", "10000")
        .set("heartbeat.interval.ms", "500");
    config
}

/// State and number of members of `group`, as the broker reports to an outside client.
fn group_state(broker: &Broker, group: &str) -> (String, usize) {
    let outside: BaseConsumer = broker.client().create().expect("a client");
    let list = outside.fetch_group_list(Some(group), wait::LIMIT).expect("a group list");
    let group = list.groups().first().expect("the requested group");
    (group.state().to_owned(), group.members().len())
}

fn join<C: ConsumerContext>(consumer: &BaseConsumer<C>, topic: &str) {
    consumer.subscribe(&[topic]).expect("subscribe");
    wait::until("an assignment", || {
        assert!(consumer.poll(Duration::from_millis(50)).is_none_or(|polled| polled.is_ok()));
        (consumer.assignment().expect("assignment").count() > 0).then_some(())
    });
}

#[test]
fn a_dynamic_member_that_closes_leaves_at_once() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, group) = (broker.topic("leaving", 1), broker.unique("leaving"));
    let consumer: BaseConsumer = member(broker, &group).create().unwrap();
    join(&consumer, &topic);
    assert_eq!(group_state(broker, &group), ("Stable".to_owned(), 1));
    drop(consumer);
    // Closing waits for the answer to LeaveGroup: no waiting here.
    assert_eq!(group_state(broker, &group), ("Empty".to_owned(), 0));
}

#[test]
fn a_dynamic_member_without_partitions_leaves_at_once() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, group) = (broker.topic("standing-by", 1), broker.unique("standing-by"));
    let join = || {
        let settings = GroupConsumerSettings {
            config: member(broker, &group),
            topics: vec![topic.clone()],
            thread: "member".to_owned(),
            budget: ByteBudget::new(1 << 20),
            moved: Box::new(|| {}),
        };
        let (sender, events) = channel();
        (GroupConsumer::join(settings, move |event| drop(sender.send(event))).expect("a member"), events)
    };
    let (first, events) = join();
    wait::until("the first member's partition", || {
        events.try_iter().any(|event| matches!(event, ConsumerEvent::Assigned(_))).then_some(())
    });
    // Another member has nothing to do.
    let (standby, events) = join();
    wait::until("a second member", || (group_state(broker, &group) == ("Stable".to_owned(), 2)).then_some(()));
    drop(standby);
    assert!(!events.iter().any(|event| matches!(event, ConsumerEvent::Assigned(_))), "it had no partitions");
    // The channel is closed, so it has left.
    assert_eq!(group_state(broker, &group).1, 1);
    drop(first);
}

#[test]
fn a_static_member_that_closes_stays() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, group) = (broker.topic("staying", 1), broker.unique("staying"));
    let consumer: BaseConsumer = member(broker, &group).set("group.instance.id", "one").create().unwrap();
    join(&consumer, &topic);
    drop(consumer);
    assert_eq!(group_state(broker, &group), ("Stable".to_owned(), 1));
    // The successor of the same name takes over without a rebalance.
    let successor: BaseConsumer = member(broker, &group).set("group.instance.id", "one").create().unwrap();
    join(&successor, &topic);
    assert_eq!(group_state(broker, &group), ("Stable".to_owned(), 1));
}

#[test]
fn offsets_of_a_replaced_static_member_are_refused_and_its_producer_goes_on() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, group) = (broker.topic("replaced", 1), broker.unique("replaced"));
    let join = || -> BaseConsumer {
        let consumer = member(broker, &group).set("group.instance.id", "one").create().unwrap();
        join(&consumer, &topic);
        consumer
    };
    let producer = transactional_producer(broker, &broker.unique("replaced"));
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&topic, 0, Offset::Offset(1)).unwrap();
    let first = join();
    let replaced = first.group_metadata().unwrap();
    let second = join();
    producer.begin_transaction().unwrap();
    let refused = producer.send_offsets_to_transaction(&offsets, &replaced, wait::LIMIT).unwrap_err();
    assert!(matches!(of_call(Call::SendOffsets, &refused), CallError::Abortable(_)), "{refused:?}");
    assert_eq!(refused.rdkafka_error_code(), Some(RDKafkaErrorCode::FencedInstanceId));
    producer.abort_transaction(wait::LIMIT).unwrap();
    producer.begin_transaction().unwrap();
    producer.send_offsets_to_transaction(&offsets, &second.group_metadata().unwrap(), wait::LIMIT).unwrap();
    producer.commit_transaction(wait::LIMIT).unwrap();
}

/// Observations and results of the rebalance callback.
#[derive(Debug)]
enum Seen {
    Assigned { partitions: usize, thread: ThreadId },
    Revoked { partitions: usize, lost: bool, thread: ThreadId, committed: KafkaResult<()> },
}

/// Writes and commits inside the revoke callback, then gives the partitions up.
struct Committing {
    producer: OnceLock<Arc<TransactionalProducer>>,
    output: String,
    seen: Mutex<Sender<Seen>>,
}

impl Committing {
    fn tell(&self, seen: Seen) {
        self.seen.lock().expect("not poisoned").send(seen).expect("the test listens");
    }

    fn commit(&self, consumer: &BaseConsumer<Self>, revoked: &TopicPartitionList) -> KafkaResult<()> {
        let Some(producer) = self.producer.get() else { return Ok(()) };
        let metadata = consumer.group_metadata().expect("a group");
        let mut offsets = TopicPartitionList::new();
        for element in revoked.elements() {
            offsets.add_partition_offset(element.topic(), element.partition(), Offset::Offset(5))?;
        }
        producer.begin_transaction()?;
        send(producer, &self.output, &["from the callback"]);
        producer.send_offsets_to_transaction(&offsets, &metadata, wait::LIMIT)?;
        producer.commit_transaction(wait::LIMIT)
    }
}

impl ClientContext for Committing {}

impl ConsumerContext for Committing {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, code: RDKafkaRespErr, places: &mut TopicPartitionList) {
        let thread = std::thread::current().id();
        let partitions = places.count();
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            consumer.incremental_assign(places).expect("incremental_assign");
            self.tell(Seen::Assigned { partitions, thread });
        } else {
            let lost = consumer.assignment_lost();
            let committed = self.commit(consumer, places);
            consumer.incremental_unassign(places).expect("incremental_unassign");
            self.tell(Seen::Revoked { partitions, lost, thread, committed });
        }
    }
}

/// Whether one partition was revoked, not lost, on this thread, and whether its output could be committed.
fn saw_one_committed(seen: Option<&Seen>, here: ThreadId) -> bool {
    matches!(seen, Some(Seen::Revoked { partitions: 1, lost: false, thread, committed: Ok(()) }) if *thread == here)
}

#[test]
fn a_transaction_commits_inside_the_revoke_callback_on_the_polling_thread() {
    let Some(broker) = Broker::shared() else { return };
    let (input, output) = (broker.topic("revoked-input", 2), broker.topic("revoked-output", 1));
    let group = broker.unique("revoking");
    let (seen, message) = channel();
    let producer = OnceLock::new();
    producer.set(Arc::new(transactional_producer(broker, &broker.unique("revoking")))).ok().unwrap();
    let context = Committing { producer, output: output.clone(), seen: Mutex::new(seen) };
    let first: BaseConsumer<Committing> = member(broker, &group).create_with_context(context).unwrap();
    join(&first, &input);
    let here = std::thread::current().id();
    let assigned = message.try_recv().unwrap();
    assert!(matches!(assigned, Seen::Assigned { partitions: 2, thread } if thread == here));

    let second: BaseConsumer = member(broker, &group).create().unwrap();
    second.subscribe(&[&input]).unwrap();
    wait::until("the second member to own a partition", || {
        assert!(first.poll(Duration::from_millis(20)).is_none_or(|polled| polled.is_ok()));
        assert!(second.poll(Duration::from_millis(20)).is_none_or(|polled| polled.is_ok()));
        (second.assignment().unwrap().count() == 1).then_some(())
    });
    let revoked = message.try_iter().find(|seen| matches!(seen, Seen::Revoked { .. }));
    assert!(saw_one_committed(revoked.as_ref(), here), "{revoked:?}");
    assert_eq!(committed_payloads(broker, &output), ["from the callback"]);
    // Closing revokes too, inside `drop`, and may still commit.
    drop(first);
    let closing = message.try_iter().last();
    assert!(saw_one_committed(closing.as_ref(), here), "{closing:?}");
    assert_eq!(committed_payloads(broker, &output), ["from the callback", "from the callback"]);
}
