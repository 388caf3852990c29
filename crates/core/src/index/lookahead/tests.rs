//! Judges the same pages with and without looking them up ahead.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fingerprint::{
    Banding, IdHash, LowConfidence, Numbers, PageDigest, PerMille, SketchForm, SlotBits, split_mix,
};
use crate::protocol::{
    Answer, Decision, ForgetTarget, LogIdentity, PerStage, RequestBody, Rules, RulesNumber, RulesRecord, SameId, Stage,
    Verdict, VerdictRecord,
};
use crate::record::{PartitionId, Timestamp};
use crate::replay::Rejudge;

const BANDS: usize = 5;

fn minhash(max_bucket: u16) -> MinHashRules {
    let form = SketchForm::new(16, SlotBits::B8).unwrap();
    MinHashRules {
        form,
        banding: Banding::new(BANDS, 3, form).unwrap(),
        min_shared_bands: 2,
        one_band_below: 0,
        min_similarity: PerMille(700),
        containment: None,
        low_confidence: LowConfidence::DISABLED,
        max_bucket,
    }
}

fn rules(max_bucket: u16) -> Rules {
    Rules {
        windows: PerStage::all(Duration::from_millis(900)),
        lateness: Duration::ZERO,
        max_entries: 700,
        same_id: SameId::Update,
        number_guard: None,
        minhash: Some(minhash(max_bucket)),
        simhash_similarity: None,
        same_site: None,
        ..Rules::default()
    }
}

/// Random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        split_mix(self.0) % sides
    }

    fn hits(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// A page of one of some templates, with a few other bands. Some have an earlier id, some no sketch.
fn page(dice: &mut Dice, offset: i64) -> PageRequest {
    let template = dice.below(40) * 100;
    let sketch: Vec<u8> = (0..BANDS as u64)
        .map(|band| if dice.hits(3) { 50 + dice.below(90) } else { template / 100 + band % 2 })
        .flat_map(|value| [u8::try_from(value).unwrap(); 3])
        .chain([7])
        .collect();
    let texts = if dice.hits(10) { 50 } else { u64::MAX };
    let sketch = (!dice.hits(12)).then(|| Sketch::from_bytes(&sketch));
    PageRequest {
        source: PartitionId::new("pages", 0).at(offset),
        event_time: Timestamp::from_millis(1_000_000 + offset + i64::try_from(dice.below(20)).unwrap()),
        id: dice.hits(3).then(|| IdHash(dice.below(300))),
        scope: dice.hits(5).then_some(ScopeHash(9)),
        site: None,
        address: None,
        title: None,
        is_variant: false,
        fingerprints: Fingerprints {
            exact: ExactHash(u128::from(dice.below(texts))),
            simhash: None,
            sketch,
            numbers: Numbers::of(""),
        },
        digest: PageDigest(0),
    }
}

/// Judges by looking pages up ahead, on a thread that takes its time.
struct Ahead {
    judge: Rejudge,
    /// Those that the thread has, the oldest first.
    lookups: VecDeque<Lookups>,
    begun: usize,
    judged_by_scan: usize,
}

impl Ahead {
    fn end(&mut self) {
        if let Some(lookups) = self.lookups.pop_front() {
            self.judge.end_lookups(lookups.run());
        }
    }

    /// Judges the first of these requests, as a replay does; `is_patient` if it waits for the thread.
    fn judge(&mut self, upcoming: &[Request], is_patient: bool) -> Option<Verdict> {
        let page = upcoming[0].body.page().unwrap();
        for _ in 0..2 {
            while is_patient && !self.lookups.is_empty() && self.judge.state().index().waits_for_lookups(page) {
                self.end();
            }
            if let Some(lookups) = self.judge.begin_lookups(upcoming.iter(), &mut |task| task()) {
                self.lookups.push_back(lookups);
                self.begun += 1;
            }
        }
        self.judged_by_scan += usize::from(self.judge.state().index().waits_for_lookups(page));
        self.judge.judge(page, page.event_time).unwrap().map(|verdict| (*verdict).clone())
    }
}

/// How often something else happens between two pages, once in so many.
#[derive(Clone, Copy, Debug)]
struct Disturbances {
    skipped: u64,
    foreign: u64,
    forgotten: u64,
    ended_early: u64,
    impatient: u64,
    new_rules: u64,
}

const NEVER: u64 = u64::MAX;
const UNDISTURBED: Disturbances = Disturbances {
    skipped: NEVER,
    foreign: NEVER,
    forgotten: NEVER,
    ended_early: NEVER,
    impatient: NEVER,
    new_rules: NEVER,
};

/// Returns how many lookups were begun, how many pages were compared with all originals, how many of them were duplicates,
/// and how many keys were left out.
fn assert_same(seed: u64, pages: i64, max_bucket: u16, disturbances: Disturbances) -> [usize; 4] {
    let mut dice = Dice(seed);
    let requests: Vec<Request> = (0..pages)
        .map(|offset| {
            let id = RequestId(offset.cast_unsigned() + 1);
            Request { id, body: RequestBody::Page(page(&mut dice, 2 * offset)) }
        })
        .collect();
    let begin = || Rejudge::begin(LogIdentity(1), rules(max_bucket));
    let (mut plain, mut ahead) =
        (begin(), Ahead { judge: begin(), lookups: VecDeque::new(), begun: 0, judged_by_scan: 0 });
    let (mut duplicates, mut left_out) = (0, 0);
    for at in 0..requests.len() {
        let own = requests[at].body.page().unwrap();
        if dice.hits(disturbances.skipped) {
            continue;
        }
        if dice.hits(disturbances.foreign) {
            let foreign = page(&mut dice, own.source.offset + 1);
            let verdict = plain.judge(&foreign, foreign.event_time).unwrap().unwrap();
            ahead.judge.follow(&verdict).unwrap();
            plain.go_on(plain.requests() - 1);
        }
        if dice.hits(disturbances.forgotten) {
            let offset = i64::try_from(dice.below(at as u64 + 1)).unwrap() * 2;
            let target = ForgetTarget::Source(own.source.partition.at(offset));
            let forgotten = Verdict { request: RequestId(1 << 40 | at as u64), answer: Answer::Forgotten(target) };
            plain.follow(&forgotten).unwrap();
            ahead.judge.follow(&forgotten).unwrap();
        }
        if dice.hits(disturbances.new_rules) {
            let stages = if dice.hits(3) { vec![Stage::Exact] } else { Stage::ALL.to_vec() };
            let rules = Rules { stages, minhash: Some(minhash(u16::try_from(dice.below(9)).unwrap())), ..rules(0) };
            let record =
                RulesRecord { log: LogIdentity(1), number: RulesNumber(u32::try_from(at).unwrap() + 2), rules };
            plain.follow_record(&VerdictRecord::Rules(record.clone())).unwrap();
            ahead.judge.follow_record(&VerdictRecord::Rules(record)).unwrap();
        }
        if dice.hits(disturbances.ended_early) {
            ahead.end();
        }
        let expected = plain.judge(own, own.event_time).unwrap().map(|verdict| (*verdict).clone());
        let verdict = ahead.judge(&requests[at..], !dice.hits(disturbances.impatient));
        assert_eq!(verdict, expected, "page {at}");
        let Some(Verdict { answer: Answer::Page(page), .. }) = verdict else { continue };
        duplicates += usize::from(matches!(page.decision, Decision::Duplicate { .. }));
        left_out += page.decision.original().map_or(0, |original| original.placement.skipped.count_ones() as usize);
    }
    assert_eq!(ahead.judge.state().digest(), plain.state().digest());
    [ahead.begun, ahead.judged_by_scan, duplicates, left_out]
}

#[test]
fn pages_that_are_looked_up_ahead_have_the_same_verdicts() {
    let [begun, by_scan, duplicates, left_out] = assert_same(1, 6_000, 4, UNDISTURBED);
    assert!(begun >= 6_000 / MAX_PAGES, "looked up {begun} times");
    assert_eq!(by_scan, 0);
    assert!(duplicates > 500 && left_out > 500, "{duplicates} duplicates, {left_out} keys left out");
}

#[test]
fn originals_of_other_pages_pause_the_lookups() {
    let foreign = Disturbances { foreign: 400, ..UNDISTURBED };
    let [begun, by_scan, ..] = assert_same(2, 6_000, 4, foreign);
    assert!((2..=6).contains(&begun), "looked up {begun} times, with about 15 such originals");
    assert_eq!(by_scan, 0);
}

#[test]
fn a_page_whose_lookup_is_not_ended_is_compared_with_all_originals() {
    let [_, by_scan, ..] = assert_same(3, 2_000, 4, Disturbances { impatient: 1, ..UNDISTURBED });
    assert!(by_scan > 500, "{by_scan} pages");
}

#[test]
fn lookups_in_tables_that_were_replaced_since_count_for_nothing() {
    let [begun, by_scan, ..] = assert_same(4, 6_000, 4, Disturbances { new_rules: 500, ..UNDISTURBED });
    assert!(begun > 8, "looked up {begun} times");
    assert_eq!(by_scan, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_between_the_pages_changes_a_verdict(
        seed in any::<u64>(),
        max_bucket in prop::sample::select(vec![0_u16, 2, 20]),
        skipped in prop::sample::select(vec![NEVER, 7, 100]),
        foreign in prop::sample::select(vec![NEVER, 50, 1_500]),
        forgotten in prop::sample::select(vec![NEVER, 3, 100]),
        ended_early in prop::sample::select(vec![NEVER, 100, 900]),
        impatient in prop::sample::select(vec![NEVER, 20, 500]),
        new_rules in prop::sample::select(vec![NEVER, NEVER, 300]),
    ) {
        let disturbances = Disturbances { skipped, foreign, forgotten, ended_early, impatient, new_rules };
        assert_same(seed, 2_500, max_bucket, disturbances);
    }
}

/// Keys of originals that are the pages of these numbers.
struct Originals<'a>(&'a [Page], MinHashRules);

impl Keys for Originals<'_> {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        self.0.get(usize::try_from(position).ok()?)?.key(&self.1, table)
    }
}

#[test]
fn pages_that_became_no_originals_leave_the_tables() {
    let rules = minhash(0);
    let mut lookahead = Lookahead::new(rules, 0, 0);
    let sketch = Sketch::from_bytes(&[7; 16]);
    let request = |id: u64| {
        let mut page = page(&mut Dice(id), id.cast_signed());
        (page.fingerprints.sketch, page.scope) = (Some(Sketch::from_bytes(&sketch)), None);
        Request { id: RequestId(id), body: RequestBody::Page(page) }
    };
    let pages = 2 * MIN_PAGES as u64;
    let requests: Vec<Request> = (0..2 * pages).map(request).collect();
    let (first, second) = requests.split_at(requests.len() / 2);
    let none = Originals(&[], rules);
    let lookups = lookahead.begin(&none, &(0..0), first.iter(), &mut |task| task()).unwrap();
    let looked_up = lookups.run();
    assert_eq!(looked_up.found.last().unwrap().shared.len() as u64, pages - 1, "all before it, not judged yet");
    lookahead.end(looked_up, &(0..0));
    // Of all of them, the first becomes an original.
    let original = &first[0].body.page().unwrap().fingerprints;
    let held = [Page {
        request: RequestId(0),
        number: 0,
        exact: original.exact,
        sketch: original.sketch.clone(),
        scope: None,
    }];
    let held = Originals(&held, rules);
    lookahead.push(&held, &(0..1), (original, None), (None, Placement::EVERYWHERE));
    let lookups = lookahead.begin(&held, &(0..1), second.iter(), &mut |task| task()).unwrap();
    let looked_up = lookups.run();
    assert_eq!(looked_up.found[0].shared, [0]);
    assert_eq!(looked_up.found.last().unwrap().shared.len() as u64, pages, "the original, and those not judged yet");
}
