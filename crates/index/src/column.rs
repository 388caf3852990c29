//! The columns of a ring log: appended at one end, dropped at the other, read by position.
//!
//! Values are kept in chunks. Appending copies only a chunk that is full, and an expired chunk is used again. A copy of
//! a column ([`Column::share`]) shares the full chunks: it costs one pointer for each chunk, and later changes to one
//! of them do not show in the other.
//!
//! [`Ranks`] says which positions a sparse column has values for, and the number of each value there: a bitmap of the
//! positions with a count before each word (Jacobson, FOCS 1989): a look-up reads one word, where a binary search would
//! read a dozen values. It takes a quarter of a byte for each position of the ring.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::simd::{self, LINE};

/// Positions of a chunk, as a power of two.
const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Consecutive chunks, each with the values of equally many positions. A position may have several values, always the
/// same number.
#[derive(Debug)]
struct Chunks<T> {
    /// Full chunks, oldest first.
    full: VecDeque<Arc<[T]>>,
    /// The newest chunk, which may be full, too.
    newest: Vec<T>,
    /// First position of the first chunk, whose values may have been dropped already.
    first: u64,
    spare: Option<Arc<[T]>>,
}

impl<T: Copy> Chunks<T> {
    const fn starting_at(position: u64) -> Self {
        Self { full: VecDeque::new(), newest: Vec::new(), first: position, spare: None }
    }

    /// Returns a copy that shares the full chunks.
    fn share(&self) -> Self {
        Self { full: self.full.clone(), newest: self.newest.clone(), first: self.first, spare: None }
    }

    /// Returns the chunk that has space for one more position of this many values.
    #[inline]
    fn reserve(&mut self, values: usize) -> &mut Vec<T> {
        if self.newest.len() >= values * CHUNK {
            self.start_chunk(values * CHUNK);
        }
        &mut self.newest
    }

    /// Moves the newest chunk to the full ones and begins another.
    fn start_chunk(&mut self, values: usize) {
        let mut spare = self.spare.take();
        let chunk = match spare.as_mut().and_then(Arc::get_mut).filter(|spare| spare.len() == self.newest.len()) {
            Some(free) => {
                free.copy_from_slice(&self.newest);
                spare
            }
            // There is no spare chunk, or it is still shared.
            None => None,
        };
        self.full.push_back(chunk.unwrap_or_else(|| Arc::from(self.newest.as_slice())));
        self.newest.clear();
        self.newest.shrink_to(values);
    }

    /// Returns where a position is: the number of its chunk, and its index there.
    #[inline]
    fn place(&self, position: u64) -> Option<(usize, usize)> {
        let at = usize::try_from(position.checked_sub(self.first)?).ok()?;
        Some((at >> CHUNK_BITS, at & (CHUNK - 1)))
    }

    /// Returns the values of a chunk.
    #[inline]
    fn chunk(&self, number: usize) -> Option<&[T]> {
        match self.full.get(number) {
            Some(chunk) => Some(chunk),
            None => (number == self.full.len()).then_some(self.newest.as_slice()),
        }
    }

    /// Gives access to the values of a chunk; a shared one is copied first.
    fn chunk_mut(&mut self, number: usize) -> Option<&mut [T]> {
        let newest = self.full.len();
        match self.full.get_mut(number) {
            Some(chunk) => Some(Arc::make_mut(chunk)),
            None => (number == newest).then_some(self.newest.as_mut_slice()),
        }
    }

    /// Returns the values of all chunks.
    fn iter(&self) -> impl Iterator<Item = &[T]> {
        self.full.iter().map(|chunk| &**chunk).chain(std::iter::once(self.newest.as_slice()))
    }

    /// Drops what is before a position, chunk by chunk.
    #[inline]
    fn drop_before(&mut self, position: u64) {
        while self.first + CHUNK as u64 <= position {
            if let Some(chunk) = self.full.pop_front() {
                self.spare.get_or_insert(chunk);
            } else if self.newest.is_empty() {
                // Nothing is held: the next value has this position.
                self.first = position;
                return;
            } else {
                self.newest.clear();
            }
            self.first += CHUNK as u64;
        }
    }

    /// Returns the memory reserved, in bytes.
    fn memory_bytes(&self) -> usize {
        let full: usize = self.full.iter().chain(&self.spare).map(|chunk| chunk.len()).sum();
        (full + self.newest.capacity()) * size_of::<T>() + self.full.capacity() * size_of::<Arc<[T]>>()
    }
}

/// One value at each of consecutive positions.
#[derive(Debug)]
pub struct Column<T>(Chunks<T>);

impl<T: Copy> Column<T> {
    /// Creates an empty column whose first value will have this position.
    #[must_use]
    pub const fn starting_at(position: u64) -> Self {
        Self(Chunks::starting_at(position))
    }

    /// Returns a copy that shares the full chunks.
    #[must_use]
    pub fn share(&self) -> Self {
        Self(self.0.share())
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.0.reserve(1).push(value);
    }

    /// Prefetches the value at a position.
    #[inline]
    pub fn prefetch(&self, position: u64) {
        let held = self.0.place(position).and_then(|(chunk, at)| self.0.chunk(chunk)?.get(at));
        held.into_iter().for_each(simd::prefetch);
    }

    /// Returns the value at a position, unless that lies beyond the end or was dropped.
    #[inline]
    #[must_use]
    pub fn get(&self, position: u64) -> Option<T> {
        let (chunk, at) = self.0.place(position)?;
        self.0.chunk(chunk)?.get(at).copied()
    }

    /// Returns the values at these positions, if they are all in one chunk.
    #[inline]
    #[must_use]
    pub fn consecutive(&self, positions: Range<u64>) -> Option<&[T]> {
        let length = usize::try_from(positions.end.checked_sub(positions.start)?).ok()?;
        let (chunk, at) = self.0.place(positions.start)?;
        self.0.chunk(chunk)?.get(at..at + length)
    }

    /// Gives access to the value at a position. Its chunk is copied first while it is shared.
    pub fn get_mut(&mut self, position: u64) -> Option<&mut T> {
        let (chunk, at) = self.0.place(position)?;
        self.0.chunk_mut(chunk)?.get_mut(at)
    }

    /// Gives access to the newest value.
    #[inline]
    fn last_mut(&mut self) -> Option<&mut T> {
        self.0.newest.last_mut()
    }

    /// Returns the values from a position on, piece by piece, each with the position of its first.
    pub fn pieces(&self, from: u64) -> impl Iterator<Item = (u64, &[T])> {
        let (skipped, within) = self.0.place(from).unwrap_or((0, 0));
        let first = self.0.first.saturating_add((skipped as u64) << CHUNK_BITS);
        self.0.iter().skip(skipped).enumerate().filter_map(move |(number, chunk)| {
            let start = if number == 0 { within } else { 0 };
            let position = first + ((number as u64) << CHUNK_BITS) + start as u64;
            Some((position, chunk.get(start..)?))
        })
    }

    /// Drops what precedes a position, chunk by chunk.
    pub fn drop_before(&mut self, position: u64) {
        self.0.drop_before(position);
    }

    /// Returns the memory reserved, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// One bit at each of consecutive positions.
#[derive(Debug)]
pub struct BitColumn {
    words: Column<u64>,
    head: u64,
}

impl BitColumn {
    /// Creates an empty column whose first mark will have this position.
    #[must_use]
    pub fn starting_at(position: u64) -> Self {
        Self { words: Column::starting_at(position / 64), head: position }
    }

    /// Returns a copy that shares the full chunks.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { words: self.words.share(), head: self.head }
    }

    /// Appends a mark.
    #[inline]
    pub fn push(&mut self, mark: bool) {
        let bit = u64::from(mark) << (self.head % 64);
        match self.words.last_mut() {
            Some(word) if !self.head.is_multiple_of(64) => *word |= bit,
            _ => self.words.push(bit),
        }
        self.head += 1;
    }

    /// Returns the mark at a position; false beyond the end, or if it was dropped.
    #[inline]
    #[must_use]
    pub fn get(&self, position: u64) -> bool {
        self.words.get(position / 64).is_some_and(|word| (word >> (position % 64)) & 1 == 1)
    }

    /// Clears the mark at a position. Its chunk is copied first while it is shared.
    pub fn clear(&mut self, position: u64) {
        if let Some(word) = self.words.get_mut(position / 64) {
            *word &= !(1 << (position % 64));
        }
    }

    /// Counts the marks at some positions.
    #[must_use]
    pub fn count(&self, positions: Range<u64>) -> u64 {
        let mut count = 0;
        let mut at = positions.start;
        while at < positions.end {
            let word = self.words.get(at / 64).unwrap_or(0) >> (at % 64);
            let here = (64 - at % 64).min(positions.end - at);
            let word = if here == 64 { word } else { word & ((1 << here) - 1) };
            count += u64::from(word.count_ones());
            at += here;
        }
        count
    }

    /// Drops what precedes a position, chunk by chunk.
    pub fn drop_before(&mut self, position: u64) {
        self.words.drop_before(position / 64);
    }

    /// Returns the memory reserved, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.memory_bytes()
    }
}

/// Bytes of equal length at consecutive positions.
#[derive(Debug)]
pub struct Rows {
    width: usize,
    bytes: Chunks<u8>,
}

impl Rows {
    /// Creates empty rows of this many bytes; the first will have this position. Rows of no bytes are not stored at
    /// all.
    #[must_use]
    pub const fn starting_at(width: usize, position: u64) -> Self {
        Self { width, bytes: Chunks::starting_at(position) }
    }

    /// Returns a copy that shares the full chunks.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { width: self.width, bytes: self.bytes.share() }
    }

    /// Returns the number of bytes in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Appends a row. A shorter one is filled up with zeros, a longer one is cut.
    pub fn push(&mut self, row: &[u8]) {
        if self.width == 0 {
            return;
        }
        let chunk = self.bytes.reserve(self.width);
        let end = chunk.len() + self.width;
        chunk.extend(row.iter().take(self.width));
        chunk.resize(end, 0);
    }

    /// Prefetches the row at a position.
    #[inline]
    pub fn prefetch(&self, position: u64) {
        let lines = self.get(position).into_iter().flat_map(|row| row.chunks(LINE));
        lines.filter_map(<[u8]>::first).for_each(simd::prefetch);
    }

    /// Returns the row at a position, unless that lies beyond the end or was dropped.
    #[inline]
    #[must_use]
    pub fn get(&self, position: u64) -> Option<&[u8]> {
        let (chunk, at) = self.bytes.place(position)?;
        let start = at * self.width;
        self.bytes.chunk(chunk)?.get(start..start + self.width)
    }

    /// Returns the rows at these positions, one after the other, if they are all in one chunk.
    #[inline]
    #[must_use]
    pub fn consecutive(&self, positions: Range<u64>) -> Option<&[u8]> {
        let length = usize::try_from(positions.end.checked_sub(positions.start)?).ok()?;
        let (chunk, at) = self.bytes.place(positions.start)?;
        self.bytes.chunk(chunk)?.get(at * self.width..(at + length) * self.width)
    }

    /// Drops what precedes a position, chunk by chunk.
    pub fn drop_before(&mut self, position: u64) {
        self.bytes.drop_before(position);
    }

    /// Returns the memory reserved, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes()
    }
}

const BITS: u64 = u64::BITS as u64;

/// The positions that were added, numbered from 0 in that order.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// Number of the first word: the positions of word n are those from n times [`BITS`] on.
    first: u64,
    words: VecDeque<Word>,
    added: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Positions that were added before those of this word.
    before: u64,
    bits: u64,
}

impl Ranks {
    /// Creates it without positions.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: 0, words: VecDeque::new(), added: 0 }
    }

    /// Adds a position, which must come after all that were added before.
    pub fn push(&mut self, position: u64) {
        let number = position / BITS;
        if self.words.is_empty() {
            self.first = number;
        }
        while self.first + (self.words.len() as u64) <= number {
            self.words.push_back(Word { before: self.added, bits: 0 });
        }
        if let Some(word) = self.words.back_mut() {
            word.bits |= 1 << (position % BITS);
        }
        self.added += 1;
    }

    /// Returns the number of a position that was added. Dropped positions may still have theirs.
    #[inline]
    #[must_use]
    pub fn of(&self, position: u64) -> Option<u64> {
        let at = (position / BITS).checked_sub(self.first)?;
        let word = self.words.get(usize::try_from(at).ok()?)?;
        let bit = 1 << (position % BITS);
        (word.bits & bit != 0).then(|| word.before + u64::from((word.bits & (bit - 1)).count_ones()))
    }

    /// Returns how many positions were added.
    #[must_use]
    pub const fn added(&self) -> u64 {
        self.added
    }

    /// Drops the words that lie entirely before a position.
    pub fn drop_before(&mut self, position: u64) {
        while self.first < position / BITS && self.words.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Returns the memory reserved, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<Word>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_column_is_a_list_that_forgets_its_beginning() {
        for start in [0, 5, u64::from(u32::MAX) - 3] {
            let mut column = Column::starting_at(start);
            for value in 0..20_000_u64 {
                column.push(value);
                column.drop_before(start + value.saturating_sub(6_000));
                assert_eq!(column.get(start + value), Some(value));
                assert_eq!(column.get(start + value + 1), None);
                let oldest = value.saturating_sub(6_000);
                assert_eq!(column.get(start + oldest), Some(oldest));
            }
            for from in (14_000..20_000_u64).step_by(500) {
                let expected: Vec<u64> = (from..from + 500).collect();
                let is_in_one_chunk = from / CHUNK as u64 == (from + 499) / CHUNK as u64;
                let consecutive = column.consecutive(start + from..start + from + 500);
                assert_eq!(consecutive, is_in_one_chunk.then_some(expected.as_slice()), "{from}");
            }
            assert_eq!(column.consecutive(start + 19_999..start + 20_001), None, "beyond the end");
            let pieces: Vec<u64> = column.pieces(start + 14_000).flat_map(|(_, piece)| piece.to_vec()).collect();
            assert_eq!(pieces, (14_000..20_000).collect::<Vec<_>>());
            for (position, piece) in column.pieces(start + 14_500) {
                assert_eq!(piece[0], position - start);
            }
            assert!(column.memory_bytes() < 4 * 8 * CHUNK);
        }
    }

    #[test]
    fn marks_and_rows_are_lists_that_forget_their_beginning() {
        for start in [0, 5, u64::from(u32::MAX) - 3] {
            let (mut marks, mut rows) = (BitColumn::starting_at(start), Rows::starting_at(3, start));
            let is_marked = |value: u64| value % 7 < 2;
            for value in 0..20_000_u64 {
                marks.push(is_marked(value));
                rows.push(&value.to_be_bytes()[5..]);
                let oldest = value.saturating_sub(6_000);
                marks.drop_before(start + oldest);
                rows.drop_before(start + oldest);
                for value in [oldest, value] {
                    assert_eq!(marks.get(start + value), is_marked(value));
                    assert_eq!(rows.get(start + value), Some(&value.to_be_bytes()[5..]));
                }
                assert_eq!(rows.get(start + value + 1), None);
                let two = start + value.saturating_sub(1)..start + value + 1;
                let each: Vec<u8> = two.clone().filter_map(|at| rows.get(at)).flatten().copied().collect();
                let is_in_one_chunk = !value.is_multiple_of(CHUNK as u64) || value == 0;
                assert_eq!(rows.consecutive(two), is_in_one_chunk.then_some(each.as_slice()), "{value}");
                if value % 997 == 0 {
                    let expected = (oldest..=value).filter(|value| is_marked(*value)).count() as u64;
                    assert_eq!(marks.count(start + oldest..start + value + 1), expected);
                }
            }
            assert!(rows.memory_bytes() < 4 * 3 * CHUNK && marks.memory_bytes() < 2 * 8 * CHUNK);
        }
        let mut rows = Rows::starting_at(2, 0);
        rows.push(&[1]);
        rows.push(&[1, 2, 3]);
        rows.push(&[]);
        assert_eq!([0, 1, 2].map(|at| rows.get(at).unwrap()), [[1, 0], [1, 2], [0, 0]]);
    }

    #[test]
    fn an_emptied_column_goes_on_where_it_stood() {
        let mut column = Column::starting_at(0);
        (0..CHUNK as u64).for_each(|value| column.push(value));
        column.drop_before(CHUNK as u64);
        column.push(7);
        assert_eq!(column.get(CHUNK as u64), Some(7));
    }
    #[test]
    fn a_shared_copy_stays_as_it_was() {
        let mut column = Column::starting_at(3);
        (0..10_000_u64).for_each(|value| column.push(value));
        let mut copy = column.share();
        *column.get_mut(3 + 5).unwrap() = 77;
        *column.get_mut(3 + 9_990).unwrap() = 78;
        (10_000..30_000).for_each(|value| column.push(value));
        column.drop_before(20_000);
        (30_000..40_000).for_each(|value| column.push(value));
        for value in 0..10_000 {
            assert_eq!(copy.get(3 + value), Some(value));
        }
        assert_eq!(copy.get(3 + 10_000), None);
        // What the copy lets go is let go.
        let held = Arc::downgrade(copy.0.full.front().unwrap());
        copy.drop_before(3 + 2 * CHUNK as u64);
        copy.0.spare = None;
        assert_eq!(held.strong_count(), 0);
        assert_eq!(
            (3 + 30_000..3 + 40_000).map(|at| column.get(at).unwrap()).sum::<u64>(),
            (30_000..40_000).sum::<u64>()
        );
    }

    #[test]
    fn sharing_copies_the_newest_chunk_alone() {
        let (mut column, mut marks, mut rows) =
            (Column::starting_at(0), BitColumn::starting_at(0), Rows::starting_at(5, 0));
        for value in 0..600_000_u64 {
            column.push(value);
            marks.push(true);
            rows.push(&[1; 5]);
        }
        let (columns, marked, rowed) = (column.share(), marks.share(), rows.share());
        assert!(std::ptr::eq(columns.0.chunk(9).unwrap(), column.0.chunk(9).unwrap()));
        assert!(std::ptr::eq(marked.words.0.chunk(1).unwrap(), marks.words.0.chunk(1).unwrap()));
        assert!(std::ptr::eq(rowed.bytes.chunk(9).unwrap(), rows.bytes.chunk(9).unwrap()));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_a_list(
            steps in prop::collection::vec((1..200_u64, any::<bool>(), 0..400_u64), 1..60)
        ) {
            let (mut ranks, mut list, mut next, mut dropped) = (Ranks::new(), Vec::new(), 0, 0);
            for (gap, drops, back) in steps {
                next += gap;
                ranks.push(next);
                list.push(next);
                if drops {
                    dropped = dropped.max(next.saturating_sub(back));
                    ranks.drop_before(dropped);
                }
                for position in dropped..next + 70 {
                    let expected = list.iter().position(|&held| held == position).map(|number| number as u64);
                    prop_assert_eq!(ranks.of(position), expected, "{}", position);
                }
            }
            prop_assert_eq!(ranks.added(), list.len() as u64);
        }
    }
}
