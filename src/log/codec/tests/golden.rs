//! Bytes that must be read for ever. They stand in `tests/golden/log` as hexadecimal text.
//!
//! A test that fails here says that the layout changed. That takes a new `FORMAT_VERSION`, new files beside the old
//! ones, and readers that still understand the old ones; never new bytes in an old file.

use super::super::hex::{hex, records};
use super::*;

const ENTRIES_1: &str = include_str!("../../../../tests/golden/log/entries.v1.hex");
const RULINGS_1: &str = include_str!("../../../../tests/golden/log/rulings.v1.hex");
const RULES_1: &str = include_str!("../../../../tests/golden/log/rules.v1.hex");
const CHECKPOINT_1: &str = include_str!("../../../../tests/golden/log/checkpoint.v1.hex");

fn check_written(name: &str, golden: &str, written: &[Vec<u8>]) {
    assert!(
        records(golden) == written,
        "the bytes of format version {FORMAT_VERSION} changed: raise FORMAT_VERSION, keep {name} as it is, and add a \
         golden file of the new version. Written now:\n{}",
        hex(written)
    );
}

fn check_verdict(name: &str, golden: &str, value: &VerdictRecord, part: usize) {
    check_written(name, golden, &encode_verdict(value, part));
    let found = read_all(&mut VerdictReader::new(), 0, &records(golden));
    assert_eq!(found.iter().map(|(_, found)| own_floors(found)).collect::<Vec<_>>(), [own_floors(value)]);
    assert_eq!(found, [(0, value.clone())], "{name} is no longer read as what it says");
}

#[test]
fn entries_of_version_1() {
    check_written("entries.v1.hex", ENTRIES_1, &[encoded(&entries())]);
    assert_eq!(decode_entries(&records(ENTRIES_1)[0]), Ok(entries()));
}

#[test]
fn rulings_of_version_1() {
    check_verdict("rulings.v1.hex", RULINGS_1, &VerdictRecord::Rulings(batch()), 0);
}

#[test]
fn rules_of_version_1() {
    let record = RulesRecord { log: LogIdentity(0x0123_4567_89AB_CDEF), number: RulesNumber(2), rules: rules() };
    check_verdict("rules.v1.hex", RULES_1, &VerdictRecord::Rules(record), 0);
}

#[test]
fn checkpoint_of_version_1() {
    check_verdict("checkpoint.v1.hex", CHECKPOINT_1, &VerdictRecord::Checkpoint(Box::new(checkpoint())), 200);
}

fn pages() -> PartitionId {
    PartitionId::new("pages", 3)
}

fn prints(number: u8) -> Fingerprints {
    Fingerprints {
        exact: ExactHash(u128::from_be_bytes([number; 16])),
        simhash: number.is_multiple_of(2).then_some(SimHash(0x0101_0101_0101_0101 * u64::from(number))),
    }
}

fn page_entry(number: u8) -> EntryBody {
    EntryBody::Page(PageEntry {
        source: pages().at(1_000_000 + i64::from(number)),
        event_time: Timestamp::from_millis(1_795_000_000_000 - i64::from(number) * 1000),
        id: number.is_multiple_of(3).then_some(IdHash(0xAAAA_0000_0000_0000 + u64::from(number))),
        scope: number.is_multiple_of(4).then_some(ScopeHash(0xBBBB_0000_0000_0000 + u64::from(number))),
        fingerprints: prints(number),
        digest: PageDigest(0xD16E_5700 + u32::from(number)),
    })
}

/// Every kind of entry, every hash present and absent.
pub(super) fn entries() -> Vec<Entry> {
    let mut bodies: Vec<EntryBody> = [1, 2, 3, 12].map(page_entry).into();
    bodies.extend([
        EntryBody::Withdraw { source: PartitionId::new("späte-seiten", 0).at(7), reason: Reject::TextTimeout },
        EntryBody::Forget(ForgetTarget::Source(pages().at(999_990))),
        EntryBody::Forget(ForgetTarget::Id(IdHash(0xAAAA_0000_0000_0003))),
        EntryBody::Reopen { partition: pages(), from: 0, to: i64::MAX },
    ]);
    let request = |number: u64| RequestId(0x5E5E_0000_0000_0000 + number);
    bodies.into_iter().zip(0..).map(|(body, number)| Entry { request: request(number), body }).collect()
}

/// Every kind of answer, with and without each of its options.
pub(super) fn batch() -> RulingBatch {
    let of = |stage, distance, cluster| Match {
        stage,
        distance,
        source: pages().at(999_000),
        age_ms: -86_400_000,
        cluster: pages().at(cluster),
    };
    let original = |number, cluster| NewOriginal {
        fingerprints: prints(number),
        id: Some(IdHash(0xAAAA)),
        scope: (number > 2).then_some(ScopeHash(0xBBBB)),
        cluster,
    };
    let decisions = [
        Decision::Unique { original: Some(original(1, None)) },
        Decision::Unique { original: None },
        Decision::Update { of: of(Stage::SimHash, 2, 999_000), original: Some(original(4, Some(pages().at(5)))) },
        Decision::Update { of: of(Stage::SimHash, 3, 5), original: None },
        Decision::Duplicate { of: of(Stage::Exact, 0, 999_000) },
        Decision::Duplicate { of: of(Stage::SimHash, 8, 5) },
    ];
    let page = |(number, decision): (i64, Decision)| {
        Answer::Page(PageRuling {
            source: pages().at(1_000_000 + number),
            event_time: Timestamp::from_millis(1_795_000_000_000 + number * 1000),
            digest: PageDigest(0xD16E_5700),
            decision,
        })
    };
    let mut answers: Vec<Answer> = (0..).zip(decisions).map(page).collect();
    answers.extend([
        Answer::Withdrawn { source: pages().at(1_000_010), reason: Reject::Gone },
        Answer::Forgotten(ForgetTarget::Source(pages().at(999_000))),
        Answer::Forgotten(ForgetTarget::Id(IdHash(0xAAAA))),
        Answer::Reopened { partition: PartitionId::new("other", -1), from: -5, to: 5 },
    ]);
    let ruling =
        |(number, answer): (u64, Answer)| Ruling { request: RequestId(0x5E5E_0000_0000_0000 + number), answer };
    RulingBatch {
        log: LogIdentity(0x0123_4567_89AB_CDEF),
        rules: RulesNumber(300),
        tails: tails(),
        next_entry: 123_456_789,
        rulings: (0..).zip(answers).map(ruling).collect(),
    }
}

fn tails() -> Tails {
    let times = Windows { exact: Timestamp::from_millis(1_794_000_000_000), simhash: Timestamp::MIN };
    Tails { times, first_sequence: 77 }
}

pub(super) fn rules() -> Rules {
    Rules {
        stages: Stage::ALL.into(),
        max_distance: 3,
        windows: Windows { exact: Duration::from_hours(168), simhash: Duration::from_millis(86_400_500) },
        lateness: Duration::from_hours(1),
        max_future_skew: Duration::from_mins(1),
        max_entries: 10_000_000,
        same_id: SameId::Update,
    }
}

pub(super) fn checkpoint() -> Checkpoint {
    let above: RoaringTreemap = [10, 11, 12, 500, 1 << 33].into_iter().collect();
    let reopened: RoaringTreemap = (20..25).collect();
    let judged = Judged::from_parts(9, above, reopened);
    let partitions = [
        (pages(), PartitionCheckpoint { judged, floor: 15, delivered: 600 }),
        (PartitionId::new("other", 0), PartitionCheckpoint::default()),
    ];
    Checkpoint {
        log: LogIdentity(0x0123_4567_89AB_CDEF),
        rules_number: RulesNumber(2),
        rules: rules(),
        newest: Timestamp::from_millis(1_795_000_000_000),
        tails: tails(),
        next_sequence: 1_000_078,
        next_entry: 123_456_789,
        previous: Some(4_200),
        partitions: partitions.into(),
        applied: vec![RequestId(3), RequestId(1)],
    }
}
