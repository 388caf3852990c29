//! Runs: where entries stand whose home line is full.
//!
//! A run is a chain of blocks with full codes and ids in the order of insertion, so that it is compared in one sweep
//! and what has expired is its beginning. All blocks but those of the largest size class are alone: a run that
//! outgrows its block moves to the next larger one. Blocks come from slabs and go to free lists.
//!
//! ```text
//! word 0   next block u32 · first entry u16 · end of the entries u16
//! word 1   first block only: last block u32 · entries in all blocks u32
//! then     codes, one word each, for the whole capacity; then ids, two to a word
//! ```

use super::alive::Alive;
use super::fast::{self, Compare};
use super::layout::RunPlace;

/// Words of the smallest block: one cache line.
const UNIT: usize = 8;

/// Size classes; a block of class c has 2^c units. The largest has 16 KiB and 1,364 entries.
const CLASSES: usize = 9;

/// Units of a slab, as a power of two: 64 KiB.
const SLAB_BITS: u32 = 10;

/// No block.
const NONE: u32 = u32::MAX;

/// Largest class.
const LAST: u8 = 8;

/// Storage of all runs of a table.
#[derive(Debug)]
pub(super) struct Runs {
    slabs: Vec<Slab>,
    /// Next unit of the last slab that was never used.
    fresh: u32,
    free: [u32; CLASSES],
    blocks_bytes: usize,
}

#[derive(Debug)]
struct Slab {
    words: Vec<u64>,
    start: usize,
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

/// Returns the entries that fit into a block.
const fn capacity(class: u8) -> usize {
    (UNIT * units(class) as usize - 2) * 2 / 3
}

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

const fn joined(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

impl Runs {
    /// Makes an empty storage.
    pub(super) const fn new() -> Self {
        Self { slabs: Vec::new(), fresh: 0, free: [NONE; CLASSES], blocks_bytes: 0 }
    }

    #[inline]
    fn block(&self, block: u32, class: u8) -> &[u64] {
        let at = (block & ((1 << SLAB_BITS) - 1)) as usize * UNIT;
        let length = UNIT << class;
        self.slabs
            .get((block >> SLAB_BITS) as usize)
            .and_then(|slab| slab.words.get(slab.start + at..slab.start + at + length))
            .unwrap_or(&[])
    }

    #[inline]
    fn block_mut(&mut self, block: u32, class: u8) -> &mut [u64] {
        let at = (block & ((1 << SLAB_BITS) - 1)) as usize * UNIT;
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

    /// Takes a block with nothing in it.
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
            return Some(kept);
        }
        let block = self.unused(class + 1)?;
        self.put_free(block + units(class), class);
        Some(block)
    }

    fn carve(&mut self, class: u8) -> u32 {
        let slab_units = 1_u32 << SLAB_BITS;
        if self.slabs.is_empty() || self.fresh + units(class) > slab_units {
            // What is left of the slab serves for smaller blocks.
            while !self.slabs.is_empty() && self.fresh < slab_units {
                let class = u8::try_from((slab_units - self.fresh).ilog2()).unwrap_or(0).min(LAST);
                let block = self.last_slab() + self.fresh;
                self.fresh += units(class);
                self.put_free(block, class);
            }
            let words = vec![0_u64; (UNIT << SLAB_BITS) + UNIT];
            let start = words.as_ptr().align_offset(UNIT * size_of::<u64>()).min(UNIT);
            self.slabs.push(Slab { words, start });
            self.fresh = 0;
        }
        let block = self.last_slab() + self.fresh;
        self.fresh += units(class);
        block
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

    fn id(&self, block: u32, class: u8, at: usize) -> u32 {
        let (low, high) = halves(self.word(block, class, 2 + capacity(class) + at / 2));
        if at.is_multiple_of(2) { low } else { high }
    }

    fn write(&mut self, block: u32, class: u8, at: usize, code: u64, id: u32) {
        self.set_word(block, class, 2 + at, code);
        let place = 2 + capacity(class) + at / 2;
        let (low, high) = halves(self.word(block, class, place));
        let word = if at.is_multiple_of(2) { joined(id, high) } else { joined(low, id) };
        self.set_word(block, class, place, word);
    }

    /// Makes a run of one entry.
    pub(super) fn begin(&mut self, code: u64, id: u32) -> RunPlace {
        let head = self.take(0);
        self.write(head, 0, 0, code, id);
        self.set_head(head, 0, Head { next: NONE, first: 0, end: 1 });
        self.set_word(head, 0, 1, joined(head, 1));
        RunPlace { head, class: 0 }
    }

    /// Appends an entry; returns where the run stands now.
    pub(super) fn append(&mut self, run: RunPlace, code: u64, id: u32) -> RunPlace {
        let RunPlace { head, class } = run;
        let (tail, count) = halves(self.word(head, class, 1));
        let last = self.head(tail, class);
        let full = usize::from(last.end) >= capacity(class);
        if !full {
            self.write(tail, class, usize::from(last.end), code, id);
            self.set_head(tail, class, Head { end: last.end + 1, ..last });
            self.set_word(head, class, 1, joined(tail, count + 1));
            return run;
        }
        if class < LAST {
            // Closing up moves each entry fifteen times at worst, and keeps a run that neither grows nor shrinks where it is.
            let wider = if last.len() * 16 > capacity(class) * 15 { class + 1 } else { class };
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

    /// Moves a run of one block to the beginning of a block of this class, its own or a fresh one, without what it has
    /// dropped.
    fn moved(&mut self, run: RunPlace, class: u8) -> RunPlace {
        let before = self.head(run.head, run.class);
        let head = if class == run.class { run.head } else { self.take(class) };
        let mut end = 0;
        for at in usize::from(before.first)..usize::from(before.end) {
            let (code, id) = (self.word(run.head, run.class, 2 + at), self.id(run.head, run.class, at));
            self.write(head, class, usize::from(end), code, id);
            end += 1;
        }
        self.set_head(head, class, Head { next: NONE, first: 0, end });
        self.set_word(head, class, 1, joined(head, u32::from(end)));
        if class != run.class {
            self.give_back(run.head, run.class);
        }
        RunPlace { head, class }
    }

    /// Drops what has expired from the beginning, as far as `most` looks lead; `None` when nothing is left.
    pub(super) fn drop_expired(&mut self, run: RunPlace, alive: Alive, most: usize) -> Option<RunPlace> {
        let RunPlace { mut head, class } = run;
        let (tail, mut count) = halves(self.word(head, class, 1));
        for _ in 0..most {
            let mut block = self.head(head, class);
            let is_dead = |at: u16| !alive.has(self.id(head, class, usize::from(at)));
            if block.end > block.first && is_dead(block.end - 1) {
                count -= u32::try_from(block.len()).unwrap_or(0);
                block.first = block.end;
            } else if block.end > block.first && is_dead(block.first) {
                count -= 1;
                block.first += 1;
                self.set_head(head, class, block);
                continue;
            } else if block.end > block.first {
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
        Some(RunPlace { head, class })
    }

    /// Empties a run of at most so many entries, oldest first; says whether it was so short.
    pub(super) fn take_all(&mut self, run: RunPlace, most: u32, mut put: impl FnMut(u64, u32)) -> bool {
        let RunPlace { head, class } = run;
        let block = self.head(head, class);
        if block.next != NONE || block.len() > most as usize {
            return false;
        }
        for at in usize::from(block.first)..usize::from(block.end) {
            put(self.word(head, class, 2 + at), self.id(head, class, at));
        }
        self.give_back(head, class);
        true
    }

    /// Moves a run that has become much smaller into a smaller block.
    pub(super) fn shrunk(&mut self, run: RunPlace) -> RunPlace {
        let held = self.head(run.head, run.class);
        let fits = |class: &u8| held.len() * 4 <= capacity(*class) * 3;
        match (0..run.class).find(fits) {
            Some(class) if held.next == NONE => self.moved(run, class),
            _ => run,
        }
    }

    /// Returns how many entries a run holds, those that have expired since its home line was last written included.
    pub(super) fn len(&self, run: RunPlace) -> u32 {
        halves(self.word(run.head, run.class, 1)).1
    }

    /// Asks the memory for the beginning of a run.
    #[inline]
    pub(super) fn prefetch_head(&self, run: RunPlace) {
        if let Some(word) = self.block(run.head, run.class).first() {
            fast::prefetch(word);
        }
    }

    /// Asks the memory for the first lines of a run.
    #[inline]
    pub(super) fn prefetch(&self, run: RunPlace) {
        for line in self.block(run.head, run.class).chunks(UNIT).take(8) {
            if let Some(word) = line.first() {
                fast::prefetch(word);
            }
        }
    }

    /// Shows every entry that lives and differs from `code` in at most `reach` bits.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a job's inner loop")]
    pub(super) fn near<C: Compare>(
        &self,
        run: RunPlace,
        code: u64,
        reach: u32,
        alive: Alive,
        visit: &mut impl FnMut(u32, u64),
    ) {
        let RunPlace { head: mut at, class } = run;
        loop {
            let block = self.block(at, class);
            let Some((&first, _)) = block.split_first() else { return };
            let head = Head::of(first);
            if let Some(word) = self.block(head.next, class).first().filter(|_| head.next != NONE) {
                fast::prefetch(word);
            }
            let codes = block.get(2 + usize::from(head.first)..2 + usize::from(head.end)).unwrap_or(&[]);
            let mut show = |place: usize, held: u64| {
                let id = self.id(at, class, usize::from(head.first) + place);
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
            if head.next == NONE {
                return;
            }
            at = head.next;
        }
    }

    /// Returns the memory of all slabs, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.words.capacity() * size_of::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fast::{Engine, Job};
    use super::*;

    struct All<'a>(&'a Runs, RunPlace, Alive);
    impl Job for All<'_> {
        type Output = Vec<(u32, u64)>;
        fn run<C: Compare>(self) -> Self::Output {
            let mut all = Vec::new();
            self.0.near::<C>(self.1, 0, 64, self.2, &mut |id, code| all.push((id, code)));
            all
        }
    }

    #[test]
    fn a_run_is_a_queue_of_any_length() {
        for window in [1_u32, 3, 4, 5, 40, 700, 1_364, 1_365, 9_000] {
            let mut runs = Runs::new();
            let mut run: Option<RunPlace> = None;
            let mut bytes = [0, 0];
            for id in 0..30_000_u32 {
                let tail = id.saturating_sub(window);
                let alive = Alive { tail, live: id - tail };
                run = run.and_then(|run| runs.drop_expired(run, alive, 64));
                let code = u64::from(id) * 7;
                run = Some(match run {
                    Some(run) => runs.append(run, code, id),
                    None => runs.begin(code, id),
                });
                if id % 997 == 0 || id < 50 {
                    let alive = Alive { tail, live: id - tail + 1 };
                    let expected: Vec<(u32, u64)> = (tail..=id).map(|id| (id, u64::from(id) * 7)).collect();
                    assert_eq!(Engine::PORTABLE.run(All(&runs, run.unwrap(), alive)), expected);
                    assert!(runs.len(run.unwrap()) as usize >= expected.len());
                }
                bytes[usize::from(id > 20_000)] = runs.memory_bytes();
            }
            assert_eq!(bytes[0], bytes[1], "window {window}");
            let last = Alive { tail: 30_000 - 2, live: 2 };
            let mut run = run.unwrap();
            for _ in 0..200 {
                run = runs.drop_expired(run, last, 64).unwrap();
            }
            run = runs.shrunk(run);
            assert_eq!(Engine::PORTABLE.run(All(&runs, run, last)).len(), 2.min(window as usize + 1));
            assert_eq!(runs.drop_expired(run, Alive { tail: 30_000, live: 0 }, 64), None);
            assert_eq!(runs.blocks_bytes, 0, "blocks were lost");
        }
    }
}
