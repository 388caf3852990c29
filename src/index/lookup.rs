//! Finding single originals for people who ask: by position, by id, by code. Nothing of this decides a verdict.

use super::{Index, Original};
use crate::fingerprint::{IdHash, SimHash};
use crate::log::Tails;
use crate::record::Source;

impl Index {
    /// Returns the original that this position made, unless it is forgotten or behind the tails.
    #[must_use]
    pub fn of_source(&self, source: &Source, tails: &Tails) -> Vec<Original> {
        let found = self.positions_of_source(source);
        found
            .into_iter()
            .filter(|&position| !self.is_behind(position, tails))
            .filter_map(|position| self.original(position))
            .collect()
    }

    /// Returns every original with this id that is not behind the tails.
    #[must_use]
    pub fn of_id(&self, id: IdHash, tails: &Tails) -> Vec<Original> {
        self.positions_of_id(id, tails).into_iter().filter_map(|position| self.original(position)).collect()
    }

    /// Returns every original within so many bits of a code, whatever its scope, with its distance; none when theirs
    /// have another width. A distance beyond that of the tables ([`Index::set_max_distance`]) costs a scan of all codes.
    #[must_use]
    pub fn near_code(&self, code: SimHash, max_distance: u8, tails: &Tails) -> Vec<(u8, Original)> {
        let mut found = Vec::new();
        self.codes.probe(code, max_distance, |position, distance| {
            if !self.is_behind(position, tails) {
                found.extend(self.original(position).map(|original| (distance, original)));
            }
        });
        found
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

    pub(super) fn positions_of_id(&self, id: IdHash, tails: &Tails) -> Vec<u64> {
        let mut found = Vec::new();
        self.by_id.equal(0, id.0, &self.ring.positions(), |position| {
            if self.ring.id(position) == Some(id) && !self.is_behind(position, tails) {
                found.push(position);
            }
        });
        found
    }
}
