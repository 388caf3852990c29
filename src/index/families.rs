//! Families: originals that are nearly the same as one before them, without being its duplicates.
//!
//! Ten thousand pages of one template, or of one site, share nearly every key: each would be a candidate of each. So only
//! the first of them, the head, is found by the keys that all of them share; the others, its members, are found through
//! the head, by what differs from it. What differs is a few slots of the sketch and the figures of the page. The keys are
//! pairs of neighbouring differences, so that a difference more or less, as edits of a copy bring them, spoils two of
//! them and not all. Each pair falls into one of [`KEYS`] tables by its hash, where the smallest counts.
//!
//! A member is reachable while its head is held, and comes behind it in the log: whoever holds the member and can still
//! reach it holds the head, too (law L5). Keys are worked out from both when the member is inserted, and are not written
//! down.
//!
//! Cost: one line for each key and head; memory: [`KEYS`] places in tables and four bytes for each key.

use std::collections::VecDeque;
use std::ops::Range;

use super::layout::ExactTags;
use super::tables::{Keys, Tables};
use super::tasks::{Task, run_sequential};
use crate::fingerprint::split_mix::draw;
use crate::fingerprint::{Numbers, SketchForm};

/// Tables, and so most keys of a member.
pub(super) const KEYS: usize = 16;

/// Tells pairs of figures from pairs of slots.
const FIGURES: u64 = 1 << 62;
/// Tells pairs of slots from pairs of figures.
const SLOTS: u64 = 1 << 63;

/// The keys of a page in a family, by table; 0 where it has none.
pub(super) type FamilyKeys = [u32; KEYS];

/// Where a page differs from the head of a family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference<'a> {
    /// The head's sequence number.
    pub(super) head: u64,
    /// Form of both sketches, and the sketches, where both have one.
    pub(super) sketches: Option<(SketchForm, &'a [u8], &'a [u8])>,
    /// The page's figures.
    pub(super) numbers: Numbers,
}

impl Difference<'_> {
    /// Returns the page's keys.
    pub(super) fn keys(&self) -> FamilyKeys {
        let mut keys = [0; KEYS];
        let mut add = |of: u64, one: u64, next: u64| {
            let hash = draw(draw(self.head ^ of) ^ draw(one << 32 | next));
            let at = usize::try_from(hash >> 60).unwrap_or(0);
            let key = u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0).max(1);
            if let Some(held) = keys.get_mut(at).filter(|held| **held == 0 || key < **held) {
                *held = key;
            }
        };
        let figures = self.numbers.hashes();
        if let [only] = figures {
            add(FIGURES, u64::from(*only), u64::from(*only));
        }
        for pair in figures.windows(2) {
            if let [one, next] = pair {
                add(FIGURES, u64::from(*one), u64::from(*next));
            }
        }
        if let Some((form, head, page)) = self.sketches {
            let slots = 0..usize::from(form.slots());
            let differing = slots.filter(|&slot| form.slot(head, slot) != form.slot(page, slot));
            let mut before = None;
            for slot in differing {
                let one = u64::from(form.slot(page, slot)) << 8 | slot as u64;
                add(SLOTS, before.unwrap_or(one), one);
                before = Some(one);
            }
        }
        keys
    }
}

#[derive(Debug)]
struct Member {
    position: u64,
    keys: FamilyKeys,
}

/// All members by the positions of the ring of originals, and the tables that find them.
#[derive(Debug)]
pub(super) struct Families {
    members: VecDeque<Member>,
    /// Made with the first member: most windows have none.
    tables: Option<Tables<ExactTags>>,
}

#[derive(Clone, Copy)]
struct MemberKeys<'a>(&'a VecDeque<Member>);

impl MemberKeys<'_> {
    fn get(&self, position: u64) -> Option<&Member> {
        self.0.get(self.0.binary_search_by_key(&position, |member| member.position).ok()?)
    }
}

impl Keys for MemberKeys<'_> {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        self.get(position).and_then(|member| key_in(&member.keys, table))
    }
}

impl Families {
    /// Begins without members.
    pub(super) const fn new() -> Self {
        Self { members: VecDeque::new(), tables: None }
    }

    /// Takes note of the newest original of the ring, which is a member if `keys` are given.
    pub(super) fn push(&mut self, positions: Range<u64>, member: Option<FamilyKeys>) {
        let newest = positions.end.saturating_sub(1);
        if let Some(keys) = member {
            self.members.push_back(Member { position: newest, keys });
            self.tables.get_or_insert_with(|| {
                Tables::starting_at(vec![super::plan::Keyed::WHOLE; KEYS], 0, super::Engine::detect(), newest)
            });
        }
        if let Some(tables) = &mut self.tables {
            let keys = MemberKeys(&self.members);
            tables.insert_of(&keys, &positions, self.members.len() as u64, |table| keys.key(table, newest));
        }
    }

    /// Holds a member that nothing finds until [`Families::build`].
    pub(super) fn fill(&mut self, position: u64) {
        self.members.push_back(Member { position, keys: [0; KEYS] });
    }

    /// Works out all keys, and returns the building of the tables.
    pub(super) fn build_tasks(
        &mut self,
        positions: &Range<u64>,
        keys_at: impl Fn(u64) -> Option<FamilyKeys>,
    ) -> Vec<Task<'_>> {
        for member in &mut self.members {
            member.keys = keys_at(member.position).unwrap_or_default();
        }
        if self.members.is_empty() {
            self.tables = None;
            return Vec::new();
        }
        let held = self.members.len() as u64;
        let tables = self.tables.get_or_insert_with(|| Tables::new(KEYS, 0));
        tables.build_tasks(MemberKeys(&self.members), positions, held)
    }

    /// [`Families::build_tasks`], done at once.
    pub(super) fn build(&mut self, positions: &Range<u64>, keys_at: impl Fn(u64) -> Option<FamilyKeys>) {
        run_sequential(self.build_tasks(positions, keys_at));
    }

    /// Shows the position of every member that shares a key, each once and oldest first.
    pub(super) fn sharing(&self, keys: &FamilyKeys, positions: &Range<u64>, mut visit: impl FnMut(u64)) {
        let mut found = Vec::new();
        for table in 0..KEYS {
            self.each_with(keys, table, positions, |position| found.push(position));
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().for_each(&mut visit);
    }

    /// Returns which of the keys have so many members that `is_live` that no more are to be found by them.
    pub(super) fn full(
        &self,
        keys: &FamilyKeys,
        positions: &Range<u64>,
        most: usize,
        is_live: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = usize> {
        (0..KEYS).filter(move |&table| {
            let mut live = 0;
            self.each_with(keys, table, positions, |position| live += usize::from(is_live(position)));
            live >= most
        })
    }

    fn each_with(&self, keys: &FamilyKeys, table: usize, positions: &Range<u64>, mut visit: impl FnMut(u64)) {
        let (Some(tables), Some(key)) = (&self.tables, key_in(keys, table)) else { return };
        let members = MemberKeys(&self.members);
        tables.equal(table, key, positions, |position| {
            // Tags are equal by chance now and then.
            if members.key(table, position) == Some(key) {
                visit(position);
            }
        });
    }

    /// Drops the members before a position, which the ring is about to drop.
    pub(super) fn drop_before(&mut self, front: u64) {
        while self.members.front().is_some_and(|member| member.position < front) {
            self.members.pop_front();
        }
        if self.members.is_empty() {
            (self.tables, self.members) = (None, VecDeque::new());
        }
    }

    /// Hands over what somebody else may do meanwhile: see [`super::Near::maintenance`].
    pub(super) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.tables.iter_mut().for_each(|tables| tables.maintenance(hand_over));
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Member>() + self.tables.as_ref().map_or(0, Tables::memory_bytes)
    }
}

fn key_in(keys: &FamilyKeys, table: usize) -> Option<u64> {
    let key = keys.get(table).copied().filter(|key| *key != 0)?;
    Some(draw(u64::from(key) | (table as u64) << 40))
}
