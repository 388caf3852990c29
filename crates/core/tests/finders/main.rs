//! The finders of `docs/decisions/0011-finders.md`, simulated: the tables are cut by band over several finders, and one
//! judge decides in one order.
//!
//! Every schedule comes from the seed that a failure names. Messages are late, reordered, repeated and lost; finders
//! lag, die and restore from the log; a judge dies, or goes on deciding after its standby has taken over. Each verdict
//! of each judge is compared with that of an oracle, which compares the page with all originals of the same history.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first thing that is wrong")]

mod machines;

use std::collections::BTreeSet;

use dupgate_core::fingerprint::{SimHash, Sketch, Width};
use dupgate_core::protocol::{MinHashRules, Stage};
use dupgate_testkit::rng::Rng;
use machines::{BLOCKS, Finder, Judge, LATENESS, Message, Page, Scheme, State, Verdict, WINDOW, near};

/// Returns the verdict of a judge without finders after this history, if it is blind to what only lost finders know.
fn oracle(scheme: &Scheme, pages: &[Page], history: &[Verdict], lost: &BTreeSet<usize>) -> Verdict {
    let page = &pages[history.len()];
    let newest = pages[..=history.len()].iter().map(|page| page.time).max().unwrap();
    let is_seen = |table: usize| !lost.contains(&(table % scheme.finders));
    let removed: BTreeSet<usize> = history.iter().filter_map(Verdict::removes).collect();
    let mut best = None;
    for (at, (held, verdict)) in pages.iter().zip(history).enumerate() {
        let in_window = (page.time - held.time).abs() <= WINDOW && held.time >= newest - LATENESS - WINDOW;
        let is_known = is_seen(at) || is_seen(at + 1);
        if !verdict.is_original() || removed.contains(&at) || !in_window || !is_known {
            continue;
        }
        let (mut bands, mut slots, mut agreeing) = (0, 0, 0);
        for band in (0..42).filter(|band| is_seen(*band)) {
            let end = if band == 41 { 128 } else { 3 * band + 3 };
            let (one, other) = (&page.sketch.bytes()[3 * band..end], &held.sketch.bytes()[3 * band..end]);
            bands += usize::from(one[..3] == other[..3]);
            slots += one.len();
            agreeing += one.iter().zip(other).filter(|(one, other)| one == other).count();
        }
        let difference = page.code.bits() ^ held.code.bits();
        let has_block = (0..BLOCKS).any(|block| is_seen(42 + block) && difference & (0xffff << (16 * block)) == 0);
        let found = if has_block && difference.count_ones() <= 3 {
            Some((Stage::SimHash, difference.count_ones(), at))
        } else {
            near(&scheme.rules, slots, agreeing).filter(|_| bands >= 2).map(|differing| (Stage::MinHash, differing, at))
        };
        best = best.into_iter().chain(found).min();
    }
    Verdict { of: best, is_update: page.is_update && best.is_some(), without: lost.clone() }
}

/// Makes pages that are edits of earlier ones, some so far from them that they match only just, or not.
fn pages(rng: &mut Rng, count: usize) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    for number in 0..count {
        let (mut bytes, mut code) = match rng.below(number.min(60) + 1) {
            0 => ([0; 130].map(|_: u8| u8::try_from(rng.below(256)).unwrap()).to_vec(), u128::from(rng.next())),
            back => (pages[number - back].sketch.bytes().to_vec(), pages[number - back].code.bits()),
        };
        let changed = rng.pick(&[0, 50, 300, 500, 600, 670, 720]);
        bytes.iter_mut().filter(|_| rng.chance(changed)).for_each(|slot| *slot = slot.wrapping_add(1));
        (0..rng.pick(&[0, 2, 3, 4, 64, 64])).for_each(|_| code ^= 1 << rng.below(64));
        let time = i64::try_from(4 * number + rng.below(40)).unwrap();
        let code = SimHash::from_low_bits(Width::B64, code);
        pages.push(Page { time, code, sketch: Sketch::from_bytes(&bytes), is_update: rng.chance(250) });
    }
    pages
}

/// What the schedules have shown.
#[derive(Default)]
struct Seen {
    matches_of_finders: usize,
    updates: usize,
    without: usize,
    by_suspended: usize,
}

struct World<'s> {
    seed: u64,
    rng: Rng,
    scheme: Scheme,
    pages: Vec<Page>,
    log: Vec<Verdict>,
    finders: Vec<Option<Finder>>,
    /// The active judge, and perhaps one that does not know yet that it was replaced.
    judges: Vec<Judge>,
    standby: State,
    wire: Vec<Message>,
    seen: &'s mut Seen,
}

impl<'s> World<'s> {
    fn new(seed: u64, count: usize, shown: &'s mut Seen) -> Self {
        let mut rng = Rng::new(seed);
        let (scheme, pages) = (Scheme::new(rng.pick(&[2, 3, 4, 8])), pages(&mut rng, count));
        let (finders, judges) = (vec![Some(Finder::default()); scheme.finders], vec![Judge::default()]);
        let (log, standby, wire) = (Vec::new(), State::default(), Vec::new());
        Self { seed, rng, scheme, pages, log, finders, judges, standby, wire, seen: shown }
    }

    fn deliver(&mut self, message: &Message) {
        if let Message::Question { finder, page, about } = message {
            let held = self.finders[*finder].iter();
            let answers = held.map(|held| held.answer(&self.scheme, *finder, &self.pages, *page, about));
            self.wire.extend(answers.map(Message::Answer));
        }
        self.judges.iter_mut().for_each(|judge| judge.hear(message));
    }

    /// Sends messages, of which the wire holds a limited number: a judge that waits asks again and again.
    fn send(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.wire.extend(messages.into_iter().take(60_usize.saturating_sub(self.wire.len())));
    }

    fn decide(&mut self, which: usize) {
        let Some(judge) = self.judges.get_mut(which).filter(|judge| judge.state.next < self.pages.len()) else {
            return;
        };
        let number = judge.state.next;
        let (committed, since) = self.log.split_at(number - judge.uncommitted.len());
        if judge.uncommitted.iter().zip(since).any(|(own, written)| own != written) {
            // Its successor has left out another finder. It writes nothing, and restores its state.
            self.judges.truncate(which);
            return;
        }
        let verdict = match judge.decide(&self.scheme, &self.pages) {
            Ok(verdict) => verdict,
            Err(questions) => return self.send(questions),
        };
        let history = [committed, &judge.uncommitted].concat();
        assert_eq!(verdict, oracle(&self.scheme, &self.pages, &history, &judge.lost), "seed {}: {number}", self.seed);
        let is_of_finders = verdict.of.is_some_and(|(.., of)| of < judge.state.recent_from());
        self.seen.matches_of_finders += usize::from(is_of_finders);
        self.seen.updates += usize::from(verdict.is_update);
        self.seen.without += usize::from(!verdict.without.is_empty());
        self.seen.by_suspended += usize::from(!since.is_empty());
        judge.accept(&self.pages, verdict);
    }

    fn follow(&mut self, finder: usize, verdicts: usize) {
        if let Some(held) = &mut self.finders[finder] {
            held.follow(&self.scheme, finder, &self.pages, &self.log, verdicts);
            let to = held.followed;
            self.send([Message::Followed { finder, to }]);
        }
    }

    fn stand_by(&mut self, verdicts: usize) {
        let next = self.standby.next;
        self.log.iter().skip(next).take(verdicts).for_each(|verdict| self.standby.follow(&self.pages, verdict));
    }

    /// The standby takes over. The judge before it is gone, or suspended and goes on later.
    fn take_over(&mut self, is_suspended: bool) {
        self.stand_by(self.log.len());
        let state = std::mem::take(&mut self.standby);
        // What it has been told is lost with its connections.
        self.judges.iter_mut().for_each(|judge| judge.answers.clear());
        self.judges.insert(0, Judge::after(state));
        self.judges.truncate(1 + usize::from(is_suspended));
    }

    fn lose(&mut self, finder: usize) {
        self.judges.iter_mut().for_each(|judge| judge.lost.extend([finder]));
    }

    fn restore(&mut self, finder: usize) {
        self.finders[finder].get_or_insert_default();
    }

    /// Takes one step. With `deaths`, finders die, and some are taken for dead.
    fn step(&mut self, deaths: bool) {
        let (finder, few) = (self.rng.below(self.scheme.finders), self.rng.below(8));
        match self.rng.below(20) {
            0..9 if !self.wire.is_empty() => {
                let message = self.wire.swap_remove(self.rng.below(self.wire.len()));
                self.wire.extend(self.rng.chance(50).then(|| message.clone()));
                if self.rng.chance(900) {
                    self.deliver(&message);
                }
            }
            9..12 => self.decide(0),
            12..14 if self.judges.iter().skip(1).any(|judge| judge.state.next + 2 < self.log.len()) => self.decide(1),
            14 => self.log.append(&mut self.judges[0].uncommitted),
            15..17 => self.follow(finder, few),
            17 => self.stand_by(few),
            18 if deaths => match self.rng.below(20) {
                0 => self.finders[finder] = None,
                1 => self.lose(finder),
                2..8 if self.finders[finder].is_none() => self.lose(finder),
                8..10 => self.restore(finder),
                _ => {}
            },
            19 if self.rng.chance(60) => {
                let is_suspended = self.rng.chance(700);
                self.take_over(is_suspended);
            }
            _ => {}
        }
    }

    /// Lets everything work until this many pages are judged.
    fn settle(&mut self, pages: usize) {
        for _ in 0..100 * pages {
            if self.log.len() >= pages {
                break;
            }
            (0..self.scheme.finders).for_each(|finder| self.follow(finder, 8));
            std::mem::take(&mut self.wire).iter().for_each(|message| self.deliver(message));
            self.decide(0);
            self.log.append(&mut self.judges[0].uncommitted);
        }
        assert!(self.log.len() >= pages, "seed {}: only {} of {pages} pages are judged", self.seed, self.log.len());
    }

    /// Checks what holds of every log, and that the standby reaches the state of the judge.
    fn check(&mut self) {
        assert_eq!(self.log.len(), self.pages.len(), "seed {}: one verdict for each page", self.seed);
        for (number, verdict) in self.log.iter().enumerate() {
            let age = |of: usize| (self.pages[number].time - self.pages[of].time).abs();
            let is_right = |of: usize| of < number && self.log[of].is_original() && age(of) <= WINDOW;
            assert!(verdict.of.is_none_or(|(.., of)| is_right(of)), "seed {}: {number}: {verdict:?}", self.seed);
        }
        let without = self.log.iter().filter(|verdict| !verdict.without.is_empty()).count();
        assert_eq!(self.judges[0].state.judged_without, without, "seed {}", self.seed);
        self.stand_by(self.log.len());
        assert_eq!(self.standby, self.judges[0].state, "seed {}", self.seed);
    }
}

#[test]
fn late_and_reordered_answers_change_no_verdict() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        let mut world = World::new(seed, 150, &mut seen);
        (0..3_000).for_each(|_| world.step(false));
        world.settle(150);
        world.check();
        let mut alone = Vec::new();
        for _ in &world.pages {
            alone.push(oracle(&world.scheme, &world.pages, &alone, &BTreeSet::new()));
        }
        assert_eq!(world.log, alone, "seed {seed}");
    }
    let Seen { matches_of_finders, updates, by_suspended, .. } = seen;
    println!("{matches_of_finders} matches of finders, {updates} updates, {by_suspended} by suspended judges");
    assert!(matches_of_finders > 500 && updates > 500 && by_suspended > 100, "the schedules show too little");
}

#[test]
fn a_lost_finder_costs_what_it_alone_knows_until_it_is_restored() {
    let mut seen = Seen::default();
    for seed in 1_000..1_030 {
        let mut world = World::new(seed, 220, &mut seen);
        for _ in 0..6_000 {
            if world.log.len() < 150 {
                world.step(true);
            }
        }
        (0..world.scheme.finders).for_each(|finder| world.restore(finder));
        world.settle(220);
        world.check();
        // All finders have followed the log by then. That these verdicts are the oracle's was checked at each of them.
        let whole = world.log.iter().rev().take_while(|verdict| verdict.without.is_empty()).count();
        assert!(whole >= 20, "seed {seed}: only the last {whole} pages were judged by all finders");
    }
    println!("{} pages judged without a finder", seen.without);
    assert!(seen.without > 400, "the schedules show too little");
}

#[test]
fn pages_judged_without_a_finder_are_counted_exactly() {
    let mut seen = Seen::default();
    let mut world = World::new(7, 100, &mut seen);
    world.settle(40);
    world.finders[0] = None;
    world.lose(0);
    world.settle(65);
    world.restore(0);
    // Too early: it has not followed far enough, and is not asked.
    world.follow(0, 8);
    world.settle(66);
    world.follow(0, 66);
    world.settle(100);
    world.check();
    let without: Vec<usize> = (0..100).filter(|number| !world.log[*number].without.is_empty()).collect();
    assert_eq!(without, (40..66).collect::<Vec<_>>());
}

/// Prints the table of the decision: of a thousand pairs at one Jaccard index, how many are found.
#[test]
fn recall_without_one_finder() {
    const PAIRS: usize = 2_000;
    let rng = &mut Rng::new(1);
    let MinHashRules { form, banding, .. } = Scheme::new(1).rules;
    let unique = [Verdict { of: None, is_update: false, without: BTreeSet::new() }];
    println!("| Jaccard index | keys shared | all finders | one of 4 lost | one of 8 lost | one of 16 lost |");
    for jaccard in [300, 350, 400, 500, 600, 700, 800] {
        let (mut shared, mut found) = (0, [0; 4]);
        for _ in 0..PAIRS {
            let one = [(); 130].map(|()| u8::try_from(rng.below(256)).unwrap());
            // A slot of two sets agrees with this probability, and by chance.
            let other = one.map(|slot| if rng.chance(jaccard) { slot } else { u8::try_from(rng.below(256)).unwrap() });
            shared += banding.shared(form, &one, &other);
            let pair = [(one, 0), (other, u64::MAX)].map(|(slots, code)| {
                let (code, sketch) = (SimHash::B64(code), Sketch::from_bytes(&slots));
                Page { time: 0, code, sketch, is_update: false }
            });
            for (found, finders) in found.iter_mut().zip([1, 4, 8, 16]) {
                let scheme = Scheme::new(finders);
                // The whole index, or without each finder in turn.
                let lost = (0..finders).map(|finder| BTreeSet::from_iter((finders > 1).then_some(finder)));
                *found += lost.filter(|lost| oracle(&scheme, &pair, &unique, lost).of.is_some()).count();
            }
        }
        let [all, four, eight, sixteen] = [0, 1, 2, 3].map(|at| 1000 * found[at] / ([1, 4, 8, 16][at] * PAIRS));
        let shared = f64::from(u32::try_from(shared * 10 / PAIRS).unwrap()) / 10.0;
        println!("| .{} | {shared} | {all} | {four} | {eight} | {sixteen} |", jaccard / 10);
        assert!(jaccard < 600 || all - eight <= 5, "{jaccard}: {all} and {eight} of a thousand");
    }
}
