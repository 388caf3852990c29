//! Finds the originals within the window that are near a page.
//!
//! Before: `judge` asks about the fingerprints of one page. After: it chooses among the candidates.
//!
//! Whether an original matches depends on its stage, scope, event time and the watermarks, and never on what happens to
//! be in memory (law L5). No candidate is dropped to save time: recall within the bound is exactly 1 (law L7).
//!
//! The originals are held in a ring in log order (`ring`). A position is the number of an insert, and expiry only moves
//! the first position forward. An original that is forgotten or replaced leaves the tables at once. The tables of
//! [`dupgate_index`] lead from keys to positions: one each for exact hashes, ids, addresses and sources, those that
//! find every `SimHash` code within a distance (`simhash_index`), and one for each band of the sketches (`sketches`).
//! Pages of one template or site are found through the head of their family (`families`).
//!
//! Memory is bounded by the entries held (law L6): for each original about 74 bytes in columns, 14 for each table of
//! codes, 7 for each table of bands, and the sketch. Tables grow into memory that another thread may prepare
//! ([`Index::maintenance`]).

mod simhash_index;
mod families;
mod lookup;
mod matching;
mod original;
mod refusal;
mod ring;
mod sketches;
mod variants;

use std::cell::RefCell;

use dupgate_index::{FuzzyTags, Tables};
use families::Families;
use ring::{ByAddress, ByExact, ById, BySource, Ring, masked};
use simhash_index::SimHashIndex;
use sketches::Sketches;
use variants::OldestOfIds;

use crate::fingerprint::{Fingerprints, IdHash, ScopeHash};
use crate::protocol::{ExpiryWatermarks, MinHashRules, Request};
use crate::record::{PartitionId, Source};

pub use dupgate_index::{Task, run_sequential};
pub use lookup::{IndexStats, SharedOriginals};
pub(crate) use original::{Candidate, FamilyRole, Probe, Relation};
pub use original::{Original, ProbeStats, Removed};
pub use refusal::Refusal;
pub use simhash_index::CODE_TABLES_BYTES;

/// How many originals, at least, are scanned in the time of one lookup by source.
const SCANNED_IN_A_LOOKUP: usize = 16;

/// How many pages ahead of its turn a request is prefetched, and how many ahead its sketch, which is read then.
const REQUEST_PREFETCH_DISTANCE: usize = 16;
const SKETCH_PREFETCH_DISTANCE: usize = 12;

/// How many pages ahead of its turn the cache lines of a page are prefetched.
const BUCKET_PREFETCH_DISTANCE: usize = 8;

/// How many pages ahead of its turn the memory that these lines point to is prefetched.
const OVERFLOW_PREFETCH_DISTANCE: usize = 3;

/// The most originals that a plan is made for: up to this number, the tables distinguish ids.
const MAX_ENTRIES: u64 = 1 << 31;

/// Returns whether looking up a range of this many offsets is faster than scanning everything held.
const fn is_short(length: usize, held: usize) -> bool {
    length <= held / SCANNED_IN_A_LOOKUP
}

/// The originals held, in log order, and the tables that find them.
#[derive(Debug)]
pub struct Index {
    ring: Ring,
    /// By the ring's positions. It begins where the `SimHash` window does.
    codes: SimHashIndex,
    /// By the ring's positions.
    sketches: Sketches,
    families: Families,
    last_sequence: Option<u64>,
    by_exact: Tables<FuzzyTags>,
    by_id: Tables<FuzzyTags>,
    by_address: Tables<FuzzyTags>,
    by_source: Tables<FuzzyTags>,
    oldest_of_ids: RefCell<OldestOfIds>,
}

impl Index {
    /// Creates an empty index whose tables find every pair within `max_distance` bits, 0 to 8.
    #[must_use]
    pub fn new(max_distance: u8) -> Self {
        Self::sized(max_distance, 0)
    }

    /// Creates an empty index with the plan that suits this many originals. It can hold more.
    #[must_use]
    pub fn sized(max_distance: u8, entries: u64) -> Self {
        let entries = entries.min(MAX_ENTRIES);
        Self {
            ring: Ring::new(),
            codes: SimHashIndex::sized(max_distance, entries),
            sketches: Sketches::new(entries),
            families: Families::new(),
            last_sequence: None,
            by_exact: Tables::new(1, entries),
            by_id: Tables::new(1, entries),
            // Few originals have an address that does not follow from their id.
            by_address: Tables::new(1, 0),
            by_source: Tables::new(1, entries),
            oldest_of_ids: RefCell::default(),
        }
    }

    /// Makes the tables find every pair within `max_distance` bits. Rebuilds them if they did not; the originals stay.
    pub(crate) fn set_max_distance(&mut self, max_distance: u8) {
        self.codes.set_max_distance(max_distance);
    }

    /// Compares sketches by these rules from now on, or not at all if there are none. Rebuilds the sketch tables if the
    /// rules changed; the originals stay.
    pub fn set_minhash(&mut self, rules: Option<MinHashRules>) {
        self.sketches.set_rules(&self.ring, rules);
        self.build_families();
    }

    /// Prepares the tables to grow towards this many originals.
    pub(crate) fn expect(&mut self, entries: u64) {
        let entries = entries.min(MAX_ENTRIES);
        self.sketches.expect(entries);
        self.codes.expect(entries);
        self.by_exact.expect(entries);
        self.by_id.expect(entries);
        self.by_source.expect(entries);
    }

    /// Passes deferred maintenance tasks to `hand_over`: see [`dupgate_index::HammingIndex::maintenance`].
    pub fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.codes.maintenance(hand_over);
        self.sketches.maintenance(hand_over);
        self.families.maintenance(hand_over);
        for tables in [&mut self.by_exact, &mut self.by_id, &mut self.by_address, &mut self.by_source] {
            tables.maintenance(hand_over);
        }
    }

    /// Adds an original. Sequence numbers ascend strictly, gaps allowed. An original that is not after the last one is
    /// known already and changes nothing.
    pub fn insert(&mut self, original: &Original) {
        if is_next(&mut self.last_sequence, original) {
            self.ring.push(original);
            let code = original.fingerprints.simhash.map(|code| masked(code, original.scope));
            let member = original.placement.family.is_some();
            self.codes.push(code.filter(|_| !member));
            self.sketches.push(&self.ring, original.fingerprints.sketch.as_ref());
            let newest = self.ring.positions().end.saturating_sub(1);
            let keys = member.then(|| self.family_keys_of(newest).unwrap_or_default());
            self.families.push(self.ring.positions(), keys);
            let (ring, positions) = (&self.ring, self.ring.positions());
            self.by_exact.insert(&ByExact(ring), positions.clone());
            self.by_source.insert(&BySource(ring), positions.clone());
            if let Some(id) = original.id {
                self.by_id.insert(&ById(ring), positions.clone());
                self.oldest_of_ids.get_mut().insert(id, newest);
            }
            if let Some(address) = original.address {
                self.by_address.insert(&ByAddress(ring), positions);
                self.oldest_of_ids.get_mut().insert_at(address, original.id, newest);
            }
        }
    }

    /// Adds many originals, in sequence order; no lookup finds them before [`Index::build`]. `run` must do all tasks
    /// that it is given, in any order or at the same time ([`run_sequential`]): they do all of the work.
    pub(crate) fn fill(&mut self, originals: &[Original], mut run: impl FnMut(Vec<Task<'_>>)) {
        self.oldest_of_ids.get_mut().clear();
        let mut last = self.last_sequence;
        let rising = originals.iter().filter(move |original| is_next(&mut last, original));
        let (ring, codes, sketches, families) =
            (&mut self.ring, &mut self.codes, &mut self.sketches, &mut self.families);
        let simhashes = rising.clone().map(|original| {
            let code = original.fingerprints.simhash.map(|code| masked(code, original.scope));
            code.filter(|_| original.placement.family.is_none())
        });
        let members =
            rising.clone().zip(ring.positions().end..).filter(|(original, _)| original.placement.family.is_some());
        members.for_each(|(_, position)| families.fill(position));
        let theirs = rising.clone().map(|original| original.fingerprints.sketch.as_ref());
        run(vec![
            Box::new(|| rising.for_each(|original| ring.push(original))),
            Box::new(|| codes.fill(simhashes)),
            Box::new(|| sketches.fill(theirs)),
        ]);
        self.last_sequence = originals.iter().map(|original| original.sequence).max().max(self.last_sequence);
    }

    /// Rebuilds all tables over the originals held, by the plan that suits their codes; `run` does the tasks, as in
    /// [`Index::fill`].
    pub(crate) fn build(&mut self, mut run: impl FnMut(Vec<Task<'_>>)) {
        self.build_families();
        let mut tasks = self.codes.build_tasks();
        tasks.extend(self.sketches.build_tasks(&self.ring));
        let (ring, positions) = (&self.ring, self.ring.positions());
        let held = positions.end - positions.start;
        tasks.extend(self.by_exact.build_tasks(ByExact(ring), &positions, held));
        tasks.extend(self.by_source.build_tasks(BySource(ring), &positions, held));
        if ring.has_ids() {
            tasks.extend(self.by_id.build_tasks(ById(ring), &positions, held));
        }
        if ring.has_addresses() {
            tasks.extend(self.by_address.build_tasks(ByAddress(ring), &positions, held));
        }
        run(tasks);
    }

    /// Prefetches what the next requests will read; changes nothing. `upcoming(n)` returns the request that is judged
    /// after `n` others.
    #[inline]
    pub fn prefetch_upcoming<'r>(&self, upcoming: impl Fn(usize) -> Option<&'r Request>) {
        // Another thread wrote them.
        if let Some(request) = upcoming(REQUEST_PREFETCH_DISTANCE) {
            dupgate_index::prefetch_lines(request);
        }
        let page = |distance| upcoming(distance).and_then(|request| request.body.page());
        if let Some(sketch) = page(SKETCH_PREFETCH_DISTANCE).and_then(|page| page.fingerprints.sketch.as_ref()) {
            dupgate_index::prefetch_lines(sketch.bytes());
        }
        if let Some(page) = page(BUCKET_PREFETCH_DISTANCE) {
            self.prefetch(&page.fingerprints, page.scope);
            if let Some(id) = page.id {
                self.by_id.prefetch([id.0]);
            }
            if let Some(key) = self.ring.key_of(&page.source) {
                self.by_source.prefetch([key]);
            }
            if let Some((site, title)) = page.site.zip(page.title).filter(|_| self.ring.has_titled()) {
                let key = ring::key_of_exact(page.fingerprints.exact.0, page.scope);
                self.by_exact.prefetch([ring::with_title(key, site, title)]);
            }
        }
        // The cache lines of this page have arrived, and point to more memory.
        if let Some(page) = page(OVERFLOW_PREFETCH_DISTANCE)
            && let Some(code) = page.fingerprints.simhash
        {
            self.codes.prefetch_runs(masked(code, page.scope));
        }
    }

    fn prefetch(&self, fingerprints: &Fingerprints, scope: Option<ScopeHash>) {
        self.by_exact.prefetch([ring::key_of_exact(fingerprints.exact.0, scope)]);
        if let Some(code) = fingerprints.simhash {
            self.codes.prefetch(masked(code, scope));
        }
        if let Some(sketch) = &fingerprints.sketch {
            self.sketches.prefetch(sketch, scope);
        }
    }

    /// Returns the original with this sequence number, unless it was forgotten or dropped from memory. It may be older
    /// than the watermarks.
    #[must_use]
    pub(crate) fn get(&self, sequence: u64) -> Option<Original> {
        self.original(self.position_of(sequence)?)
    }

    fn position_of(&self, sequence: u64) -> Option<u64> {
        let position = self.ring.first_from(sequence);
        let is_held = self.ring.positions().contains(&position) && self.ring.sequence(position) == Some(sequence);
        is_held.then_some(position)
    }

    fn original(&self, position: u64) -> Option<Original> {
        self.ring.original(position, self.codes.kept(position), self.sketches.get(position))
    }

    /// Forgets the original from this input position; returns how many there were.
    pub fn forget_source(&mut self, source: &Source) -> u64 {
        let found = self.positions_of_source(source);
        self.forget(&found)
    }

    /// Forgets every original with this id that is not expired; returns how many there were.
    pub(crate) fn forget_id(&mut self, id: IdHash, watermarks: &ExpiryWatermarks) -> u64 {
        let found = self.positions_of_id(id, watermarks);
        self.forget(&found)
    }

    /// Forgets the originals from the offsets `from <= offset < to` of a partition; returns how many there were. Scans
    /// all originals unless the range is short in comparison.
    pub(crate) fn forget_range(&mut self, partition: &PartitionId, from: i64, to: i64) -> u64 {
        let length =
            usize::try_from(i128::from(to) - i128::from(from)).unwrap_or(if from < to { usize::MAX } else { 0 });
        if is_short(length, self.originals()) {
            return (from..to).map(|offset| self.forget_source(&partition.at(offset))).sum();
        }
        let found: Vec<u64> =
            self.ring.positions().filter(|&position| self.ring.is_from(position, partition, &(from..to))).collect();
        self.forget(&found)
    }

    fn forget(&mut self, positions: &[u64]) -> u64 {
        positions.iter().map(|&position| u64::from(self.forget_one(position))).sum()
    }

    /// Forgets an original; returns whether it was not forgotten before. Takes it out of all tables, because the
    /// earlier texts of a page that changes every minute would fill them.
    fn forget_one(&mut self, position: u64) -> bool {
        if !self.ring.is_forgotten(position) {
            let (ring, positions) = (&self.ring, self.ring.positions());
            self.by_exact.remove(&ByExact(ring), &positions, position);
            self.by_id.remove(&ById(ring), &positions, position);
            self.by_address.remove(&ByAddress(ring), &positions, position);
            self.by_source.remove(&BySource(ring), &positions, position);
            self.sketches.remove(ring, position);
            self.families.remove(&positions, position);
            self.codes.remove(position);
        }
        self.ring.forget(position)
    }

    /// Drops the originals before the first one that a probe with these watermarks can still match. Expired originals
    /// after that one are ignored by every probe and dropped later.
    pub fn advance(&mut self, watermarks: &ExpiryWatermarks) -> Removed {
        let mut gone = Removed::default();
        let (first, head) = (self.ring.positions().start, self.ring.positions().end);
        let mut front = first;
        while front < head {
            if !self.ring.is_forgotten(front) {
                if self.ring.event_time(front).is_some_and(|time| time < watermarks.times.min()) {
                    gone.expired += 1;
                } else if self.ring.sequence(front).is_some_and(|sequence| sequence < watermarks.first_sequence) {
                    gone.evicted += 1;
                } else {
                    break;
                }
            }
            front += 1;
        }
        // The window of the SimHash stage may be shorter than that of the exact stage.
        let before = self.codes.positions().start;
        let mut near = before.max(front);
        let is_over = |position: u64| {
            self.ring.is_forgotten(position)
                || self.ring.event_time(position).is_some_and(|time| time < watermarks.times.simhash)
        };
        while near < head && is_over(near) {
            near += 1;
        }
        let mut sketched = self.sketches.positions().start.max(front);
        let is_over = |position: u64| {
            self.ring.is_forgotten(position)
                || self.ring.event_time(position).is_some_and(|time| time < watermarks.times.minhash)
        };
        while sketched < head && is_over(sketched) {
            sketched += 1;
        }
        if sketched > self.sketches.positions().start || front > first {
            self.sketches.expire(&self.ring, sketched, front);
        }
        if front > first {
            self.families.drop_before(front);
            self.ring.drop_before(front);
        }
        if near > before || front > first {
            self.codes.expire_keeping(near, front);
            self.shrink_if_idle();
        }
        gone
    }

    /// Prepares for watermarks that are earlier than these, up to which the index was advanced: forgets every original
    /// that is expired by now, and finds all others in every stage again. So what is held afterwards does not depend on
    /// which expired originals were still in memory. Returns how many of these there were. Scans all originals, and
    /// rebuilds the tables of a stage whose window is shorter than that of another one.
    pub(crate) fn readmit(&mut self, watermarks: &ExpiryWatermarks) -> u64 {
        let expired: Vec<u64> =
            self.ring.positions().filter(|&position| self.is_expired(position, watermarks)).collect();
        let gone = self.forget(&expired);
        self.codes.readmit(self.ring.positions().start);
        self.sketches.readmit(&self.ring);
        gone
    }

    fn shrink_if_idle(&mut self) {
        self.codes.shrink_if_idle();
        let (ring, positions) = (&self.ring, self.ring.positions());
        let held = positions.end - positions.start;
        self.by_exact.shrink_if_idle(&ByExact(ring), &positions, held);
        self.by_source.shrink_if_idle(&BySource(ring), &positions, held);
        self.by_id.shrink_if_idle(&ById(ring), &positions, held);
        self.by_address.shrink_if_idle(&ByAddress(ring), &positions, held);
    }

    /// Returns the originals that some stage can still match under these watermarks, in log order.
    pub fn live<'a>(&'a self, watermarks: &'a ExpiryWatermarks) -> impl Iterator<Item = Original> + 'a {
        let first = self.ring.first_from(watermarks.first_sequence);
        (first..self.ring.positions().end)
            .filter(|&position| !self.is_expired(position, watermarks))
            .filter_map(|position| self.original(position))
    }

    /// Returns whether the original at a position was not forgotten and can still be matched.
    fn is_live(&self, position: u64, watermarks: &ExpiryWatermarks) -> bool {
        self.ring.is_live(position, watermarks.first_sequence, watermarks.times.min())
    }

    /// Returns whether no stage can match the original at a position any more.
    fn is_expired(&self, position: u64, watermarks: &ExpiryWatermarks) -> bool {
        self.ring.is_expired(position, watermarks)
    }

    /// Returns the originals of [`Index::live`] as a value that does not change with the index. It shares the index's
    /// memory, except for the newest chunk of each column, so it costs one pointer for each chunk.
    #[must_use]
    pub fn share(&self, watermarks: &ExpiryWatermarks) -> SharedOriginals {
        SharedOriginals::new(self.ring.share(), self.codes.share(), self.sketches.share(), *watermarks)
    }

    /// Returns how many originals are in memory, including forgotten ones that are not dropped yet.
    #[must_use]
    pub fn originals(&self) -> usize {
        let positions = self.ring.positions();
        usize::try_from(positions.end - positions.start).unwrap_or(usize::MAX)
    }

    /// Returns statistics for monitoring. Costs a few hundred nanoseconds.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let near = self.codes.stats();
        let exact = self.by_exact.stats().first().copied().unwrap_or_default();
        let bands = self.sketches.stats();
        let band_bytes: usize = bands.iter().map(|table| table.memory_bytes).sum();
        let ring_bytes = self.ring.memory_bytes();
        let sketch_bytes = self.sketches.memory_bytes() + self.families.memory_bytes();
        let exact_bytes = self.by_exact.memory_bytes();
        let ref_bytes = self.by_id.memory_bytes() + self.by_address.memory_bytes() + self.by_source.memory_bytes();
        let largest = bands.iter().chain([&exact]).map(|table| table.largest).chain([near.largest_bucket()]).max();
        IndexStats {
            originals: self.originals() as u64,
            fingerprint_bytes: ring_bytes + near.log_bytes + sketch_bytes.saturating_sub(band_bytes),
            sketch_bytes,
            bucket_bytes: near.table_bytes + band_bytes,
            exact_bytes,
            ref_bytes,
            memory_bytes: ring_bytes + near.memory_bytes() + exact_bytes + ref_bytes + sketch_bytes,
            largest_bucket: largest.unwrap_or(0),
        }
    }
}

/// Returns whether an original comes after the last one; if so, makes it the last one.
fn is_next(last: &mut Option<u64>, original: &Original) -> bool {
    let is_next = last.is_none_or(|last| last < original.sequence);
    if is_next {
        *last = Some(original.sequence);
    }
    is_next
}

#[cfg(test)]
mod tests;
