//! Pages of one site that differ in little or nothing but their titles.

use std::time::Duration;

use proptest::prelude::*;

use super::similar_pages::{Made, StateJudge, is_duplicate, rules};
use crate::index::{Refusal, run_sequential};
use crate::judge::decide::MAX_OF_TEXT;
use crate::judge::{LogRetention, SharedSnapshot, State, decide, refusal};
use crate::protocol::{
    Decision, LogIdentity, MatchedBy, PerStage, RequestBody, RequestOffset, Rules, Stage, VerdictOffset,
};
use crate::record::Timestamp;

/// What the page at an address has as its id.
const fn id_at(address: u32) -> u64 {
    (address as u64) << 32 | 5
}

/// A product of a shop whose pages have no text but that of their frame.
const fn product(number: u32) -> Made {
    Made { block: 3, text: 1, site: Some(7), title: Some(number), id: Some(id_at(number)), ..Made::PLAIN }
}

/// Returns the offset of the original whose text a page has.
fn exact(decision: &Decision) -> Option<i64> {
    match decision {
        Decision::Duplicate { of } if of.by == MatchedBy::Exact => Some(of.source.offset),
        Decision::Duplicate { .. } | Decision::Unique { .. } | Decision::Update { .. } | Decision::Template { .. } => {
            None
        }
    }
}

#[test]
fn products_of_a_shop_with_one_text_are_told_apart_by_their_titles() {
    let mut judge = StateJudge::of(rules(64));
    for number in 0..100 {
        let decision = judge.judge(product(number));
        assert!(matches!(decision, Decision::Unique { original: Some(_) }), "{number}: {decision:?}");
    }
    for number in 0..100 {
        let again = judge.judge(product(number));
        assert_eq!(exact(&again), Some(i64::from(number)), "crawled again: {again:?}");
        let copy = judge.judge(Made { id: Some(id_at(number + 1_000)), ..product(number) });
        assert_eq!(exact(&copy), Some(i64::from(number)), "at another address, under its title: {copy:?}");
        let renamed = judge.judge(Made { title: Some(number + 1_000), ..product(number) });
        assert_eq!(exact(&renamed), Some(i64::from(number)), "crawled again, with another title: {renamed:?}");
    }
    for copy in [
        Made { site: Some(8), title: Some(5_000), ..product(5_000) },
        Made { site: None, title: Some(5_000), ..product(5_000) },
        Made { title: None, ..product(5_000) },
    ] {
        assert_eq!(exact(&judge.judge(copy)), Some(0), "{copy:?}");
    }
}

#[test]
fn the_rule_goes_with_that_for_pages_of_one_site() {
    let mut judge = StateJudge::of(Rules { same_site: None, ..rules(64) });
    judge.judge(product(0));
    assert_eq!(exact(&judge.judge(product(1))), Some(0));
}

/// Photos of a site: nearly all of each page is its frame, and no measure of the text tells a photo from a copy.
#[test]
fn near_pages_of_one_site_are_told_apart_by_their_titles_in_every_stage() {
    let simhash = vec![Stage::SimHash];
    let minhash = vec![Stage::MinHash];
    let both = vec![Stage::Exact, Stage::SimHash, Stage::MinHash];
    for stages in [simhash, minhash, both] {
        let photo = |number: u32, edits| Made { edits, ..product(number) };
        let mut judge = StateJudge::of(Rules { stages: stages.clone(), ..rules(64) });
        for number in 0..200 {
            let decision = judge.judge(photo(number, u64::from(number) + 1));
            assert!(matches!(decision, Decision::Unique { .. }), "{stages:?}: {number}: {decision:?}");
        }
        let mut found = 0;
        for number in 0..200 {
            let copy = Made { id: Some(id_at(number + 1_000)), ..photo(number, u64::from(number) + 1) };
            found += u32::from(is_duplicate(&judge.judge(copy)));
        }
        assert!(found >= 196, "{stages:?}: {found} of 200 copies under their titles found");
        let elsewhere = Made { site: Some(8), ..photo(1_500, 1_500) };
        assert!(is_duplicate(&judge.judge(elsewhere)), "{stages:?}: of another site it is a copy");
    }
}

#[test]
fn the_reason_is_the_title() {
    let mut judge = StateJudge::of(rules(64));
    (0..100).for_each(|number| drop(judge.judge(product(number))));
    for page in [product(200), Made { edits: 3, ..product(200) }] {
        let request = page.request(100);
        let RequestBody::Page(page) = &request.body else { panic!() };
        for original in [0, 1, 99] {
            let reason = refusal(&judge.state, page, Timestamp::from_millis(100), original);
            assert_eq!(reason, Some(Refusal::Titles), "{original}");
        }
    }
    let sentence = Refusal::Titles.sentence(&rules(64));
    assert_eq!(sentence, "another page of the same site: their titles differ (match.same_site is 0.95)");
}

/// Rules with every way to bound families, and with none.
fn all_rules() -> [Rules; 5] {
    let exact = Rules { stages: vec![Stage::Exact], minhash: None, ..rules(0) };
    let simhash = Rules { stages: vec![Stage::Exact, Stage::SimHash], minhash: None, ..rules(0) };
    [rules(64), rules(1), rules(0), exact, simhash]
}

#[test]
fn thousands_of_titles_of_one_text_cost_no_more_than_a_few_and_each_is_found() {
    const PAGES: u32 = 3_000;
    for (rules, is_short) in all_rules().into_iter().flat_map(|rules| [(rules.clone(), false), (rules, true)]) {
        let what =
            format!("{:?}, short: {is_short}, {:?}", rules.stages, rules.minhash.map(|minhash| minhash.max_bucket));
        let product = |number| Made { is_short, ..product(number) };
        let mut judge = StateJudge::of(rules);
        let mut most = 0;
        for number in 0..PAGES {
            let decision = judge.judge(product(number));
            assert!(matches!(decision, Decision::Unique { .. }), "{what}: {number}: {decision:?}");
            most = most.max(judge.compared);
        }
        for number in (0..PAGES).step_by(7) {
            for copy in [
                product(number),
                Made { id: Some(id_at(number + PAGES)), ..product(number) },
                Made { title: Some(number + PAGES), ..product(number) },
            ] {
                let decision = judge.judge(copy);
                assert_eq!(exact(&decision), Some(i64::from(number)), "{what}: {copy:?}: {decision:?}");
                most = most.max(judge.compared);
            }
        }
        // By its text; by its code in several tables, and by its sketch.
        assert!(most < 10 * u32::try_from(MAX_OF_TEXT).unwrap(), "{what}: {most} compared");
    }
}

#[test]
fn titles_of_one_text_cost_no_more_while_the_first_ones_are_forgotten() {
    const BACK: u32 = 400;
    for rules in all_rules() {
        let by_entries = Rules { max_entries: 1_200, ..rules.clone() };
        let by_time = Rules { windows: PerStage::all(Duration::from_millis(1_200)), ..rules };
        for rules in [by_entries, by_time] {
            let what = format!("{:?}", rules.stages);
            let mut judge = StateJudge::of(rules);
            let mut most = 0;
            for number in 0..8_000 {
                let decision = judge.judge(product(number));
                assert!(matches!(decision, Decision::Unique { .. }), "{what}: {number}: {decision:?}");
                most = most.max(judge.compared);
                if number % 20 == 19 && number > BACK {
                    let again = judge.judge(product(number - BACK));
                    assert!(exact(&again).is_some(), "{what}: {number}: {again:?}");
                }
            }
            assert!(most < 10 * u32::try_from(MAX_OF_TEXT).unwrap(), "{what}: {most} compared");
        }
    }
}

fn made() -> impl Strategy<Value = Made> {
    let title = prop_oneof![8 => (0_u32..400).prop_map(Some), 1 => Just(None)];
    let id = prop::option::weighted(0.7, 0_u32..400);
    let site = prop_oneof![20 => Just(Some(7)), 1 => Just(Some(8)), 1 => Just(None)];
    let edits = prop_oneof![12 => Just(0_u64), 1 => 1_u64..4];
    (title, id, site, edits, prop::bool::weighted(0.1)).prop_map(|(title, id, site, edits, is_short)| Made {
        title,
        id: id.map(id_at),
        site,
        edits,
        is_short,
        ..product(0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Law L5 where many pages of a site have one text: a judge restored from a snapshot, and one that follows the
    /// verdicts alone, decide on every later page as the one that judged all of them.
    #[test]
    fn every_follower_tells_titles_apart_alike(
        pages in prop::collection::vec((made(), 0_u64..12), 200..600),
        cut in 0_usize..400,
        rules in prop::sample::select(all_rules().to_vec()),
        (window, max_entries) in (200_u64..600, 100_u64..400),
    ) {
        let small = Rules { windows: PerStage::all(Duration::from_millis(window)), max_entries, ..rules };
        let mut judge = State::begin(LogIdentity(1), small.clone(), RequestOffset(0));
        let mut follower = State::begin(LogIdentity(1), small, RequestOffset(0));
        let mut restored: Option<State> = None;
        let restore = |state: &State| {
            let snapshot = SharedSnapshot::take(state, &LogRetention::default(), VerdictOffset(0), None).unwrap();
            snapshot.listed().restore(run_sequential).state
        };
        for (number, (page, late)) in pages.into_iter().enumerate() {
            let time = Timestamp::from_millis(i64::try_from(number).unwrap());
            let mut request = page.request(number);
            if let RequestBody::Page(page) = &mut request.body {
                page.event_time = page.event_time.minus(Duration::from_millis(late * late));
            }
            let verdict = decide(&judge, &request, time).unwrap();
            prop_assert_eq!(Some(verdict.clone()), decide(&follower, &request, time), "page {}", number);
            if number == cut {
                restored = Some(restore(&judge));
            }
            if let Some(restored) = &mut restored {
                prop_assert_eq!(Some(verdict.clone()), decide(restored, &request, time), "page {}, restored", number);
                restored.follow(&verdict).unwrap();
            }
            judge.follow(&verdict).unwrap();
            follower.follow(&verdict).unwrap();
            if number % 40 == 39 {
                follower = restore(&follower);
            }
        }
    }
}
