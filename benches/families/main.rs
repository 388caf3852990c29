//! What it costs a judge to look up a page where many pages are like it: template families, one text in many scopes,
//! pages with a block in common, the pages of one site, and pages that are crawled again and again.
//!
//! `cargo bench --bench families -- [PAGES] [KIND...]`: 200,000 pages of each kind ([`FamilyKind`]; twice as many of
//! ten templates), fingerprints made beforehand by the reader of the service, so that no text work is in the numbers.
//! One judge, one thread, in its CPU time. Measured and checked: the last thousand pages cost at most three times what
//! the second thousand did, 99 of 100 pages take at most 200 us, 99 % of the copies are found, and of a thousand other
//! pages at most one is called a duplicate. A kind that costs too much is given up after a minute. A table, then one
//! JSON object as the last line; exit code 1 when a check fails and `DUPGATE_BENCH_CHECK=1`.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench panics where it cannot continue")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]
#![expect(clippy::cast_possible_wrap, reason = "small numbers")]

use std::num::NonZeroUsize;

use dupgate::config::{ExternalInputs, Layers, Purpose, Settings};
use dupgate::fingerprint::{Fingerprinter, Fingerprints, IdHash, PageDigest, ScopeHash, Scratch, SiteHash, TitleHash};
use dupgate::protocol::{
    Answer, Decision, LogIdentity, PageRequest, Request, RequestBody, RequestId, RequestOffset, Rules,
};
use dupgate::quality::{Families, FamilyKind};
use dupgate::record::{EventTime, Fields, Format, InputSettings, PartitionId, RawRecord, Timestamp};
use dupgate_core::judge::{State, decide, decide_observed};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::json;

/// Characters of a page: some three hundred words.
const LETTERS: usize = 1800;
const THOUSAND: usize = 1000;
/// A kind is given up after this much CPU time.
const MAX_NS: f64 = 60e9;
/// One page in this many is asked about again, for what is compared for it.
const ASKED: usize = 50;

/// When the broker takes each request: no page's clock is ahead of it.
const APPENDED: Timestamp = Timestamp::from_millis(i64::MAX / 2);

/// The checks.
const MAX_GROWTH: f64 = 3.0;
const MAX_P99_US: f64 = 200.0;
const MIN_FOUND: f64 = 0.99;
const MAX_LOST: f64 = 0.001;

/// What is asked about one page, and what it is.
struct Page {
    fingerprints: Fingerprints,
    scope: Option<ScopeHash>,
    site: Option<SiteHash>,
    title: Option<TitleHash>,
    id: Option<IdHash>,
    family: usize,
    is_copy: bool,
}

/// What judging one kind came to.
#[derive(Debug, Default, Serialize)]
struct Run {
    kind: &'static str,
    pages: usize,
    /// Pages judged: fewer when the kind was given up.
    judged: usize,
    /// CPU time a page in the second thousand and in the last one judged.
    first_us: f64,
    last_us: f64,
    p50_us: f64,
    p99_us: f64,
    most_us: f64,
    /// Originals compared for a page in the second thousand and in the last.
    first_compared: f64,
    last_compared: f64,
    copies: usize,
    found: usize,
    /// Pages that are no copies and were called duplicates.
    lost: usize,
    failed: Vec<&'static str>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let pages: usize = arguments.iter().find_map(|it| it.parse().ok()).unwrap_or(200_000).max(4 * THOUSAND);
    let wanted = |kind: &FamilyKind| {
        let names: Vec<&String> = arguments.iter().filter(|it| it.parse::<usize>().is_err()).collect();
        names.is_empty() || names.iter().any(|name| *name == kind.name())
    };
    let (mut settings, _) = Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap();
    settings.record = InputSettings {
        format: Format::Text,
        fields: Fields::nowhere(),
        event_time: EventTime::Record,
        ..settings.record
    };
    let reader =
        Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN).unwrap();
    let mut runs = Vec::new();
    println!("{}", Run::HEAD);
    for kind in FamilyKind::ALL.into_iter().filter(wanted) {
        let pages = if kind == FamilyKind::TenTemplates { 2 * pages } else { pages };
        let run = Run::of(kind, &read(kind, pages, &reader), &settings);
        println!("{}", run.row());
        runs.push(run);
    }
    let has_failed = runs.iter().any(|run| !run.failed.is_empty());
    println!("{}", json!({ "families": runs }));
    if has_failed && std::env::var_os("DUPGATE_BENCH_CHECK").is_some() {
        std::process::exit(1);
    }
}

/// Writes and reads all pages, on all cores, in order.
fn read(kind: FamilyKind, pages: usize, reader: &Fingerprinter) -> Vec<Page> {
    let families = Families::new(kind, LETTERS);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = pages.div_ceil(threads);
    let part = |thread: usize| {
        let mut scratch = Scratch::default();
        let mut last: Option<(String, Fingerprints)> = None;
        let read = |number: usize| {
            let page = families.page(number);
            // The same text comes again and again where scopes differ.
            if last.as_ref().is_none_or(|(text, _)| *text != page.text) {
                let record = RawRecord { key: None, value: Some(page.text.as_bytes()), headers: &() };
                let fingerprints = reader.read(&record, &mut scratch).unwrap().fingerprints;
                last = Some((page.text, fingerprints));
            }
            let fingerprints = last.as_ref().unwrap().1.clone();
            Page {
                fingerprints,
                scope: page.scope.map(|scope| ScopeHash(scope as u64)),
                site: page.site.map(SiteHash),
                title: page.title.map(TitleHash),
                id: page.id.map(|id| IdHash(id as u64)),
                family: page.family,
                is_copy: page.is_copy,
            }
        };
        (thread * share..pages.min((thread + 1) * share)).map(read).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn entry_of(page: &Page, number: usize) -> Request {
    let body = PageRequest {
        source: PartitionId::new("pages", 0).at(number as i64),
        event_time: Timestamp::from_millis(1 + number as i64),
        id: page.id,
        scope: page.scope,
        site: page.site,
        address: None,
        title: page.title,
        is_variant: false,
        fingerprints: page.fingerprints.clone(),
        digest: PageDigest(0),
        earlier: None,
    };
    Request { id: RequestId(number as u64), body: RequestBody::Page(body) }
}

impl Run {
    const HEAD: &str = "| pages | judged | us a page: second thousand | last | p50 | p99 | most | compared a page: second thousand | last | copies found | lost | failed |\n|---|---|---|---|---|---|---|---|---|---|---|---|";

    fn of(kind: FamilyKind, pages: &[Page], settings: &Settings) -> Self {
        let rules = Rules { max_entries: pages.len() as u64, ..settings.rules.clone() };
        let mut state = State::begin(LogIdentity(1), rules, RequestOffset(0));
        let (mut times, mut compared): (Vec<f64>, Vec<(usize, u32)>) = (Vec::with_capacity(pages.len()), Vec::new());
        let mut run = Self { kind: kind.name(), pages: pages.len(), ..Self::default() };
        let mut spent = 0.0;
        for first in (0..pages.len()).step_by(THOUSAND) {
            let requests: Vec<Request> =
                (first..pages.len().min(first + THOUSAND)).map(|number| entry_of(&pages[number], number)).collect();
            for (number, request) in (first..).zip(&requests).step_by(ASKED) {
                compared.push((number, compared_for(&state, request)));
            }
            for (at, request) in requests.iter().enumerate() {
                state.index().prefetch_upcoming(|ahead| requests.get(at + 1 + ahead));
                let started = cpu_ns();
                let verdict = decide(&state, request, APPENDED).unwrap();
                state.follow(&verdict).unwrap();
                let took = cpu_ns() - started;
                times.push(took);
                spent += took;
                let Answer::Page(verdict) = verdict.answer else { continue };
                let page = &pages[first + at];
                let matched = match verdict.decision {
                    Decision::Duplicate { of } => usize::try_from(of.source.offset).ok(),
                    Decision::Unique { .. } | Decision::Update { .. } | Decision::Template { .. } => None,
                };
                if page.is_copy {
                    run.copies += 1;
                    run.found += usize::from(matched.is_some_and(|of| pages[of].family == page.family));
                } else {
                    run.lost += usize::from(matched.is_some());
                }
            }
            if spent > MAX_NS {
                break;
            }
        }
        run.judged = times.len();
        let last = run.judged - THOUSAND;
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64 / 1000.0;
        (run.first_us, run.last_us) = (mean(&times[THOUSAND..2 * THOUSAND]), mean(&times[last..]));
        let compared_in = |from: usize| {
            let theirs = compared.iter().filter(|(number, _)| (from..from + THOUSAND).contains(number));
            let theirs: Vec<f64> = theirs.map(|(_, compared)| f64::from(*compared)).collect();
            theirs.iter().sum::<f64>() / theirs.len().max(1) as f64
        };
        (run.first_compared, run.last_compared) = (compared_in(THOUSAND), compared_in(last));
        times.sort_unstable_by(f64::total_cmp);
        let part = |share: usize| times[(times.len() - 1) * share / 100] / 1000.0;
        (run.p50_us, run.p99_us, run.most_us) = (part(50), part(99), part(100));
        run.check();
        run
    }

    fn check(&mut self) {
        let found = self.found as f64 / self.copies.max(1) as f64;
        let checks = [
            (self.judged == self.pages, "given up"),
            (self.last_us <= MAX_GROWTH * self.first_us, "growth"),
            (self.p99_us <= MAX_P99_US, "p99"),
            (found >= MIN_FOUND, "copies"),
            (self.lost as f64 <= MAX_LOST * self.judged as f64, "lost"),
        ];
        self.failed = checks.into_iter().filter(|(holds, _)| !holds).map(|(_, name)| name).collect();
    }

    fn row(&self) -> String {
        let Self { kind, judged, pages, first_us, last_us, p50_us, p99_us, most_us, .. } = self;
        let Self { first_compared, last_compared, copies, found, lost, failed, .. } = self;
        let failed = if failed.is_empty() { "-".to_owned() } else { failed.join(", ") };
        format!(
            "| {kind} | {judged} of {pages} | {first_us:.1} | {last_us:.1} | {p50_us:.1} | {p99_us:.1} | {most_us:.0} | \
             {first_compared:.1} | {last_compared:.1} | {found} of {copies} | {lost} | {failed} |"
        )
    }
}

/// Returns how many originals are compared with a page, those of its families included.
fn compared_for(state: &State, request: &Request) -> u32 {
    let mut compared = 0;
    let _ = decide_observed(state, request, APPENDED, |seen| compared += seen.compared);
    compared
}
