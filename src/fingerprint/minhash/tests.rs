//! The estimates against what theory says of them, and sketches that must not change unnoticed.

#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

use super::*;
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
                let distance =
                    form.distance(&form.cut(&minima(&permutations, &one)), &form.cut(&minima(&permutations, &other)));
                agreeing += 1.0 - f64::from(distance) / 128.0;
                similar += share(form.similarity(distance));
            }
            let (agreeing, similar) = (agreeing / f64::from(pairs), similar / f64::from(pairs));
            let expected = jaccard + (1.0 - jaccard) * chance;
            assert!((agreeing - expected).abs() < 0.01, "{bits:?} J {jaccard}: {agreeing} agree, expected {expected}");
            // Strangers are cut off at 0, which lifts their mean a little.
            let slack = if shared == 0 { 0.03 } else { 0.01 };
            assert!((similar - jaccard).abs() < slack, "{bits:?} J {jaccard}: estimated {similar}");
        }
    }
}

/// Within 1 %: of so many pairs the dice are that far off in one case of 2,000 at the worst.
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
            let (one, other) = (form.cut(&minima(&permutations, &one)), form.cut(&minima(&permutations, &other)));
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
    assert_eq!(Banding::new(43, 3, form), Err(BadBanding::TooMany { bands: 43, rows: 3, slots: 128 }));
    assert_eq!(Banding::new(0, 3, form), Err(BadBanding::Empty { bands: 0, rows: 3 }));
    assert_eq!(Banding::new(1, 0, form), Err(BadBanding::Empty { bands: 1, rows: 0 }));
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
        Bottom::new(&ranks, 1).hashes()[0]
    });
    assert_eq!(kept, first.map(|c| u32::try_from(rank(c)).unwrap()));
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
            let (both, of) = Bottom::new(&one, K).similarity(&Bottom::new(&other, K));
            sum += both as f64 / of as f64;
        }
        let off = sum / f64::from(pairs) - jaccard;
        let error = (jaccard * (1.0 - jaccard) / K as f64 / f64::from(pairs)).sqrt();
        assert!(off.abs() < 4.0 * error, "J {jaccard}: {off} off, standard error {error}");
    }
}

#[test]
fn a_sketch_keeps_its_bytes_in_all_releases() {
    let permutations = Permutations::new(16);
    let hex = |bits| format!("{:?}", form(16, bits).cut(&minima(&permutations, &[1, 2, 3, 0xdead_beef])));
    assert_eq!(hex(SlotBits::B8), "Sketch(5574e8eb358cf5ec8e4516e279e73a45)");
    assert_eq!(hex(SlotBits::B4), "Sketch(57ee38fe841e7e34)");
    assert_eq!(hex(SlotBits::B16), "Sketch(55a874b8e88feb2335848c5ef510ec4d8edf451e1622e2a279e5e7923abd4517)");
}

#[test]
fn the_reach_is_the_largest_distance_that_is_still_similar_enough() {
    let form = form(128, SlotBits::B8);
    assert_eq!((form.similarity(0), form.similarity(128)), (1000, 0));
    for per_mille in [1, 300, 400, 500, 999, 1000] {
        let reach = form.reach(per_mille).unwrap();
        assert!(form.similarity(reach) >= per_mille);
        assert!(reach == 128 || form.similarity(reach + 1) < per_mille);
    }
    assert_eq!(form.reach(0), Some(128));
    assert_eq!(form.reach(1001), None);
    // 64 of 128 agree; 1/256 of the others did by chance.
    assert_eq!(form.similarity(64), 498);
}

#[test]
fn forms_that_cannot_be_are_refused() {
    assert_eq!(SketchForm::new(15, SlotBits::B8), Err(BadForm::Slots(15)));
    assert_eq!(SketchForm::new(256, SlotBits::B8), Err(BadForm::Slots(256)));
    assert_eq!(SketchForm::new(17, SlotBits::B4), Err(BadForm::HalfByte(17)));
    assert_eq!(form(128, SlotBits::B8).bytes(), 128);
    assert_eq!(form(128, SlotBits::B4).bytes(), 64);
}

proptest! {
    #[test]
    fn a_distance_counts_the_slots_that_differ(one in prop::collection::vec(any::<u32>(), 32), flips in any::<u32>()) {
        let other: Vec<u32> =
            one.iter().enumerate().map(|(slot, value)| if flips >> slot & 1 == 1 { value ^ 0xffff } else { *value }).collect();
        for bits in [SlotBits::B4, SlotBits::B8, SlotBits::B16] {
            let form = form(32, bits);
            let (one, other) = (form.cut(&one), form.cut(&other));
            let differing = (0..32).filter(|slot| form.slot(&one, *slot) != form.slot(&other, *slot)).count();
            prop_assert_eq!(usize::from(form.distance(&one, &other)), differing);
            prop_assert_eq!(one.bytes().len(), form.bytes());
        }
    }
}
