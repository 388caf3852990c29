//! The reader of the verdict log, with open, aborted and committed transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dupgate::kafka::budget::ByteBudget;
use dupgate::kafka::client::ConnectionSettings;
use dupgate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, Follower};
use dupgate::protocol::{
    BARRIER, ExpiryWatermarks, LogIdentity, PerStage, RequestOffset, RulesNumber, VerdictBatch, VerdictOffset,
    VerdictRecord, encode_verdict,
};
use dupgate::record::{PartitionId, Timestamp};
use rdkafka::producer::{BaseRecord, Producer};

use super::broker::{Broker, wait};
use super::messages::{TransactionalProducer, no_transaction_is_open, transactional_producer};

/// A record without verdicts, distinguished from others by its fingerprint log offset.
fn record(next_request: i64) -> VerdictRecord {
    VerdictRecord::Verdicts(VerdictBatch {
        log: LogIdentity(7),
        rules: RulesNumber(1),
        watermarks: ExpiryWatermarks { times: PerStage::all(Timestamp::from_millis(0)), first_sequence: 0 },
        next_request: RequestOffset(next_request),
        verdicts: Vec::new(),
    })
}

/// Writes the record into the open transaction, and waits until the broker has it.
fn write(producer: &TransactionalProducer, topic: &str, record: &VerdictRecord) {
    for part in encode_verdict(record, 1 << 20) {
        write_bytes(producer, topic, Some(&part));
    }
}

fn write_bytes(producer: &TransactionalProducer, topic: &str, value: Option<&[u8]>) {
    let record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).key(b"k".as_slice());
    let record = if let Some(value) = value { record.payload(value) } else { record };
    producer.send(record).map_err(|(why, _)| why).expect("room in the queue");
    producer.flush(wait::LIMIT).expect("flush");
}

/// Commits, and waits until the log holds its marker.
fn commit(broker: &Broker, producer: &TransactionalProducer, topic: &str) {
    producer.commit_transaction(wait::LIMIT).expect("commit");
    no_transaction_is_open(broker, topic);
}

fn follow(broker: &Broker, topic: &str) -> (Follower, Receiver<FollowEvent>) {
    let (follower, events, _) = follow_counting(broker, topic);
    (follower, events)
}

/// A reader, its events, and the number of records it has skipped.
fn follow_counting(broker: &Broker, topic: &str) -> (Follower, Receiver<FollowEvent>, Arc<AtomicU64>) {
    let skipped = Arc::new(AtomicU64::new(0));
    let connection = ConnectionSettings { brokers: vec![broker.address().to_owned()], ..ConnectionSettings::default() };
    let (sender, events) = channel();
    let config = connection.follower(&broker.unique("follower"));
    let sink = move |event| drop(sender.send(event));
    let counted = Arc::clone(&skipped);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let (partition, budget) = (PartitionId::new(topic, 0), ByteBudget::new(1 << 20));
    let follower = Follower::start_counting(&config, partition, budget, "reader".into(), sink, count);
    let follower = follower.expect("a reader");
    follower.command(FollowCommand::From(None, 1));
    (follower, events, skipped)
}

/// The records before the requested end.
fn to_end(events: &Receiver<FollowEvent>) -> Vec<VerdictRecord> {
    let mut records = Vec::new();
    loop {
        match events.recv_timeout(wait::LIMIT).expect("an event of the reader").kind {
            FollowEventKind::Record { record, .. } => records.push(record),
            FollowEventKind::End(_) => return records,
            FollowEventKind::Moved(why) => panic!("{why}"),
        }
    }
}

/// Writes a barrier in a separate transaction.
fn write_barrier(broker: &Broker, topic: &str) {
    let producer = transactional_producer(broker, &broker.unique("next-judge"));
    producer.begin_transaction().expect("begin");
    write_bytes(&producer, topic, Some(BARRIER));
    producer.commit_transaction(wait::LIMIT).expect("commit");
}

#[test]
fn the_barrier_is_read_after_everything_written_before_it() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("verdicts", 1);
    let producer = transactional_producer(broker, &broker.unique("judge"));
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(1));
    producer.commit_transaction(wait::LIMIT).expect("commit");
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(2));

    // Waiting for the barrier waits for open transactions; waiting for the committed end does not. The barrier follows
    // a record, the marker of its commit, and the undecided record.
    write_barrier(broker, &topic);
    let (patient, patient_events) = follow(broker, &topic);
    patient.command(FollowCommand::ToBarrier(1, VerdictOffset(3)));
    let (hasty, hasty_events) = follow(broker, &topic);
    for _ in 0..3 {
        hasty.command(FollowCommand::From(None, 1));
        hasty.command(FollowCommand::ToEnd(1));
        assert_eq!(to_end(&hasty_events), [record(1)]);
    }
    producer.commit_transaction(wait::LIMIT).expect("commit");
    assert_eq!(to_end(&patient_events), [record(1), record(2)]);

    // Aborted transactions are waited for in the same way, and not handed over.
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(3));
    // After the markers of two commits and the record.
    let at = VerdictOffset(7);
    write_barrier(broker, &topic);
    patient.command(FollowCommand::ToBarrier(1, at));
    producer.abort_transaction(wait::LIMIT).expect("abort");
    assert_eq!(to_end(&patient_events), []);
    // It was already read, and nothing has arrived since.
    patient.command(FollowCommand::ToBarrier(2, at));
    assert_eq!(to_end(&patient_events), []);
}

#[test]
fn a_log_without_the_barrier_is_another_one() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("verdicts", 1);
    let producer = transactional_producer(broker, &broker.unique("judge"));
    producer.begin_transaction().expect("begin");
    (1..4).for_each(|number| write(&producer, &topic, &record(number)));
    producer.commit_transaction(wait::LIMIT).expect("commit");
    let (follower, events) = follow(broker, &topic);
    follower.command(FollowCommand::ToBarrier(1, VerdictOffset(1)));
    loop {
        match events.recv_timeout(wait::LIMIT).expect("an event of the reader").kind {
            FollowEventKind::Record { .. } => {}
            FollowEventKind::End(_) => panic!("there is no barrier"),
            FollowEventKind::Moved(why) => return assert!(why.contains("offset 1"), "{why}"),
        }
    }
}

#[test]
fn foreign_records_are_skipped_and_counted() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("verdicts", 1);
    let producer = transactional_producer(broker, &broker.unique("judge"));
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(1));
    // A stray console producer, a tombstone, a byte.
    for junk in [Some(b"junk".as_slice()), None, Some(b"{".as_slice())] {
        write_bytes(&producer, &topic, junk);
    }
    write(&producer, &topic, &record(2));
    commit(broker, &producer, &topic);

    let (follower, events, skipped) = follow_counting(broker, &topic);
    follower.command(FollowCommand::ToEnd(1));
    assert_eq!(to_end(&events), [record(1), record(2)]);
    assert_eq!(skipped.load(Ordering::Relaxed), 3);

    // The end is also found if the last record is skipped.
    producer.begin_transaction().expect("begin");
    write_bytes(&producer, &topic, Some(b"junk"));
    commit(broker, &producer, &topic);
    follower.command(FollowCommand::ToEnd(2));
    assert_eq!(to_end(&events), []);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures a pause")]
fn an_unreadable_record_of_ours_stops_the_reader_and_is_retried_after_a_pause() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.topic("verdicts", 1);
    let producer = transactional_producer(broker, &broker.unique("judge"));
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &record(1));
    // Of a later release.
    let mut newer = encode_verdict(&record(2), 1 << 20).remove(0);
    newer[2] = 99;
    write_bytes(&producer, &topic, Some(&newer));
    write(&producer, &topic, &record(3));
    commit(broker, &producer, &topic);

    let (follower, events, skipped) = follow_counting(broker, &topic);
    let stopped_at = || {
        let mut records = 0;
        loop {
            match events.recv_timeout(wait::LIMIT).expect("an event of the reader").kind {
                FollowEventKind::Record { .. } => records += 1,
                FollowEventKind::End(_) => panic!("it was skipped"),
                FollowEventKind::Moved(why) => {
                    assert!(why.contains("format version 99"), "{why}");
                    return records;
                }
            }
        }
    };
    follower.command(FollowCommand::ToEnd(1));
    assert_eq!(stopped_at(), 1);
    for pause in [1, 2] {
        let began = Instant::now();
        follower.command(FollowCommand::From(None, 1));
        follower.command(FollowCommand::ToEnd(1));
        assert_eq!(stopped_at(), 1);
        assert!(began.elapsed() >= Duration::from_secs(pause), "{:?}", began.elapsed());
    }
    assert_eq!(skipped.load(Ordering::Relaxed), 0);
}
