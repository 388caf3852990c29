//! `match.simhash.bits`: codes of 32 and 128 bits, from the page to the verdict.

#![expect(clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use dupgate::crawl::{Crawl, CrawlSettings};
use dupgate::fingerprint::{Fingerprinter, Fingerprints, Scratch, Settings, SimHashSettings, Width};
use dupgate::record::{InputSettings, RawRecord};
use dupgate::text;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::program::{CliOutput, dupgate, output_of};

const DISTANCE: u32 = 6;

fn run(folder: &Path, arguments: &[&str]) -> CliOutput {
    output_of(dupgate().current_dir(folder).args(arguments))
}

/// Pages of a generated crawl: new ones, exact copies and near ones.
fn pages() -> Vec<Value> {
    let settings = CrawlSettings { near: 0.4, ..CrawlSettings::default() };
    let pages = Crawl::new(settings).unwrap().take(500).filter_map(|page| serde_json::from_slice(&page.value).ok());
    let text = |page: Value| page["text"].is_string().then(|| json!({ "text": page["text"] }));
    pages.filter_map(text).collect()
}

fn fingerprints(width: Width, page: &Value) -> Fingerprints {
    let settings =
        Settings { simhash: SimHashSettings { bits: width, ..SimHashSettings::default() }, ..Settings::default() };
    let reader =
        Fingerprinter::new(&InputSettings::default(), &text::Settings::default(), &settings, NonZeroUsize::MIN)
            .unwrap();
    let value = page.to_string();
    let record = RawRecord { key: None, value: Some(value.as_bytes()), headers: &() };
    reader.read(&record, &mut Scratch::default()).unwrap().fingerprints
}

/// The original of each page and the distance, by two loops.
fn expected(pages: &[Fingerprints]) -> Vec<Option<(usize, u32)>> {
    let mut verdicts: Vec<Option<(usize, u32)>> = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let originals = (0..number).filter(|earlier| verdicts[*earlier].is_none());
        let near = originals.filter_map(|earlier| {
            let is_equal = pages[earlier].exact == page.exact;
            let bits = if is_equal { 0 } else { page.distance(&pages[earlier])? };
            (is_equal || bits <= DISTANCE).then_some((!is_equal, bits, earlier))
        });
        verdicts.push(near.min().map(|(_, bits, earlier)| (earlier, bits)));
    }
    verdicts
}

#[test]
fn every_width_agrees_with_two_loops_over_its_codes() {
    let (folder, pages) = (TempDir::new().unwrap(), pages());
    let mut lines = String::new();
    pages.iter().for_each(|page| writeln!(lines, "{page}").unwrap());
    fs::write(folder.path().join("pages.jsonl"), lines).unwrap();
    let mut near = Vec::new();
    for width in Width::ALL {
        let codes: Vec<Fingerprints> = pages.iter().map(|page| fingerprints(width, page)).collect();
        assert!(codes.iter().filter_map(|page| page.simhash).all(|code| code.width() == width));
        let expected = expected(&codes);
        let bits = format!("match.simhash.bits={}", width.bits());
        let distance = format!("match.simhash.max_distance={DISTANCE}");
        let others = ["-s", "match.stages=[exact,simhash]", "-s", "match.number_guard=false"];
        let arguments = [&["sieve", "pages.jsonl", "-s", &bits, "-s", &distance][..], &others].concat();
        let report = run(folder.path(), &arguments);
        assert_eq!(report.code, 0, "{}", report.err);
        let found: Vec<Option<(usize, u32)>> = report
            .out
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                let place = line["match"].as_str()?.strip_prefix("pages.jsonl:")?.parse::<usize>().unwrap();
                Some((place - 1, u32::try_from(line["distance"].as_u64().unwrap()).unwrap()))
            })
            .collect();
        assert_eq!(found, expected, "{width:?}");
        near.push(found.iter().flatten().filter(|(_, bits)| *bits > 0).count());
    }
    // The same distance is rarer by chance in a wider code.
    assert!(near.is_sorted_by(|narrow, wide| narrow > wide) && near[2] > 5, "{near:?}");
}

#[test]
fn codes_are_shown_by_their_width() {
    let folder = TempDir::new().unwrap();
    let text = (0..40).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ");
    fs::write(folder.path().join("one.txt"), &text).unwrap();
    fs::write(folder.path().join("other.txt"), text.replace("word7", "word77")).unwrap();
    for (bits, digits) in [("32", 8), ("64", 16), ("128", 32)] {
        let setting = format!("match.simhash.bits={bits}");
        let explained = run(folder.path(), &["explain", "one.txt", "-o", "json", "-s", &setting]);
        let explained: Value = serde_json::from_str(&explained.out).unwrap();
        assert_eq!(explained["fp"].as_str().unwrap().len(), digits, "{explained}");
        assert!(explained["scheme"].as_str().unwrap().starts_with(&format!("sh{bits}-")), "{explained}");
        let compared = run(folder.path(), &["compare", "one.txt", "other.txt", "-o", "table", "-s", &setting]);
        assert!(compared.out.contains(&format!(" of {bits} bits differ")), "{}", compared.out);
    }
}

#[test]
fn a_code_of_another_width_than_the_schemes_is_refused() {
    let folder = TempDir::new().unwrap();
    let lookup = |code: &str| run(folder.path(), &["index", "lookup", "--fp", code, "-s", "match.simhash.bits=128"]);
    let narrow = lookup("00ff00ff00ff00ff");
    assert_eq!(narrow.code, 2, "{}", narrow.err);
    assert!(narrow.err.contains("--fp 00ff00ff00ff00ff has 64 bits, match.simhash.bits is 128"), "{}", narrow.err);
    let bad = lookup("00ff");
    assert!(bad.code == 2 && bad.err.contains("expected 8, 16 or 32 hexadecimal digits"), "{}", bad.err);
    assert_eq!(lookup("00ff00ff00ff00ff00ff00ff00ff00ff").code, 74, "there is no snapshot");
}

#[test]
fn plans_are_made_and_checked_for_every_width() {
    let folder = TempDir::new().unwrap();
    let plan = |arguments: &[&str]| run(folder.path(), &[&["index", "plan"], arguments].concat());
    for (width, distance) in [(Width::B32, "3"), (Width::B128, "3"), (Width::B128, "8")] {
        let bits = width.bits().to_string();
        let report = plan(&["--bits", &bits, "--max-distance", distance, "--entries", "1000000", "-o", "json"]).out;
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!((report["bits"].as_u64(), report["entries"].as_u64()), (Some(width.bits().into()), Some(1_000_000)));
        let plans = report["plans"].as_array().unwrap();
        let differences = width.differences(distance.parse().unwrap());
        assert!(plans.len() > 5 && plans.iter().all(|plan| plan["proved_differences"] == differences), "{report}");
        assert_eq!(plans.iter().filter(|plan| plan["chosen"] == true).count(), 1);
    }
    // Defaults come from the configuration.
    let report = plan(&["--entries", "1000000", "-s", "match.simhash.bits=128"]).out;
    assert!(report.starts_with("1000000 originals, distance 3 of 128 bits, "), "{report}");
    let report = plan(&["--entries", "1000000", "--bits", "32"]).out;
    assert!(report.ends_with("a page is within that distance of 1.28 originals by chance\n"), "{report}");
    let bad = plan(&["--bits", "48"]);
    assert!(bad.code == 2 && bad.err.contains("expected 32, 64 or 128"), "{}", bad.err);
    let long = "0123456789abcdef0123456789abcdef";
    fs::write(folder.path().join("codes"), format!("{long}\n")).unwrap();
    let sampled = |bits: &str| plan(&["--bits", bits, "--entries", "10", "--sample", "codes"]);
    assert!(sampled("128").out.contains("keys as in 1 codes"), "{}", sampled("128").err);
    assert!(sampled("64").err.contains(&format!("line 1: `{long}` is not a code of 64 bits")), "{}", sampled("64").err);
}
