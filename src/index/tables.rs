//! Tables over one ring: each leads from a key to the entries that have it.
//!
//! The ring belongs to the caller, who knows the entries' keys by position ([`Keys`]); here stand ids and tags only.
//! A table holds what lives between the ring's tail and head, and grows and shrinks with it, a few entries at a time.

use std::ops::Range;

use super::alive::{Alive, id_of, position_of};
use super::fast::{Compare, Engine, Job};
use super::growing::{Growing, Scrap};
use super::plan::{Keyed, LOAD, Plan};
use super::stats::TableStats;
use super::table::{Found, Table, lines_for};
use super::tasks::{Task, in_turn};

/// Inserts between two looks at the size of the tables.
const LOOK_EVERY: u64 = 64;

/// Fewest lines of a table.
const FEWEST_LINES: u64 = 16;

/// Share of the mean load by which entries may exceed it before a table grows.
const SLACK: f64 = 1.1;

/// Where the keys of entries stand.
pub trait Keys {
    /// Returns the key that the entry at a position has in a table, if it is in that table. Asked only about positions
    /// of the ring or a few beyond, which have none.
    fn key(&self, table: usize, position: u64) -> Option<u64>;
}

impl<K: Keys> Keys for &K {
    #[inline]
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        K::key(self, table, position)
    }
}

/// Some tables over one ring, which may each have a key of an entry: exact look-ups with one table, locality-sensitive
/// hashing with one for each band.
///
/// ```
/// # use dupgate::index::{Keys, Tables};
/// struct Bands(Vec<[u64; 3]>);
/// impl Keys for Bands {
///     fn key(&self, table: usize, position: u64) -> Option<u64> {
///         self.0.get(position as usize)?.get(table).copied()
///     }
/// }
/// let (mut bands, mut tables) = (Bands(Vec::new()), Tables::new(3, 1_000));
/// for keys in [[1, 2, 3], [1, 2, 4], [9, 9, 9]] {
///     bands.0.push(keys);
///     tables.insert(&bands, 0..bands.0.len() as u64);
/// }
/// let mut found = Vec::new();
/// tables.found_in(&[1, 2, 3], 2, 0..3, |position, tables| found.push((position, tables)));
/// assert_eq!(found, [(0, 3), (1, 2)]);
/// ```
#[derive(Debug)]
pub struct Tables {
    keyed: Vec<Keyed>,
    engine: Engine,
    /// Entries that the tables are made for when they grow.
    expected: u64,
    all: Vec<Table>,
    growing: Option<Growing>,
    scrap: Scrap,
    inserts: u64,
}

struct Insert<'a, K: Keys, F: Fn(usize) -> Option<u64>>(&'a mut [Table], &'a K, &'a Range<u64>, F);

impl<K: Keys, F: Fn(usize) -> Option<u64>> Job for Insert<'_, K, F> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each engine")]
    fn run<C: Compare>(self) {
        let Self(tables, keys, positions, newest_key) = self;
        let alive = Alive::between(positions.start, positions.end);
        let newest = positions.end.saturating_sub(1);
        for (number, table) in tables.iter_mut().enumerate() {
            if let Some(key) = newest_key(number) {
                let held = |id| keys.key(number, position_of(id, positions.start));
                table.insert::<C>(key, id_of(newest), alive, held);
            }
        }
    }
}

struct Equal<'a, V>(&'a Table, u64, &'a Range<u64>, V);

impl<V: FnMut(u64)> Job for Equal<'_, V> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each engine")]
    fn run<C: Compare>(self) {
        let Self(table, key, positions, mut visit) = self;
        let alive = Alive::between(positions.start, positions.end);
        table.probe::<C>(key, 0, alive, &mut |_, Found { id, .. }| visit(position_of(id, positions.start)));
    }
}

impl Tables {
    /// Makes so many empty tables, each for keys of 64 bits, that grow towards so many entries.
    #[must_use]
    pub fn new(tables: usize, expected: u64) -> Self {
        Self::starting_at(vec![Keyed::WHOLE; tables], expected, Engine::detect(), 0)
    }

    /// Makes the empty tables of a plan over a ring that begins at a position.
    pub(super) fn starting_at(keyed: Vec<Keyed>, expected: u64, engine: Engine, position: u64) -> Self {
        let all = keyed
            .iter()
            .map(|keyed| (FEWEST_LINES.min(keyed.most_lines()), keyed))
            .map(|(lines, keyed)| Table::new(keyed.shape(lines), lines, position))
            .collect();
        Self { keyed, engine, expected, all, growing: None, scrap: Scrap::default(), inserts: 0 }
    }

    /// Inserts the newest entry of the ring into every table in which it has a key; `positions` is the whole ring.
    ///
    /// Every entry is inserted when it is the newest; a table that grows meets it again by position.
    #[inline]
    pub fn insert(&mut self, keys: &impl Keys, positions: Range<u64>) {
        let held = positions.end.saturating_sub(positions.start);
        let newest = positions.end.saturating_sub(1);
        self.insert_of(keys, &positions, held, |number| keys.key(number, newest));
    }

    /// [`Tables::insert`] where only `held` entries of the ring have keys, and those of the newest are at hand.
    #[inline]
    pub(super) fn insert_of(
        &mut self,
        keys: &impl Keys,
        positions: &Range<u64>,
        held: u64,
        newest_key: impl Fn(usize) -> Option<u64>,
    ) {
        self.engine.run(Insert(&mut self.all, keys, positions, newest_key));
        self.tend(keys, positions, held);
    }

    /// Shows the entries whose key in a table is this one. An entry with another key may come along, about once in
    /// 2^24 looks: the caller compares.
    #[inline]
    pub fn equal(&self, table: usize, key: u64, positions: &Range<u64>, visit: impl FnMut(u64)) {
        if let Some(table) = self.all.get(table) {
            self.engine.run(Equal(table, key, positions, visit));
        }
    }

    /// Shows the entries that share at least `times` of these keys, one key a table, each with how many, oldest first.
    /// A count may be one too high, about once in 2^24 looks.
    pub fn found_in(&self, keys: &[u64], times: u32, positions: Range<u64>, mut visit: impl FnMut(u64, u32)) {
        let mut found = Vec::new();
        for (number, &key) in keys.iter().enumerate() {
            self.equal(number, key, &positions, |position| found.push(position));
        }
        found.sort_unstable();
        for same in found.chunk_by(|one, other| one == other) {
            let count = u32::try_from(same.len()).unwrap_or(u32::MAX);
            if let Some(&position) = same.first().filter(|_| count >= times) {
                visit(position, count);
            }
        }
    }

    /// Asks the memory for the lines of these keys, one a table.
    #[inline]
    pub fn prefetch(&self, keys: impl IntoIterator<Item = u64>) {
        for (table, key) in self.all.iter().zip(keys) {
            table.prefetch(key);
        }
    }

    /// Asks the memory for the runs of these keys, when their lines have come.
    #[inline]
    pub fn prefetch_runs(&self, keys: &[u64]) {
        for (table, &key) in self.all.iter().zip(keys) {
            table.prefetch_runs(key);
        }
    }

    /// Returns the tables.
    #[inline]
    pub(super) fn as_slice(&self) -> &[Table] {
        &self.all
    }

    /// Returns the engine that compares.
    #[inline]
    pub(super) const fn engine(&self) -> Engine {
        self.engine
    }

    /// Lets the tables grow towards so many entries from now on.
    pub const fn expect(&mut self, entries: u64) {
        self.expected = entries;
    }

    /// Takes the tables of a plan instead, and fills them at once.
    pub(super) fn set_plan(&mut self, plan: &Plan, keys: &(impl Keys + Sync), positions: &Range<u64>, held: u64) {
        self.keyed = plan.keyed().to_vec();
        self.build(keys, positions, held);
    }

    /// Makes all tables anew, as large as `held` entries ask for, and fills them at once.
    pub(super) fn build(&mut self, keys: &(impl Keys + Sync), positions: &Range<u64>, held: u64) {
        in_turn(self.build_tasks(keys, positions, held));
    }

    /// Makes all tables anew, and returns a task for each that fills it: they are whole when all are done.
    pub(super) fn build_tasks<'a>(
        &'a mut self,
        keys: impl Keys + Copy + Send + 'a,
        positions: &Range<u64>,
        held: u64,
    ) -> Vec<Task<'a>> {
        self.growing = None;
        let tail = positions.start;
        let numbers = 0..self.keyed.len();
        let empty: Vec<Growing> =
            numbers.filter_map(|number| self.empty(number, self.lines_of(number, held), tail)).collect();
        self.all = self.keyed.iter().map(|keyed| Table::new(keyed.shape(1), 1, tail)).collect();
        let engine = self.engine;
        let fill = |(table, growing): (&'a mut Table, Growing)| -> Task<'a> {
            let positions = positions.clone();
            Box::new(move || *table = growing.finish(engine, &keys, &positions))
        };
        self.all.iter_mut().zip(empty).map(fill).collect()
    }

    fn empty(&self, number: usize, lines: u64, tail: u64) -> Option<Growing> {
        let keyed = self.keyed.get(number)?;
        Some(Growing::new(Table::new(keyed.shape(lines), lines, tail), number, self.keyed.len(), tail))
    }

    /// Returns how many lines a table should have for so many entries and somewhat more.
    fn lines_of(&self, number: usize, held: u64) -> u64 {
        let most = self.keyed.get(number).map_or(u64::MAX, Keyed::most_lines);
        let soon_there = self.expected / 5 * 2 <= held && held <= self.expected;
        let target = if soon_there { self.expected } else { held.saturating_mul(2) };
        lines_for(target, LOAD, most.ilog2()).max(FEWEST_LINES.min(most))
    }

    /// Does a little of what has to be done now and then.
    #[inline]
    fn tend(&mut self, keys: &impl Keys, positions: &Range<u64>, held: u64) {
        self.inserts += 1;
        self.scrap.step();
        if let Some(growing) = &mut self.growing {
            if growing.step(self.engine, keys, positions)
                && let Some(grown) = self.growing.take()
            {
                grown.replace(&mut self.all, &mut self.scrap);
                self.look_at_sizes(positions, held);
            }
        } else if self.inserts.is_multiple_of(LOOK_EVERY) {
            self.look_at_sizes(positions, held);
        }
    }

    fn look_at_sizes(&mut self, positions: &Range<u64>, held: u64) {
        let misfits = self.all.iter().enumerate().filter_map(|(number, table)| {
            let (lines, wanted) = (table.lines(), self.lines_of(number, held));
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let is_full = held as f64 > lines as f64 * LOAD * SLACK && wanted > lines;
            (is_full || wanted * 8 <= lines).then_some((lines, number, wanted))
        });
        // The smallest first: it is the fullest, and nobody waits for ever.
        self.growing = misfits.min().and_then(|(_, number, lines)| self.empty(number, lines, positions.start));
    }

    /// Makes the tables small at once when next to nothing is held.
    pub(super) fn shrink_if_idle(&mut self, keys: &(impl Keys + Sync), positions: &Range<u64>, held: u64) {
        let lines: u64 = self.all.iter().map(Table::lines).max().unwrap_or(0);
        if held < LOOK_EVERY && lines > 1024 {
            self.build(keys, positions, held);
        }
    }

    /// Returns the figures of each table.
    #[must_use]
    pub fn stats(&self) -> Vec<TableStats> {
        self.all.iter().map(Table::stats).collect()
    }

    /// Says whether a table of another size is being filled.
    #[must_use]
    pub const fn is_growing(&self) -> bool {
        self.growing.is_some()
    }

    /// Returns the memory of all tables, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let growing = self.growing.as_ref().map_or(0, Growing::memory_bytes);
        growing + self.all.iter().map(|table| table.stats().memory_bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
