//! Resizes a table without a pause: the new table is filled a few entries at a time and then replaces the old one.
//!
//! Until then, probes and inserts use the old table. The new one is filled from the ring, oldest first, so that entries
//! are inserted in their order. The old table's memory is given back piece by piece.
//!
//! The system allocates a large page when it is first touched, and on a virtual machine that may take milliseconds. So
//! a helper thread allocates the lines and touches them ([`TableResize::maintenance_task`]), and frees the old ones
//! ([`DeferredFree::maintenance_task`]). Without such a helper, each insert touches one page.

use std::collections::VecDeque;
use std::ops::Range;

use crate::buckets::{Buckets, Demand, Discarded, Slab};
use crate::keys::Keys;
use crate::layout::Layout;
use crate::live_window::{LiveWindow, id_of, position_of};
use crate::overflow::OverflowRuns;
use crate::simd::{Backend, Compare, Job, LINE};
use crate::table::Table;
use crate::tasks::{Deferred, Task};

/// The fewest entries that are moved at each insert.
const MIN_MOVES_PER_INSERT: u64 = 16;

/// Entries that are moved at each insert, for each of the tables. Tables grow one after the other; at this rate, all of
/// them have grown before a third more entries have come.
const MOVES_PER_INSERT_AND_TABLE: u64 = 3;

/// A table that is being filled.
#[derive(Debug)]
pub(crate) struct TableResize<L: Layout> {
    table: Table<L>,
    /// Which of the tables it will replace.
    number: usize,
    /// The lines that are to be allocated.
    demand: Demand,
    allocation: Allocation,
    next: u64,
    /// Keys of the entries from `next` on, whose lines are prefetched.
    ahead: VecDeque<Option<u64>>,
    at_once: u64,
}

/// The state of the lines' memory.
#[derive(Debug)]
enum Allocation {
    /// The allocation waits for a helper.
    Wanted,
    /// A helper allocates the lines.
    Deferred(Deferred<(Buckets, Slab)>),
    /// The lines are allocated, and this many of their large pages were touched without a helper.
    Touched(usize),
    Ready,
}

/// Memory that waits to be given back.
#[derive(Debug, Default)]
pub(crate) struct DeferredFree(Vec<(OverflowRuns, Discarded)>);

impl DeferredFree {
    /// Gives one piece back.
    #[inline]
    pub(crate) fn step(&mut self) {
        if self.0.last_mut().is_some_and(|(runs, lines)| runs.discard_one() && lines.step()) {
            self.0.pop();
        }
    }

    /// Returns the task that gives everything back.
    pub(crate) fn maintenance_task(&mut self) -> Option<Task<'static>> {
        if self.0.is_empty() {
            return None;
        }
        let deferred_free = std::mem::take(&mut self.0);
        Some(Box::new(move || drop(deferred_free)))
    }
}

struct Move<'a, L: Layout, K>(&'a mut TableResize<L>, &'a K, &'a Range<u64>);

impl<L: Layout, K: Keys> Job for Move<'_, L, K> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each backend")]
    fn run<C: Compare>(self) {
        let Self(resize, keys, positions) = self;
        let alive = LiveWindow::between(positions.start, positions.end);
        let (number, tail) = (resize.number, positions.start);
        let until = (resize.next + resize.at_once).min(positions.end);
        let known = resize.next + resize.ahead.len() as u64;
        keys.keys(number, known..(until + resize.at_once).min(positions.end).max(known), |key| {
            key.into_iter().for_each(|key| resize.table.prefetch_home(key));
            resize.ahead.push_back(key);
        });
        for position in resize.next..until {
            if let Some(key) = resize.ahead.pop_front().flatten() {
                let held = |id| keys.key(number, position_of(id, tail));
                resize.table.insert::<C>(key, id_of(position), alive, held);
            }
        }
        resize.next = until;
    }
}

impl<L: Layout> TableResize<L> {
    /// Begins to fill the table of this number, one of so many, from position `tail` on. `table_of` creates it from empty
    /// lines, which are cut off the slab if it has room for them. If there is a helper and the lines need new large
    /// pages, it waits for [`TableResize::maintenance_task`].
    pub(crate) fn new(
        table_of: impl FnOnce(Buckets) -> Table<L>,
        demand: Demand,
        (number, tables): (usize, usize),
        tail: u64,
        slab: &mut Slab,
        is_helped: bool,
    ) -> Self {
        let (allocation, memory) = match slab.cut(demand.lines) {
            Some(memory) => (Allocation::Ready, memory),
            None if is_helped && demand.fills_large_pages() => (Allocation::Wanted, Buckets::with_room(1)),
            None => {
                let (memory, rest) = demand.allocate();
                *slab = rest;
                (Allocation::Touched(0), memory)
            }
        };
        let at_once = MIN_MOVES_PER_INSERT.max(MOVES_PER_INSERT_AND_TABLE * tables as u64);
        let table = table_of(memory);
        Self { table, number, demand, allocation, next: tail, ahead: VecDeque::new(), at_once }
    }

    /// Returns the task that allocates its memory, if that is the next step.
    pub(crate) fn maintenance_task(&mut self) -> Option<Task<'static>> {
        if !matches!(self.allocation, Allocation::Wanted) {
            return self.table.maintenance_task();
        }
        let demand = self.demand;
        let (memory, task) = Deferred::of(move || demand.allocate_touched());
        self.allocation = Allocation::Deferred(memory);
        Some(task)
    }

    /// Returns whether the lines and their memory are allocated; if not, does a little of that.
    fn is_ready(&mut self, slab: &mut Slab) -> bool {
        let mut put = |table: &mut Table<L>, (lines, rest): (Buckets, Slab)| {
            table.put_lines(lines);
            *slab = rest;
        };
        self.allocation = match std::mem::replace(&mut self.allocation, Allocation::Ready) {
            Allocation::Wanted => Allocation::Wanted,
            Allocation::Touched(page) if self.table.touch(page) => Allocation::Touched(page + 1),
            Allocation::Touched(_) | Allocation::Ready => return true,
            Allocation::Deferred(memory) => match memory.into_inner() {
                Ok(Some(memory)) => {
                    put(&mut self.table, memory);
                    return true;
                }
                // The helper's task was dropped, so the lines are allocated here.
                Ok(None) => {
                    put(&mut self.table, self.demand.allocate());
                    Allocation::Touched(0)
                }
                Err(memory) => Allocation::Deferred(memory),
            },
        };
        false
    }

    /// Moves a few entries; returns whether the table has all of them now.
    pub(crate) fn step(&mut self, backend: Backend, keys: &impl Keys, positions: &Range<u64>, slab: &mut Slab) -> bool {
        if !self.is_ready(slab) {
            return false;
        }
        let expired = positions.start.saturating_sub(self.next);
        self.ahead.drain(..usize::try_from(expired).unwrap_or(usize::MAX).min(self.ahead.len()));
        self.next += expired;
        backend.run(Move(self, keys, positions));
        self.next >= positions.end
    }

    /// Removes an entry; if it was not moved yet, it never will be. From now on, it must have no key.
    pub(crate) fn remove(&mut self, keys: &impl Keys, positions: &Range<u64>, position: u64) {
        let Some(key) = keys.key(self.number, position) else { return };
        self.table.remove(key, id_of(position), LiveWindow::between(positions.start, positions.end));
        let at = position.checked_sub(self.next).and_then(|at| usize::try_from(at).ok());
        if let Some(key) = at.and_then(|at| self.ahead.get_mut(at)) {
            *key = None;
        }
    }

    /// Moves all entries; returns the table.
    pub(crate) fn finish(mut self, backend: Backend, keys: &impl Keys, positions: &Range<u64>) -> Table<L> {
        while !self.step(backend, keys, positions, &mut Slab::default()) {}
        self.table
    }

    /// Replaces the old table by this one.
    pub(crate) fn replace(self, tables: &mut [Table<L>], deferred_free: &mut DeferredFree) {
        if let Some(old) = tables.get_mut(self.number) {
            deferred_free.0.push(std::mem::replace(old, self.table).discard());
        }
    }

    /// Returns the memory of the table, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let here = self.table.stats().memory_bytes;
        let all = usize::try_from(self.demand.lines).unwrap_or(0) * LINE;
        if matches!(self.allocation, Allocation::Deferred(_)) { here + all } else { here }
    }
}
