use rdkafka::mocking::MockCluster;
use rdkafka::types::RDKafkaApiKey;

use super::*;

/// Far more than a rebalance takes.
const LIMIT: Duration = Duration::from_mins(1);

fn partitions(numbers: &[i32]) -> BTreeSet<PartitionId> {
    numbers.iter().map(|&number| PartitionId::new("pages", number)).collect()
}

/// What a static member of a group reports.
fn static_member(brokers: &str) -> (Member, Receiver<MemberEvent>) {
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
    let settings = MemberSettings {
        config,
        topics: vec!["pages".to_owned()],
        thread: "reader".to_owned(),
        gate: Gate::new(1 << 20),
        moved: Box::new(|| {}),
    };
    let (sender, events) = unbounded();
    let member = Member::join(settings, move |event| drop(sender.send(event))).unwrap();
    (member, events)
}

#[test]
fn a_member_that_was_expelled_while_it_asked_to_join_loses_what_it_keeps() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("pages", 2, 1).unwrap();
    let (member, events) = static_member(&cluster.bootstrap_servers());
    let next = || events.recv_timeout(LIMIT).unwrap();
    let MemberEvent::Renewed(first) = next() else { panic!("the place comes first") };
    let MemberEvent::Assigned(all) = next() else { panic!("then the partitions") };
    assert_eq!(all, partitions(&[0, 1]));
    assert!(first.metadata().is_some());
    let read_anew = |partitions: BTreeSet<PartitionId>, seek: u64| {
        let count = partitions.len();
        for partition in partitions {
            member.command(Command::Seek(partition, Start::Offset(0), seek));
        }
        let of_seek = |event: &MemberEvent| match event {
            MemberEvent::Started { serial, offset, .. } => (*serial, Some(*offset)),
            MemberEvent::AtEnd { serial, .. } => (*serial, None),
            other => panic!("{other:?}"),
        };
        let mut seen: Vec<_> = (0..2 * count).map(|_| of_seek(&next())).collect();
        seen.sort_unstable();
        assert_eq!(seen, [vec![(seek, None); count], vec![(seek, Some(0)); count]].concat());
    };
    read_anew(all, 1);

    cluster.request_errors(RDKafkaApiKey::JoinGroup, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID]);
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS]);
    let MemberEvent::Lost(lost) = next() else { panic!("a loss") };
    assert_eq!(lost, partitions(&[0, 1]));
    assert!(first.metadata().is_none(), "nothing is sent under the old place");
    let MemberEvent::Renewed(second) = next() else { panic!("a new place") };
    let MemberEvent::Assigned(again) = next() else { panic!("all of it again") };
    assert_eq!(again, partitions(&[0, 1]));
    assert!(second.metadata().is_some());

    // They are read again from where the owner says.
    read_anew(again, 2);
}
