//! `tune` over a generated crawl.

use std::fs;
use std::path::Path;

use dupgate::crawl::{Crawl, CrawlSettings};
use serde_json::Value;
use tempfile::TempDir;

use super::program::{CliOutput, dupgate, output_of};

/// Writes pages with planted near copies, one line each.
fn crawl(folder: &Path) {
    let settings = CrawlSettings { near: 0.4, broken: 0.02, html: 0.0, ..CrawlSettings::default() };
    let mut bytes = Vec::new();
    for page in Crawl::new(settings).unwrap().take(400) {
        bytes.extend_from_slice(&page.value);
        bytes.push(b'\n');
    }
    fs::write(folder.join("pages.jsonl"), bytes).unwrap();
}

fn tune(folder: &Path, arguments: &[&str]) -> CliOutput {
    output_of(dupgate().args(["tune", "pages.jsonl"]).args(arguments).current_dir(folder))
}

#[test]
fn thresholds_are_tried_and_the_doubtful_pairs_written() {
    let folder = TempDir::new().unwrap();
    crawl(folder.path());
    let output = tune(folder.path(), &["-o", "json", "--look", "10"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.err.contains("lines hold no page"), "{}", output.err);
    let report: Value = serde_json::from_str(&output.out).unwrap();
    let column = |sweep: &str, of: &str| {
        let rows = report[sweep].as_array().unwrap();
        rows.iter().map(|row| row[of].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    // A looser threshold finds more, and never fewer.
    let recall = column("max_distance", "recall");
    assert_eq!(recall.len(), 9);
    assert!(recall.is_sorted() && recall[8] > recall[0], "{recall:?}");
    let recall = column("min_similarity", "recall");
    assert!(recall.iter().rev().is_sorted() && recall[2] > 0.97, "{recall:?}");
    let near = column("max_distance", "pages_near");
    assert!(near.is_sorted() && near[8] < report["pages"].as_f64().unwrap(), "{near:?}");
    let recommended = &report["recommended"];
    let truth = report["truth"].as_f64().unwrap();
    assert_eq!(recommended["match.minhash.min_similarity"], truth);
    assert!((0.15..=0.85).contains(&truth), "{truth}");
    // The reference confirms the recommendation.
    let bits = usize::try_from(recommended["match.simhash.max_distance"].as_u64().unwrap()).unwrap();
    assert!(column("max_distance", "precision")[bits] > 0.95, "{report}");

    // The effect on a full index is the same as in `validate --matching`.
    let sample = &report["sample"];
    assert_eq!((&sample["pages"], &sample["is_small"]), (&report["pages"], &true.into()));
    assert!(sample["caution"].as_str().unwrap().starts_with("caution: "), "{sample}");
    let distance = format!("match.simhash.max_distance={bits}");
    let kafka = [
        "kafka.brokers=[k:9092]",
        "input.topics=[pages]",
        "output.unique.topic=u",
        "output.duplicate.topic=d",
        "output.dead_letter.topic=x",
    ];
    let sets = kafka.iter().flat_map(|set| ["-s", set]).chain(["-s", &distance]);
    let validated = super::program::output_of(
        dupgate().args(["validate", "--matching", "-o", "json"]).args(sets).current_dir(folder.path()),
    );
    let validated: Value = serde_json::from_str(&validated.out).unwrap();
    let (chance, simhash) = (&sample["chance_matches"], &validated["simhash"]);
    assert_eq!(
        (&chance["a_page"], &chance["max_entries"]),
        (&simhash["by_chance"], &simhash["max_entries"]),
        "{validated}"
    );
    let [a_page, a_day] = ["a_page", "a_day"].map(|of| chance[of].as_f64().unwrap());
    // The index fills in three days.
    let expected = a_page * simhash["max_entries"].as_f64().unwrap() / 3.0;
    assert!((a_day - expected).abs() <= expected * 1e-9, "{chance}");

    let html = fs::read_to_string(folder.path().join("tune-pairs.html")).unwrap();
    assert_eq!(html.matches("<section>").count(), 10);
    assert!(html.contains("<del>") && html.contains("<ins>") && html.contains("pages.jsonl:"), "{html}");
    assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("<link"), "nothing is fetched");
    assert_eq!(tune(folder.path(), &["-o", "json", "--look", "10"]).out, output.out);
}

#[test]
fn people_see_configured_and_recommended_values() {
    let folder = TempDir::new().unwrap();
    crawl(folder.path());
    let arguments = ["-o", "table", "--truth", "0.4", "--html", "look.html", "-s", "match.minhash.min_similarity=0.5"];
    let output = tune(folder.path(), &arguments);
    let line = |begin: &str| output.out.lines().find(|line| line.starts_with(begin)).unwrap_or_default().to_owned();
    assert!(output.out.contains("with a Jaccard index of 0.4 or more as duplicates\n"), "{}", output.out);
    assert!(tune(folder.path(), &["-o", "table"]).out.contains(" as duplicates, above unrelated pages\n"));
    let caution = line("caution: ");
    assert!(
        caution.contains(" pages with ") && caution.contains(" are a small sample (take 2,000 pages, 50 pairs)"),
        "{caution}"
    );
    assert!(
        caution.contains("; unrelated pages in an index of ") && caution.contains(" a day match by chance"),
        "{caution}"
    );
    assert!(line("3 ").contains("as configured"), "{}", output.out);
    assert!(line("0.4 ").ends_with("recommended") && line("0.5 ").ends_with("as configured"), "{}", output.out);
    assert!(line("recommended: ").ends_with("match.minhash.min_similarity: 0.4"), "{}", output.out);
    assert!(line("40 pairs to review").ends_with("look.html"), "{}", output.out);
    assert!(folder.path().join("look.html").exists());
}

#[test]
fn markup_in_a_page_is_escaped() {
    let folder = TempDir::new().unwrap();
    let text =
        "The committee met on Tuesday <script>alert(1)</script> & discussed the \"new\" bridge over the old river.";
    let lines = [text.to_owned(), text.replace("Tuesday", "Monday <b>")].map(|text| serde_json::json!({"text": text}));
    fs::write(folder.path().join("pages.jsonl"), lines.map(|line| line.to_string()).join("\n")).unwrap();
    assert_eq!(tune(folder.path(), &[]).code, 0);
    let html = fs::read_to_string(folder.path().join("tune-pairs.html")).unwrap();
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script") && !html.contains("<b>"), "{html}");
}

#[test]
fn a_sample_without_similar_pages_is_a_failure() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("pages.jsonl"), "{\"text\": \"alone\"}\n").unwrap();
    let output = tune(folder.path(), &[]);
    assert!(output.code == 1 && output.err.contains("no two of 1 pages are similar"), "{} {}", output.code, output.err);
    assert!(!folder.path().join("tune-pairs.html").exists());
    assert_eq!(tune(folder.path(), &["--truth", "1.5"]).code, 2);
}

#[test]
fn stop_shingles_are_found_written_and_left_out() {
    let folder = TempDir::new().unwrap();
    let mut lines = Vec::new();
    for page in Crawl::new(CrawlSettings { near: 0.0, exact: 0.0, broken: 0.0, html: 0.0, ..CrawlSettings::default() })
        .unwrap()
        .take(60)
    {
        let mut page: Value = serde_json::from_slice(&page.value).unwrap();
        page["text"] = format!("首页新闻体育 {}", page["text"].as_str().unwrap()).into();
        // A repeated page makes nothing frequent.
        let times = if lines.is_empty() { 30 } else { 1 };
        lines.extend(vec![page.to_string(); times]);
    }
    fs::write(folder.path().join("pages.jsonl"), lines.join("\n")).unwrap();
    let stop = |arguments: &[&str]| {
        let stop = ["tune", "stop-shingles", "pages.jsonl"];
        output_of(dupgate().args(stop).args(arguments).current_dir(folder.path()))
    };
    let report = stop(&["--share", "0.9", "--other", "0.9", "-o", "json", "--write", "stop.txt"]);
    assert_eq!((report.code, report.err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!((&json["pages"], &json["unique"], &json["file"]), (&89.into(), &60.into(), &"stop.txt".into()));
    let list = fs::read_to_string(folder.path().join("stop.txt")).unwrap();
    let shingles: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(list.starts_with("# stop-shingles 1\n") && shingles.contains(&"首页新闻"), "{list}");
    assert_eq!(json["shingles"], shingles.len());
    // The generated pages have a line with their date, too.
    assert!(shingles.len() < 80, "words of the page that occurs thirty times are not listed: {list}");

    let explain = |set: &str| {
        output_of(dupgate().args(["explain", "pages.jsonl:1", "-o", "json", "-s", set]).current_dir(folder.path()))
    };
    let with: Value = serde_json::from_str(&explain("match.minhash.stop_shingles=stop.txt").out).unwrap();
    let without: Value = serde_json::from_str(&explain("match.minhash.stop_shingles=null").out).unwrap();
    assert!(with["stop_shingles"].as_u64().unwrap() > 2 && with["sketch"] != without["sketch"]);
    let refused = explain("match.minhash.stop_shingles=pages.jsonl");
    assert!(
        refused.code == 78 && refused.err.contains("expected a file that `dupgate tune stop-shingles` wrote"),
        "{}",
        refused.err
    );
    assert_eq!(stop(&["--share", "0"]).code, 2);
    assert!(stop(&["-o", "table"]).out.contains("match.minhash.stop_shingles: stop-shingles.txt"));
}
