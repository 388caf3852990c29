//! How a page and an original are related by their names.

/// What the ids and addresses of a page and an original say of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Nothing.
    Unrelated,
    /// They are renderings of one page: one names the other, or both name a third, as the canonical page.
    Renderings,
    /// They are one page at two times.
    SamePage,
    /// They are one page at two times, fetched from the same address as far as that is known.
    SameAddress,
}
