//! Tables of several keys against a list and two loops.

use proptest::prelude::*;

use super::*;

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

proptest! {
    #[test]
    fn entries_are_found_in_as_many_tables_as_they_share_keys(
        first in prop_oneof![Just(0), Just((1_u64 << 32) - 40)],
        entries in prop::collection::vec((prop::array::uniform4(prop::option::weighted(0.9, 0..6_u64)), 0..3_u64), 1..200),
    ) {
        // Keys that differ in the bits that choose the line.
        let spread = |key: u64| key.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mut list = List { keys: Vec::new(), first };
        let mut tables = Tables::starting_at(vec![Keyed::WHOLE; 4], 50, Engine::detect(), first);
        let mut tail = first;
        for (keys, expire) in entries {
            let asked = keys.map(|key| key.unwrap_or(9)).map(spread);
            for times in 1..=4 {
                let mut expected = Vec::new();
                for position in tail..first + list.keys.len() as u64 {
                    let same = (0..4).filter(|&table| list.key(table, position) == Some(asked[table])).count();
                    if same >= times {
                        expected.push((position, u32::try_from(same).unwrap()));
                    }
                }
                let mut found = Vec::new();
                let positions = tail..first + list.keys.len() as u64;
                tables.found_in(&asked, u32::try_from(times).unwrap(), positions, |position, same| found.push((position, same)));
                prop_assert_eq!(found, expected);
            }
            list.keys.push(keys.map(|key| key.map(spread)));
            let head = first + list.keys.len() as u64;
            tables.insert(&list, tail..head);
            tail = head.min(tail + expire);
        }
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
    let mut tables = Tables::new(3, 0);
    for head in 1..=20_000 {
        tables.insert(&Spread, 0..head);
    }
    let lines: Vec<u64> = tables.stats().iter().map(|table| table.lines).collect();
    assert!(lines.iter().all(|lines| (2_500..20_000).contains(lines)), "{lines:?}");
    for position in (0..20_000).step_by(777) {
        let keys = [0, 1, 2].map(|table| Spread.key(table, position).unwrap());
        let mut found = Vec::new();
        tables.found_in(&keys, 3, 0..20_000, |position, _| found.push(position));
        assert_eq!(found, [position]);
    }
    tables.shrink_if_idle(&Spread, &(19_990..20_000), 10);
    assert!(tables.stats().iter().all(|table| table.lines < 100));
    let mut found = Vec::new();
    tables.equal(2, Spread.key(2, 19_995).unwrap(), &(19_990..20_000), |position| found.push(position));
    assert_eq!(found, [19_995]);
}

#[test]
fn no_table_of_many_is_left_behind() {
    let mut tables = Tables::new(64, 0);
    for head in 1..=30_000_u32 {
        tables.insert(&Spread, 0..u64::from(head));
        if head % 1_000 == 0 {
            let lines = tables.stats().iter().map(|table| table.lines).min().unwrap();
            let load = f64::from(head) / f64::from(u32::try_from(lines).unwrap());
            assert!(load < LOAD * 2.0, "{load} entries to a line at {head}");
        }
    }
}
