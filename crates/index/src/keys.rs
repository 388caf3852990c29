//! The keys of entries, which belong to the owner of the entries.

/// Source of the keys of entries.
pub trait Keys {
    /// Returns the key that the entry at a position has in a table, if it is in that table. Called only for positions
    /// of the ring, or a few beyond it, which have none.
    fn key(&self, table: usize, position: u64) -> Option<u64>;
}

impl<K: Keys> Keys for &K {
    #[inline]
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        K::key(self, table, position)
    }
}
