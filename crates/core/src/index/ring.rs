//! The ring of originals: the fields that verdicts need, in columns, in log order.
//!
//! Sketches, which few originals may have, are in sparse columns ([`SketchColumn`]).

use std::collections::BTreeMap;
use std::ops::Range;

use dupgate_index::{BitColumn, Column, Keys, Ranks, Rows};

use super::original::{FamilyRole, MatchFields, Original};
use crate::fingerprint::{
    AddressHash, ExactHash, Fingerprints, IdHash, Numbers, ScopeHash, SimHash, SiteHash, Sketch, TitleHash, split_mix,
};
use crate::protocol::{ExpiryWatermarks, Placement};
use crate::record::{PartitionId, Source, Timestamp};

const HAS_ID: u8 = 1;
const HAS_SCOPE: u8 = 2;
const OF_CLUSTER: u8 = 4;
const FORGOTTEN: u8 = 8;
const HAS_SITE: u8 = 16;
const IS_PLACED: u8 = 32;
const HAS_ADDRESS: u8 = 64;
const HAS_TITLE: u8 = 128;

/// Originals by position, without their `SimHash` codes. A position is the number of an insert; unlike sequence
/// numbers, positions have no gaps.
#[derive(Debug)]
pub(super) struct Ring {
    front: u64,
    head: u64,
    marks: Column<u8>,
    times: Column<i64>,
    sequences: Column<u64>,
    exacts: Column<u128>,
    places: Column<u32>,
    offsets: Column<i64>,
    /// Zero if the original has none.
    ids: Column<u64>,
    /// Zero if the original has none.
    scopes: Column<u64>,
    /// Zero if the original has none.
    sites: Column<u32>,
    /// Zero if the original has none.
    titles: Column<u32>,
    numbers: Column<Numbers>,
    /// First pages of clusters that another original began.
    clusters: SparseColumn<(u32, i64)>,
    /// Placements of originals that not all tables hold.
    placements: SparseColumn<Placed>,
    /// Addresses that do not follow from the id.
    addresses: SparseColumn<AddressHash>,
    /// Codes of members of families, which the tables of codes do not hold.
    member_codes: SparseColumn<SimHash>,
    /// Whether any original ever had a scope.
    has_scopes: bool,
    /// Whether any original was ever stored by its text and title.
    has_titled: bool,
    /// Every partition that was ever seen, once.
    partitions: Vec<PartitionId>,
    number_of: BTreeMap<PartitionId, u32>,
}

/// A [`Placement`] that is eight bytes smaller. A `u128` would align it, and the position beside it, to 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Placed {
    skipped: [u64; 2],
    family: Option<u64>,
    by_title: bool,
}

impl Placed {
    const fn of(Placement { skipped, family, by_title }: Placement) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
        let skipped = [skipped as u64, (skipped >> 64) as u64];
        Self { skipped, family, by_title }
    }

    const fn placement(self) -> Placement {
        let Self { skipped: [lower, upper], family, by_title } = self;
        Placement { skipped: (upper as u128) << 64 | lower as u128, family, by_title }
    }
}

/// Keys of the table of exact hashes.
#[derive(Clone, Copy)]
pub(super) struct ByExact<'a>(pub(super) &'a Ring);
/// Keys of the table of ids.
#[derive(Clone, Copy)]
pub(super) struct ById<'a>(pub(super) &'a Ring);
/// Keys of the table of addresses that do not follow from the id.
#[derive(Clone, Copy)]
pub(super) struct ByAddress<'a>(pub(super) &'a Ring);
/// Keys of the table of sources.
#[derive(Clone, Copy)]
pub(super) struct BySource<'a>(pub(super) &'a Ring);

impl Keys for ByExact<'_> {
    fn key(&self, _: usize, position: u64) -> Option<u64> {
        let exact = self.0.exacts.get(position).filter(|_| !self.0.is_forgotten(position))?;
        let key = key_of_exact(exact, self.0.scope(position));
        Some(self.0.title_in_key(position).map_or(key, |(site, title)| with_title(key, site, title)))
    }
}

impl Keys for ById<'_> {
    fn key(&self, _: usize, position: u64) -> Option<u64> {
        (self.0.marks.get(position)? & (HAS_ID | FORGOTTEN) == HAS_ID).then(|| self.0.ids.get(position))?
    }
}

impl Keys for ByAddress<'_> {
    fn key(&self, _: usize, position: u64) -> Option<u64> {
        self.0.address(position).filter(|_| !self.0.is_forgotten(position)).map(key_of_address)
    }
}

impl Keys for BySource<'_> {
    fn key(&self, _: usize, position: u64) -> Option<u64> {
        let place = self.0.places.get(position).filter(|_| !self.0.is_forgotten(position))?;
        Some(key_of_source(place, self.0.offsets.get(position)?))
    }
}

/// Spreads the hash of an address over all bits.
pub(super) const fn key_of_address(AddressHash(address): AddressHash) -> u64 {
    mask_of(ScopeHash(address as u64 + 1))
}

/// Folds an exact hash, which is random already, into a key: one text has another key in each scope.
#[expect(clippy::cast_possible_truncation, reason = "the halves are wanted")]
pub(super) fn key_of_exact(exact: u128, scope: Option<ScopeHash>) -> u64 {
    in_scope(exact as u64 ^ (exact >> 64) as u64, scope)
}

/// Turns the key of a text into that of the text under one title of a site.
pub(super) const fn with_title(key: u64, SiteHash(site): SiteHash, TitleHash(title): TitleHash) -> u64 {
    key ^ mask_of(ScopeHash((site as u64) << 32 | title as u64)).rotate_left(17)
}

/// Turns a key into the key within a scope.
#[inline]
pub(super) fn in_scope(key: u64, scope: Option<ScopeHash>) -> u64 {
    scope.map_or(key, |scope| key ^ mask_of(scope))
}

/// Turns a code into the code within a scope. Codes of one scope keep their distances, and codes of two scopes are as
/// far apart as random ones.
pub(super) fn masked(code: SimHash, scope: Option<ScopeHash>) -> SimHash {
    let Some(scope) = scope else { return code };
    let mask = mask_of(scope);
    SimHash::from_low_bits(code.width(), code.bits() ^ (u128::from(mask) << 64 | u128::from(mask.rotate_left(32))))
}

/// Returns a random number for each scope.
#[inline]
pub(super) const fn mask_of(ScopeHash(scope): ScopeHash) -> u64 {
    split_mix(scope)
}

/// Spreads a position of the input over all bits.
const fn key_of_source(place: u32, offset: i64) -> u64 {
    let mixed = (offset.cast_unsigned() ^ (place as u64) << 40).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

impl Ring {
    /// Creates an empty ring.
    pub(super) fn new() -> Self {
        Self {
            front: 0,
            head: 0,
            marks: Column::starting_at(0),
            times: Column::starting_at(0),
            sequences: Column::starting_at(0),
            exacts: Column::starting_at(0),
            places: Column::starting_at(0),
            offsets: Column::starting_at(0),
            ids: Column::starting_at(0),
            scopes: Column::starting_at(0),
            sites: Column::starting_at(0),
            titles: Column::starting_at(0),
            numbers: Column::starting_at(0),
            clusters: SparseColumn::new(),
            placements: SparseColumn::new(),
            addresses: SparseColumn::new(),
            member_codes: SparseColumn::new(),
            has_scopes: false,
            has_titled: false,
            partitions: Vec::new(),
            number_of: BTreeMap::new(),
        }
    }

    /// Returns a copy for reading that shares the full chunks. It cannot find originals by source.
    pub(super) fn share(&self) -> Self {
        Self {
            front: self.front,
            head: self.head,
            marks: self.marks.share(),
            times: self.times.share(),
            sequences: self.sequences.share(),
            exacts: self.exacts.share(),
            places: self.places.share(),
            offsets: self.offsets.share(),
            ids: self.ids.share(),
            scopes: self.scopes.share(),
            sites: self.sites.share(),
            titles: self.titles.share(),
            numbers: self.numbers.share(),
            clusters: self.clusters.share(),
            placements: self.placements.share(),
            addresses: self.addresses.share(),
            member_codes: self.member_codes.share(),
            has_scopes: self.has_scopes,
            has_titled: self.has_titled,
            partitions: self.partitions.clone(),
            number_of: BTreeMap::new(),
        }
    }

    /// Returns the positions that are held.
    #[inline]
    pub(super) const fn positions(&self) -> Range<u64> {
        self.front..self.head
    }

    /// Returns whether any original that is held has an id.
    pub(super) fn has_ids(&self) -> bool {
        self.marks.pieces(self.front).any(|(_, marks)| marks.iter().any(|marks| marks & HAS_ID != 0))
    }

    /// Returns whether any original that is held has an address that does not follow from its id.
    pub(super) fn has_addresses(&self) -> bool {
        self.addresses.iter().next().is_some()
    }

    /// Appends an original.
    pub(super) fn push(&mut self, original: &Original) {
        let of_cluster = original.cluster != original.source;
        if of_cluster {
            let place = self.number_of(&original.cluster.partition);
            self.clusters.push(self.head, (place, original.cluster.offset));
        }
        self.has_scopes |= original.scope.is_some();
        let is_placed = original.placement != Placement::EVERYWHERE;
        if is_placed {
            self.placements.push(self.head, Placed::of(original.placement));
            self.has_titled |= original.placement.by_title;
        }
        if let Some(code) = original.fingerprints.simhash.filter(|_| original.placement.family.is_some()) {
            self.member_codes.push(self.head, code);
        }
        if let Some(address) = original.address {
            self.addresses.push(self.head, address);
        }
        let mark = |present: bool, mark: u8| if present { mark } else { 0 };
        self.marks.push(
            mark(original.id.is_some(), HAS_ID)
                | mark(original.scope.is_some(), HAS_SCOPE)
                | mark(of_cluster, OF_CLUSTER)
                | mark(original.site.is_some(), HAS_SITE)
                | mark(is_placed, IS_PLACED)
                | mark(original.address.is_some(), HAS_ADDRESS)
                | mark(original.title.is_some(), HAS_TITLE),
        );
        self.times.push(original.event_time.millis());
        self.sequences.push(original.sequence);
        self.exacts.push(original.fingerprints.exact.0);
        let place = self.number_of(&original.source.partition);
        self.places.push(place);
        self.offsets.push(original.source.offset);
        self.ids.push(original.id.map_or(0, |id| id.0));
        self.scopes.push(original.scope.map_or(0, |scope| scope.0));
        self.sites.push(original.site.map_or(0, |site| site.0));
        self.titles.push(original.title.map_or(0, |title| title.0));
        self.numbers.push(original.fingerprints.numbers);
        self.head += 1;
    }

    fn number_of(&mut self, partition: &PartitionId) -> u32 {
        if let Some(&number) = self.number_of.get(partition) {
            return number;
        }
        let number = u32::try_from(self.partitions.len()).unwrap_or(u32::MAX);
        let shared = self.number_of.keys().find(|held| held.topic == partition.topic);
        let topic = shared.map_or_else(|| partition.topic.clone(), |held| held.topic.clone());
        let partition = PartitionId { topic, number: partition.number };
        self.partitions.push(partition.clone());
        self.number_of.insert(partition, number);
        number
    }

    /// Returns the key of a source, if its partition was ever seen.
    pub(super) fn key_of(&self, source: &Source) -> Option<u64> {
        Some(key_of_source(*self.number_of.get(&source.partition)?, source.offset))
    }

    fn source(&self, place: u32, offset: i64) -> Option<Source> {
        Some(self.partitions.get(place as usize)?.at(offset))
    }

    /// Returns whether an original was not forgotten, and neither its sequence number nor its event time is below these
    /// limits.
    #[inline]
    pub(super) fn is_live(&self, position: u64, first_sequence: u64, from: Timestamp) -> bool {
        self.marks.get(position).is_some_and(|marks| marks & FORGOTTEN == 0)
            && self.sequences.get(position).is_some_and(|sequence| sequence >= first_sequence)
            && self.event_time(position).is_some_and(|time| time >= from)
    }

    /// Prefetches what [`Ring::match_fields`] reads.
    #[inline]
    pub(super) fn prefetch(&self, position: u64) {
        self.marks.prefetch(position);
        self.sequences.prefetch(position);
        self.times.prefetch(position);
        self.exacts.prefetch(position);
        self.ids.prefetch(position);
        self.sites.prefetch(position);
        self.titles.prefetch(position);
        if self.has_scopes {
            self.scopes.prefetch(position);
        }
    }

    /// Returns the fields that a probe compares, unless the original was forgotten.
    #[inline]
    pub(super) fn match_fields(&self, position: u64) -> Option<MatchFields> {
        let marks = self.marks.get(position).filter(|marks| marks & FORGOTTEN == 0)?;
        let id = if marks & HAS_ID == 0 { None } else { self.ids.get(position).map(IdHash) };
        let scope = if marks & HAS_SCOPE == 0 { None } else { self.scopes.get(position).map(ScopeHash) };
        let (site, title) = (self.site(position), self.title(position));
        Some(MatchFields {
            sequence: self.sequences.get(position)?,
            event_time: self.event_time(position)?,
            exact: ExactHash(self.exacts.get(position)?),
            id,
            scope,
            site,
            title,
        })
    }

    /// Returns a whole original, unless it was forgotten. Its code, masked as in the tables, and its sketch are passed
    /// in.
    pub(super) fn original(&self, position: u64, simhash: Option<SimHash>, sketch: Option<Sketch>) -> Option<Original> {
        let MatchFields { sequence, event_time, exact, id, scope, site, title } = self.match_fields(position)?;
        let source = self.source(self.places.get(position)?, self.offsets.get(position)?)?;
        let cluster = if self.marks.get(position)? & OF_CLUSTER == 0 {
            source.clone()
        } else {
            let (place, offset) = self.clusters.of(position)?;
            self.source(place, offset)?
        };
        let numbers = self.numbers(position)?;
        let placement = self.placement(position);
        let simhash = match placement.family {
            Some(_) => self.member_code(position),
            // Masking twice restores the code.
            None => simhash.map(|code| masked(code, scope)),
        };
        let fingerprints = Fingerprints { exact, simhash, sketch, numbers };
        let address = self.address(position);
        Some(Original {
            sequence,
            source,
            event_time,
            fingerprints,
            id,
            scope,
            site,
            address,
            title,
            placement,
            cluster,
        })
    }

    /// Returns whether an original is found through the head of its family.
    #[inline]
    pub(super) fn is_member(&self, position: u64) -> bool {
        self.placement(position).family.is_some()
    }

    /// Returns an original's role in a family.
    #[inline]
    pub(super) fn family_role(&self, position: u64) -> FamilyRole {
        match self.marks.get(position) {
            Some(marks) if marks & IS_PLACED != 0 && self.is_member(position) => FamilyRole::Member,
            Some(marks) if marks & OF_CLUSTER != 0 => FamilyRole::Replacement,
            _ => FamilyRole::Head,
        }
    }

    /// Returns whether any original was ever found by its text and title.
    pub(super) const fn has_titled(&self) -> bool {
        self.has_titled
    }

    /// Returns the site and title of an original that is stored by text, site and title.
    #[inline]
    pub(super) fn title_in_key(&self, position: u64) -> Option<(SiteHash, TitleHash)> {
        if !self.has_titled || !self.placement(position).by_title {
            return None;
        }
        self.site(position).zip(self.title(position))
    }

    /// Returns the code of a member of a family.
    pub(super) fn member_code(&self, position: u64) -> Option<SimHash> {
        self.member_codes.of(position)
    }

    /// Returns which tables hold an original.
    pub(super) fn placement(&self, position: u64) -> Placement {
        if self.marks.get(position).is_none_or(|marks| marks & IS_PLACED == 0) {
            return Placement::EVERYWHERE;
        }
        self.placements.of(position).map_or(Placement::EVERYWHERE, Placed::placement)
    }

    /// Returns whether an original was not forgotten, has no scope, and is held by all tables under its own keys.
    #[inline]
    pub(super) fn is_plain(&self, position: u64) -> bool {
        self.marks.get(position).is_some_and(|marks| marks & (IS_PLACED | FORGOTTEN | HAS_SCOPE) == 0)
    }

    /// Returns whether all of these are plain and in one chunk.
    #[inline]
    pub(super) fn are_plain(&self, positions: Range<u64>) -> bool {
        let marks = self.marks.consecutive(positions);
        marks.is_some_and(|marks| marks.iter().all(|marks| marks & (IS_PLACED | FORGOTTEN | HAS_SCOPE) == 0))
    }

    /// Returns the address of an original if it does not follow from the id.
    pub(super) fn address(&self, position: u64) -> Option<AddressHash> {
        let marks = self.marks.get(position)?;
        if marks & HAS_ADDRESS == 0 { None } else { self.addresses.of(position) }
    }

    /// Returns an original's site.
    #[inline]
    pub(super) fn site(&self, position: u64) -> Option<SiteHash> {
        if self.marks.get(position)? & HAS_SITE == 0 { None } else { self.sites.get(position).map(SiteHash) }
    }

    /// Returns the hash of an original's title.
    #[inline]
    pub(super) fn title(&self, position: u64) -> Option<TitleHash> {
        if self.marks.get(position)? & HAS_TITLE == 0 { None } else { self.titles.get(position).map(TitleHash) }
    }

    /// Returns an original's scope.
    #[inline]
    pub(super) fn scope(&self, position: u64) -> Option<ScopeHash> {
        if self.marks.get(position)? & HAS_SCOPE == 0 { None } else { self.scopes.get(position).map(ScopeHash) }
    }

    /// Returns the summary of an original's numbers.
    #[inline]
    pub(super) fn numbers(&self, position: u64) -> Option<Numbers> {
        self.numbers.get(position)
    }

    /// Returns an original's number in the order of the log.
    #[inline]
    pub(super) fn sequence(&self, position: u64) -> Option<u64> {
        self.sequences.get(position)
    }

    /// Returns an original's event time.
    #[inline]
    pub(super) fn event_time(&self, position: u64) -> Option<Timestamp> {
        self.times.get(position).map(Timestamp::from_millis)
    }

    /// Returns whether an original was forgotten.
    #[inline]
    pub(super) fn is_forgotten(&self, position: u64) -> bool {
        self.marks.get(position).is_none_or(|marks| marks & FORGOTTEN != 0)
    }

    /// Returns whether an original was forgotten but is still in memory. No table holds it.
    #[inline]
    pub(super) fn waits_to_leave(&self, position: u64) -> bool {
        self.marks.get(position).is_some_and(|marks| marks & FORGOTTEN != 0)
    }

    /// Returns whether the original at a position came from these offsets of a partition.
    pub(super) fn is_from(&self, position: u64, partition: &PartitionId, offsets: &Range<i64>) -> bool {
        self.offsets.get(position).is_some_and(|offset| offsets.contains(&offset))
            && self.number_of.get(partition).copied() == self.places.get(position)
            && self.number_of.contains_key(partition)
    }

    /// Returns an original's id.
    pub(super) fn id(&self, position: u64) -> Option<IdHash> {
        ById(self).key(0, position).map(IdHash)
    }

    /// Forgets an original, so that it has no keys from now on; returns whether it was not forgotten before.
    pub(super) fn forget(&mut self, position: u64) -> bool {
        let marks = self.marks.get_mut(position).filter(|marks| **marks & FORGOTTEN == 0);
        marks.map(|marks| *marks |= FORGOTTEN).is_some()
    }

    /// Returns the first position whose sequence number is not smaller.
    pub(super) fn first_from(&self, sequence: u64) -> u64 {
        let before = |position: u64| self.sequence(position).is_some_and(|held| held < sequence);
        let (mut low, mut high) = (self.front, self.head);
        // Without gaps in the sequence numbers, the bounds meet at the result.
        if let (Some(first), Some(last)) = (self.sequence(low), self.sequence(high.saturating_sub(1))) {
            high = high.min(low.saturating_add(sequence.saturating_sub(first)));
            low = low.max((self.head - 1).saturating_sub(last.saturating_sub(sequence))).min(high);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns whether no stage can match the original at a position any more.
    pub(super) fn is_expired(&self, position: u64, watermarks: &ExpiryWatermarks) -> bool {
        self.sequence(position).is_none_or(|sequence| sequence < watermarks.first_sequence)
            || self.event_time(position).is_none_or(|time| time < watermarks.times.min())
    }

    /// Drops everything before a position.
    pub(super) fn drop_before(&mut self, position: u64) {
        self.front = position.min(self.head);
        self.marks.drop_before(self.front);
        self.times.drop_before(self.front);
        self.sequences.drop_before(self.front);
        self.exacts.drop_before(self.front);
        self.places.drop_before(self.front);
        self.offsets.drop_before(self.front);
        self.ids.drop_before(self.front);
        self.scopes.drop_before(self.front);
        self.sites.drop_before(self.front);
        self.titles.drop_before(self.front);
        self.numbers.drop_before(self.front);
        self.clusters.drop_before(self.front);
        self.placements.drop_before(self.front);
        self.addresses.drop_before(self.front);
        self.member_codes.drop_before(self.front);
    }

    /// Returns the memory reserved, in bytes, without topic names.
    pub(super) fn memory_bytes(&self) -> usize {
        self.marks.memory_bytes()
            + self.times.memory_bytes()
            + self.sequences.memory_bytes()
            + self.exacts.memory_bytes()
            + self.places.memory_bytes()
            + self.offsets.memory_bytes()
            + self.ids.memory_bytes()
            + self.scopes.memory_bytes()
            + self.sites.memory_bytes()
            + self.titles.memory_bytes()
            + self.numbers.memory_bytes()
            + self.clusters.memory_bytes()
            + self.placements.memory_bytes()
            + self.addresses.memory_bytes()
            + self.member_codes.memory_bytes()
    }
}

/// All sketches held, from the ring's first position on.
#[derive(Debug)]
pub(super) struct SketchColumn {
    front: u64,
    head: u64,
    /// The sketches of the form in use, one after the other. An original without such a sketch has an empty row.
    rows: Rows,
    /// Which rows are sketches.
    present: BitColumn,
    /// Sketches of another form, which are never looked up.
    others: BTreeMap<u64, Sketch>,
}

impl SketchColumn {
    /// Creates an empty column with rows for sketches of this many bytes.
    pub(super) fn starting_at(width: usize, position: u64) -> Self {
        Self {
            front: position,
            head: position,
            rows: Rows::starting_at(width, position),
            present: BitColumn::starting_at(position),
            others: BTreeMap::new(),
        }
    }

    pub(super) fn share(&self) -> Self {
        let Self { front, head, rows, present, others } = self;
        Self { front: *front, head: *head, rows: rows.share(), present: present.share(), others: others.clone() }
    }

    pub(super) fn push(&mut self, sketch: Option<&Sketch>) {
        let row = sketch.filter(|sketch| sketch.len() == self.rows.width());
        self.rows.push(row.map_or(&[], |sketch| sketch));
        self.present.push(row.is_some());
        if let Some(other) = sketch.filter(|_| row.is_none()) {
            // Without the bytes that it was read with.
            self.others.insert(self.head, Sketch::from_bytes(other));
        }
        self.head += 1;
    }

    /// Returns the sketch at a position, if it has the form in use.
    #[inline]
    pub(super) fn row(&self, position: u64) -> Option<&[u8]> {
        self.rows.get(position).filter(|_| self.present.get(position))
    }

    /// Returns the sketches at these positions, if all of them have the form in use and are in one chunk.
    #[inline]
    pub(super) fn consecutive(&self, positions: Range<u64>) -> Option<impl Iterator<Item = &[u8]>> {
        let rows = self.rows.consecutive(positions.clone()).filter(|rows| !rows.is_empty())?;
        let are_sketches = self.present.count(positions.clone()) == positions.end - positions.start;
        are_sketches.then(|| rows.chunks_exact(self.rows.width()))
    }

    /// Returns the sketch at a position, whatever its form.
    pub(super) fn sketch(&self, position: u64) -> Option<Sketch> {
        if position < self.front {
            return None;
        }
        self.row(position).map(Sketch::from_bytes).or_else(|| self.others.get(&position).cloned())
    }

    pub(super) fn drop_before(&mut self, front: u64) {
        self.front = self.front.max(front.min(self.head));
        self.rows.drop_before(self.front);
        self.present.drop_before(self.front);
        while self.others.first_key_value().is_some_and(|(position, _)| *position < self.front) {
            self.others.pop_first();
        }
    }

    /// Lays the rows out for sketches of this many bytes.
    pub(super) fn lay_out(&mut self, width: usize) {
        let mut rebuilt = Self::starting_at(width, self.front);
        (self.front..self.head).for_each(|position| rebuilt.push(self.sketch(position).as_ref()));
        *self = rebuilt;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let others: usize = self.others.values().map(|sketch| sketch.len() + size_of::<(u64, Sketch)>()).sum();
        self.rows.memory_bytes() + self.present.memory_bytes() + others
    }

    /// Returns the positions of the sketches held.
    pub(super) const fn positions(&self) -> Range<u64> {
        self.front..self.head
    }

    /// Returns the bytes of a sketch of the form in use.
    pub(super) const fn width(&self) -> usize {
        self.rows.width()
    }

    /// Prefetches the sketch at a position.
    pub(super) fn prefetch(&self, position: u64) {
        self.rows.prefetch(position);
    }
}

/// Values that few originals have, in the order of their positions.
#[derive(Debug)]
pub(super) struct SparseColumn<T> {
    all: Column<(u64, T)>,
    ranks: Ranks,
    /// Index of the oldest value that is held.
    front: u64,
}

impl<T: Copy> SparseColumn<T> {
    pub(super) const fn new() -> Self {
        Self { all: Column::starting_at(0), ranks: Ranks::new(), front: 0 }
    }

    /// Returns a copy that shares the full chunks.
    pub(super) fn share(&self) -> Self {
        Self { all: self.all.share(), ranks: self.ranks.clone(), front: self.front }
    }

    pub(super) fn push(&mut self, position: u64, value: T) {
        self.all.push((position, value));
        self.ranks.push(position);
    }

    pub(super) fn of(&self, position: u64) -> Option<T> {
        let number = self.ranks.of(position).filter(|number| *number >= self.front)?;
        self.all.get(number).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, T)> {
        (self.front..self.ranks.added()).filter_map(|at| self.all.get(at))
    }

    pub(super) fn drop_before(&mut self, position: u64) {
        let before = self.front;
        while self.front < self.ranks.added() && self.all.get(self.front).is_some_and(|(held, _)| held < position) {
            self.front += 1;
        }
        if self.front > before {
            self.all.drop_before(self.front);
        }
        self.ranks.drop_before(position);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.all.memory_bytes() + self.ranks.memory_bytes()
    }
}
