//! One table: finds the entries whose key a probe shares.
//!
//! An entry is in the line of its key, or in the run of that line. Its id alone shows whether it is alive, so expiry
//! touches nothing here. A slot whose entry is dead is free, and each line is tidied when the sweep reaches it.

use crate::buckets::{Buckets, Discarded};
use crate::layout::{Layout, OverflowPlace};
use crate::live_window::{LiveWindow, id_of};
use crate::overflow::OverflowRuns;
use crate::shape::Addressing;
use crate::simd::{self, Compare, Line, Portable, set_word, word_at};
use crate::tasks::Task;

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
