//! Sketches of the originals, found by the keys of their bands.
//!
//! Every original that shares at least `agree` keys is compared, none is left out (law L7). Keys are cut from the held
//! sketches, so that neither entries nor the ring carry them.
//!
//! Cost of a probe: one line for each band, what stands in runs of keys that many share, and one comparison of two
//! sketches for each original that shares enough keys.

use std::collections::BTreeMap;
use std::ops::Range;

use super::column::{Marks, Rows};
use super::layout::Dense;
use super::stats::TableStats;
use super::tables::{Keys, Tables};
use super::tasks::{Task, in_turn};
use crate::fingerprint::Sketch;
use crate::log::MinHashRules;

/// Sketches by the positions of the ring, and the tables that find them.
#[derive(Debug)]
pub(super) struct Sketches {
    column: Column,
    /// First position that the tables look for.
    tail: u64,
    expected: u64,
    finder: Option<Finder>,
}

/// All that are held, from the ring's first position on.
#[derive(Debug)]
struct Column {
    front: u64,
    head: u64,
    /// Those of one form, one behind the other. An entry without such a sketch has an empty row.
    rows: Rows,
    /// Which rows are sketches.
    present: Marks,
    /// Those of another form, which are never looked for.
    others: BTreeMap<u64, Sketch>,
}

/// The tables for one set of rules.
#[derive(Debug)]
struct Finder {
    rules: MinHashRules,
    /// Largest distance of a match; `None` when no sketch is near enough.
    reach: Option<u8>,
    tables: Tables<Dense>,
}

/// The sketches of one moment: see [`super::Index::share`].
#[derive(Debug)]
pub(super) struct SharedSketches(Column);

impl SharedSketches {
    /// Returns the sketch of an original.
    pub(super) fn get(&self, position: u64) -> Option<Sketch> {
        self.0.sketch(position)
    }

    /// Drops what is before a position.
    pub(super) fn drop_before(&mut self, position: u64) {
        self.0.drop_before(position);
    }
}

#[derive(Clone, Copy)]
struct BandKeys<'a>(&'a Column, MinHashRules);

impl Keys for BandKeys<'_> {
    #[inline]
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        let Self(column, MinHashRules { form, banding, .. }) = self;
        Some(banding.key(*form, column.row(position)?, table))
    }
}

impl Column {
    /// Begins empty, with rows for sketches of so many bytes.
    fn starting_at(width: usize, position: u64) -> Self {
        Self {
            front: position,
            head: position,
            rows: Rows::starting_at(width, position),
            present: Marks::starting_at(position),
            others: BTreeMap::new(),
        }
    }

    fn share(&self) -> Self {
        let Self { front, head, rows, present, others } = self;
        Self { front: *front, head: *head, rows: rows.share(), present: present.share(), others: others.clone() }
    }

    fn push(&mut self, sketch: Option<&Sketch>) {
        let row = sketch.filter(|sketch| sketch.len() == self.rows.width());
        self.rows.push(row.map_or(&[], |sketch| sketch));
        self.present.push(row.is_some());
        if let Some(other) = sketch.filter(|_| row.is_none()) {
            self.others.insert(self.head, other.clone());
        }
        self.head += 1;
    }

    /// Returns the sketch at a position, if it has the form that is looked for.
    #[inline]
    fn row(&self, position: u64) -> Option<&[u8]> {
        self.rows.get(position).filter(|_| self.present.get(position))
    }

    /// Returns the sketch at a position, whatever its form.
    fn sketch(&self, position: u64) -> Option<Sketch> {
        if position < self.front {
            return None;
        }
        self.row(position).map(Sketch::from_bytes).or_else(|| self.others.get(&position).cloned())
    }

    fn drop_before(&mut self, front: u64) {
        self.front = self.front.max(front.min(self.head));
        self.rows.drop_before(self.front);
        self.present.drop_before(self.front);
        while self.others.first_key_value().is_some_and(|(position, _)| *position < self.front) {
            self.others.pop_first();
        }
    }

    /// Makes room in the rows for sketches of so many bytes instead.
    fn lay_out(&mut self, width: usize) {
        let mut anew = Self::starting_at(width, self.front);
        (self.front..self.head).for_each(|position| anew.push(self.sketch(position).as_ref()));
        *self = anew;
    }

    fn memory_bytes(&self) -> usize {
        let others: usize = self.others.values().map(|sketch| sketch.len() + size_of::<(u64, Sketch)>()).sum();
        self.rows.memory_bytes() + self.present.memory_bytes() + others
    }
}

impl Sketches {
    /// Begins empty, without tables; `expected` originals are to come.
    pub(super) fn new(expected: u64) -> Self {
        Self { column: Column::starting_at(0, 0), tail: 0, expected, finder: None }
    }

    /// Looks for sketches by these rules from now on, or not at all. Builds the tables anew when that is a change.
    pub(super) fn set_rules(&mut self, rules: Option<MinHashRules>) {
        if self.finder.as_ref().map(|finder| finder.rules) != rules {
            if let Some(width) =
                rules.map(|rules| rules.form.bytes()).filter(|width| *width != self.column.rows.width())
            {
                self.column.lay_out(width);
            }
            let tables = |rules: &MinHashRules| Tables::new(usize::from(rules.banding.bands()), self.expected);
            self.finder = rules.map(|rules| Finder {
                rules,
                reach: rules.form.reach(rules.min_similarity),
                tables: tables(&rules),
            });
            in_turn(self.build_tasks());
        }
    }

    /// Lets the tables grow towards so many originals when they are made next.
    pub(super) fn expect(&mut self, entries: u64) {
        self.expected = entries;
    }

    /// Holds what the newest original of the ring has.
    pub(super) fn push(&mut self, sketch: Option<&Sketch>) {
        self.column.push(sketch);
        let positions = self.positions();
        if let Some(Finder { rules, tables, .. }) = &mut self.finder {
            tables.insert(&BandKeys(&self.column, *rules), positions);
        }
    }

    /// Holds what many originals have; the tables know nothing of it until they are built.
    pub(super) fn fill<'a>(&mut self, sketches: impl Iterator<Item = Option<&'a Sketch>>) {
        sketches.for_each(|sketch| self.column.push(sketch));
    }

    /// Returns the building of the tables.
    pub(super) fn build_tasks(&mut self) -> Vec<Task<'_>> {
        let positions = self.positions();
        let held = positions.end - positions.start;
        let Some(Finder { rules, tables, .. }) = &mut self.finder else { return Vec::new() };
        tables.build_tasks(BandKeys(&self.column, *rules), &positions, held)
    }

    /// Hands over what somebody else may do meanwhile: see [`super::Near::chores`].
    pub(super) fn chores(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        if let Some(Finder { tables, .. }) = &mut self.finder {
            tables.chores(hand_over);
        }
    }

    /// Shows the position of every held sketch that shares enough keys and is surely near enough, with its distance; and
    /// of every one that shares a key and enough of the smaller page, with that share.
    pub(super) fn probe(&self, sketch: &Sketch, mut visit: impl FnMut(u64, u8, Option<u16>)) -> u32 {
        let Some(Finder { rules, reach, tables }) = &self.finder else { return 0 };
        let MinHashRules { form, banding, agree, .. } = *rules;
        if sketch.len() != form.bytes() {
            return 0;
        }
        let keys: Vec<u64> = banding.keys(form, sketch).collect();
        let mut compared = 0;
        tables.found_in(&keys, u32::from(rules.least_keys()), self.positions(), |position| {
            compared += 1;
            let Some(held) = self.column.row(position) else { return };
            let distance = form.distance(sketch, held);
            // The tables may show more: whether a pair matches may not depend on them.
            let shared = || banding.shared(form, held, &keys);
            let is_alike = reach.is_some_and(|reach| distance <= reach) && rules.is_sure(sketch, held, distance);
            if is_alike && shared() >= usize::from(agree) {
                visit(position, distance, None);
            } else if let Some(share) = rules.contained(sketch, held, distance).filter(|_| shared() > 0) {
                visit(position, distance, Some(share));
            }
        });
        compared
    }

    /// Asks the memory for what a probe will read.
    pub(super) fn prefetch(&self, sketch: &Sketch) {
        if let Some(Finder { rules, tables, .. }) = &self.finder {
            tables.prefetch(rules.banding.keys(rules.form, sketch));
        }
    }

    /// Returns a copy of the sketches that shares the memory.
    pub(super) fn share(&self) -> SharedSketches {
        SharedSketches(self.column.share())
    }

    /// Returns the sketch of an original that the ring holds.
    pub(super) fn get(&self, position: u64) -> Option<Sketch> {
        self.column.sketch(position)
    }

    /// Returns the positions that a probe looks for.
    pub(super) fn positions(&self) -> Range<u64> {
        self.tail.max(self.column.front)..self.column.head
    }

    /// Looks no more for positions before `tail`, and drops what stands before `front`.
    pub(super) fn expire(&mut self, tail: u64, front: u64) {
        self.tail = self.tail.max(tail);
        self.column.drop_before(front);
        let positions = self.positions();
        let held = positions.end - positions.start;
        if let Some(Finder { rules, tables, .. }) = &mut self.finder {
            tables.shrink_if_idle(&BandKeys(&self.column, *rules), &positions, held);
        }
    }

    /// Returns the figures of each band's table.
    pub(super) fn stats(&self) -> Vec<TableStats> {
        self.finder.as_ref().map(|finder| finder.tables.stats()).unwrap_or_default()
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.column.memory_bytes() + self.finder.as_ref().map_or(0, |finder| finder.tables.memory_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::{Banding, SketchForm, SlotBits, Unsure};
    use proptest::prelude::*;

    fn rules(agree: u8, min_similarity: u16) -> MinHashRules {
        let form = SketchForm::new(16, SlotBits::B8).unwrap();
        let banding = Banding::new(5, 3, form).unwrap();
        MinHashRules { form, banding, agree, min_similarity, containment: None, unsure: Unsure::NEVER }
    }

    fn found(sketches: &Sketches, sketch: &Sketch) -> Vec<(u64, u8)> {
        found_how(sketches, sketch).into_iter().map(|(position, distance, _)| (position, distance)).collect()
    }

    fn found_how(sketches: &Sketches, sketch: &Sketch) -> Vec<(u64, u8, Option<u16>)> {
        let mut found = Vec::new();
        sketches.probe(sketch, |position, distance, contained| found.push((position, distance, contained)));
        found.sort_unstable();
        found
    }

    proptest! {
        /// Two nested loops: all held, all bands.
        #[test]
        fn what_is_found_is_what_a_scan_finds(
            bytes in prop::collection::vec(prop::option::of(prop::collection::vec(0_u8..2, 16)), 1..60),
            agree in 1_u8..4,
            min_similarity in prop::sample::select(vec![0_u16, 300, 500, 800, 1000]),
            keep in 0_u64..30,
            anew in any::<bool>(),
        ) {
            let rules = rules(agree, min_similarity);
            let mut sketches = Sketches::new(0);
            sketches.set_rules((!anew).then_some(rules));
            for (position, bytes_of) in (0..).zip(&bytes) {
                let oldest = u64::saturating_sub(position, keep);
                sketches.expire(oldest, oldest / 2);
                if anew {
                    sketches.set_rules(None);
                    sketches.set_rules(Some(rules));
                }
                let probe = bytes_of.clone().unwrap_or_else(|| vec![1; 16]);
                let mut expected = Vec::new();
                for (number, other) in (0_u64..position).zip(&bytes) {
                    let Some(other) = other.as_ref().filter(|_| number >= oldest) else { continue };
                    let bands = (0..5).filter(|band| probe[band * 3..][..3] == other[band * 3..][..3]).count();
                    let distance = probe.iter().zip(other).filter(|(a, b)| a != b).count().try_into().unwrap();
                    if bands >= usize::from(agree) && rules.form.similarity(distance) >= min_similarity {
                        expected.push((number, distance));
                    }
                }
                prop_assert_eq!(found(&sketches, &Sketch::from_bytes(&probe)), expected);
                sketches.push(bytes_of.as_deref().map(Sketch::from_bytes).as_ref());
            }
        }
    }

    proptest! {
        /// Two nested loops again: what shares enough keys and is near, which has to hold enough where that is unsure; and of
        /// the rest what shares one and holds enough.
        #[test]
        fn what_is_contained_is_what_a_scan_finds(
            bytes in prop::collection::vec((prop::collection::vec(0_u8..2, 16), 8_u16..80), 1..40),
            agree in 1_u8..4,
            min_similarity in prop::sample::select(vec![0_u16, 500, 800, 1000]),
            containment in prop::option::of(prop::sample::select(vec![0_u16, 400, 750, 1000])),
            unsure in (prop::sample::select(vec![0_u16, 500, 900]), prop::sample::select(vec![400_u16, 900])),
        ) {
            let plain = rules(agree, min_similarity);
            let unsure = Unsure { below: unsure.0, containment: unsure.1 };
            let rules = MinHashRules { form: plain.form.with_count(), containment, unsure, ..plain };
            let mut sketches = Sketches::new(0);
            sketches.set_rules(Some(rules));
            let sketch_of = |(slots, size): &(Vec<u8>, u16)| {
                Sketch::from_bytes(&[&slots[..], &size.to_be_bytes()].concat())
            };
            for (position, page) in bytes.iter().enumerate() {
                let mut expected = Vec::new();
                for (number, other) in bytes[..position].iter().enumerate() {
                    let bands = (0..5).filter(|band| page.0[band * 3..][..3] == other.0[band * 3..][..3]).count();
                    let distance: u8 = page.0.iter().zip(&other.0).filter(|(a, b)| a != b).count().try_into().unwrap();
                    let estimate = rules.form.similarity(distance);
                    // Three of sixteen slots agree because the pair was found.
                    let jaccard = ((13.0 - f64::from(distance)) / 13.0 - 1.0 / 256.0) / (1.0 - 1.0 / 256.0);
                    let (small, both) = (f64::from(page.1.min(other.1)), f64::from(page.1 + other.1));
                    let share = (jaccard * both / ((1.0 + jaccard) * small)).min(1.0) * 1000.0;
                    let holds = |least: u16| jaccard >= 1.0 / 16.0 && share + 1e-6 >= f64::from(least);
                    let sure = estimate >= unsure.below || holds(unsure.containment);
                    if bands >= usize::from(agree) && estimate >= min_similarity && sure {
                        expected.push((number as u64, distance, None));
                    } else if bands >= 1 && containment.is_some_and(holds) {
                        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousandths")]
                        expected.push((number as u64, distance, Some((share + 1e-6) as u16)));
                    }
                }
                prop_assert_eq!(found_how(&sketches, &sketch_of(page)), expected);
                sketches.push(Some(&sketch_of(page)));
            }
        }
    }

    #[test]
    fn sketches_of_another_form_are_held_but_not_compared() {
        let mut sketches = Sketches::new(0);
        sketches.set_rules(Some(rules(1, 500)));
        sketches.push(Some(&Sketch::from_bytes(&[1; 32])));
        sketches.push(Some(&Sketch::from_bytes(&[1; 16])));
        assert_eq!(found(&sketches, &Sketch::from_bytes(&[1; 16])), [(1, 0)]);
        assert_eq!(found(&sketches, &Sketch::from_bytes(&[1; 32])), []);
        assert_eq!(sketches.get(0), Some(Sketch::from_bytes(&[1; 32])));
        sketches.expire(1, 1);
        assert_eq!([0, 1].map(|position| sketches.get(position)), [None, Some(Sketch::from_bytes(&[1; 16]))]);
    }

    #[test]
    fn restored_sketches_are_found_as_if_they_had_come_one_by_one() {
        let all = || (0..200_u8).map(|n| (n % 3 > 0).then(|| Sketch::from_bytes(&[n % 7; 16])));
        let (mut one_by_one, mut at_once) = (Sketches::new(0), Sketches::new(0));
        one_by_one.set_rules(Some(rules(2, 500)));
        at_once.set_rules(Some(rules(2, 500)));
        let all: Vec<Option<Sketch>> = all().collect();
        all.iter().for_each(|sketch| one_by_one.push(sketch.as_ref()));
        at_once.fill(all.iter().map(Option::as_ref));
        in_turn(at_once.build_tasks());
        for n in 0..7 {
            let sketch = Sketch::from_bytes(&[n; 16]);
            assert_eq!(found(&one_by_one, &sketch), found(&at_once, &sketch));
            assert!(found(&at_once, &sketch).len() > 10);
        }
    }
}
