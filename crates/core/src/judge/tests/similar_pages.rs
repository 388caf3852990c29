//! Tests with many near-identical pages: cost per page stays bounded, copies are found, and every follower of the log
//! decides alike.

use std::time::Duration;

use proptest::prelude::*;

use super::rules as tiny_rules;
use crate::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, PageDigest, PerMille, SPLIT_MIX_STEP, SameSite, ScopeHash,
    SimHash, SiteHash, Sketch, SketchForm, SlotBits, TitleHash, split_mix,
};
use crate::index::{ProbeStats, Refusal, run_sequential};
use crate::judge::{LogRetention, SharedSnapshot, State, decide, decide_observed, refusal};
use crate::protocol::{
    Answer, Decision, LogIdentity, MinHashRules, PageRequest, PageVerdict, PerStage, Request, RequestBody, RequestId,
    RequestOffset, Rules, Verdict, VerdictOffset,
};
use crate::record::{PartitionId, Reject, Timestamp};

const SLOTS: usize = 128;

fn form() -> SketchForm {
    SketchForm::new(SLOTS, SlotBits::B8).unwrap().with_count()
}

pub(in crate::judge) fn rules(max_bucket: u16) -> Rules {
    let minhash = MinHashRules { max_bucket, ..MinHashRules::usual(form()).unwrap() };
    Rules {
        max_distance: 3,
        windows: PerStage::all(Duration::from_hours(1)),
        number_guard: Some(PerMille(500)),
        minhash: Some(minhash),
        simhash_similarity: Some(PerMille(200)),
        same_site: Some(SameSite { containment: PerMille(950) }),
        ..tiny_rules(1_000_000)
    }
}

fn random(seed: u64) -> u64 {
    split_mix(seed.wrapping_mul(SPLIT_MIX_STEP))
}

/// What a page is made of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    /// The block that it shares with others, and the thousandths of it that are its own.
    pub(super) block: u64,
    pub(super) own: u64,
    /// What is its own; edits of a copy change some slots more.
    pub(super) text: u64,
    pub(super) edits: u64,
    /// Seed of its numbers; 0: none.
    pub(super) numbers: u64,
    pub(super) site: Option<u32>,
    pub(super) scope: Option<u64>,
    pub(super) id: Option<u64>,
    /// Its own address, where the id does not say it.
    pub(super) address: Option<u32>,
    pub(super) title: Option<u32>,
    pub(super) is_variant: bool,
    /// Too short for other fingerprints than the exact hash.
    pub(super) is_short: bool,
    /// Shingles of its text.
    pub(super) size: Size,
}

/// A number of shingles, up to 4,095; a thousand by default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u16);

impl Default for Size {
    fn default() -> Self {
        Self(1_000)
    }
}

impl Made {
    pub(super) const PLAIN: Self = Self {
        block: 0,
        own: 0,
        text: 0,
        edits: 0,
        numbers: 0,
        site: None,
        scope: None,
        id: None,
        address: None,
        title: None,
        is_variant: false,
        is_short: false,
        size: Size(1_000),
    };

    fn fingerprints(self) -> Fingerprints {
        let Self { block, own, text, edits, numbers, .. } = self;
        let slot = |slot: u64| {
            let is = |seed: u64, share: u64| random(random(seed) ^ slot) % 1000 < share;
            let value = if edits > 0 && is(edits + 77, 20) {
                random(edits) ^ random(slot)
            } else if is(text ^ block, own) {
                random(text) ^ random(slot)
            } else {
                random(block) ^ random(slot)
            };
            u8::try_from(random(value) % 256).unwrap()
        };
        let bytes: Vec<u8> = (0..SLOTS as u64).map(slot).chain(self.size.0.to_be_bytes()).collect();
        // Pages of one block lie a few bits apart where little is their own.
        let flips = (0..own / 25).fold(0, |code, flip| code | 1 << (random(text ^ flip) % 64));
        let kept: std::collections::BTreeSet<u16> = (0..if numbers == 0 { 0 } else { 8 })
            .map(|n| u16::try_from(random(numbers * 8 + n) % 65_000).unwrap())
            .collect();
        Fingerprints {
            exact: ExactHash(u128::from(
                [text, edits, block, numbers].into_iter().fold(0, |hash, of| random(hash ^ random(of + 1))),
            )),
            simhash: (!self.is_short).then_some(SimHash::B64(random(block) ^ flips)),
            sketch: (!self.is_short).then(|| Sketch::from_bytes(&bytes)),
            numbers: Numbers::from_hashes(&kept.into_iter().collect::<Vec<u16>>()).unwrap(),
        }
    }

    pub(super) fn request(self, number: usize) -> Request {
        let offset = i64::try_from(number).unwrap();
        let page = PageRequest {
            source: PartitionId::new("pages", 0).at(offset),
            event_time: Timestamp::from_millis(offset),
            id: self.id.map(IdHash),
            scope: self.scope.map(ScopeHash),
            site: self.site.map(SiteHash),
            address: self.address.map(AddressHash),
            title: self.title.map(TitleHash),
            is_variant: self.is_variant,
            fingerprints: self.fingerprints(),
            digest: PageDigest(0),
            earlier: None,
        };
        Request { id: RequestId(number as u64), body: RequestBody::Page(page) }
    }
}

/// Judges requests one by one with a `State` alone, without the logs.
pub(super) struct StateJudge {
    pub(super) state: State,
    number: usize,
    pub(super) compared: u32,
}

impl StateJudge {
    pub(super) fn of(rules: Rules) -> Self {
        Self { state: State::begin(LogIdentity(1), rules, RequestOffset(0)), number: 0, compared: 0 }
    }

    pub(super) fn judge(&mut self, made: Made) -> Decision {
        let request = made.request(self.number);
        let time = Timestamp::from_millis(i64::try_from(self.number).unwrap());
        let mut seen = ProbeStats::default();
        let verdict = decide_observed(&self.state, &request, time, |stats| seen = stats).unwrap();
        self.state.follow(&verdict).unwrap();
        self.number += 1;
        self.compared = seen.compared;
        let Answer::Page(PageVerdict { decision, .. }) = verdict.answer else { panic!() };
        decision
    }
}

pub(super) fn is_duplicate(decision: &Decision) -> bool {
    matches!(decision, Decision::Duplicate { .. })
}

fn template(number: u64) -> Made {
    Made { block: 5, own: 60, text: number, numbers: number + 1, ..Made::default() }
}

#[test]
fn a_forgotten_member_takes_no_other_members_place() {
    let mut judge = StateJudge::of(rules(1));
    assert!(matches!(judge.judge(template(0)), Decision::Unique { .. }));
    assert!(matches!(judge.judge(template(1)), Decision::Template { .. }));
    let source = PartitionId::new("pages", 0).at(1);
    let answer = Answer::Withdrawn { source, reason: Reject::Gone };
    judge.state.follow(&Verdict { request: RequestId(99), answer }).unwrap();
    // It shares all keys with the one that is still in memory, and comes after it.
    assert!(matches!(judge.judge(template(1)), Decision::Template { .. }));
    assert!(is_duplicate(&judge.judge(Made { edits: 3, ..template(1) })), "one member is compared: the live one");
}

#[test]
fn pages_of_one_template_cost_as_little_at_the_end_as_at_the_beginning_and_their_copies_are_found() {
    let mut judge = StateJudge::of(rules(16));
    let (mut most, mut found) = (0, 0);
    for number in 0..6_000 {
        let decision = judge.judge(template(number));
        assert!(!is_duplicate(&decision), "page {number} has numbers of its own: {decision:?}");
        most = most.max(judge.compared);
        if number % 20 == 19 {
            // A copy of any of those before it, with a few words changed.
            let of = random(number) % number;
            found += u32::from(is_duplicate(&judge.judge(Made { edits: number, ..template(of) })));
        }
    }
    assert!(most < 600, "{most} compared for one page");
    assert!(found >= 297, "{found} of 300 copies found");
}

/// How far before a copy its original comes, in pages.
const BACK: u64 = 500;

/// Shows a judge pages of one template and, after every twentieth of them, a copy of the one [`BACK`] pages before;
/// `before` may show it others before each. Returns how many copies are found of how many.
fn found_of_template(judge: &mut StateJudge, pages: u64, mut before: impl FnMut(&mut StateJudge, u64)) -> (u64, u64) {
    let (mut found, mut copies, mut most, mut lost) = (0, 0, 0, 0);
    for number in 0..pages {
        before(judge, number);
        // Every page has numbers of its own, but they are summed up: a few have enough in common with others.
        lost += u64::from(is_duplicate(&judge.judge(template(number))));
        most = most.max(judge.compared);
        if number % 20 == 19 && number >= BACK {
            copies += 1;
            found += u64::from(is_duplicate(&judge.judge(Made { edits: number, ..template(number - BACK) })));
        }
    }
    assert!(most < 1_000, "{most} compared for one page");
    assert!(lost * 1_000 <= pages, "{lost} of {pages} pages lost");
    (found, copies)
}

#[test]
fn copies_of_template_pages_are_found_while_heads_are_evicted() {
    let mut judge = StateJudge::of(Rules { max_entries: 2_000, ..rules(16) });
    let (found, copies) = found_of_template(&mut judge, 10_000, |_, _| ());
    assert!(found * 100 >= copies * 98, "{found} of {copies} found");
}

#[test]
fn copies_of_template_pages_are_found_while_heads_expire() {
    let window = Duration::from_secs(2);
    let mut judge = StateJudge::of(Rules { windows: PerStage::all(window), ..rules(16) });
    let (found, copies) = found_of_template(&mut judge, 10_000, |_, _| ());
    assert!(found * 100 >= copies * 98, "{found} of {copies} found");
}

/// A front page that is crawled again every 50 pages, with another text each time, is the first page of the template.
#[test]
fn copies_of_template_pages_are_found_while_their_head_is_replaced() {
    let mut judge = StateJudge::of(Rules { max_entries: 4_000, ..rules(16) });
    let (found, copies) = found_of_template(&mut judge, 10_000, |judge, number| {
        if number % 50 == 1 {
            let front = Made { id: Some(1), edits: number, numbers: 77_777, ..template(900_000) };
            let decision = judge.judge(front);
            assert!(number == 1 || matches!(decision, Decision::Update { .. }), "{number}: {decision:?}");
        }
    });
    assert!(found * 100 >= copies * 98, "{found} of {copies} found");
}

/// Every page of the template is crawled again, with other numbers: none of them takes the place of those before.
#[test]
fn pages_of_a_template_that_are_crawled_again_are_updates_and_cost_no_more() {
    const PAGES: u64 = 400;
    let mut judge = StateJudge::of(rules(16));
    let (mut most, mut updates) = (0, 0);
    for number in 0..10 * PAGES {
        let page = Made { id: Some(number % PAGES), numbers: number + 1, ..template(number % PAGES) };
        updates += u64::from(matches!(judge.judge(page), Decision::Update { .. }));
        most = most.max(judge.compared);
    }
    assert_eq!(updates, 9 * PAGES);
    assert!(most < 600, "{most} compared for one page");
}

#[test]
fn a_page_that_changes_all_the_time_costs_no_more_for_it() {
    let mut judge = StateJudge::of(rules(16));
    let page = Made { block: 2, own: 60, text: 1, numbers: 3, id: Some(70), ..Made::default() };
    // What comes after it stays in memory.
    judge.judge(Made { block: 9, text: 9, ..Made::default() });
    judge.judge(page);
    for edits in 1..3_000 {
        let decision = judge.judge(Made { edits, numbers: edits, ..page });
        assert!(matches!(decision, Decision::Update { .. }), "{edits}: {decision:?}");
        // The one text that the page has now, by several stages and tables; tags are equal by chance now and then.
        assert!(judge.compared <= 16, "{} compared at {edits}", judge.compared);
    }
}

#[test]
fn one_text_in_many_scopes_is_looked_for_in_its_own() {
    let mut judge = StateJudge::of(rules(16));
    for scope in 0..2_000 {
        let made = Made { block: 1, text: 1, scope: Some(scope), ..Made::default() };
        assert!(!is_duplicate(&judge.judge(made)), "first of scope {scope}");
        // Tags are equal by chance now and then.
        assert!(judge.compared <= 2, "{} in scope {scope}", judge.compared);
        let near = Made { edits: scope + 1, ..made };
        assert!(is_duplicate(&judge.judge(near)), "second of scope {scope}");
    }
}

#[test]
fn pages_of_one_site_are_not_duplicates_of_each_other_but_of_themselves() {
    let mut judge = StateJudge::of(rules(64));
    // Four tenths of each page are its own: their Jaccard index is about .4.
    let page = |number: u64, site| Made { block: 9, own: 400, text: number, site, ..Made::default() };
    let of_one = |number| page(number, Some(7));
    let mut found = 0;
    for number in 0..1_000 {
        assert!(!is_duplicate(&judge.judge(of_one(number))), "page {number} of the site");
        found += u32::from(is_duplicate(&judge.judge(Made { edits: number + 1, ..of_one(number) })));
    }
    assert!(found >= 990, "{found} of 1000 pages with another session id found");
    // Of another site it is a copy in another frame.
    assert!(is_duplicate(&judge.judge(Made { edits: 5_000, site: Some(8), ..of_one(3) })));
}

#[test]
fn unlike_pages_under_one_canonical_address_are_compared_with_few_of_them() {
    let mut judge = StateJudge::of(rules(64));
    for number in 0..2_000 {
        let page =
            Made { block: number, text: number, site: Some(7), id: Some(70), is_variant: true, ..Made::default() };
        assert!(!is_duplicate(&judge.judge(page)), "{number}");
        assert!(judge.compared <= 100, "{number} is compared with {}", judge.compared);
    }
}

#[test]
fn a_page_that_names_its_canonical_address_is_found_whatever_surrounds_it() {
    let mut judge = StateJudge::of(rules(64));
    let page = Made { block: 2, own: 300, text: 1, site: Some(7), id: Some(70), ..Made::default() };
    judge.judge(page);
    // Half of it is other text.
    let amp = Made { own: 600, is_variant: true, ..page };
    assert!(is_duplicate(&judge.judge(amp)));
    // Without the name it is another page of the site.
    assert!(!is_duplicate(&judge.judge(Made { id: None, is_variant: false, edits: 9, ..amp })));
    // Pages of one template with other numbers are not one page, whatever they name.
    let listed = Made { block: 90, own: 20, numbers: 1, ..page };
    judge.judge(listed);
    for number in 2..20 {
        let other = Made { text: number, numbers: number, is_variant: true, ..listed };
        assert!(!is_duplicate(&judge.judge(other)), "{number}");
    }
    // A text that has nothing to do with the page does not become it by its name.
    let unlike = Made { block: 80, own: 0, text: 80, ..amp };
    assert!(!is_duplicate(&judge.judge(unlike)));
}

#[test]
fn a_variant_is_compared_with_the_text_that_an_id_has_now() {
    let page = Made { block: 2, own: 300, text: 1, site: Some(7), id: Some(70), ..Made::default() };
    // Bands alone find no page of which a third is another text.
    let rules = || {
        let minhash = rules(64).minhash.map(|minhash| MinHashRules { min_shared_bands: 20, ..minhash });
        Rules { minhash, ..rules(64) }
    };
    let (mut judge, mut new) = (StateJudge::of(rules()), StateJudge::of(rules()));
    judge.judge(Made { block: 9, text: 9, ..Made::default() });
    judge.judge(page);
    // Each text replaces the one before; all of them are still in memory, after a page that is remembered.
    for edits in 1..100 {
        assert!(matches!(judge.judge(Made { edits, ..page }), Decision::Update { .. }), "{edits}");
    }
    new.judge(Made { edits: 99, ..page });
    for own in 500..800 {
        let variant = Made { own, is_variant: true, ..page };
        let [known, expected] = [&judge, &new].map(|judge| {
            let verdict = decide(&judge.state, &variant.request(200), Timestamp::from_millis(200)).unwrap();
            let Answer::Page(page) = verdict.answer else { panic!() };
            is_duplicate(&page.decision)
        });
        assert_eq!(known, expected, "{own}");
    }
}

#[test]
fn a_code_made_to_be_that_of_another_text_suppresses_no_page() {
    let crafted = |min_similarity| {
        let mut judge = StateJudge::of(Rules { simhash_similarity: min_similarity, ..rules(64) });
        judge.judge(Made { block: 3, text: 1, ..Made::default() });
        let mut request = Made { block: 4, text: 2, ..Made::default() }.request(1);
        let RequestBody::Page(page) = &mut request.body else { panic!() };
        page.fingerprints.simhash = Made { block: 3, text: 1, ..Made::default() }.fingerprints().simhash;
        let verdict = decide(&judge.state, &request, Timestamp::from_millis(1)).unwrap();
        let Answer::Page(page) = verdict.answer else { panic!() };
        is_duplicate(&page.decision)
    };
    assert!(crafted(None) && !crafted(Some(PerMille(200))));
}

fn made() -> impl Strategy<Value = Made> {
    let text = (0_u64..3, prop::sample::select(vec![0_u64, 60, 400]), 0_u64..12, 0_u64..3);
    let ids = (prop::option::of(0_u32..4), prop::option::of(0_u32..4), any::<bool>());
    let names = (prop::option::of(0_u32..2), prop::option::of(0_u32..3), prop::option::of(0_u64..2), ids);
    (text, 0_u64..6, names).prop_map(
        |((block, own, text, edits), numbers, (site, title, scope, (id, address, variant)))| {
            Made {
                block,
                own,
                text,
                edits,
                numbers,
                site,
                scope,
                // The upper half is what the id says of the address.
                id: id.map(|id| u64::from(id) << 32 | 7),
                address: address.filter(|address| Some(*address) != id),
                title,
                is_variant: variant && id.is_some(),
                is_short: false,
                size: Size::default(),
            }
        },
    )
}

/// Mostly pages of one template, some of them crawled again: heads of families leave the window and are replaced.
fn made_of_one_template() -> impl Strategy<Value = Made> {
    let id = prop::option::weighted(0.3, 0_u64..3);
    let of_template = (0_u64..40, 0_u64..3, 0_u64..6, id).prop_map(|(number, edits, more, id)| Made {
        edits,
        id,
        numbers: number * 6 + more,
        ..template(number)
    });
    prop_oneof![3 => of_template, 1 => made()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every original that is held has a reason when the page is unique, and the one that a page is a duplicate of has
    /// none.
    #[test]
    fn a_page_that_is_no_duplicate_has_a_reason_for_each_original(pages in prop::collection::vec(made(), 1..60), few in 0_u16..4) {
        let small = Rules { windows: PerStage::all(Duration::from_millis(40)), max_entries: 40, ..rules(few) };
        let mut state = State::begin(LogIdentity(1), small, RequestOffset(0));
        for (number, page) in pages.into_iter().enumerate() {
            let time = Timestamp::from_millis(i64::try_from(number).unwrap());
            let request = page.request(number);
            let verdict = decide(&state, &request, time).unwrap();
            let RequestBody::Page(asked) = &request.body else { panic!() };
            let Answer::Page(PageVerdict { decision, .. }) = &verdict.answer else { panic!() };
            let reason = |sequence| refusal(&state, asked, time, sequence);
            let live: Vec<_> = state.index().live(&state.watermarks()).collect();
            let chosen = decision.matched().and_then(|of| live.iter().find(|original| original.source == of.source));
            prop_assert_eq!(chosen.is_some(), decision.matched().is_some());
            match decision {
                Decision::Unique { .. } => {
                    for original in &live {
                        prop_assert!(reason(original.sequence).is_some(), "{} is no duplicate of {}", number, original.source);
                    }
                }
                Decision::Template { .. } => {
                    let reason = reason(chosen.unwrap().sequence);
                    prop_assert!(matches!(reason, Some(Refusal::Numbers { overlap: PerMille(0..500) })), "{:?}", reason);
                }
                Decision::Duplicate { .. } | Decision::Update { .. } => {
                    prop_assert_eq!(reason(chosen.unwrap().sequence), None);
                }
            }
            state.follow(&verdict).unwrap();
        }
    }

    /// Law L5 where keys are full and families are large: a judge restored from a snapshot, and one that follows the
    /// verdicts alone, decide on every later page as the one that judged all of them.
    #[test]
    fn every_follower_decides_alike(
        pages in prop::collection::vec((made_of_one_template(), 0_u64..12), 1..200),
        cut in 0_usize..200,
        few in prop_oneof![1_u16..4, 8_u16..20],
        (window, max_entries) in (20_u64..200, 16_u64..80),
    ) {
        let small = Rules { windows: PerStage::all(Duration::from_millis(window)), max_entries, ..rules(few) };
        let mut judge = State::begin(LogIdentity(1), small.clone(), RequestOffset(0));
        let mut follower = State::begin(LogIdentity(1), small.clone(), RequestOffset(0));
        let mut restored: Option<State> = None;
        for (number, (page, late)) in pages.into_iter().enumerate() {
            let time = Timestamp::from_millis(i64::try_from(number).unwrap());
            let mut request = page.request(number);
            // Partitions lag: heads do not expire in the order of the log.
            if let RequestBody::Page(page) = &mut request.body {
                page.event_time = page.event_time.minus(Duration::from_millis(late * late));
            }
            let verdict: Verdict = decide(&judge, &request, time).unwrap();
            prop_assert_eq!(Some(verdict.clone()), decide(&follower, &request, time));
            if number == cut {
                let snapshot = SharedSnapshot::take(&judge, &LogRetention::default(), VerdictOffset(0), None).unwrap().listed();
                restored = Some(snapshot.restore(run_sequential).state);
            }
            if let Some(restored) = &mut restored {
                prop_assert_eq!(Some(verdict.clone()), decide(restored, &request, time));
                restored.follow(&verdict).unwrap();
            }
            judge.follow(&verdict).unwrap();
            follower.follow(&verdict).unwrap();
            // Other tables, same answers.
            if number % 40 == 39 {
                let snapshot = SharedSnapshot::take(&follower, &LogRetention::default(), VerdictOffset(0), None).unwrap().listed();
                follower = snapshot.restore(run_sequential).state;
            }
        }
    }
}
