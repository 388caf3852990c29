//! The home lines of a table: one cache line for each small group of keys.
//!
//! A line has nine slots of 24 bits of tag and an id of 32 bits, and one byte that says whether entries that found no
//! slot stand in a run (`runs`). With a run the ninth slot gives way to the run's place.
//!
//! ```text
//! bytes 0 to 35    nine ids; with a run, the ninth is its place
//! bytes 36 to 62   lower, middle and upper bytes of the nine tags, nine bytes each
//! byte 63          0, or 1 + size class of the run
//! ```

use super::fast::{self, LARGE_PAGE, LINE, Line};

/// Slots of a line without a run.
pub(super) const SLOTS: u32 = 9;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 24;

/// Fewest lines for which large pages are asked.
const LARGE: usize = 1 << 15;

/// Bytes that are given back to the system at once.
const PIECE: usize = 32 << 20;

/// A line in which nothing ever stood, for places that do not exist.
const NOWHERE: Line = [0; LINE];

/// All lines of a table. The number is fixed; a table grows by being built anew.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Byte at which the first line begins, so that lines are cache lines.
    start: usize,
    count: u64,
}

/// Lines that are being given back to the system.
#[derive(Debug)]
pub(super) struct Discarded(Vec<u8>);

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
        let alignment = if count >= LARGE { LARGE_PAGE } else { LINE };
        // Zeroed by the system when a page is first touched, so that this takes no time.
        let mut bytes = vec![0; count * LINE + alignment];
        if count >= LARGE {
            fast::use_large_pages(&mut bytes);
        }
        let start = bytes.as_ptr().align_offset(alignment).min(alignment);
        Self { bytes, start, count: count as u64 }
    }

    /// Touches the large page of this number, so that the system makes room for it now; says whether there is one.
    ///
    /// Random lines of a fresh table lie in pages that were never touched: a few of them at once would be a pause.
    pub(super) fn touch(&mut self, page: usize) -> bool {
        let byte = self.bytes.get_mut(page * LARGE_PAGE + self.start);
        byte.map(|byte| *byte = std::hint::black_box(*byte)).is_some()
    }

    /// Returns how many lines there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    fn at(&self, number: u64) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX).wrapping_mul(LINE).wrapping_add(self.start)
    }

    /// Returns a line; one of zeros when there is none of this number.
    #[inline]
    pub(super) fn line(&self, number: u64) -> &Line {
        self.bytes.get(self.at(number)..).and_then(<[u8]>::first_chunk).unwrap_or(&NOWHERE)
    }

    /// Gives access to a line.
    #[inline]
    pub(super) fn line_mut(&mut self, number: u64) -> Option<&mut Line> {
        let at = self.at(number);
        self.bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut)
    }

    /// Makes the lines ready to be given back piece by piece.
    pub(super) fn discard(self) -> Discarded {
        Discarded(self.bytes)
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

/// Returns the id in a slot.
#[inline]
pub(super) fn id_in(line: &Line, slot: u32) -> u32 {
    line.as_chunks().0.get(slot as usize).map_or(0, |id| u32::from_le_bytes(*id))
}

/// Writes an id into a slot.
#[inline]
pub(super) fn set_id(line: &mut Line, slot: u32, id: u32) {
    if let Some(held) = line.as_chunks_mut().0.get_mut(slot as usize) {
        *held = id.to_le_bytes();
    }
}

/// Says where the run of a line stands, if it has one.
#[inline]
pub(super) fn run_of(line: &Line) -> Option<RunPlace> {
    let [.., class] = line;
    class.checked_sub(1).map(|class| RunPlace { head: id_in(line, SLOTS - 1), class })
}

/// Returns one bit for each slot that the line has.
#[inline]
pub(super) fn slots_of(line: &Line) -> u32 {
    if run_of(line).is_some() { (1 << (SLOTS - 1)) - 1 } else { (1 << SLOTS) - 1 }
}

/// Gives a line a run, or takes it away; the ninth slot goes or comes back with this id.
pub(super) fn set_run(line: &mut Line, run: Option<RunPlace>, dead: u32) {
    set_id(line, SLOTS - 1, run.map_or(dead, |run| run.head));
    let [.., class] = line;
    *class = run.map_or(0, |run| run.class + 1);
}

/// Writes an entry into a slot.
#[inline]
pub(super) fn set_slot(line: &mut Line, slot: u32, tag: u32, id: u32) {
    set_id(line, slot, id);
    let (_, tags) = line.split_at_mut(size_of::<u32>() * SLOTS as usize);
    for (plane, byte) in tags.chunks_exact_mut(SLOTS as usize).zip(tag.to_le_bytes()) {
        if let Some(held) = plane.get_mut(slot as usize) {
            *held = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fast::tags;
    use super::*;

    #[test]
    fn slots_and_runs_do_not_touch_each_other() {
        let mut line = [0; LINE];
        let ids = |line: &Line| -> [u32; 9] { std::array::from_fn(|slot| id_in(line, u32::try_from(slot).unwrap())) };
        for slot in 0..SLOTS {
            set_slot(&mut line, slot, 0x00AB_CDE0 + slot, 100 + slot);
        }
        assert_eq!(tags(&line), std::array::from_fn(|slot| 0x00AB_CDE0 + u32::try_from(slot).unwrap()));
        assert_eq!(ids(&line), std::array::from_fn(|slot| 100 + u32::try_from(slot).unwrap()));
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
        assert_eq!((run_of(&line), id_in(&line, 8)), (None, 5));
    }

    #[test]
    fn lines_are_cache_lines_of_their_own() {
        for count in [1, 7, 40_000, 600_003] {
            let mut lines = Lines::with_room(count);
            for number in [0, count / 2, count - 1] {
                assert_eq!(std::ptr::from_ref(lines.line(number)).addr() % 64, 0);
                set_id(lines.line_mut(number).unwrap(), 3, u32::try_from(number + 1).unwrap());
            }
            assert_eq!(id_in(lines.line(count - 1), 3), u32::try_from(count).unwrap());
            assert!(lines.line_mut(count + (1 << 20)).is_none());
            let mut discarded = lines.discard();
            let steps = (0..99).take_while(|_| !discarded.step()).count();
            assert_eq!(steps as u64, (count * 64 + 63) / PIECE as u64, "one piece at a time");
        }
    }
}
