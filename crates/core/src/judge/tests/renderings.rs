//! Renderings of one page (print views, AMP, tracking parameters), distinguished from new texts of it by addresses.

use super::similar_pages::{Made, Size, StateJudge, is_duplicate, rules};
use crate::protocol::{Decision, Rules, SameId};

/// What the page at an address has as its id: its upper half says the address.
const fn id_at(address: u32) -> u64 {
    (address as u64) << 32 | 5
}

const CANONICAL: u32 = 0xCA;
const PRINT: u32 = 0xF1;
const MOBILE: u32 = 0xE1;

/// The page itself.
const PAGE: Made = Made { block: 2, own: 300, text: 1, site: Some(7), id: Some(id_at(CANONICAL)), ..Made::PLAIN };

/// A page at another address that names it.
const fn variant(address: u32) -> Made {
    Made { address: Some(address), is_variant: true, ..PAGE }
}

const fn with_edits(page: Made, edits: u64) -> Made {
    Made { edits, ..page }
}

fn is_update(decision: &Decision) -> bool {
    matches!(decision, Decision::Update { original: Some(_), .. })
}

/// What comes of a page after an original of another text and of the same, by each policy for one id.
fn after(original: Made, page: Made) -> [Decision; 3] {
    let judged = |same_id, edits| {
        let mut judge = StateJudge::of(Rules { same_id, ..rules(64) });
        judge.judge(original);
        judge.judge(with_edits(page, edits))
    };
    [judged(SameId::Update, 3), judged(SameId::Duplicate, 3), judged(SameId::Update, 0)]
}

#[test]
fn a_new_text_is_an_update_where_it_was_fetched_before_and_a_rendering_elsewhere() {
    for (what, original, page, expected) in [
        ("the page again", PAGE, PAGE, true),
        ("a rendering of the page", PAGE, variant(PRINT), false),
        ("another rendering", variant(PRINT), variant(MOBILE), false),
        ("a rendering again", variant(PRINT), variant(PRINT), true),
        // It replaces its rendering, so that its corrections are recognized from then on.
        ("the page after a rendering", variant(PRINT), PAGE, true),
    ] {
        let [changed, changed_by_policy, same_text] = after(original, page);
        assert_eq!((is_update(&changed), is_duplicate(&changed)), (expected, !expected), "{what}: {changed:?}");
        assert!(is_duplicate(&changed_by_policy), "{what}: {changed_by_policy:?}");
        assert!(is_duplicate(&same_text), "{what}: {same_text:?}");
    }
}

#[test]
fn a_page_that_has_an_earlier_text_again_is_an_update_where_another_one_came_between() {
    let texts = |same_id, at: [Made; 4]| {
        let mut judge = StateJudge::of(Rules { same_id, ..rules(64) });
        at.map(|page| judge.judge(page))
    };
    let other = Made { text: 9, block: 9, ..PAGE };
    let [first, between, again, repeated] = texts(SameId::Update, [PAGE, other, PAGE, PAGE]);
    assert!(matches!((first, between), (Decision::Unique { .. }, Decision::Unique { .. })));
    assert!(is_update(&again), "readers hold the text between: {again:?}");
    assert!(is_duplicate(&repeated), "{repeated:?}");
    let [.., again, _] = texts(SameId::Duplicate, [PAGE, other, PAGE, PAGE]);
    assert!(is_duplicate(&again), "by policy: {again:?}");
    // Another page under one careless canonical address says nothing of this one.
    let [one, two] = [variant(PRINT), Made { text: 9, block: 9, ..variant(MOBILE) }];
    let [.., again, _] = texts(SameId::Update, [one, two, one, one]);
    assert!(is_duplicate(&again), "{again:?}");
}

#[test]
fn a_correction_reaches_downstream_whichever_rendering_came_first() {
    for first in [PAGE, variant(PRINT)] {
        let mut judge = StateJudge::of(rules(64));
        judge.judge(first);
        judge.judge(variant(MOBILE));
        judge.judge(PAGE);
        for edits in 1..9 {
            assert!(is_update(&judge.judge(with_edits(PAGE, edits))), "{edits}");
            assert!(is_duplicate(&judge.judge(with_edits(variant(MOBILE), edits))), "{edits}");
        }
    }
}

#[test]
fn a_page_is_compared_with_its_own_earlier_text_before_that_of_other_renderings() {
    let mut judge = StateJudge::of(rules(64));
    judge.judge(PAGE);
    // Another text, so that nothing but its name says that it is the same page.
    let unlike = Made { block: 77, ..variant(PRINT) };
    assert!(matches!(judge.judge(unlike), Decision::Unique { .. }));
    assert!(is_update(&judge.judge(with_edits(unlike, 4))));
    assert!(is_update(&judge.judge(with_edits(PAGE, 4))));
}

#[test]
fn a_page_whose_id_is_no_address_is_met_by_what_names_its_address() {
    let mut judge = StateJudge::of(rules(64));
    let page = Made { id: Some(17), address: Some(CANONICAL), ..PAGE };
    judge.judge(page);
    // Half of it is other text, so that only the name tells.
    let amp = Made { own: 600, ..variant(PRINT) };
    assert!(is_duplicate(&judge.judge(amp)));
    let nameless = Made { address: Some(MOBILE), id: Some(18), edits: 9, ..Made { is_variant: false, ..amp } };
    assert!(!is_duplicate(&judge.judge(nameless)));
    assert!(is_update(&judge.judge(with_edits(page, 5))));
    assert!(is_update(&judge.judge(Made { address: Some(MOBILE), ..with_edits(page, 6) })), "an id says most");
    // The other way round.
    let mut judge = StateJudge::of(rules(64));
    judge.judge(variant(PRINT));
    assert!(is_update(&judge.judge(with_edits(page, 5))));
}

#[test]
fn pages_of_a_section_under_one_careless_canonical_address_are_unique() {
    for (own, is_rendering) in [(120, true), (600, false)] {
        let mut judge = StateJudge::of(rules(64));
        judge.judge(Made { own, ..PAGE });
        for number in 0..20 {
            let address = Some(1000 + number);
            let other = Made { own, text: 100 + u64::from(number), address, is_variant: true, ..PAGE };
            let decision = judge.judge(other);
            assert_eq!(is_duplicate(&decision), is_rendering, "{own}, {number}: {decision:?}");
        }
    }
}

/// Returns how many of a hundred articles of 400 shingles are found as renderings of a page of 3,200: `own` thousandths
/// of the page are not in the article.
fn found_in_a_longer_page(own: u64, title: Option<u32>) -> usize {
    let found = (100..200).filter(|&text| {
        let mut judge = StateJudge::of(rules(64));
        judge.judge(Made { own: 0, size: Size(3_200), title: Some(1), ..PAGE });
        is_duplicate(&judge.judge(Made { own, text, size: Size(400), title, ..variant(PRINT) }))
    });
    found.count()
}

#[test]
fn an_article_is_a_rendering_of_the_longer_page_that_contains_it() {
    // One standard error is as much as a quarter of the share that is estimated.
    let (all, half, none) = (875, 938, 1_000);
    let found = [all, half, none].map(|own| found_in_a_longer_page(own, Some(1)));
    assert!(found[0] >= 93 && found[1] <= 60 && found[2] == 0, "with the title of the page: {found:?}");
    let found = [all, half, none].map(|own| found_in_a_longer_page(own, Some(2)));
    assert!(found[0] >= 70 && found[1] <= 15 && found[2] == 0, "with another title: {found:?}");
    // What is asked for less where one title is on all pages of a section is only a matter of sizes.
    let mut judge = StateJudge::of(rules(64));
    judge.judge(Made { own: 500, title: Some(1), ..PAGE });
    for number in 0..50 {
        let other = Made { own: 500, text: 100 + number, title: Some(1), ..variant(PRINT) };
        assert!(!is_duplicate(&judge.judge(other)), "{number}");
    }
}

#[test]
fn a_page_that_begins_to_name_another_is_the_page_that_it_was() {
    let at_print = Made { id: Some(id_at(PRINT)), ..PAGE };
    for (before, after) in [(at_print, variant(PRINT)), (variant(PRINT), at_print)] {
        let mut judge = StateJudge::of(rules(64));
        judge.judge(before);
        assert!(is_update(&judge.judge(with_edits(after, 5))));
    }
}

#[test]
fn a_variant_of_which_an_older_release_wrote_no_address_is_a_rendering() {
    let mut judge = StateJudge::of(rules(64));
    let variant = Made { is_variant: true, ..PAGE };
    judge.judge(PAGE);
    assert!(is_duplicate(&judge.judge(with_edits(variant, 2))));
}
