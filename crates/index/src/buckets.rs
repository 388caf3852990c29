//! The buckets of a table, one cache line each. `layout` defines what a bucket holds.

use crate::simd::{self, LARGE_PAGE, LINE, Line};

/// From this many lines on, large pages are requested.
const LARGE: usize = 1 << 15;

/// How many bytes are given back to the system at once.
const PIECE: usize = 32 << 20;

/// An empty line, returned for lines that do not exist.
const NOWHERE: Line = [0; LINE];

/// All lines of a table. The number is fixed; a table grows by being rebuilt.
#[derive(Debug)]
pub(crate) struct Buckets {
    bytes: Vec<u8>,
    /// Byte at which the first line begins, so that each line is one cache line.
    start: usize,
    count: u64,
}

/// Lines that are being given back to the system.
#[derive(Debug)]
pub(crate) struct Discarded(Vec<u8>);

impl Discarded {
    /// Gives a piece back; returns whether that was all.
    pub(crate) fn step(&mut self) -> bool {
        // Memory is released from the end, where an allocator that maps large vectors lets go of pages without a copy.
        self.0.truncate(self.0.len().saturating_sub(PIECE));
        self.0.shrink_to_fit();
        self.0.is_empty()
    }
}

/// Returns whether the lines need so much memory that the system may be slow to provide it.
pub(crate) const fn are_many(lines: u64) -> bool {
    lines >= LARGE as u64
}

impl Buckets {
    /// Creates this many lines of zeros, at least one.
    pub(crate) fn with_room(lines: u64) -> Self {
        let count = usize::try_from(lines.max(1)).unwrap_or(usize::MAX);
        let alignment = if count >= LARGE { LARGE_PAGE } else { LINE };
        // The system zeroes a page when it is first touched, so this takes no time.
        let mut bytes = vec![0; count * LINE + alignment];
        if count >= LARGE {
            simd::use_large_pages(&mut bytes);
        }
        let start = bytes.as_ptr().align_offset(alignment).min(alignment);
        Self { bytes, start, count: count as u64 }
    }

    /// Touches the large page of this number, so that the system allocates it now; returns whether there is one.
    ///
    /// Random lines of a fresh table lie in pages that were never touched; allocating a few of them at once would be a
    /// pause.
    pub(crate) fn touch(&mut self, page: usize) -> bool {
        let byte = self.bytes.get_mut(page * LARGE_PAGE + self.start);
        byte.map(|byte| *byte = std::hint::black_box(*byte)).is_some()
    }

    /// Touches all of the large pages.
    pub(crate) fn touched(mut self) -> Self {
        let mut pages = 0..;
        while pages.next().is_some_and(|page| self.touch(page)) {}
        self
    }

    /// Returns how many lines there are.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    fn at(&self, number: u64) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX).wrapping_mul(LINE).wrapping_add(self.start)
    }

    /// Returns a line, or one of zeros if there is none with this number.
    #[inline]
    pub(crate) fn line(&self, number: u64) -> &Line {
        self.bytes.get(self.at(number)..).and_then(<[u8]>::first_chunk).unwrap_or(&NOWHERE)
    }

    /// Gives access to a line.
    #[inline]
    pub(crate) fn line_mut(&mut self, number: u64) -> Option<&mut Line> {
        let at = self.at(number);
        self.bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut)
    }

    /// Prepares the lines for being given back piece by piece.
    pub(crate) fn discard(self) -> Discarded {
        Discarded(self.bytes)
    }

    /// Returns the memory of the lines, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(size_of::<Line>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cache_lines_of_their_own() {
        for count in [1, 7, 40_000, 600_003] {
            let mut lines = Buckets::with_room(count);
            for number in [0, count / 2, count - 1] {
                assert_eq!(std::ptr::from_ref(lines.line(number)).addr() % 64, 0);
                lines.line_mut(number).unwrap()[..8].copy_from_slice(&(number + 1).to_le_bytes());
            }
            assert_eq!(lines.line(count - 1)[..8], count.to_le_bytes());
            assert!(lines.line_mut(count + (1 << 20)).is_none());
            let mut discarded = lines.discard();
            let steps = (0..99).take_while(|_| !discarded.step()).count();
            assert_eq!(steps as u64, (count * 64 + 63) / PIECE as u64, "one piece at a time");
        }
    }
}
