//! The reader of the verdict log, with open, aborted and committed transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dupgate::kafka::budget::ByteBudget;
use dupgate::kafka::client::ConnectionSettings;
use dupgate::kafka::verdict_log::{FollowCommand, FollowEvent, FollowEventKind, FollowSettings, Follower, Passing};
use dupgate::protocol::FORMAT_VERSION;
use dupgate::protocol::{
    BARRIER, Checkpoint, ExpiryWatermarks, LogIdentity, PerStage, RequestOffset, Rules, RulesNumber, SameId, Stage,
    VerdictBatch, VerdictOffset, VerdictRecord, encode_verdict,
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
    follow_passing(broker, topic, None)
}

fn follow_passing(
    broker: &Broker,
    topic: &str,
    passing: Option<Passing>,
) -> (Follower, Receiver<FollowEvent>, Arc<AtomicU64>) {
    let skipped = Arc::new(AtomicU64::new(0));
    let connection = ConnectionSettings { brokers: vec![broker.address().to_owned()], ..ConnectionSettings::default() };
    let (sender, events) = channel();
    let config = connection.follower(&broker.unique("follower"));
    let sink = move |event| drop(sender.send(event));
    let counted = Arc::clone(&skipped);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let partition = FollowSettings::new(PartitionId::new(topic, 0), sink).passing(passing).counting(count);
    let follower = Follower::start(&config, partition, &ByteBudget::new(1 << 20), "reader".into());
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

/// A checkpoint without anything judged, distinguished from others by its fingerprint log offset.
fn checkpoint(next_request: i64) -> VerdictRecord {
    let rules = Rules {
        stages: vec![Stage::Exact],
        max_distance: 3,
        windows: PerStage::all(Duration::from_hours(1)),
        lateness: Duration::ZERO,
        max_future_skew: Duration::ZERO,
        max_entries: 100,
        same_id: SameId::Update,
        minhash: None,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
        dual: None,
    };
    VerdictRecord::Checkpoint(Box::new(Checkpoint {
        log: LogIdentity(7),
        rules_number: RulesNumber(1),
        rules,
        stream_time: Timestamp::from_millis(0),
        leap: None,
        watermarks: ExpiryWatermarks { times: PerStage::all(Timestamp::from_millis(0)), first_sequence: 0 },
        next_sequence: 0,
        next_request: RequestOffset(next_request),
        previous: None,
        partitions: BTreeMap::new(),
        applied: Vec::new(),
    }))
}

/// Returns what stops the reader.
fn stopped_by(events: &Receiver<FollowEvent>) -> String {
    loop {
        match events.recv_timeout(wait::LIMIT).expect("an event of the reader").kind {
            FollowEventKind::Record { .. } => {}
            FollowEventKind::End(_) => panic!("the end was reached"),
            FollowEventKind::Moved(why) => return why,
        }
    }
}

/// A log with a record of a later format between two checkpoints. Returns its topic and the offset of that record.
fn log_with_a_later_format(broker: &Broker) -> (String, VerdictOffset) {
    let topic = broker.topic("verdicts", 1);
    let producer = transactional_producer(broker, &broker.unique("judge"));
    producer.begin_transaction().expect("begin");
    write(&producer, &topic, &checkpoint(1));
    write(&producer, &topic, &record(2));
    for _ in 0..2 {
        let mut later = encode_verdict(&record(3), 1 << 20).remove(0);
        *later.get_mut(2).expect("a version") = FORMAT_VERSION + 1;
        write_bytes(&producer, &topic, Some(&later));
    }
    write(&producer, &topic, &record(4));
    write(&producer, &topic, &checkpoint(5));
    write(&producer, &topic, &record(6));
    commit(broker, &producer, &topic);
    (topic, VerdictOffset(2))
}

#[test]
fn a_record_of_a_later_format_stops_a_reader_that_names_the_setting_to_pass_it() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, at) = log_with_a_later_format(broker);
    // The word for another record is none for this one.
    for passing in [None, Some(Passing::ToCheckpoint(at.next())), Some(Passing::GoOn(VerdictOffset(0)))] {
        let (follower, events, skipped) = follow_passing(broker, &topic, passing);
        follower.command(FollowCommand::ToEnd(1));
        let why = stopped_by(&events);
        assert!(why.contains(&format!("format version {}", FORMAT_VERSION + 1)), "{why}");
        assert!(why.contains("set kafka.skip_corrupt_verdict to 0:2"), "{why}");
        assert_eq!(skipped.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_reader_passes_the_record_that_an_operator_names_and_continues_at_the_next_checkpoint() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, at) = log_with_a_later_format(broker);
    let (follower, events, skipped) = follow_passing(broker, &topic, Some(Passing::ToCheckpoint(at)));
    follower.command(FollowCommand::ToEnd(1));
    // Its owner drops what it has followed, and reads again: from the beginning, or from an earlier checkpoint.
    assert!(stopped_by(&events).contains("continuing at the next checkpoint"));
    for from in [None, Some(VerdictOffset(0)), Some(at)] {
        follower.command(FollowCommand::From(from, 2));
        follower.command(FollowCommand::ToEnd(2));
        assert_eq!(to_end(&events), [checkpoint(5), record(6)], "from {from:?}");
    }
    follower.command(FollowCommand::From(Some(VerdictOffset(5)), 3));
    follower.command(FollowCommand::ToEnd(3));
    assert_eq!(to_end(&events), [checkpoint(5), record(6)]);
    assert_eq!(skipped.load(Ordering::Relaxed), 1 + 3, "the named record, and the one after it at each reading");
}

#[test]
fn a_reader_without_a_state_hands_over_what_can_be_read_around_the_record_that_an_operator_names() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, at) = log_with_a_later_format(broker);
    let (follower, events, skipped) = follow_passing(broker, &topic, Some(Passing::GoOn(at)));
    follower.command(FollowCommand::ToEnd(1));
    assert_eq!(to_end(&events), [checkpoint(1), record(2), record(4), checkpoint(5), record(6)]);
    assert_eq!(skipped.load(Ordering::Relaxed), 2);
}
