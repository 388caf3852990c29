//! Finder and judge: messages in, messages out, and no time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dupgate_core::fingerprint::{MinHashSettings, SimHash, Sketch, SketchForm, SlotBits};
use dupgate_core::protocol::{MinHashRules, Rules, Stage};

/// Blocks into which a `SimHash` of 64 bits is cut: a pair within 3 bits agrees in one of 4.
pub(crate) const BLOCKS: usize = 4;
pub(crate) const WINDOW: i64 = 300;
pub(crate) const LATENESS: i64 = 30;
/// How many of the last verdicts a judge keeps. It waits for finders in use that have not followed that far.
const RECENT: usize = 24;
/// How many pages ahead a judge asks.
const AHEAD: usize = 6;

/// A page by its fingerprints. Its number is its position in the fingerprint log, that of its verdict in the verdict
/// log, and its sequence number.
pub(crate) struct Page {
    pub(crate) time: i64,
    pub(crate) code: SimHash,
    pub(crate) sketch: Sketch,
    /// It replaces what it matches, like a new text of a page.
    pub(crate) is_update: bool,
}

/// The rules of the service, and over how many finders the tables are cut.
#[derive(Clone, Copy)]
pub(crate) struct Scheme {
    pub(crate) rules: MinHashRules,
    pub(crate) finders: usize,
}

impl Scheme {
    pub(crate) fn new(finders: usize) -> Self {
        Self { rules: MinHashSettings::default().form.and_then(MinHashRules::usual).unwrap(), finders }
    }

    fn bands(&self) -> usize {
        usize::from(self.rules.banding.bands())
    }

    /// The keys of a finder's tables: its share of the bands, then of the blocks.
    fn keys(&self, finder: usize, page: &Page) -> impl Iterator<Item = (usize, u64)> {
        let key = move |table: usize| match table.checked_sub(self.bands()) {
            None => self.rules.banding.key(self.rules.form, page.sketch.bytes(), table),
            Some(block) => u64::try_from(page.code.bits() >> (16 * block) & 0xffff).unwrap(),
        };
        (finder..self.bands() + BLOCKS).step_by(self.finders).map(move |table| (table, key(table)))
    }

    fn shared(&self, finder: usize, page: &Page, held: &Page) -> Shared {
        let pairs = self.keys(finder, page).zip(self.keys(finder, held));
        let (bands, blocks): (Vec<usize>, Vec<usize>) =
            pairs.filter(|(one, other)| one == other).map(|((table, _), _)| table).partition(|at| *at < self.bands());
        Shared { bands: bands.len(), blocks: blocks.len() }
    }

    /// A finder holds the slots of its bands, the last one also those of no band.
    fn slots(&self, finder: usize) -> impl Iterator<Item = usize> {
        let (last, rows) = (self.bands() - 1, usize::from(self.rules.banding.rows()));
        (0..self.rules.form.slots().into()).filter(move |slot| (slot / rows).min(last) % self.finders == finder)
    }

    /// Each original's fields are held by two finders.
    pub(crate) fn homes(&self, original: usize) -> [usize; 2] {
        [original % self.finders, (original + 1) % self.finders]
    }

    fn measure(&self, finder: usize, page: &Page, original: usize, held: &Page) -> Measured {
        let slot = |page: &Page, slot| self.rules.form.slot(page.sketch.bytes(), slot);
        let slots = self.slots(finder).filter(|at| slot(page, *at) == slot(held, *at)).count();
        Measured { slots, fields: self.homes(original).contains(&finder).then_some((held.time, held.code)) }
    }

    /// Returns how many slots differ, if the estimate from those of the finders that are left suffices for a match.
    fn near(&self, lost: &BTreeSet<usize>, agreeing: usize) -> Option<u32> {
        let left = (0..self.finders).filter(|finder| !lost.contains(finder));
        near(&self.rules, left.map(|finder| self.slots(finder).count()).sum(), agreeing)
    }
}

/// Returns how many of so many slots differ, if that is near enough for a match.
pub(crate) fn near(rules: &MinHashRules, slots: usize, agreeing: usize) -> Option<u32> {
    let form = SketchForm::new(slots, SlotBits::B8).ok()?;
    let differing = u8::try_from(slots - agreeing).unwrap();
    (form.similarity(differing) >= rules.min_similarity).then_some(differing.into())
}

/// How many keys of a finder a page and an original share.
#[derive(Clone, Copy, Default)]
struct Shared {
    bands: usize,
    blocks: usize,
}

/// How many slots of a finder agree, and the fields of the original, if the finder holds them.
#[derive(Clone, Copy)]
struct Measured {
    slots: usize,
    fields: Option<(i64, SimHash)>,
}

/// What a verdict says: the original that the page matches, if any, and the finders that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) of: Option<(Stage, u32, usize)>,
    pub(crate) is_update: bool,
    pub(crate) without: BTreeSet<usize>,
}

impl Verdict {
    pub(crate) fn is_original(&self) -> bool {
        self.of.is_none() || self.is_update
    }

    pub(crate) fn removes(&self) -> Option<usize> {
        self.of.filter(|_| self.is_update).map(|(.., original)| original)
    }
}

#[derive(Clone)]
pub(crate) enum Message {
    /// What shares a key with this page, and how near are these originals?
    Question {
        finder: usize,
        page: usize,
        about: Vec<usize>,
    },
    Answer(Answer),
    /// A finder has followed the log to here.
    Followed {
        finder: usize,
        to: usize,
    },
}

/// What a finder says of a page: true of the verdicts that it had followed, whenever it arrives.
#[derive(Clone)]
pub(crate) struct Answer {
    finder: usize,
    page: usize,
    followed: usize,
    /// Originals with one of the page's keys, and the verdicts by which they were removed.
    found: BTreeMap<usize, (Shared, Option<usize>)>,
    measured: BTreeMap<usize, Measured>,
}

/// The tables of some bands. A finder follows the verdict log, and decides nothing.
#[derive(Clone, Default)]
pub(crate) struct Finder {
    pub(crate) followed: usize,
    tables: BTreeMap<(usize, u64), Vec<usize>>,
    /// What was removed stays, with the verdict that did it: a judge may be at an earlier one.
    removed: BTreeMap<usize, usize>,
}

impl Finder {
    pub(crate) fn follow(&mut self, scheme: &Scheme, own: usize, pages: &[Page], log: &[Verdict], verdicts: usize) {
        for verdict in log.iter().skip(self.followed).take(verdicts) {
            let number = self.followed;
            self.removed.extend(verdict.removes().map(|original| (original, number)));
            if verdict.is_original() {
                scheme.keys(own, &pages[number]).for_each(|key| self.tables.entry(key).or_default().push(number));
            }
            self.followed += 1;
        }
    }

    pub(crate) fn answer(&self, scheme: &Scheme, own: usize, pages: &[Page], page: usize, about: &[usize]) -> Answer {
        let keys = scheme.keys(own, &pages[page]);
        let numbers: BTreeSet<usize> = keys.filter_map(|key| self.tables.get(&key)).flatten().copied().collect();
        let shared = |at: usize| scheme.shared(own, &pages[page], &pages[at]);
        let found = numbers.into_iter().map(|at| (at, (shared(at), self.removed.get(&at).copied()))).collect();
        let known = about.iter().copied().filter(|at| *at < self.followed);
        let measured = known.map(|at| (at, scheme.measure(own, &pages[page], at, &pages[at]))).collect();
        Answer { finder: own, page, followed: self.followed, found, measured }
    }
}

/// What a judge and its standby know without the finders: a function of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) next: usize,
    stream_time: i64,
    recent: VecDeque<Verdict>,
    /// How many pages were judged without some finder.
    pub(crate) judged_without: usize,
}

impl State {
    pub(crate) fn follow(&mut self, pages: &[Page], verdict: &Verdict) {
        self.stream_time = self.stream_time.max(pages[self.next].time);
        self.next += 1;
        self.judged_without += usize::from(!verdict.without.is_empty());
        self.recent.push_back(verdict.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    pub(crate) fn recent_from(&self) -> usize {
        self.next - self.recent.len()
    }
}

#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) state: State,
    pub(crate) uncommitted: Vec<Verdict>,
    pub(crate) lost: BTreeSet<usize>,
    /// What it was told about the next pages.
    pub(crate) answers: Vec<Answer>,
}

impl Judge {
    pub(crate) fn after(state: State) -> Self {
        Self { state, ..Self::default() }
    }

    pub(crate) fn hear(&mut self, message: &Message) {
        match message {
            Message::Answer(answer) => self.answers.push(answer.clone()),
            // The judge's own recent pages cover the rest.
            Message::Followed { finder, to } if *to >= self.state.recent_from() => drop(self.lost.remove(finder)),
            Message::Followed { .. } | Message::Question { .. } => {}
        }
    }

    pub(crate) fn accept(&mut self, pages: &[Page], verdict: Verdict) {
        self.state.follow(pages, &verdict);
        self.uncommitted.push(verdict);
        self.answers.retain(|answer| answer.page >= self.state.next);
    }

    /// Decides on the next page, or returns the questions whose answers are missing.
    pub(crate) fn decide(&self, scheme: &Scheme, pages: &[Page]) -> Result<Verdict, Vec<Message>> {
        let (number, from) = (self.state.next, self.state.recent_from());
        let page = &pages[number];
        let in_use = (0..scheme.finders).filter(|finder| !self.lost.contains(finder));
        let told = |finder| self.answers.iter().filter(move |told| told.page == number && told.finder == finder);
        let newest = |finder| told(finder).max_by_key(|told| told.followed).filter(|told| told.followed >= from);
        let (mut answers, mut questions) = (Vec::new(), Vec::new());
        for finder in in_use {
            let pages = number..pages.len().min(number + AHEAD);
            match newest(finder) {
                Some(answer) => answers.push(answer),
                None => questions.extend(pages.map(|page| Message::Question { finder, page, about: Vec::new() })),
            }
        }
        if !questions.is_empty() {
            return Err(questions);
        }
        let mut candidates: BTreeMap<usize, Shared> = BTreeMap::new();
        for answer in &answers {
            let is_held = |removed: Option<usize>| removed.is_none_or(|by| by >= number);
            let found = answer.found.iter().filter(|(at, (_, removed))| **at < number && is_held(*removed));
            // What the finder had not followed when it answered is among the judge's own recent pages.
            let own = (answer.followed..number).filter(|at| self.state.recent[at - from].is_original());
            let own = own.map(|at| (at, scheme.shared(answer.finder, page, &pages[at])));
            for (at, shared) in found.map(|(at, (shared, _))| (*at, *shared)).chain(own) {
                let sum = candidates.entry(at).or_default();
                *sum = Shared { bands: sum.bands + shared.bands, blocks: sum.blocks + shared.blocks };
            }
        }
        for removed in self.state.recent.iter().filter_map(Verdict::removes) {
            candidates.remove(&removed);
        }
        let needed = usize::from(scheme.rules.min_shared_bands);
        let stream_time = self.state.stream_time.max(page.time);
        let mut best = None;
        for (at, shared) in candidates.into_iter().filter(|(_, sum)| sum.bands >= needed || sum.blocks > 0) {
            let (mut agreeing, mut fields) = (0, None);
            for finder in answers.iter().map(|answer| answer.finder) {
                let own = (at >= from).then(|| scheme.measure(finder, page, at, &pages[at]));
                match own.or_else(|| told(finder).find_map(|told| told.measured.get(&at).copied())) {
                    Some(measured) => (agreeing, fields) = (agreeing + measured.slots, fields.or(measured.fields)),
                    None => questions.push(Message::Question { finder, page: number, about: vec![at] }),
                }
            }
            let in_window = |time: i64| (page.time - time).abs() <= WINDOW && time >= stream_time - LATENESS - WINDOW;
            let Some((_, code)) = fields.filter(|(time, _)| in_window(*time) && questions.is_empty()) else { continue };
            let most = u32::from(Rules::default().max_distance);
            let bits = page.code.distance(code).filter(|bits| shared.blocks > 0 && *bits <= most);
            let slots = || scheme.near(&self.lost, agreeing).filter(|_| shared.bands >= needed);
            let found = bits.map(|bits| (Stage::SimHash, bits)).or_else(|| Some((Stage::MinHash, slots()?)));
            best = best.into_iter().chain(found.map(|(stage, distance)| (stage, distance, at))).min();
        }
        if !questions.is_empty() {
            return Err(questions);
        }
        Ok(Verdict { of: best, is_update: page.is_update && best.is_some(), without: self.lost.clone() })
    }
}
