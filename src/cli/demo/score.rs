//! `demo score`: compares the outputs of a cluster with the truth in their headers.

use std::collections::HashMap;
use std::time::Duration;

use super::ScoreArgs;
use crate::cli::Global;
use crate::cli::output::{Format, print, print_json};
use crate::config::Purpose;
use crate::crawl::Truth;
use crate::crawl::score::{Found, LEGEND, Scorer};
use crate::error::{Fatal, Reason};
use crate::kafka::tail::{Step, Tail, Written};
use crate::protocol::VerdictKind;
use crate::record::Reject;
use crate::runtime::context;

/// Time-out of one wait for an output.
const WAIT: Duration = Duration::from_millis(200);

/// A page of the crawl, as one output record shows it.
#[derive(Clone, Debug)]
pub(super) struct JudgedPage {
    /// Key of the page.
    pub(super) key: String,
    /// The truth about it.
    pub(super) truth: Truth,
    /// Its verdict.
    pub(super) found: Found,
    /// Place of the page that it was judged a duplicate of.
    pub(super) matched: Option<String>,
}

/// Reads the headers of an output record; `None` if it is not of the generated crawl.
pub(super) fn judged_page(written: &Written, prefix: &str) -> Option<JudgedPage> {
    let ours = |name: &str| written.header(&format!("{prefix}{name}"));
    let found = match ours("verdict") {
        Some(name) => Found::of(VerdictKind::named(name)?)?,
        None => Found::Dead(Reject::ALL.into_iter().find(|reason| Some(reason.name()) == ours("error.reason"))?),
    };
    let truth = written.header(Truth::HEADER)?.parse().ok()?;
    Some(JudgedPage { key: written.key.clone()?, truth, found, matched: ours("match").map(str::to_owned) })
}

/// Reads all outputs as they are now, and prints precision and recall by kind of edit.
pub(super) fn score(args: &ScoreArgs, global: &Global) -> Result<(), Fatal> {
    let settings = global.with(Vec::new(), &args.brokers).start(Purpose::Run)?.settings;
    let config = context::connection(&settings.kafka).follower(&settings.input.group);
    let prefix = &settings.output.header_prefix;
    let (mut uniques, mut pages, mut keys, mut others) = (Vec::new(), Vec::new(), HashMap::new(), 0_u64);
    let output = &settings.output;
    // Originals are delivered before their duplicates, so the unique topic is read last.
    for topic in [&output.duplicate, &output.dead_letter, &output.unique].into_iter().flatten() {
        let of_topic = if Some(topic) == output.unique.as_ref() { &mut uniques } else { &mut pages };
        let failed =
            |error| Reason::Unavailable.because(anyhow::Error::from(error).context(format!("reading {topic}")));
        let mut tail = Tail::open(&config, &[topic]).map_err(failed)?;
        loop {
            match tail.next(WAIT).map_err(failed)? {
                Step::Record(written) => match judged_page(&written, prefix) {
                    Some(page) => {
                        if let Some(source) = written.header(&format!("{prefix}source")) {
                            keys.insert(source.to_owned(), page.key.clone());
                        }
                        of_topic.push(page);
                    }
                    None => others += 1,
                },
                Step::Nothing => {}
                Step::End => break,
            }
        }
    }
    let pages: Vec<JudgedPage> = uniques.into_iter().chain(pages).collect();
    let mut scorer = Scorer::new(usize::MAX);
    pages.iter().for_each(|page| scorer.plant(&page.key, &page.truth));
    for page in &pages {
        let matched = page.matched.as_ref().map(|source| keys.get(source).unwrap_or(source).as_str());
        scorer.note(&page.key, &page.truth, page.found, matched);
    }
    let report = scorer.report();
    if others > 0 {
        tracing::warn!(target: "dupgate::cli", others, "outputs that are not of a generated crawl were left out");
    }
    match Format::or_usual(global.output) {
        Format::Table => print(&format!("{report}\n{LEGEND}")),
        format @ (Format::Json | Format::Jsonl) => print_json(&report.to_json(), format),
    }
}
