//! How a page and an original are related by their ids and addresses.

/// What the ids and addresses of a page and an original say about the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Nothing.
    Unrelated,
    /// They are renderings of one page: one names the other, or both name a third, as the canonical page.
    Renderings,
    /// They are the same page at two times.
    SamePage,
    /// They are the same page at two times, and fetched from the same address as far as is known.
    SameAddress,
}
