//! How alike unlike texts are: what the bands of a large index find by chance.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::fingerprint::Banding;

/// Jaccard indices of pairs of texts that are no duplicates of each other.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    /// Those that are not 0.
    jaccards: Vec<f64>,
    pairs: usize,
}

impl Crowd {
    /// Compares all pairs of sets of shingles (each without repeats).
    #[must_use]
    pub fn of(sets: &[Vec<u32>]) -> Self {
        let mut crowd = Self::default();
        let mut holders: HashMap<u32, Vec<u32>> = HashMap::new();
        for (number, set) in (0_u32..).zip(sets) {
            for (other, shared) in shared_with(set, &holders) {
                let others = sets.get(other as usize).map_or(0, Vec::len);
                crowd.jaccards.push(jaccard_of(shared, set.len(), others));
            }
            crowd.pairs += number as usize;
            set.iter().for_each(|shingle| holders.entry(*shingle).or_default().push(number));
        }
        crowd
    }

    /// Returns how many of `originals` such texts share at least `least` of the keys with one more of them.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn candidates(&self, banding: Banding, least: u8, originals: u64) -> f64 {
        let found: f64 = self.jaccards.iter().map(|jaccard| banding.recall(*jaccard, least)).sum();
        found / self.pairs.max(1) as f64 * originals as f64
    }
}

/// Says which texts are unlike all texts kept before them: of no pair the smaller one is contained in the other to a
/// share of `most` or more. Sets of shingles without repeats.
#[must_use]
pub fn clean(sets: &[Vec<u32>], most: f64) -> Vec<bool> {
    let mut holders: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut kept = Vec::with_capacity(sets.len());
    for (number, set) in (0_u32..).zip(sets) {
        let unlike = shared_with(set, &holders).iter().all(|(other, shared)| {
            let others = sets.get(*other as usize).map_or(0, Vec::len);
            // The share of the smaller one: never less than the Jaccard index.
            share(*shared, set.len().min(others)) < most
        });
        if unlike {
            set.iter().for_each(|shingle| holders.entry(*shingle).or_default().push(number));
        }
        kept.push(unlike);
    }
    kept
}

/// Returns the sorted set of these shingles, or of their hashes.
#[must_use]
pub fn set_of<T: Ord + Clone>(shingles: &[T]) -> Vec<T> {
    let mut set = shingles.to_vec();
    set.sort_unstable();
    set.dedup();
    set
}

fn shared_with(set: &[u32], holders: &HashMap<u32, Vec<u32>>) -> HashMap<u32, usize> {
    let mut shared = HashMap::new();
    for other in set.iter().filter_map(|shingle| holders.get(shingle)).flatten() {
        *shared.entry(*other).or_default() += 1;
    }
    shared
}

/// Returns the Jaccard index of two sorted sets: the share of what is in one of them that is in both; 0 of nothing.
#[must_use]
pub fn jaccard<T: Ord>(one: &[T], other: &[T]) -> f64 {
    let (mut ours, mut theirs, mut shared) = (one.iter().peekable(), other.iter().peekable(), 0);
    while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
        let order = a.cmp(b);
        shared += usize::from(order == Ordering::Equal);
        if order != Ordering::Greater {
            ours.next();
        }
        if order != Ordering::Less {
            theirs.next();
        }
    }
    jaccard_of(shared, one.len(), other.len())
}

fn jaccard_of(shared: usize, one: usize, other: usize) -> f64 {
    share(shared, (one + other).saturating_sub(shared))
}

#[expect(clippy::cast_precision_loss, reason = "counts of shingles of one page")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
