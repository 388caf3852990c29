//! What tables know of entries: which ids are alive, those of the newest positions, and the keys, which belong to the
//! owner of the entries.

use std::ops::Range;

/// A window of ids. Ids are positions cut to 32 bits, so they wrap; ids at most 2^31 old are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveWindow {
    /// Id of the oldest live entry.
    pub tail: u32,
    /// How many ids are alive.
    pub live: u32,
}

impl LiveWindow {
    /// Creates the window of the positions from `tail` up to `head`.
    pub fn between(tail: u64, head: u64) -> Self {
        Self { tail: id_of(tail), live: u32::try_from(head.saturating_sub(tail)).unwrap_or(u32::MAX) }
    }

    /// Returns whether an id is alive.
    #[inline]
    pub const fn has(self, id: u32) -> bool {
        id.wrapping_sub(self.tail) < self.live
    }

    /// Returns the window as seen by ids counted from `base`.
    #[inline]
    pub const fn counted_from(self, base: u32) -> Self {
        Self { tail: self.tail.wrapping_sub(base), live: self.live }
    }
}

/// Returns the id of a position.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "ids wrap")]
pub(crate) const fn id_of(position: u64) -> u32 {
    position as u32
}

/// Returns the position of an id that is alive, from `tail` on.
#[inline]
pub(crate) fn position_of(id: u32, tail: u64) -> u64 {
    tail + u64::from(id.wrapping_sub(id_of(tail)))
}

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
