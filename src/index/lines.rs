//! The home lines of a table: one cache line for each small group of keys.
//!
//! A line has nine slots of 24 bits of tag and an id of 32 bits, and one byte that says whether entries that found no
//! slot stand in a run (`runs`). With a run the ninth slot gives way to the run's place.
//!
//! ```text
//! words 0 to 8         ids; with a run, word 8 is its place
//! words 9 to 15        tags of slots 0 to 6 in the lower three bytes
//! upper bytes of 9-11  tag of slot 7
//! upper bytes of 12-14 tag of slot 8; unused with a run
//! upper byte of 15     0, or 1 + size class of the run
//! ```

use super::fast::{self, LARGE_PAGE, LINE_WORDS, Line};

/// Slots of a line without a run.
pub(super) const SLOTS: u32 = 9;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 24;

/// Fewest lines for which large pages are asked.
const LARGE: usize = 1 << 15;

/// Words that are given back to the system at once: 32 MiB.
const PIECE: usize = 8 << 20;

/// A line in which nothing ever stood, for places that do not exist.
const NOWHERE: Line = [0; LINE_WORDS];

/// All lines of a table. The number is fixed; a table grows by being built anew.
#[derive(Debug)]
pub(super) struct Lines {
    words: Vec<u32>,
    /// Word at which the first line begins, so that lines are cache lines.
    start: usize,
    count: u64,
}

/// Lines that are being given back to the system.
#[derive(Debug)]
pub(super) struct Discarded(Vec<u32>);

impl Discarded {
    /// Gives a piece back; says whether that was all.
    pub(super) fn step(&mut self) -> bool {
        // From the end, where an allocator that maps large vectors lets go of pages without a copy.
        self.0.truncate(self.0.len().saturating_sub(PIECE));
        self.0.shrink_to_fit();
        self.0.is_empty()
    }
}

impl Lines {
    /// Makes so many lines of zeros, at least one.
    pub(super) fn with_room(lines: u64) -> Self {
        let count = usize::try_from(lines.max(1)).unwrap_or(usize::MAX);
        let alignment = if count >= LARGE { LARGE_PAGE } else { LINE_WORDS * size_of::<u32>() };
        // Zeroed by the system when a page is first touched, so that this takes no time.
        let mut words = vec![0; count * LINE_WORDS + alignment / size_of::<u32>()];
        if count >= LARGE {
            fast::use_large_pages(&mut words);
        }
        let start = words.as_ptr().align_offset(alignment).min(alignment / size_of::<u32>());
        Self { words, start, count: count as u64 }
    }

    /// Returns how many lines there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    fn at(&self, number: u64) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX).wrapping_mul(LINE_WORDS).wrapping_add(self.start)
    }

    /// Returns a line; one of zeros when there is none of this number.
    #[inline]
    pub(super) fn line(&self, number: u64) -> &Line {
        self.words.get(self.at(number)..).and_then(<[u32]>::first_chunk).unwrap_or(&NOWHERE)
    }

    /// Gives access to a line.
    #[inline]
    pub(super) fn line_mut(&mut self, number: u64) -> Option<&mut Line> {
        let at = self.at(number);
        self.words.get_mut(at..).and_then(<[u32]>::first_chunk_mut)
    }

    /// Makes the lines ready to be given back piece by piece.
    pub(super) fn discard(self) -> Discarded {
        Discarded(self.words)
    }

    /// Returns the memory of the lines, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(size_of::<Line>())
    }
}

/// Where the overflow of a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunPlace {
    /// First block.
    pub(super) head: u32,
    /// Size class of the blocks.
    pub(super) class: u8,
}

/// Says where the run of a line stands, if it has one.
#[inline]
pub(super) fn run_of(line: &Line) -> Option<RunPlace> {
    let &[_, _, _, _, _, _, _, _, head, .., last] = line;
    let class = u8::try_from(last >> 24).unwrap_or(0);
    class.checked_sub(1).map(|class| RunPlace { head, class })
}

/// Returns one bit for each slot that the line has.
#[inline]
pub(super) fn slots_of(line: &Line) -> u32 {
    if run_of(line).is_some() { (1 << (SLOTS - 1)) - 1 } else { (1 << SLOTS) - 1 }
}

/// Gives a line a run, or takes it away; the ninth slot goes or comes back with this id.
pub(super) fn set_run(line: &mut Line, run: Option<RunPlace>, dead: u32) {
    let [_, _, _, _, _, _, _, _, ninth, .., last] = line;
    *ninth = run.map_or(dead, |run| run.head);
    *last = (*last & 0x00FF_FFFF) | run.map_or(0, |run| u32::from(run.class + 1) << 24);
}

/// Writes an entry into a slot.
#[inline]
pub(super) fn set_slot(line: &mut Line, slot: u32, tag: u32, id: u32) {
    let put = |word: Option<&mut u32>, byte: u32| {
        if let Some(word) = word {
            *word = (*word & 0x00FF_FFFF) | (byte & 0xFF) << 24;
        }
    };
    let at = slot as usize;
    if let Some(held) = line.get_mut(at) {
        *held = id;
    }
    if at < 7 {
        if let Some(word) = line.get_mut(9 + at) {
            *word = (*word & 0xFF00_0000) | tag;
        }
    } else {
        let first = if at == 7 { 9 } else { 12 };
        put(line.get_mut(first), tag);
        put(line.get_mut(first + 1), tag >> 8);
        put(line.get_mut(first + 2), tag >> 16);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fast::tags;
    use super::*;

    #[test]
    fn slots_and_runs_do_not_touch_each_other() {
        let mut line = [0; LINE_WORDS];
        for slot in 0..SLOTS {
            set_slot(&mut line, slot, 0x00AB_CDE0 + slot, 100 + slot);
        }
        assert_eq!(tags(&line), std::array::from_fn(|slot| 0x00AB_CDE0 + u32::try_from(slot).unwrap()));
        assert_eq!(line[..9], std::array::from_fn::<u32, 9, _>(|slot| 100 + u32::try_from(slot).unwrap()));
        assert_eq!((run_of(&line), slots_of(&line)), (None, 0x1FF));
        let run = RunPlace { head: 77, class: 4 };
        set_run(&mut line, Some(run), 0);
        assert_eq!((run_of(&line), slots_of(&line)), (Some(run), 0xFF));
        set_slot(&mut line, 7, 0, 1);
        assert_eq!(run_of(&line), Some(run));
        assert_eq!(
            tags(&line)[..7],
            std::array::from_fn::<u32, 7, _>(|slot| 0x00AB_CDE0 + u32::try_from(slot).unwrap())
        );
        set_run(&mut line, None, 5);
        assert_eq!((run_of(&line), line[8]), (None, 5));
    }

    #[test]
    fn lines_are_cache_lines_of_their_own() {
        for count in [1, 7, 40_000, 600_003] {
            let mut lines = Lines::with_room(count);
            for number in [0, count / 2, count - 1] {
                assert_eq!(std::ptr::from_ref(lines.line(number)).addr() % 64, 0);
                lines.line_mut(number).unwrap()[3] = u32::try_from(number + 1).unwrap();
            }
            assert_eq!(lines.line(count - 1)[3], u32::try_from(count).unwrap());
            assert!(lines.line_mut(count + (1 << 20)).is_none());
            let mut discarded = lines.discard();
            let steps = (0..).take_while(|_| !discarded.step()).count();
            assert_eq!(steps as u64, (count * 16 + 15) / PIECE as u64, "one piece at a time");
        }
    }
}
