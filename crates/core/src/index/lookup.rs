//! What others than the judge read in the index: operators look up single originals by position, id or code, snapshots
//! share a view of all of them at one moment, metrics and status show statistics. No verdict depends on any of it.

use std::ops::Range;

use super::Index;
use super::original::Original;
use super::ring::{Ring, masked};
use super::simhash_index::SharedSimHashes;
use super::sketches::SharedSketches;
use crate::fingerprint::{IdHash, SimHash};
use crate::protocol::ExpiryWatermarks;
use crate::record::Source;

impl Index {
    /// Returns the original from this input position, unless it is forgotten or expired.
    #[must_use]
    pub fn of_source(&self, source: &Source, watermarks: &ExpiryWatermarks) -> Vec<Original> {
        let found = self.positions_of_source(source);
        found
            .into_iter()
            .filter(|&position| !self.is_expired(position, watermarks))
            .filter_map(|position| self.original(position))
            .collect()
    }

    /// Returns every original with this id that is not expired.
    #[must_use]
    pub fn of_id(&self, id: IdHash, watermarks: &ExpiryWatermarks) -> Vec<Original> {
        self.positions_of_id(id, watermarks).into_iter().filter_map(|position| self.original(position)).collect()
    }

    /// Returns the positions in memory. New originals are added after them, and old ones leave at the front.
    #[must_use]
    pub fn positions(&self) -> std::ops::Range<u64> {
        self.ring.positions()
    }

    /// Returns the originals at these positions that are within `max_distance` bits of a code, in any scope, with their
    /// distances. Returns none if the originals' codes have another width. Compares all of them, so a caller that must
    /// not block for long passes a few positions at a time.
    #[must_use]
    pub fn near_code_at(
        &self,
        positions: std::ops::Range<u64>,
        code: SimHash,
        max_distance: u8,
        watermarks: &ExpiryWatermarks,
    ) -> Vec<(u8, Original)> {
        let held = self.ring.positions();
        (positions.start.max(held.start)..positions.end.min(held.end))
            .filter_map(|position| {
                let distance = self.bits_to(masked(code, self.ring.scope(position)), position)?;
                let is_near = distance <= max_distance && !self.is_expired(position, watermarks);
                is_near.then(|| Some((distance, self.original(position)?))).flatten()
            })
            .collect()
    }

    pub(super) fn positions_of_source(&self, source: &Source) -> Vec<u64> {
        let Some(key) = self.ring.key_of(source) else { return Vec::new() };
        let mut found = Vec::new();
        let offsets = source.offset..source.offset.saturating_add(1);
        self.by_source.equal(0, key, &self.ring.positions(), |position| {
            if self.ring.is_from(position, &source.partition, &offsets) {
                found.push(position);
            }
        });
        found
    }

    pub(super) fn positions_of_id(&self, id: IdHash, watermarks: &ExpiryWatermarks) -> Vec<u64> {
        self.positions_with_id(id).filter(|&position| self.is_live(position, watermarks)).collect()
    }

    /// Returns every original in memory that has this id, in any order.
    pub(super) fn positions_with_id(&self, id: IdHash) -> impl Iterator<Item = u64> {
        let mut found = Vec::new();
        self.by_id.equal(0, id.0, &self.ring.positions(), |position| found.push(position));
        found.into_iter().filter(move |&position| self.ring.id(position) == Some(id))
    }
}

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
    pub(crate) fn iter(&self) -> impl Iterator<Item = Original> {
        self.at(self.positions())
    }

    /// Returns the originals up to a sequence number, inclusive.
    pub(crate) fn through(&self, last: u64) -> impl Iterator<Item = Original> {
        self.at(self.positions().start..self.end_of(last))
    }

    /// Drops the originals up to a sequence number, inclusive, and frees their memory.
    pub(crate) fn drop_through(&mut self, last: u64) {
        let end = self.end_of(last);
        self.ring.drop_before(end);
        self.codes.drop_before(end);
        self.sketches.drop_before(end);
    }

    /// Returns the sequence number of the first, if there is one.
    #[must_use]
    pub(crate) fn first_sequence(&self) -> Option<u64> {
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

/// Statistics of a [`super::Index`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Originals in memory.
    pub originals: u64,
    /// Memory of the columns and sketches, in bytes: the originals themselves, without tables.
    pub fingerprint_bytes: usize,
    /// Memory of the sketches, their tables and the families, in bytes.
    pub sketch_bytes: usize,
    /// Memory of the tables of codes and bands, in bytes.
    pub bucket_bytes: usize,
    /// Memory of the table of exact hashes, in bytes.
    pub exact_bytes: usize,
    /// Memory of the tables of ids, addresses and sources, in bytes.
    pub ref_bytes: usize,
    /// All memory, in bytes, without topic names, which are shared.
    pub memory_bytes: usize,
    /// The size of the largest bucket seen recently in any table, in entries.
    pub largest_bucket: u32,
}
