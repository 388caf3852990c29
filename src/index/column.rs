//! One column of a ring log: appended at one end, dropped at the other, read by position.
//!
//! Values stand in chunks, so that growing copies nothing and a chunk that has expired serves again.

use std::collections::VecDeque;

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
    fn an_emptied_column_goes_on_where_it_stood() {
        let mut column = Column::starting_at(0);
        (0..CHUNK as u64).for_each(|value| column.push(value));
        column.drop_before(CHUNK as u64);
        column.push(7);
        assert_eq!(column.get(CHUNK as u64), Some(7));
    }
}
