//! A second witness for low estimates.

/// Estimates that are so low that they may be wrong, and what is asked of them: how much of the smaller page is in the
/// other one. Strangers whose Jaccard index is taken for a third share half of the smaller page; a page in another
/// site's frame, or cut off, is in the other one as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unsure {
    /// The least estimated Jaccard index that needs no witness, in thousandths.
    pub below: u16,
    /// Least share of the smaller page that has to be in the other one, in thousandths, inclusive.
    pub containment: u16,
}

impl Unsure {
    /// Every estimate is believed.
    pub const NEVER: Self = Self { below: 0, containment: 0 };

    /// Says whether an estimate, in thousandths, needs no witness, or has one: `contained` is the share of the smaller
    /// page, where it is known.
    #[must_use]
    pub fn is_sure(self, estimate: u16, contained: impl FnOnce() -> Option<u16>) -> bool {
        estimate >= self.below || contained().is_some_and(|share| share >= self.containment)
    }
}
