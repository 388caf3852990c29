//! Compares the estimates with theory, and pins sketches that must not change unnoticed.

#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

use super::permutations::{shared_smallest, smallest};
use super::*;
use crate::fingerprint::PerMille;
use proptest::prelude::*;

struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap()
    }

    /// Two sets with `shared` elements in common and `own` of their own each.
    fn pair(&mut self, shared: usize, own: usize) -> (Vec<u32>, Vec<u32>) {
        let mut take = |count: usize| (0..count).map(|_| self.throw()).collect::<Vec<_>>();
        let (both, one, other) = (take(shared), take(own), take(own));
        ([&both[..], &one].concat(), [&other[..], &both].concat())
    }
}

fn minima(permutations: &Permutations, elements: &[u32]) -> Vec<u32> {
    let mut minima = Vec::new();
    permutations.minima(elements, &mut minima);
    minima
}

fn form(slots: usize, bits: SlotBits) -> SketchForm {
    SketchForm::new(slots, bits).unwrap()
}

#[test]
fn minima_are_those_of_the_definition_whatever_the_number_of_slots() {
    let elements: Vec<u32> = {
        let mut dice = Dice(1);
        (0..77).map(|_| dice.throw()).collect()
    };
    let all = minima(&Permutations::new(200), &elements);
    for slots in [1, 16, 31, 32, 33, 100, 128, 200] {
        assert_eq!(minima(&Permutations::new(slots), &elements), all[..slots]);
    }
    // One element at a time, the slowest way.
    let permutations = Permutations::new(200);
    let mut least = vec![u32::MAX; 200];
    for element in elements {
        for (least, value) in least.iter_mut().zip(minima(&permutations, &[element])) {
            *least = value.min(*least);
        }
    }
    assert_eq!(least, all);
    assert_eq!(minima(&permutations, &[]), [u32::MAX; 200]);
}

/// Mean and variance of the estimate over many pairs, for sets of a short post's and a page's size.
#[test]
fn the_estimate_has_no_bias_and_the_variance_of_m_independent_draws() {
    const SLOTS: usize = 128;
    let permutations = Permutations::new(SLOTS);
    let mut dice = Dice(2);
    for (shared, own, pairs) in [(10, 45, 800), (20, 10, 800), (50, 25, 800), (90, 5, 800), (400, 100, 100)] {
        let jaccard = shared as f64 / (shared + 2 * own) as f64;
        let estimates: Vec<f64> = (0..pairs)
            .map(|_| {
                let (one, other) = dice.pair(shared, own);
                let agreeing = minima(&permutations, &one)
                    .iter()
                    .zip(minima(&permutations, &other))
                    .filter(|(one, other)| *one == other)
                    .count();
                agreeing as f64 / SLOTS as f64
            })
            .collect();
        let count = f64::from(pairs);
        let mean = estimates.iter().sum::<f64>() / count;
        let variance = estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let expected = jaccard * (1.0 - jaccard) / SLOTS as f64;
        let bias = (mean - jaccard) / (expected / count).sqrt();
        assert!(bias.abs() < 4.0, "J {jaccard}: mean {mean}, {bias} standard errors off");
        let ratio = variance / expected;
        let tolerance = 4.5 * (2.0 / count).sqrt();
        assert!((ratio - 1.0).abs() < tolerance, "J {jaccard}: variance {ratio} of J(1-J)/M");
    }
}

#[test]
fn the_estimate_from_few_bits_is_corrected_for_what_strangers_agree_in() {
    let permutations = Permutations::new(128);
    let mut dice = Dice(3);
    for bits in [SlotBits::B4, SlotBits::B8, SlotBits::B16] {
        let form = form(128, bits);
        for (shared, own) in [(0, 100), (50, 25), (80, 10)] {
            let jaccard = f64::from(shared) / f64::from(shared + 2 * own);
            let (pairs, chance) = (300, 0.5_f64.powi(bits.count().try_into().unwrap()));
            let (mut agreeing, mut similar) = (0.0, 0.0);
            for _ in 0..pairs {
                let (one, other) = dice.pair(shared.try_into().unwrap(), own.try_into().unwrap());
                let distance = form.distance(
                    &form.cut(&minima(&permutations, &one), &one, one.len()),
                    &form.cut(&minima(&permutations, &other), &other, other.len()),
                );
                agreeing += 1.0 - f64::from(distance) / 128.0;
                similar += form.similarity(distance).share();
            }
            let (agreeing, similar) = (agreeing / f64::from(pairs), similar / f64::from(pairs));
            let expected = jaccard + (1.0 - jaccard) * chance;
            assert!((agreeing - expected).abs() < 0.01, "{bits:?} J {jaccard}: {agreeing} agree, expected {expected}");
            // Unrelated texts are cut off at 0, which lifts their mean a little.
            let slack = if shared == 0 { 0.03 } else { 0.01 };
            assert!((similar - jaccard).abs() < slack, "{bits:?} J {jaccard}: estimated {similar}");
        }
    }
}

proptest! {
    #[test]
    fn keys_are_shared_where_all_slots_agree(
        bits in prop::sample::select(vec![SlotBits::B4, SlotBits::B8, SlotBits::B16]),
        (bands, rows) in prop::sample::select(vec![(42, 3), (32, 4), (8, 16), (128, 1)]),
        one in prop::collection::vec(0..2_u8, 256),
        other in prop::collection::vec(0..2_u8, 256),
        is_cut in any::<bool>(),
    ) {
        let form = form(128, bits);
        let banding = Banding::new(bands, rows, form).unwrap();
        let length = if is_cut { form.bytes() / 2 } else { form.bytes() };
        let (one, other) = (&one[..length], &other[..length]);
        let keys = |sketch| banding.keys(form, sketch).collect::<Vec<u64>>();
        for band in 0..bands {
            let mut of_both = Vec::new();
            banding.keys_in(form, [one, other].into_iter(), band, |key| of_both.push(key));
            prop_assert_eq!(of_both, [keys(one)[band], keys(other)[band]]);
        }
        let expected: Vec<usize> = (0..bands).filter(|band| keys(one)[*band] == keys(other)[*band]).collect();
        let slots = |sketch, band| (band * rows..(band + 1) * rows).map(|slot| form.slot(sketch, slot)).collect::<Vec<u16>>();
        prop_assert_eq!(&expected, &(0..bands).filter(|band| slots(one, *band) == slots(other, *band)).collect::<Vec<_>>());
        prop_assert_eq!(banding.agreeing(form, one, other).collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(banding.shared(form, one, other), expected.len());
    }
}

/// Within 1 %: over this many pairs chance exceeds that in one case of 2,000 at most.
#[test]
fn bands_find_as_many_pairs_as_the_curve_says() {
    const PAIRS: u32 = 30_000;
    let form = form(128, SlotBits::B16);
    let permutations = Permutations::new(128);
    let mut dice = Dice(4);
    for (bands, rows, shared, own) in
        [(32, 4, 20, 15), (32, 4, 20, 10), (42, 3, 12, 14), (14, 8, 40, 5), (42, 3, 7, 21)]
    {
        let banding = Banding::new(bands, rows, form).unwrap();
        let jaccard = shared as f64 / (shared + 2 * own) as f64;
        let (pairs, mut found, mut found_twice) = (PAIRS, 0, 0);
        for _ in 0..pairs {
            let (one, other) = dice.pair(shared, own);
            let (one, other) =
                (form.cut(&minima(&permutations, &one), &one, 0), form.cut(&minima(&permutations, &other), &other, 0));
            let equal = banding.keys(form, &one).zip(banding.keys(form, &other)).filter(|(one, other)| one == other);
            match equal.count() {
                0 => {}
                1 => found += 1,
                _ => (found, found_twice) = (found + 1, found_twice + 1),
            }
        }
        for (least, found) in [(1, found), (2, found_twice)] {
            let (measured, expected) = (f64::from(found) / f64::from(pairs), banding.recall(jaccard, least));
            assert!(
                (measured - expected).abs() < 0.01,
                "{bands} x {rows}, J {jaccard}, {least}: {measured}, {expected}"
            );
        }
    }
}

#[test]
fn the_curve_is_that_of_the_formula() {
    let form = form(128, SlotBits::B8);
    let banding = Banding::new(8, 16, form).unwrap();
    for jaccard in [0.0, 0.1, 0.5, 0.8, 0.95, 1.0_f64] {
        let formula = 1.0 - (1.0 - jaccard.powi(16)).powi(8);
        assert!((banding.recall(jaccard, 1) - formula).abs() < 1e-12);
    }
    assert!(banding.recall(0.8, 1) < 0.21, "what others sold as a threshold of 0.8");
    assert!((banding.recall(1.0, 8) - 1.0).abs() < 1e-12);
    assert!(banding.recall(0.9, 2) < banding.recall(0.9, 1));
}

#[test]
fn bands_that_the_sketch_cannot_fill_are_refused() {
    let form = form(128, SlotBits::B8);
    assert!(Banding::new(32, 4, form).is_ok());
    assert_eq!(Banding::new(43, 3, form), Err(BandingError::TooMany { bands: 43, rows: 3, slots: 128 }));
    assert_eq!(Banding::new(0, 3, form), Err(BandingError::Empty { bands: 0, rows: 3 }));
    assert_eq!(Banding::new(1, 0, form), Err(BandingError::Empty { bands: 1, rows: 0 }));
    assert!(Banding::new(usize::MAX, 2, form).is_err());
}

#[test]
fn four_sets_under_a_given_order_keep_a_c_b_a() {
    // The order b, e, a, d, c gives each of a to e its rank.
    let rank = |c: char| "beadc".find(c).unwrap();
    let sets = ["ad", "c", "bde", "acd"];
    let first = sets.map(|set| set.chars().min_by_key(|c| rank(*c)).unwrap());
    assert_eq!(first, ['a', 'c', 'b', 'a']);
    // The bottom-k form with k = 1 keeps the same ones.
    let kept = sets.map(|set| {
        let ranks: Vec<u32> = set.chars().map(|c| rank(c).try_into().unwrap()).collect();
        smallest(&ranks, 1)[0]
    });
    assert_eq!(kept, first.map(|c| u32::try_from(rank(c)).unwrap()));
}

#[test]
fn the_k_smallest_are_those_of_the_union() {
    let shared =
        |one: &[u32], other: &[u32]| shared_smallest(smallest(one, 3).into_iter(), smallest(other, 3).into_iter(), 3);
    // The three smallest of the union are 1, 4 and 5; 1 and 4 are in both.
    assert_eq!(shared(&[5, 1, 4, 9], &[4, 7, 1, 1]), (2, 3));
}

#[test]
fn the_k_smallest_estimate_without_bias() {
    const K: usize = 64;
    let mut dice = Dice(5);
    for (shared, own) in [(100, 200), (300, 50)] {
        let jaccard = shared as f64 / (shared + 2 * own) as f64;
        let pairs = 500;
        let mut sum = 0.0;
        for _ in 0..pairs {
            let (one, other) = dice.pair(shared, own);
            let (both, of) = shared_smallest(smallest(&one, K).into_iter(), smallest(&other, K).into_iter(), K);
            sum += both as f64 / of as f64;
        }
        let off = sum / f64::from(pairs) - jaccard;
        let error = (jaccard * (1.0 - jaccard) / K as f64 / f64::from(pairs)).sqrt();
        assert!(off.abs() < 4.0 * error, "J {jaccard}: {off} off, standard error {error}");
    }
}

/// A set of `small` elements of which `share` thousandths are in a larger one.
#[test]
fn how_much_of_a_set_is_in_a_larger_one_is_estimated_without_bias() {
    let form = form(128, SlotBits::B8).with_count();
    let permutations = Permutations::new(128);
    let mut dice = Dice(6);
    let sketch = |elements: &[u32]| form.cut(&minima(&permutations, elements), elements, elements.len());
    for (small, large, shared) in [(100, 150, 100), (100, 300, 90), (100, 500, 100), (60, 200, 30)] {
        let pairs = 400;
        let (mut sum, mut found) = (0.0, 0);
        for _ in 0..pairs {
            let mut take = |count: usize| (0..count).map(|_| dice.throw()).collect::<Vec<_>>();
            let both = take(shared);
            let (one, other) =
                ([&both[..], &take(small - shared)].concat(), [&both[..], &take(large - shared)].concat());
            let (one, other) = (sketch(&one), sketch(&other));
            assert_eq!((form.count(&one), form.count(&other)), (u32::try_from(small).ok(), u32::try_from(large).ok()));
            let contained = form.contained(&one, &other, form.distance(&one, &other), 0);
            assert_eq!(contained, form.contained(&other, &one, form.distance(&one, &other), 0));
            sum += contained.map_or(0.0, PerMille::share);
            found += usize::from(contained >= Some(PerMille(750)));
        }
        let (mean, truth) = (sum / f64::from(pairs), shared as f64 / small as f64);
        // The estimate of a whole one is cut off at 1, that of a small share at what chance may say.
        let slack = if shared == small { 0.09 } else { 0.03 };
        assert!((mean - truth).abs() < slack, "{shared} of {small} in {large}: {mean}");
        assert_eq!(found > 300, truth > 0.8, "{shared} of {small} in {large}: {found}");
    }
}

#[test]
fn slots_that_are_known_to_agree_and_the_size_after_them_count_for_nothing() {
    let form = form(16, SlotBits::B8).with_count();
    let sketch = |agreeing: u8, size: u8| {
        let slots = (0..16).map(|slot| if slot < agreeing { 1 } else { size });
        Sketch::from_bytes(&slots.chain([0, size]).collect::<Vec<u8>>())
    };
    let distance = |agreeing| form.distance(&sketch(agreeing, 20), &sketch(agreeing, 60));
    assert_eq!((form.bytes(), distance(16), distance(5)), (18, 0, 11));
    let contained =
        |agreeing, known| form.contained(&sketch(agreeing, 20), &sketch(agreeing, 60), distance(agreeing), known);
    // 2 of 13 beside the known three: J = .1505, and .1505 * 80 / (1.1505 * 20).
    assert_eq!((contained(5, 3), contained(5, 0)), (Some(PerMille(523)), Some(PerMille(946))));
    assert_eq!(contained(16, 3), Some(PerMille::ONE), "at most all of it");
    // The known ones alone, and one more of 16, are what unrelated texts have.
    assert_eq!((contained(3, 3), contained(1, 0), contained(2, 0)), (None, None, Some(PerMille(433))));
    let plain = SketchForm::new(16, SlotBits::B8).unwrap();
    assert_eq!(plain.contained(&sketch(5, 20), &sketch(5, 60), 11, 0), None, "without sizes it is unknown");
}

/// From sets to thousandths. Of n elements k are drawn without putting them back: the variance is (n - k) / (n - 1) of
/// that of draws from an endless set, and none is left when all are drawn.
#[test]
fn sketches_compared_by_their_smallest_estimate_without_bias() {
    const K: usize = 64;
    let form = form(16, SlotBits::B8).with_bottom(K).unwrap();
    let mut dice = Dice(7);
    for (shared, own, pairs) in [(100, 200, 600), (300, 50, 600), (40, 30, 600), (20, 10, 50)] {
        let union = (shared + 2 * own) as f64;
        let jaccard = shared as f64 / union;
        let estimates: Vec<f64> = (0..pairs)
            .map(|_| {
                let (one, other) = dice.pair(shared, own);
                let (one, other) = (form.cut(&[0; 16], &one, 0), form.cut(&[0; 16], &other, 0));
                form.similarity(form.distance(&one, &other)).share()
            })
            .collect();
        let count = f64::from(pairs);
        let mean = estimates.iter().sum::<f64>() / count;
        let variance = estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let expected = jaccard * (1.0 - jaccard) / K as f64 * ((union - K as f64) / (union - 1.0)).max(0.0);
        // Steps of 1/k, rounded down to thousandths.
        let bias = (mean - jaccard).abs();
        let slack = if expected == 0.0 { 1.0 / K as f64 + 0.001 } else { 0.001 };
        assert!(bias < 4.0 * (expected / count).sqrt() + slack, "J {jaccard}: mean {mean}");
        let tolerance = 4.5 * (2.0 / count).sqrt() * expected;
        assert!(
            (variance - expected).abs() <= tolerance + 1e-9,
            "J {jaccard}: variance {variance}, expected {expected}"
        );
    }
}

#[test]
fn the_smallest_follow_the_slots_and_decide_alone() {
    let slots = form(16, SlotBits::B8);
    let form = slots.with_count().with_bottom(16).unwrap();
    let sketch = |elements: &[u32]| form.cut(&[elements[0]; 16], elements, elements.len());
    let (one, other) = (sketch(&[9, 5, 3, u32::MAX]), sketch(&[5, 3, 7]));
    assert_eq!((form.bytes(), one.bytes().len(), slots.bytes()), (16 + 2 + 64, 82, 16));
    let tail: Vec<u32> = one.bytes()[18..].as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
    assert_eq!((&tail[..3], tail[3..].iter().all(|element| *element == u32::MAX)), (&[3, 5, 9][..], true));
    // 3 and 5 of 3, 5, 7, 9: half, though no slot agrees; and all of it, though none does.
    assert_eq!(
        (form.distance(&one, &other), form.similarity(8), form.reach(PerMille(500))),
        (8, PerMille(500), Some(8))
    );
    assert_eq!(slots.distance(&one, &other), 16);
    let [all, reordered] = [[1, 2, 3], [3, 2, 1]].map(|elements| sketch(&elements));
    assert_eq!(
        (form.distance(&all, &reordered), form.similarity(0), form.similarity(16)),
        (0, PerMille::ONE, PerMille::ZERO)
    );
    assert_eq!(form.distance(&all, &sketch(&[8, 9])), 16);
    // Half of 4 shingles are in 2 of 3: |both| = .5 * 7 / 1.5 / 3.
    assert_eq!(form.contained(&one, &other, 8, 3), Some(PerMille(777)));
    assert_eq!(slots.with_bottom(15), Err(SketchFormError::BottomK(15)));
    assert_eq!(slots.with_bottom(256), Err(SketchFormError::BottomK(256)));
}

#[test]
fn a_sketch_keeps_its_bytes_in_all_releases() {
    let permutations = Permutations::new(16);
    let hex = |bits| format!("{:?}", form(16, bits).cut(&minima(&permutations, &[1, 2, 3, 0xdead_beef]), &[], 0));
    assert_eq!(hex(SlotBits::B8), "Sketch(5574e8eb358cf5ec8e4516e279e73a45)");
    let (four, counting) = ([1, 2, 3, 0xdead_beef], form(16, SlotBits::B8).with_count());
    let counted = counting.cut(&minima(&permutations, &four), &four, four.len());
    assert_eq!(format!("{counted:?}"), "Sketch(5574e8eb358cf5ec8e4516e279e73a450004)");
    assert_eq!(hex(SlotBits::B4), "Sketch(57ee38fe841e7e34)");
    assert_eq!(hex(SlotBits::B16), "Sketch(55a874b8e88feb2335848c5ef510ec4d8edf451e1622e2a279e5e7923abd4517)");
}

#[test]
fn the_reach_is_the_largest_distance_that_is_still_similar_enough() {
    let form = form(128, SlotBits::B8);
    assert_eq!((form.similarity(0), form.similarity(128)), (PerMille::ONE, PerMille::ZERO));
    for per_mille in [1, 300, 400, 500, 999, 1000] {
        let reach = form.reach(PerMille(per_mille)).unwrap();
        assert!(form.similarity(reach) >= PerMille(per_mille));
        assert!(reach == 128 || form.similarity(reach + 1) < PerMille(per_mille));
    }
    assert_eq!(form.reach(PerMille(0)), Some(128));
    assert_eq!(form.reach(PerMille(1001)), None);
    // 64 of 128 agree; 1/256 of the others did by chance.
    assert_eq!(form.similarity(64), PerMille(498));
}

#[test]
fn forms_that_cannot_be_are_refused() {
    assert_eq!(SketchForm::new(15, SlotBits::B8), Err(SketchFormError::Slots(15)));
    assert_eq!(SketchForm::new(256, SlotBits::B8), Err(SketchFormError::Slots(256)));
    assert_eq!(SketchForm::new(17, SlotBits::B4), Err(SketchFormError::HalfByte(17)));
    assert_eq!(form(128, SlotBits::B8).bytes(), 128);
    assert_eq!(form(128, SlotBits::B4).bytes(), 64);
}

proptest! {
    #[test]
    fn a_distance_by_the_smallest_is_the_share_of_the_definition(
        one in prop::collection::btree_set(0_u32..60, 1..50),
        other in prop::collection::btree_set(0_u32..60, 1..50),
        k in 16_u8..30,
    ) {
        let form = form(16, SlotBits::B8).with_bottom(k.into()).unwrap();
        let sketch = |set: &std::collections::BTreeSet<u32>| form.cut(&[0; 16], &set.iter().copied().collect::<Vec<_>>(), 0);
        let union: Vec<&u32> = one.union(&other).take(k.into()).collect();
        let both = union.iter().filter(|element| one.contains(**element) && other.contains(**element)).count();
        let distance = form.distance(&sketch(&one), &sketch(&other));
        prop_assert_eq!(distance, form.distance(&sketch(&other), &sketch(&one)));
        prop_assert_eq!(usize::from(k - distance), both * usize::from(k) / union.len());
    }

    #[test]
    fn a_distance_counts_the_slots_that_differ(one in prop::collection::vec(any::<u32>(), 32), flips in any::<u32>()) {
        let other: Vec<u32> =
            one.iter().enumerate().map(|(slot, value)| if flips >> slot & 1 == 1 { value ^ 0xffff } else { *value }).collect();
        for bits in [SlotBits::B4, SlotBits::B8, SlotBits::B16] {
            let form = form(32, bits);
            let (one, other) = (form.cut(&one, &[], 0), form.cut(&other, &[], 0));
            let differing = (0..32).filter(|slot| form.slot(&one, *slot) != form.slot(&other, *slot)).count();
            prop_assert_eq!(usize::from(form.distance(&one, &other)), differing);
            prop_assert_eq!(one.bytes().len(), form.bytes());
        }
    }
}
