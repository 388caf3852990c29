//! Our own plans, in a steady window.

use std::collections::BTreeMap;

use dupgate_index::{HammingIndex, Plan, Width};
use serde::Serialize;

use crate::REACH;
use crate::data::{Data, Kind};
use crate::machine::{Helper, RandomLines, fresh_page_ns, resident, timed};

/// Operations in one batch: what is in one record of the fingerprint log.
const BATCH: usize = 512;

/// Turns of a measurement, of which the middle one counts: the host of a virtual machine has other guests.
const TURNS: usize = 9;

/// Statistics of one plan.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) plan: String,
    pub(crate) tables: usize,
    /// Probe, insert and expiry.
    pub(crate) ns: f64,
    pub(crate) mops: f64,
    /// Insert while the window fills and its tables grow.
    pub(crate) fill_ns: f64,
    /// Tables, and with the log of codes.
    pub(crate) table_bytes: f64,
    pub(crate) resident_bytes: f64,
    /// Lines that one operation asks for, what one takes on this machine, and the share of the time that is.
    pub(crate) lines: f64,
    pub(crate) line_ns: f64,
    pub(crate) share_of_bound: f64,
    /// What a random line takes that is written as well, as by an insert.
    pub(crate) written_line_ns: f64,
    pub(crate) largest_bucket: u32,
    pub(crate) compared: f64,
    /// Operations by their CPU time while the window fills, and while a tenth of it expires at once: see [`Stalls`].
    pub(crate) stalls: BTreeMap<String, u64>,
    pub(crate) longest_stall_ms: f64,
    /// Longest that the system takes for one fresh large page, beside which a stall is to be seen.
    pub(crate) fresh_page_ms: f64,
}

/// Measures the lean and the wide plan, if wanted; prints a line for each.
pub(crate) fn run(data: &Data, wanted: &dyn Fn(&str) -> bool) -> BTreeMap<String, Run> {
    println!(
        "  {:<6} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8} {:>7} {:>9} {:>9} {:>9}  plan",
        "",
        "ns/op",
        "M op/s",
        "fill ns",
        "B table",
        "B all",
        "lines",
        "ns/line",
        "written",
        "bound",
        "stall ms",
        "page ms",
        "compared"
    );
    let plans = Plan::all(Width::B64, REACH);
    let named = |name: &str| plans.iter().find(|plan| plan.to_string() == name).unwrap().clone();
    let wide = if data.window <= 1_000_000 || (data.window <= 10_000_000 && data.kind == Kind::Uniform) {
        named("2 parts of 3 blocks without 1")
    } else {
        named("2 parts of 4 blocks without 1")
    };
    let mut asked = vec![("lean", named("2 parts with 1 bit flipped"))];
    if data.window <= 10_000_000 {
        asked.push(("wide", wide));
    }
    let mut runs = BTreeMap::new();
    for (name, plan) in asked.into_iter().filter(|(name, _)| wanted(name)) {
        let run = measure(data, &plan);
        println!(
            "  {name:<6} {:>7.0} {:>8.2} {:>8.0} {:>8.1} {:>8.1} {:>7.1} {:>8.1} {:>8.1} {:>7.2} {:>9.2} {:>9.2} {:>9.1}  {}",
            run.ns,
            run.mops,
            run.fill_ns,
            run.table_bytes,
            run.resident_bytes,
            run.lines,
            run.line_ns,
            run.written_line_ns,
            run.share_of_bound,
            run.longest_stall_ms,
            run.fresh_page_ms,
            run.compared,
            run.plan
        );
        runs.insert(name.to_owned(), run);
    }
    runs
}

fn measure(data: &Data, plan: &Plan) -> Run {
    let window = data.window as u64;
    let before = resident();
    let mut near = HammingIndex::with_plan(plan.clone(), window);
    let (filling, later) = data.codes.split_at(data.window);
    let helper = Helper::start();
    let (fill, ()) = timed(|| fill(&mut near, &helper, filling));
    let stats = near.stats();
    let resident_bytes = (resident() - before) / window as f64;

    // Turns over a piece of the operations each, and random lines before and after each turn; the middle ones count.
    let mut random_lines = RandomLines::in_bytes(stats.table_bytes as f64);
    let probed: usize = stats.tables.iter().map(|table| table.probed).sum();
    let lines = probed as f64 * (1.0 + overflowed(&stats));
    let (mut turns, mut line_times, mut shares) = (Vec::new(), vec![random_lines.read_ns()], Vec::new());
    let mut missed = 0;
    let each = later.len() / TURNS;
    for (turn, piece) in later.chunks(each).take(TURNS).enumerate() {
        let (ns, found) = timed(|| steady(&mut near, &helper, window, piece));
        turns.push(ns / piece.len() as f64);
        line_times.push(random_lines.read_ns());
        shares.push(lines * f64::midpoint(line_times[turn], line_times[turn + 1]) / turns[turn]);
        let planted = data.planted[turn * each..].iter().zip(&found);
        missed += planted
            .filter(|(planted, found)| planted.is_some_and(|bits| found.is_none_or(|found| found > bits)))
            .count();
    }
    assert_eq!(missed, 0, "planted pairs were missed");
    let written_line_ns = random_lines.written_ns();
    drop(random_lines);
    let (ns, line_ns, share_of_bound) = (middle(turns), middle(line_times), middle(shares));
    check(&near, later);
    // Not the codes themselves, which are in the window by now.
    let beside = later.iter().take(20_000).map(|code| code ^ 0x8000_0400_0020_0001);
    let compared = beside.map(|code| u64::from(near.probe(code, REACH, |_, _| {}))).sum::<u64>() as f64;

    drop(near);
    let stalls = Stalls::measure(plan, &helper, window, (filling, later));
    Run {
        plan: plan.to_string(),
        tables: plan.tables(),
        ns,
        mops: 1000.0 / ns,
        fill_ns: fill / window as f64,
        table_bytes: stats.table_bytes as f64 / window as f64,
        resident_bytes,
        lines,
        line_ns,
        share_of_bound,
        written_line_ns,
        largest_bucket: stats.largest_bucket(),
        compared: compared / 20_000.0,
        longest_stall_ms: stalls.longest / 1e6,
        fresh_page_ms: stalls.fresh_page / 1e6,
        stalls: stalls.counts,
    }
}

/// Returns the middle one.
fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Share of lines that lead to a run.
fn overflowed(stats: &dupgate_index::HammingStats) -> f64 {
    let (runs, lines) =
        stats.tables.iter().fold((0, 0), |(runs, lines), table| (runs + table.overflowed, lines + table.lines));
    runs as f64 / lines as f64
}

fn fill(near: &mut HammingIndex, helper: &Helper, codes: &[u64]) {
    for batch in codes.chunks(BATCH) {
        helper.help(near);
        near.in_order(
            batch,
            |&code| Some(code),
            |near, &code| {
                near.push(Some(code));
            },
        );
    }
}

/// Probe, insert, expire; gives the distance of what was found.
fn steady(near: &mut HammingIndex, helper: &Helper, window: u64, codes: &[u64]) -> Vec<Option<u8>> {
    let mut found = Vec::with_capacity(codes.len());
    for batch in codes.chunks(BATCH) {
        helper.help(near);
        near.in_order(
            batch,
            |&code| Some(code),
            |near, &code| {
                found.push(near.nearest(code, REACH).map(|(distance, _)| distance));
                let position = near.push(Some(code));
                near.expire_to((position + 1).saturating_sub(window));
            },
        );
    }
    found
}

/// Compares some answers with those of a comparison with every code.
fn check(near: &HammingIndex, codes: &[u64]) {
    for &code in codes.iter().step_by(codes.len() / 50) {
        let mut expected = None;
        for position in near.positions() {
            let distance = (near.code(position).unwrap() ^ code).count_ones() as u8;
            if distance <= REACH && expected.is_none_or(|best| (distance, position) < best) {
                expected = Some((distance, position));
            }
        }
        assert_eq!(near.nearest(code, REACH), expected, "{code:x}");
    }
}

/// How long single operations take, in CPU time of the thread, page faults included.
#[derive(Default)]
struct Stalls {
    counts: BTreeMap<String, u64>,
    longest: f64,
    fresh_page: f64,
}

impl Stalls {
    /// Has a window fill twice, and a tenth of it expire at once. Of each operation the shorter time counts: what the
    /// index does is the same both times, and a host that has other things to do strikes elsewhere.
    fn measure(plan: &Plan, helper: &Helper, window: u64, (filling, later): (&[u64], &[u64])) -> Self {
        let mut stalls = Self::default();
        let [one, other] = [(); 2].map(|()| times(plan, helper, window, (filling, later)));
        for (one, other) in one.into_iter().zip(other) {
            stalls.note(one.min(other));
        }
        stalls.fresh_page = fresh_page_ns();
        stalls
    }

    fn note(&mut self, ns: f64) {
        let bound = [10_000.0, 100_000.0, 1_000_000.0, 5_000_000.0].into_iter().find(|bound| ns <= *bound);
        let name = bound.map_or("more".to_owned(), |bound| format!("to {} us", bound / 1000.0));
        *self.counts.entry(name).or_default() += 1;
        self.longest = self.longest.max(ns);
    }
}

/// Returns the times of operations: while a window and its tables grow from nothing every eighth, then each while a
/// tenth of it expires at once and others come.
fn times(plan: &Plan, helper: &Helper, window: u64, (filling, later): (&[u64], &[u64])) -> Vec<f64> {
    let mut near = HammingIndex::with_plan(plan.clone(), window);
    let mut times = Vec::new();
    for (number, &code) in filling.iter().enumerate() {
        if number % BATCH == 0 {
            times.push(timed(|| helper.help(&mut near)).0);
        }
        if number % 8 == 0 || number.is_power_of_two() {
            times.push(timed(|| near.push(Some(code))).0);
        } else {
            near.push(Some(code));
        }
    }
    for (number, &code) in later.iter().take(300_000).enumerate() {
        let operation = || {
            if number % BATCH == 0 {
                helper.help(&mut near);
            }
            std::hint::black_box(near.nearest(code, REACH));
            let position = near.push(Some(code));
            let tenth = if number >= 1000 { window / 10 } else { 0 };
            near.expire_to((position + 1 + tenth).saturating_sub(window));
        };
        times.push(timed(operation).0);
    }
    times
}
