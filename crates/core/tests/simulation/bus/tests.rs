//! Tests of the properties that the two roles rely on, one for each.

use std::collections::{BTreeMap, BTreeSet};

use dupgate_core::record::{PartitionId, Timestamp};

use super::{Bus, Committed, End, Fetched, Notice, Refused};

const NOW: Timestamp = Timestamp::from_millis(0);

fn bus() -> (Bus<&'static str>, PartitionId) {
    let mut bus = Bus::new();
    let log = PartitionId::new("log", 0);
    bus.create(&log);
    (bus, log)
}

fn visible(bus: &Bus<&'static str>, log: &PartitionId) -> Vec<(i64, &'static str)> {
    let mut seen = Vec::new();
    let mut from = bus.start(log);
    while let Fetched::Record { offset, value, .. } = bus.fetch(log, from) {
        seen.push((offset, *value));
        from = offset + 1;
    }
    seen
}

fn set(partitions: &[&PartitionId]) -> BTreeSet<PartitionId> {
    partitions.iter().map(|partition| (*partition).clone()).collect()
}

#[test]
fn readers_stop_at_an_open_transaction_and_skip_an_aborted_one() {
    let (mut bus, log) = bus();
    bus.append(&log, NOW, "a");
    let epoch = bus.init_producer("p");
    bus.produce("p", epoch, &log, NOW, "b").unwrap();
    bus.append(&log, NOW, "c");
    assert_eq!(visible(&bus, &log), [(0, "a")]);
    assert_eq!(bus.stable_end(&log), 1);
    bus.end_transaction("p", epoch, End::Abort).unwrap();
    bus.produce("p", epoch, &log, NOW, "d").unwrap();
    bus.end_transaction("p", epoch, End::Commit).unwrap();
    // Offsets 1 (aborted), 3 and 5 (markers) hold nothing to see.
    assert_eq!(visible(&bus, &log), [(0, "a"), (2, "c"), (4, "d")]);
    assert_eq!(bus.fetch(&log, 5), Fetched::Nothing { position: 6 });
}

#[test]
fn a_stable_position_is_refused_while_a_transaction_is_about_to_move_it_and_the_last_one_is_not() {
    let (mut bus, log) = bus();
    let other = PartitionId::new("log", 1);
    bus.create_group("g", vec![log.clone(), other.clone()]);
    let member = bus.join("g", None);
    bus.poll("g", &member);
    let generation = bus.generation_seen("g", &member);
    let epoch = bus.init_producer("p");
    let moved = BTreeMap::from([(log.clone(), Committed::plain(7))]);
    bus.send_offsets(("p", epoch), "g", (&member, generation), moved).unwrap();
    let none = BTreeMap::from([(log.clone(), None), (other.clone(), None)]);
    assert!(bus.stable_committed("g", &set(&[&log, &other])).is_err(), "one is enough for all to be refused");
    assert!(bus.stable_committed("g", &set(&[&other])).is_ok());
    assert_eq!(bus.last_committed("g", &set(&[&log, &other])), none);
    bus.end_transaction("p", epoch, End::Commit).unwrap();
    let seven = BTreeMap::from([(log.clone(), Some(Committed::plain(7)))]);
    assert_eq!(bus.stable_committed("g", &set(&[&log])).ok(), Some(seven));
}

#[test]
fn taking_over_an_id_aborts_and_fences_the_process_before() {
    let (mut bus, log) = bus();
    let old = bus.init_producer("p");
    bus.produce("p", old, &log, NOW, "old").unwrap();
    let new = bus.init_producer("p");
    assert_eq!(visible(&bus, &log), []);
    assert_eq!(bus.stable_end(&log), bus.end(&log));
    assert_eq!(bus.produce("p", old, &log, NOW, "zombie"), Err(Refused::Fenced));
    assert_eq!(bus.end_transaction("p", old, End::Commit), Err(Refused::Fenced));
    assert_eq!(bus.recover_producer("p", old), Err(Refused::Fenced));
    bus.produce("p", new, &log, NOW, "new").unwrap();
}

#[test]
fn a_timed_out_owner_may_take_the_next_epoch_unless_another_process_did() {
    let (mut bus, log) = bus();
    let old = bus.init_producer("p");
    bus.time_out("p");
    bus.produce("p", old, &log, NOW, "nothing was open").unwrap();
    bus.time_out("p");
    assert_eq!(bus.end_transaction("p", old, End::Commit), Err(Refused::TimedOut));
    let next = bus.recover_producer("p", old).unwrap();
    assert_eq!(bus.recover_producer("p", next), Ok(next));
    bus.produce("p", next, &log, NOW, "again").unwrap();
    bus.time_out("p");
    bus.init_producer("p");
    assert_eq!(bus.recover_producer("p", next), Err(Refused::Fenced));
    assert_eq!(visible(&bus, &log), []);
}

#[test]
fn offsets_are_pending_until_the_commit_and_checked_for_member_and_generation() {
    let (mut bus, log) = bus();
    bus.create_group("g", vec![log.clone()]);
    let member = bus.join("g", None);
    let epoch = bus.init_producer("p");
    let offsets = BTreeMap::from([(log.clone(), Committed { offset: 3, metadata: "m".to_owned() })]);
    let unseen = bus.send_offsets(("p", epoch), "g", (&member, 0), offsets.clone());
    assert_eq!(unseen, Err(Refused::IllegalGeneration));
    assert_eq!(bus.poll("g", &member), Notice::Assigned(set(&[&log])));
    let generation = bus.generation_seen("g", &member);
    bus.send_offsets(("p", epoch), "g", (&member, generation), offsets.clone()).unwrap();
    assert!(bus.is_pending("g", &log));
    assert_eq!(bus.committed("g", &log), None);
    bus.end_transaction("p", epoch, End::Commit).unwrap();
    assert!(!bus.is_pending("g", &log));
    assert_eq!(bus.committed("g", &log).unwrap().metadata, "m");
    let journal = bus.take_journal();
    assert_eq!((journal[0].offsets[0].before, journal[0].offsets[0].after), (None, 3));
    let other = bus.join("g", None);
    let stale = bus.send_offsets(("p", epoch), "g", (&member, generation), offsets.clone());
    assert_eq!(stale, Err(Refused::IllegalGeneration));
    bus.kick("g", &member);
    let gone = bus.send_offsets(("p", epoch), "g", (&member, generation), offsets.clone());
    assert_eq!(gone, Err(Refused::UnknownMember));
    // The broker does not check whether the partition is the sender's own.
    bus.poll("g", &other);
    bus.create_group("g2", vec![]);
    let stranger = bus.join("g2", None);
    bus.poll("g2", &stranger);
    let generation = bus.generation_seen("g2", &stranger);
    bus.send_offsets(("p", epoch), "g2", (&stranger, generation), offsets).unwrap();
}

#[test]
fn a_partition_is_granted_only_when_no_member_owns_it() {
    let mut bus: Bus<&str> = Bus::new();
    let (zero, one) = (PartitionId::new("in", 0), PartitionId::new("in", 1));
    bus.create_group("g", vec![zero.clone(), one.clone()]);
    let first = bus.join("g", None);
    assert_eq!(bus.poll("g", &first), Notice::Assigned(set(&[&zero, &one])));
    let second = bus.join("g", None);
    assert_eq!(bus.poll("g", &second), Notice::Quiet);
    assert_eq!(bus.poll("g", &first), Notice::Revoke(set(&[&one])));
    assert_eq!(bus.poll("g", &second), Notice::Quiet);
    let before = bus.generation_seen("g", &second);
    bus.release("g", &first, &set(&[&one]));
    assert_eq!(bus.poll("g", &second), Notice::Assigned(set(&[&one])));
    assert!(bus.generation_seen("g", &second) > before);
    bus.kick("g", &first);
    assert_eq!(bus.poll("g", &first), Notice::Lost);
    assert_eq!(bus.poll("g", &second), Notice::Assigned(set(&[&zero])));
}

#[test]
fn a_static_member_comes_back_to_its_assignment_and_fences_its_older_self() {
    let mut bus: Bus<&str> = Bus::new();
    let zero = PartitionId::new("in", 0);
    bus.create_group("g", vec![zero.clone()]);
    let old = bus.join("g", Some("a"));
    bus.poll("g", &old);
    let other = bus.join("g", Some("b"));
    bus.poll("g", &old);
    bus.poll("g", &other);
    let generation = bus.generation_seen("g", &other);
    bus.leave("g", &old);
    let new = bus.join("g", Some("a"));
    assert_eq!(bus.poll("g", &old), Notice::Lost);
    assert_eq!(bus.poll("g", &new), Notice::Assigned(set(&[&zero])));
    assert_eq!(bus.generation_seen("g", &new), generation);
    let epoch = bus.init_producer("p");
    let sent = bus.send_offsets(("p", epoch), "g", (&old, generation), BTreeMap::new());
    assert_eq!(sent, Err(Refused::FencedInstance));
}

#[test]
fn deleted_records_are_out_of_range_and_the_end_is_not() {
    let (mut bus, log) = bus();
    for value in ["a", "b", "c"] {
        bus.append(&log, NOW, value);
    }
    bus.delete_before(&log, 2);
    assert_eq!(bus.fetch(&log, 1), Fetched::OutOfRange);
    assert_eq!(visible(&bus, &log), [(2, "c")]);
    assert_eq!(bus.fetch(&log, 3), Fetched::Nothing { position: 3 });
    assert_eq!(bus.fetch(&log, 4), Fetched::OutOfRange);
    bus.delete_before(&log, 1);
    assert_eq!(bus.start(&log), 2);
    bus.delete_before(&log, 9);
    assert_eq!(bus.start(&log), 3);
}

#[test]
fn offsets_are_found_by_time() {
    let (mut bus, log) = bus();
    for millis in [5, 3, 9] {
        bus.append(&log, Timestamp::from_millis(millis), "x");
    }
    assert_eq!(bus.offset_for_time(&log, Timestamp::from_millis(4)), Some(0));
    bus.delete_before(&log, 1);
    assert_eq!(bus.offset_for_time(&log, Timestamp::from_millis(4)), Some(2));
    assert_eq!(bus.offset_for_time(&log, Timestamp::from_millis(10)), None);
}
