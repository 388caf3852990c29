//! Bytes that every release must be able to read. They are in `tests/golden` as hexadecimal text.
//!
//! If a test fails here, the layout has changed. That needs a new `FORMAT_VERSION`, new files beside the old ones, and
//! readers that still understand the old ones; never new bytes in an old file.

use super::super::fingerprints::PageHashes;
use super::*;
use crate::fingerprint::SameSite;
use crate::protocol::{Leap, VerdictOffset};
use dupgate_testkit::hex::{hex, records};

const LOG: LogIdentity = LogIdentity(0x0123_4567_89AB_CDEF);

fn check_written(name: &str, golden: &str, written: &[Vec<u8>]) {
    assert!(
        records(golden) == written,
        "the bytes of format version {FORMAT_VERSION} changed: raise FORMAT_VERSION, keep {name} as it is, and add a \
         golden file of the new version. Written now:\n{}",
        hex(written)
    );
}

fn check_verdicts(name: &str, golden: &str, values: &[VerdictRecord]) {
    let written: Vec<Vec<u8>> = values.iter().flat_map(|value| encode_verdict(value, 200)).collect();
    check_written(name, golden, &written);
    let read = read_all(&mut VerdictReader::new(), 0, &records(golden));
    let read: Vec<VerdictRecord> = read.into_iter().map(|(_, record)| record).collect();
    let floors = |records: &[VerdictRecord]| records.iter().map(own_floors).collect::<Vec<_>>();
    assert_eq!(floors(&read), floors(values));
    assert_eq!(read, values, "{name} is no longer read as what it says");
}

#[test]
fn requests_are_as_in_their_file() {
    let golden = include_str!("../../../../tests/golden/requests.v1.hex");
    check_written("requests.v1.hex", golden, &[encoded(&requests())]);
    assert_eq!(decode_requests(&records(golden)[0]), Ok(requests()));
}

#[test]
fn verdicts_are_as_in_their_file() {
    let golden = include_str!("../../../../tests/golden/verdicts.v1.hex");
    check_verdicts("verdicts.v1.hex", golden, &[VerdictRecord::Verdicts(batch())]);
}

#[test]
fn rules_are_as_in_their_file() {
    let golden = include_str!("../../../../tests/golden/rules.v1.hex");
    let few = Rules {
        stages: vec![Stage::Exact],
        same_id: SameId::Duplicate,
        minhash: None,
        number_guard: None,
        simhash_similarity: None,
        same_site: None,
        ..rules()
    };
    let values = [rules(), few];
    let record = |rules| VerdictRecord::Rules(RulesRecord { log: LOG, number: RulesNumber(2), rules });
    check_verdicts("rules.v1.hex", golden, &values.map(record));
}

#[test]
fn a_checkpoint_is_as_in_its_file() {
    let golden = include_str!("../../../../tests/golden/checkpoint.v1.hex");
    check_verdicts("checkpoint.v1.hex", golden, &[VerdictRecord::Checkpoint(Box::new(checkpoint()))]);
}

fn pages() -> PartitionId {
    PartitionId::new("pages", 3)
}

/// Fingerprints and hashes of which those are present whose bits are set, as in the byte that says so.
fn hashes(present: u8) -> (Fingerprints, PageHashes) {
    let has = |bit: u8| present >> bit & 1 == 1;
    let bits = u128::from_be_bytes(std::array::from_fn(|at| present ^ u8::try_from(at).unwrap()));
    let width = [None, Some(Width::B32), Some(Width::B64), Some(Width::B128)][usize::from(present & 3)];
    let fingerprints = Fingerprints {
        exact: ExactHash(u128::from_be_bytes([present; 16])),
        simhash: width.map(|width| SimHash::from_low_bits(width, bits)),
        sketch: has(2).then(|| Sketch::from_bytes(&[present; 18])),
        numbers: Numbers::from_hashes(&[0, 0x0102, 0xFFFE][..usize::from(present >> 6)]).unwrap(),
    };
    let hashes = PageHashes {
        id: has(3).then_some(IdHash(0xAAAA_0000_0000_00AA)),
        scope: has(4).then_some(ScopeHash(0xBBBB_0000_0000_00BB)),
        site: has(5).then_some(SiteHash(0x517E_517E)),
        address: has(6).then_some(AddressHash(0xADD0_ADD0)),
        title: has(7).then_some(TitleHash(0x7171_E171)),
    };
    (fingerprints, hashes)
}

/// Every kind of request, every hash present and absent.
pub(super) fn requests() -> Vec<Request> {
    let page = |(number, present): (i64, u8)| {
        let (fingerprints, PageHashes { id, scope, site, address, title }) = hashes(present);
        RequestBody::Page(PageRequest {
            source: pages().at(1_000_000 + number),
            event_time: Timestamp::from_millis(1_795_000_000_000 - number * 1000),
            id,
            scope,
            site,
            address,
            title,
            is_variant: number % 2 == 1,
            fingerprints,
            digest: PageDigest(0xD16E_5700 + u32::from(present)),
            earlier: None,
        })
    };
    let mut bodies: Vec<RequestBody> = (0..).zip([0x00, 0x55, 0xAA, 0xFF]).map(page).collect();
    bodies.extend([
        RequestBody::Withdraw { source: PartitionId::new("späte-seiten", 0).at(7), reason: Reject::TextTimeout },
        RequestBody::Forget(ForgetTarget::Source(pages().at(999_990))),
        RequestBody::Forget(ForgetTarget::Id(IdHash(0xAAAA_0000_0000_0003))),
        RequestBody::Reopen { partition: pages(), from: 0, to: i64::MAX },
        RequestBody::SetTime(Timestamp::from_millis(1_795_000_000_000)),
    ]);
    let request = |number: u64| RequestId(0x5E5E_0000_0000_0000 + number);
    bodies.into_iter().zip(0..).map(|(body, number)| Request { id: request(number), body }).collect()
}

/// Every kind of answer, with and without each of its options.
pub(super) fn batch() -> VerdictBatch {
    let of = |by, cluster| Match { by, source: pages().at(999_000), age_ms: -86_400_000, cluster: pages().at(cluster) };
    let simhash = |bits| MatchedBy::SimHash { bits };
    let minhash = |contained| MatchedBy::MinHash { slots: 9, contained };
    let original = |present, placement, cluster: Option<i64>| {
        let (fingerprints, PageHashes { id, scope, site, address, title }) = hashes(present);
        let cluster = cluster.map(|offset| pages().at(offset));
        Some(NewOriginal { fingerprints, id, scope, site, address, title, placement, cluster })
    };
    let placed = Placement { skipped: 1 << 127 | 5, family: Some(300), by_title: true };
    let by_title = Placement { by_title: true, ..Placement::EVERYWHERE };
    let decisions = [
        Decision::Unique { original: original(0x00, Placement::EVERYWHERE, None) },
        Decision::Unique { original: None },
        Decision::Update { of: of(simhash(2), 999_000), original: original(0x55, placed, None) },
        Decision::Update { of: of(simhash(3), 5), original: None },
        Decision::Template { of: of(minhash(None), 999_000), original: original(0xAA, by_title, Some(5)) },
        Decision::Template { of: of(minhash(Some(PerMille(750))), 5), original: original(0xFF, placed, Some(5)) },
        Decision::Duplicate { of: of(MatchedBy::Exact, 999_000) },
        Decision::Duplicate { of: of(minhash(Some(PerMille(1000))), 5) },
    ];
    let page = |(number, decision): (i64, Decision)| {
        Answer::Page(PageVerdict {
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
        Answer::TimeSet {
            before: Timestamp::from_millis(1_795_200_000_000),
            after: Timestamp::from_millis(1_795_000_000_000),
        },
    ]);
    let verdict =
        |(number, answer): (u64, Answer)| Verdict { request: RequestId(0x5E5E_0000_0000_0000 + number), answer };
    VerdictBatch {
        log: LOG,
        rules: RulesNumber(300),
        watermarks: watermarks(),
        next_request: RequestOffset(123_456_789),
        verdicts: (0..).zip(answers).map(verdict).collect(),
    }
}

fn watermarks() -> ExpiryWatermarks {
    let times = PerStage {
        exact: Timestamp::from_millis(1_794_000_000_000),
        simhash: Timestamp::MIN,
        minhash: Timestamp::from_millis(-5),
    };
    ExpiryWatermarks { times, first_sequence: 77 }
}

/// Rules with every option, each with a value of its own.
pub(super) fn rules() -> Rules {
    let form = SketchForm::new(128, SlotBits::B8).unwrap().with_count().with_bottom(64).unwrap();
    Rules {
        stages: Stage::ALL.into(),
        max_distance: 3,
        windows: PerStage {
            exact: Duration::from_hours(168),
            simhash: Duration::from_millis(86_400_500),
            minhash: Duration::from_hours(24),
        },
        lateness: Duration::from_hours(1),
        max_future_skew: Duration::from_mins(1),
        max_entries: 10_000_000,
        same_id: SameId::Update,
        minhash: Some(MinHashRules {
            form,
            banding: Banding::new(42, 3, form).unwrap(),
            min_shared_bands: 2,
            one_band_below: 65,
            min_similarity: PerMille(300),
            containment: Some(PerMille(750)),
            low_confidence: LowConfidence {
                below: PerMille(460),
                below_short: PerMille(330),
                short: 200,
                containment: PerMille(800),
                max_distance: 14,
                of_many: true,
            },
            max_bucket: 66,
        }),
        number_guard: Some(PerMille(500)),
        simhash_similarity: Some(PerMille(210)),
        same_site: Some(SameSite { containment: PerMille(950) }),
        dual: None,
    }
}

pub(super) fn checkpoint() -> Checkpoint {
    let above: RoaringTreemap = [10, 11, 12, 500, 1 << 33].into_iter().collect();
    let reopened: RoaringTreemap = (20..25).collect();
    let judged = Judged::from_parts(9, above, reopened);
    let delivered = Delivered { end: 600, pending: [10, 11, 500].into_iter().collect() };
    let partitions = [
        (pages(), PartitionCheckpoint { judged, low_watermark: 15, delivered }),
        (PartitionId::new("other", 0), PartitionCheckpoint::default()),
    ];
    Checkpoint {
        log: LOG,
        rules_number: RulesNumber(2),
        rules: rules(),
        stream_time: Timestamp::from_millis(1_795_000_000_000),
        leap: Some(Leap { from: Timestamp::from_millis(1_795_200_000_000), pages: 300 }),
        watermarks: watermarks(),
        next_sequence: 1_000_078,
        next_request: RequestOffset(123_456_789),
        previous: Some(VerdictOffset(4_200)),
        partitions: partitions.into(),
        applied: vec![RequestId(3), RequestId(1)],
    }
}

#[test]
fn a_barrier_is_ours_without_a_frame() {
    assert_eq!(BARRIER, b"a judge takes over");
    assert!(!BARRIER.starts_with(&MAGIC) && is_ours(BARRIER));
    let mut reader = VerdictReader::new();
    assert_eq!(reader.push(0, BARRIER), Ok(None));
    assert_eq!(reader.push(1, &BARRIER[1..]), Err(CodecError::NotOurs { found: *b" j" }));
}
