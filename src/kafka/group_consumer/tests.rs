use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaApiKey;

use super::*;

/// Far more than a rebalance takes.
const LIMIT: Duration = Duration::from_mins(1);

fn partitions(numbers: &[i32]) -> BTreeSet<PartitionId> {
    numbers.iter().map(|&number| PartitionId::new("pages", number)).collect()
}

/// Events of a static member of a group.
fn static_member(brokers: &str) -> (GroupConsumer, Receiver<ConsumerEvent>) {
    let (sender, events) = unbounded();
    (static_member_with(brokers, Box::new(|| {}), move |event| drop(sender.send(event))), events)
}

fn static_member_with(
    brokers: &str,
    moved: Box<dyn Fn() + Send>,
    sink: impl Fn(ConsumerEvent) + Send + Sync + 'static,
) -> GroupConsumer {
    member_of(&["pages"], brokers, moved, sink)
}

fn member_of(
    topics: &[&str],
    brokers: &str,
    moved: Box<dyn Fn() + Send>,
    sink: impl Fn(ConsumerEvent) + Send + Sync + 'static,
) -> GroupConsumer {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("group.id", "readers")
        .set("enable.partition.eof", "true")
        .set("group.instance.id", "one")
        .set("enable.auto.commit", "false")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "100");
    let settings = GroupConsumerSettings {
        config,
        topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
        thread: "reader".to_owned(),
        budget: ByteBudget::new(1 << 20),
        moved,
    };
    GroupConsumer::join(settings, sink).unwrap()
}

#[test]
fn the_polling_thread_ticks_and_stops_ticking_while_it_is_stuck() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("pages", 1, 1).unwrap();
    let ((ticker, ticks), (stuck_sender, stuck), (release, released)) = (unbounded(), unbounded(), unbounded());
    let sink = move |event: ConsumerEvent| {
        if matches!(event, ConsumerEvent::Assigned(_)) {
            let _ = stuck_sender.send(());
            // Until the test lets go.
            let _: Result<(), _> = released.recv();
        }
    };
    let moved = move || {
        let _ = ticker.send(());
    };
    let _member = static_member_with(&cluster.bootstrap_servers(), Box::new(moved), sink);
    ticks.recv_timeout(LIMIT).unwrap();
    stuck.recv_timeout(LIMIT).unwrap();
    while ticks.try_recv().is_ok() {}
    assert!(ticks.recv_timeout(5 * POLL).is_err(), "it is stuck");
    drop(release);
    ticks.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_member_that_was_expelled_during_a_join_loses_what_it_keeps() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("pages", 2, 1).unwrap();
    let (member, events) = static_member(&cluster.bootstrap_servers());
    let next = || events.recv_timeout(LIMIT).unwrap();
    let ConsumerEvent::Renewed(first) = next() else { panic!("the membership comes first") };
    let ConsumerEvent::Assigned(all) = next() else { panic!("then the partitions") };
    assert_eq!(all, partitions(&[0, 1]));
    assert!(first.metadata().is_some());
    let read_again = |partitions: BTreeSet<PartitionId>, seek: u64| {
        let count = partitions.len();
        for partition in partitions {
            member.command(Command::Seek(partition, Start::Offset(0), seek));
        }
        let of_seek = |event: &ConsumerEvent| {
            if let ConsumerEvent::Started { serial, offset, .. } = event {
                return (*serial, Some(*offset));
            }
            let ConsumerEvent::AtEnd { serial, .. } = event else { panic!("{event:?}") };
            (*serial, None)
        };
        let mut seen: Vec<_> = (0..2 * count).map(|_| of_seek(&next())).collect();
        seen.sort_unstable();
        assert_eq!(seen, [vec![(seek, None); count], vec![(seek, Some(0)); count]].concat());
    };
    read_again(all, 1);

    cluster.request_errors(RDKafkaApiKey::JoinGroup, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID]);
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS]);
    let ConsumerEvent::Lost(lost) = next() else { panic!("a loss") };
    assert_eq!(lost, partitions(&[0, 1]));
    assert!(first.metadata().is_none(), "nothing is sent under the old membership");
    let ConsumerEvent::Renewed(second) = next() else { panic!("a new place") };
    let ConsumerEvent::Assigned(again) = next() else { panic!("all of it again") };
    assert_eq!(again, partitions(&[0, 1]));
    assert!(second.metadata().is_some());

    // They are read again from the owner's offset.
    read_again(again, 2);
}

/// Appends records in one batch.
fn fill(brokers: &str, topic: &str, records: i64) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("linger.ms", "10000").create().unwrap();
    for number in 0..records {
        producer.send(BaseRecord::<str, _>::to(topic).partition(0).payload(&number.to_be_bytes())).unwrap();
    }
    producer.flush(LIMIT).unwrap();
}

#[test]
fn a_partition_does_not_end_with_that_of_another_topic_of_its_number() {
    const LENGTH: i64 = 1000;
    let cluster = MockCluster::new(1).unwrap();
    let brokers = cluster.bootstrap_servers();
    for topic in ["archive", "live"] {
        cluster.create_topic(topic, 1, 1).unwrap();
    }
    fill(&brokers, "archive", LENGTH);
    let ((sender, events), (release, released)) = (unbounded(), unbounded::<()>());
    let sink = move |event: ConsumerEvent| {
        let is_first = matches!(event, ConsumerEvent::Record { offset: 0, .. });
        let _ = sender.send(event);
        if is_first {
            // Until the test has sent the next event.
            let _: Result<(), _> = released.recv();
        }
    };
    let member = member_of(&["archive", "live"], &brokers, Box::new(|| {}), sink);
    let (archive, live) = (PartitionId::new("archive", 0), PartitionId::new("live", 0));
    let next = || events.recv_timeout(LIMIT).unwrap();
    while !matches!(next(), ConsumerEvent::Assigned(_)) {}
    member.command(Command::Seek(archive.clone(), Start::Offset(0), 1));
    while !matches!(next(), ConsumerEvent::Record { offset: 0, .. }) {}
    // The archive is paused while the other one is found to be empty.
    member.command(Command::Pause(BTreeSet::from([archive.clone()])));
    member.command(Command::Seek(live.clone(), Start::Offset(0), 2));
    drop(release);
    let (mut read, mut ended) = (1, Vec::new());
    while ended.len() < 2 {
        let event = next();
        read += i64::from(matches!(event, ConsumerEvent::Record { .. }));
        if let ConsumerEvent::AtEnd { partition, .. } = event {
            ended.push((partition, read == LENGTH));
            member.command(Command::Resume(BTreeSet::from([archive.clone()])));
        }
    }
    assert_eq!(ended, [(live, false), (archive, true)], "each with all of its records read");
}

#[test]
fn what_was_fetched_before_a_pause_is_handed_over_at_its_end_without_being_fetched_again() {
    const LENGTH: i64 = 100;
    let cluster = MockCluster::new(1).unwrap();
    let brokers = cluster.bootstrap_servers();
    cluster.create_topic("pages", 1, 1).unwrap();
    fill(&brokers, "pages", LENGTH);
    let ((sender, events), (release, released)) = (unbounded(), unbounded::<()>());
    let sink = move |event: ConsumerEvent| {
        let is_first = matches!(event, ConsumerEvent::Record { offset: 0, .. });
        let _ = sender.send(event);
        if is_first {
            // Until the test has sent the pause.
            let _: Result<(), _> = released.recv();
        }
    };
    let member = member_of(&["pages"], &brokers, Box::new(|| {}), sink);
    let pages = PartitionId::new("pages", 0);
    let next = || events.recv_timeout(LIMIT).unwrap();
    while !matches!(next(), ConsumerEvent::Assigned(_)) {}
    member.command(Command::Seek(pages.clone(), Start::Offset(0), 1));
    while !matches!(next(), ConsumerEvent::Record { offset: 0, .. }) {}
    // One response has brought all records.
    cluster.broker_down(1).unwrap();
    member.command(Command::Pause(BTreeSet::from([pages.clone()])));
    drop(release);
    let mut event = next();
    while !matches!(event, ConsumerEvent::Paused) {
        assert!(!matches!(event, ConsumerEvent::Record { .. }), "{event:?} before the pause is reported");
        event = next();
    }
    member.command(Command::Resume(BTreeSet::from([pages])));
    for expected in 1..LENGTH {
        let offset = loop {
            if let ConsumerEvent::Record { offset, .. } = next() {
                break offset;
            }
        };
        assert_eq!(offset, expected);
    }
}

/// Reads the partitions of `pages` from their beginnings, and returns when `count` of them have started.
fn start_all(cluster: &MockCluster<'_, impl rdkafka::ClientContext>, count: usize) -> BTreeSet<i32> {
    let (member, events) = static_member(&cluster.bootstrap_servers());
    let next = || events.recv_timeout(LIMIT).unwrap();
    let assigned = loop {
        if let ConsumerEvent::Assigned(assigned) = next() {
            break assigned;
        }
    };
    for partition in assigned {
        member.command(Command::Seek(partition, Start::Earliest, 1));
    }
    let mut started = BTreeSet::new();
    while started.len() < count {
        if let ConsumerEvent::Started { partition, .. } = next() {
            started.insert(partition.number);
        }
    }
    started
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn many_partitions_start_by_the_same_requests() {
    const PARTITIONS: usize = 300;
    const ROUND_TRIP: Duration = Duration::from_millis(100);
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("pages", i32::try_from(PARTITIONS).unwrap(), 1).unwrap();
    cluster.broker_round_trip_time(1, ROUND_TRIP).unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(start_all(&cluster, PARTITIONS).len(), PARTITIONS);
    let taken = begun.elapsed();
    assert!(taken < ROUND_TRIP * 100, "{taken:?}, as if each partition had asked for itself");
}

#[test]
fn a_broker_that_does_not_answer_holds_up_only_its_partitions() {
    let cluster = MockCluster::new(2).unwrap();
    cluster.create_topic("pages", 3, 1).unwrap();
    for (partition, leader) in [(0, 1), (1, 2), (2, 1)] {
        cluster.partition_leader("pages", partition, Some(leader)).unwrap();
    }
    cluster.coordinator(MockCoordinator::Group("readers".to_owned()), 1).unwrap();
    cluster.broker_round_trip_time(2, 10 * LIMIT).unwrap();
    assert_eq!(start_all(&cluster, 2), BTreeSet::from([0, 2]));
}

#[test]
fn partitions_of_a_number_are_found_in_all_topics() {
    let mut fetch_states = FetchStates::default();
    for (topic, number) in [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1), ("c", i32::MAX)] {
        fetch_states.by_partition.insert(PartitionId::new(topic, number), FetchState::default());
    }
    let of = |number| -> Vec<&str> { fetch_states.of_number(number).map(|(partition, _)| &*partition.topic).collect() };
    assert_eq!(of(0), ["a", "b", "c"]);
    assert_eq!(of(1), ["a", "c"]);
    assert_eq!(of(i32::MAX), ["c"]);
    assert!(of(2).is_empty());
}
