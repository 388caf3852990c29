//! Growth without a pause: a table of another size is filled a few entries a message, and then takes the old one's place.
//!
//! The old table goes on to be probed and inserted into until then. The new one is filled from the ring, oldest first,
//! so that it meets the entries in their order. What is left of the old one is given back piece by piece.

use std::ops::Range;

use super::alive::{Alive, id_of, position_of};
use super::fast::{Compare, Engine, Job};
use super::layout::Layout;
use super::lines::Discarded;
use super::runs::Runs;
use super::table::Table;
use super::tables::Keys;

/// Fewest entries moved for one that is inserted.
const AT_ONCE: u64 = 16;

/// Entries moved for one that is inserted, for each of the tables, which grow one after the other: all of them have
/// grown before a third as many have come as there were.
const AT_ONCE_A_TABLE: u64 = 3;

/// A table that is being filled.
#[derive(Debug)]
pub(super) struct Growing<L> {
    table: Table<L>,
    /// Which of the tables it will replace.
    number: usize,
    /// Large pages that were touched, until all are.
    touched: usize,
    next: u64,
    at_once: u64,
}

/// Memory that waits to be given back.
#[derive(Debug, Default)]
pub(super) struct Scrap(Vec<(Runs, Discarded)>);

impl Scrap {
    /// Gives one piece back.
    #[inline]
    pub(super) fn step(&mut self) {
        if self.0.last_mut().is_some_and(|(runs, lines)| runs.discard_one() && lines.step()) {
            self.0.pop();
        }
    }
}

struct Move<'a, L, K>(&'a mut Growing<L>, &'a K, u64, Alive, u64);

impl<L: Layout, K: Keys> Job for Move<'_, L, K> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each engine")]
    fn run<C: Compare>(self) {
        let Self(growing, keys, tail, alive, until) = self;
        let number = growing.number;
        for ahead in until..until + growing.at_once {
            if let Some(key) = keys.key(number, ahead) {
                growing.table.prefetch_home(key);
            }
        }
        for position in growing.next..until {
            if let Some(key) = keys.key(number, position) {
                let held = |id| keys.key(number, position_of(id, tail));
                growing.table.insert::<C>(key, id_of(position), alive, held);
            }
        }
        growing.next = until;
    }
}

impl<L: Layout> Growing<L> {
    /// Begins to fill a table, one of `tables`, from position `tail` on.
    pub(super) fn new(table: Table<L>, number: usize, tables: usize, tail: u64) -> Self {
        Self { table, number, touched: 0, next: tail, at_once: AT_ONCE.max(AT_ONCE_A_TABLE * tables as u64) }
    }

    /// Moves a few entries; says whether the table has all of them now.
    pub(super) fn step(&mut self, engine: Engine, keys: &impl Keys, positions: &Range<u64>) -> bool {
        if self.table.touch(self.touched) {
            self.touched += 1;
            return false;
        }
        self.next = self.next.max(positions.start);
        let until = (self.next + self.at_once).min(positions.end);
        engine.run(Move(self, keys, positions.start, Alive::between(positions.start, positions.end), until));
        self.next >= positions.end
    }

    /// Moves all entries; returns the table.
    pub(super) fn finish(mut self, engine: Engine, keys: &impl Keys, positions: &Range<u64>) -> Table<L> {
        while !self.step(engine, keys, positions) {}
        self.table
    }

    /// Puts the table in the place of the old one.
    pub(super) fn replace(self, tables: &mut [Table<L>], scrap: &mut Scrap) {
        if let Some(old) = tables.get_mut(self.number) {
            scrap.0.push(std::mem::replace(old, self.table).discard());
        }
    }

    /// Returns the memory of the table, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.stats().memory_bytes
    }
}
