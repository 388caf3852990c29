use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fingerprint::{ExactHash, Fingerprints, IdHash, Numbers, PageDigest, PerMille, SimHash};
use crate::protocol::{PerStage, SameId, Stage};
use crate::record::{Encoding, PartitionId, Reject};
use crate::text::{CutBy, Extraction};

const WINDOW: i64 = 30;

const UNIQUE: LineVerdict = LineVerdict::Judged { kind: VerdictKind::Unique, original: None };

fn settings(event_time: EventTime, max_entries: u64) -> DeduplicatorSettings {
    let rules = Rules {
        stages: Stage::ALL.to_vec(),
        max_distance: 3,
        windows: PerStage::all(Duration::from_millis(30)),
        lateness: Duration::ZERO,
        max_future_skew: Duration::from_millis(10),
        max_entries,
        same_id: SameId::Update,
        minhash: None,
        number_guard: Some(PerMille(500)),
        simhash_similarity: None,
        same_site: None,
        dual: None,
    };
    DeduplicatorSettings { rules, event_time, partitions: NonZeroUsize::MIN, clock: Timestamp::from_millis(1_000_000) }
}

fn line(number: i64) -> Source {
    PartitionId::new("pages.jsonl", 0).at(number)
}

/// A page whose text is this number: equal numbers equal texts, near numbers near texts.
fn page(text: u64, id: Option<&str>, event_time: Option<i64>) -> FingerprintedPage {
    FingerprintedPage {
        id: id.map(|id| IdHash(xxhash_rust::xxh3::xxh3_64(id.as_bytes()))),
        id_text: id.map(str::to_owned),
        canonical: None,
        site: None,
        address: None,
        title: None,
        scope: None,
        partition: 0,
        event_time: event_time.map(Timestamp::from_millis),
        fingerprints: Fingerprints {
            exact: ExactHash(u128::from(text)),
            simhash: Some(SimHash::B64(text)),
            sketch: None,
            numbers: Numbers::EMPTY,
        },
        digest: PageDigest(0),
        encoding: Encoding::default(),
        extraction: Extraction::Text,
        tokens: 1,
        features: 1,
        text_bytes: 1,
        cut: false,
        cut_by: CutBy::Unicode,
    }
}

fn with_numbers(mut reading: FingerprintedPage, numbers: &[u16]) -> FingerprintedPage {
    reading.fingerprints.numbers = Numbers::from_hashes(numbers).unwrap();
    reading
}

#[test]
fn a_known_page_with_other_numbers_is_an_update() {
    let verdict = |same_id: SameId| {
        let mut settings = settings(EventTime::Record, 100);
        settings.rules.same_id = same_id;
        let mut deduplicator = Deduplicator::new(settings);
        let numbers = [[1, 2], [3, 4]];
        let said = (0_u64..).zip(numbers).map(|(number, numbers)| {
            let page = with_numbers(page(0xf0 + number, Some("https://a.example/1"), None), &numbers);
            deduplicator.judge(line(number.cast_signed()), Ok(page)).unwrap().verdict.name()
        });
        said.last().unwrap()
    };
    assert_eq!(verdict(SameId::Update), "update");
    assert_eq!(verdict(SameId::Duplicate), "template");
}

#[test]
fn verdict_lines_say_what_was_matched() {
    let mut deduplicator = Deduplicator::new(settings(EventTime::Record, 100));
    let mut said = Vec::new();
    let pages = [
        Ok(page(0b1111_0000, Some("https://a.example/1"), None)),
        Ok(page(0b1111_0000, Some("https://b.example/2"), None)),
        Err(Rejection::new(Reject::Undecodable, "truncated JSON at line 1 column 7")),
        Ok(page(0b1111_0011, None, None)),
        Ok(page(0b1111_0001, Some("https://a.example/1"), None)),
        Ok(page(u64::MAX, None, None)),
        Ok(with_numbers(page(0xff_0000, None, None), &[1, 2])),
        Ok(with_numbers(page(0xff_0001, None, None), &[3, 4])),
        Ok(with_numbers(page(0xff_0003, None, None), &[4, 5, 6])),
        Ok(with_numbers(page(0xff_0001, None, None), &[3, 4])),
    ];
    for (number, page) in (1..).zip(pages) {
        let sifted = deduplicator.judge(line(number), page).unwrap();
        said.push((sifted.verdict.route(), sifted.to_line()));
    }
    let expected = [
        (Route::Unique, r#"{"source":"pages.jsonl:1","id":"https://a.example/1","verdict":"unique"}"#),
        (
            Route::Duplicate,
            r#"{"source":"pages.jsonl:2","id":"https://b.example/2","verdict":"exact","stage":"exact","match":"pages.jsonl:1","match_id":"https://a.example/1","distance":0}"#,
        ),
        (
            Route::Dead,
            r#"{"source":"pages.jsonl:3","verdict":"dead_letter","reason":"undecodable","message":"truncated JSON at line 1 column 7"}"#,
        ),
        (
            Route::Duplicate,
            r#"{"source":"pages.jsonl:4","verdict":"near","stage":"simhash","match":"pages.jsonl:1","match_id":"https://a.example/1","distance":2}"#,
        ),
        (
            Route::Unique,
            r#"{"source":"pages.jsonl:5","id":"https://a.example/1","verdict":"update","stage":"simhash","match":"pages.jsonl:1","match_id":"https://a.example/1","distance":1}"#,
        ),
        (Route::Unique, r#"{"source":"pages.jsonl:6","verdict":"unique"}"#),
        (Route::Unique, r#"{"source":"pages.jsonl:7","verdict":"unique"}"#),
        (
            Route::Unique,
            r#"{"source":"pages.jsonl:8","verdict":"template","stage":"simhash","match":"pages.jsonl:7","distance":1}"#,
        ),
        // Of the two that are near, the one with a number in common: a template is an original of its own.
        (
            Route::Duplicate,
            r#"{"source":"pages.jsonl:9","verdict":"near","stage":"simhash","match":"pages.jsonl:8","distance":1}"#,
        ),
        (
            Route::Duplicate,
            r#"{"source":"pages.jsonl:10","verdict":"exact","stage":"exact","match":"pages.jsonl:8","distance":0}"#,
        ),
    ];
    assert_eq!(said, expected.map(|(route, line)| (route, line.to_owned())));
}

#[test]
fn line_numbers_are_time_in_milliseconds() {
    let mut deduplicator = Deduplicator::new(settings(EventTime::Record, 100));
    let mut ask =
        |number: i64, text: u64| deduplicator.judge(line(number), Ok(page(text, None, None))).unwrap().verdict;
    assert_eq!(ask(1, 7), UNIQUE);
    for number in 2..=WINDOW {
        ask(number, u64::MAX << (number.unsigned_abs() % 32));
    }
    assert_eq!(ask(WINDOW + 1, 7).name(), "exact", "exactly one window later");
    let mut deduplicator = Deduplicator::new(settings(EventTime::Record, 100));
    let mut ask =
        |number: i64, text: u64| deduplicator.judge(line(number), Ok(page(text, None, None))).unwrap().verdict;
    ask(1, 7);
    for number in 2..=WINDOW + 1 {
        ask(number, u64::MAX << (number.unsigned_abs() % 32));
    }
    assert_eq!(ask(WINDOW + 2, 7), UNIQUE, "one page past the window");
}

#[test]
fn a_page_from_the_future_does_not_empty_the_window() {
    let mut deduplicator = Deduplicator::new(settings(EventTime::Field, 100));
    let mut ask =
        |number: i64, text: u64, time| deduplicator.judge(line(number), Ok(page(text, None, time))).unwrap().verdict;
    assert_eq!(ask(1, 0xf0, Some(1_000_000)), UNIQUE);
    assert_eq!(ask(2, 0xffff_0000, Some(4_102_444_800_000)), UNIQUE);
    assert_eq!(ask(3, 0xf0, Some(1_000_001)).name(), "exact");
    assert_eq!(ask(4, 0xf0, None).name(), "exact", "a page without a time has that of the page before");
}

#[test]
fn a_place_is_judged_once() {
    let mut deduplicator = Deduplicator::new(settings(EventTime::Record, 100));
    deduplicator.judge(line(1), Ok(page(1, None, None))).unwrap();
    let again = deduplicator.judge(line(1), Ok(page(1, None, None)));
    assert_eq!(again.unwrap_err().to_string(), "pages.jsonl:1 was judged before");
    let other = deduplicator.judge(line(2), Ok(FingerprintedPage { partition: 1, ..page(1, None, None) }));
    assert_eq!(other, Err(DeduplicatorError::NoJudge { partition: 1, judges: 1 }));
}

proptest! {
    #[test]
    fn every_match_names_the_id_of_its_original_and_no_id_outlives_it(
        pages in prop::collection::vec((0..40_u64, 0..60_i64, any::<bool>()), 0..200),
        capacity in 1..20_u64,
    ) {
        let mut deduplicator = Deduplicator::new(settings(EventTime::Field, capacity));
        let mut ids: HashMap<Source, String> = HashMap::new();
        for (number, (text, time, named)) in (1..).zip(pages) {
            let id = named.then(|| format!("p{number}"));
            // Texts far from each other: only equal ones match.
            let text = text.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let sifted = deduplicator.judge(line(number), Ok(page(text, id.as_deref(), Some(time)))).unwrap();
            if let Some(original) = sifted.verdict.original() {
                prop_assert_eq!(&original.id, &ids.get(&original.source).cloned());
            }
            if let Some(id) = id {
                ids.insert(sifted.source, id);
            }
            let judge = &deduplicator.judges[0];
            prop_assert_eq!(judge.ids.len(), judge.order.len());
            prop_assert!(judge.order.len() <= usize::try_from(capacity).unwrap());
        }
    }
}

#[test]
fn lines_without_a_field_of_time_are_a_millisecond_apart() {
    let mut times = LineTimes { source: EventTime::Record, pages: 40, latest: Timestamp::from_millis(40) };
    times.pages += 1;
    // A page that cannot be judged takes its millisecond all the same.
    times.pages += 1;
    assert_eq!(times.of(Some(Timestamp::from_millis(7))), Timestamp::from_millis(42));
    assert_eq!((times.pages, times.latest), (42, Timestamp::from_millis(42)));
}
