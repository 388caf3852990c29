//! Bytes that every release must be able to read. They are in `tests/golden` as hexadecimal text.
//!
//! If a test fails here, the layout has changed. That needs a new `FORMAT_VERSION`, new files beside the old ones, and
//! readers that still understand the old ones; never new bytes in an old file.

use super::super::versions::{PENDING_VERSION, STREAM_TIME_VERSION};
use super::*;
use crate::fingerprint::{AddressHash, PerMille, SameSite, SiteHash, TitleHash};
use crate::protocol::{Leap, MatchedBy, RequestOffset, VerdictOffset};
use dupgate_testkit::hex::{hex, records};

const REQUESTS: [&str; 3] = [
    include_str!("../../../../tests/golden/requests.v1.hex"),
    include_str!("../../../../tests/golden/requests.v2.hex"),
    include_str!("../../../../tests/golden/requests.v3.hex"),
];
const VERDICTS: [&str; 3] = [
    include_str!("../../../../tests/golden/verdicts.v1.hex"),
    include_str!("../../../../tests/golden/verdicts.v2.hex"),
    include_str!("../../../../tests/golden/verdicts.v3.hex"),
];
const RULES: [&str; 3] = [
    include_str!("../../../../tests/golden/rules.v1.hex"),
    include_str!("../../../../tests/golden/rules.v2.hex"),
    include_str!("../../../../tests/golden/rules.v3.hex"),
];
const CHECKPOINT: [&str; 3] = [
    include_str!("../../../../tests/golden/checkpoint.v1.hex"),
    include_str!("../../../../tests/golden/checkpoint.v2.hex"),
    include_str!("../../../../tests/golden/checkpoint.v3.hex"),
];

/// What options bring about, and nothing else, is written as version 4.
const WITH_OPTIONS: [&str; 3] = [
    include_str!("../../../../tests/golden/rules.v4.hex"),
    include_str!("../../../../tests/golden/verdicts_contained.v4.hex"),
    include_str!("../../../../tests/golden/checkpoint.v4.hex"),
];
/// Rules of which low estimates need a second measure, and nothing else, are written as version 5.
const LOW_CONFIDENCE: [&str; 2] =
    [include_str!("../../../../tests/golden/rules.v5.hex"), include_str!("../../../../tests/golden/checkpoint.v5.hex")];
const REQUESTS_4: &str = include_str!("../../../../tests/golden/requests.v4.hex");
const VERDICTS_4: &str = include_str!("../../../../tests/golden/verdicts.v4.hex");

/// Sites, variants, originals that not all tables hold, and the rules that go with them are written as version 6.
const OF_SITES: [&str; 3] = [
    include_str!("../../../../tests/golden/requests.v6.hex"),
    include_str!("../../../../tests/golden/verdicts.v6.hex"),
    include_str!("../../../../tests/golden/rules.v6.hex"),
];

/// Pages and originals with an address that their id does not say are written as version 7.
const AT_ADDRESSES: [&str; 2] = [
    include_str!("../../../../tests/golden/requests.v7.hex"),
    include_str!("../../../../tests/golden/verdicts.v7.hex"),
];

/// Checkpoints with positions that were delivered once, and are judged again and on their way, are written as version
/// 9: the rules of the first take version 3, those of the second version 8.
const ON_THEIR_WAY: [&str; 2] = [
    include_str!("../../../../tests/golden/checkpoint.v9.hex"),
    include_str!("../../../../tests/golden/checkpoint_one_key.v9.hex"),
];

/// Pages and originals with a title are written as version 10.
const WITH_TITLES: [&str; 2] = [
    include_str!("../../../../tests/golden/requests.v10.hex"),
    include_str!("../../../../tests/golden/verdicts.v10.hex"),
];

/// A checkpoint while pages are far ahead of the stream time, and what sets that back, is written as version 11.
const WITH_LEAP: &str = include_str!("../../../../tests/golden/checkpoint.v11.hex");
const TIME_SET: [&str; 2] = [
    include_str!("../../../../tests/golden/requests.v11.hex"),
    include_str!("../../../../tests/golden/verdicts.v11.hex"),
];

/// Rules under which a short page needs a single key are written as version 8.
const RULES_8: &str = include_str!("../../../../tests/golden/rules.v8.hex");

fn check_written(name: &str, golden: &str, written: &[Vec<u8>]) {
    assert!(
        records(golden) == written,
        "the bytes of format version {FORMAT_VERSION} changed: raise FORMAT_VERSION, keep {name} as it is, and add a \
         golden file of the new version. Written now:\n{}",
        hex(written)
    );
}

fn check_read(name: &str, golden: &str, value: &VerdictRecord) {
    let found = read_all(&mut VerdictReader::new(), 0, &records(golden));
    assert_eq!(found.iter().map(|(_, found)| own_floors(found)).collect::<Vec<_>>(), [own_floors(value)]);
    assert_eq!(found, [(0, value.clone())], "{name} is no longer read as what it says");
}

/// The value of today and those of the versions before against their files; only today's bytes are written.
fn check_verdict(name: &str, golden: [&str; 3], value: &VerdictRecord, before: [&VerdictRecord; 2], part: usize) {
    let [one, two, three] = golden;
    check_written(&format!("{name}.v3.hex"), three, &encode_verdict(value, part));
    check_read(&format!("{name}.v3.hex"), three, value);
    check_read(&format!("{name}.v2.hex"), two, before[1]);
    check_read(&format!("{name}.v1.hex"), one, before[0]);
}

/// What a version knew of fingerprints: the first no sketches, the first two no numbers.
fn as_of(version: u8, fingerprints: &mut Fingerprints) {
    if version < 2 {
        fingerprints.sketch = None;
    }
    fingerprints.numbers = Numbers::EMPTY;
}

#[test]
fn requests_of_all_versions() {
    let [one, two, three] = REQUESTS;
    check_written("requests.v3.hex", three, &[encoded(&requests())]);
    assert_eq!(decode_requests(&records(three)[0]), Ok(requests()));
    for (version, golden) in [(1, one), (2, two)] {
        let mut before = requests();
        for request in &mut before {
            if let RequestBody::Page(page) = &mut request.body {
                as_of(version, &mut page.fingerprints);
            }
        }
        assert_eq!(decode_requests(&records(golden)[0]), Ok(before));
    }
}

#[test]
fn verdicts_of_all_versions() {
    let before = |version: u8| {
        let mut before = batch();
        if version < 2 {
            before.watermarks = tails_1();
        }
        before.verdicts.retain(|verdict| !is_template(verdict));
        for verdict in &mut before.verdicts {
            if let Answer::Page(page) = &mut verdict.answer
                && let Decision::Unique { original: Some(original) } | Decision::Update { original: Some(original), .. } =
                    &mut page.decision
            {
                as_of(version, &mut original.fingerprints);
            }
        }
        VerdictRecord::Verdicts(before)
    };
    check_verdict("verdicts", VERDICTS, &VerdictRecord::Verdicts(batch()), [&before(1), &before(2)], 0);
}

/// What only version 4 can say.
#[test]
fn a_simhash_of_other_than_64_bits_takes_version_4() {
    check_written("requests.v4.hex", REQUESTS_4, &[encoded(&other_widths())]);
    assert_eq!(decode_requests(&records(REQUESTS_4)[0]), Ok(other_widths()));
    let value = VerdictRecord::Verdicts(VerdictBatch { verdicts: verdicts_of_other_widths(), ..batch() });
    check_written("verdicts.v4.hex", VERDICTS_4, &encode_verdict(&value, 0));
    check_read("verdicts.v4.hex", VERDICTS_4, &value);
    // One of them is enough, and without one older releases can read the record.
    let version = |requests: &[Request]| encoded(requests)[2];
    assert_eq!(version(&requests()), DEFAULT_VERSION);
    assert_eq!(version(&[requests(), other_widths()].concat()), OPTIONS_VERSION);
    for request in other_widths() {
        assert_eq!(version(&[request]), OPTIONS_VERSION);
    }
}

fn is_template(verdict: &Verdict) -> bool {
    matches!(&verdict.answer, Answer::Page(page) if matches!(page.decision, Decision::Template { .. }))
}

#[test]
fn rules_of_all_versions() {
    let record = |rules| {
        VerdictRecord::Rules(RulesRecord { log: LogIdentity(0x0123_4567_89AB_CDEF), number: RulesNumber(2), rules })
    };
    check_verdict("rules", RULES, &record(rules()), [&record(rules_1()), &record(rules_2())], 0);
}

#[test]
fn checkpoint_of_all_versions() {
    let one = Checkpoint { rules: rules_1(), watermarks: tails_1(), ..checkpoint() };
    let two = Checkpoint { rules: rules_2(), ..checkpoint() };
    let [value, one, two] = [checkpoint(), one, two].map(|checkpoint| VerdictRecord::Checkpoint(Box::new(checkpoint)));
    check_verdict("checkpoint", CHECKPOINT, &value, [&one, &two], 200);
}

/// What the defaults write.
#[test]
fn rules_with_low_confidence_are_written_as_a_version_of_their_own() {
    let low_confidence = LowConfidence { below: PerMille(330), containment: PerMille(800), ..LowConfidence::DISABLED };
    let minhash =
        rules().minhash.map(|minhash| MinHashRules { form: minhash.form.with_count(), low_confidence, ..minhash });
    let rules = Rules { minhash, ..rules() };
    let record = RulesRecord { log: LogIdentity(0x0123_4567_89AB_CDEF), number: RulesNumber(2), rules: rules.clone() };
    let values = [
        ("rules", VerdictRecord::Rules(record)),
        ("checkpoint", VerdictRecord::Checkpoint(Box::new(Checkpoint { rules, ..checkpoint() }))),
    ];
    for ((name, value), golden) in values.iter().zip(LOW_CONFIDENCE) {
        check_written(&format!("{name}.v5.hex"), golden, &encode_verdict(value, 200));
        check_read(&format!("{name}.v5.hex"), golden, value);
    }
}

#[test]
fn sites_variants_and_placements_are_written_as_a_version_of_their_own() {
    let [requests_6, verdicts_6, rules_6] = OF_SITES;
    let requests: Vec<Request> = [(Some(SiteHash(0x517E_517E)), false), (Some(SiteHash(7)), true), (None, true)]
        .into_iter()
        .zip(1_u8..)
        .map(|((site, is_variant), number)| {
            let RequestBody::Page(page) = page_request(number) else { panic!() };
            let body = RequestBody::Page(PageRequest { site, is_variant, ..page });
            Request { id: RequestId(0x5E5E_0000_0000_0000 + u64::from(number)), body }
        })
        .collect();
    check_written("requests.v6.hex", requests_6, &[encoded(&requests)]);
    assert_eq!(decode_requests(&records(requests_6)[0]), Ok(requests));

    let placed = [
        (Some(SiteHash(0x517E_517E)), Placement::EVERYWHERE),
        (None, Placement { skipped: 1 << 127 | 5, ..Placement::EVERYWHERE }),
        (Some(SiteHash(7)), Placement { skipped: 1, family: Some(300), by_title: false }),
    ];
    let mut value = batch();
    for (original, (site, placement)) in originals_of(&mut value).zip(placed) {
        (original.site, original.placement) = (site, placement);
    }
    let value = VerdictRecord::Verdicts(value);
    check_written("verdicts.v6.hex", verdicts_6, &encode_verdict(&value, 0));
    check_read("verdicts.v6.hex", verdicts_6, &value);

    let value = rules_of_sites(0);
    check_written("rules.v6.hex", rules_6, &encode_verdict(&value, 0));
    check_read("rules.v6.hex", rules_6, &value);
}

#[test]
fn rules_for_short_pages_are_written_as_a_version_of_their_own() {
    let value = rules_of_sites(64);
    check_written("rules.v8.hex", RULES_8, &encode_verdict(&value, 0));
    check_read("rules.v8.hex", RULES_8, &value);
}

#[test]
fn checkpoints_with_positions_on_their_way_again_are_written_as_a_version_of_their_own() {
    let VerdictRecord::Rules(RulesRecord { rules, .. }) = rules_of_sites(64) else { panic!() };
    for (name, golden, rules) in [("", ON_THEIR_WAY[0], super::golden::rules()), ("_one_key", ON_THEIR_WAY[1], rules)] {
        let mut value = Checkpoint { rules, ..checkpoint() };
        let version = encode_checkpoint(&value)[2];
        assert!(version < PENDING_VERSION, "what does not need it keeps its version");
        let said = value.partitions.get_mut(&pages()).unwrap();
        said.delivered = Delivered::from_parts(600, [10, 11, 500].into_iter().collect());
        assert_eq!(encode_checkpoint(&value)[2], PENDING_VERSION);
        let name = format!("checkpoint{name}.v9.hex");
        let value = VerdictRecord::Checkpoint(Box::new(value));
        check_written(&name, golden, &encode_verdict(&value, 200));
        check_read(&name, golden, &value);
    }
}

/// Rules with every setting of version 6, and the one of version 8.
fn rules_of_sites(one_band_below: u16) -> VerdictRecord {
    let low_confidence = LowConfidence {
        below: PerMille(460),
        below_short: PerMille(330),
        short: 200,
        containment: PerMille(800),
        max_distance: 14,
        of_many: true,
    };
    let minhash = rules().minhash.map(|minhash| MinHashRules {
        form: minhash.form.with_count(),
        low_confidence,
        max_bucket: 64,
        one_band_below,
        ..minhash
    });
    let same_site = Some(SameSite { containment: PerMille(950) });
    let rules = Rules { minhash, simhash_similarity: Some(PerMille(200)), same_site, ..rules() };
    VerdictRecord::Rules(RulesRecord { log: LogIdentity(0x0123_4567_89AB_CDEF), number: RulesNumber(2), rules })
}

#[test]
fn addresses_that_ids_do_not_say_are_written_as_a_version_of_their_own() {
    let [requests_7, verdicts_7] = AT_ADDRESSES;
    let at = |site, address| (Some(SiteHash(site)), Some(AddressHash(address)));
    let (variant, named) = (at(0x517E_517E, 0xADD0_ADD0), at(7, 9));
    let page = |number: u8, (site, address), is_variant| {
        let RequestBody::Page(page) = page_request(number) else { panic!() };
        let body = RequestBody::Page(PageRequest { site, address, is_variant, ..page });
        Request { id: RequestId(0x5E5E_0000_0000_0000 + u64::from(number)), body }
    };
    let without = page(4, (Some(SiteHash(7)), None), true);
    let requests =
        [page(1, variant, true), page(2, named, false), page(3, (None, Some(AddressHash(0))), true), without.clone()];
    check_written("requests.v7.hex", requests_7, &[encoded(&requests)]);
    assert_eq!(decode_requests(&records(requests_7)[0]), Ok(requests.into()));
    assert_eq!(encoded(&[without])[2], SITES_VERSION, "what does not need it keeps its version");

    let mut value = batch();
    let placed = [
        (variant, Placement { skipped: 5, family: Some(300), by_title: false }),
        ((None, named.1), Placement::EVERYWHERE),
    ];
    for (original, ((site, address), placement)) in originals_of(&mut value).zip(placed) {
        (original.site, original.address, original.placement) = (site, address, placement);
    }
    let value = VerdictRecord::Verdicts(value);
    let written = encode_verdict(&value, 0);
    check_written("verdicts.v7.hex", verdicts_7, &written);
    check_read("verdicts.v7.hex", verdicts_7, &value);

    // A reader of version 6 takes what it has no flag for as broken, not as something else.
    let mut old = written.into_iter().next().unwrap();
    old[2] = SITES_VERSION;
    let length = old.len() - 4;
    let checksum = crc32fast::hash(&old[..length]);
    old[length..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(VerdictReader::new().push(0, &old), Err(CodecError::BadValue { what: "more", .. })));
}

#[test]
fn a_leap_is_written_as_a_version_of_its_own() {
    let leap = Leap { from: Timestamp::from_millis(1_795_200_000_000), pages: 300 };
    let value = Checkpoint { leap: Some(leap), ..checkpoint() };
    let value = VerdictRecord::Checkpoint(Box::new(value));
    let written = encode_verdict(&value, 200);
    check_written("checkpoint.v11.hex", WITH_LEAP, &written);
    check_read("checkpoint.v11.hex", WITH_LEAP, &value);
    assert!(encode_checkpoint(&checkpoint())[2] < STREAM_TIME_VERSION, "what does not need it keeps its version");
}

#[test]
fn what_sets_the_stream_time_back_is_written_as_a_version_of_its_own() {
    let [requests_11, verdicts_11] = TIME_SET;
    let (before, after) = (Timestamp::from_millis(1_795_200_000_000), Timestamp::from_millis(1_795_000_000_000));
    let id = RequestId(0x5E5E_0000_0000_0000);
    let asked = vec![Request { id, body: RequestBody::SetTime(after) }];
    check_written("requests.v11.hex", requests_11, &[encoded(&asked)]);
    assert_eq!(decode_requests(&records(requests_11)[0]), Ok(asked));
    let answer = Answer::TimeSet { before, after };
    let value = VerdictRecord::Verdicts(VerdictBatch { verdicts: vec![Verdict { request: id, answer }], ..batch() });
    check_written("verdicts.v11.hex", verdicts_11, &encode_verdict(&value, 200));
    check_read("verdicts.v11.hex", verdicts_11, &value);
    // As an older version, it would be of no known kind.
    let mut old = records(requests_11)[0].clone();
    old[2] = STREAM_TIME_VERSION - 1;
    let length = old.len() - 4;
    let checksum = crc32fast::hash(&old[..length]);
    old[length..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(decode_requests(&old), Err(CodecError::BadValue { what: "request", .. })));
}

#[test]
fn titles_are_written_as_a_version_of_their_own() {
    let [requests_10, verdicts_10] = WITH_TITLES;
    let page = |number: u8, site: Option<u32>, address: Option<u32>, title: Option<u32>, is_variant| {
        let RequestBody::Page(page) = page_request(number) else { panic!() };
        let (site, address, title) = (site.map(SiteHash), address.map(AddressHash), title.map(TitleHash));
        let body = RequestBody::Page(PageRequest { site, address, title, is_variant, ..page });
        Request { id: RequestId(0x5E5E_0000_0000_0000 + u64::from(number)), body }
    };
    let without = page(4, Some(7), Some(9), None, true);
    let requests = [
        page(1, Some(0x517E_517E), Some(0xADD0_ADD0), Some(0x7171_E171), true),
        page(2, None, None, Some(0), false),
        page(3, Some(7), None, Some(u32::MAX), false),
        without.clone(),
    ];
    check_written("requests.v10.hex", requests_10, &[encoded(&requests)]);
    assert_eq!(decode_requests(&records(requests_10)[0]), Ok(requests.into()));
    assert_eq!(encoded(&[without])[2], ADDRESS_VERSION, "what does not need it keeps its version");

    let mut value = batch();
    let member = Placement { skipped: 5, family: Some(300), by_title: true };
    let titled = [
        (Some(0x7171_E171), member),
        (Some(0), Placement::EVERYWHERE),
        (None, Placement { by_title: true, ..Placement::EVERYWHERE }),
    ];
    for (original, (title, placement)) in originals_of(&mut value).zip(titled) {
        (original.site, original.title, original.placement) = (Some(SiteHash(7)), title.map(TitleHash), placement);
    }
    let value = VerdictRecord::Verdicts(value);
    let written = encode_verdict(&value, 0);
    check_written("verdicts.v10.hex", verdicts_10, &written);
    check_read("verdicts.v10.hex", verdicts_10, &value);

    // A reader of version 9 takes what it has no flag for as broken, not as something else.
    for (mut old, what) in [(written.into_iter().next().unwrap(), "more"), (records(requests_10).remove(0), "site")] {
        old[2] = PENDING_VERSION;
        let length = old.len() - 4;
        let checksum = crc32fast::hash(&old[..length]);
        old[length..].copy_from_slice(&checksum.to_le_bytes());
        let [verdicts, requests] = [VerdictReader::new().push(0, &old).err(), decode_requests(&old).err()];
        let is_bad = |error: &CodecError| matches!(error, CodecError::BadValue { what: found, .. } if *found == what);
        assert!([verdicts, requests].iter().flatten().any(is_bad), "{what}");
    }
}

/// The originals that verdicts make.
fn originals_of(batch: &mut VerdictBatch) -> impl Iterator<Item = &mut NewOriginal> {
    batch.verdicts.iter_mut().filter_map(|verdict| match &mut verdict.answer {
        Answer::Page(page) => match &mut page.decision {
            Decision::Unique { original } | Decision::Update { original, .. } | Decision::Template { original, .. } => {
                original.as_mut()
            }
            Decision::Duplicate { .. } => None,
        },
        Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => None,
    })
}

#[test]
fn options_are_written_as_a_version_of_their_own() {
    let record = RulesRecord { log: LogIdentity(0x0123_4567_89AB_CDEF), number: RulesNumber(2), rules: rules_4() };
    let with_options = Checkpoint { rules: rules_4(), ..checkpoint() };
    let values = [
        ("rules", VerdictRecord::Rules(record)),
        ("verdicts_contained", VerdictRecord::Verdicts(batch_4())),
        ("checkpoint", VerdictRecord::Checkpoint(Box::new(with_options))),
    ];
    for ((name, value), golden) in values.iter().zip(WITH_OPTIONS) {
        check_written(&format!("{name}.v4.hex"), golden, &encode_verdict(value, 200));
        check_read(&format!("{name}.v4.hex"), golden, value);
    }
    // A reader of version 3 takes what it has no flag for as broken, not as something else.
    let mut old = encode_verdict(&VerdictRecord::Verdicts(batch_4()), 0).remove(0);
    old[2] = DEFAULT_VERSION;
    let length = old.len() - 4;
    let checksum = crc32fast::hash(&old[..length]);
    old[length..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(VerdictReader::new().push(0, &old), Err(CodecError::BadValue { what: "verdict", .. })));
}

/// Rules with every option of version 4.
fn rules_4() -> Rules {
    let minhash = rules().minhash.map(|minhash| MinHashRules {
        form: minhash.form.with_count().with_bottom(64).unwrap(),
        containment: Some(PerMille(750)),
        ..minhash
    });
    Rules { minhash, ..rules() }
}

/// Pages that are matched by containment, in every kind of decision.
fn batch_4() -> VerdictBatch {
    let mut batch = batch();
    for (number, verdict) in (0_u16..).zip(&mut batch.verdicts) {
        let Answer::Page(page) = &mut verdict.answer else { continue };
        let (Decision::Update { of, .. } | Decision::Template { of, .. } | Decision::Duplicate { of }) =
            &mut page.decision
        else {
            continue;
        };
        // The second of each kind stays as it was.
        if of.cluster == of.source {
            of.by = MatchedBy::MinHash { slots: of.by.distance(), contained: Some(PerMille(750 + number)) };
        }
    }
    batch
}

/// Version 1 knew two stages; the window and tail of the third are those of the second.
fn rules_1() -> Rules {
    let windows = PerStage { minhash: rules().windows.simhash, ..rules().windows };
    Rules { stages: vec![Stage::Exact, Stage::SimHash], windows, minhash: None, ..rules_2() }
}

/// Version 2 knew no numbers.
fn rules_2() -> Rules {
    Rules { number_guard: None, ..rules() }
}

fn tails_1() -> ExpiryWatermarks {
    ExpiryWatermarks { times: PerStage { minhash: watermarks().times.simhash, ..watermarks().times }, ..watermarks() }
}

fn pages() -> PartitionId {
    PartitionId::new("pages", 3)
}

fn prints(number: u8) -> Fingerprints {
    Fingerprints {
        exact: ExactHash(u128::from_be_bytes([number; 16])),
        simhash: number.is_multiple_of(2).then_some(SimHash::B64(0x0101_0101_0101_0101 * u64::from(number))),
        sketch: number.is_multiple_of(4).then(|| Sketch::from_bytes(&[number; 16])),
        numbers: Numbers::from_hashes(&[0, 0x0102, 0x0304, 0xFFFE][..usize::from(number % 5)]).unwrap(),
    }
}

/// Codes of both other widths, by turns.
fn other_prints(number: u8) -> Fingerprints {
    let width = if number.is_multiple_of(2) { Width::B32 } else { Width::B128 };
    let bits = u128::from_be_bytes(std::array::from_fn(|at| number * 16 + u8::try_from(at).unwrap()));
    Fingerprints { simhash: Some(SimHash::from_low_bits(width, bits)), ..prints(number) }
}

/// Pages of both other widths.
pub(super) fn other_widths() -> Vec<Request> {
    let page = |number: u8| {
        let RequestBody::Page(page) = page_request(number) else { panic!() };
        let body = RequestBody::Page(PageRequest { fingerprints: other_prints(number), ..page });
        Request { id: RequestId(0x5E5E_0000_0000_0000 + u64::from(number)), body }
    };
    (2..6).map(page).collect()
}

fn verdicts_of_other_widths() -> Vec<Verdict> {
    let mut verdicts = batch().verdicts;
    let mut number = 2;
    for verdict in &mut verdicts {
        if let Answer::Page(page) = &mut verdict.answer
            && let Decision::Unique { original: Some(original) }
            | Decision::Update { original: Some(original), .. }
            | Decision::Template { original: Some(original), .. } = &mut page.decision
        {
            original.fingerprints = other_prints(number);
            number += 1;
        }
    }
    verdicts
}

fn page_request(number: u8) -> RequestBody {
    RequestBody::Page(PageRequest {
        source: pages().at(1_000_000 + i64::from(number)),
        event_time: Timestamp::from_millis(1_795_000_000_000 - i64::from(number) * 1000),
        id: number.is_multiple_of(3).then_some(IdHash(0xAAAA_0000_0000_0000 + u64::from(number))),
        scope: number.is_multiple_of(4).then_some(ScopeHash(0xBBBB_0000_0000_0000 + u64::from(number))),
        site: None,
        address: None,
        title: None,
        is_variant: false,
        fingerprints: prints(number),
        digest: PageDigest(0xD16E_5700 + u32::from(number)),
    })
}

/// Every kind of request, every hash present and absent.
pub(super) fn requests() -> Vec<Request> {
    let mut bodies: Vec<RequestBody> = [1, 2, 3, 12].map(page_request).into();
    bodies.extend([
        RequestBody::Withdraw { source: PartitionId::new("späte-seiten", 0).at(7), reason: Reject::TextTimeout },
        RequestBody::Forget(ForgetTarget::Source(pages().at(999_990))),
        RequestBody::Forget(ForgetTarget::Id(IdHash(0xAAAA_0000_0000_0003))),
        RequestBody::Reopen { partition: pages(), from: 0, to: i64::MAX },
    ]);
    let request = |number: u64| RequestId(0x5E5E_0000_0000_0000 + number);
    bodies.into_iter().zip(0..).map(|(body, number)| Request { id: request(number), body }).collect()
}

/// Every kind of answer, with and without each of its options.
pub(super) fn batch() -> VerdictBatch {
    let of = |by, cluster| Match { by, source: pages().at(999_000), age_ms: -86_400_000, cluster: pages().at(cluster) };
    let simhash = |bits| MatchedBy::SimHash { bits };
    let original = |number, cluster| NewOriginal {
        fingerprints: prints(number),
        id: Some(IdHash(0xAAAA)),
        scope: (number > 2).then_some(ScopeHash(0xBBBB)),
        site: None,
        address: None,
        title: None,
        placement: Placement::EVERYWHERE,
        cluster,
    };
    let decisions = [
        Decision::Unique { original: Some(original(1, None)) },
        Decision::Unique { original: None },
        Decision::Update { of: of(simhash(2), 999_000), original: Some(original(4, Some(pages().at(5)))) },
        Decision::Update { of: of(simhash(3), 5), original: None },
        Decision::Duplicate { of: of(MatchedBy::Exact, 999_000) },
        Decision::Duplicate { of: of(simhash(8), 5) },
    ];
    // What a later version brought is at the end, so that the rest is what older ones wrote.
    let templates = [
        Decision::Template {
            of: of(MatchedBy::MinHash { slots: 9, contained: None }, 999_000),
            original: Some(original(4, None)),
        },
        Decision::Template { of: of(simhash(1), 5), original: None },
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
    ]);
    answers.extend((20..).zip(templates).map(page));
    let verdict =
        |(number, answer): (u64, Answer)| Verdict { request: RequestId(0x5E5E_0000_0000_0000 + number), answer };
    VerdictBatch {
        log: LogIdentity(0x0123_4567_89AB_CDEF),
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

pub(super) fn rules() -> Rules {
    let form = SketchForm::new(128, SlotBits::B8).unwrap();
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
            one_band_below: 0,
            min_similarity: PerMille(300),
            containment: None,
            low_confidence: LowConfidence::DISABLED,
            max_bucket: 0,
        }),
        number_guard: Some(PerMille(500)),
        simhash_similarity: None,
        same_site: None,
    }
}

pub(super) fn checkpoint() -> Checkpoint {
    let above: RoaringTreemap = [10, 11, 12, 500, 1 << 33].into_iter().collect();
    let reopened: RoaringTreemap = (20..25).collect();
    let judged = Judged::from_parts(9, above, reopened);
    let partitions = [
        (pages(), PartitionCheckpoint { judged, low_watermark: 15, delivered: Delivered::up_to(600) }),
        (PartitionId::new("other", 0), PartitionCheckpoint::default()),
    ];
    Checkpoint {
        log: LogIdentity(0x0123_4567_89AB_CDEF),
        rules_number: RulesNumber(2),
        rules: rules(),
        stream_time: Timestamp::from_millis(1_795_000_000_000),
        leap: None,
        watermarks: watermarks(),
        next_sequence: 1_000_078,
        next_request: RequestOffset(123_456_789),
        previous: Some(VerdictOffset(4_200)),
        partitions: partitions.into(),
        applied: vec![RequestId(3), RequestId(1)],
    }
}

#[test]
fn a_barrier_is_ours_and_releases_that_do_not_know_it_skip_it() {
    assert_eq!(BARRIER, b"a judge takes over");
    assert!(!BARRIER.starts_with(&MAGIC) && is_ours(BARRIER));
    let mut reader = VerdictReader::new();
    assert_eq!(reader.push(0, BARRIER), Ok(None));
    assert_eq!(reader.push(1, &BARRIER[1..]), Err(CodecError::NotOurs { found: *b" j" }));
}
