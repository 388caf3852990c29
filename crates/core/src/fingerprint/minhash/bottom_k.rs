//! Bottom-k sketches: one permutation, the k smallest hashes of the set.

use std::cmp::Ordering;

/// Bytes for each element.
pub(super) const BYTES: usize = 4;

/// Padding for a set of fewer than k elements: no kept element has this value.
const NONE: u32 = u32::MAX;

/// Appends the `k` smallest of the elements, ascending, padded to `k`.
pub(super) fn write(elements: &[u32], k: usize, out: &mut Vec<u8>) {
    let kept = BottomK::new(elements, k);
    let padding = std::iter::repeat(&NONE);
    out.extend(kept.hashes.iter().chain(padding).take(k).flat_map(|element| element.to_be_bytes()));
}

/// Reads what [`write()`] wrote.
pub(super) fn read(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).take_while(|element| *element != NONE)
}

/// Returns how many of the `k` smallest elements of the union of two sets are in only one of them. If the union has
/// fewer elements, returns the same share of `k`, rounded up.
pub(super) fn distance(one: impl Iterator<Item = u32>, other: impl Iterator<Item = u32>, k: u8) -> u8 {
    let (both, seen) = shared(one, other, k.into());
    let alike = (both * usize::from(k)).checked_div(seen).unwrap_or(0);
    k.saturating_sub(u8::try_from(alike).unwrap_or(k))
}

/// Counts the elements of two ascending sets, among the k smallest of their union: those in both sets, and all of them.
fn shared(one: impl Iterator<Item = u32>, other: impl Iterator<Item = u32>, k: usize) -> (usize, usize) {
    let (mut ours, mut theirs) = (one.peekable(), other.peekable());
    let (mut both, mut seen) = (0, 0);
    while seen < k {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.cmp(other),
        };
        if order != Ordering::Greater {
            ours.next();
        }
        if order != Ordering::Less {
            theirs.next();
        }
        both += usize::from(order == Ordering::Equal);
        seen += 1;
    }
    (both, seen)
}

/// The k smallest hashes of a set, ascending, each once (Broder's "bottom-k"). A smaller set is kept whole.
///
/// It needs one hash for each element instead of M, but no bands can be cut from it. In a sketch, it follows the slots
/// ([`super::SketchForm::with_bottom`]).
///
/// ```
/// # use dupgate_core::fingerprint::BottomK;
/// let (a, b) = (BottomK::new(&[5, 1, 4, 9], 3), BottomK::new(&[4, 7, 1, 1], 3));
/// assert_eq!(a.hashes(), [1, 4, 5]);
/// // The three smallest of the union are 1, 4 and 5; 1 and 4 are in both.
/// assert_eq!(a.similarity(&b), (2, 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BottomK {
    hashes: Vec<u32>,
    k: usize,
}

impl BottomK {
    /// Keeps the `k` smallest of the elements.
    #[must_use]
    pub fn new(elements: &[u32], k: usize) -> Self {
        let mut hashes = elements.to_vec();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(k);
        Self { hashes, k }
    }

    /// Returns the hashes that are kept.
    #[must_use]
    pub fn hashes(&self) -> &[u32] {
        &self.hashes
    }

    /// Estimates the Jaccard index from the k smallest elements of the union: returns how many of them are in both
    /// sets, and how many there are. Both sets must be kept with the same k. Exact for sets that were kept whole.
    #[must_use]
    pub fn similarity(&self, other: &Self) -> (usize, usize) {
        shared(self.hashes.iter().copied(), other.hashes.iter().copied(), self.k.min(other.k))
    }
}
