//! Round trips of both logs, sizes on the wire, hostile bytes.

use std::time::Duration;

use proptest::prelude::*;
use roaring::RoaringTreemap;

use super::*;
use crate::fingerprint::{
    AddressHash, Banding, ExactHash, Fingerprints, IdHash, LowConfidence, Numbers, PageDigest, PerMille, ScopeHash,
    SimHash, SiteHash, Sketch, SketchForm, SlotBits, TitleHash, Width,
};
use crate::protocol::{
    Answer, Checkpoint, Decision, Delivered, ExpiryWatermarks, ForgetTarget, Judged, LogIdentity, Match, NewOriginal,
    PageRequest, PageVerdict, PartitionCheckpoint, PerStage, Placement, Request, RequestBody, RequestId, RequestOffset,
    Rules, RulesNumber, RulesRecord, SameId, Stage, Verdict, VerdictBatch, VerdictRecord,
};
use crate::protocol::{MatchedBy, MinHashRules};
use crate::record::{PartitionId, Source, Timestamp};

mod golden;
mod hostile;
mod strategies;

use strategies::{checkpoints, requests, verdicts};

fn encoded(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_requests(requests, &mut bytes);
    bytes
}

/// Equality of checkpoints does not see where the low watermarks of the judged sets are; this does.
fn own_floors(record: &VerdictRecord) -> Vec<i64> {
    match record {
        VerdictRecord::Checkpoint(checkpoint) => {
            checkpoint.partitions.values().map(|said| said.judged.low_watermark()).collect()
        }
        VerdictRecord::Verdicts(_) | VerdictRecord::Rules(_) => Vec::new(),
    }
}

fn read_all(reader: &mut VerdictReader, first: i64, parts: &[Vec<u8>]) -> Vec<(i64, VerdictRecord)> {
    parts.iter().zip(first..).filter_map(|(part, offset)| reader.push(offset, part).unwrap()).collect()
}

fn a_checkpoint() -> VerdictRecord {
    let mut judged = Judged::default();
    (0..200).map(|number| number * 7).for_each(|offset| assert!(judged.insert(offset)));
    let said =
        PartitionCheckpoint { judged, low_watermark: 3, delivered: Delivered { end: 9, ..Delivered::default() } };
    VerdictRecord::Checkpoint(Box::new(Checkpoint {
        partitions: [(PartitionId::new("pages", 4), said)].into(),
        ..golden::checkpoint()
    }))
}

fn some_rules() -> VerdictRecord {
    VerdictRecord::Rules(RulesRecord { log: LogIdentity(1), number: RulesNumber(2), rules: golden::rules() })
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(requests in prop::collection::vec(requests(), 0..20)) {
        prop_assert_eq!(decode_requests(&encoded(&requests)), Ok(requests));
    }

    #[test]
    fn verdicts_come_back_as_they_were(record in verdicts(), part in 0..300_usize) {
        let parts = encode_verdict(&record, part);
        let found = read_all(&mut VerdictReader::new(), 17, &parts);
        prop_assert_eq!(found.iter().map(|(_, found)| own_floors(found)).collect::<Vec<_>>(), vec![own_floors(&record)]);
        prop_assert_eq!(found, vec![(17, record)]);
    }

    #[test]
    fn a_checkpoint_in_one_piece_comes_back_as_it_was(checkpoint in checkpoints()) {
        prop_assert_eq!(decode_checkpoint(&encode_checkpoint(&checkpoint)), Ok(checkpoint));
    }
}

#[test]
fn requests_are_appended_to_what_is_there() {
    let mut bytes = vec![1, 2, 3];
    encode_requests(&golden::requests(), &mut bytes);
    assert_eq!(decode_requests(&bytes[3..]), Ok(golden::requests()));
}

/// A crawl as it is: six partitions, offsets a few apart, times within the hour, hashes without a pattern.
fn page_of_a_crawl(number: u64) -> (Source, Timestamp, Fingerprints, IdHash) {
    let noise = number.wrapping_add(7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let offset = 3_000_000_000 + i64::try_from(number * 5 + noise % 5).unwrap();
    let source = PartitionId::new("crawler.pages.fetched.v2", i32::try_from(noise >> 60).unwrap() % 6).at(offset);
    let time = Timestamp::from_millis(1_795_000_000_000 + i64::try_from(noise % 3_600_000).unwrap());
    let exact = ExactHash(u128::from(noise) << 64 | u128::from(noise.rotate_left(17)));
    let numbers = Numbers::EMPTY;
    (
        source,
        time,
        Fingerprints { exact, simhash: Some(SimHash::B64(noise.rotate_left(31))), sketch: None, numbers },
        IdHash(!noise),
    )
}

/// What the defaults compute of a page: a sketch of 130 bytes, numbers, site and title besides.
fn full(short: &Fingerprints) -> (Fingerprints, Option<SiteHash>, Option<TitleHash>) {
    let numbers = Numbers::from_hashes(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let sketch = Some(Sketch::from_bytes(&[7; 130]));
    (
        Fingerprints { exact: short.exact, simhash: short.simhash, sketch, numbers },
        Some(SiteHash(7)),
        Some(TitleHash(9)),
    )
}

#[test]
fn a_request_is_as_short_as_promised() {
    for (is_full, most) in [(false, 54), (true, 209)] {
        let requests: Vec<Request> = (0..200)
            .map(|number| {
                let (source, event_time, fingerprints, id) = page_of_a_crawl(number);
                let (fingerprints, site, title) =
                    if is_full { full(&fingerprints) } else { (fingerprints, None, None) };
                let page = PageRequest {
                    source,
                    event_time,
                    id: Some(id),
                    scope: None,
                    site,
                    address: None,
                    title,
                    is_variant: false,
                    fingerprints,
                    digest: PageDigest(9),
                    earlier: None,
                };
                Request { id: RequestId(id.0 ^ 1), body: RequestBody::Page(page) }
            })
            .collect();
        let bytes = encoded(&requests).len().div_ceil(requests.len());
        assert!(bytes <= most, "{bytes} bytes a request");
    }
}

#[test]
fn a_topic_name_is_written_once_in_a_record() {
    let forget = |number| ForgetTarget::Source(PartitionId::new("crawler.pages", number).at(7));
    let requests: Vec<Request> =
        (0..3).map(|number| Request { id: RequestId(1), body: RequestBody::Forget(forget(number)) }).collect();
    let bytes = encoded(&requests);
    assert_eq!(bytes.windows(13).filter(|window| window == b"crawler.pages").count(), 1);
}

#[test]
fn a_verdict_takes_no_more_bytes_than_its_sketch_and_the_maximum_of_the_rest() {
    let usual = SketchForm::new(128, SlotBits::B8).unwrap().with_count();
    let large = SketchForm::new(255, SlotBits::B16).unwrap().with_count().with_bottom(255).unwrap();
    let topic = "t".repeat(249);
    let far = |number: i32| PartitionId::new(&*topic, i32::MAX - number).at(i64::MAX - i64::from(number));
    for form in [None, Some(usual), Some(large)] {
        let sketch = form.map(|form| Sketch::from_bytes(&vec![0xFF; form.bytes()]));
        let numbers = Numbers::from_hashes(&[0xFF00, 0xFF01, 0xFF02, 0xFF03, 0xFF04, 0xFF05, 0xFF06, 0xFF07]).unwrap();
        let fingerprints =
            Fingerprints { exact: ExactHash(u128::MAX), simhash: Some(SimHash::B128(u128::MAX)), sketch, numbers };
        let verdict = |number: i32| {
            let original = NewOriginal {
                fingerprints: fingerprints.clone(),
                id: Some(IdHash(u64::MAX)),
                scope: Some(ScopeHash(u64::MAX)),
                site: Some(SiteHash(u32::MAX)),
                address: Some(AddressHash(u32::MAX)),
                title: Some(TitleHash(u32::MAX)),
                placement: Placement { skipped: u128::MAX, family: Some(u64::MAX), by_title: true },
                cluster: Some(far(number * 5 + 1)),
            };
            let by = MatchedBy::MinHash { slots: u8::MAX, contained: Some(PerMille(u16::MAX)) };
            let of = Match { by, source: far(number * 5 + 2), age_ms: i64::MIN, cluster: far(number * 5 + 3) };
            let decision = Decision::Update { of, original: Some(original) };
            let event_time = Timestamp::from_millis(if number % 2 == 0 { i64::MAX } else { i64::MIN });
            let source = far(number * 5 + 4);
            Verdict {
                request: RequestId(u64::MAX),
                answer: Answer::Page(PageVerdict { source, event_time, digest: PageDigest(u32::MAX), decision }),
            }
        };
        let batch = VerdictBatch {
            log: LogIdentity(u64::MAX),
            rules: RulesNumber(1),
            watermarks: ExpiryWatermarks::START,
            next_request: RequestOffset(i64::MAX),
            verdicts: (0..100).map(verdict).collect(),
        };
        let [bytes] = &encode_verdict(&VerdictRecord::Verdicts(batch), DEFAULT_PART_BYTES)[..] else { panic!() };
        assert!(bytes.len() <= 100 * max_verdict_bytes(form), "{form:?}: {} bytes a verdict", bytes.len() / 100);
    }
}

/// Bytes of one verdict in a record of many; the originals are up to a day back.
fn bytes_a_verdict(is_full: bool, decide: impl Fn(Match, NewOriginal) -> Decision) -> usize {
    let verdicts: Vec<Verdict> = (0..200)
        .map(|number| {
            let (source, event_time, fingerprints, id) = page_of_a_crawl(number);
            let (other, ..) = page_of_a_crawl(number + 3);
            let (fingerprints, site, title) = if is_full { full(&fingerprints) } else { (fingerprints, None, None) };
            let far_back = |source: &Source| source.partition.at(source.offset - 20_000_000);
            let of = Match {
                by: MatchedBy::SimHash { bits: 3 },
                source: far_back(&other),
                age_ms: 80_000_000,
                cluster: far_back(&source),
            };
            let original = NewOriginal {
                fingerprints,
                id: Some(id),
                scope: None,
                site,
                address: None,
                title,
                placement: Placement::EVERYWHERE,
                cluster: None,
            };
            let page = PageVerdict { source, event_time, digest: PageDigest(9), decision: decide(of, original) };
            Verdict { request: RequestId(id.0 ^ 1), answer: Answer::Page(page) }
        })
        .collect();
    let record = VerdictRecord::Verdicts(VerdictBatch { verdicts, ..golden::batch() });
    encode_verdict(&record, DEFAULT_PART_BYTES)[0].len().div_ceil(200)
}

#[test]
fn a_verdict_is_as_short_as_promised() {
    let duplicate = bytes_a_verdict(true, |of, _| Decision::Duplicate { of });
    assert!(duplicate <= 36, "{duplicate} bytes for a duplicate");
    for (is_full, most) in [(false, 55), (true, 211)] {
        let unique = bytes_a_verdict(is_full, |_, original| Decision::Unique { original: Some(original) });
        assert!(unique <= most, "{unique} bytes for a new original");
    }
}

#[test]
fn every_part_of_a_checkpoint_is_as_short_as_asked() {
    let record = a_checkpoint();
    for most in [64, 100, 256] {
        let parts = encode_verdict(&record, most);
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= most), "parts of {most}");
    }
    assert_eq!(encode_verdict(&record, DEFAULT_PART_BYTES).len(), 1);
    assert!(encode_verdict(&record, 0).len() > 1, "a part carries something, however short it should be");
}

#[test]
fn a_reader_that_begins_inside_a_checkpoint_skips_its_rest() {
    let parts = encode_verdict(&a_checkpoint(), 100);
    let mut reader = VerdictReader::new();
    assert_eq!(read_all(&mut reader, 1, &parts[1..]), []);
    assert_eq!(read_all(&mut reader, 50, &parts), [(50, a_checkpoint())]);
    let mut reader = VerdictReader::new();
    assert_eq!(read_all(&mut reader, 1, &parts[2..]), []);
    assert_eq!(read_all(&mut reader, 9, &encode_verdict(&some_rules(), 0)), [(9, some_rules())]);
}

#[test]
fn parts_that_do_not_follow_one_another_are_refused() {
    let parts = encode_verdict(&a_checkpoint(), 100);
    let other = encode_verdict(&VerdictRecord::Checkpoint(Box::new(golden::checkpoint())), 100);
    let rules = encode_verdict(&some_rules(), 0).remove(0);
    let torn = |before: &[&Vec<u8>]| {
        let mut reader = VerdictReader::new();
        let (last, before) = before.split_last().unwrap();
        for part in before {
            reader.push(0, part).unwrap();
        }
        reader.push(0, last).unwrap_err()
    };
    let count = parts.len() as u64;
    let expected = |expected| CodecError::TornCheckpoint { expected, count };
    assert_eq!(torn(&[&parts[0], &parts[2]]), expected(1), "one is missing");
    assert_eq!(torn(&[&parts[0], &parts[1], &parts[1]]), expected(2), "one is doubled");
    assert_eq!(torn(&[&parts[0], &other[1]]), expected(1), "one is of another checkpoint");
    assert_eq!(torn(&[&parts[0], &rules]), expected(1), "another record is between them");
    assert_eq!(torn(&[&parts[0], &parts[0]]), expected(1), "it begins again");
    assert_eq!(torn(&[&rules, &parts[1]]), expected(0), "the beginning is missing");
}

#[test]
fn after_an_error_a_reader_is_as_if_new() {
    let parts = encode_verdict(&a_checkpoint(), 100);
    let mut reader = VerdictReader::new();
    reader.push(0, &parts[0]).unwrap();
    reader.push(1, &parts[2]).unwrap_err();
    assert_eq!(reader.push(2, &parts[1]), Ok(None));
    assert_eq!(read_all(&mut reader, 5, &parts), [(5, a_checkpoint())]);
}
