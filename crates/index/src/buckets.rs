//! The buckets of a table, one cache line each. `layout` defines what a bucket holds.
//!
//! Memory comes in large pages wherever it fills some: a random read then misses only the cache and not the page table
//! as well. A table of many lines has large pages of its own. Small tables that are probed together share a [`Slab`].

use bytes::BytesMut;

use crate::simd::{self, LARGE_PAGE, LINE, Line};

/// From this many lines on, a table has large pages of its own.
const LARGE: usize = LARGE_PAGE / LINE;

/// The most bytes for which a slab is made. They are freed when the last table of the slab is replaced.
const SLAB: usize = 4 * LARGE_PAGE;

/// How many bytes are given back to the system at once.
const PIECE: usize = 32 << 20;

/// An empty line, returned for lines that do not exist.
const NOWHERE: Line = [0; LINE];

/// All lines of a table. The number is fixed; a table grows by being rebuilt.
#[derive(Debug)]
pub(crate) struct Buckets {
    bytes: BytesMut,
    /// Byte at which the first line begins, so that each line is one cache line.
    start: usize,
    count: u64,
}

/// Lines that are being given back to the system.
#[derive(Debug)]
pub(crate) struct Discarded(BytesMut);

/// How many lines a table is to have, and how many tables are to have about as many, itself included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) lines: u64,
    pub(crate) tables: usize,
}

/// What is left of large pages that small tables of about one size share, so that they are replaced, and the pages
/// freed, at about the same time.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    rest: BytesMut,
    /// Lines of the first table.
    lines: u64,
    /// How many tables it is still for.
    tables: usize,
}

impl Discarded {
    /// Gives a piece back; returns whether the rest is small enough to be dropped.
    pub(crate) fn step(&mut self) -> bool {
        let left = self.0.len().saturating_sub(PIECE);
        if left > 0 {
            simd::give_back(self.0.get_mut(left..).unwrap_or_default());
            self.0.truncate(left);
        }
        left == 0
    }
}

impl Demand {
    /// Returns whether the lines are to stand on large pages, which the system may be slow to provide.
    pub(crate) fn fills_large_pages(self) -> bool {
        size_of_lines(self.lines).saturating_mul(self.tables) >= LARGE_PAGE
    }

    /// Allocates the lines of the table. Returns what is left for the others.
    pub(crate) fn allocate(self) -> (Buckets, Slab) {
        let mut slab = Slab::new(self);
        let lines = slab.cut(self.lines).unwrap_or_else(|| Buckets::with_room(self.lines));
        (lines, slab)
    }

    /// Like [`Demand::allocate`], and has the system provide the large pages now.
    pub(crate) fn allocate_touched(self) -> (Buckets, Slab) {
        let (mut lines, mut slab) = self.allocate();
        let start = lines.start;
        touch_all(lines.bytes.get_mut(start..).unwrap_or_default());
        // Not the room for tables that have grown.
        let expected = size_of_lines(slab.lines) * slab.tables;
        touch_all(slab.rest.get_mut(..expected).unwrap_or_default());
        (lines, slab)
    }
}

/// Returns whether one slab can hold tables of these numbers of lines.
pub(crate) const fn are_alike(lines: u64, others: u64) -> bool {
    // Tables grow one after the other, and the later ones for some more entries.
    lines.saturating_mul(2) <= others.saturating_mul(3) && others.saturating_mul(2) <= lines.saturating_mul(3)
}

/// Returns this many zeros and some more, and where among them the first aligned byte is.
fn zeroed(bytes: usize, alignment: usize) -> (BytesMut, usize) {
    // The system zeroes a page when it is first touched, so this takes no time.
    let all = BytesMut::zeroed(bytes + alignment);
    let start = all.as_ptr().align_offset(alignment).min(alignment);
    (all, start)
}

fn size_of_lines(lines: u64) -> usize {
    usize::try_from(lines).unwrap_or(usize::MAX).saturating_mul(LINE)
}

fn touch(byte: &mut u8) {
    *byte = std::hint::black_box(*byte);
}

fn touch_all(bytes: &mut [u8]) {
    bytes.iter_mut().step_by(LARGE_PAGE).for_each(touch);
}

impl Slab {
    /// Creates a slab for these tables, or for the first of them; without room if a table has large pages of its own, or
    /// if all of them together do not fill one.
    fn new(demand: Demand) -> Self {
        let Demand { lines, tables } = demand;
        if lines >= LARGE as u64 || !demand.fills_large_pages() {
            return Self::default();
        }
        let size = size_of_lines(lines);
        let tables = tables.min(SLAB / size);
        let bytes = size * tables;
        // Room for tables that have grown takes no memory until it is used. Nor does the end, on small pages.
        let (mut all, start) = zeroed(bytes + bytes / 4, LARGE_PAGE);
        let mut rest = all.split_off(start);
        rest.get_mut(..bytes).into_iter().for_each(simd::use_large_pages);
        Self { rest, lines, tables }
    }

    /// Cuts off the lines of a table, if there is room for them and the tables of the slab are of about this size.
    pub(crate) fn cut(&mut self, lines: u64) -> Option<Buckets> {
        let size = size_of_lines(lines);
        if self.tables == 0 || !are_alike(lines, self.lines) || size > self.rest.len() {
            return None;
        }
        self.tables -= 1;
        Some(Buckets { bytes: self.rest.split_to(size), start: 0, count: lines })
    }
}

impl Buckets {
    /// Creates this many lines of zeros, at least one.
    pub(crate) fn with_room(lines: u64) -> Self {
        let count = usize::try_from(lines.max(1)).unwrap_or(usize::MAX);
        let alignment = if count >= LARGE { LARGE_PAGE } else { LINE };
        let (mut bytes, start) = zeroed(count * LINE, alignment);
        if alignment == LARGE_PAGE {
            simd::use_large_pages(&mut bytes);
        }
        Self { bytes, start, count: count as u64 }
    }

    /// Touches the large page of this number, so that the system allocates it now; returns whether there is one.
    ///
    /// Random lines of a fresh table lie in pages that were never touched; allocating a few of them at once would be a
    /// pause.
    pub(crate) fn touch(&mut self, page: usize) -> bool {
        let byte = self.bytes.get_mut(page * LARGE_PAGE + self.start);
        byte.map(touch).is_some()
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
        size_of_lines(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes to the first, a middle and the last line and reads them again.
    fn assert_usable(lines: &mut Buckets) {
        let count = lines.count();
        for number in [0, count / 2, count - 1] {
            assert_eq!(std::ptr::from_ref(lines.line(number)).addr() % 64, 0);
            lines.line_mut(number).unwrap()[..8].copy_from_slice(&(number + 1).to_le_bytes());
        }
        assert_eq!(lines.line(count - 1)[..8], count.to_le_bytes());
        assert!(lines.line_mut(count + (1 << 20)).is_none());
    }

    #[test]
    fn lines_are_cache_lines_of_their_own() {
        for count in [1, 7, 40_000, 600_003] {
            let mut lines = Buckets::with_room(count);
            assert_usable(&mut lines);
            let mut discarded = lines.discard();
            let steps = (0..99).take_while(|_| !discarded.step()).count();
            assert_eq!(steps as u64, (count * 64 + 63) / PIECE as u64, "one piece at a time");
        }
    }

    fn cut_or_allocate(slab: &mut Slab, lines: u64, tables: usize) -> Buckets {
        slab.cut(lines).unwrap_or_else(|| {
            let (lines, rest) = Demand { lines, tables }.allocate_touched();
            *slab = rest;
            lines
        })
    }

    /// Returns how many of these do not follow on the memory of the one before.
    fn beginnings(tables: &[Buckets]) -> usize {
        let follows = |two: &[Buckets]| two[0].bytes.as_ptr_range().end == two[1].bytes.as_ptr();
        1 + tables.windows(2).filter(|two| !follows(two)).count()
    }

    #[test]
    fn small_tables_of_about_one_size_share_large_pages() {
        let mut slab = Slab::default();
        let mut tables: Vec<Buckets> = (0..40).map(|more| cut_or_allocate(&mut slab, 5_000 + more * 40, 40)).collect();
        assert_eq!(beginnings(&tables), 2, "a slab has room for about 23 of them");
        assert!(tables[0].bytes.as_ptr().addr().is_multiple_of(LARGE_PAGE));
        tables.iter_mut().for_each(assert_usable);
        for (lines, number) in tables.iter_mut().zip(0_u8..) {
            lines.bytes.fill(number);
        }
        for (lines, number) in tables.iter().zip(0_u8..) {
            assert!(lines.bytes.iter().all(|byte| *byte == number), "{number}");
        }
    }

    #[test]
    fn a_slab_is_for_as_many_tables_as_follow() {
        let mut slab = Slab::default();
        let tables = [30_000; 6].map(|lines| cut_or_allocate(&mut slab, lines, 6));
        assert_eq!(beginnings(&tables), 2, "four of them fill three large pages and most of a fourth");
        for tables in [2, 3, 4] {
            let (_, mut slab) = Demand { lines: 30_000, tables }.allocate();
            (1..tables).for_each(|_| assert!(slab.cut(30_000).is_some()));
            assert!(slab.cut(30_000).is_none(), "{tables} tables");
        }
    }

    #[test]
    fn tables_of_another_size_begin_another_slab() {
        let mut slab = Slab::default();
        let tables = [5_000, 5_100, 10_000, 10_200, 3_000, 3_000].map(|lines| cut_or_allocate(&mut slab, lines, 20));
        assert_eq!(beginnings(&tables), 3);
        assert!(tables.iter().all(|lines| lines.start == 0));
        // Too few lines for a large page, or enough for their own.
        for (lines, count) in [(1, 20), (100, 20), (5_000, 2), (LARGE as u64, 20)] {
            for allocate in [Demand::allocate, Demand::allocate_touched] {
                let (mut alone, slab) = allocate(Demand { lines, tables: count });
                assert!(slab.rest.is_empty(), "{lines} lines in {count} tables");
                assert_usable(&mut alone);
            }
        }
    }
}
