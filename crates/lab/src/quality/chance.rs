//! How alike unlike texts usually are: what is known before a text was seen.
//!
//! `likeness.txt` holds histograms of real texts (`dupgate eval -o jsonl` prints one as `likeness`), for each kind of
//! text and length of a shingle. They tell a configuration that a judge cannot afford from one that it can; for texts
//! of one's own, `eval` measures.
//!
//! From them, or from the texts measured, [`BackgroundSimilarity`] says how many candidates bands find by chance in a
//! large index.

use std::cmp::Ordering;
use std::collections::HashMap;

use dupgate_core::fingerprint::{Banding, ShingleUnit, Shingling};

/// What a judge does for a page by chance: texts that are no duplicates and look like some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// The kind of text.
    pub kind: &'static str,
    /// Originals that share a key with the page.
    pub found: f64,
    /// Originals that share enough keys, and whose sketches are compared.
    pub compared: f64,
}

/// Cost of a key: a line of a table, asked for ahead of time, in nanoseconds.
const KEY_NS: f64 = 20.0;

/// Cost of an original that shares a key: a place in a run, and a count.
const FOUND_NS: f64 = 10.0;

/// Cost of an original that is compared: its sketch is two steps away in the memory.
const COMPARED_NS: f64 = 200.0;

impl Chance {
    /// Estimates how long a judge looks for one page in the `minhash` stage, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, banding: Banding) -> f64 {
        f64::from(banding.bands()) * KEY_NS + self.found * FOUND_NS + self.compared * COMPARED_NS
    }
}

/// Estimates what a page finds by chance among `originals` texts of its kind, for each kind that is known. Shingles
/// shorter or longer than any measured count as the nearest. Of shingles of words nothing is known.
#[must_use]
pub fn chances(
    Shingling { unit, lengths }: Shingling,
    banding: Banding,
    min_shared_bands: u8,
    originals: u64,
) -> Vec<Chance> {
    KINDS
        .iter()
        .filter(|_| unit == ShingleUnit::Characters)
        .filter_map(|&(kind, name, is_han)| {
            let background = background(name, if is_han { lengths.han } else { lengths.other })?;
            let found = background.candidates(banding, 1, originals);
            Some(Chance { kind, found, compared: background.candidates(banding, min_shared_bands, originals) })
        })
        .collect()
}

/// Kinds of text, as shown and as in the file, and whether they are written in Han characters.
const KINDS: [(&str, &str, bool); 3] =
    [("Chinese news", "zh_news", true), ("short Chinese posts", "zh_short", true), ("English news", "en_news", false)];

/// Finds the histogram of a kind whose length is nearest.
fn background(name: &str, length: usize) -> Option<BackgroundSimilarity> {
    let rows = include_str!("likeness.txt").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let of = words.next().filter(|of| *of == name).and_then(|_| words.next()?.parse::<usize>().ok())?;
        Some((of.abs_diff(length), words.filter_map(|count| count.parse().ok()).collect::<Vec<u32>>()))
    };
    let nearest = rows.filter_map(row).min_by_key(|(gap, _)| *gap);
    nearest.map(|(_, bins)| BackgroundSimilarity::from_histogram(&bins))
}

/// Jaccard indices of pairs of texts that are no duplicates of each other.
#[derive(Clone, Debug, Default)]
pub struct BackgroundSimilarity {
    /// Those that are not 0, each with the share of all pairs that have it.
    jaccards: Vec<(f64, f64)>,
}

/// The number of pairs that a histogram's counts refer to.
const PAIRS: f64 = 1e9;

/// The largest Jaccard index that a histogram tells apart.
const LARGEST: f64 = 0.3;

/// From one bin of a histogram to the next the index shrinks to this share.
const STEP: f64 = 0.9;

/// Bins of a histogram; less alike pairs find each other by no bands.
const BINS: usize = 44;

impl BackgroundSimilarity {
    /// Compares all pairs of sets of shingles (each without repeats).
    #[must_use]
    pub fn of(sets: &[Vec<u32>]) -> Self {
        let mut jaccards = Vec::new();
        let mut pairs = 0;
        let mut holders: HashMap<u32, Vec<u32>> = HashMap::new();
        for (number, set) in (0_u32..).zip(sets) {
            for (other, shared) in shared_with(set, &holders) {
                let others = sets.get(other as usize).map_or(0, Vec::len);
                jaccards.push(jaccard_of(shared, set.len(), others));
            }
            pairs += number as usize;
            set.iter().for_each(|shingle| holders.entry(*shingle).or_default().push(number));
        }
        // Sums are to be the same in every run.
        jaccards.sort_unstable_by(f64::total_cmp);
        let each = share(1, pairs);
        Self { jaccards: jaccards.into_iter().map(|jaccard| (jaccard, each)).collect() }
    }

    /// Reads the background similarity from its histogram ([`BackgroundSimilarity::histogram`]).
    #[must_use]
    pub fn from_histogram(bins: &[u32]) -> Self {
        let middle = |bin: i32| LARGEST * STEP.powi(bin) * STEP.sqrt();
        let jaccards = (0..).zip(bins).filter(|(_, count)| **count > 0);
        Self { jaccards: jaccards.map(|(bin, count)| (middle(bin), f64::from(*count) / PAIRS)).collect() }
    }

    /// Counts pairs of a thousand million by how alike they are, the most alike first: the first bin ends at 0.3, each
    /// further one reaches down to nine tenths of the one before, those past the last are left out.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of a thousand million")]
    pub fn histogram(&self) -> Vec<u32> {
        let mut shares = [0.0; BINS];
        for (jaccard, share) in &self.jaccards {
            let bin = ((jaccard / LARGEST).ln() / STEP.ln()).max(0.0) as usize;
            if let Some(bin) = shares.get_mut(bin) {
                *bin += share;
            }
        }
        shares.map(|share| (share * PAIRS).round() as u32).to_vec()
    }

    /// Returns how many of `originals` such texts share at least `least` of the keys with one more of them.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn candidates(&self, banding: Banding, least: u8, originals: u64) -> f64 {
        let found: f64 = self.jaccards.iter().map(|(jaccard, share)| share * banding.recall(*jaccard, least)).sum();
        found * originals as f64
    }
}

/// Returns which texts are unlike all texts kept before them: of no pair the smaller one is contained in the other to a
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
    jaccard_of(shared_by(one, other), one.len(), other.len())
}

/// Counts what is in both of two sorted sets.
fn shared_by<T: Ord>(one: &[T], other: &[T]) -> usize {
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
    shared
}

/// Returns the share of the smaller of two sorted sets that is in the other one; 0 of nothing.
#[must_use]
pub fn contained<T: Ord>(one: &[T], other: &[T]) -> f64 {
    share(shared_by(one, other), one.len().min(other.len()))
}

pub(super) fn jaccard_of(shared: usize, one: usize, other: usize) -> f64 {
    share(shared, (one + other).saturating_sub(shared))
}

#[expect(clippy::cast_precision_loss, reason = "counts of shingles of one page")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
