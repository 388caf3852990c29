//! The keys of entries, which belong to the owner of the entries.

use std::ops::Range;

/// Source of the keys of entries.
pub trait Keys {
    /// Returns the key that the entry at a position has in a table, if it is in that table. Called only for positions
    /// of the ring, or a few beyond it, which have none.
    fn key(&self, table: usize, position: u64) -> Option<u64>;

    /// Passes the keys of consecutive entries in a table to `take`, in order, as [`Keys::key`] returns them.
    #[inline]
    fn keys(&self, table: usize, positions: Range<u64>, take: impl FnMut(Option<u64>)) {
        positions.map(|position| self.key(table, position)).for_each(take);
    }
}

impl<K: Keys> Keys for &K {
    #[inline]
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        K::key(self, table, position)
    }

    #[inline]
    fn keys(&self, table: usize, positions: Range<u64>, take: impl FnMut(Option<u64>)) {
        K::keys(self, table, positions, take);
    }
}
