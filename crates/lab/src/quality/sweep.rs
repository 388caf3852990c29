//! Thresholds tried out on a sample of pages, with the exact Jaccard index as the reference.

use std::collections::HashMap;

use dupgate_core::fingerprint::{Evidence, MAX_DISTANCE, PerMille, SimHash, Sketch};
use dupgate_core::protocol::MinHashRules;

use super::Pairs;
use super::chance::jaccard_of;

/// Pairs less alike than this are of no interest to anybody.
const LEAST: f64 = 0.1;

/// The same, as sketches estimate it.
const MIN_ESTIMATE: PerMille = PerMille(100);

/// Cells of the histogram in which the valley is sought, from 0 to 1.
const CELLS: usize = 20;

/// How far pairs must rise after the valley: this many times what lies in it, and some more than chance would.
const RISE: f64 = 1.5;
const MIN_RISE: f64 = 4.0;

/// The share of the pairs of one distance that the reference must confirm for it to be recommended.
const CONFIRMED: f64 = 0.95;

/// One page of a sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its `SimHash`.
    pub simhash: Option<SimHash>,
    /// Its sketch.
    pub sketch: Option<Sketch>,
    /// Hashes of its shingles, ascending, each once.
    pub shingles: Vec<u32>,
}

/// Two pages that are alike by some measure; the first came first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alike {
    /// Number of the first page.
    pub one: usize,
    /// Number of the second.
    pub other: usize,
    /// Their Jaccard index.
    pub jaccard: f64,
    /// Differing bits.
    pub bits: Option<u32>,
    /// The Jaccard index that the sketches tell; only when they share enough keys to be compared,
    /// and it is to be believed.
    pub estimate: Option<PerMille>,
}

/// What a threshold does to a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Pages that are near an earlier one.
    pub near: usize,
    /// Pairs of pages: those that the reference calls duplicates, those that the threshold does, and those of both.
    pub pairs: Pairs,
}

/// All pairs of a sample that are alike by some measure.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The pairs, by their second page, then by their first.
    pub alike: Vec<Alike>,
}

impl Sweep {
    /// Compares every page with every earlier one. Costs some nanoseconds a pair, and what popular shingles cost.
    #[must_use]
    pub fn of(pages: &[Sample], sketching: Option<MinHashRules>) -> Self {
        let mut holders: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut shared = vec![0_usize; pages.len()];
        let mut alike = Vec::new();
        for (other, page) in pages.iter().enumerate() {
            shared.fill(0);
            for &holder in page.shingles.iter().filter_map(|shingle| holders.get(shingle)).flatten() {
                if let Some(shared) = shared.get_mut(holder) {
                    *shared += 1;
                }
            }
            for (one, (earlier, shared)) in pages.iter().zip(&shared).enumerate().take(other) {
                let jaccard = jaccard_of(*shared, page.shingles.len(), earlier.shingles.len());
                let bits = page.simhash.zip(earlier.simhash).and_then(|(page, earlier)| page.distance(earlier));
                let estimate = || {
                    let rules @ MinHashRules { form, banding, low_confidence, .. } = sketching?;
                    let (ours, theirs) = (page.sketch.as_ref()?, earlier.sketch.as_ref()?);
                    let distance = form.distance(ours, theirs);
                    let estimate = form.similarity(distance);
                    let shared = banding.shared(form, ours, theirs);
                    let of_page = u32::try_from(page.shingles.len()).ok();
                    let contained = form.contained(ours, theirs, distance, banding.rows());
                    let bits = bits.and_then(|bits| u8::try_from(bits).ok());
                    let shingles = u32::try_from(page.shingles.len().min(earlier.shingles.len())).ok();
                    let evidence =
                        Evidence { estimate, contained, distance: bits, shingles, of_two_sites: false, rivals: 0 };
                    (shared >= usize::from(rules.keys_needed(of_page)) && low_confidence.is_sure(form, evidence))
                        .then_some(estimate)
                };
                let estimate = estimate();
                let close = bits.is_some_and(|bits| bits <= u32::from(MAX_DISTANCE));
                if jaccard >= LEAST || close || estimate.is_some_and(|estimate| estimate >= MIN_ESTIMATE) {
                    alike.push(Alike { one, other, jaccard, bits, estimate });
                }
            }
            page.shingles.iter().for_each(|shingle| holders.entry(*shingle).or_default().push(other));
        }
        Self { alike }
    }

    /// Finds the Jaccard index above which pairs are no longer unrelated: where pairs stop becoming fewer, and clearly
    /// more farther on. A multiple of 0.05 from 0.15 to 0.85; `None` when pairs become fewer all the way.
    #[must_use]
    pub fn valley(&self) -> Option<f64> {
        let mut cells = [0_u32; CELLS];
        for alike in &self.alike {
            if let Some(cell) = cells.get_mut(cell_of(alike.jaccard)) {
                *cell += 1;
            }
        }
        // Each with its neighbours, the middle one twice.
        let smooth: Vec<f64> = cells
            .windows(3)
            .filter_map(|three| match *three {
                [below, middle, above] => Some(f64::from(below) + 2.0 * f64::from(middle) + f64::from(above)),
                _ => None,
            })
            .collect();
        let is_low = |at: usize| {
            let (here, beyond) = (smooth.get(at)?, smooth.get(at + 1..)?);
            let peak = beyond.iter().copied().fold(0.0, f64::max);
            (here <= beyond.first()? && peak >= RISE * here + MIN_RISE).then_some(at + 1)
        };
        let lowest = (2..=16).find_map(is_low).and_then(|cell| u32::try_from(cell).ok());
        lowest.map(|cell| f64::from(cell) / 20.0)
    }

    /// Tries a distance of the `SimHash`.
    #[must_use]
    pub fn bits(&self, most: u8, truth: f64) -> Tried {
        self.tried(truth, |alike| alike.bits.is_some_and(|bits| bits <= u32::from(most)))
    }

    /// Tries an estimated similarity.
    #[must_use]
    pub fn similarity(&self, least: PerMille, truth: f64) -> Tried {
        self.tried(truth, |alike| alike.estimate.is_some_and(|estimate| estimate >= least))
    }

    fn tried(&self, truth: f64, says: impl Fn(&Alike) -> bool) -> Tried {
        let (mut pairs, mut near, mut last) = (Pairs::default(), 0, None);
        for alike in &self.alike {
            let (right, said) = (alike.jaccard >= truth, says(alike));
            pairs.planted += u64::from(right);
            pairs.said += u64::from(said);
            pairs.right += u64::from(right && said);
            if said && last != Some(alike.other) {
                near += 1;
                last = Some(alike.other);
            }
        }
        Tried { near, pairs }
    }

    /// Recommends a distance of the `SimHash`: the largest that still brings in pairs which the reference confirms, up
    /// to the first whose own pairs are mostly none. `None` when the sample has no such pair.
    #[must_use]
    pub fn recommended_bits(&self, truth: f64) -> Option<u8> {
        let mut recommended = None;
        for bits in 0..=MAX_DISTANCE {
            let own = self.tried(truth, |alike| alike.bits == Some(u32::from(bits))).pairs;
            if own.precision() < CONFIRMED {
                break;
            }
            if own.right > 0 {
                recommended = Some(bits);
            }
        }
        recommended
    }

    /// Chooses pairs to review, up to a maximum: those on which a stage and the reference disagree, and those on both
    /// sides of the border, the nearest to it first.
    #[must_use]
    pub fn doubtful(&self, truth: f64, most_bits: u8, least: PerMille, most: usize) -> Vec<Alike> {
        let disagree = |alike: &Alike| {
            let right = alike.jaccard >= truth;
            let by_bits = alike.bits.is_some_and(|bits| bits <= u32::from(most_bits));
            let by_sketch = alike.estimate.is_some_and(|estimate| estimate >= least);
            (by_bits || by_sketch) != right
        };
        let mut doubtful = self.alike.clone();
        let far = |alike: &Alike| (alike.jaccard - truth).abs();
        // The same text again and again teaches nothing.
        doubtful.retain(|alike| alike.jaccard < 1.0 || disagree(alike));
        doubtful.sort_by(|one, other| {
            (!disagree(one)).cmp(&!disagree(other)).then_with(|| far(one).total_cmp(&far(other)))
        });
        doubtful.truncate(most);
        doubtful
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index between 0 and 1")]
fn cell_of(jaccard: f64) -> usize {
    ((jaccard * 20.0) as usize).min(CELLS - 1)
}
