//! One judge over all pages.

use dupgate::config::Settings;
use dupgate::protocol::{
    Answer, Decision, LogIdentity, MinHashRules, PageRequest, Request, RequestBody, RequestId, RequestOffset, Rules,
};
use dupgate::quality::Scorer;
use dupgate::record::{PartitionId, Timestamp};
use dupgate_core::judge::{State, decide, decide_observed};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::Page;

/// When brokers appended every request: later than any page.
const APPENDED: Timestamp = Timestamp::from_millis(i64::MAX / 2);

/// Statistics of one set of rules.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) name: String,
    /// CPU time a page over the last tenth of the pages, when nearly all originals are held.
    ns: f64,
    /// Sketches compared for a page, in the last tenth.
    compared: f64,
    /// Memory of the sketches and their tables, and of the whole index, for an original.
    sketch_bytes: f64,
    index_bytes: f64,
    removed: f64,
    /// Pages of a million that are called duplicates and are none, or of another text.
    wrong_per_million: f64,
    /// Those of them whose exact Jaccard index is below the least that the judge asks for, and below two thirds of it.
    pub(crate) unlike_per_million: [f64; 2],
    precision: f64,
    recall: f64,
    /// The false ones, with what they were called duplicates of.
    #[serde(skip)]
    pub(crate) wrong: Vec<(usize, usize)>,
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Judges all pages by the configured rules with these for the sketches.
pub(crate) fn run(pages: &[Page], minhash: MinHashRules, settings: &Settings) -> Run {
    // The tables are made for as many as come, as those of a judge whose window is full.
    let rules = Rules { minhash: Some(minhash), max_entries: pages.len() as u64, ..settings.rules.clone() };
    let mut state = State::begin(LogIdentity(1), rules.clone(), RequestOffset(0));
    let place = PartitionId::new("pages", 0);
    let request = |number: usize| {
        let body = PageRequest {
            source: place.at(number as i64),
            event_time: Timestamp::from_millis(1 + number as i64),
            id: None,
            scope: None,
            site: None,
            address: None,
            title: None,
            is_variant: false,
            fingerprints: pages[number].fingerprints.clone(),
            digest: dupgate::fingerprint::PageDigest(0),
            earlier: None,
        };
        Request { id: RequestId(number as u64), body: RequestBody::Page(body) }
    };
    let (mut scorer, mut wrong) = (Scorer::default(), Vec::new());
    let (mut spent, mut compared, mut asked) = (0.0, 0_u64, 0_u64);
    let measured = pages.len() - pages.len() / 10;
    for first in (0..pages.len()).step_by(1000) {
        let last = pages.len().min(first + 1000);
        let requests: Vec<Request> = (first..last).map(request).collect();
        // The judge reports the number compared to its watchers; here one page in a hundred is looked up beforehand.
        // Copies are at even places: this one is not.
        for number in (first.max(measured) + 7..last).step_by(100) {
            let mut by_sketch = request(number);
            if let RequestBody::Page(page) = &mut by_sketch.body {
                page.fingerprints.simhash = None;
            }
            let _ = decide_observed(&state, &by_sketch, APPENDED, |seen| compared += u64::from(seen.compared));
            asked += 1;
        }
        let started = cpu_ns();
        let mut verdicts = Vec::with_capacity(requests.len());
        for (number, request) in requests.iter().enumerate() {
            state.index().prefetch_upcoming(|ahead| requests.get(number + 1 + ahead));
            let verdict = decide(&state, request, APPENDED).unwrap();
            state.follow(&verdict).unwrap();
            verdicts.push(verdict);
        }
        if first >= measured {
            spent += cpu_ns() - started;
        }
        for (number, verdict) in (first..).zip(verdicts) {
            let Answer::Page(page) = verdict.answer else { continue };
            let matched = match page.decision {
                Decision::Duplicate { of } => usize::try_from(of.source.offset).ok(),
                Decision::Unique { .. } | Decision::Update { .. } | Decision::Template { .. } => None,
            };
            scorer.note(pages[number].family, pages[number].role, matched);
            wrong.extend(matched.filter(|of| pages[*of].family != pages[number].family).map(|of| (number, of)));
        }
    }
    let report = scorer.report();
    let held = state.index().stats();
    let originals = held.originals as f64;
    Run {
        name: format!("{} x {}, {} shared", minhash.banding.bands(), minhash.banding.rows(), minhash.min_shared_bands),
        ns: spent / (pages.len() - measured.next_multiple_of(1000)) as f64,
        compared: compared as f64 / asked as f64,
        sketch_bytes: held.sketch_bytes as f64 / originals,
        index_bytes: held.memory_bytes as f64 / originals,
        removed: report.removed.share(),
        wrong_per_million: wrong.len() as f64 / pages.len() as f64 * 1e6,
        unlike_per_million: [0.0; 2],
        precision: report.pairs.precision(),
        recall: report.pairs.recall(),
        wrong,
    }
}

impl Run {
    /// One row for each run.
    pub(crate) fn table(runs: &[Self]) -> String {
        let mut lines = vec![
            "| bands | ns a page | compared a page | bytes an original: sketches | whole index | copies removed | called near, of a million | Jaccard < .3 | < .2 | pair precision | recall |".to_owned(),
            "|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        lines.extend(runs.iter().map(|run| {
            format!(
                "| {} | {:.0} | {:.2} | {:.0} | {:.0} | {:.2} % | {:.1} | {:.1} | {:.1} | {:.5} | {:.4} |",
                run.name,
                run.ns,
                run.compared,
                run.sketch_bytes,
                run.index_bytes,
                run.removed * 100.0,
                run.wrong_per_million,
                run.unlike_per_million[0],
                run.unlike_per_million[1],
                run.precision,
                run.recall
            )
        }));
        lines.join("\n")
    }
}
