//! Tables over one ring: each leads from a key to the entries that have it.
//!
//! The ring belongs to the caller, who knows the entries' keys by position ([`Keys`]); the tables hold only ids and
//! tags. A table holds the live entries between the ring's tail and head, and grows and shrinks with it, a few entries
//! at a time.

use std::ops::Range;

use crate::buckets;
use crate::buckets::{Buckets, Demand, Slab};
use crate::entries::{Keys, LiveWindow, id_of, position_of};
use crate::layout::Layout;
use crate::plan::{Keyed, Plan};
use crate::shape::Addressing;
use crate::simd::{Backend, Compare, Job};
use crate::table::{DeferredFree, Found, SWEEP_MANY_EVERY, Table, TableResize, TableStats};
use crate::tasks::{Task, run_sequential};

/// Inserts between two checks of the tables' sizes.
const SIZE_CHECK_INTERVAL: u64 = 64;

/// Fewest lines of a table.
const FEWEST_LINES: u64 = 16;

/// Positions between two decisions whether runs are prefetched.
const HINT_INTERVAL: u64 = 512;

/// Tables whose lines are read before their runs: one bit each.
const RUNS_AT_ONCE: usize = u64::BITS as usize;

/// A table grows when it has more than this many times its mean load.
const SLACK: f64 = 1.1;

/// Bits that mark entries found before, so that each is visited once.
const MARKS: usize = 1 << 13;

/// Tables over one ring, in each of which an entry may have a key: one table for exact lookups, or one for each band
/// for locality-sensitive hashing.
#[derive(Debug)]
pub struct Tables<L: Layout> {
    keyed: Vec<Keyed>,
    backend: Backend,
    /// The number of entries that tables are made for when they grow.
    expected: u64,
    all: Vec<Table<L>>,
    resize: Option<TableResize<L>>,
    slab: Slab,
    deferred_free: DeferredFree,
    /// Number of positions inserted so far.
    passed: u64,
    /// An upper bound on the entries that one probe may meet.
    most_met: u64,
    /// An upper bound on the entries that [`Tables::equal`] visits for any key, until the tables are tidied again.
    most_found_anywhere: u64,
    /// Whether any table leads to runs so often that they are worth prefetching.
    lead_to_runs: bool,
    /// Whether a helper does the maintenance tasks.
    is_helped: bool,
}

struct Insert<'a, L: Layout, K, F>(&'a mut [Table<L>], &'a K, &'a Range<u64>, F);

impl<L: Layout, K: Keys, F: Fn(usize) -> Option<u64>> Job for Insert<'_, L, K, F> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each backend")]
    fn run<C: Compare>(self) {
        let Self(tables, keys, positions, newest_key) = self;
        let alive = LiveWindow::between(positions.start, positions.end);
        let newest = positions.end.saturating_sub(1);
        for (number, table) in tables.iter_mut().enumerate() {
            if let Some(key) = newest_key(number) {
                let held = |id| keys.key(number, position_of(id, positions.start));
                table.insert::<C>(key, id_of(newest), alive, held);
            }
        }
    }
}

struct Sweep<'a, L: Layout>(&'a mut [Table<L>], &'a Range<u64>, u64);

impl<L: Layout> Job for Sweep<'_, L> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each backend")]
    fn run<C: Compare>(self) {
        let Self(tables, positions, passed) = self;
        let alive = LiveWindow::between(positions.start, positions.end);
        for table in tables.iter_mut().filter(|table| table.is_swept_at(passed)) {
            table.sweep::<C>(alive);
        }
    }
}

/// Looks up one key in each table.
struct Equal<'a, L: Layout, V>(&'a [Table<L>], &'a [u64], &'a Range<u64>, V);

impl<L: Layout, V: FnMut(u64)> Job for Equal<'_, L, V> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled once for each backend")]
    fn run<C: Compare>(self) {
        let Self(tables, keys, positions, mut visit) = self;
        let alive = LiveWindow::between(positions.start, positions.end);
        let visit = &mut |Found { age, .. }| visit(positions.start + u64::from(age));
        // The runs are read once all of their lines are, so that they have arrived by then.
        for (tables, keys) in tables.chunks(RUNS_AT_ONCE).zip(keys.chunks(RUNS_AT_ONCE)) {
            let mut with_run = 0_u64;
            for (number, (table, &key)) in tables.iter().zip(keys).enumerate() {
                with_run |= u64::from(table.probe_home::<C>(key, alive, visit)) << number;
            }
            while with_run != 0 {
                let number = with_run.trailing_zeros() as usize;
                with_run &= with_run - 1;
                if let (Some(table), Some(&key)) = (tables.get(number), keys.get(number)) {
                    table.probe_home_run::<C>(key, alive, visit);
                }
            }
        }
    }
}

impl<L: Layout> Tables<L> {
    /// Creates this many empty tables, each for keys of 64 bits, that grow towards this many entries.
    #[must_use]
    pub fn new(tables: usize, expected: u64) -> Self {
        Self::starting_at(tables, expected, 0)
    }

    /// Like [`Tables::new`], for a ring that begins at this position.
    #[must_use]
    pub fn starting_at(tables: usize, expected: u64, position: u64) -> Self {
        Self::of_plan(vec![Keyed::WHOLE; tables], expected, Backend::detect(), position)
    }

    /// Creates the empty tables of a plan over a ring that begins at a position.
    pub(crate) fn of_plan(keyed: Vec<Keyed>, expected: u64, backend: Backend, position: u64) -> Self {
        let fewest = |keyed: &Keyed| FEWEST_LINES.min(keyed.most_lines());
        let all = keyed.iter().map(|keyed| empty(keyed, fewest(keyed), &(position..position))).collect();
        Self {
            keyed,
            backend,
            expected,
            all,
            resize: None,
            slab: Slab::default(),
            deferred_free: DeferredFree::default(),
            passed: 0,
            most_met: 0,
            most_found_anywhere: u64::MAX,
            lead_to_runs: false,
            is_helped: false,
        }
    }

    /// Inserts the newest entry of the ring into every table in which it has a key; `positions` is the whole ring.
    ///
    /// Every entry must be inserted while it is the newest. A table that grows reads it again by its position.
    #[inline]
    pub fn insert(&mut self, keys: &impl Keys, positions: Range<u64>) {
        let held = positions.end.saturating_sub(positions.start);
        let newest = positions.end.saturating_sub(1);
        self.insert_of(keys, &positions, held, |number| keys.key(number, newest));
    }

    /// Like [`Tables::insert`], for a ring in which only `held` entries have keys; `newest_key` returns those of the
    /// newest.
    #[inline]
    pub fn insert_of(
        &mut self,
        keys: &impl Keys,
        positions: &Range<u64>,
        held: u64,
        newest_key: impl Fn(usize) -> Option<u64>,
    ) {
        self.backend.run(Insert(&mut self.all, keys, positions, newest_key));
        self.maintain(keys, positions, held);
    }

    /// Removes the entry at a position from every table; `positions` is the whole ring. From now on, it must have no
    /// key in any of them.
    pub fn remove(&mut self, keys: &impl Keys, positions: &Range<u64>, position: u64) {
        if !positions.contains(&position) {
            return;
        }
        for (number, table) in self.all.iter().enumerate() {
            keys.key(number, position).into_iter().for_each(|key| table.prefetch_home(key));
        }
        let alive = LiveWindow::between(positions.start, positions.end);
        for (number, table) in self.all.iter_mut().enumerate() {
            if let Some(key) = keys.key(number, position) {
                table.remove(key, id_of(position), alive);
            }
        }
        if let Some(resize) = &mut self.resize {
            resize.remove(keys, positions, position);
        }
    }

    /// Visits the entries that have this key in a table. Also visits entries with other keys whose tags are equal by
    /// chance, so the caller has to compare.
    #[inline]
    pub fn equal(&self, table: usize, key: u64, positions: &Range<u64>, visit: impl FnMut(u64)) {
        if let Some(table) = self.all.get(table) {
            self.backend.run(Equal(std::slice::from_ref(table), &[key], positions, visit));
        }
    }

    /// Returns the most entries that [`Tables::equal`] can visit for this key, without looking at them. It depends on
    /// the size of the table, so it can only show that there are not too many.
    #[inline]
    pub fn most_found(&self, table: usize, key: u64) -> u32 {
        self.all.get(table).map_or(0, |table| table.most_found(key))
    }

    /// Returns the tables in which [`Tables::equal`] may visit this many entries for some key: usually none.
    #[inline]
    pub fn crowded(&self, entries: u32) -> impl Iterator<Item = usize> {
        let tables = if self.most_found_anywhere < u64::from(entries) { &[] } else { self.all.as_slice() };
        let numbered = tables.iter().enumerate();
        numbered.filter(move |(_, table)| table.most_found_anywhere() >= entries).map(|(number, _)| number)
    }

    /// Visits every entry that shares at least `times` of these keys (one for each table), each once and oldest first.
    /// May also visit some that share fewer, so the caller has to count.
    pub fn found_in(&self, keys: &[u64], times: u32, positions: Range<u64>, mut visit: impl FnMut(u64)) {
        // Nearly all entries are found only once. Only those whose mark is already set are worth sorting: they were
        // found before, or have the mark of one that was.
        let mut marks = [0_u64; MARKS / 64];
        let mut again = Vec::new();
        let is_again = |marks: &mut [u64], position: u64| {
            let at = usize::try_from(position % MARKS as u64).unwrap_or(0);
            let Some(word) = marks.get_mut(at / 64) else { return true };
            let before = std::mem::replace(word, *word | 1 << (at % 64));
            before == *word
        };
        self.backend.run(Equal(&self.all, keys, &positions, |position| {
            if times <= 1 || is_again(&mut marks, position) {
                again.push(position);
            }
        }));
        again.sort_unstable();
        // The first time that an entry was found is not in the list.
        let least = usize::try_from(times.saturating_sub(1)).unwrap_or(usize::MAX);
        for same in again.chunk_by(|one, other| one == other) {
            if let Some(&position) = same.first().filter(|_| same.len() >= least) {
                visit(position);
            }
        }
    }

    /// Prefetches the lines of these keys, one for each table.
    #[inline]
    pub fn prefetch(&self, keys: impl IntoIterator<Item = u64>) {
        for (table, key) in self.all.iter().zip(keys) {
            table.prefetch(key);
        }
    }

    /// Prefetches the runs that the lines of these keys lead to, one key for each table, once the memory of
    /// [`Tables::prefetch`] has arrived.
    #[inline]
    pub fn prefetch_runs(&self, keys: impl IntoIterator<Item = u64>) {
        for (table, key) in self.all.iter().zip(keys) {
            table.prefetch_runs(key);
        }
    }

    /// Returns the tables.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Table<L>] {
        &self.all
    }

    /// Returns an upper bound on the entries that one probe meets, as of recently.
    #[inline]
    pub(crate) const fn most_met(&self) -> u64 {
        self.most_met
    }

    /// Returns whether runs are worth prefetching.
    #[inline]
    pub(crate) const fn lead_to_runs(&self) -> bool {
        self.lead_to_runs
    }

    /// Passes deferred maintenance tasks to `hand_over`: see [`crate::HammingIndex::maintenance`].
    pub fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.is_helped = true;
        let resize = self.resize.as_mut().and_then(TableResize::maintenance_task);
        self.all
            .iter_mut()
            .filter_map(Table::maintenance_task)
            .chain(resize)
            .chain(self.deferred_free.maintenance_task())
            .for_each(hand_over);
    }

    /// Returns the backend that compares.
    #[inline]
    pub(crate) const fn backend(&self) -> Backend {
        self.backend
    }

    /// Makes the tables grow towards this many entries from now on.
    pub const fn expect(&mut self, entries: u64) {
        self.expected = entries;
    }

    /// Uses the keys of a plan from the next build on.
    pub(crate) fn take_plan(&mut self, plan: &Plan) {
        self.keyed = plan.keyed().to_vec();
    }

    /// Recreates all tables, as large as `held` entries require, and fills them at once.
    pub fn build(&mut self, keys: &(impl Keys + Sync), positions: &Range<u64>, held: u64) {
        run_sequential(self.build_tasks(keys, positions, held));
    }

    /// Recreates all tables, and returns one task for each that fills it. The tables are complete when all tasks are
    /// done.
    pub fn build_tasks<'a>(
        &'a mut self,
        keys: impl Keys + Copy + Send + 'a,
        positions: &Range<u64>,
        held: u64,
    ) -> Vec<Task<'a>> {
        self.resize = None;
        self.most_found_anywhere = u64::MAX;
        // Each task does everything, including the allocation.
        self.is_helped = false;
        let lines: Vec<u64> = (0..self.keyed.len()).map(|number| self.lines_of(number, held)).collect();
        let resized = |(number, &wanted): (usize, &u64)| {
            let tables = lines.iter().skip(number).filter(|&&later| buckets::are_alike(later, wanted)).count();
            self.resized(number, Demand { lines: wanted, tables }, positions)
        };
        let to_fill: Vec<TableResize<L>> = lines.iter().enumerate().filter_map(resized).collect();
        self.all = self.keyed.iter().map(|keyed| empty(keyed, 1, positions)).collect();
        let backend = self.backend;
        let fill = |(table, resize): (&'a mut Table<L>, TableResize<L>)| -> Task<'a> {
            let positions = positions.clone();
            Box::new(move || *table = resize.finish(backend, &keys, &positions))
        };
        self.all.iter_mut().zip(to_fill).map(fill).collect()
    }

    fn resized(&mut self, number: usize, demand: Demand, positions: &Range<u64>) -> Option<TableResize<L>> {
        let keyed = self.keyed.get(number)?;
        let table = |memory| made_of(keyed, demand.lines, memory, positions);
        let (place, slab) = ((number, self.keyed.len()), &mut self.slab);
        Some(TableResize::new(table, demand, place, positions.start, slab, self.is_helped))
    }

    /// Returns the demand of a table that is to have this many lines, and of those that will follow it.
    fn demand(&self, lines: u64, held: u64) -> Demand {
        let follows = |(number, table): &(usize, &Table<L>)| {
            buckets::are_alike(self.lines_of(*number, held), lines) && !buckets::are_alike(table.lines(), lines)
        };
        Demand { lines, tables: self.all.iter().enumerate().filter(follows).count().max(1) }
    }

    /// Returns how many lines a table should have for this many entries and somewhat more.
    fn lines_of(&self, number: usize, held: u64) -> u64 {
        let Some(keyed) = self.keyed.get(number) else { return 1 };
        let soon_there = self.expected / 5 * 2 <= held && held <= self.expected;
        let target = if soon_there { self.expected } else { held.saturating_mul(2) };
        keyed.lines_for::<L>(target).max(FEWEST_LINES.min(keyed.most_lines()))
    }

    /// Does a little of the pending maintenance.
    #[inline]
    fn maintain(&mut self, keys: &impl Keys, positions: &Range<u64>, held: u64) {
        self.passed += 1;
        if self.passed.is_multiple_of(SWEEP_MANY_EVERY) {
            self.tidy(positions);
        }
        self.deferred_free.step();
        if let Some(resize) = &mut self.resize {
            if resize.step(self.backend, keys, positions, &mut self.slab)
                && let Some(resized) = self.resize.take()
            {
                resized.replace(&mut self.all, &mut self.deferred_free);
                self.most_found_anywhere = u64::MAX;
                self.check_sizes(positions, held);
            }
        } else if self.passed.is_multiple_of(SIZE_CHECK_INTERVAL) {
            self.check_sizes(positions, held);
        }
    }

    /// Sweeps lines, and updates what is known about full lines and runs.
    fn tidy(&mut self, positions: &Range<u64>) {
        self.backend.run(Sweep(&mut self.all, positions, self.passed));
        if self.passed.is_multiple_of(HINT_INTERVAL) {
            self.all.iter_mut().for_each(|table| table.update_prefetch_hint(HINT_INTERVAL));
            self.lead_to_runs = self.all.iter().any(Table::leads_to_runs);
        }
        self.most_met = self.all.iter().map(Table::most_met).sum();
        let most_found = self.all.iter().map(Table::most_found_anywhere).max().unwrap_or(0);
        // Each insert until then adds at most one entry to a line.
        self.most_found_anywhere = u64::from(most_found) + SWEEP_MANY_EVERY;
    }

    fn check_sizes(&mut self, positions: &Range<u64>, held: u64) {
        let misfits = self.all.iter().zip(&self.keyed).enumerate().filter_map(|(number, (table, keyed))| {
            let (lines, wanted) = (table.lines(), self.lines_of(number, held));
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let is_full = held as f64 > lines as f64 * keyed.load::<L>() * SLACK && wanted > lines;
            let is_outlived = table.most_positions() < positions.end - positions.start;
            (is_full || is_outlived || wanted * 8 <= lines).then_some((lines, number, wanted))
        });
        // The smallest comes first, because it is the fullest; so every table gets its turn.
        self.resize = misfits.min().and_then(|(_, number, lines)| {
            let demand = self.demand(lines, held);
            self.resized(number, demand, positions)
        });
    }

    /// Shrinks the tables at once when almost nothing is held.
    pub fn shrink_if_idle(&mut self, keys: &(impl Keys + Sync), positions: &Range<u64>, held: u64) {
        if held < SIZE_CHECK_INTERVAL && self.all.iter().any(|table| table.lines() > 1024) {
            self.build(keys, positions, held);
        }
    }

    /// Returns the statistics of each table.
    pub fn stats(&self) -> Vec<TableStats> {
        self.all.iter().map(Table::stats).collect()
    }

    /// Returns whether a table of another size is being filled.
    pub const fn is_growing(&self) -> bool {
        self.resize.is_some()
    }

    /// Returns the memory of all tables, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let resize = self.resize.as_ref().map_or(0, TableResize::memory_bytes);
        resize + self.all.iter().map(|table| table.stats().memory_bytes).sum::<usize>()
    }
}

/// Creates an empty table of this many lines, which can distinguish these positions and as many as fit into the lines.
fn empty<L: Layout>(keyed: &Keyed, lines: u64, positions: &Range<u64>) -> Table<L> {
    made_of(keyed, lines, Buckets::with_room(lines), positions)
}

/// Like [`empty`], from lines that may still have to be allocated in full.
fn made_of<L: Layout>(keyed: &Keyed, lines: u64, memory: Buckets, positions: &Range<u64>) -> Table<L> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    let room = (lines as f64 * keyed.load::<L>()) as u64;
    let layout = L::telling(room.max(positions.end - positions.start));
    Table::new(layout, L::Addressing::of_shape(keyed.shape(lines)), memory, positions.start)
}

#[cfg(test)]
mod tests;
