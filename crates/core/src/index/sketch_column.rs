//! The sketches of the originals, by the positions of their ring.

use std::collections::BTreeMap;
use std::ops::Range;

use dupgate_index::{BitColumn, Column, Ranks, Rows};

use crate::fingerprint::Sketch;

/// All sketches held, from the ring's first position on.
#[derive(Debug)]
pub(super) struct SketchColumn {
    front: u64,
    head: u64,
    /// The sketches of the form in use, one after the other. An original without such a sketch has an empty row.
    rows: Rows,
    /// Which rows are sketches.
    present: BitColumn,
    /// Sketches of another form, which are never looked up.
    others: BTreeMap<u64, Sketch>,
}

impl SketchColumn {
    /// Creates an empty column with rows for sketches of this many bytes.
    pub(super) fn starting_at(width: usize, position: u64) -> Self {
        Self {
            front: position,
            head: position,
            rows: Rows::starting_at(width, position),
            present: BitColumn::starting_at(position),
            others: BTreeMap::new(),
        }
    }

    pub(super) fn share(&self) -> Self {
        let Self { front, head, rows, present, others } = self;
        Self { front: *front, head: *head, rows: rows.share(), present: present.share(), others: others.clone() }
    }

    pub(super) fn push(&mut self, sketch: Option<&Sketch>) {
        let row = sketch.filter(|sketch| sketch.len() == self.rows.width());
        self.rows.push(row.map_or(&[], |sketch| sketch));
        self.present.push(row.is_some());
        if let Some(other) = sketch.filter(|_| row.is_none()) {
            // Without the bytes that it was read with.
            self.others.insert(self.head, Sketch::from_bytes(other));
        }
        self.head += 1;
    }

    /// Returns the sketch at a position, if it has the form in use.
    #[inline]
    pub(super) fn row(&self, position: u64) -> Option<&[u8]> {
        self.rows.get(position).filter(|_| self.present.get(position))
    }

    /// Returns the sketches at these positions, if all of them have the form in use and are in one chunk.
    #[inline]
    pub(super) fn consecutive(&self, positions: Range<u64>) -> Option<impl Iterator<Item = &[u8]>> {
        let rows = self.rows.consecutive(positions.clone()).filter(|rows| !rows.is_empty())?;
        let are_sketches = self.present.count(positions.clone()) == positions.end - positions.start;
        are_sketches.then(|| rows.chunks_exact(self.rows.width()))
    }

    /// Returns the sketch at a position, whatever its form.
    pub(super) fn sketch(&self, position: u64) -> Option<Sketch> {
        if position < self.front {
            return None;
        }
        self.row(position).map(Sketch::from_bytes).or_else(|| self.others.get(&position).cloned())
    }

    pub(super) fn drop_before(&mut self, front: u64) {
        self.front = self.front.max(front.min(self.head));
        self.rows.drop_before(self.front);
        self.present.drop_before(self.front);
        while self.others.first_key_value().is_some_and(|(position, _)| *position < self.front) {
            self.others.pop_first();
        }
    }

    /// Lays the rows out for sketches of this many bytes.
    pub(super) fn lay_out(&mut self, width: usize) {
        let mut rebuilt = Self::starting_at(width, self.front);
        (self.front..self.head).for_each(|position| rebuilt.push(self.sketch(position).as_ref()));
        *self = rebuilt;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let others: usize = self.others.values().map(|sketch| sketch.len() + size_of::<(u64, Sketch)>()).sum();
        self.rows.memory_bytes() + self.present.memory_bytes() + others
    }

    /// Returns the positions of the sketches held.
    pub(super) const fn positions(&self) -> Range<u64> {
        self.front..self.head
    }

    /// Returns the bytes of a sketch of the form in use.
    pub(super) const fn width(&self) -> usize {
        self.rows.width()
    }

    /// Prefetches the sketch at a position.
    pub(super) fn prefetch(&self, position: u64) {
        self.rows.prefetch(position);
    }
}

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
