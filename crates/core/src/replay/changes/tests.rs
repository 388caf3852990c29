use proptest::prelude::*;

use super::*;
use crate::fingerprint::PageDigest;
use crate::protocol::{Decision, MatchedBy, PageVerdict, RequestId};
use crate::record::Timestamp;
use crate::replay::InputRange;

fn ranges() -> Ranges {
    let of = |partition| InputRange { topic: "pages".to_owned(), partition, warm_from: 2, from: 4, to: 12 };
    [of(0), of(1)].into_iter().collect()
}

fn at(partition: i32, offset: i64) -> Source {
    PartitionId::new("pages", partition).at(offset)
}

fn verdict(source: &Source, kind: VerdictKind, distance: u8) -> Verdict {
    let of = |by| Match { by, source: at(0, 0), age_ms: 0, cluster: at(0, 0) };
    let sketch = MatchedBy::MinHash { slots: distance, contained: None };
    let decision = match kind {
        VerdictKind::Unique => Decision::Unique { original: None },
        VerdictKind::Update => Decision::Update { of: of(MatchedBy::SimHash { bits: distance }), original: None },
        VerdictKind::Template => Decision::Template { of: of(sketch), original: None },
        VerdictKind::Exact => Decision::Duplicate { of: of(MatchedBy::Exact) },
        VerdictKind::Near => Decision::Duplicate { of: of(sketch) },
        VerdictKind::Withdrawn => {
            let answer = Answer::Withdrawn { source: source.clone(), reason: Reject::Gone };
            return Verdict { request: RequestId(1), answer };
        }
    };
    let page =
        PageVerdict { source: source.clone(), event_time: Timestamp::default(), digest: PageDigest(0), decision };
    Verdict { request: RequestId(1), answer: Answer::Page(page) }
}

fn only(kind: VerdictPair, count: u64) -> BTreeMap<VerdictPair, u64> {
    [(kind, count)].into()
}

#[test]
fn every_kind_of_verdict_has_a_code_of_its_own() {
    for kind in VerdictKind::ALL {
        let made = verdict(&at(0, 5), kind, 1);
        assert_eq!(made.answer.kind(), Some(kind));
        assert_eq!(verdict_of_code(code_of(kind)), Some(kind));
    }
}

#[test]
fn pages_outside_of_the_range_are_not_counted_and_those_of_the_warm_up_are_known() {
    let mut changes = Changes::new(&ranges(), 9);
    for offset in [1, 3, 12] {
        changes.push(Side::Before, &verdict(&at(0, offset), VerdictKind::Near, 1), None);
    }
    changes.push(Side::Before, &verdict(&PartitionId::new("other", 0).at(5), VerdictKind::Near, 1), None);
    assert_eq!(changes.behind(), Side::Before, "nothing waits");
    let compared = changes.finish();
    assert_eq!((compared.total(), compared.examples.len()), (0, 0));
    assert_eq!(compared.verdict(Side::Before, &at(0, 3)), Some(VerdictKind::Near));
    assert_eq!(compared.verdict(Side::After, &at(0, 3)), None);
    assert_eq!(compared.verdict(Side::Before, &at(0, 1)), None);
}

#[test]
fn the_run_that_is_ahead_waits_for_the_other() {
    let mut changes = Changes::new(&ranges(), 9);
    changes.push(Side::Before, &verdict(&at(0, 5), VerdictKind::Near, 1), None);
    assert_eq!(changes.behind(), Side::After);
    changes.push(Side::After, &verdict(&at(0, 5), VerdictKind::Near, 1), None);
    assert_eq!(changes.behind(), Side::Before);
}

#[test]
fn what_only_one_run_has_judged_is_reported_for_that_run_only() {
    let mut changes = Changes::new(&ranges(), 9);
    changes.push(Side::After, &verdict(&at(1, 5), VerdictKind::Withdrawn, 1), None);
    let compared = changes.finish();
    let kind = VerdictPair { before: None, after: Some(VerdictKind::Withdrawn) };
    assert_eq!(compared.counts, only(kind, 1));
    assert_eq!(kind.only_in(), Some(Side::After));
    let [example] = compared.examples.as_slice() else { panic!("{:?}", compared.examples) };
    assert_eq!(example.verdicts.after.as_ref().and_then(|recorded| recorded.reason), Some(Reject::Gone));
    assert_eq!(example.kind(), kind);
}

#[test]
fn a_verdict_is_unchanged_when_no_page_has_won_or_lost_it() {
    let mut changes = Changes::new(&ranges(), 9);
    for (offset, before, after) in [
        (5, VerdictKind::Exact, VerdictKind::Exact),
        (6, VerdictKind::Unique, VerdictKind::Unique),
        (7, VerdictKind::Unique, VerdictKind::Near),
    ] {
        changes.push(Side::Before, &verdict(&at(0, offset), before, 1), None);
        changes.push(Side::After, &verdict(&at(0, offset), after, 1), None);
    }
    let compared = changes.finish();
    assert_eq!(compared.unchanged().collect::<Vec<_>>(), [VerdictKind::Exact]);
    assert_eq!((compared.total(), compared.same()), (3, 2));
}

type Step = (Side, i32, i64, VerdictKind, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = prop::sample::select(&Side::BOTH[..]);
    let verdict = prop::sample::select(&VerdictKind::ALL[..]);
    prop::collection::vec((side, 0..2, 0_i64..14, verdict, 0_u8..4), 0..80)
}

/// What the runs say of each position of the range, in a plain map, with the distance of the match.
fn plain(steps: &[Step]) -> BTreeMap<Source, Sides<Option<(VerdictKind, u8)>>> {
    let mut said: BTreeMap<Source, Sides<Option<(VerdictKind, u8)>>> = BTreeMap::new();
    for (side, partition, offset, verdict, distance) in steps {
        if (4..12).contains(offset) {
            *said.entry(at(*partition, *offset)).or_default().of_mut(*side) = Some((*verdict, *distance));
        }
    }
    said
}

fn compared(steps: &[Step], most_held: usize, most: usize) -> Compared {
    let mut changes = Changes { most_held, ..Changes::new(&ranges(), most) };
    for (side, partition, offset, kind, distance) in steps {
        changes.push(*side, &verdict(&at(*partition, *offset), *kind, *distance), None);
    }
    changes.finish()
}

fn kind_of(said: Sides<Option<(VerdictKind, u8)>>) -> VerdictPair {
    VerdictPair { before: said.before.map(|(verdict, _)| verdict), after: said.after.map(|(verdict, _)| verdict) }
}

proptest! {
    #[test]
    fn counts_are_those_of_a_plain_map(steps in steps(), most_held in 0_usize..20, most in 0_usize..4) {
        let (said, compared) = (plain(&steps), compared(&steps, most_held, most));
        let mut counts: BTreeMap<VerdictPair, u64> = BTreeMap::new();
        for said in said.values() {
            *counts.entry(kind_of(*said)).or_default() += 1;
        }
        prop_assert_eq!(&compared.counts, &counts);
        for example in &compared.examples {
            let said = &said[&example.source];
            prop_assert_eq!(example.kind(), kind_of(*said));
            prop_assert!(!example.kind().is_same());
            for side in Side::BOTH {
                let of = example.verdicts.of(side).as_ref().and_then(|recorded| recorded.of.as_ref());
                let matched = said.of(side).filter(|(verdict, _)| !matches!(verdict, VerdictKind::Unique | VerdictKind::Withdrawn));
                let expected = matched.map(|(verdict, distance)| if verdict == VerdictKind::Exact { 0 } else { distance });
                prop_assert_eq!(of.map(|of| of.by.distance()), expected, "the last verdict's");
            }
        }
        let mut kinds: BTreeMap<VerdictPair, usize> = BTreeMap::new();
        compared.examples.iter().for_each(|example| *kinds.entry(example.kind()).or_default() += 1);
        prop_assert!(kinds.values().all(|count| *count <= most));
    }

    #[test]
    fn examples_do_not_depend_on_the_order_of_verdicts(
        verdicts in prop::collection::vec((0_usize..6, 0_usize..7), 16),
        turns in prop::collection::vec(any::<bool>(), 1..20),
        most in 1_usize..4,
    ) {
        let place = |number: usize| (i32::try_from(number % 2).unwrap(), i64::try_from(4 + number / 2).unwrap());
        let step = |side, number: usize, verdict: Option<&VerdictKind>| {
            let (partition, offset) = place(number);
            verdict.map(|verdict| (side, partition, offset, *verdict, 1))
        };
        let before = verdicts.iter().enumerate().filter_map(|(number, (before, _))| step(Side::Before, number, VerdictKind::ALL.get(*before)));
        let after = verdicts.iter().enumerate().filter_map(|(number, (_, after))| step(Side::After, number, VerdictKind::ALL.get(*after)));
        let (before, after): (Vec<Step>, Vec<Step>) = (before.collect(), after.collect());
        let one = compared(&[before.clone(), after.clone()].concat(), 100, most);
        let (mut before, mut after) = (before.into_iter(), after.into_iter());
        let mut mixed: Vec<Step> = turns.iter().filter_map(|turn| if *turn { before.next() } else { after.next() }).collect();
        mixed.extend(after);
        mixed.extend(before);
        let other = compared(&mixed, 100, most);
        prop_assert_eq!(&one.examples, &other.examples);
        for (kind, count) in one.changed() {
            let shown = one.examples.iter().filter(|example| example.kind() == kind).count();
            prop_assert_eq!(shown, most.min(usize::try_from(count).unwrap()), "no room is left empty");
        }
    }
}
