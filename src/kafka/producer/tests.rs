use rdkafka::mocking::{MockCluster, MockCoordinator};

use super::*;

/// Far more than a call may take here.
const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn a_call_that_never_returns_is_given_up_with_its_client() {
    let cluster = MockCluster::new(2).unwrap();
    cluster.create_topic("pages", 1, 1).unwrap();
    cluster.coordinator(MockCoordinator::Transaction("t".to_owned()), 1).unwrap();
    cluster.coordinator(MockCoordinator::Group("readers".to_owned()), 2).unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    let outside = Membership::outside(config.clone().set("group.id", "readers")).unwrap();
    config.set("transactional.id", "t").set("transaction.timeout.ms", "2000");
    let (sender, answers) = unbounded();
    let sink = move |call, answer: Answer| drop(sender.send((call, answer)));
    let delivery = Delivery::ExactlyOnce;
    let producer = TransactionalProducer::start(config, delivery, "producer".to_owned(), Arc::default(), sink).unwrap();
    let call = |command: ProducerCommand| {
        let made = command.call();
        producer.submit(command);
        let (answered, answer) = answers.recv_timeout(LIMIT).unwrap();
        assert_eq!(answered, made);
        answer
    };
    let offset = OffsetAndMetadata { partition: PartitionId::new("pages", 0), offset: 7, metadata: String::new() };
    let send_offsets = || ProducerCommand::SendOffsets(vec![offset.clone()], outside.clone());
    let plain = |wanted| call(ProducerCommand::Plain(wanted));
    assert_eq!(plain(Call::Init), Ok(Vec::new()));
    assert_eq!(plain(Call::Begin), Ok(Vec::new()));
    cluster.broker_down(2).unwrap();
    let Err(CallError::Unknown(why)) = call(send_offsets()) else { panic!("the coordinator is down") };
    assert_eq!(why, "SendOffsets: the client library has not returned for 5s");
    assert!(matches!(plain(Call::Commit), Err(CallError::Fatal(_))), "its client is gone");

    cluster.broker_up(2).unwrap();
    for wanted in [Call::Init, Call::Begin] {
        assert_eq!(plain(wanted), Ok(Vec::new()), "a new client goes on");
    }
    assert_eq!(call(send_offsets()), Ok(Vec::new()));
    assert_eq!(plain(Call::Commit), Ok(Vec::new()));
}
