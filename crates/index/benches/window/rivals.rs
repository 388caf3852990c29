//! What others do, in this process: comparing all, lists by band, lists by bit, permuted tables.
//!
//! Measured where it is bearable; numbers of a smaller window are named so, and never extrapolated without saying it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use dupgate_index::{HammingIndex, Plan, Width};
use serde::Serialize;

use crate::REACH;
use crate::data::Data;
use crate::machine::timed;

/// Entries of a window in which slow rivals are measured.
const SMALL: usize = 20_000;

/// Entries of a window in which Manku's tables are measured: they take a kilobyte each.
const MEDIUM: usize = 500_000;

/// Time of one operation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rival {
    pub(crate) ns: f64,
    /// Entries of the window in which it was measured.
    pub(crate) measured_at: usize,
    /// Whether the number grows in proportion to the window from there.
    pub(crate) extrapolated: bool,
}

/// Measures all of them.
pub(crate) fn run(data: &Data) -> BTreeMap<String, Rival> {
    let mut rivals = BTreeMap::new();
    let mut add = |name: &str, (ns, measured_at, extrapolated)| {
        rivals.insert(name.to_owned(), Rival { ns, measured_at, extrapolated });
    };
    add("compare all", (brute(data), data.window, false));
    if data.window <= 10_000_000 {
        add("4 x HashMap lists", (lists(data), data.window, false));
    }
    let share = data.window as f64 / SMALL as f64;
    add("64 lists by bit, extrapolated", (by_bit(data) * share, SMALL, true));
    let manku = data.window.min(MEDIUM);
    add(&format!("Manku 20 tables, at {manku}"), (permuted(data, manku), manku, false));
    rivals
}

/// Compares with every code, as fast as the index does where it has to.
fn brute(data: &Data) -> f64 {
    let plan = Plan::all(Width::B64, 0).into_iter().next().unwrap();
    let mut near = HammingIndex::with_plan(plan, data.window as u64);
    near.restore(data.codes[..data.window].iter().copied().map(Some));
    let probes = (200_000_000 / data.window).clamp(10, 500);
    let (ns, ()) = timed(|| {
        for &code in &data.codes[data.window..data.window + probes] {
            std::hint::black_box(near.nearest(code, REACH));
        }
    });
    ns / probes as f64
}

fn best(codes: &[u64], of: impl Iterator<Item = u32>, code: u64) -> Option<(u32, u32)> {
    let near = of.map(|id| ((codes[id as usize] ^ code).count_ones(), id));
    near.filter(|(distance, _)| *distance <= u32::from(REACH)).min()
}

/// The design of the tutorials: a list of ids for each value of each quarter.
fn lists(data: &Data) -> f64 {
    let key = |code: u64, band: usize| (code >> (16 * band)) as u16;
    let mut bands: Vec<HashMap<u16, VecDeque<u32>>> = vec![HashMap::new(); 4];
    let insert = |bands: &mut Vec<HashMap<u16, VecDeque<u32>>>, id: usize| {
        for (number, band) in bands.iter_mut().enumerate() {
            band.entry(key(data.codes[id], number)).or_default().push_back(id as u32);
        }
    };
    (0..data.window).for_each(|id| insert(&mut bands, id));
    let operations = data.planted.len().min(50_000);
    let (ns, ()) = timed(|| {
        for id in data.window..data.window + operations {
            let code = data.codes[id];
            let ids = bands.iter().enumerate().filter_map(|(number, band)| band.get(&key(code, number)));
            std::hint::black_box(best(&data.codes, ids.flatten().copied(), code));
            insert(&mut bands, id);
            let oldest = id - data.window;
            for (number, band) in bands.iter_mut().enumerate() {
                band.get_mut(&key(data.codes[oldest], number)).unwrap().pop_front();
            }
        }
    });
    ns / operations as f64
}

/// A list of ids for each value of each bit: whatever shares 61 of 64 bits is near.
fn by_bit(data: &Data) -> f64 {
    let mut lists: Vec<[VecDeque<u32>; 2]> = vec![[VecDeque::new(), VecDeque::new()]; 64];
    let insert = |lists: &mut Vec<[VecDeque<u32>; 2]>, id: usize| {
        for (bit, list) in lists.iter_mut().enumerate() {
            list[(data.codes[id] >> bit & 1) as usize].push_back(id as u32);
        }
    };
    (0..SMALL).for_each(|id| insert(&mut lists, id));
    let operations = 100;
    let (ns, ()) = timed(|| {
        let mut shared = vec![0_u8; SMALL + operations];
        for id in SMALL..SMALL + operations {
            let code = data.codes[id];
            shared.fill(0);
            for (bit, list) in lists.iter().enumerate() {
                for &held in &list[(code >> bit & 1) as usize] {
                    shared[held as usize] += 1;
                }
            }
            std::hint::black_box(shared.iter().position(|&bits| bits >= 64 - REACH));
            insert(&mut lists, id);
            let oldest = data.codes[id - SMALL];
            for (bit, list) in lists.iter_mut().enumerate() {
                list[(oldest >> bit & 1) as usize].pop_front();
            }
        }
    });
    ns / operations as f64
}

/// Manku, Jain and Das Sarma (WWW 2007): six blocks, one table for each three that may be left alone.
fn permuted(data: &Data, window: usize) -> f64 {
    let block = |number: u32| (u64::MAX >> (64 - (64 * (number + 1) / 6 - 64 * number / 6))) << (64 * number / 6);
    let mut masks = Vec::new();
    for choice in 0_u32..64 {
        if choice.count_ones() == 3 {
            masks.push((0..6).filter(|number| choice >> number & 1 == 1).map(block).sum::<u64>());
        }
    }
    let mut tables: Vec<HashMap<u64, VecDeque<u32>>> = vec![HashMap::new(); masks.len()];
    let insert = |tables: &mut Vec<HashMap<u64, VecDeque<u32>>>, id: usize| {
        for (table, mask) in tables.iter_mut().zip(&masks) {
            table.entry(data.codes[id] & mask).or_default().push_back(id as u32);
        }
    };
    (0..window).for_each(|id| insert(&mut tables, id));
    let operations = 50_000.min(data.codes.len() - window);
    let (ns, ()) = timed(|| {
        for id in window..window + operations {
            let code = data.codes[id];
            let ids = tables.iter().zip(&masks).filter_map(|(table, mask)| table.get(&(code & mask)));
            std::hint::black_box(best(&data.codes, ids.flatten().copied(), code));
            insert(&mut tables, id);
            let oldest = data.codes[id - window];
            for (table, mask) in tables.iter_mut().zip(&masks) {
                if let Some(ids) = table.get_mut(&(oldest & mask)) {
                    ids.pop_front();
                    if ids.is_empty() {
                        table.remove(&(oldest & mask));
                    }
                }
            }
        }
    });
    ns / operations as f64
}
