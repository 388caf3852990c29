//! Chooses the tables, by the distance, the number of entries, the memory and what real codes look like.
//!
//! The bits of a code are cut into parts, and part i is given a radius t. When the sum of all t + 1 is k + 1, any k
//! changed bits leave some part with at most t of them (the general pigeonhole of Norouzi, Punjani and Fleet, CVPR
//! 2012). A part of radius 0 is a key as it is. A part of radius 1 can be one table that is probed with each bit of the
//! key flipped (Liu, Shen and Torng, ICDE 2011); its key has only as many bits as are needed to choose a line. Or the
//! part is cut into s blocks and has s tables, each keyed by all blocks but one (Manku, Jain and Das Sarma, WWW 2007).
//!
//! A table searches one word of 64 bits. Codes of 128 bits have two words: no part lies across both, and each word gets
//! half of the k + 1, so that the tables of each word are those of a 64-bit plan for about half of the distance. A code
//! of 32 bits is the lower half of a word, and only that half is cut.
//!
//! A [`Proof`] shows that the tables of a plan find every pair within the distance. A table finds a pair when the
//! difference of both codes has at most `radius` ones under its mask. That depends only on the number of ones in each
//! *atom*: bits that belong to the same masks. Tables whose masks overlap, directly or through others, form a group; no
//! two groups share a bit. For each group, the proof tries every way to spread ones over its atoms, and finds the
//! fewest ones that escape all its tables. A difference escapes all tables when it escapes every group, so the fewest
//! ones that do are the sum over the groups. If the sum is more than k, nothing within k bits is missed. Nothing is
//! sampled.
//!
//! The two words of a 128-bit code have tables of their own, which share no bit, so every group belongs to one word.
//! Therefore, a proof for 128 bits costs no more than two for 64.

use std::fmt;

use crate::codeword::Codeword;
use crate::layout::{FuzzyTags, Layout};
use crate::shape::{Addressing, Bits, Shape};
use crate::table::lines_for;
use crate::{MAX_DISTANCE, Width};

/// The most codes of a sample that are used.
const MAX_SAMPLED: usize = 65_536;

/// Cost of a prefetched line, including hint and comparison, in nanoseconds.
const LINE_NS: f64 = 20.0;

/// Cost of an insert into one table.
const INSERT_NS: f64 = 35.0;

/// Cost of a run that is prefetched once its line has arrived.
const RUN_NS: f64 = 25.0;

/// Cost of one code in a run.
const CODE_NS: f64 = 0.5;

/// How a part of the code is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// One table, probed with every difference of this many bits.
    Flips(u32),
    /// One table for each of this many blocks, keyed by all blocks but that one.
    Keep(u32),
}

/// The key of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keyed {
    stretches: [Bits; 2],
    radius: u32,
    /// Width of the word that they are cut from, in bits.
    word: u32,
}

impl Keyed {
    /// The whole code, as it is.
    pub(crate) const WHOLE: Self =
        Self { stretches: [Bits { from: 0, width: 64 }, Bits { from: 0, width: 0 }], radius: 0, word: 64 };

    /// Returns the shape of a table with this many lines. A key whose bits are flipped is only as long as needed to
    /// choose one.
    pub(crate) fn shape(&self, lines: u64) -> Shape {
        let [mut one, two] = self.stretches;
        if self.radius > 0 {
            let enough = lines.max(2).next_power_of_two().trailing_zeros();
            one.width = one.width.min(enough);
        }
        Shape::new(self.word, [one, two], self.radius)
    }

    /// Returns the mean number of entries in a line, in a table of full size.
    pub(crate) fn load<L: Layout>(&self) -> f64 {
        if self.radius == 0 { L::LOAD } else { L::LOAD_WITH_FLIPS }
    }

    /// Returns how many lines a table for this many entries has.
    pub(crate) fn lines_for<L: Layout>(&self, entries: u64) -> u64 {
        lines_for(entries, self.load::<L>(), self.most_lines().ilog2())
    }

    /// Returns the largest useful number of lines.
    pub(crate) fn most_lines(&self) -> u64 {
        let bits: u32 = self.stretches.iter().map(|bits| bits.width).sum();
        1_u64.checked_shl(bits).unwrap_or(u64::MAX)
    }
}

/// A set of tables that finds every pair within a distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    width: Width,
    max_distance: u8,
    parts: Vec<Search>,
    /// The tables, those of the lower word first.
    tables: Vec<Keyed>,
    /// How many tables search the lower word.
    lower: usize,
}

/// What a plan is chosen by.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequirements<'a> {
    /// Width of the codes.
    pub width: Width,
    /// Largest distance to find, inclusive; more than [`MAX_DISTANCE`] counts as that.
    pub max_distance: u8,
    /// Entries to be held.
    pub entries: u64,
    /// Memory that the tables may take for each entry, in bytes.
    pub bytes_per_entry: f64,
    /// Real codes, to see how often keys collide. If there are none, codes are assumed to be uniform.
    pub sample: &'a [u128],
}

/// A plan with its expected cost.
#[derive(Clone, Debug)]
pub struct PlanCandidate {
    /// The plan.
    pub plan: Plan,
    /// Cache lines read by one probe, including runs.
    pub lines_per_probe: f64,
    /// Entries of runs that one probe compares.
    pub compared_in_runs: f64,
    /// Memory of the tables for each entry, in bytes.
    pub bytes_per_entry: f64,
    /// Time of probe and insert, in nanoseconds, with prefetched lines.
    pub nanoseconds: f64,
    /// Whether the tables fit into the memory allowed.
    pub fits: bool,
}

/// Cuts a word into parts that get enough bits to make all keys about equally long.
fn cut(word: u32, parts: &[Search]) -> Vec<Keyed> {
    let share = |part: &Search| match part {
        Search::Flips(_) => 1.0,
        Search::Keep(blocks) => f64::from(*blocks) / f64::from(blocks - 1),
    };
    let all: f64 = parts.iter().map(share).sum();
    let (mut tables, mut from, mut shares) = (Vec::new(), 0, 0.0);
    for part in parts {
        shares += share(part);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 64")]
        let until = (f64::from(word) * shares / all).round() as u32;
        let bits = Bits { from, width: until - from };
        match *part {
            Search::Flips(radius) => {
                tables.push(Keyed { stretches: [bits, Bits { from: until, width: 0 }], radius, word });
            }
            Search::Keep(blocks) => tables.extend((0..blocks).map(|left_out| {
                let cut = |number: u32| from + bits.width * number / blocks;
                let (start, end) = (cut(left_out), cut(left_out + 1));
                let stretches = [Bits { from, width: start - from }, Bits { from: end, width: until - end }];
                Keyed { stretches, radius: 0, word }
            })),
        }
        from = until;
    }
    tables
}

/// Returns the radii t of as many parts as it takes for the sum of all t + 1 to be `sum`; none is above `widest`.
fn radii(sum: u32, widest: u32) -> Vec<u32> {
    let (mut radii, mut left) = (Vec::new(), sum);
    while left > 0 {
        let radius = widest.min(left - 1);
        radii.push(radius);
        left -= radius + 1;
    }
    radii
}

impl Plan {
    /// Creates the tables that search both words of the codes by these parts; codes of one word have no upper parts.
    fn new(width: Width, max_distance: u8, lower: Vec<Search>, upper: &[Search]) -> Self {
        let word = width.bits().min(64);
        let mut tables = cut(word, &lower);
        let in_lower = tables.len();
        tables.extend(cut(word, upper));
        let mut parts = lower;
        parts.extend(upper);
        Self { width, max_distance, parts, tables, lower: in_lower }
    }

    /// Returns every plan worth considering for codes of this width and this distance.
    #[must_use]
    pub fn all(width: Width, max_distance: u8) -> Vec<Self> {
        let max_distance = max_distance.min(MAX_DISTANCE);
        let sum = u32::from(max_distance) + 1;
        let upper = if width == Width::B128 { sum / 2 } else { 0 };
        let mut plans: Vec<Self> = Vec::new();
        for widest in 0..=2 {
            let mut search_by = |search: &dyn Fn(u32) -> Search| {
                let [lower, upper] =
                    [sum - upper, upper].map(|sum| radii(sum, widest).into_iter().map(search).collect::<Vec<Search>>());
                plans.push(Self::new(width, max_distance, lower, &upper));
            };
            search_by(&Search::Flips);
            if widest == 1 {
                for blocks in 2..=6 {
                    search_by(&|radius| if radius == 1 { Search::Keep(blocks) } else { Search::Flips(0) });
                }
            }
        }
        plans.sort_by_cached_key(Self::to_string);
        plans.dedup_by_key(|plan| plan.to_string());
        // A plan without a proof is not a candidate.
        plans.retain(|plan| plan.prove().is_ok());
        plans.sort_by_key(|plan| plan.tables.len());
        plans
    }

    /// Chooses the fastest plan that fits into the memory, or the smallest if none fits.
    #[must_use]
    pub fn choose(requirements: &PlanRequirements<'_>) -> Self {
        let candidates = Self::candidates(requirements);
        let fastest = |candidates: &mut dyn Iterator<Item = &PlanCandidate>| {
            candidates
                .min_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds))
                .map(|candidate| candidate.plan.clone())
        };
        fastest(&mut candidates.iter().filter(|candidate| candidate.fits))
            .or_else(|| {
                let smallest =
                    candidates.iter().min_by(|one, other| one.bytes_per_entry.total_cmp(&other.bytes_per_entry));
                smallest.map(|candidate| candidate.plan.clone())
            })
            .unwrap_or_else(|| Self::new(requirements.width, requirements.max_distance.min(MAX_DISTANCE), vec![], &[]))
    }

    /// Returns all plans with their expected cost, fewest tables first.
    #[must_use]
    pub fn candidates(requirements: &PlanRequirements<'_>) -> Vec<PlanCandidate> {
        Self::all(requirements.width, requirements.max_distance)
            .into_iter()
            .map(|plan| plan.candidate(requirements))
            .collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "estimates")]
    fn candidate(self, requirements: &PlanRequirements<'_>) -> PlanCandidate {
        let entries = requirements.entries.max(1);
        let (mut lines, mut compared, mut bytes, mut ns) = (0.0, 0.0, 0.0, 0.0);
        for (number, keyed) in self.tables.iter().enumerate() {
            let count = keyed.lines_for::<FuzzyTags>(entries);
            let shape = keyed.shape(count);
            let load = entries as f64 / count as f64;
            let probes = shape.flips().len() as f64;
            // Entries that do not fit into the slots of a line: on average, and because keys collide as often as in the
            // sample.
            let spilled = (load - 8.0).max(0.0);
            let crowd = collisions(&shape, requirements.sample, self.word_of(number)) * entries as f64;
            let in_runs = probes * spilled + (crowd - spilled - 9.0).max(0.0);
            let runs = (probes * beyond_nine(load)).max(f64::from(u8::from(crowd > 9.0)));
            let run_lines = runs + in_runs / 8.0;
            lines += probes + run_lines;
            compared += in_runs;
            ns += INSERT_NS + probes * LINE_NS + runs * RUN_NS + in_runs * CODE_NS;
            // An entry's share of its line; in a run, also its own place and a share of the run's first block.
            bytes += 64.0 / load + 16.0 * (spilled / load) + beyond_nine(load).min(1.0) * 64.0 / load;
        }
        PlanCandidate {
            plan: self,
            lines_per_probe: lines,
            compared_in_runs: compared,
            bytes_per_entry: bytes,
            nanoseconds: ns,
            fits: bytes <= requirements.bytes_per_entry,
        }
    }

    /// Returns the width of the codes.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns the number of the word that a table searches.
    #[inline]
    pub(crate) fn word_of(&self, table: usize) -> usize {
        usize::from(table >= self.lower)
    }

    /// Returns the largest distance within which every pair is found.
    #[must_use]
    pub const fn max_distance(&self) -> u8 {
        self.max_distance
    }

    /// Returns how many tables there are.
    #[must_use]
    pub const fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Returns the key of each table.
    pub(crate) fn keyed(&self) -> &[Keyed] {
        &self.tables
    }

    /// Proves that every pair within the distance is found.
    ///
    /// # Errors
    ///
    /// [`Gap`] with a difference that would be missed. No plan of this module has one.
    pub fn prove(&self) -> Result<Proof, Gap> {
        let place =
            |(number, keyed): (usize, &Keyed)| Placed { shape: keyed.shape(u64::MAX >> 1), word: self.word_of(number) };
        let tables: Vec<Placed> = self.tables.iter().enumerate().map(place).collect();
        prove(self.width, &tables, u32::from(self.max_distance))
    }
}

impl fmt::Display for Plan {
    /// As in `2 parts of 3 blocks without 1, 1 part as they are`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut listed: Vec<Search> = Vec::new();
        for search in &self.parts {
            if listed.contains(search) {
                continue;
            }
            let count = self.parts.iter().filter(|part| *part == search).count();
            let plural = if count == 1 { "" } else { "s" };
            let and = if listed.is_empty() { "" } else { ", " };
            write!(f, "{and}{count} part{plural}")?;
            match search {
                Search::Flips(0) => write!(f, " as they are")?,
                Search::Flips(1) => write!(f, " with 1 bit flipped")?,
                Search::Flips(bits) => write!(f, " with {bits} bits flipped")?,
                Search::Keep(blocks) => write!(f, " of {blocks} blocks without 1")?,
            }
            listed.push(*search);
        }
        Ok(())
    }
}

/// Returns the probability that a line has more entries than slots, with this many in a line on average (Poisson).
fn beyond_nine(load: f64) -> f64 {
    let (mut term, mut within) = ((-load).exp(), 0.0);
    for count in 1..=10 {
        within += term;
        term *= load / f64::from(count);
    }
    (1.0 - within).clamp(0.0, 1.0)
}

/// Returns the share of all pairs of codes that have the same key, as far as a sample shows.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn collisions(shape: &Shape, sample: &[u128], word: usize) -> f64 {
    let uniform = 0.5_f64.powi(i32::try_from(shape.key_bits()).unwrap_or(64));
    let step = sample.len() / MAX_SAMPLED + 1;
    let mut keys: Vec<u64> = sample.iter().step_by(step).map(|code| code.word(word) & shape.mask()).collect();
    if keys.len() < 2 {
        return uniform;
    }
    keys.sort_unstable();
    let equal: f64 =
        keys.chunk_by(|one, other| one == other).map(|same| same.len() as f64 * (same.len() - 1) as f64).sum();
    (equal / (keys.len() as f64 * (keys.len() - 1) as f64)).max(uniform)
}

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Number of differences of at most k bits, all of them covered.
    pub differences: u64,
    /// Number of cases that were tried one by one.
    pub cases: u64,
}

/// A difference that no table covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the difference {difference:016x} of {} bits is found by no table", .difference.count_ones())]
pub struct Gap {
    /// One such difference.
    pub difference: u128,
}

/// The shape of a table, and the word of the codes that it searches.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The shape.
    pub(crate) shape: Shape,
    /// 0 for the lower 64 bits, 1 for the upper ones.
    pub(crate) word: usize,
}

impl Placed {
    const fn turn(&self) -> u32 {
        if self.word == 0 { 0 } else { 64 }
    }

    fn mask(&self) -> u128 {
        u128::from(self.shape.mask()) << self.turn()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a word is cut out")]
    const fn covers(&self, difference: u128) -> bool {
        self.shape.covers((difference >> self.turn()) as u64)
    }
}

/// Proves that the tables find every pair of codes of this width within `max_distance` bits.
pub(crate) fn prove(width: Width, tables: &[Placed], max_distance: u32) -> Result<Proof, Gap> {
    let mut left: Vec<&Placed> = tables.iter().collect();
    let (mut escape, mut cases) = (0_u128, 0);
    let differences = width.differences(max_distance);
    while let Some(first) = left.pop() {
        let (mut group, mut mask) = (vec![first], first.mask());
        while let Some(at) = left.iter().position(|table| table.mask() & mask != 0) {
            let joined = left.swap_remove(at);
            mask |= joined.mask();
            group.push(joined);
        }
        match fewest_that_escape(&group, mask, max_distance, &mut cases) {
            Some(ones) => escape |= ones,
            // This group alone finds every pair.
            None => return Ok(Proof { differences, cases }),
        }
    }
    if escape.count_ones() > max_distance { Ok(Proof { differences, cases }) } else { Err(Gap { difference: escape }) }
}

/// Finds a smallest difference, of at most `most` ones, that no table of a group covers.
fn fewest_that_escape(group: &[&Placed], mask: u128, most: u32, cases: &mut u64) -> Option<u128> {
    let mut atoms: Vec<u128> = Vec::new();
    for bit in (0..128).map(|bit| 1_u128 << bit).filter(|bit| mask & bit != 0) {
        let is_like = |atom: u128| group.iter().all(|table| (table.mask() & bit != 0) == (table.mask() & atom != 0));
        match atoms.iter_mut().find(|atom| is_like(**atom)) {
            Some(atom) => *atom |= bit,
            None => atoms.push(bit),
        }
    }
    let mut fewest: Option<u128> = None;
    spread(&atoms, most, 0, &mut |difference| {
        *cases += 1;
        let is_smaller = fewest.is_none_or(|fewest| difference.count_ones() < fewest.count_ones());
        if is_smaller && !group.iter().any(|table| table.covers(difference)) {
            fewest = Some(difference);
        }
    });
    fewest
}

/// Visits one difference for each way to spread at most `ones` over the atoms.
fn spread(atoms: &[u128], ones: u32, difference: u128, visit: &mut impl FnMut(u128)) {
    let Some((&atom, rest)) = atoms.split_first() else { return visit(difference) };
    let (mut here, mut left) = (0, atom);
    for taken in 0..=ones.min(atom.count_ones()) {
        spread(rest, ones - taken, difference | here, visit);
        here |= left & left.wrapping_neg();
        left &= left.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Bits;

    #[test]
    fn every_plan_is_proved() {
        for width in Width::ALL {
            for distance in 0..=8 {
                let plans = Plan::all(width, distance);
                assert!(plans.len() >= if distance < 3 { 1 } else { 6 }, "{plans:?}");
                for plan in plans {
                    let proof = plan.prove().unwrap_or_else(|gap| panic!("{plan}: {gap}"));
                    assert_eq!(proof.differences, width.differences(u32::from(distance)), "{plan}");
                    assert_eq!((plan.width(), plan.max_distance()), (width, distance));
                }
            }
        }
    }

    #[test]
    fn a_plan_that_lacks_any_table_has_a_gap() {
        for width in Width::ALL {
            for distance in 0..=8 {
                for plan in Plan::all(width, distance) {
                    for left_out in 0..plan.tables() {
                        let mut less = plan.clone();
                        less.tables.remove(left_out);
                        less.lower -= usize::from(left_out < less.lower);
                        let gap = less.prove().unwrap_err().difference;
                        let within = 128 - gap.leading_zeros() <= width.bits();
                        assert!(within && gap.count_ones() <= u32::from(distance), "{plan} without table {left_out}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_bit_of_a_code_is_left_out_of_all_keys_and_none_beyond_it_is_in_one() {
        for width in Width::ALL {
            for distance in 0..=8 {
                for plan in Plan::all(width, distance) {
                    let mut words = [0_u64; 2];
                    for (number, keyed) in plan.keyed().iter().enumerate() {
                        words[plan.word_of(number)] |= keyed.stretches[0].mask() | keyed.stretches[1].mask();
                    }
                    let upper = if distance == 0 { 0 } else { u64::MAX };
                    let expected = match width {
                        Width::B32 => [u64::from(u32::MAX), 0],
                        Width::B64 => [u64::MAX, 0],
                        // One equal word is key enough for equal codes.
                        Width::B128 => [u64::MAX, upper],
                    };
                    assert_eq!(words, expected, "{plan}");
                }
            }
        }
    }

    #[test]
    fn the_plans_for_three_bits_are_those_of_the_design() {
        let tables: Vec<usize> = Plan::all(Width::B64, 3).iter().map(Plan::tables).collect();
        assert_eq!(tables, [2, 2, 4, 4, 6, 8, 10, 12]);
        let names: Vec<String> = Plan::all(Width::B128, 4).iter().map(Plan::to_string).collect();
        assert_eq!(
            names[..2],
            ["1 part with 2 bits flipped, 1 part with 1 bit flipped", "2 parts with 1 bit flipped, 1 part as they are"]
        );
    }

    fn requirements(entries: u64, bytes_per_entry: f64) -> PlanRequirements<'static> {
        PlanRequirements { width: Width::B64, max_distance: 3, entries, bytes_per_entry, sample: &[] }
    }

    #[test]
    fn more_memory_buys_fewer_lines() {
        let wide = Plan::choose(&requirements(10_000_000, 200.0));
        let lean = Plan::choose(&requirements(10_000_000, 32.0));
        assert_eq!(lean.tables(), 2);
        assert!((6..=8).contains(&wide.tables()), "{wide}");
        assert_eq!(Plan::choose(&requirements(10_000_000, 1.0)).tables(), 2, "the smallest when none fits");
    }

    #[test]
    fn codes_that_share_much_ask_for_longer_keys() {
        let code = |code: u64| u128::from(code.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let uniform: Vec<u128> = (0..10_000).map(code).collect();
        let crowded: Vec<u128> = uniform.iter().map(|code| code & !0x00FF_0000_00FF_0000).collect();
        let with = |sample| Plan::choose(&PlanRequirements { sample, ..requirements(10_000_000, 200.0) }).tables();
        assert!(with(&crowded) > with(&uniform));
    }

    const NO_BITS: Bits = Bits { from: 0, width: 0 };

    fn bands(count: u32) -> Vec<Shape> {
        let band = |number| Bits { from: 64 * number / count, width: 64 * (number + 1) / count - 64 * number / count };
        (0..count).map(|number| Shape::new(64, [band(number), NO_BITS], 0)).collect()
    }

    fn placed(shapes: &[Shape], word: usize) -> Vec<Placed> {
        shapes.iter().map(|shape| Placed { shape: shape.clone(), word }).collect()
    }

    fn proved(shapes: &[Shape], distance: u32) -> Result<Proof, Gap> {
        prove(Width::B64, &placed(shapes, 0), distance)
    }

    #[test]
    fn two_words_need_as_many_bands_together_as_one_alone() {
        for distance in 1..=8 {
            for below in 0..=distance + 1 {
                let words = [placed(&bands(below), 0), placed(&bands(distance + 1 - below), 1)].concat();
                let proof = prove(Width::B128, &words, distance).unwrap();
                assert_eq!(proof.differences, Width::B128.differences(distance));
                for left_out in 0..words.len() {
                    let mut less = words.clone();
                    less.remove(left_out);
                    let gap = prove(Width::B128, &less, distance).unwrap_err().difference;
                    assert!(gap.count_ones() <= distance && !less.iter().any(|table| table.covers(gap)), "{gap:x}");
                }
            }
        }
    }

    #[test]
    fn as_many_bands_as_bits_differ_leave_a_gap_and_one_more_does_not() {
        for distance in 1..=8 {
            let gap = proved(&bands(distance), distance).unwrap_err();
            assert!(gap.difference.count_ones() <= distance);
            assert!(placed(&bands(distance), 0).iter().all(|table| !table.covers(gap.difference)));
            assert!(proved(&bands(distance + 1), distance).is_ok());
        }
        assert_eq!(proved(&bands(4), 3).unwrap().differences, 43_745);
    }

    #[test]
    fn a_bit_too_many_in_a_key_is_noticed() {
        // Both halves with flips of one bit find three; with a table that lacks them they do not.
        let half = |from, radius| Shape::new(64, [Bits { from, width: 32 }, NO_BITS], radius);
        assert!(proved(&[half(0, 1), half(32, 1)], 3).is_ok());
        assert!(proved(&[half(0, 1), half(32, 0)], 3).is_err());
        assert!(proved(&[half(0, 1), half(31, 1)], 3).is_err(), "bit 31 is in both keys");
    }

    #[test]
    fn looking_at_every_difference_says_the_same() {
        let every = |shapes: &[Shape]| {
            let mut differences = vec![0_u64];
            for bit in 0..64 {
                let with: Vec<u64> =
                    differences.iter().filter(|held| held.count_ones() < 3).map(|held| held | 1 << bit).collect();
                differences.extend(with);
            }
            assert_eq!(differences.len(), 43_745);
            differences.iter().all(|&difference| shapes.iter().any(|shape| shape.covers(difference)))
        };
        let mut cuts = vec![bands(3), bands(4), bands(5)];
        for (skipped, width) in (9..14).enumerate() {
            let mut less = bands(5);
            less.remove(skipped);
            less[0] = Shape::new(64, [Bits { from: 1, width }, NO_BITS], 0);
            cuts.push(less);
        }
        for cut in cuts {
            assert_eq!(proved(&cut, 3).is_ok(), every(&cut));
        }
    }
}
