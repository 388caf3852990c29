//! Compares the verdicts of two runs: counts of differences by kind, with examples.
//!
//! Before: the verdicts of both runs, each in the order of its log. After: counts of all positions of the ranges, and
//! examples that are chosen by a hash of their position, so that they are the same whenever the same logs are compared.
//! The last verdict of a position counts.
//!
//! Cost: one byte for each offset of the ranges, and the match of each position that only one run has judged so far.
//! Past [`MAX_HELD`] of them positions are counted all the same, but do not become examples.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::plan::Ranges;
use crate::protocol::{Answer, Match, Rules, Verdict, VerdictKind};
use crate::record::{PartitionId, Reject, Source};

/// Most positions whose match is held until the other run has judged them.
pub(crate) const MAX_HELD: usize = 1 << 20;

/// Bits of a position's byte that hold the verdict of one run.
const BITS: u8 = 4;

/// One of the two runs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The run that is compared against: the live service, or another replay.
    Before,
    /// The replay.
    After,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];

    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

/// One value for each of the two runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sides<T> {
    /// Value of the run that is compared against.
    pub before: T,
    /// Value of the replay.
    pub after: T,
}

impl<T> Sides<T> {
    /// Returns the value of one run.
    pub const fn of(&self, side: Side) -> &T {
        match side {
            Side::Before => &self.before,
            Side::After => &self.after,
        }
    }

    /// Returns the value of one run, to be changed.
    pub const fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Before => &mut self.before,
            Side::After => &mut self.after,
        }
    }
}

/// The verdicts of both runs on a page; `None` where a run has none.
pub type VerdictPair = Sides<Option<VerdictKind>>;

impl VerdictPair {
    /// Returns whether both runs agree.
    #[must_use]
    fn is_same(self) -> bool {
        self.before == self.after
    }

    /// Returns the run that alone has a verdict.
    #[must_use]
    pub const fn only_in(&self) -> Option<Side> {
        match (self.before, self.after) {
            (Some(_), None) => Some(Side::Before),
            (None, Some(_)) => Some(Side::After),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    fn of_byte(byte: u8) -> Self {
        let before = verdict_of_code(byte & ((1 << BITS) - 1));
        Self { before, after: verdict_of_code(byte >> BITS) }
    }

    fn byte(self) -> u8 {
        let code = |verdict: Option<VerdictKind>| verdict.map_or(0, code_of);
        code(self.before) | (code(self.after) << BITS)
    }
}

/// Returns the number of a verdict, from 1: 0 is a page without one.
fn code_of(verdict: VerdictKind) -> u8 {
    verdict as u8 + 1
}

fn verdict_of_code(code: u8) -> Option<VerdictKind> {
    VerdictKind::ALL.into_iter().find(|verdict| code_of(*verdict) == code)
}

/// The verdict of one run on a page.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedVerdict {
    /// The verdict.
    pub verdict: VerdictKind,
    /// What it was matched with.
    pub of: Option<Box<Match>>,
    /// Why it was withdrawn.
    pub reason: Option<Reject>,
    /// The rules that it was judged by, where the log still names them.
    pub rules: Option<Arc<Rules>>,
}

impl RecordedVerdict {
    fn of(answer: &Answer, rules: Option<&Arc<Rules>>) -> Option<Self> {
        let (of, reason) = match answer {
            Answer::Page(page) => (page.decision.matched().cloned().map(Box::new), None),
            Answer::Withdrawn { reason, .. } => (None, Some(*reason)),
            Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => return None,
        };
        Some(Self { verdict: answer.kind()?, of, reason, rules: rules.cloned() })
    }
}

/// A page on which both runs differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Its position.
    pub source: Source,
    /// The verdict of each run.
    pub verdicts: Sides<Option<RecordedVerdict>>,
}

impl Example {
    /// Returns the verdicts.
    #[must_use]
    pub fn kind(&self) -> VerdictPair {
        let verdict = |recorded: &Option<RecordedVerdict>| recorded.as_ref().map(|recorded| recorded.verdict);
        VerdictPair { before: verdict(&self.verdicts.before), after: verdict(&self.verdicts.after) }
    }
}

/// The verdicts of both runs on each offset of a partition.
#[derive(Debug)]
struct Offsets {
    /// Offset of the first byte.
    first: i64,
    /// First offset that is counted.
    from: i64,
    /// Offsets of the range.
    length: usize,
    /// One byte for each offset up to the largest that was judged.
    bytes: Vec<u8>,
}

impl Offsets {
    fn place(&self, offset: i64) -> Option<usize> {
        usize::try_from(offset.checked_sub(self.first)?).ok()
    }

    fn byte(&mut self, offset: i64) -> Option<&mut u8> {
        let place = self.place(offset).filter(|place| *place < self.length)?;
        if place >= self.bytes.len() {
            self.bytes.resize(place + 1, 0);
        }
        self.bytes.get_mut(place)
    }

    fn counted(&self) -> &[u8] {
        let skipped = self.place(self.from).unwrap_or(0);
        self.bytes.get(skipped..).unwrap_or_default()
    }
}

/// Compares two runs verdict by verdict.
#[derive(Debug)]
pub struct Changes {
    offsets: BTreeMap<PartitionId, Offsets>,
    /// Counted positions that only this run has judged so far.
    waiting: Sides<u64>,
    /// What is known of positions that only one run has judged so far.
    held: HashMap<Source, RecordedVerdict>,
    most_held: usize,
    examples: Examples,
}

/// The pages of each kind with the smallest hashes, up to a maximum.
#[derive(Debug)]
struct Examples {
    most: usize,
    of: BTreeMap<VerdictPair, BTreeMap<(u64, Source), Both>>,
}

/// The verdict of each run on a page.
type Both = Sides<Option<RecordedVerdict>>;

impl Examples {
    fn offer(&mut self, kind: VerdictPair, source: Source, verdicts: Both) {
        let of = self.of.entry(kind).or_default();
        of.insert((hash(&source), source), verdicts);
        if of.len() > self.most {
            of.pop_last();
        }
    }

    fn take(&mut self, kind: VerdictPair, source: &Source) -> Option<Both> {
        self.of.get_mut(&kind)?.remove(&(hash(source), source.clone()))
    }
}

fn hash(source: &Source) -> u64 {
    xxh3_64(source.to_string().as_bytes())
}

impl Changes {
    /// Begins with no verdict. Positions of the ranges are counted; at most `examples` of each kind are kept.
    #[must_use]
    pub fn new(ranges: &Ranges, examples: usize) -> Self {
        let offsets = ranges.iter().map(|(partition, range)| {
            let length = usize::try_from(range.to.saturating_sub(range.warm_from)).unwrap_or(0);
            (partition.clone(), Offsets { first: range.warm_from, from: range.from, length, bytes: Vec::new() })
        });
        Self {
            offsets: offsets.collect(),
            waiting: Sides::default(),
            held: HashMap::new(),
            most_held: MAX_HELD,
            examples: Examples { most: examples, of: BTreeMap::new() },
        }
    }

    /// Takes the next verdict of a run, and the rules that it was made by.
    pub fn push(&mut self, side: Side, verdict: &Verdict, rules: Option<&Arc<Rules>>) {
        let (Some(source), Some(kind)) = (verdict.answer.judged_source(), verdict.answer.kind()) else {
            return;
        };
        let Some(offsets) = self.offsets.get_mut(&source.partition) else { return };
        let from = offsets.from;
        let Some(byte) = offsets.byte(source.offset) else { return };
        let old = VerdictPair::of_byte(*byte);
        let mut new = old;
        *new.of_mut(side) = Some(kind);
        *byte = new.byte();
        if source.offset < from {
            return;
        }
        self.count_waiting(old, new);
        let mut known = self.known(old, source);
        *known.of_mut(side) = RecordedVerdict::of(&verdict.answer, rules);
        if new.only_in().is_some() {
            if let (Some(recorded), true) = (known.of_mut(side).take(), self.held.len() < self.most_held) {
                self.held.insert(source.clone(), recorded);
            }
        } else if !new.is_same() && known.before.is_some() && known.after.is_some() {
            self.examples.offer(new, source.clone(), known);
        }
    }

    fn count_waiting(&mut self, old: VerdictPair, new: VerdictPair) {
        if old.only_in() == new.only_in() {
            return;
        }
        if let Some(side) = old.only_in() {
            *self.waiting.of_mut(side) -= 1;
        }
        if let Some(side) = new.only_in() {
            *self.waiting.of_mut(side) += 1;
        }
    }

    /// Takes out what is known of a position.
    fn known(&mut self, kind: VerdictPair, source: &Source) -> Both {
        let mut known = Sides::default();
        if let Some(side) = kind.only_in() {
            *known.of_mut(side) = self.held.remove(source);
        } else if !kind.is_same() {
            known = self.examples.take(kind, source).unwrap_or_default();
        }
        known
    }

    /// Returns the run whose verdicts are to be read next so that little is held: the other one is ahead.
    #[must_use]
    pub const fn behind(&self) -> Side {
        if self.waiting.before > self.waiting.after { Side::After } else { Side::Before }
    }

    /// Ends the comparison: what only one run has judged by now, the other one does not have.
    #[must_use]
    pub fn finish(self) -> Compared {
        let Self { offsets, held, mut examples, .. } = self;
        #[expect(clippy::iter_over_hash_type, reason = "examples are chosen by the hashes of their positions")]
        for (source, recorded) in held {
            let side = offsets.get(&source.partition).and_then(|offsets| kind(offsets, &source)?.only_in());
            let Some(side) = side else { continue };
            let mut both = Sides::default();
            let mut kind = VerdictPair::default();
            *kind.of_mut(side) = Some(recorded.verdict);
            *both.of_mut(side) = Some(recorded);
            examples.offer(kind, source, both);
        }
        let mut counts: BTreeMap<VerdictPair, u64> = BTreeMap::new();
        for byte in offsets.values().flat_map(Offsets::counted).filter(|byte| **byte != 0) {
            *counts.entry(VerdictPair::of_byte(*byte)).or_default() += 1;
        }
        let mut examples: Vec<Example> =
            examples.of.into_values().flatten().map(|((_, source), verdicts)| Example { source, verdicts }).collect();
        examples.sort_by(|one, other| (one.kind(), &one.source).cmp(&(other.kind(), &other.source)));
        Compared { counts, examples, offsets }
    }
}

fn kind(offsets: &Offsets, source: &Source) -> Option<VerdictPair> {
    offsets.bytes.get(offsets.place(source.offset)?).copied().map(VerdictPair::of_byte)
}

/// The result of comparing two runs.
#[derive(Debug)]
pub struct Compared {
    /// Numbers of positions by both runs' verdicts, equal ones included.
    pub counts: BTreeMap<VerdictPair, u64>,
    /// Pages whose verdicts differ, by kind and position.
    pub examples: Vec<Example>,
    offsets: BTreeMap<PartitionId, Offsets>,
}

impl Compared {
    /// Returns the verdict of a run on a page of the range or the warm-up.
    #[must_use]
    pub fn verdict(&self, side: Side, source: &Source) -> Option<VerdictKind> {
        *kind(self.offsets.get(&source.partition)?, source)?.of(side)
    }

    /// Returns how many positions at least one run has judged.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns on how many positions both runs agree.
    #[must_use]
    pub fn same(&self) -> u64 {
        self.counts.iter().filter(|(kind, _)| kind.is_same()).map(|(_, count)| count).sum()
    }

    /// Lists the kinds of change with their counts.
    pub fn changed(&self) -> impl Iterator<Item = (VerdictPair, u64)> {
        self.counts.iter().filter(|(kind, _)| !kind.is_same()).map(|(kind, count)| (*kind, *count))
    }

    /// Lists the verdicts that occur and that no page has won or lost.
    pub fn unchanged(&self) -> impl Iterator<Item = VerdictKind> {
        let is_there = |verdict: &VerdictKind| {
            self.counts.contains_key(&VerdictPair { before: Some(*verdict), after: Some(*verdict) })
        };
        let is_changed = |verdict: VerdictKind| {
            self.changed().any(|(kind, _)| kind.before == Some(verdict) || kind.after == Some(verdict))
        };
        VerdictKind::ALL.into_iter().filter(is_there).filter(move |verdict| !is_changed(*verdict))
    }
}

#[cfg(test)]
mod tests;
