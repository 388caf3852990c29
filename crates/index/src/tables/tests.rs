//! Compares tables of several keys with a list and two loops.

use proptest::prelude::*;

use super::*;
use crate::layout::{ExactTags, FuzzyTags};
use crate::shape::WholeKey;

struct List {
    keys: Vec<[Option<u64>; 4]>,
    first: u64,
}

impl Keys for List {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        let at = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.keys.get(at)?[table]
    }
}

/// A list with the keys of some tables only.
struct Some4<'a>(&'a List, [bool; 4]);

impl Keys for Some4<'_> {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        self.0.key(table, position).filter(|_| self.1[table])
    }
}

/// For each entry the keys that it has, how far the tail moves after it, and how far after it an entry is removed
/// then, from which tables.
type Entries = Vec<([Option<u64>; 4], u64, Option<(usize, [bool; 4])>)>;

fn agrees_with_a_list<L: Layout>(first: u64, entries: &Entries) -> Result<(), TestCaseError> {
    // Keys that differ in the bits that choose the line.
    let spread = |key: u64| key.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let mut list = List { keys: Vec::new(), first };
    let mut tables = Tables::<L>::of_plan(vec![Keyed::WHOLE; 4], 50, Backend::detect(), first);
    let mut tail = first;
    for (keys, expire, remove) in entries {
        let asked = keys.map(|key| key.unwrap_or(9)).map(spread);
        let positions = tail..first + list.keys.len() as u64;
        let shared = |position| (0..4).filter(|&table| list.key(table, position) == Some(asked[table])).count();
        for times in 1..=4 {
            let expected: Vec<u64> = positions.clone().filter(|position| shared(*position) >= times).collect();
            let mut found = Vec::new();
            let least = u32::try_from(times).unwrap();
            tables.found_in(&asked, least, positions.clone(), |position| found.push(position));
            prop_assert!(found.is_sorted_by(|one, next| one < next), "{:?}", found);
            // So few entries have marks of their own.
            prop_assert_eq!(found, expected);
        }
        for (number, key) in asked.iter().enumerate() {
            let mut visited = 0;
            tables.equal(number, *key, &positions, |_| visited += 1);
            prop_assert!(visited <= tables.most_found(number, *key));
            prop_assert!(tables.crowded(visited).any(|crowded| crowded == number));
        }
        list.keys.push(keys.map(|key| key.map(spread)));
        let head = first + list.keys.len() as u64;
        tables.insert(&list, tail..head);
        tail = head.min(tail + expire);
        if let Some((back, from)) = remove
            && let Some(at) = list.keys.len().checked_sub(back + 1)
        {
            tables.remove(&Some4(&list, *from), &(tail..head), first + at as u64);
            list.keys[at].iter_mut().zip(from).filter(|(_, from)| **from).for_each(|(key, _)| *key = None);
        }
    }
    Ok(())
}

/// Now many are held, so that tables grow, now few.
fn entries() -> impl Strategy<Value = Entries> {
    let expire = prop_oneof![0..3_u64, prop_oneof![9 => Just(0_u64), 1 => Just(1)]];
    expire.prop_flat_map(|most| {
        let keys = prop::array::uniform4(prop::option::weighted(0.9, 0..6_u64));
        prop::collection::vec(
            (
                keys,
                0..=most,
                prop::option::weighted(0.3, (0..60_usize, prop::array::uniform4(prop::bool::weighted(0.7)))),
            ),
            1..400,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn entries_are_found_in_as_many_tables_as_they_share_keys(
        first in prop_oneof![Just(0), Just((1_u64 << 32) - 40)],
        entries in entries(),
    ) {
        agrees_with_a_list::<FuzzyTags>(first, &entries)?;
        agrees_with_a_list::<ExactTags>(first, &entries)?;
    }
}

struct Step<'a>(&'a mut Table<ExactTags>, Option<u64>, u64, Range<u64>);

impl Job for Step<'_> {
    type Output = Vec<u64>;

    /// Looks for a key, and inserts it after all others where there is one.
    fn run<C: Compare>(self) -> Vec<u64> {
        let Self(table, key, asked, positions) = self;
        let mut found = Vec::new();
        let alive = LiveWindow::between(positions.start, positions.end);
        table.probe::<C>(asked, 0, alive, &mut |_, held| found.push(positions.start + u64::from(held.age)));
        let alive = LiveWindow::between(positions.start, positions.end + 1);
        if let Some(key) = key {
            table.insert::<C>(key, id_of(positions.end), alive, |_| None);
        }
        if table.is_swept_at(positions.end) {
            table.sweep::<C>(alive);
        }
        found.sort_unstable();
        found
    }
}

#[test]
fn nothing_is_found_twice_or_lost_when_short_ids_come_round() {
    for backend in Backend::available() {
        // 4,096 ids, of which 1,024 may live; a line is swept every 32 positions.
        let layout = ExactTags { tag_bits: 20 };
        let first = (1 << 32) - 5_000;
        let mut table = Table::new(layout, WholeKey, Buckets::with_room(40), first);
        let mut held: Vec<(u64, u64)> = Vec::new();
        let (mut bits, mut tail) = (1_u64, first);
        for position in first..first + 50_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Now few, now many, now for a long time none, and heavy keys beside light ones.
            let window = if position % 7_000 < 2_000 { 1_000 } else { 300 };
            let key = (bits >> 33) % if bits >> 63 == 0 { 5 } else { 400 };
            let key = (position % 11_000 > 3_000).then_some(key.wrapping_mul(0xD6E8_FEB8_6659_FD93));
            let asked = key.unwrap_or(0);
            tail = tail.max(position - window);
            held.retain(|(at, _)| *at >= tail);
            let expected: Vec<u64> = held.iter().filter(|(_, key)| *key == asked).map(|(at, _)| *at).collect();
            assert_eq!(backend.run(Step(&mut table, key, asked, tail..position)), expected, "at {position}");
            held.extend(key.map(|key| (position, key)));
        }
    }
}

#[test]
fn dense_tables_make_their_ids_longer_before_they_are_too_short() {
    // Few entries have a key, so that the tables stay small while the window gets long.
    struct Few;
    impl Keys for Few {
        fn key(&self, _: usize, position: u64) -> Option<u64> {
            position.is_multiple_of(100_000).then(|| (position + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93))
        }
    }
    let mut tables = Tables::<ExactTags>::new(1, 0);
    let most = |tables: &Tables<ExactTags>| tables.all[0].most_positions();
    let before = most(&tables);
    let head = before + 1_000_000;
    for head in 1..=head {
        tables.insert_of(&Few, &(0..head), head / 100_000 + 1, |_| Few.key(0, head - 1));
    }
    assert!(most(&tables) >= head, "{} of {head}", most(&tables));
    for position in (0..head).step_by(100_000) {
        let mut found = Vec::new();
        tables.equal(0, Few.key(0, position).unwrap(), &(0..head), |position| found.push(position));
        assert!(found.contains(&position));
    }
}

/// Keys that are like no other.
struct Spread;

impl Keys for Spread {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        Some((position ^ (table as u64) << 40).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }
}

#[test]
fn tables_grow_under_way_and_shrink_when_idle() {
    let mut tables = Tables::<FuzzyTags>::new(3, 0);
    for head in 1..=20_000 {
        tables.insert(&Spread, 0..head);
    }
    let lines: Vec<u64> = tables.stats().iter().map(|table| table.lines).collect();
    assert!(lines.iter().all(|lines| (2_500..20_000).contains(lines)), "{lines:?}");
    for position in (0..20_000).step_by(777) {
        let keys = [0, 1, 2].map(|table| Spread.key(table, position).unwrap());
        let mut found = Vec::new();
        tables.found_in(&keys, 3, 0..20_000, |position| found.push(position));
        assert_eq!(found, [position]);
    }
    tables.shrink_if_idle(&Spread, &(19_990..20_000), 10);
    assert!(tables.stats().iter().all(|table| table.lines < 100));
    let mut found = Vec::new();
    tables.equal(2, Spread.key(2, 19_995).unwrap(), &(19_990..20_000), |position| found.push(position));
    assert_eq!(found, [19_995]);
}

#[test]
fn a_crowd_that_has_expired_is_swept_away() {
    /// First many that are alike, then none.
    struct CrowdFirst;
    impl Keys for CrowdFirst {
        fn key(&self, table: usize, position: u64) -> Option<u64> {
            Spread.key(table, if position < 300 { 7 } else { position })
        }
    }
    let mut tables = Tables::<FuzzyTags>::new(2, 0);
    let mut met = Vec::new();
    for head in 1..=20_000_u64 {
        tables.insert(&CrowdFirst, head.saturating_sub(300)..head);
        met.push(tables.most_met());
    }
    assert!(met[299] >= 2 * 280, "{} are met by a probe for one of the crowd", met[299]);
    assert!(met[19_999] < 2 * 30, "{} are met long after", met[19_999]);
    for table in tables.stats() {
        assert!(table.largest < 30 && table.overflowed * 10 < table.lines, "{table:?}");
    }
}

/// A part of the positions shares one key, in turns many and few of them.
struct CrowdInTurns;

/// Positions of a turn: enough for two sweeps of all lines.
const TURN: u64 = 12_000;

impl Keys for CrowdInTurns {
    fn key(&self, table: usize, position: u64) -> Option<u64> {
        let every = if (position / TURN).is_multiple_of(2) { 3 } else { 50 };
        Spread.key(table, if position.is_multiple_of(every) { 7 } else { position })
    }
}

fn a_table_is_crowded_while_a_crowd_is_visited<L: Layout>() {
    let mut tables = Tables::<L>::new(1, 0);
    let crowd = Spread.key(0, 7).unwrap();
    let mut visited_at_the_end_of_a_turn = Vec::new();
    for head in 1..=4 * TURN {
        let positions = head.saturating_sub(300)..head;
        tables.insert(&CrowdInTurns, positions.clone());
        let mut visited = 0;
        tables.equal(0, crowd, &positions, |_| visited += 1);
        assert!(visited <= tables.most_found(0, crowd), "{visited} at {head}");
        assert_eq!(tables.crowded(visited).count(), 1, "{visited} at {head}");
        if head.is_multiple_of(TURN) {
            visited_at_the_end_of_a_turn.push(visited);
            assert_eq!(tables.crowded(64).count(), usize::from(visited >= 64), "at {head}");
        }
    }
    assert_eq!(visited_at_the_end_of_a_turn, [100, 6, 100, 6]);
}

#[test]
fn tables_are_crowded_while_a_crowd_comes_and_goes() {
    a_table_is_crowded_while_a_crowd_is_visited::<ExactTags>();
    a_table_is_crowded_while_a_crowd_is_visited::<FuzzyTags>();
}

#[test]
fn a_position_that_shares_enough_keys_is_shown_among_very_many_that_share_one() {
    // In table 0 all share a key, in the others each has its own; every thousandth has that of position 0 as well.
    struct Crowd;
    impl Keys for Crowd {
        fn key(&self, table: usize, position: u64) -> Option<u64> {
            let own = if table == 0 || (table < 3 && position.is_multiple_of(1_000)) { 0 } else { position };
            Spread.key(table, own)
        }
    }
    let mut tables = Tables::<ExactTags>::new(4, 0);
    for head in 1..=100_000 {
        tables.insert(&Crowd, 0..head);
    }
    let keys = [0, 1, 2, 3].map(|table| Crowd.key(table, 0).unwrap());
    for (times, expected) in [(1, 100_000), (2, 100), (3, 100), (4, 1)] {
        let mut found = Vec::new();
        tables.found_in(&keys, times, 0..100_000, |position| found.push(position));
        let shared = |position: &u64| (0..4).filter(|table| Crowd.key(*table, *position) == Some(keys[*table])).count();
        let enough = found.iter().filter(|position| shared(position) >= times as usize).count();
        assert_eq!(enough, expected, "{times}");
        // A mark serves for two positions here.
        assert!(found.len() <= if times < 3 { 100_000 } else { 200 }, "{} for {times}", found.len());
    }
}

#[test]
fn runs_are_read_in_each_of_very_many_tables() {
    // In every third table all share a key, in the others each has its own.
    struct CrowdInThirds;
    impl Keys for CrowdInThirds {
        fn key(&self, table: usize, position: u64) -> Option<u64> {
            Spread.key(table, if table.is_multiple_of(3) { 0 } else { position })
        }
    }
    let mut tables = Tables::<ExactTags>::new(200, 0);
    (1..=100).for_each(|head| tables.insert(&CrowdInThirds, 0..head));
    let keys: Vec<u64> = (0..200).map(|table| CrowdInThirds.key(table, 1_000).unwrap()).collect();
    for (times, expected) in [(1, 100), (67, 100), (68, 0)] {
        let mut found = Vec::new();
        tables.found_in(&keys, times, 0..100, |position| found.push(position));
        assert_eq!(found.len(), expected, "{times}");
    }
}

#[test]
fn no_table_of_many_keeps_its_old_size() {
    let mut tables = Tables::<FuzzyTags>::new(64, 0);
    for head in 1..=30_000_u32 {
        tables.insert(&Spread, 0..u64::from(head));
        if head % 1_000 == 0 {
            let lines = tables.stats().iter().map(|table| table.lines).min().unwrap();
            let load = f64::from(head) / f64::from(u32::try_from(lines).unwrap());
            assert!(load < FuzzyTags::LOAD * 2.0, "{load} entries to a line at {head}");
        }
    }
}
