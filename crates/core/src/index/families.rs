//! Families: originals that are nearly the same as an earlier one without being its duplicates.
//!
//! Ten thousand pages of one template, or of one site, share nearly every key, so each would be a candidate for every
//! other. Therefore only the first of them, the head, is found by the keys that all of them share. The others, its
//! members, are found through the head, by their differences from it: a few slots of the sketch, the numbers of the
//! page, and its title. The keys are the title, in a table of its own, and pairs of neighbouring differences. An edited
//! copy may have a difference more or less; that spoils two of its pairs, not all. The hash of a pair selects one of
//! [`KEYS`] tables; of the pairs of one table, only the smallest is its key.
//!
//! A member can be reached while its head is held. The head comes before it in the log, so a state that holds the
//! member and can still reach it holds the head, too (law L5). The judge lets a head accept members only for the first
//! sixth of its time in the window, so that they can be found for the other five sixths. The keys are computed from the
//! head and the member when the member is inserted; they are not stored in the log.
//!
//! Cost: one cache line for each key and head, and as many comparisons as a key may have members. Memory: [`TABLES`]
//! places in tables, four bytes for each key and sixteen for its position and head, and a quarter of a byte for each
//! position of the ring ([`Ranks`]).

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use dupgate_index::{ExactTags, Keys, Ranks, Tables, Task, run_sequential};

use crate::fingerprint::{Numbers, SketchForm, TitleHash, split_mix_draw};

/// Number of tables of pairs: the most keys that a member has besides its title.
const KEYS: usize = 16;

/// The table of titles, after those of pairs.
const TITLES: usize = KEYS;

/// Number of all tables.
pub(super) const TABLES: usize = KEYS + 1;

/// The most members with a page's title that are shown in addition to those that share the most keys.
const MAX_OF_TITLE: usize = 16;

/// Distinguishes pairs of numbers from pairs of slots.
const NUMBERS: u64 = 1 << 62;
/// Distinguishes pairs of slots from pairs of numbers.
const SLOTS: u64 = 1 << 63;

/// The keys of a page in a family.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FamilyKeys {
    /// Sequence number of the family's head.
    head: u64,
    /// Key by table, 0 for none. The key of the title is the last.
    by_table: [u32; TABLES],
}

impl FamilyKeys {
    /// Returns the key by which a table finds the page, if there is one.
    fn in_table(&self, table: usize) -> Option<u64> {
        let key = self.by_table.get(table).copied().filter(|key| *key != 0)?;
        Some(split_mix_draw(u64::from(key) | (table as u64) << 40))
    }

    /// Removes the key for a table.
    pub(super) fn skip(&mut self, table: usize) {
        self.by_table.get_mut(table).into_iter().for_each(|key| *key = 0);
    }

    /// Returns the key of the title; 0: none.
    const fn title(&self) -> u32 {
        let [.., title] = self.by_table;
        title
    }

    /// Returns how many keys two pages of one family share, not counting their titles.
    fn shared_with(&self, other: &Self) -> usize {
        let pairs = self.by_table.iter().zip(&other.by_table).take(KEYS);
        pairs.filter(|(key, held)| key == held && **key != 0).count()
    }
}

/// Where a page differs from the head of a family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference<'a> {
    /// The head's sequence number.
    pub(super) head: u64,
    /// The form of both sketches, the head's sketch and the page's sketch, if both have one.
    pub(super) sketches: Option<(SketchForm, &'a [u8], &'a [u8])>,
    /// The page's numbers.
    pub(super) numbers: Numbers,
    /// The page's title, if the head has another one or none.
    pub(super) title: Option<TitleHash>,
}

impl Difference<'_> {
    /// Returns the page's keys.
    pub(super) fn keys(&self) -> FamilyKeys {
        let mut by_table = [0; TABLES];
        let mut add = |of: u64, one: u64, next: u64| {
            let hash = split_mix_draw(split_mix_draw(self.head ^ of) ^ split_mix_draw(one << 32 | next));
            let at = usize::try_from(hash >> 60).unwrap_or(0);
            let key = u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0).max(1);
            if let Some(held) = by_table.get_mut(at).filter(|held| **held == 0 || key < **held) {
                *held = key;
            }
        };
        let numbers = self.numbers.hashes();
        if let [only] = numbers {
            add(NUMBERS, u64::from(*only), u64::from(*only));
        }
        for pair in numbers.windows(2) {
            if let [one, next] = pair {
                add(NUMBERS, u64::from(*one), u64::from(*next));
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
        if let Some(TitleHash(title)) = self.title {
            // The lower half of the hash, but never 0, which means none.
            let [.., a, b, c, d] = split_mix_draw(split_mix_draw(self.head) ^ u64::from(title)).to_be_bytes();
            let [.., key] = &mut by_table;
            *key = u32::from_be_bytes([a, b, c, d]).max(1);
        }
        FamilyKeys { head: self.head, by_table }
    }
}

/// How many members ahead of the current one are prefetched.
const AHEAD: usize = 8;

#[derive(Debug)]
struct Member {
    position: u64,
    keys: FamilyKeys,
}

/// All members, by their positions in the ring of originals, and the tables that find them.
#[derive(Debug)]
pub(super) struct Families {
    members: Members,
    /// Created with the first member: most windows have none.
    tables: Option<Tables<ExactTags>>,
}

/// Members in the order of their positions.
#[derive(Debug, Default)]
struct Members {
    held: VecDeque<Member>,
    ranks: Ranks,
    /// Number of members of each head.
    of_heads: HashMap<u64, u32>,
}

impl Members {
    fn push(&mut self, position: u64, keys: FamilyKeys) {
        self.held.push_back(Member { position, keys });
        self.ranks.push(position);
        *self.of_heads.entry(keys.head).or_default() += 1;
    }

    /// Replaces the keys of all members.
    fn set_keys(&mut self, keys_at: impl Fn(u64) -> Option<FamilyKeys>) {
        self.of_heads.clear();
        for member in &mut self.held {
            member.keys = keys_at(member.position).unwrap_or_default();
            *self.of_heads.entry(member.keys.head).or_default() += 1;
        }
    }

    /// Prefetches the keys of the member at a position.
    fn prefetch(&self, position: u64) {
        if let Some(FamilyKeys { head, by_table }) = self.keys(position) {
            dupgate_index::prefetch(head);
            by_table.last().into_iter().for_each(dupgate_index::prefetch);
        }
    }

    fn keys(&self, position: u64) -> Option<&FamilyKeys> {
        self.held.get(self.place(position)?).map(|member| &member.keys)
    }

    fn clear(&mut self, position: u64) {
        let at = self.place(position);
        at.and_then(|at| self.held.get_mut(at)).into_iter().for_each(|member| member.keys.by_table = [0; TABLES]);
    }

    /// Returns the index of the member at a position.
    fn place(&self, position: u64) -> Option<usize> {
        let dropped = self.ranks.added() - self.held.len() as u64;
        usize::try_from(self.ranks.of(position)?.checked_sub(dropped)?).ok()
    }

    fn drop_before(&mut self, front: u64) {
        while let Some(left) = self.held.pop_front_if(|member| member.position < front) {
            if let Entry::Occupied(mut members) = self.of_heads.entry(left.keys.head) {
                *members.get_mut() -= 1;
                if *members.get() == 0 {
                    members.remove();
                }
            }
        }
        self.ranks.drop_before(front);
    }
}

#[derive(Clone, Copy)]
struct MemberKeys<'a>(&'a Members);

impl Keys for MemberKeys<'_> {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        self.0.keys(position)?.in_table(table)
    }
}

/// Places in which [`Shown`] remembers members.
const PLACES: usize = 4_096;

/// The members that tables show, divided by how often each was shown. Nearly all are shown only once.
struct Shown {
    first: u64,
    /// Each place holds the distance of a position from `first`, plus one; 0: none. The last bits of that number select
    /// the place.
    places: [u32; PLACES],
    /// Every member that has a place, once.
    once: Vec<u64>,
    /// Members with a place, once for each further time they were shown.
    again: Vec<u64>,
    /// Members whose place is taken by another one, once for each time they were shown.
    unclear: Vec<u64>,
}

impl Shown {
    const fn new(first: u64) -> Self {
        Self { first, places: [0; PLACES], once: Vec::new(), again: Vec::new(), unclear: Vec::new() }
    }

    fn note(&mut self, position: u64) {
        let distance = u32::try_from(position - self.first + 1).unwrap_or(u32::MAX);
        let place = self.places.get_mut(distance as usize % PLACES);
        match place {
            Some(place) if *place == 0 => {
                *place = distance;
                self.once.push(position);
            }
            Some(place) if *place == distance => self.again.push(position),
            _ => self.unclear.push(position),
        }
    }
}

impl Families {
    /// Begins without members.
    pub(super) fn new() -> Self {
        Self { members: Members::default(), tables: None }
    }

    /// Adds the newest original of the ring. It is a member if `keys` are given.
    pub(super) fn push(&mut self, positions: Range<u64>, member: Option<FamilyKeys>) {
        let newest = positions.end.saturating_sub(1);
        if let Some(keys) = member {
            self.members.push(newest, keys);
            self.tables.get_or_insert_with(|| Tables::starting_at(TABLES, 0, newest));
        }
        if let Some(tables) = &mut self.tables {
            let keys = MemberKeys(&self.members);
            tables.insert_of(&keys, &positions, self.members.held.len() as u64, |table| keys.key(table, newest));
        }
    }

    /// Forgets the member at a position, if there is one.
    pub(super) fn remove(&mut self, positions: &Range<u64>, position: u64) {
        if let Some(tables) = &mut self.tables {
            tables.remove(&MemberKeys(&self.members), positions, position);
        }
        self.members.clear(position);
    }

    /// Adds a member that no lookup finds before [`Families::build`].
    pub(super) fn fill(&mut self, position: u64) {
        self.members.push(position, FamilyKeys::default());
    }

    /// Computes all keys, and returns the tasks that build the tables.
    pub(super) fn build_tasks(
        &mut self,
        positions: &Range<u64>,
        keys_at: impl Fn(u64) -> Option<FamilyKeys>,
    ) -> Vec<Task<'_>> {
        self.members.set_keys(keys_at);
        if self.members.held.is_empty() {
            self.tables = None;
            return Vec::new();
        }
        let held = self.members.held.len() as u64;
        let tables = self.tables.get_or_insert_with(|| Tables::new(TABLES, 0));
        tables.build_tasks(MemberKeys(&self.members), positions, held)
    }

    /// Does [`Families::build_tasks`] and its tasks at once.
    pub(super) fn build(&mut self, positions: &Range<u64>, keys_at: impl Fn(u64) -> Option<FamilyKeys>) {
        run_sequential(self.build_tasks(positions, keys_at));
    }

    /// Returns whether a head has members, counting forgotten ones that are still in memory.
    pub(super) fn has_members(&self, head: u64) -> bool {
        self.members.of_heads.contains_key(&head)
    }

    /// Returns the members that share the most keys with a page, at most `most` of them, each with the number of shared
    /// keys and its position. Members that share more keys come first, and among equals the oldest. A copy shares more
    /// keys with its original than with other members of the family, so it is found at no higher cost in a large family
    /// than in a small one.
    ///
    /// `keys` are the page's keys in each family that it may belong to. Only members for which `is_wanted` holds count.
    /// The second result is about how many other members share a key, too.
    pub(super) fn sharing(
        &self,
        keys: &[FamilyKeys],
        positions: &Range<u64>,
        most: usize,
        is_wanted: impl Fn(u64) -> bool,
    ) -> (Vec<(Reverse<usize>, u64)>, usize) {
        let mut shown = Shown::new(positions.start);
        self.show(keys, positions, |position| shown.note(position));
        let Shown { mut once, mut again, mut unclear, .. } = shown;
        for several in [&mut again, &mut unclear] {
            several.sort_unstable();
            several.dedup();
        }
        let shared_keys = |position| {
            let Some(held) = self.members.keys(position) else { return 0 };
            let Some(keys) = keys.iter().find(|keys| keys.head == held.head) else { return 0 };
            keys.shared_with(held)
        };
        // A table also shows members whose tags are equal by chance, so a member shares at most as many keys as it is
        // shown for.
        let mut found: Vec<(Reverse<usize>, u64)> = Vec::new();
        let mut several = Vec::new();
        for (at, &position) in again.iter().chain(&unclear).enumerate() {
            let ahead = at + AHEAD;
            let next = again.get(ahead).or_else(|| unclear.get(ahead.saturating_sub(again.len())));
            next.into_iter().for_each(|next| self.members.prefetch(*next));
            let shared = shared_keys(position);
            if shared > 1 {
                found.push((Reverse(shared), position));
            }
            if shared > 1 && at < again.len() {
                several.push(position);
            } else if shared == 1 && at >= again.len() {
                once.push(position);
            }
        }
        found.sort_unstable();
        // Members that merely happen to be in memory still must not take places, because a restored state does not have
        // them (law L5).
        let shown_again = found.len();
        let mut left = most;
        found.retain(|(_, position)| {
            let is_kept = left > 0 && is_wanted(*position);
            left -= usize::from(is_kept);
            is_kept
        });
        let passed_over = shown_again - found.len();
        // Members that share a single key follow, oldest first, as far as there is room.
        let mut visited = 0;
        let mut last = 0;
        while found.len() < most
            && let Some(left) = once.get_mut(visited..).filter(|left| !left.is_empty())
        {
            let next = most.min(left.len());
            if next < left.len() {
                left.select_nth_unstable(next);
            }
            let (oldest, _) = left.split_at_mut(next);
            oldest.sort_unstable();
            oldest.iter().for_each(|position| self.members.prefetch(*position));
            let single = oldest.iter().filter(|&&position| shared_keys(position) == 1 && is_wanted(position));
            found.extend(single.map(|position| (Reverse(1), *position)));
            last = oldest.last().map_or(last, |position| position + 1);
            visited += next;
        }
        let others = once.len() - visited - several.iter().filter(|position| **position >= last).count();
        let left_out = (found.len() + passed_over + others).saturating_sub(most);
        found.truncate(most);
        (found, left_out)
    }

    /// Returns the members with a page's title, in each family that the page may belong to: the oldest [`MAX_OF_TITLE`]
    /// for which `is_wanted` holds, in order. They need not share any other key, because only the title may differ from
    /// the head.
    pub(super) fn of_title(
        &self,
        keys: &[FamilyKeys],
        positions: &Range<u64>,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let mut found = Vec::new();
        for keys in keys.iter().filter(|keys| keys.title() != 0) {
            // A table also shows members whose tags are equal by chance.
            self.each_with(keys, TITLES, positions, |position| {
                let held = self.members.keys(position);
                if held.is_some_and(|held| held.head == keys.head && held.title() == keys.title())
                    && is_wanted(position)
                {
                    found.push(position);
                }
            });
        }
        found.sort_unstable();
        found.truncate(MAX_OF_TITLE);
        found
    }

    /// Shows every member that has one of the keys, once for each key, and members whose tags are equal by chance.
    /// Prefetches first: there are sixteen cache lines for each family, anywhere in memory.
    fn show(&self, keys: &[FamilyKeys], positions: &Range<u64>, mut visit: impl FnMut(u64)) {
        let Some(tables) = &self.tables else { return };
        let in_tables = |keys: &FamilyKeys| {
            let keys = *keys;
            (0..TABLES).map(move |table| keys.in_table(table).unwrap_or(0))
        };
        keys.iter().for_each(|keys| tables.prefetch(in_tables(keys)));
        keys.iter().for_each(|keys| tables.prefetch_runs(in_tables(keys)));
        for keys in keys {
            (0..KEYS).for_each(|table| self.each_with(keys, table, positions, &mut visit));
        }
    }

    /// Returns which of the keys already have the maximum number of live members. No further members are stored under
    /// them.
    pub(super) fn full(
        &self,
        keys: &FamilyKeys,
        positions: &Range<u64>,
        most: usize,
        is_live: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = usize> {
        let mut shown = Vec::new();
        (0..TABLES).filter(move |&table| {
            shown.clear();
            self.each_with(keys, table, positions, |position| shown.push(position));
            let members = MemberKeys(&self.members);
            let key = keys.in_table(table);
            let live = |position: &&u64| members.key(table, **position) == key && is_live(**position);
            key.is_some() && shown.len() >= most && shown.iter().filter(live).take(most).count() >= most
        })
    }

    /// Shows every member with this key, and members whose tags are equal by chance.
    fn each_with(&self, keys: &FamilyKeys, table: usize, positions: &Range<u64>, visit: impl FnMut(u64)) {
        if let (Some(tables), Some(key)) = (&self.tables, keys.in_table(table)) {
            tables.equal(table, key, positions, visit);
        }
    }

    /// Drops the members before a position, which the ring is about to drop.
    pub(super) fn drop_before(&mut self, front: u64) {
        if self.members.held.is_empty() && self.tables.is_none() {
            return;
        }
        self.members.drop_before(front);
        if self.members.held.is_empty() {
            (self.tables, self.members) = (None, Members::default());
        }
    }

    /// Passes deferred maintenance tasks to `hand_over`: see [`dupgate_index::HammingIndex::maintenance`].
    pub(super) fn maintenance(&mut self, hand_over: &mut impl FnMut(Task<'static>)) {
        self.tables.iter_mut().for_each(|tables| tables.maintenance(hand_over));
    }

    /// Returns the memory reserved, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.members.held.capacity() * size_of::<Member>()
            + self.members.ranks.memory_bytes()
            + self.members.of_heads.capacity() * size_of::<(u64, u32)>()
            + self.tables.as_ref().map_or(0, Tables::memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys of few values in few families: many are shared.
    fn keys() -> impl Strategy<Value = FamilyKeys> {
        let by_table = prop::array::uniform17(prop_oneof![2 => Just(0_u32), 3 => 1_u32..4]);
        (0_u64..4, by_table).prop_map(|(head, by_table)| FamilyKeys { head, by_table })
    }

    fn share_a_key(one: &FamilyKeys, other: &FamilyKeys, table: usize) -> bool {
        one.in_table(table).is_some() && one.in_table(table) == other.in_table(table)
    }

    /// Members at some of the positions 0, 1, …, as the ring hands them over; those before `front` are dropped.
    /// Those at multiples of seven are removed as soon as there are three after them.
    fn held(members: &mut [Option<FamilyKeys>], front: u64) -> (Families, Range<u64>) {
        let mut families = Families::new();
        for (position, member) in (0..).zip(&*members) {
            families.push(0..position + 1, *member);
            if position % 7 == 3 {
                families.remove(&(0..position + 1), position - 3);
            }
        }
        let removed = members.len().saturating_sub(3);
        members[..removed].iter_mut().step_by(7).for_each(|member| *member = None);
        families.drop_before(front);
        (families, front..members.len() as u64)
    }

    proptest! {
        #[test]
        fn members_that_share_the_most_keys_are_found_and_of_equal_ones_the_oldest(
            mut members in prop::collection::vec(prop::option::weighted(0.8, keys()), 1..80),
            (mut wanted, most, front) in (prop::collection::vec(keys(), 0..4), 1_usize..12, 0_u64..40),
        ) {
            let (families, positions) = held(&mut members, front);
            // One for each family that is asked for.
            wanted.sort_by_key(|keys| keys.head);
            wanted.dedup_by_key(|keys| keys.head);
            let is_wanted = |position: u64| !position.is_multiple_of(5);
            let mut expected: Vec<(Reverse<usize>, u64)> = positions
                .clone()
                .filter(|&position| is_wanted(position))
                .filter_map(|position| {
                    let member = members[usize::try_from(position).unwrap()]?;
                    let wanted = wanted.iter().find(|keys| keys.head == member.head)?;
                    let shared = (0..KEYS).filter(|&table| share_a_key(wanted, &member, table)).count();
                    (shared > 0).then_some((Reverse(shared), position))
                })
                .collect();
            expected.sort_unstable();
            let too_many = expected.len().saturating_sub(most);
            expected.truncate(most);
            let (found, left_out) = families.sharing(&wanted, &positions, most, is_wanted);
            prop_assert_eq!(found, expected);
            prop_assert!(left_out >= too_many, "{} left out, at least {} were", left_out, too_many);
            prop_assert!(left_out <= members.len().saturating_sub(most), "{} left out", left_out);
        }

        #[test]
        fn the_oldest_members_of_a_title_are_found(
            mut members in prop::collection::vec(prop::option::weighted(0.8, keys()), 1..200),
            (wanted, front) in (keys(), 0_u64..40),
        ) {
            let (families, positions) = held(&mut members, front);
            let is_wanted = |position: u64| !position.is_multiple_of(5);
            let has_title = |keys: FamilyKeys| keys.head == wanted.head && share_a_key(&wanted, &keys, TITLES);
            let of_title = |position: &u64| members[usize::try_from(*position).unwrap()].is_some_and(has_title);
            let expected: Vec<u64> =
                positions.clone().filter(|&position| is_wanted(position)).filter(of_title).take(MAX_OF_TITLE).collect();
            prop_assert_eq!(families.of_title(&[wanted], &positions, is_wanted), expected);
        }

        #[test]
        fn keys_of_many_live_members_are_full(
            mut members in prop::collection::vec(prop::option::weighted(0.8, keys()), 1..80),
            (wanted, most, front) in (keys(), 1_usize..30, 0_u64..40),
        ) {
            let (families, positions) = held(&mut members, front);
            let is_live = |position: u64| !position.is_multiple_of(3);
            let expected: Vec<usize> = (0..TABLES)
                .filter(|&table| {
                    let has = |position: &u64| {
                        let member = members[usize::try_from(*position).unwrap()];
                        member.is_some_and(|member| share_a_key(&wanted, &member, table))
                    };
                    positions.clone().filter(|position| is_live(*position)).filter(has).count() >= most
                })
                .collect();
            prop_assert_eq!(families.full(&wanted, &positions, most, is_live).collect::<Vec<_>>(), expected);
        }
    }
}
