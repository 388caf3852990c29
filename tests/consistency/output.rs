//! `docs/OUTPUT.md` names the headers that the code writes, and their verdicts.

use std::collections::BTreeSet;
use std::path::Path;

use dupgate::fingerprint::{PageDigest, PerMille, SimHash, SketchForm, SlotBits};
use dupgate::protocol::{Answer, Decision, Match, MatchedBy, PageVerdict, RequestId, Verdict};
use dupgate::record::{PartitionId, Reject, Source, Timestamp};
use dupgate_core::worker::{Header, HeaderSettings};

fn source() -> Source {
    PartitionId::new("pages", 0).at(1)
}

fn settings() -> HeaderSettings {
    HeaderSettings {
        prefix: "dupgate.".to_owned(),
        drop: Vec::new(),
        scheme: "sh64-70e5a4".to_owned(),
        sketch: SketchForm::new(128, SlotBits::B8).ok(),
        group: "crawl".to_owned(),
        replay: None,
    }
}

/// One of each kind of decision.
fn decisions() -> Vec<Decision> {
    let of = |by: MatchedBy| Match { by, source: source(), age_ms: 1, cluster: source() };
    let (near, similar) = (MatchedBy::SimHash { bits: 2 }, MatchedBy::MinHash { slots: 9, contained: None });
    vec![
        Decision::Unique { original: None },
        Decision::Update { of: of(MatchedBy::Exact), original: None },
        Decision::Template { of: of(near), original: None },
        Decision::Duplicate { of: of(MatchedBy::Exact) },
        Decision::Duplicate { of: of(near) },
        Decision::Duplicate { of: of(similar) },
        Decision::Duplicate { of: of(MatchedBy::MinHash { slots: 90, contained: Some(PerMille(930)) }) },
    ]
}

fn headers_of(decision: Decision) -> Vec<Header> {
    let page = PageVerdict { source: source(), event_time: Timestamp::default(), digest: PageDigest(0), decision };
    let verdict = Verdict { request: RequestId(1), answer: Answer::Page(page) };
    let mut headers = settings().of_verdict(&verdict, &source(), Some(SimHash::B64(1)));
    headers.push(settings().of_extraction("main"));
    headers
}

/// The first cells of the table's rows, and their second ones.
fn table() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OUTPUT.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `dupgate."));
    let cells = rows.map(|row| format!("`dupgate.{row}"));
    cells
        .map(|row| row.split(" | ").take(2).map(str::to_owned).collect::<Vec<_>>())
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect()
}

fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_table_names_exactly_the_headers_of_a_verdict() {
    let written: BTreeSet<String> = decisions().into_iter().flat_map(headers_of).map(|header| header.name).collect();
    let documented: BTreeSet<String> = table().iter().flat_map(|(names, _)| quoted(names)).collect();
    assert_eq!(documented, written);
}

#[test]
fn the_table_names_exactly_the_verdicts() {
    let verdict = |header: Header| {
        let value = header.value.filter(|_| header.name == "dupgate.verdict")?;
        Some(String::from_utf8(value).unwrap())
    };
    let written: BTreeSet<String> = decisions().into_iter().flat_map(headers_of).filter_map(verdict).collect();
    let documented: Vec<BTreeSet<String>> = table()
        .into_iter()
        .filter(|(names, _)| names.contains("dupgate.verdict"))
        .map(|(_, values)| quoted(&values))
        .collect();
    assert_eq!(documented, [written]);
}

#[test]
fn the_text_names_every_header_of_a_dead_letter() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OUTPUT.md");
    let text = std::fs::read_to_string(path).unwrap();
    let paragraph = text.split("\n\n").find(|paragraph| paragraph.starts_with("A dead letter")).unwrap();
    let documented: BTreeSet<String> = quoted(paragraph).iter().map(|name| name.replace("dupgate.error", "")).collect();
    let mut headers = settings().of_reject(Reject::NoText, None, &source(), Some(Timestamp::default()));
    headers.push(settings().of_cut(1));
    let written: BTreeSet<String> = headers.iter().map(|header| header.name.replace("dupgate.error", "")).collect();
    assert_eq!(documented, written);
}
