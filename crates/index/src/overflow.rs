//! Overflow runs: storage for entries whose bucket is full.
//!
//! A run is a chain of blocks that hold words and, in some tables, full codes, in the order of insertion. So a run is
//! compared in one sweep, and its expired entries are at its beginning. A word holds an id, and whatever else the
//! table's layout keeps in it. Only blocks of the largest size class form chains: a run that outgrows a smaller block
//! moves to one of the next class. Blocks come from slabs and go to free lists.
//!
//! ```text
//! word 0   next block u32 · first entry u16 · end of the entries u16
//! word 1   first block only: last block u32 · entries in all blocks u32
//! then     codes, one word each, for the whole capacity, where they are kept; then ids, two to a word
//! ```
//!
//! Slabs are carved into blocks; blocks that are no longer used are in the free lists of their classes.

use crate::entries::LiveWindow;
use crate::layout::OverflowPlace;
use crate::simd::{self, Compare, LARGE_PAGE};
use crate::tasks::{Deferred, Task};

/// Words of the smallest block: one cache line.
const UNIT: usize = 8;

/// Size classes; a block of class c has 2^c units. The largest has 16 KiB and 1,364 entries with their codes, or 4,092
/// without.
const CLASSES: usize = 9;

/// Units of a slab, as a power of two: one large page. On small pages, prefetching a run would gain nothing, because
/// the processor waits for the page table.
const SLAB_BITS: u32 = 15;
const SLAB_UNITS: u32 = 1 << SLAB_BITS;

/// Words of a slab.
const SLAB: usize = UNIT << SLAB_BITS;

/// The most units of a first slab that is not of full size yet: growing copies what it holds.
const MOST_COPIED: u32 = 1 << 12;

/// How many units of the last slab are in use when the next slab is needed soon: early enough for many long runs at
/// once.
const SLAB_SOON: u32 = SLAB_UNITS / 2;

/// No block: beyond all slabs.
const NONE: u32 = u32::MAX;

/// Largest class.
const LAST: u8 = 8;

/// Storage of all runs of a table.
#[derive(Debug)]
pub(crate) struct OverflowRuns {
    with_codes: bool,
    slabs: Vec<Slab>,
    /// The next slab, which a helper touches.
    spare: Option<Deferred<Slab>>,
    /// First unit of the last slab that was never used.
    fresh: u32,
    free: [u32; CLASSES],
    blocks_bytes: usize,
}

#[derive(Debug)]
struct Slab {
    words: Vec<u64>,
    start: usize,
}

impl Slab {
    /// Allocates zeros for this many units. The system provides the memory when it is first touched: one small page at
    /// a time, or all of it.
    fn new(units: u32, is_large: bool) -> Self {
        let align = if is_large { LARGE_PAGE / size_of::<u64>() } else { UNIT };
        let mut words = vec![0; UNIT * units as usize + align];
        if is_large {
            simd::use_large_pages(&mut words);
        }
        let start = words.as_ptr().align_offset(align * size_of::<u64>()).min(align);
        Self { words, start }
    }

    /// Returns whether it has this many units.
    fn has(&self, units: u32) -> bool {
        self.words.get(self.start..).is_some_and(|words| words.len() >= UNIT * units as usize)
    }

    /// Replaces it by a slab of at least this many units that begins like it: one four times as large as needed, or of
    /// full size.
    fn grow(&mut self, needed: u32) {
        let units = needed.saturating_mul(4).next_power_of_two();
        let mut grown = Self::new(if units > MOST_COPIED { SLAB_UNITS } else { units }, false);
        let held = self.words.get(self.start..).unwrap_or_default();
        let into = grown.words.get_mut(grown.start..).unwrap_or_default();
        into.iter_mut().zip(held).for_each(|(into, held)| *into = *held);
        *self = grown;
    }

    /// Allocates a large slab and touches its memory.
    fn touched() -> Self {
        let mut slab = Self::new(SLAB_UNITS, true);
        slab.words.get_mut(slab.start).into_iter().for_each(|word| *word = std::hint::black_box(0));
        slab
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    next: u32,
    first: u16,
    end: u16,
}

/// Returns the units of a block.
const fn units(class: u8) -> u32 {
    1 << class
}

/// Words before the entries of a block.
const BEFORE: usize = 2;

impl Head {
    #[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
    const fn of(word: u64) -> Self {
        Self { next: word as u32, first: (word >> 32) as u16, end: (word >> 48) as u16 }
    }

    fn word(self) -> u64 {
        u64::from(self.next) | u64::from(self.first) << 32 | u64::from(self.end) << 48
    }

    fn len(self) -> usize {
        usize::from(self.end.saturating_sub(self.first))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns one bit for each of the sixteen places from `first` on that lies between `from` and `to`.
fn within(first: usize, from: usize, to: usize) -> u32 {
    let below = from.saturating_sub(first);
    let above = to.saturating_sub(first);
    let ones = |count: usize| if count >= 16 { 0xFFFF } else { (1 << count) - 1 };
    ones(above) & !ones(below)
}

const fn joined(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Iterates over the blocks of a run with their heads, and prefetches the next block.
struct Blocks<'a> {
    runs: &'a OverflowRuns,
    next: u32,
    class: u8,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = (u32, Head, &'a [u64]);

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next;
        let block = self.runs.block(at, self.class);
        let head = Head::of(*block.first()?);
        self.next = head.next;
        if let Some(word) = self.runs.block(self.next, self.class).first() {
            simd::prefetch(word);
        }
        Some((at, head, block))
    }
}

impl OverflowRuns {
    /// Creates an empty storage, with codes or without.
    pub(crate) const fn new(with_codes: bool) -> Self {
        Self { with_codes, slabs: Vec::new(), spare: None, fresh: 0, free: [NONE; CLASSES], blocks_bytes: 0 }
    }

    /// Returns how many entries fit into a block.
    const fn capacity(&self, class: u8) -> usize {
        let words = UNIT * units(class) as usize - BEFORE;
        if self.with_codes { words * 2 / 3 } else { words * 2 }
    }

    /// Returns where ids begin in a block.
    const fn ids_at(&self, class: u8) -> usize {
        if self.with_codes { BEFORE + self.capacity(class) } else { BEFORE }
    }

    #[inline]
    fn block(&self, block: u32, class: u8) -> &[u64] {
        let at = (block & (SLAB_UNITS - 1)) as usize * UNIT;
        let length = UNIT << class;
        self.slabs
            .get((block >> SLAB_BITS) as usize)
            .and_then(|slab| slab.words.get(slab.start + at..slab.start + at + length))
            .unwrap_or(&[])
    }

    #[inline]
    fn block_mut(&mut self, block: u32, class: u8) -> &mut [u64] {
        let at = (block & (SLAB_UNITS - 1)) as usize * UNIT;
        let length = UNIT << class;
        self.slabs
            .get_mut((block >> SLAB_BITS) as usize)
            .and_then(|slab| slab.words.get_mut(slab.start + at..slab.start + at + length))
            .unwrap_or(&mut [])
    }

    #[inline]
    fn word(&self, block: u32, class: u8, at: usize) -> u64 {
        self.block(block, class).get(at).copied().unwrap_or(0)
    }

    fn set_word(&mut self, block: u32, class: u8, at: usize, value: u64) {
        if let Some(word) = self.block_mut(block, class).get_mut(at) {
            *word = value;
        }
    }

    fn head(&self, block: u32, class: u8) -> Head {
        Head::of(self.word(block, class, 0))
    }

    fn set_head(&mut self, block: u32, class: u8, head: Head) {
        self.set_word(block, class, 0, head.word());
    }

    fn id(&self, block: u32, class: u8, at: usize) -> u32 {
        let (low, high) = halves(self.word(block, class, self.ids_at(class) + at / 2));
        if at.is_multiple_of(2) { low } else { high }
    }

    fn code(&self, block: u32, class: u8, at: usize) -> u64 {
        if self.with_codes { self.word(block, class, BEFORE + at) } else { 0 }
    }

    fn write(&mut self, block: u32, class: u8, at: usize, code: u64, id: u32) {
        if self.with_codes {
            self.set_word(block, class, BEFORE + at, code);
        }
        let place = self.ids_at(class) + at / 2;
        let (low, high) = halves(self.word(block, class, place));
        let word = if at.is_multiple_of(2) { joined(id, high) } else { joined(low, id) };
        self.set_word(block, class, place, word);
    }

    /// Creates a run of one entry.
    pub(crate) fn begin(&mut self, code: u64, id: u32) -> OverflowPlace {
        let head = self.take(0);
        self.write(head, 0, 0, code, id);
        self.set_head(head, 0, Head { next: NONE, first: 0, end: 1 });
        self.set_word(head, 0, 1, joined(head, 1));
        OverflowPlace { head, class: 0 }
    }

    /// Appends an entry; returns where the run is now.
    pub(crate) fn append(&mut self, run: OverflowPlace, code: u64, id: u32) -> OverflowPlace {
        let OverflowPlace { head, class } = run;
        let (tail, count) = halves(self.word(head, class, 1));
        let last = self.head(tail, class);
        let full = usize::from(last.end) >= self.capacity(class);
        if !full {
            self.write(tail, class, usize::from(last.end), code, id);
            self.set_head(tail, class, Head { end: last.end + 1, ..last });
            self.set_word(head, class, 1, joined(tail, count + 1));
            return run;
        }
        if class < LAST {
            // Closing up moves each entry at most fifteen times, and a run that neither grows nor shrinks stays where
            // it is.
            let wider = if last.len() * 16 > self.capacity(class) * 15 { class + 1 } else { class };
            let run = self.moved(run, wider);
            return self.append(run, code, id);
        }
        let block = self.take(class);
        self.write(block, class, 0, code, id);
        self.set_head(block, class, Head { next: NONE, first: 0, end: 1 });
        self.set_head(tail, class, Head { next: block, ..last });
        self.set_word(head, class, 1, joined(block, count + 1));
        run
    }

    /// Moves a run of one block to the beginning of a block of this class, its own or a fresh one, without the entries
    /// that it has dropped.
    fn moved(&mut self, run: OverflowPlace, class: u8) -> OverflowPlace {
        let before = self.head(run.head, run.class);
        let head = if class == run.class { run.head } else { self.take(class) };
        let mut end = 0;
        for at in usize::from(before.first)..usize::from(before.end) {
            let (code, id) = (self.code(run.head, run.class, at), self.id(run.head, run.class, at));
            self.write(head, class, usize::from(end), code, id);
            end += 1;
        }
        self.set_head(head, class, Head { next: NONE, first: 0, end });
        self.set_word(head, class, 1, joined(head, u32::from(end)));
        if class != run.class {
            self.give_back(run.head, run.class);
        }
        OverflowPlace { head, class }
    }

    /// Drops expired entries from the beginning, from at most `most` blocks; `None` when nothing is left.
    pub(crate) fn drop_expired(&mut self, run: OverflowPlace, alive: LiveWindow, most: usize) -> Option<OverflowPlace> {
        let OverflowPlace { mut head, class } = run;
        let (tail, mut count) = halves(self.word(head, class, 1));
        for _ in 0..most {
            let mut block = self.head(head, class);
            let before = block.len();
            block.first = self.first_alive(head, class, block, alive);
            count -= u32::try_from(before - block.len()).unwrap_or(0);
            if block.first < block.end {
                self.set_head(head, class, block);
                break;
            }
            // Nothing is left in this block.
            self.give_back(head, class);
            if block.next == NONE {
                return None;
            }
            head = block.next;
        }
        self.set_word(head, class, 1, joined(tail, count));
        Some(OverflowPlace { head, class })
    }

    /// Removes an entry from a run, if it is there; `None` when nothing is left.
    pub(crate) fn remove(&mut self, run: OverflowPlace, id: u32) -> Option<OverflowPlace> {
        let OverflowPlace { head, class } = run;
        let (mut before, mut block) = (None, head);
        loop {
            let held = self.head(block, class);
            if let Some(at) = self.place_in(block, class, held, id) {
                let (tail, count) = halves(self.word(head, class, 1));
                self.set_word(head, class, 1, joined(tail, count - 1));
                let left = self.close_gap(block, class, held, at);
                return if left.len() > 0 { Some(run) } else { self.unlink(run, before, block) };
            }
            if held.next == NONE {
                return Some(run);
            }
            (before, block) = (Some(block), held.next);
        }
    }

    /// Returns the place of an entry in a block, whose entries are in the order of insertion.
    fn place_in(&self, block: u32, class: u8, head: Head, id: u32) -> Option<u16> {
        // Less than half of all ids are in use, so ids show the order of insertion.
        let is_before = |at: u16| self.id(block, class, usize::from(at)).wrapping_sub(id).cast_signed() < 0;
        let Head { mut first, mut end, .. } = head;
        while first < end {
            let middle = u16::midpoint(first, end);
            if is_before(middle) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        (first < head.end && self.id(block, class, usize::from(first)) == id).then_some(first)
    }

    /// Moves the entries before or after one over it, whichever are fewer; returns the head of what is left of the
    /// block.
    fn close_gap(&mut self, block: u32, class: u8, head: Head, at: u16) -> Head {
        let mut copy = |from: u16, to: u16| {
            let from = usize::from(from);
            let (code, id) = (self.code(block, class, from), self.id(block, class, from));
            self.write(block, class, usize::from(to), code, id);
        };
        let left = if at - head.first < head.end - at {
            (head.first..at).rev().for_each(|before| copy(before, before + 1));
            Head { first: head.first + 1, ..head }
        } else {
            (at + 1..head.end).for_each(|from| copy(from, from - 1));
            Head { end: head.end - 1, ..head }
        };
        self.set_head(block, class, left);
        left
    }

    /// Gives back a block of a run, which has no entries left and comes after `before`; `None` when it was the only
    /// one.
    fn unlink(&mut self, run: OverflowPlace, before: Option<u32>, block: u32) -> Option<OverflowPlace> {
        let OverflowPlace { head, class } = run;
        let (tail, count) = halves(self.word(head, class, 1));
        let next = self.head(block, class).next;
        self.give_back(block, class);
        let Some(before) = before else {
            self.set_word(next, class, 1, joined(tail, count));
            return (next != NONE).then_some(OverflowPlace { head: next, class });
        };
        self.set_head(before, class, Head { next, ..self.head(before, class) });
        if block == tail {
            self.set_word(head, class, 1, joined(before, count));
        }
        Some(run)
    }

    /// Returns where the first live entry is in a block, or its end. Expired entries are before it.
    fn first_alive(&self, block: u32, class: u8, head: Head, alive: LiveWindow) -> u16 {
        let is_dead = |at: u16| !alive.has(self.id(block, class, usize::from(at)));
        let Head { mut first, mut end, .. } = head;
        // Usually, none has expired.
        if first < end && !is_dead(first) {
            return first;
        }
        while first < end {
            let middle = u16::midpoint(first, end);
            if is_dead(middle) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        first
    }

    /// Empties a run of at most this many entries, oldest first; returns false for a longer one.
    pub(crate) fn take_all(&mut self, run: OverflowPlace, most: u32, mut put: impl FnMut(u64, u32)) -> bool {
        let OverflowPlace { head, class } = run;
        let block = self.head(head, class);
        if block.next != NONE || block.len() > most as usize {
            return false;
        }
        for at in usize::from(block.first)..usize::from(block.end) {
            put(self.code(head, class, at), self.id(head, class, at));
        }
        self.give_back(head, class);
        true
    }

    /// Moves a run that has become much smaller into a smaller block.
    pub(crate) fn shrunk(&mut self, run: OverflowPlace) -> OverflowPlace {
        let held = self.head(run.head, run.class);
        let fits = |class: &u8| held.len() * 4 <= self.capacity(*class) * 3;
        match (0..run.class).find(fits) {
            Some(class) if held.next == NONE => self.moved(run, class),
            _ => run,
        }
    }

    /// Returns how many entries a run holds, including those that have expired since its home line was last written.
    pub(crate) fn len(&self, run: OverflowPlace) -> u32 {
        halves(self.word(run.head, run.class, 1)).1
    }

    /// Prefetches the beginning of a run.
    #[inline]
    pub(crate) fn prefetch_head(&self, run: OverflowPlace) {
        if let Some(word) = self.block(run.head, run.class).first() {
            simd::prefetch(word);
        }
    }

    /// Prefetches the first lines of a run.
    #[inline]
    pub(crate) fn prefetch(&self, run: OverflowPlace) {
        for line in self.block(run.head, run.class).chunks(UNIT).take(8) {
            if let Some(word) = line.first() {
                simd::prefetch(word);
            }
        }
    }

    /// Goes through the blocks of a run.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    const fn blocks(&self, run: OverflowPlace) -> Blocks<'_> {
        Blocks { runs: self, next: run.head, class: run.class }
    }

    /// Visits the word of every live entry that is equal to `tag` where `mask` has ones. For runs without codes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn equal<C: Compare>(
        &self,
        run: OverflowPlace,
        tag: u32,
        mask: u32,
        window: LiveWindow,
        visit: &mut impl FnMut(u32),
    ) {
        for (_, head, block) in self.blocks(run) {
            // Compares eight words of two ids at a time, and leaves out what is not an entry of the block.
            let (from, to) = (usize::from(head.first), usize::from(head.end));
            let words = block.get(BEFORE + from / 2..BEFORE + to.div_ceil(2)).unwrap_or(&[]);
            let (eights, rest) = words.as_chunks::<8>();
            let mut last = [0_u64; 8];
            for (last, word) in last.iter_mut().zip(rest) {
                *last = *word;
            }
            for (number, eight) in eights.iter().chain([&last]).enumerate() {
                let first = from / 2 * 2 + number * 16;
                let mut found = C::sixteen(eight, tag, mask, window) & within(first, from, to);
                while found != 0 {
                    let place = found.trailing_zeros();
                    found &= found - 1;
                    let (low, high) = halves(eight.get(place as usize / 2).copied().unwrap_or(0));
                    visit(if place.is_multiple_of(2) { low } else { high });
                }
            }
        }
    }

    /// Visits every live entry that differs from `code` in at most `reach` bits.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(crate) fn near<C: Compare>(
        &self,
        run: OverflowPlace,
        code: u64,
        reach: u32,
        alive: LiveWindow,
        visit: &mut impl FnMut(u32, u64),
    ) {
        for (at, head, block) in self.blocks(run) {
            let codes = block.get(BEFORE + usize::from(head.first)..BEFORE + usize::from(head.end)).unwrap_or(&[]);
            let mut show = |place: usize, held: u64| {
                let id = self.id(at, run.class, usize::from(head.first) + place);
                if alive.has(id) {
                    visit(id, held);
                }
            };
            let (eights, rest) = codes.as_chunks::<8>();
            for (number, eight) in eights.iter().enumerate() {
                let mut found = C::eight(eight, code, reach);
                while found != 0 {
                    let place = found.trailing_zeros() as usize;
                    found &= found - 1;
                    show(number * 8 + place, eight.get(place).copied().unwrap_or(0));
                }
            }
            for (place, &held) in rest.iter().enumerate() {
                if (held ^ code).count_ones() <= reach {
                    show(eights.len() * 8 + place, held);
                }
            }
        }
    }

    /// Frees a slab, whatever it holds; returns whether it was the last. Freeing all at once would be a pause.
    pub(crate) fn discard_one(&mut self) -> bool {
        self.slabs.pop();
        self.slabs.is_empty()
    }

    /// Returns the memory of all slabs, in bytes. If there is only one, only the part counts that was ever used.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slabs = self.slabs.len() + usize::from(self.spare.is_some());
        let words = if slabs == 1 { UNIT * self.fresh as usize } else { SLAB * slabs };
        words * size_of::<u64>()
    }
}

impl OverflowRuns {
    /// Takes an empty block.
    fn take(&mut self, class: u8) -> u32 {
        let block = self.unused(class).unwrap_or_else(|| self.carve(class));
        self.blocks_bytes += (UNIT << class) * size_of::<u64>();
        self.set_head(block, class, Head { next: NONE, first: 0, end: 0 });
        self.set_word(block, class, 1, joined(block, 0));
        block
    }

    /// Takes a block off the free lists, the half of a larger one if need be.
    fn unused(&mut self, class: u8) -> Option<u32> {
        let kept = self.free.get(usize::from(class)).copied()?;
        if kept != NONE {
            let next = self.head(kept, class).next;
            if let Some(free) = self.free.get_mut(usize::from(class)) {
                *free = next;
            }
            // Prefetches the next free block, so that it has arrived by the time it is taken.
            if let Some(word) = self.block(next, class).first() {
                simd::prefetch(word);
            }
            return Some(kept);
        }
        let block = self.unused(class + 1)?;
        self.put_free(block + units(class), class);
        Some(block)
    }

    fn carve(&mut self, class: u8) -> u32 {
        if self.slabs.is_empty() || self.fresh + units(class) > SLAB_UNITS {
            // The rest of the slab serves as smaller blocks.
            while !self.slabs.is_empty() && self.fresh < SLAB_UNITS {
                let class = u8::try_from((SLAB_UNITS - self.fresh).ilog2()).unwrap_or(0).min(LAST);
                let block = self.last_slab() + self.fresh;
                self.fresh += units(class);
                self.put_free(block, class);
            }
            // Many tables have few runs, so the first slab is small and grows.
            let is_first = self.slabs.is_empty();
            let room = if is_first { units(class) } else { SLAB_UNITS };
            let spare = self.spare.take().and_then(|slab| slab.into_inner().ok().flatten());
            self.slabs.push(spare.unwrap_or_else(|| Slab::new(room, !is_first)));
            self.fresh = 0;
        }
        let end = self.fresh + units(class);
        if let Some(slab) = self.slabs.last_mut().filter(|slab| !slab.has(end)) {
            slab.grow(end);
        }
        let block = self.last_slab() + self.fresh;
        self.fresh = end;
        block
    }

    /// Returns the task that allocates the next slab, when it is needed soon and not under way.
    pub(crate) fn maintenance_task(&mut self) -> Option<Task<'static>> {
        if self.slabs.is_empty() || self.fresh < SLAB_SOON || self.spare.is_some() {
            return None;
        }
        let (slab, task) = Deferred::of(Slab::touched);
        self.spare = Some(slab);
        Some(task)
    }

    /// Returns the first unit of the newest slab.
    fn last_slab(&self) -> u32 {
        u32::try_from(self.slabs.len().saturating_sub(1)).unwrap_or(0) << SLAB_BITS
    }

    fn put_free(&mut self, block: u32, class: u8) {
        if let Some(free) = self.free.get_mut(usize::from(class)) {
            let next = std::mem::replace(free, block);
            self.set_head(block, class, Head { next, first: 0, end: 0 });
        }
    }

    fn give_back(&mut self, block: u32, class: u8) {
        self.blocks_bytes -= (UNIT << class) * size_of::<u64>();
        self.put_free(block, class);
    }
}

#[cfg(test)]
mod tests;
