//! A column of values that few originals have.

use dupgate_index::{Column, Ranks};

/// Values that few originals have, in the order of their positions.
#[derive(Debug)]
pub(super) struct SparseColumn<T> {
    all: Column<(u64, T)>,
    ranks: Ranks,
    /// Index of the oldest value that is held.
    front: u64,
}

impl<T: Copy> SparseColumn<T> {
    pub(super) const fn new() -> Self {
        Self { all: Column::starting_at(0), ranks: Ranks::new(), front: 0 }
    }

    /// Returns a copy that shares the full chunks.
    pub(super) fn share(&self) -> Self {
        Self { all: self.all.share(), ranks: self.ranks.clone(), front: self.front }
    }

    pub(super) fn push(&mut self, position: u64, value: T) {
        self.all.push((position, value));
        self.ranks.push(position);
    }

    pub(super) fn of(&self, position: u64) -> Option<T> {
        let number = self.ranks.of(position).filter(|number| *number >= self.front)?;
        self.all.get(number).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, T)> {
        (self.front..self.ranks.added()).filter_map(|at| self.all.get(at))
    }

    pub(super) fn drop_before(&mut self, position: u64) {
        let before = self.front;
        while self.front < self.ranks.added() && self.all.get(self.front).is_some_and(|(held, _)| held < position) {
            self.front += 1;
        }
        if self.front > before {
            self.all.drop_before(self.front);
        }
        self.ranks.drop_before(position);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.all.memory_bytes() + self.ranks.memory_bytes()
    }
}
