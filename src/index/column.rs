//! One column of a ring log: appended at one end, dropped at the other, read by position.
//!
//! Values stand in chunks, so that growing copies nothing and a chunk that has expired serves again.

use std::collections::VecDeque;
use std::ops::Range;

/// Values in a chunk, as a power of two.
const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Values at consecutive positions.
#[derive(Clone, Debug)]
pub(super) struct Column<T> {
    chunks: VecDeque<Vec<T>>,
    /// Position of the first value of the first chunk, which may have been dropped already.
    first: u64,
    spare: Option<Vec<T>>,
}

impl<T: Copy> Column<T> {
    /// Makes an empty column whose first value will have this position.
    pub(super) fn starting_at(position: u64) -> Self {
        Self { chunks: VecDeque::new(), first: position, spare: None }
    }

    /// Appends a value.
    pub(super) fn push(&mut self, value: T) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(value),
            // The first chunk grows as it needs to: many columns stay small.
            last => {
                let fresh = if last.is_some() { Vec::with_capacity(CHUNK) } else { Vec::new() };
                let mut chunk = self.spare.take().unwrap_or(fresh);
                chunk.push(value);
                self.chunks.push_back(chunk);
            }
        }
    }

    fn place(&self, position: u64) -> Option<(usize, usize)> {
        let at = usize::try_from(position.checked_sub(self.first)?).ok()?;
        Some((at >> CHUNK_BITS, at & (CHUNK - 1)))
    }

    /// Returns the value at a position, unless it lies beyond the end or was given back.
    #[inline]
    pub(super) fn get(&self, position: u64) -> Option<T> {
        let (chunk, at) = self.place(position)?;
        self.chunks.get(chunk)?.get(at).copied()
    }

    /// Gives access to the value at a position.
    pub(super) fn get_mut(&mut self, position: u64) -> Option<&mut T> {
        let (chunk, at) = self.place(position)?;
        self.chunks.get_mut(chunk)?.get_mut(at)
    }

    /// Returns the values from a position on, piece by piece, each with the position of its first.
    pub(super) fn pieces(&self, from: u64) -> impl Iterator<Item = (u64, &[T])> {
        let (skipped, within) = self.place(from).unwrap_or((0, 0));
        let first = self.first.saturating_add((skipped as u64) << CHUNK_BITS);
        self.chunks.iter().skip(skipped).enumerate().filter_map(move |(number, chunk)| {
            let start = if number == 0 { within } else { 0 };
            let position = first + ((number as u64) << CHUNK_BITS) + start as u64;
            Some((position, chunk.get(start..)?))
        })
    }

    /// Drops what stands before a position, chunk by chunk.
    pub(super) fn drop_before(&mut self, position: u64) {
        while self.first + CHUNK as u64 <= position {
            let Some(mut chunk) = self.chunks.pop_front() else {
                // Nothing is held: the next value has this position.
                self.first = position;
                return;
            };
            chunk.clear();
            if self.spare.is_none() {
                self.spare = Some(chunk);
            }
            self.first += CHUNK as u64;
        }
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().chain(&self.spare).map(Vec::capacity).sum();
        chunks * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

/// One bit at each of consecutive positions.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Column<u64>,
    head: u64,
}

impl Marks {
    /// Makes an empty column whose first mark will have this position.
    pub(super) fn starting_at(position: u64) -> Self {
        Self { words: Column::starting_at(position / 64), head: position }
    }

    /// Appends a mark.
    pub(super) fn push(&mut self, mark: bool) {
        let word = self.head / 64;
        if self.words.get(word).is_none() {
            self.words.push(0);
        }
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= u64::from(mark) << (self.head % 64);
        }
        self.head += 1;
    }

    /// Returns the mark at a position; none beyond the end, or where it was given back.
    #[inline]
    pub(super) fn get(&self, position: u64) -> bool {
        self.words.get(position / 64).is_some_and(|word| (word >> (position % 64)) & 1 == 1)
    }

    /// Counts the marks at some positions.
    pub(super) fn count(&self, positions: Range<u64>) -> u64 {
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

    /// Drops what stands before a position, chunk by chunk.
    pub(super) fn drop_before(&mut self, position: u64) {
        self.words.drop_before(position / 64);
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.memory_bytes()
    }
}

/// Bytes of equal length at consecutive positions.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    width: usize,
    chunks: VecDeque<Vec<u8>>,
    /// Position of the first row of the first chunk.
    first: u64,
    spare: Option<Vec<u8>>,
}

impl Rows {
    /// Makes empty rows of so many bytes; the first will have this position. Of no bytes nothing is held at all.
    pub(super) fn starting_at(width: usize, position: u64) -> Self {
        Self { width, chunks: VecDeque::new(), first: position, spare: None }
    }

    /// Returns the bytes of a row.
    pub(super) const fn width(&self) -> usize {
        self.width
    }

    /// Appends a row: what is missing of it is filled up with zeros, and what is too much left out.
    pub(super) fn push(&mut self, row: &[u8]) {
        let full = self.width * CHUNK;
        if full == 0 {
            return;
        }
        if self.chunks.back().is_none_or(|chunk| chunk.len() >= full) {
            let fresh = if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(full) };
            self.chunks.push_back(self.spare.take().unwrap_or(fresh));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            let end = chunk.len() + self.width;
            chunk.extend(row.iter().take(self.width));
            chunk.resize(end, 0);
        }
    }

    /// Returns the row at a position, unless it lies beyond the end or was given back.
    #[inline]
    pub(super) fn get(&self, position: u64) -> Option<&[u8]> {
        let at = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let start = (at & (CHUNK - 1)) * self.width;
        self.chunks.get(at >> CHUNK_BITS)?.get(start..start + self.width)
    }

    /// Drops what stands before a position, chunk by chunk.
    pub(super) fn drop_before(&mut self, position: u64) {
        while self.first + CHUNK as u64 <= position {
            let Some(mut chunk) = self.chunks.pop_front() else {
                self.first = position;
                return;
            };
            chunk.clear();
            self.spare.get_or_insert(chunk);
            self.first += CHUNK as u64;
        }
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().chain(&self.spare).map(Vec::capacity).sum();
        chunks + self.chunks.capacity() * size_of::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
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
            let (mut marks, mut rows) = (Marks::starting_at(start), Rows::starting_at(3, start));
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
}
