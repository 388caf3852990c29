//! The other form: one order, the k first of the set.

use std::cmp::Ordering;

/// The k smallest hashes of a set, ascending, each once (Broder's "bottom-k"). A smaller set is kept whole.
///
/// One hash for each element instead of M, and no estimate by slots: bands cannot be cut from it.
///
/// ```
/// # use dupgate::fingerprint::Bottom;
/// let (a, b) = (Bottom::new(&[5, 1, 4, 9], 3), Bottom::new(&[4, 7, 1, 1], 3));
/// assert_eq!(a.hashes(), [1, 4, 5]);
/// // The three smallest of the union are 1, 4 and 5; 1 and 4 are in both.
/// assert_eq!(a.similarity(&b), (2, 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bottom {
    hashes: Vec<u32>,
    k: usize,
}

impl Bottom {
    /// Keeps the `k` smallest of the elements.
    #[must_use]
    pub fn new(elements: &[u32], k: usize) -> Self {
        let mut hashes = elements.to_vec();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(k);
        Self { hashes, k }
    }

    /// Returns what is kept.
    #[must_use]
    pub fn hashes(&self) -> &[u32] {
        &self.hashes
    }

    /// Estimates the Jaccard index on the k smallest of the union: how many of them are in both sets, and how many
    /// they are. Both sets must be kept with the same k. Exact for sets that were kept whole.
    #[must_use]
    pub fn similarity(&self, other: &Self) -> (usize, usize) {
        let (mut ours, mut theirs) = (self.hashes.iter().peekable(), other.hashes.iter().peekable());
        let (mut both, mut seen) = (0, 0);
        while seen < self.k.min(other.k) {
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
}
