//! What is left to read of a partition of the input.

use crate::record::Timestamp;

/// What is left to read of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The next offset to read: the committed one, or where a group without one begins.
    pub next: i64,
    /// The offset after the last record.
    pub end: i64,
    /// Times of the first pages from the offset that was asked for, at most [`Backlog::PAGES`]; none when no page
    /// follows. Absent when it was not asked for, or is not known.
    pub head: Option<Vec<Timestamp>>,
}

impl Backlog {
    /// Pages that have to agree on the time of a partition.
    pub const PAGES: usize = 8;
}
