//! Which tables of the index hold an original.

/// Which tables hold an original. The judge decides this once and writes it into the verdict, so that all followers
/// hold the same tables (law L5).
///
/// An original is found by the key of each of its bands, except keys that find too many originals already, because a
/// page would have too many candidates ([`MinHashRules::max_bucket`](super::MinHashRules::max_bucket)). One that is
/// nearly the same as an earlier original, without being its duplicate (another page of the same template or site), is
/// found through that original. One whose text many pages of its site have, under other titles, is found by text and
/// title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// The bands (or, in a family, the keys of its differences) whose table does not hold it, one bit each; from 128
    /// on, a band shares the bit of the band 128 before it.
    pub skipped: u128,
    /// The sequence number of the head of the family that it belongs to: the original through which it is found.
    pub family: Option<u64>,
    /// Whether the table of exact hashes holds it by its text, site and title, instead of by its text alone.
    pub by_title: bool,
}

impl Placement {
    /// An original in the table of every band.
    pub const EVERYWHERE: Self = Self { skipped: 0, family: None, by_title: false };

    /// Returns whether the table of this band, from 0, holds it.
    #[must_use]
    pub const fn holds(self, band: usize) -> bool {
        self.skipped >> (band % 128) & 1 == 0
    }

    /// Leaves out the table of this band.
    pub const fn skip(&mut self, band: usize) {
        self.skipped |= 1 << (band % 128);
    }
}
