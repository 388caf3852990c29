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

struct OneRecord;

impl RecordSource for OneRecord {
    fn len(&self) -> usize {
        1
    }

    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError> {
        load(0, OutgoingRecord { topic: "pages", partition: Some(0), ..OutgoingRecord::default() })
    }
}

#[test]
fn a_client_that_delivers_nothing_twice_is_given_up() {
    let cluster = MockCluster::new(2).unwrap();
    cluster.create_topic("pages", 1, 1).unwrap();
    cluster.coordinator(MockCoordinator::Transaction("t".to_owned()), 1).unwrap();
    cluster.partition_leader("pages", 0, Some(2)).unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    config.set("transactional.id", "t").set("message.timeout.ms", "500").set("linger.ms", "0");
    let mut producer = ProducerLoop {
        config,
        delivery: Delivery::ExactlyOnce,
        in_flight: Arc::default(),
        client: None,
        undelivered: 0,
    };
    let mut call = |wanted| {
        let is_produce = wanted == Call::Produce;
        let records = || ProducerCommand::Produce(Box::new(OneRecord));
        producer.perform(if is_produce { records() } else { ProducerCommand::Plain(wanted) })
    };
    let written = |answer: Answer| answer.map(|offsets| offsets.len());
    assert_eq!(call(Call::Init), Ok(Vec::new()));
    assert_eq!(call(Call::Begin), Ok(Vec::new()));
    assert_eq!(written(call(Call::Produce)), Ok(1));
    assert_eq!(call(Call::Commit), Ok(Vec::new()));
    cluster.broker_down(2).unwrap();
    assert_eq!(call(Call::Begin), Ok(Vec::new()));
    assert!(matches!(call(Call::Produce), Err(CallError::Abortable(_))), "it may be delivered the next time");
    assert_eq!(call(Call::Abort), Ok(Vec::new()));
    assert_eq!(call(Call::Begin), Ok(Vec::new()));
    assert!(matches!(call(Call::Produce), Err(CallError::Unknown(_))), "another client may know better");
    assert!(matches!(call(Call::Abort), Err(CallError::Fatal(_))), "the client is gone");
    cluster.broker_up(2).unwrap();
    assert_eq!(call(Call::Init), Ok(Vec::new()));
    assert_eq!(call(Call::Begin), Ok(Vec::new()));
    assert_eq!(written(call(Call::Produce)), Ok(1));
}

#[test]
fn a_call_that_never_succeeds_is_given_up() {
    let again = || Err(CallError::Retriable("busy".to_owned()));
    let mut lasting = RetryDeadline::new(Duration::from_mins(1));
    for _ in 0..9 {
        assert_eq!(lasting.reclassify(again()), again());
    }
    // A deadline that has passed at once.
    let mut expired = RetryDeadline::new(Duration::ZERO);
    assert!(
        matches!(expired.reclassify(again()), Err(CallError::Unknown(why)) if why == "busy; still failing after 0ns")
    );
    assert_eq!(expired.reclassify(Ok(vec![3])), Ok(vec![3]));
    // A call that succeeds in between resets the time.
    let mut busy = RetryDeadline { limit: Duration::from_mins(1), over: Some(after(Duration::ZERO)) };
    assert_eq!(busy.reclassify(Ok(vec![])), Ok(vec![]));
    assert_eq!(busy.reclassify(again()), again());
}

fn fenced() -> Answer {
    Err(CallError::Fenced("epoch".to_owned()))
}

fn age(millis: &str) -> TransactionAge {
    let mut config = ClientConfig::new();
    config.set("transaction.timeout.ms", millis);
    TransactionAge::new(&config)
}

#[test]
fn only_a_fence_of_a_young_transaction_is_by_another_process() {
    let mut young = age("60000");
    assert_eq!(young.reclassify(Call::Begin, Ok(vec![])), Ok(vec![]));
    assert_eq!(young.reclassify(Call::Produce, fenced()), fenced());
    for call in [Call::Produce, Call::SendOffsets, Call::Commit, Call::Abort] {
        // It expires at once.
        let mut old = age("0");
        old.reclassify(Call::Begin, Ok(vec![])).unwrap();
        assert!(matches!(old.reclassify(call, fenced()), Err(CallError::Unknown(_))), "{call:?}");
        // No transaction has begun since: another process has the id.
        assert_eq!(old.reclassify(Call::Init, Ok(vec![])), Ok(vec![]));
        assert_eq!(old.reclassify(call, fenced()), fenced(), "{call:?}");
    }
}

#[test]
fn a_transaction_that_has_ended_has_no_age() {
    for end in [Call::Commit, Call::Abort] {
        let mut old = age("0");
        old.reclassify(Call::Begin, Ok(vec![])).unwrap();
        old.reclassify(end, Ok(vec![])).unwrap();
        assert_eq!(old.reclassify(Call::Produce, fenced()), fenced(), "{end:?}");
    }
    assert_eq!(TransactionAge::new(&ClientConfig::new()).reclassify(Call::Produce, fenced()), fenced());
}
