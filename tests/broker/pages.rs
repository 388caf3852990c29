//! Fetching single pages from a broker.

use std::time::Duration;

use crossbeam_channel::bounded;
use dupgate::kafka::client::ConnectionSettings;
use dupgate::kafka::pages::Pages;
use dupgate::record::PartitionId;

use super::broker::{Broker, wait};
use super::messages::produce;

#[test]
fn records_that_are_gone_are_not_waited_for() {
    let Some(broker) = Broker::shared() else { return };
    let (topic, empty) = (broker.topic("gone", 1), broker.topic("empty", 1));
    produce(broker, &topic, &["a", "b", "c", "d"]);
    broker.delete_before(&topic, 0, 2);

    let connection = ConnectionSettings { brokers: vec![broker.address().to_owned()], ..ConnectionSettings::default() };
    let never = Duration::from_hours(1);
    let pages = Pages::open(&connection.follower("gone"), never).unwrap();
    let (fetched, answer) = bounded(1);
    std::thread::spawn(move || {
        let partition = PartitionId::new(topic.as_str(), 0);
        let mut wanted = [0, 1, 2, 3, 4, 9].map(|offset| partition.at(offset)).to_vec();
        wanted.push(PartitionId::new(empty.as_str(), 0).at(0));
        fetched.send(pages.fetch(&wanted.iter().collect::<Vec<_>>()).unwrap())
    });
    let found = answer.recv_timeout(wait::LIMIT).expect("an answer before the time-out");
    let values: Vec<_> = found.into_iter().map(|(source, page)| (source.offset, page.value.unwrap())).collect();
    assert_eq!(values, [(2, b"c".to_vec()), (3, b"d".to_vec())]);
}
