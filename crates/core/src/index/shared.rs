//! An immutable view of the originals at one moment, readable while the index changes.

use std::ops::Range;

use super::original::Original;
use super::ring::Ring;
use super::simhash_index::SharedSimHashes;
use super::sketches::SharedSketches;
use crate::protocol::ExpiryWatermarks;

/// The originals that some stage could match at one moment. It shares the memory of the index
/// ([`super::Index::share`]): originals that the index drops later stay in memory until they are dropped here, too.
#[derive(Debug)]
pub struct SharedOriginals {
    ring: Ring,
    codes: SharedSimHashes,
    sketches: SharedSketches,
    watermarks: ExpiryWatermarks,
}

impl SharedOriginals {
    pub(super) const fn new(
        ring: Ring,
        codes: SharedSimHashes,
        sketches: SharedSketches,
        watermarks: ExpiryWatermarks,
    ) -> Self {
        Self { ring, codes, sketches, watermarks }
    }

    /// Returns all of them, in sequence order.
    pub fn iter(&self) -> impl Iterator<Item = Original> {
        self.at(self.positions())
    }

    /// Returns the originals up to a sequence number, inclusive.
    pub fn through(&self, last: u64) -> impl Iterator<Item = Original> {
        self.at(self.positions().start..self.end_of(last))
    }

    /// Drops the originals up to a sequence number, inclusive, and frees their memory.
    pub fn drop_through(&mut self, last: u64) {
        let end = self.end_of(last);
        self.ring.drop_before(end);
        self.codes.drop_before(end);
        self.sketches.drop_before(end);
    }

    /// Returns the sequence number of the first, if there is one.
    #[must_use]
    pub fn first_sequence(&self) -> Option<u64> {
        self.live(self.positions()).next().and_then(|position| self.ring.sequence(position))
    }

    fn positions(&self) -> Range<u64> {
        self.ring.first_from(self.watermarks.first_sequence)..self.ring.positions().end
    }

    /// Returns the position after the last original whose sequence number is at most `last`.
    fn end_of(&self, last: u64) -> u64 {
        last.checked_add(1).map_or(self.ring.positions().end, |after| self.ring.first_from(after))
    }

    fn live(&self, positions: Range<u64>) -> impl Iterator<Item = u64> {
        positions
            .filter(|&position| !self.ring.is_forgotten(position) && !self.ring.is_expired(position, &self.watermarks))
    }

    fn at(&self, positions: Range<u64>) -> impl Iterator<Item = Original> {
        self.live(positions)
            .filter_map(|position| self.ring.original(position, self.codes.kept(position), self.sketches.get(position)))
    }
}
