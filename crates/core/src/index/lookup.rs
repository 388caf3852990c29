//! Looks up single originals by position, id or code, for operators. No verdict depends on these lookups.

use super::ring::masked;
use super::{Index, Original};
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
