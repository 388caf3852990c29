//! One table: finds the entries whose key a probe shares.
//!
//! An entry is in the line of its key, or in the run of that line. Its id alone shows whether it is alive, so expiry
//! touches nothing here. A slot whose entry is dead is free, and each line is tidied when the sweep reaches it.
//!
//! A table is resized without a pause: the new one is filled a few entries at a time and then replaces the old one.
//! Until then, probes and inserts use the old table. The new one is filled from the ring, oldest first, so that entries
//! are inserted in their order. The old table's memory is given back piece by piece.
//!
//! The system allocates a large page when it is first touched, and on a virtual machine that may take milliseconds. So
//! a helper thread allocates the lines and touches them ([`TableResize::maintenance_task`]), and frees the old ones
//! ([`DeferredFree::maintenance_task`]). Without such a helper, each insert touches one page.

use std::collections::VecDeque;
use std::ops::Range;

use crate::buckets::{Buckets, Demand, Discarded, Slab};
use crate::entries::{Keys, LiveWindow, id_of, position_of};
use crate::layout::{Layout, OverflowPlace};
use crate::overflow::OverflowRuns;
use crate::shape::Addressing;
use crate::simd::{self, Backend, Compare, Job, LINE, Line, Portable, set_word, word_at};
use crate::tasks::{Deferred, Task};

/// Positions from one swept line to the next. In a table of more than [`MANY_LINES`] lines, it is [`SWEEP_MANY_EVERY`].
/// So each line is swept long before ids wrap around.
const SWEEP_EVERY: u64 = 32;
pub(crate) const SWEEP_MANY_EVERY: u64 = 8;
const MANY_LINES: u64 = 1 << 26;

/// Runs are prefetched if more than one insert in this many meets a run.
const RUN_PREFETCH_RATIO: u64 = 80;

/// The most blocks of a run that are dropped at a time.
const MAX_DROPPED_BLOCKS: usize = 64;

/// Entries by the key that the layout's [`Addressing`] takes from their codes, in lines of the [`Layout`].
#[derive(Debug)]
pub(crate) struct Table<L: Layout> {
    layout: L,
    shape: L::Addressing,
    lines: Buckets,
    runs: OverflowRuns,
    /// Ids are kept as their distance from here, so that a line of zeros holds no live entry.
    base: u32,
    swept: u64,
    with_run: u64,
    /// Inserts that met a run recently, and whether that is often enough to prefetch runs.
    met_run: u64,
    leads_to_runs: bool,
    largest: u32,
    /// The same since the sweep began again at the first line.
    largest_lately: u32,
}

/// Statistics of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Home lines.
    pub lines: u64,
    /// Home lines that one probe reads.
    pub probed: usize,
    /// Lines that have an overflow run.
    pub overflowed: u64,
    /// Most entries that were seen in one line and its run recently.
    pub largest: u32,
    /// Memory of lines and runs, in bytes.
    pub memory_bytes: usize,
}

/// An entry found in a table: where it is, and its code if the table holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Number of positions after the tail, from 0.
    pub(crate) age: u32,
    /// Its code, which is near. If absent, only its tag is known to be near, or equal.
    pub(crate) code: Option<u64>,
}

impl<L: Layout> Table<L> {
    /// Creates an empty table of empty lines, for entries from position `tail` on.
    pub(crate) fn new(layout: L, shape: L::Addressing, lines: Buckets, tail: u64) -> Self {
        Self {
            layout,
            shape,
            lines,
            runs: OverflowRuns::new(L::CODES),
            base: id_of(tail).wrapping_sub(1),
            swept: 0,
            with_run: 0,
            met_run: 0,
            leads_to_runs: false,
            largest: 0,
            largest_lately: 0,
        }
    }

    /// Returns its shape.
    pub(crate) const fn shape(&self) -> &L::Addressing {
        &self.shape
    }

    /// Returns how many positions may be alive at a time.
    pub(crate) fn most_positions(&self) -> u64 {
        self.layout.most_positions()
    }

    /// Returns the number of its lines.
    pub(crate) const fn lines(&self) -> u64 {
        self.lines.count()
    }

    /// Returns an upper bound on the entries that one probe meets.
    pub(crate) fn most_met(&self) -> u64 {
        u64::from(self.largest) * self.shape.flips().len() as u64
    }

    /// Returns the line of a place.
    #[inline]
    fn number_at(&self, place: u64) -> u64 {
        upper_half(place, self.lines.count())
    }

    #[inline]
    fn number_of(&self, code: u64) -> u64 {
        self.number_at(self.shape.place(code))
    }

    /// Prefetches the lines of a code.
    #[inline]
    pub(crate) fn prefetch(&self, code: u64) {
        let place = self.shape.place(code);
        for flip in self.shape.flips() {
            simd::prefetch(self.lines.line(self.number_at(place ^ flip.place)));
        }
    }

    /// Prefetches the line of a code.
    #[inline]
    pub(crate) fn prefetch_home(&self, code: u64) {
        simd::prefetch(self.lines.line(self.number_of(code)));
    }

    /// Prefetches the runs of a code, whose lines have arrived by now.
    #[inline]
    pub(crate) fn prefetch_runs(&self, code: u64) {
        if self.leads_to_runs {
            let place = self.shape.place(code);
            for flip in self.shape.flips() {
                if let Some(run) = self.layout.run(self.lines.line(self.number_at(place ^ flip.place))) {
                    self.runs.prefetch(run);
                }
            }
        }
    }

    /// Inserts an entry; `code_at` returns the codes of other live entries, by id.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn insert<C: Compare>(
        &mut self,
        code: u64,
        id: u32,
        alive: LiveWindow,
        code_at: impl Fn(u32) -> Option<u64>,
    ) {
        let (layout, own) = (self.layout, alive.counted_from(self.base));
        let window = layout.window(own);
        let (number, tag) = (self.number_of(code), self.shape.tag(code));
        let word = layout.word(tag, id.wrapping_sub(self.base));
        if let Some(line) = self.lines.line_mut(number) {
            if layout.run(line).is_some() {
                self.met_run += 1;
                let taken = C::alive(line, window);
                self.with_run -= u64::from(fold(layout, line, &mut self.runs, window, taken, &self.shape));
            }
            let free = layout.slots(line) & !C::alive(line, window);
            if free != 0 {
                layout.set::<C>(line, free.trailing_zeros(), tag, word);
            } else {
                let base = self.base;
                let held = overflow(layout, line, &mut self.runs, (code, word), |id| code_at(id.wrapping_add(base)));
                self.with_run += u64::from(held.is_new);
                self.largest_lately = self.largest_lately.max(held.entries);
                self.largest = self.largest.max(held.entries);
            }
        }
    }

    /// Removes an entry, if it is there.
    pub(crate) fn remove(&mut self, code: u64, id: u32, alive: LiveWindow) {
        let (layout, own) = (self.layout, alive.counted_from(self.base));
        let word = layout.word(self.shape.tag(code), id.wrapping_sub(self.base));
        let dead = layout.word(0, own.tail.wrapping_sub(1));
        let number = self.number_of(code);
        let Some(line) = self.lines.line_mut(number) else { return };
        let slots = layout.slots(line);
        let held = (0..u32::BITS).find(|&slot| slots >> slot & 1 == 1 && word_at(line, slot) == word);
        if let Some(slot) = held {
            set_word(line, slot, dead);
        } else if let Some(run) = layout.run(line) {
            let left = self.runs.remove(run, word);
            layout.set_run(line, left, dead);
            self.with_run -= u64::from(left.is_none());
        }
    }

    /// Returns whether a line is to be swept at this position.
    pub(crate) const fn is_swept_at(&self, position: u64) -> bool {
        position.is_multiple_of(if self.lines.count() > MANY_LINES { SWEEP_MANY_EVERY } else { SWEEP_EVERY })
    }

    /// Decides whether runs are met often enough to prefetch them. Call it every `positions` positions.
    pub(crate) fn update_prefetch_hint(&mut self, positions: u64) {
        self.leads_to_runs = std::mem::take(&mut self.met_run) * RUN_PREFETCH_RATIO > positions;
    }

    /// Returns whether runs are worth prefetching.
    pub(crate) const fn leads_to_runs(&self) -> bool {
        self.leads_to_runs
    }

    /// Tidies the next line, so that its dead entries stay dead until its turn comes again, and its run becomes as
    /// small as it can be.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn sweep<C: Compare>(&mut self, alive: LiveWindow) {
        let (layout, own) = (self.layout, alive.counted_from(self.base));
        let (window, dead) = (layout.window(own), layout.word(0, own.tail.wrapping_sub(1)));
        if let Some(line) = self.lines.line_mut(self.swept) {
            let old = layout.old();
            let lately = LiveWindow { tail: own.tail.wrapping_sub(old), live: own.live.saturating_add(old) };
            let mut idle = layout.slots(line) & !C::alive(line, layout.window(lately));
            while idle != 0 {
                let slot = idle.trailing_zeros();
                idle &= idle - 1;
                set_word(line, slot, dead);
            }
            if let Some(run) = layout.run(line) {
                let left = self.runs.drop_expired(run, window, MAX_DROPPED_BLOCKS).map(|run| self.runs.shrunk(run));
                layout.set_run(line, left, dead);
                self.with_run -= u64::from(left.is_none());
                let entries = left.map_or(0, |run| self.runs.len(run) + L::BESIDE_RUN);
                self.largest_lately = self.largest_lately.max(entries);
            }
        }
        self.swept += 1;
        // Prefetches the run of the next line, and a later line, so that they have arrived when it is their turn.
        if let Some(run) = layout.run(self.lines.line(self.swept)) {
            self.runs.prefetch_head(run);
        }
        simd::prefetch(self.lines.line(self.swept + 4));
        if self.swept >= self.lines.count() {
            self.swept = 0;
            self.largest = std::mem::take(&mut self.largest_lately);
        }
    }

    /// Returns the most entries that a probe without flips can find for any code, live or not. Runs grow only by inserts,
    /// which note their size, and each sweep notes the size of those that are left.
    #[inline]
    pub(crate) fn most_found_anywhere(&self) -> u32 {
        self.largest.max(L::BESIDE_RUN + 1)
    }

    /// Returns the most entries that a probe without flips can find, live or not.
    #[inline]
    pub(crate) fn most_found(&self, code: u64) -> u32 {
        let line = self.lines.line(self.number_of(code));
        let in_run = self.layout.run(line).map_or(0, |run| self.runs.len(run));
        self.layout.slots(line).count_ones() + in_run
    }

    /// Returns how many entries are in the runs that a probe reads.
    pub(crate) fn in_runs(&self, code: u64) -> u64 {
        let runs = self.shape.flips().iter().filter_map(|flip| {
            self.layout.run(self.lines.line(self.number_of(code ^ flip.bits))).map(|run| u64::from(self.runs.len(run)))
        });
        runs.sum()
    }

    /// Visits every live entry that may differ from a code in at most `reach` bits, with the flip under which it was
    /// found.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn probe<C: Compare>(
        &self,
        code: u64,
        reach: u32,
        alive: LiveWindow,
        visit: &mut impl FnMut(u64, Found),
    ) {
        for flip in self.shape.flips() {
            let place = self.shape.place(code) ^ flip.place;
            let run = self.probe_line::<C>(place, code, reach, alive, &mut |found| visit(flip.bits, found));
            if let Some(run) = run {
                self.probe_run::<C>(run, code, reach, alive, &mut |found| visit(flip.bits, found));
            }
        }
    }

    /// Does the same without flips, and leaves out the run of the line. Returns whether the line has a run, which is
    /// prefetched then.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn probe_home<C: Compare>(&self, code: u64, alive: LiveWindow, visit: &mut impl FnMut(Found)) -> bool {
        let run = self.probe_line::<C>(self.shape.place(code), code, 0, alive, visit);
        run.inspect(|run| self.runs.prefetch_head(*run)).is_some()
    }

    /// Visits what [`Table::probe_home`] leaves out.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn probe_home_run<C: Compare>(&self, code: u64, alive: LiveWindow, visit: &mut impl FnMut(Found)) {
        if let Some(run) = self.layout.run(self.lines.line(self.number_of(code))) {
            self.probe_run::<C>(run, code, 0, alive, visit);
        }
    }

    /// Visits the live entries of one line; returns its run.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    fn probe_line<C: Compare>(
        &self,
        place: u64,
        code: u64,
        reach: u32,
        alive: LiveWindow,
        visit: &mut impl FnMut(Found),
    ) -> Option<OverflowPlace> {
        let (layout, tag) = (self.layout, self.shape.tag(code));
        let window = layout.window(alive.counted_from(self.base));
        let line = self.lines.line(self.number_at(place));
        let mut near = layout.near::<C>(line, tag, reach, window) & layout.slots(line);
        while near != 0 {
            let age = layout.age(word_at(line, near.trailing_zeros()), window);
            near &= near - 1;
            visit(Found { age, code: None });
        }
        layout.run(line)
    }

    /// Visits the live entries of one run.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    fn probe_run<C: Compare>(
        &self,
        run: OverflowPlace,
        code: u64,
        reach: u32,
        alive: LiveWindow,
        visit: &mut impl FnMut(Found),
    ) {
        let layout = self.layout;
        let window = layout.window(alive.counted_from(self.base));
        if L::CODES {
            self.runs.near::<C>(run, code, reach, window, &mut |word, held| {
                visit(Found { age: layout.age(word, window), code: Some(held) });
            });
        } else {
            let (tag, mask) = (self.shape.tag(code), layout.tag_mask());
            self.runs.equal::<C>(run, tag, mask, window, &mut |word| {
                visit(Found { age: layout.age(word, window), code: None });
            });
        }
    }

    /// Replaces the lines by these empty ones.
    pub(crate) fn put_lines(&mut self, lines: Buckets) {
        self.lines = lines;
    }

    /// Returns the task that allocates memory for runs, when it is needed soon.
    pub(crate) fn maintenance_task(&mut self) -> Option<Task<'static>> {
        self.runs.maintenance_task()
    }

    /// Touches a large page of the lines: see [`Buckets::touch`].
    pub(crate) fn touch(&mut self, page: usize) -> bool {
        self.lines.touch(page)
    }

    /// Prepares the table for being given back piece by piece.
    pub(crate) fn discard(self) -> (OverflowRuns, Discarded) {
        (self.runs, self.lines.discard())
    }

    /// Returns its statistics.
    pub(crate) fn stats(&self) -> TableStats {
        TableStats {
            lines: self.lines.count(),
            probed: self.shape.flips().len(),
            overflowed: self.with_run,
            largest: self.largest,
            memory_bytes: self.lines.memory_bytes() + self.runs.memory_bytes(),
        }
    }
}

/// Scales a place to a number below `count`.
#[inline]
const fn upper_half(place: u64, count: u64) -> u64 {
    ((place as u128 * count as u128) >> 64) as u64
}

struct Overflow {
    is_new: bool,
    entries: u32,
}

/// Moves the run of a line back into its slots if everything fits; returns whether it did.
#[cold]
#[inline(never)]
fn fold<L: Layout>(
    layout: L,
    line: &mut Line,
    runs: &mut OverflowRuns,
    window: LiveWindow,
    taken: u32,
    shape: &L::Addressing,
) -> bool {
    let Some(run) = layout.run(line) else { return false };
    let left = runs.drop_expired(run, window, MAX_DROPPED_BLOCKS);
    let mut free = layout.slots(line) & !taken;
    let room = free.count_ones();
    let is_empty = left.is_none_or(|run| {
        runs.take_all(run, room, |code, word| {
            layout.set::<Portable>(line, free.trailing_zeros(), shape.tag(code), word);
            free &= free - 1;
        })
    });
    // No word before the tail is alive.
    layout.set_run(line, left.filter(|_| !is_empty), window.tail.wrapping_sub(1));
    is_empty
}

/// Puts an entry into the run of a line without a free slot.
#[cold]
#[inline(never)]
fn overflow<L: Layout>(
    layout: L,
    line: &mut Line,
    runs: &mut OverflowRuns,
    (code, word): (u64, u32),
    code_at: impl Fn(u32) -> Option<u64>,
) -> Overflow {
    let held = layout.run(line);
    // The entry that gives way to the run is older than this one, so it comes first.
    let begun = || layout.gives_way(line).and_then(|older| Some(runs.begin(code_at(older)?, older)));
    let run = match held.or_else(begun) {
        Some(run) => runs.append(run, code, word),
        None => runs.begin(code, word),
    };
    layout.set_run(line, Some(run), 0);
    Overflow { is_new: held.is_none(), entries: runs.len(run) + L::BESIDE_RUN }
}

/// Returns the number of lines for this many entries, `load` in a line on average; never more than there are keys.
pub(crate) fn lines_for(entries: u64, load: f64, key_bits: u32) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "neither negative nor beyond 2^64")]
    let lines = (entries as f64 / load).ceil() as u64;
    lines.clamp(1, 1_u64.checked_shl(key_bits).unwrap_or(u64::MAX))
}

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
