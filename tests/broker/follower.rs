//! The reader of the verdict log, beside transactions that are open, aborted and committed.

use std::sync::mpsc::{Receiver, channel};

use dupgate::kafka::budget::ByteBudget;
use dupgate::kafka::client::Cluster;
use dupgate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use dupgate::protocol::{
    ExpiryWatermarks, LogIdentity, RequestOffset, RulesNumber, VerdictBatch, VerdictRecord, Windows, encode_verdict,
};
use dupgate::record::{PartitionId, Timestamp};
use rdkafka::producer::{BaseRecord, Producer};

use super::broker::{Broker, wait};
use super::messages::{TransactionalProducer, transactional_producer};

/// A record without verdicts, told from others by its place in the fingerprint log.
fn record(next_request: i64) -> VerdictRecord {
    VerdictRecord::Verdicts(VerdictBatch {
        log: LogIdentity(7),
        rules: RulesNumber(1),
        watermarks: ExpiryWatermarks { times: Windows::all(Timestamp::from_millis(0)), first_sequence: 0 },
        next_request: RequestOffset(next_request),
        verdicts: Vec::new(),
    })
}

/// Writes the record into the transaction that is open, and waits until the broker has it.
fn write(producer: &TransactionalProducer, topic: &str, record: &VerdictRecord) {
    for part in encode_verdict(record, 1 << 20) {
        let part = BaseRecord::<(), [u8]>::to(topic).partition(0).payload(part.as_slice());
        producer.send(part).map_err(|(why, _)| why).expect("room in the queue");
    }
    producer.flush(wait::LIMIT).expect("flush");
}

fn follow(broker: &Broker, topic: &str) -> (Follower, Receiver<FollowEvent>) {
    let cluster = Cluster { brokers: vec![broker.address().to_owned()], ..Cluster::default() };
    let (sender, events) = channel();
    let config = cluster.follower(&broker.unique("follower"));
    let follower =
        Follower::start(&config, PartitionId::new(topic, 0), ByteBudget::new(1 << 20), "reader".into(), move |event| {
            drop(sender.send(event));
        });
    let follower = follower.expect("a reader");
    follower.command(FollowCommand::From(None, 1));
    (follower, events)
}

/// The records that come before the end that was asked for.
fn to_end(events: &Receiver<FollowEvent>) -> Vec<VerdictRecord> {
    let mut records = Vec::new();
    loop {
        match events.recv_timeout(wait::LIMIT).expect("news of the reader").kind {
            FollowEventKind::Record { record, .. } => records.push(record),
            FollowEventKind::End => return records,
            FollowEventKind::Moved(why) => panic!("{why}"),
        }
    }
}

#[test]
fn the_last_record_is_that_of_the_transaction_which_was_open() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("verdicts", 1);
    let producer = transactional_producer(broker, &broker.unique("judge"));
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(1));
    producer.commit_transaction(wait::LIMIT).expect("commit");
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(2));

    // Who waits for all that was written waits for the decision; who asks for what is committed does not.
    let (patient, patient_events) = follow(broker, &topic);
    patient.command(FollowCommand::ToLast);
    let (hasty, hasty_events) = follow(broker, &topic);
    for _ in 0..3 {
        hasty.command(FollowCommand::From(None, 1));
        hasty.command(FollowCommand::ToEnd);
        assert_eq!(to_end(&hasty_events), [record(1)]);
    }
    producer.commit_transaction(wait::LIMIT).expect("commit");
    assert_eq!(to_end(&patient_events), [record(1), record(2)]);

    // What is aborted is waited for in the same way, and not handed over.
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(3));
    patient.command(FollowCommand::ToLast);
    producer.abort_transaction(wait::LIMIT).expect("abort");
    assert_eq!(to_end(&patient_events), []);
}
