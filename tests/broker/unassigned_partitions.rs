//! A partition without an owner, as left by a static member that was replaced between the two rounds of a cooperative
//! rebalance: the replacement gets no notice, and rejoins by itself.
//!
//! No client library leaves a partition out, so a member of this test speaks the protocol by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::broker::{Broker, wait};
use super::run::instance::Site;
use super::run::text;
use super::run::topics::{committed, page, produce};

const FIND_COORDINATOR: i16 = 10;
const JOIN_GROUP: i16 = 11;
const SYNC_GROUP: i16 = 14;

/// Longer than the test's instance takes to start.
const SESSION_MS: i32 = 60_000;

fn string(text: &str) -> Vec<u8> {
    [&i16::try_from(text.len()).expect("short").to_be_bytes(), text.as_bytes()].concat()
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    [&i32::try_from(bytes.len()).expect("short").to_be_bytes(), bytes].concat()
}

fn array(elements: &[Vec<u8>]) -> Vec<u8> {
    [&i32::try_from(elements.len()).expect("few").to_be_bytes()[..], &elements.concat()].concat()
}

/// Reads this many bytes.
fn take<const N: usize>(from: &mut impl Read) -> [u8; N] {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).expect("as many bytes");
    bytes
}

/// Reads what [`string`] writes.
fn taken(from: &mut impl Read) -> String {
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(take(from)))];
    from.read_exact(&mut bytes).expect("as many bytes");
    String::from_utf8(bytes).expect("a name")
}

/// Sends a request; returns the answer after its correlation id.
fn ask(stream: &mut TcpStream, key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let head = [&key.to_be_bytes()[..], &version.to_be_bytes(), &7_i32.to_be_bytes(), &string("by-hand")].concat();
    stream.write_all(&bytes(&[&head, body].concat())).expect("sent");
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(take(stream))).expect("a length")];
    stream.read_exact(&mut answer).expect("the whole answer");
    answer.split_off(4)
}

/// Joins the group as the static member `name`, takes partition 0 of the topic and leaves partition 1 unassigned; then
/// falls silent.
fn take_only_the_first(address: &str, group: &str, name: &str, topic: &str) {
    let none = [0xff; 4];
    let subscription = [&[0, 0][..], &array(&[string(topic)]), &none].concat();
    let protocol = [string("cooperative-sticky"), bytes(&subscription)].concat();
    let join = [
        string(group),
        SESSION_MS.to_be_bytes().to_vec(),
        SESSION_MS.to_be_bytes().to_vec(),
        string(""),
        string(name),
        string("consumer"),
        array(&[protocol]),
    ];
    let mut stream = TcpStream::connect(address).expect("a connection");
    let (generation, member) = wait::until("a place in the group", || {
        // The request creates the internal topic of groups.
        ask(&mut stream, FIND_COORDINATOR, 0, &string(group));
        let answer = ask(&mut stream, JOIN_GROUP, 5, &join.concat());
        let rest = &mut answer.as_slice();
        let (_throttled, error, generation) = (take::<4>(rest), take::<2>(rest), take::<4>(rest));
        let (_protocol, _leader, member) = (taken(rest), taken(rest), taken(rest));
        (error == [0, 0]).then_some((generation, member))
    });
    let first = [string(topic), array(&[0_i32.to_be_bytes().to_vec()])].concat();
    let share = [&[0, 0][..], &array(&[first]), &none].concat();
    let shares = array(&[[string(&member), bytes(&share)].concat()]);
    let sync = [string(group), generation.to_vec(), string(&member), string(name), shares].concat();
    let answer = ask(&mut stream, SYNC_GROUP, 3, &sync);
    assert!(answer.starts_with(&[0; 6]), "the group accepts it: {answer:?}");
}

#[test]
fn an_unassigned_partition_is_taken_by_the_running_member() {
    let Some(broker) = Broker::shared() else { return };
    let site = Site::new(broker, 2);
    produce(broker, &site.input, 0, &[page(&text(1))]);
    produce(broker, &site.input, 1, &[page(&text(2))]);
    take_only_the_first(broker.address(), &site.group, "one", &site.input);
    let instance = site.start("one");
    // It inherits only its predecessor's partitions.
    assert_eq!(committed(broker, &site.unique, 1).len(), 1);
    assert_eq!(committed(broker, &site.unique, 2).len(), 2);
    instance.stop();
    let log = site.log("one");
    assert!(log.contains("rejoining the group: partitions unassigned although the group is stable"), "{log}");
    assert!(log.contains(&format!("although the group is stable partitions={}:1", site.input)), "{log}");
}
