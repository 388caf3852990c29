//! Which tables of the index hold an original.

/// Which tables hold an original: decided once, by the judge, and written down with the verdict, so that every follower
/// holds the same (law L5).
///
/// An original is found by the key of each of its bands, except keys that hold too many originals already: a page would
/// have too many candidates ([`MinHashRules::bucket`](super::MinHashRules)). One that is nearly the same as an original
/// before it, without being a duplicate of it (another page of the same template, or of the same site), is found
/// through that one. One whose text many pages of its site have, under other titles, is found by text and title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// The bands (or, in a family, the keys of its differences) whose table does not hold it, bit by bit; those from
    /// 128 on share the bit of the band 128 before.
    pub skipped: u128,
    /// The sequence number of the head of the family that it belongs to: the original through which it is found.
    pub family: Option<u64>,
    /// Whether the table of exact hashes holds it by its text, site and title, instead of by its text alone.
    pub by_title: bool,
}

impl Placement {
    /// In the table of every band.
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
