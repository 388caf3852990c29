//! The sketches of the originals, found by the keys of their bands.
//!
//! A page is compared with every original that shares at least `min_shared_bands` of the keys that the original's
//! placement allows; for a short page, one shared key is enough. A popular key finds no more than `max_bucket`
//! originals, and members of families are found through their heads ([`super::families`]): only the `SimHash` stage
//! guarantees law L7. Keys are computed from the sketches held, so neither table entries nor the ring store them.
//!
//! Cost of a probe: one cache line for each band, the entries in the overflow runs of popular keys, and one comparison
//! of two sketches for each original that shares enough keys.
//!
//! The keys of a page are remembered for a while ([`RecentKeys`]), because they are needed four times: when its lines
//! are prefetched, when it is looked up, when its placement is chosen and when it is inserted. Computing them takes as
//! long as reading a good part of the lines.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use dupgate_index::{ExactTags, Keys, TableStats, Tables, Task, run_sequential};

use super::ring::{Ring, SketchColumn, in_scope};
use crate::fingerprint::{Evidence, PerMille, ScopeHash, SiteHash, Sketch, SketchForm};
use crate::protocol::{MinHashRules, Placement};

/// Sketches by the positions of the ring of originals, and the tables that find them.
#[derive(Debug)]
pub(super) struct Sketches {
    column: SketchColumn,
    /// First position that a probe finds.
    tail: u64,
    expected: u64,
    finder: Option<BandTables>,
    /// By the rules of the tables.
    recent: RefCell<RecentKeys>,
}

/// The tables for one set of rules.
#[derive(Debug)]
struct BandTables {
    rules: MinHashRules,
    /// Largest distance of a match; `None` if no distance is small enough.
    reach: Option<u8>,
    tables: Tables<ExactTags>,
}

/// The sketches at one moment: see [`super::Index::share`].
#[derive(Debug)]
pub(super) struct SharedSketches(SketchColumn);

impl SharedSketches {
    /// Returns the sketch of an original.
    pub(super) fn get(&self, position: u64) -> Option<Sketch> {
        self.0.sketch(position)
    }

    /// Drops what is before a position.
    pub(super) fn drop_before(&mut self, position: u64) {
        self.0.drop_before(position);
    }
}

#[derive(Clone, Copy)]
struct BandKeys<'a>(&'a SketchColumn, &'a Ring, MinHashRules);

impl Keys for BandKeys<'_> {
    #[inline]
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        let Self(column, ring, MinHashRules { form, banding, .. }) = self;
        let key = banding.key(*form, column.row(position)?, table);
        if ring.is_plain(position) {
            return Some(key);
        }
        let placement = ring.placement(position);
        if placement.family.is_some() || !placement.holds(table) || ring.waits_to_leave(position) {
            return None;
        }
        Some(in_scope(key, ring.scope(position)))
    }

    /// Most originals have nothing but their sketch: then the keys come from one stretch of bytes.
    #[inline]
    fn keys(&self, table: usize, positions: Range<u64>, mut take: impl FnMut(Option<u64>)) {
        let Self(column, ring, MinHashRules { form, banding, .. }) = self;
        match column.consecutive(positions.clone()).filter(|_| ring.are_plain(positions.clone())) {
            Some(rows) => banding.keys_in(*form, rows, table, |key| take(Some(key))),
            None => positions.map(|position| self.key(table, position)).for_each(take),
        }
    }
}

/// A sketch to look up, with what decides whether a held sketch is a candidate.
pub(super) struct Wanted<'a, M, D> {
    /// The ring of originals, which knows their sites and placements.
    pub(super) ring: &'a Ring,
    pub(super) site: Option<SiteHash>,
    pub(super) sketch: &'a Sketch,
    pub(super) scope: Option<ScopeHash>,
    /// Returns whether the original at a position may match at all: scope, age, watermarks.
    pub(super) may_match: M,
    /// Returns the differing bits of the codes.
    pub(super) bits_to: D,
}

/// How one held sketch compares.
#[derive(Clone, Copy, Debug)]
struct Compared {
    position: u64,
    distance: u8,
    is_rival: bool,
    shares_enough: bool,
}

/// What is measured between a page and one original.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) rules: MinHashRules,
    pub(super) evidence: Evidence,
    /// Number of keys that both have, whether the tables hold the original under them or not.
    pub(super) shared: u8,
    /// Number of shingles of the page, if known.
    pub(super) shingles: Option<u32>,
}

/// Returns whether a compared sketch is a rival. Pages of the page's own site are none, because a rule of their own
/// applies to them.
fn is_rival<M, D>(wanted: &Wanted<'_, M, D>, one: &Compared) -> bool {
    one.is_rival && (wanted.site.is_none() || wanted.ring.site(one.position) != wanted.site)
}

/// Counts the keys that an original shares with a page in the tables that hold it, up to `enough`; `shared` are the bands
/// of the keys that they share. The tables alone may show originals that do not share enough: which ones depends on table
/// sizes and positions in memory, and these differ between followers of the same log (law L5).
fn keys_in_tables(shared: impl Iterator<Item = usize>, placement: Placement, enough: usize) -> usize {
    if placement.family.is_some() {
        return 0;
    }
    shared.filter(|band| placement.holds(*band)).take(enough).count()
}

/// Returns whether page and original are known to be of different sites.
fn is_of_other_site<M, D>(wanted: &Wanted<'_, M, D>, position: u64) -> bool {
    wanted.site.and(wanted.ring.site(position)).is_some_and(|site| Some(site) != wanted.site)
}

impl Sketches {
    /// Creates it without sketches and tables; `expected` is the number of originals to come.
    pub(super) fn new(expected: u64) -> Self {
        Self { column: SketchColumn::starting_at(0, 0), tail: 0, expected, finder: None, recent: RefCell::default() }
    }

    /// Looks up sketches by these rules from now on, or not at all if there are none. Rebuilds the tables if the rules
    /// changed.
    pub(super) fn set_rules(&mut self, ring: &Ring, rules: Option<MinHashRules>) {
        if self.finder.as_ref().map(|finder| finder.rules) != rules {
            if let Some(width) = rules.map(|rules| rules.form.bytes()).filter(|width| *width != self.column.width()) {
                self.column.lay_out(width);
            }
            self.recent.get_mut().clear();
            self.finder = rules.map(|rules| BandTables {
                rules,
                reach: rules.form.reach(rules.min_similarity),
                tables: Tables::new(usize::from(rules.banding.bands()), self.expected),
            });
            run_sequential(self.build_tasks(ring));
        }
    }

    /// Sets the number of originals for which the next tables are created.
    pub(super) fn expect(&mut self, entries: u64) {
        self.expected = entries;
    }

    /// Appends the sketch of the newest original of the ring, which may have none.
    pub(super) fn push(&mut self, ring: &Ring, sketch: Option<&Sketch>) {
        self.column.push(sketch);
        let positions = self.positions();
        let Some(BandTables { rules, tables, .. }) = &mut self.finder else { return };
        let newest = positions.end.saturating_sub(1);
        let is_whole = ring.is_plain(newest) && self.column.row(newest).is_some();
        let known = sketch.filter(|_| is_whole).and_then(|sketch| self.recent.get_mut().known(sketch));
        let keys = BandKeys(&self.column, ring, *rules);
        match known {
            Some(known) => {
                let held = positions.end - positions.start;
                tables.insert_of(&keys, &positions, held, |band| known.get(band).copied());
            }
            None => tables.insert(&keys, positions),
        }
    }

    /// Removes an original that is about to be forgotten from the tables.
    pub(super) fn remove(&mut self, ring: &Ring, position: u64) {
        let positions = self.positions();
        if let Some(BandTables { rules, tables, .. }) = &mut self.finder {
            tables.remove(&BandKeys(&self.column, ring, *rules), &positions, position);
        }
    }

    /// Appends the sketches of many originals. No table finds them before the tables are built.
    pub(super) fn fill<'a>(&mut self, sketches: impl Iterator<Item = Option<&'a Sketch>>) {
        sketches.for_each(|sketch| self.column.push(sketch));
    }

    /// Returns the tasks that build the tables.
    pub(super) fn build_tasks<'a>(&'a mut self, ring: &'a Ring) -> Vec<Task<'a>> {
        let positions = self.positions();
        let held = positions.end - positions.start;
        let Some(BandTables { rules, tables, .. }) = &mut self.finder else { return Vec::new() };
        tables.expect(self.expected);
        tables.build_tasks(BandKeys(&self.column, ring, *rules), &positions, held)
    }

    /// Passes deferred maintenance tasks to `hand_over`: see [`dupgate_index::HammingIndex::maintenance`].
    pub(super) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        if let Some(finder) = &mut self.finder {
            finder.tables.maintenance(hand_over);
        }
    }

    /// Passes to `visit` the position and distance of every held sketch that shares enough keys and is surely near
    /// enough; and, together with the share, of every one that shares a key and enough of the smaller page. Members of
    /// families are not among them. Returns how many sketches were compared.
    pub(super) fn probe<M: Fn(u64) -> bool, D: Fn(u64) -> Option<u8>>(
        &self,
        wanted: &Wanted<'_, M, D>,
        mut visit: impl FnMut(u64, u8, Option<PerMille>),
    ) -> u32 {
        let compared = self.compared(wanted);
        self.show(wanted, &compared, &mut visit);
        u32::try_from(compared.len()).unwrap_or(u32::MAX)
    }

    /// Compares the wanted sketch with those that share enough keys.
    fn compared<M: Fn(u64) -> bool, D>(&self, wanted: &Wanted<'_, M, D>) -> Vec<Compared> {
        let mut compared = Vec::new();
        let Some(BandTables { rules, tables, .. }) = &self.finder else { return compared };
        let MinHashRules { form, banding, .. } = *rules;
        if wanted.sketch.len() != form.bytes() {
            return compared;
        }
        let shingles = form.count(wanted.sketch);
        let (least, needed) = (rules.least_keys(shingles), rules.keys_needed(shingles));
        let mut found = Vec::new();
        let mut recent = self.recent.borrow_mut();
        let own = recent.of(rules, wanted.sketch);
        let keys = match wanted.scope {
            None => Cow::Borrowed(own),
            scope => Cow::Owned(own.iter().map(|key| in_scope(*key, scope)).collect()),
        };
        tables.found_in(&keys, u32::from(least), self.positions(), |position| found.push(position));
        self.prefetch_positions(wanted.ring, &found);
        let (least, needed) = (usize::from(least), usize::from(needed));
        for position in found {
            let Some(held) = self.column.row(position).filter(|_| (wanted.may_match)(position)) else { continue };
            let placement = wanted.ring.placement(position);
            let shared = keys_in_tables(banding.agreeing(form, wanted.sketch, held), placement, least.max(needed));
            if shared >= least {
                let distance = form.distance(wanted.sketch, held);
                let shares_enough = shared >= needed;
                let is_rival = shares_enough && rules.is_rival(distance);
                compared.push(Compared { position, distance, is_rival, shares_enough });
            }
        }
        compared
    }

    /// Prefetches what a comparison reads of these originals. They are scattered in memory, and fetching many at once
    /// takes no longer than fetching one.
    pub(super) fn prefetch_positions(&self, ring: &Ring, positions: &[u64]) {
        for &position in positions {
            self.column.prefetch(position);
            ring.prefetch(position);
        }
    }

    /// Measures one original as [`Sketches::probe`] does, whether it is shown there or not. Returns `None` if page or
    /// original has no sketch of the form in use.
    pub(super) fn measure<M: Fn(u64) -> bool, D: Fn(u64) -> Option<u8>>(
        &self,
        wanted: &Wanted<'_, M, D>,
        position: u64,
    ) -> Option<Measured> {
        let rules = self.finder.as_ref()?.rules;
        let distance = self.distance_to(wanted.sketch, position)?;
        let held = self.column.row(position)?;
        let shared = u8::try_from(rules.banding.shared(rules.form, held, wanted.sketch)).unwrap_or(u8::MAX);
        let compared = self.compared(wanted);
        let others = compared.iter().filter(|one| one.position != position && is_rival(wanted, one));
        let rivals = u32::try_from(others.count()).unwrap_or(u32::MAX);
        let bits = (wanted.bits_to)(position);
        let of_two_sites = is_of_other_site(wanted, position);
        let evidence = rules.evidence([wanted.sketch, held], distance, bits, of_two_sites, rivals);
        Some(Measured { rules, evidence, shared, shingles: rules.form.count(wanted.sketch) })
    }

    /// Passes those of these positions that match to `visit`, as [`Sketches::probe`] does. They need not share a key.
    pub(super) fn compare<M: Fn(u64) -> bool, D: Fn(u64) -> Option<u8>>(
        &self,
        wanted: &Wanted<'_, M, D>,
        positions: &[u64],
        mut visit: impl FnMut(u64, u8, Option<PerMille>),
    ) {
        let Some(rules) = self.finder.as_ref().map(|finder| finder.rules) else { return };
        let may_match = positions.iter().filter(|position| (wanted.may_match)(**position));
        let compared: Vec<Compared> = may_match
            .filter_map(|&position| {
                let distance = self.distance_to(wanted.sketch, position)?;
                let is_rival = rules.is_rival(distance);
                Some(Compared { position, distance, is_rival, shares_enough: true })
            })
            .collect();
        self.show(wanted, &compared, &mut visit);
    }

    fn show<M, D: Fn(u64) -> Option<u8>>(
        &self,
        wanted: &Wanted<'_, M, D>,
        compared: &[Compared],
        visit: &mut impl FnMut(u64, u8, Option<PerMille>),
    ) {
        let Some(BandTables { rules, reach, .. }) = &self.finder else { return };
        let near = compared.iter().filter(|one| is_rival(wanted, one)).count();
        let near = u32::try_from(near).unwrap_or(u32::MAX);
        for one @ &Compared { position, distance, shares_enough, .. } in compared {
            let Some(held) = self.column.row(position) else { continue };
            let rivals = near - u32::from(is_rival(wanted, one));
            let of_two_sites = is_of_other_site(wanted, position);
            let is_near = shares_enough && reach.is_some_and(|reach| distance <= reach);
            let evidence =
                || rules.evidence([wanted.sketch, held], distance, (wanted.bits_to)(position), of_two_sites, rivals);
            if is_near && rules.is_sure(evidence()) {
                visit(position, distance, None);
            } else if let Some(share) = rules.contained(wanted.sketch, held, distance) {
                visit(position, distance, Some(share));
            }
        }
    }

    /// Returns the form in use.
    pub(super) fn form(&self) -> Option<SketchForm> {
        self.finder.as_ref().map(|finder| finder.rules.form)
    }

    /// Returns the distance between a sketch and that of an original, if both have the form in use.
    pub(super) fn distance_to(&self, sketch: &Sketch, position: u64) -> Option<u8> {
        let form = self.form().filter(|form| sketch.len() == form.bytes())?;
        Some(form.distance(sketch, self.column.row(position)?))
    }

    /// Returns the bytes of an original's sketch, if it has the form in use.
    pub(super) fn row(&self, position: u64) -> Option<&[u8]> {
        self.column.row(position)
    }

    /// Returns a placement that skips the bands of a sketch whose keys already find the maximum number of live
    /// originals.
    pub(super) fn full_bands(
        &self,
        ring: &Ring,
        (sketch, scope): (&Sketch, Option<ScopeHash>),
        is_live: impl Fn(u64) -> bool,
    ) -> Placement {
        let mut placement = Placement::EVERYWHERE;
        let Some(BandTables { rules, tables, .. }) = &self.finder else { return placement };
        let most = usize::from(rules.max_bucket);
        if most == 0 || sketch.len() != rules.form.bytes() {
            return placement;
        }
        let MinHashRules { form, banding, .. } = *rules;
        let positions = self.positions();
        let mut found = Vec::new();
        let mut recent = self.recent.borrow_mut();
        let keys = recent.of(rules, sketch);
        // Most tables have no key that leads to many entries, most other keys lead to a few, and these need not be
        // compared.
        for band in tables.crowded(rules.max_bucket.into()) {
            let Some(key) = keys.get(band).map(|key| in_scope(*key, scope)) else { continue };
            if tables.most_found(band, key) < rules.max_bucket.into() {
                continue;
            }
            found.clear();
            tables.equal(band, key, &positions, |position| found.push(position));
            // Tags are sometimes equal by chance. That is worth checking only if a table shows many originals. Members
            // of families need no check: no table of bands holds them.
            let has_key =
                |position| self.column.row(position).is_some_and(|row| banding.agree(form, row, sketch, band));
            let counts = |&&position: &&u64| is_live(position) && has_key(position) && ring.scope(position) == scope;
            if found.len() >= most {
                self.prefetch_positions(ring, &found);
                if found.iter().filter(counts).count() >= most {
                    placement.skip(band);
                }
            }
        }
        placement
    }

    /// Prefetches what a probe will read.
    pub(super) fn prefetch(&self, sketch: &Sketch, scope: Option<ScopeHash>) {
        if let Some(BandTables { rules, tables, .. }) = &self.finder {
            tables.prefetch(self.recent.borrow_mut().of(rules, sketch).iter().map(|key| in_scope(*key, scope)));
        }
    }

    /// Returns a copy of the sketches that shares the memory.
    pub(super) fn share(&self) -> SharedSketches {
        SharedSketches(self.column.share())
    }

    /// Returns the sketch of an original that the ring holds.
    pub(super) fn get(&self, position: u64) -> Option<Sketch> {
        self.column.sketch(position)
    }

    /// Returns the positions that a probe finds.
    pub(super) fn positions(&self) -> Range<u64> {
        let Range { start, end } = self.column.positions();
        self.tail.max(start)..end
    }

    /// Ignores positions before `tail` from now on, and drops those before `front`.
    pub(super) fn expire(&mut self, ring: &Ring, tail: u64, front: u64) {
        self.tail = self.tail.max(tail);
        self.column.drop_before(front);
        let positions = self.positions();
        let held = positions.end - positions.start;
        if let Some(BandTables { rules, tables, .. }) = &mut self.finder {
            tables.shrink_if_idle(&BandKeys(&self.column, ring, *rules), &positions, held);
        }
    }

    /// Finds every sketch held again; rebuilds the tables if some were ignored.
    pub(super) fn readmit(&mut self, ring: &Ring) {
        if std::mem::take(&mut self.tail) > self.positions().start {
            run_sequential(self.build_tasks(ring));
        }
    }

    /// Returns the statistics of each band's table.
    pub(super) fn stats(&self) -> Vec<TableStats> {
        self.finder.as_ref().map(|finder| finder.tables.stats()).unwrap_or_default()
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.column.memory_bytes() + self.finder.as_ref().map_or(0, |finder| finder.tables.memory_bytes())
    }
}

/// Number of sketches that are remembered: more than twice as many as there are pages between prefetching and looking
/// up. With only twice as many, the first pages, which are looked up without prefetching, would push out the keys of
/// the next ones just before they are looked up, these those of the next, and so on.
const REMEMBERED: usize = 3 * super::BUCKET_PREFETCH_DISTANCE;

/// The keys of some sketches by the same rules, one key for each band.
#[derive(Debug, Default)]
pub(super) struct RecentKeys {
    known: Vec<(Sketch, Vec<u64>)>,
    /// The entry that is replaced next.
    oldest: usize,
}

impl RecentKeys {
    /// Returns the keys of a sketch by these rules, which must be the same in all calls between two of
    /// [`RecentKeys::clear`].
    pub(super) fn of(&mut self, rules: &MinHashRules, sketch: &Sketch) -> &[u64] {
        let at = self.place_of(sketch).unwrap_or_else(|| self.compute(rules, sketch));
        self.known.get(at).map(|(_, keys)| keys.as_slice()).unwrap_or_default()
    }

    /// Returns the keys of a sketch if they are remembered.
    pub(super) fn known(&self, sketch: &Sketch) -> Option<&[u64]> {
        self.known.get(self.place_of(sketch)?).map(|(_, keys)| keys.as_slice())
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A sketch that is remembered keeps its memory, so no other sketch can be there.
    fn place_of(&self, sketch: &Sketch) -> Option<usize> {
        self.known.iter().position(|(known, _)| known.is_clone_of(sketch))
    }

    fn compute(&mut self, rules: &MinHashRules, sketch: &Sketch) -> usize {
        let at = self.oldest;
        self.oldest = (at + 1) % REMEMBERED;
        if at == self.known.len() {
            self.known.push((sketch.clone(), Vec::new()));
        }
        if let Some((known, keys)) = self.known.get_mut(at) {
            known.clone_from(sketch);
            keys.clear();
            keys.extend(rules.banding.keys(rules.form, sketch));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fingerprint::{Banding, ExactHash, Fingerprints, LowConfidence, Numbers, SketchForm, SlotBits};
    use crate::index::Original;
    use crate::record::{PartitionId, Timestamp};

    fn rules(min_shared_bands: u8, min_similarity: PerMille) -> MinHashRules {
        let form = SketchForm::new(16, SlotBits::B8).unwrap();
        let banding = Banding::new(5, 3, form).unwrap();
        MinHashRules {
            form,
            banding,
            min_shared_bands,
            one_band_below: 0,
            min_similarity,
            containment: None,
            low_confidence: LowConfidence::DISABLED,
            max_bucket: 0,
        }
    }

    fn original(number: u64, placement: Placement) -> Original {
        let source = PartitionId::new("pages", 0).at(i64::try_from(number).unwrap());
        Original {
            sequence: number,
            source: source.clone(),
            event_time: Timestamp::from_millis(0),
            fingerprints: Fingerprints {
                exact: ExactHash(u128::from(number)),
                simhash: None,
                sketch: None,
                numbers: Numbers::from_hashes(&[]).unwrap(),
            },
            id: None,
            scope: None,
            site: None,
            address: None,
            title: None,
            placement,
            cluster: source,
        }
    }

    fn found(sketches: &Sketches, sketch: &Sketch) -> Vec<(u64, u8)> {
        found_how(sketches, sketch).into_iter().map(|(position, distance, _)| (position, distance)).collect()
    }

    fn found_how(sketches: &Sketches, sketch: &Sketch) -> Vec<(u64, u8, Option<PerMille>)> {
        let mut found = Vec::new();
        let ring = Ring::new();
        let wanted = Wanted { ring: &ring, site: None, sketch, scope: None, may_match: |_| true, bits_to: |_| None };
        sketches.probe(&wanted, |position, distance, contained| found.push((position, distance, contained)));
        found.sort_unstable();
        found
    }

    proptest! {
        /// Two nested loops: all held, all bands.
        #[test]
        fn what_is_found_is_what_a_scan_finds(
            bytes in prop::collection::vec(prop::option::of(prop::collection::vec(0_u8..2, 16)), 1..60),
            min_shared_bands in 1_u8..4,
            min_similarity in prop::sample::select([0, 300, 500, 800, 1000].map(PerMille).to_vec()),
            keep in 0_u64..30,
            is_rebuilt in any::<bool>(),
        ) {
            let rules = rules(min_shared_bands, min_similarity);
            let mut sketches = Sketches::new(0);
            sketches.set_rules(&Ring::new(), (!is_rebuilt).then_some(rules));
            for (position, bytes_of) in (0..).zip(&bytes) {
                let oldest = u64::saturating_sub(position, keep);
                sketches.expire(&Ring::new(), oldest, oldest / 2);
                if is_rebuilt {
                    sketches.set_rules(&Ring::new(), None);
                    sketches.set_rules(&Ring::new(), Some(rules));
                }
                let probe = bytes_of.clone().unwrap_or_else(|| vec![1; 16]);
                let mut expected = Vec::new();
                for (number, other) in (0_u64..position).zip(&bytes) {
                    let Some(other) = other.as_ref().filter(|_| number >= oldest) else { continue };
                    let bands = (0..5).filter(|band| probe[band * 3..][..3] == other[band * 3..][..3]).count();
                    let distance = probe.iter().zip(other).filter(|(a, b)| a != b).count().try_into().unwrap();
                    if bands >= usize::from(min_shared_bands) && rules.form.similarity(distance) >= min_similarity {
                        expected.push((number, distance));
                    }
                }
                prop_assert_eq!(found(&sketches, &Sketch::from_bytes(&probe)), expected);
                sketches.push(&Ring::new(), bytes_of.as_deref().map(Sketch::from_bytes).as_ref());
            }
        }
    }

    proptest! {
        /// Two nested loops again: what shares enough keys (a short page one) and is near, which has to hold enough
        /// where confidence is low; and of the rest what shares one and holds enough.
        #[test]
        fn what_is_contained_is_what_a_scan_finds(
            bytes in prop::collection::vec((prop::collection::vec(0_u8..2, 16), 8_u16..80), 1..40),
            min_shared_bands in 1_u8..4,
            one_band_below in prop::sample::select(vec![0_u16, 30, 100]),
            min_similarity in prop::sample::select([0, 500, 800, 1000].map(PerMille).to_vec()),
            containment in prop::option::of(prop::sample::select([0, 400, 750, 1000].map(PerMille).to_vec())),
            low_confidence in (
                prop::sample::select([0, 500, 900].map(PerMille).to_vec()),
                prop::sample::select([400, 900].map(PerMille).to_vec()),
            ),
        ) {
            let plain = rules(min_shared_bands, min_similarity);
            let low_confidence = LowConfidence { below: low_confidence.0, containment: low_confidence.1, ..LowConfidence::DISABLED };
            let rules = MinHashRules { form: plain.form.with_count(), one_band_below, containment, low_confidence, ..plain };
            let mut sketches = Sketches::new(0);
            sketches.set_rules(&Ring::new(), Some(rules));
            let sketch_of = |(slots, size): &(Vec<u8>, u16)| {
                Sketch::from_bytes(&[&slots[..], &size.to_be_bytes()].concat())
            };
            for (position, page) in bytes.iter().enumerate() {
                let needed = if page.1 < one_band_below { 1 } else { usize::from(min_shared_bands) };
                let mut expected = Vec::new();
                for (number, other) in bytes[..position].iter().enumerate() {
                    let bands = (0..5).filter(|band| page.0[band * 3..][..3] == other.0[band * 3..][..3]).count();
                    let distance: u8 = page.0.iter().zip(&other.0).filter(|(a, b)| a != b).count().try_into().unwrap();
                    let estimate = rules.form.similarity(distance);
                    // Three of sixteen slots agree because the pair was found.
                    let jaccard = ((13.0 - f64::from(distance)) / 13.0 - 1.0 / 256.0) / (1.0 - 1.0 / 256.0);
                    let (small, both) = (f64::from(page.1.min(other.1)), f64::from(page.1 + other.1));
                    let share = (jaccard * both / ((1.0 + jaccard) * small)).min(1.0) * 1000.0;
                    let holds = |least: PerMille| jaccard >= 1.0 / 16.0 && share + 1e-6 >= f64::from(least.0);
                    let sure = estimate >= low_confidence.below || holds(low_confidence.containment);
                    if bands >= needed && estimate >= min_similarity && sure {
                        expected.push((number as u64, distance, None));
                    } else if bands >= 1 && containment.is_some_and(holds) {
                        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousandths")]
                        expected.push((number as u64, distance, Some(PerMille((share + 1e-6) as u16))));
                    }
                }
                prop_assert_eq!(found_how(&sketches, &sketch_of(page)), expected);
                sketches.push(&Ring::new(), Some(&sketch_of(page)));
            }
        }
    }

    /// An original of another time of the log at each of two positions so far apart that both have the same mark in
    /// [`Tables::found_in`]: each shares two keys with the page, under one of which it is held.
    fn compared_at_distance(gap: u64) -> u32 {
        let rules = rules(2, PerMille(0));
        let (mut ring, mut sketches) = (Ring::new(), Sketches::new(0));
        sketches.set_rules(&ring, Some(rules));
        let held = Sketch::from_bytes(&[[7; 6].as_slice(), &[1; 10]].concat());
        let mut placement = Placement::EVERYWHERE;
        (1..5).for_each(|band| placement.skip(band));
        for position in 0..=gap {
            let is_held = position == 0 || position == gap;
            let placement = if is_held { placement } else { Placement::EVERYWHERE };
            let sketch = is_held.then(|| held.clone());
            ring.push(&original(position, placement));
            sketches.push(&ring, sketch.as_ref());
        }
        let page = Sketch::from_bytes(&[[7; 6].as_slice(), &[2; 10]].concat());
        let wanted =
            Wanted { ring: &ring, site: None, sketch: &page, scope: None, may_match: |_| true, bits_to: |_| None };
        sketches.probe(&wanted, |_, _, _| {})
    }

    #[test]
    fn keys_under_which_an_original_is_not_held_do_not_count_wherever_it_is() {
        for gap in [1_000, 65_535, 65_536, 131_072] {
            assert_eq!(compared_at_distance(gap), 0, "{gap} positions apart");
        }
    }

    #[test]
    fn a_band_whose_key_finds_the_maximum_number_of_originals_is_left_out() {
        let most = 40;
        let rules = MinHashRules { max_bucket: most, ..rules(1, PerMille(0)) };
        let (mut ring, mut sketches) = (Ring::new(), Sketches::new(0));
        sketches.set_rules(&ring, Some(rules));
        let page = Sketch::from_bytes(&[7; 16]);
        let skipped = |ring: &Ring, sketches: &Sketches| sketches.full_bands(ring, (&page, None), |_| true).skipped;
        for number in 0..u8::try_from(most).unwrap() {
            assert_eq!(skipped(&ring, &sketches), 0, "{number}");
            // The first band has the page's key, the others have none of it.
            let sketch = Sketch::from_bytes(&[[7; 3].as_slice(), &[number + 100; 13]].concat());
            ring.push(&original(u64::from(number), Placement::EVERYWHERE));
            sketches.push(&ring, Some(&sketch));
        }
        assert_eq!(skipped(&ring, &sketches), 1);
        assert_eq!(sketches.full_bands(&ring, (&page, None), |position| position > 0).skipped, 0, "one has expired");
    }

    #[test]
    fn an_original_has_keys_only_in_the_tables_that_hold_it() {
        let rules = rules(1, PerMille(0));
        let mut skips_one = Placement::EVERYWHERE;
        skips_one.skip(1);
        let member = Placement { family: Some(0), ..Placement::EVERYWHERE };
        let (mut ring, mut column) = (Ring::new(), SketchColumn::starting_at(16, 0));
        let sketch = Sketch::from_bytes(&[7; 16]);
        let scope = Some(ScopeHash(9));
        for (number, (placement, scope)) in
            [(Placement::EVERYWHERE, None), (skips_one, None), (member, None), (Placement::EVERYWHERE, scope)]
                .into_iter()
                .enumerate()
        {
            ring.push(&Original { scope, ..original(number as u64, placement) });
            column.push(Some(&sketch));
        }
        let plain = |band| Some(rules.banding.key(rules.form, &sketch, band));
        let assert_same_at_once = |ring: &Ring| {
            let keys = BandKeys(&column, ring, rules);
            for (from, to, band) in (0..7).flat_map(|from| (from..7).flat_map(move |to| [(from, to, 0), (from, to, 1)]))
            {
                let one_by_one: Vec<Option<u64>> = (from..to).map(|position| keys.key(band, position)).collect();
                let mut at_once = Vec::new();
                keys.keys(band, from..to, |key| at_once.push(key));
                assert_eq!(at_once, one_by_one, "{from}..{to}");
            }
        };
        assert_same_at_once(&ring);
        let keys = |ring: &Ring, position| [0, 1].map(|band| BandKeys(&column, ring, rules).key(band, position));
        assert_eq!(keys(&ring, 0), [plain(0), plain(1)]);
        assert_eq!(keys(&ring, 1), [plain(0), None]);
        assert_eq!(keys(&ring, 2), [None, None]);
        assert_eq!(keys(&ring, 3), [plain(0), plain(1)].map(|key| Some(in_scope(key?, scope))));
        assert_ne!(keys(&ring, 3), keys(&ring, 0));
        ring.forget(0);
        assert_eq!(keys(&ring, 0), [None, None]);
        assert_same_at_once(&ring);
        assert_eq!(keys(&ring, 4), [None, None], "past the end");
    }

    #[test]
    fn sketches_of_another_form_are_held_but_not_compared() {
        let mut sketches = Sketches::new(0);
        sketches.set_rules(&Ring::new(), Some(rules(1, PerMille(500))));
        sketches.push(&Ring::new(), Some(&Sketch::from_bytes(&[1; 32])));
        sketches.push(&Ring::new(), Some(&Sketch::from_bytes(&[1; 16])));
        assert_eq!(found(&sketches, &Sketch::from_bytes(&[1; 16])), [(1, 0)]);
        assert_eq!(found(&sketches, &Sketch::from_bytes(&[1; 32])), []);
        assert_eq!(sketches.get(0), Some(Sketch::from_bytes(&[1; 32])));
        sketches.expire(&Ring::new(), 1, 1);
        assert_eq!([0, 1].map(|position| sketches.get(position)), [None, Some(Sketch::from_bytes(&[1; 16]))]);
    }

    #[test]
    fn restored_sketches_are_found_as_if_they_had_come_one_by_one() {
        let all = || (0..200_u8).map(|n| (n % 3 > 0).then(|| Sketch::from_bytes(&[n % 7; 16])));
        let (mut one_by_one, mut at_once) = (Sketches::new(0), Sketches::new(0));
        one_by_one.set_rules(&Ring::new(), Some(rules(2, PerMille(500))));
        at_once.set_rules(&Ring::new(), Some(rules(2, PerMille(500))));
        let all: Vec<Option<Sketch>> = all().collect();
        all.iter().for_each(|sketch| one_by_one.push(&Ring::new(), sketch.as_ref()));
        at_once.fill(all.iter().map(Option::as_ref));
        let ring = Ring::new();
        run_sequential(at_once.build_tasks(&ring));
        for n in 0..7 {
            let sketch = Sketch::from_bytes(&[n; 16]);
            assert_eq!(found(&one_by_one, &sketch), found(&at_once, &sketch));
            assert!(found(&at_once, &sketch).len() > 10);
        }
    }

    #[test]
    fn keys_are_those_of_the_sketch_however_many_are_looked_up_between() {
        let rules = MinHashRules::usual(SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
        let sketches: Vec<Sketch> =
            (0..80).map(|number| Sketch::from_bytes(&vec![number; rules.form.bytes()])).collect();
        let mut recent = RecentKeys::default();
        for distance in [1, REMEMBERED / 2, REMEMBERED, 2 * REMEMBERED] {
            for (ahead, sketch) in sketches.iter().skip(distance).zip(&sketches) {
                for sketch in [ahead, sketch, ahead] {
                    let expected: Vec<u64> = rules.banding.keys(rules.form, sketch).collect();
                    assert_eq!(recent.of(&rules, &sketch.clone()), expected);
                    assert_eq!(recent.known(sketch), Some(expected.as_slice()));
                }
            }
        }
        assert_eq!(recent.known(&Sketch::from_bytes(sketches.last().unwrap())), None, "equal, but not a clone");
        recent.clear();
        assert_eq!(recent.known(sketches.last().unwrap()), None);
    }

    #[test]
    fn keys_are_computed_once_after_the_first_pages() {
        let rules = MinHashRules::usual(SketchForm::new(128, SlotBits::B8).unwrap()).unwrap();
        let sketches: Vec<Sketch> = (0..80).map(|_| Sketch::from_bytes(&vec![7; rules.form.bytes()])).collect();
        let mut recent = RecentKeys::default();
        let ahead = crate::index::BUCKET_PREFETCH_DISTANCE;
        for (number, sketch) in sketches.iter().enumerate() {
            if let Some(next) = sketches.get(number + ahead) {
                let _ = recent.of(&rules, next);
            }
            assert!(number < ahead || recent.known(sketch).is_some(), "page {number}");
            let _ = recent.of(&rules, sketch);
        }
    }
}
