//! `SimHash` codes within one window, and the tables that find codes within a Hamming distance.
//!
//! The codes are in a ring log, in columns. An entry's id is its position, and expiry only moves the tail. What a probe
//! finds does not depend on the plan of the tables, on the backend that compares, or on a rebuild in progress.
//!
//! Codes have one word or two ([`Codeword`]). Each table searches one word; the entries that it finds are compared by
//! the whole code.

use std::ops::Range;

use crate::codeword::Codeword;
use crate::column::{BitColumn, Column};
use crate::entries::{Keys, LiveWindow};
use crate::layout::FuzzyTags;
use crate::plan::{Plan, PlanRequirements};
use crate::shape::Addressing;
use crate::simd::{Backend, Compare, Job};
use crate::table::{Found, Table, TableStats};
use crate::tables::Tables;
use crate::tasks::{Task, run_sequential};

/// If the runs that a probe reads hold more codes than this, and more than the ring, all codes of the ring are compared
/// instead.
const MIN_CODES_FOR_FULL_SCAN: u64 = 4_096;

/// A window of codes in the order they came, which finds those near another code.
///
/// ```
/// # use dupgate_index::HammingIndex;
/// let mut near = <HammingIndex>::new(3, 1_000_000);
/// let first = near.push(Some(0b1111));
/// near.push(Some(u64::MAX));
/// assert_eq!(near.nearest(0b1010, 3), Some((2, first)));
/// near.expire_to(1);
/// assert_eq!(near.nearest(0b1010, 3), None);
/// ```
#[derive(Debug)]
pub struct HammingIndex<W: Codeword = u64> {
    plan: Plan,
    ring: Ring<W>,
    tables: Tables<FuzzyTags>,
}

/// The log: codes by position, and which positions have one.
#[derive(Debug)]
struct Ring<W> {
    codes: Column<W>,
    /// Which positions have a code.
    present: BitColumn,
    tail: u64,
    head: u64,
    held: u64,
}

/// The codes at one moment: see [`HammingIndex::share`].
#[derive(Debug)]
pub struct SharedCodes<W>(Ring<W>);

impl<W: Codeword> SharedCodes<W> {
    /// Returns the code at a position.
    #[must_use]
    pub fn code(&self, position: u64) -> Option<W> {
        self.0.code(position)
    }

    /// Drops what is before a position.
    pub fn drop_before(&mut self, position: u64) {
        self.0.expire_to(position, position);
    }
}

/// The words of the codes, by table.
#[derive(Clone, Copy)]
struct Words<'a, W>(&'a Ring<W>, &'a Plan);

impl<W: Codeword> Keys for Words<'_, W> {
    #[inline]
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        Some(self.0.code(position)?.word(self.1.word_of(table)))
    }
}

impl<W: Codeword> Ring<W> {
    fn starting_at(position: u64) -> Self {
        Self {
            codes: Column::starting_at(position),
            present: BitColumn::starting_at(position),
            tail: position,
            head: position,
            held: 0,
        }
    }

    fn share(&self) -> Self {
        let Self { codes, present, tail, head, held } = self;
        Self { codes: codes.share(), present: present.share(), tail: *tail, head: *head, held: *held }
    }

    fn push(&mut self, code: Option<W>) {
        self.codes.push(code.unwrap_or(W::ZERO));
        self.present.push(code.is_some());
        self.head += 1;
        self.held += u64::from(code.is_some());
    }

    fn remove(&mut self, position: u64) {
        if self.present.get(position) {
            self.present.clear(position);
            self.held -= u64::from(self.positions().contains(&position));
        }
    }

    fn expire_to(&mut self, position: u64, keep_from: u64) {
        let until = position.min(self.head);
        if self.tail < until {
            let expired = if self.tail + 1 == until {
                u64::from(self.present.get(self.tail))
            } else {
                self.present.count(self.tail..until)
            };
            self.held = self.held.saturating_sub(expired);
            self.tail = until;
        }
        self.codes.drop_before(keep_from.min(self.tail));
        self.present.drop_before(keep_from.min(self.tail));
    }

    fn readmit(&mut self, position: u64) {
        self.held += self.present.count(position..self.tail);
        self.tail = position;
    }

    #[inline]
    fn code(&self, position: u64) -> Option<W> {
        if self.present.get(position) { self.codes.get(position) } else { None }
    }

    #[inline]
    const fn positions(&self) -> Range<u64> {
        self.tail..self.head
    }
}

struct Probe<'a, W: Codeword, V>(&'a HammingIndex<W>, W, u32, V);

impl<W: Codeword, V: FnMut(u64, u8)> Job for Probe<'_, W, V> {
    type Output = u32;

    /// Visits each pair in the first table that covers it, under the flip that it has there, and therefore once.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each backend")]
    fn run<C: Compare>(self) -> u32 {
        let Self(near, code, reach, mut visit) = self;
        let (ring, tables, plan) = (&near.ring, near.tables.as_slice(), &near.plan);
        let alive = LiveWindow::between(ring.tail, ring.head);
        let mut verified = 0;
        for (number, table) in tables.iter().enumerate() {
            let word = plan.word_of(number);
            table.probe::<C>(code.word(word), reach, alive, &mut |flip, Found { age, code: held }| {
                verified += 1;
                let position = ring.tail + u64::from(age);
                let Some(held) = held.and_then(W::of_word).or_else(|| ring.codes.get(position)) else { return };
                let difference = held ^ code;
                let distance = difference.ones();
                let covers = |(earlier, table): (usize, &Table<FuzzyTags>)| {
                    table.shape().covers(difference.word(plan.word_of(earlier)))
                };
                let earlier = || tables.iter().enumerate().take(number).any(covers);
                if distance <= reach && difference.word(word) & table.shape().mask() == flip && !earlier() {
                    visit(position, u8::try_from(distance).unwrap_or(u8::MAX));
                }
            });
        }
        verified
    }
}

struct Sweep<'a, W: Codeword, V>(&'a HammingIndex<W>, u64, W, u32, V);

impl<W: Codeword, V: FnMut(u64, u8)> Job for Sweep<'_, W, V> {
    type Output = u32;

    /// Compares all codes from a position on.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each backend")]
    fn run<C: Compare>(self) -> u32 {
        let Self(near, from, code, reach, mut visit) = self;
        let mut verified = 0;
        let mut check = |position: u64, held: W| {
            verified += 1;
            let distance = (held ^ code).ones();
            if distance <= reach && near.ring.code(position).is_some() {
                visit(position, u8::try_from(distance).unwrap_or(u8::MAX));
            }
        };
        for (first, piece) in near.ring.codes.pieces(from.max(near.ring.tail)) {
            let (eights, rest) = piece.as_chunks::<8>();
            let mut position = first;
            for eight in eights {
                let mut found = code.eight(eight, reach, C::eight);
                while found != 0 {
                    let place = found.trailing_zeros();
                    found &= found - 1;
                    check(position + u64::from(place), eight.get(place as usize).copied().unwrap_or(W::ZERO));
                }
                position += 8;
            }
            for &held in rest {
                if (held ^ code).ones() <= reach {
                    check(position, held);
                }
                position += 1;
            }
        }
        verified
    }
}

impl<W: Codeword> HammingIndex<W> {
    /// Creates an empty window that finds every pair within `max_distance` bits, with the fastest plan for this many
    /// entries, whatever memory it takes.
    #[must_use]
    pub fn new(max_distance: u8, expected: u64) -> Self {
        let bytes_per_entry = f64::INFINITY;
        let requirements =
            PlanRequirements { width: W::WIDTH, max_distance, entries: expected, bytes_per_entry, sample: &[] };
        Self::with_plan(Plan::choose(&requirements), expected)
    }

    /// Creates an empty window with this plan, whose tables grow towards this many entries.
    #[must_use]
    pub fn with_plan(plan: Plan, expected: u64) -> Self {
        Self::starting_at(plan, expected, Backend::detect(), 0)
    }

    /// Creates an empty window whose first entry will have this position. Neither position nor backend changes a
    /// result.
    #[must_use]
    pub fn starting_at(plan: Plan, expected: u64, backend: Backend, position: u64) -> Self {
        let tables = Tables::of_plan(plan.keyed().to_vec(), expected, backend, position);
        Self { plan, ring: Ring::starting_at(position), tables }
    }

    /// Appends an entry, which may have no code and is then never found; returns its position.
    pub fn push(&mut self, code: Option<W>) -> u64 {
        let position = self.ring.head;
        self.ring.push(code);
        let keys = Words(&self.ring, &self.plan);
        self.tables.insert_of(&keys, &self.ring.positions(), self.ring.held, |table| {
            Some(code?.word(self.plan.word_of(table)))
        });
        position
    }

    /// Removes the entry at a position.
    pub fn remove(&mut self, position: u64) {
        self.tables.remove(&Words(&self.ring, &self.plan), &self.ring.positions(), position);
        self.ring.remove(position);
    }

    /// Expires every entry before a position.
    pub fn expire_to(&mut self, position: u64) {
        self.ring.expire_to(position, position);
    }

    /// Expires every entry before `position`, but keeps the codes from `keep_from` on for [`HammingIndex::code_kept`].
    pub fn expire_keeping(&mut self, position: u64, keep_from: u64) {
        self.ring.expire_to(position, keep_from);
    }

    /// Takes the expired codes from `position` on, all of which must be kept, into the window again. Builds the tables
    /// anew if there are any.
    pub fn readmit(&mut self, position: u64) {
        if position < self.ring.tail {
            self.ring.readmit(position);
            self.set_plan(self.plan.clone());
        }
    }

    /// Returns a copy of the codes that shares the memory.
    #[must_use]
    pub fn share(&self) -> SharedCodes<W> {
        SharedCodes(self.ring.share())
    }

    /// Returns the code at a position, even if it is expired but kept.
    #[must_use]
    pub fn code_kept(&self, position: u64) -> Option<W> {
        self.ring.code(position)
    }

    /// Returns the positions in the window.
    #[must_use]
    pub const fn positions(&self) -> std::ops::Range<u64> {
        self.ring.positions()
    }

    /// Returns how many codes are in the window.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.ring.held
    }

    /// Returns the code at a position, if it is in the window and has one.
    #[must_use]
    pub fn code(&self, position: u64) -> Option<W> {
        if position < self.ring.tail { None } else { self.ring.code(position) }
    }

    /// Visits every entry of the window within `reach` bits, inclusive, with its position and distance: each once, in
    /// no particular order. Returns how many codes were compared one by one.
    ///
    /// Compares all codes if `reach` is larger than the distance of the plan.
    pub fn probe(&self, code: W, reach: u8, visit: impl FnMut(u64, u8)) -> u32 {
        let reach_bits = u32::from(reach);
        if reach > self.plan.max_distance() || self.is_crowded(code) {
            return self.tables.backend().run(Sweep(self, self.ring.tail, code, reach_bits, visit));
        }
        self.tables.backend().run(Probe(self, code, reach_bits, visit))
    }

    /// Returns whether the runs for a code hold more entries than there are in the window: then all are compared, each
    /// once.
    fn is_crowded(&self, code: W) -> bool {
        let most = self.ring.held.max(MIN_CODES_FOR_FULL_SCAN);
        self.tables.most_met() > most
            && self.with_words(code).map(|(table, word)| table.in_runs(word)).sum::<u64>() > most
    }

    /// Goes through the tables, each with its word of a code.
    #[inline]
    fn with_words(&self, code: W) -> impl Iterator<Item = (&Table<FuzzyTags>, u64)> {
        let word = move |(number, table)| (table, code.word(self.plan.word_of(number)));
        self.tables.as_slice().iter().enumerate().map(word)
    }

    /// Returns distance and position of the nearest entry within `reach` bits; among equally near ones, the oldest.
    #[must_use]
    pub fn nearest(&self, code: W, reach: u8) -> Option<(u8, u64)> {
        let mut best = None;
        self.probe(code, reach, |position, distance| {
            if best.is_none_or(|best| (distance, position) < best) {
                best = Some((distance, position));
            }
        });
        best
    }

    /// Prefetches what a probe of this code will read first. Changes nothing.
    #[inline]
    pub fn prefetch(&self, code: W) {
        for (table, word) in self.with_words(code) {
            table.prefetch(word);
        }
    }

    /// Prefetches what a probe will read next, once the memory of [`HammingIndex::prefetch`] has arrived.
    #[inline]
    pub fn prefetch_runs(&self, code: W) {
        if !self.tables.lead_to_runs() {
            return;
        }
        for (table, word) in self.with_words(code) {
            table.prefetch_runs(word);
        }
    }

    /// Goes through a batch in order, and prefetches the memory of later codes: `act` may probe, push and expire as if
    /// each code came alone.
    pub fn in_order<T>(&mut self, batch: &[T], code_of: impl Fn(&T) -> Option<W>, mut act: impl FnMut(&mut Self, &T)) {
        let (far, soon) =
            if self.tables.as_slice().iter().any(|table| table.shape().flips().len() > 1) { (3, 1) } else { (12, 5) };
        for item in batch.iter().take(far) {
            code_of(item).into_iter().for_each(|code| self.prefetch(code));
        }
        for (number, item) in batch.iter().enumerate() {
            if let Some(code) = batch.get(number + far).and_then(&code_of) {
                self.prefetch(code);
            }
            if let Some(code) = batch.get(number + soon).and_then(&code_of) {
                self.prefetch_runs(code);
            }
            act(self, item);
        }
    }

    /// Takes another plan, and builds its tables at once.
    pub fn set_plan(&mut self, plan: Plan) {
        run_sequential(self.build_tasks(plan));
    }

    /// Returns at most this many of the codes, evenly spread over the window.
    pub fn sample(&self, most: u64) -> Vec<u128> {
        let Range { start, end } = self.ring.positions();
        let step = usize::try_from((end - start).div_ceil(most.max(1))).unwrap_or(usize::MAX);
        let codes = (start..end).step_by(step.max(1)).filter_map(|position| self.ring.code(position));
        codes.map(Into::into).collect()
    }

    /// Passes maintenance tasks to `hand_over`, to run soon on another thread: they touch the memory of new tables and
    /// free that of old ones. Inline, they cost milliseconds on virtual machines.
    ///
    /// After the first call, tables wait before they grow until this is called again, so call it now and then, and
    /// until the tasks are done or dropped. When that happens, or whether it does, changes no result.
    pub fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.tables.maintenance(hand_over);
    }

    /// Makes the tables grow towards this many entries from now on.
    pub const fn expect(&mut self, entries: u64) {
        self.tables.expect(entries);
    }

    /// Appends existing codes, in order, and builds the tables once.
    pub fn restore(&mut self, codes: impl IntoIterator<Item = Option<W>>) {
        self.fill(codes);
        run_sequential(self.build_tasks(self.plan.clone()));
    }

    /// Appends existing codes, in order. No table finds them before the tables are built.
    pub fn fill(&mut self, codes: impl IntoIterator<Item = Option<W>>) {
        codes.into_iter().for_each(|code| self.ring.push(code));
    }

    /// Takes a plan, and returns the tasks that build its tables.
    pub fn build_tasks(&mut self, plan: Plan) -> Vec<Task<'_>> {
        self.plan = plan;
        self.tables.take_plan(&self.plan);
        self.tables.build_tasks(Words(&self.ring, &self.plan), &self.ring.positions(), self.ring.held)
    }

    /// Shrinks the tables at once when almost nothing is held.
    pub fn shrink_if_idle(&mut self) {
        let keys = Words(&self.ring, &self.plan);
        self.tables.shrink_if_idle(&keys, &self.ring.positions(), self.ring.held);
    }

    /// Returns the plan in use.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns statistics for monitoring.
    #[must_use]
    pub fn stats(&self) -> HammingStats {
        HammingStats {
            entries: self.ring.held,
            tables: self.tables.stats(),
            is_growing: self.tables.is_growing(),
            log_bytes: self.ring.codes.memory_bytes() + self.ring.present.memory_bytes(),
            table_bytes: self.tables.memory_bytes(),
        }
    }

    /// Returns the memory of log and tables, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.stats().memory_bytes()
    }
}

/// Statistics of a [`crate::HammingIndex`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HammingStats {
    /// Codes held.
    pub entries: u64,
    /// Statistics of each table.
    pub tables: Vec<TableStats>,
    /// Whether a table of another size is being filled.
    pub is_growing: bool,
    /// Memory of the log, in bytes.
    pub log_bytes: usize,
    /// Memory of the tables, in bytes, including the one that is being filled.
    pub table_bytes: usize,
}

impl HammingStats {
    /// Returns the memory of log and tables, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.log_bytes + self.table_bytes
    }

    /// Returns the size of the largest bucket seen recently, in entries.
    #[must_use]
    pub fn largest_bucket(&self) -> u32 {
        self.tables.iter().map(|table| table.largest).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
