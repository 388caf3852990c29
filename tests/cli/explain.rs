//! `explain`: what is read from a page, and the originals near it in a snapshot.

use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dupgate::config::{ExternalInputs, Layers, Purpose, Settings};
use dupgate::fingerprint::{Fingerprinter, Scratch};
use dupgate::protocol::{LogIdentity, PageRequest, Request, RequestBody, RequestId, RequestOffset, VerdictOffset};
use dupgate::record::{PartitionId, RawRecord, Timestamp};
use dupgate::snapshot::Folder;
use dupgate_core::judge::{LogRetention, SharedSnapshot, State, decide};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::program::{CliOutput, dupgate, output_of};

const ZH: &str = "据了解，研究人员近日在南海发现了一种此前从未记录的深海珊瑚，样本采集自水下两千米的海山。专家认为，这一计划为认识海洋生态系统提供了新的证据，也提醒人们注意保护脆弱的海底环境。";
const EN: &str = "The harbour authority announced on Tuesday that dredging of the northern channel will begin next spring, \
    after engineers found that sediment had reduced its depth by nearly two metres. Ferry companies welcomed the decision \
    but asked for guarantees about summer timetables.";

fn explain(folder: &Path, arguments: &[&str]) -> CliOutput {
    let path = format!("index.path={}", folder.join("state").display());
    output_of(dupgate().arg("explain").args(arguments).args(["-s", &path]).current_dir(folder))
}

fn explain_json(folder: &Path, arguments: &[&str]) -> Value {
    let output = explain(folder, &[arguments, &["-o", "json"]].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
}

fn defaults() -> Settings {
    Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap().0
}

/// Writes a snapshot whose originals are these texts, all with the same time.
fn remember(folder: &Path, texts: &[&str]) {
    let settings = defaults();
    let reader =
        Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, NonZeroUsize::MIN).unwrap();
    let mut state = State::begin(LogIdentity(1), settings.rules.clone(), RequestOffset(0));
    for (number, text) in (0..).zip(texts) {
        let value = json!({"text": text}).to_string();
        let record = RawRecord { key: None, value: Some(value.as_bytes()), headers: &() };
        let reading = reader.read(&record, &mut Scratch::default()).unwrap();
        let page = PageRequest {
            source: PartitionId::new("pages", 3).at(number),
            event_time: Timestamp::from_millis(1_000_000),
            id: reading.id,
            scope: reading.scope,
            site: None,
            address: None,
            title: None,
            is_variant: false,
            fingerprints: reading.fingerprints,
            digest: reading.digest,
            earlier: None,
        };
        let entry = Request { id: RequestId(1), body: RequestBody::Page(page) };
        let verdict = decide(&state, &entry, Timestamp::from_millis(1_000_000)).unwrap();
        state.follow(&verdict).unwrap();
    }
    let snapshot = SharedSnapshot::take(&state, &LogRetention::default(), VerdictOffset(17), None).unwrap().listed();
    let folder = Folder::open(folder.join("state"), NonZeroUsize::MIN, Duration::ZERO).unwrap();
    folder.store("0", &settings.scheme(), &snapshot).unwrap();
}

#[test]
fn people_see_text_words_shingles_and_fingerprints() {
    let folder = TempDir::new().unwrap();
    let page = json!({"url": "https://a.example/1", "text": ZH}).to_string();
    fs::write(folder.path().join("page.json"), page).unwrap();
    let output = explain(folder.path(), &["page.json", "-o", "table"]);
    assert_eq!((output.code, output.err.as_str()), (0, ""));
    let row = |name: &str| {
        let found = output.out.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        found.trim().to_owned()
    };
    assert_eq!(row("id "), "https://a.example/1");
    assert_eq!(row("text "), "87 characters from text");
    assert_eq!(row("segmenter "), "jieba (Han 100 % of the letters, 12 runs)");
    assert!(row("tokens ").contains("heaviest: "), "{}", output.out);
    assert!(row("shingles ").contains("first: 据了解研, 了解研究, "), "{}", output.out);
    assert_eq!(row("numbers "), "0 different");
    assert_eq!(row("simhash "), "41aba784b07e92e3", "as in the library");
    assert_eq!(row("scheme "), defaults().scheme().to_string());
    assert!(row("lookup ").starts_with("no snapshot of this scheme in "), "{}", output.out);
}

#[test]
fn programs_read_all_of_it() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("page.txt"), "Snow, snow and RAIN 在 北京！ 北京!").unwrap();
    fs::write(folder.path().join("prices.txt"), "Up 3.5% to 1,234; 1,234 sold at 12:30.").unwrap();
    assert_eq!(explain_json(folder.path(), &["prices.txt"])["numbers"], json!(["3.5", "1,234"]));
    let report = explain_json(folder.path(), &["page.txt", "-s", "text.min_features=1", "-s", "match.simhash.top_k=2"]);
    assert_eq!(report["text"], "snow, snow and rain 在 北京! 北京!");
    assert_eq!((&report["from"], &report["tokens"], &report["fp"].is_null()), (&"text".into(), &5.into(), &false));
    assert_eq!(report["fp_missing"], Value::Null);
    let words = report["words"].as_array().unwrap();
    let word = |text: &str| words.iter().find(|word| word["text"] == text).unwrap();
    assert_eq!((&word("snow")["count"], &word("snow")["weight"]), (&2.into(), &12.0.into()));
    assert_eq!((&word("rain")["count"], &word("rain")["weight"]), (&1.into(), &6.0.into()));
    assert_eq!(words.iter().filter(|word| word["counts"] == true).count(), 2);
    assert_eq!(words[0]["counts"], true, "the heaviest first");
    let runs: Vec<&str> = report["runs"].as_array().unwrap().iter().map(|run| run["text"].as_str().unwrap()).collect();
    assert_eq!(runs, ["snow, snow and rain ", "在", " ", "北京", "! ", "北京", "!"]);
    assert_eq!((&report["han_letters"], &report["letters"]), (&5.into(), &20.into()));
    let shingles: Vec<&str> = report["shingles"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(shingles[..2], ["snowsn", "nowsno"]);
    assert_eq!(shingles.last().unwrap(), &"北京北京", "across punctuation, and none is shorter");
}

#[test]
fn the_kept_share_of_html_is_shown() {
    let folder = TempDir::new().unwrap();
    let body = (0..6).map(|n| format!("<p>Paragraph {n}. {EN}</p>")).collect::<Vec<_>>().concat();
    let links = (0..60).map(|n| format!("<li><a href=/{n}>Section number {n}</a></li>"));
    let navigation = links.collect::<Vec<_>>().concat();
    let html = format!("<html><body><nav><ul>{navigation}</ul></nav><article><h1>Harbour</h1>{body}</article></body>");
    fs::write(folder.path().join("page.html"), html).unwrap();
    let main = explain_json(folder.path(), &["page.html"]);
    let all = explain_json(folder.path(), &["page.html", "-s", "text.html=all_text"]);
    let length = |report: &Value, of: &str| report[of].as_u64().unwrap();
    assert_eq!((&main["from"], &main["visible_characters"]), (&"html".into(), &all["characters"]));
    assert_eq!(all["characters"], all["visible_characters"]);
    assert!(length(&main, "characters") < length(&main, "visible_characters"), "{main}");
}

#[test]
fn the_nearest_originals_of_a_snapshot_are_named_with_the_verdict() {
    let folder = TempDir::new().unwrap();
    remember(folder.path(), &["Snow fell in the mountains overnight, and nobody was hurt.", ZH, EN]);
    let near = EN.replace("Tuesday", "Monday");
    fs::write(folder.path().join("near.txt"), &near).unwrap();
    fs::write(folder.path().join("same.txt"), ZH).unwrap();
    fs::write(folder.path().join("other.txt"), "Quarterly profits of the brewery fell by a third, its owners said.")
        .unwrap();
    let lookup = |file: &str| explain_json(folder.path(), &[file])["lookup"].clone();
    let found = lookup("near.txt");
    assert_eq!((&found["originals"], &found["verdict_log_offset"]), (&3.into(), &17.into()));
    assert_eq!((&found["verdict"], &found["match"]), (&"near".into(), &"pages:3:2".into()));
    assert_eq!(found["nearest"].as_array().unwrap().len(), 1, "{found}");
    assert!(found["nearest"][0]["similarity"].as_f64().unwrap() > 0.6, "{found}");
    let found = lookup("same.txt");
    assert_eq!(
        (&found["verdict"], &found["stage"], &found["match"]),
        (&"exact".into(), &"exact".into(), &"pages:3:1".into())
    );
    assert_eq!((&found["nearest"][0]["exact"], &found["nearest"][0]["distance"]), (&true.into(), &0.into()));
    let found = lookup("other.txt");
    assert_eq!((&found["verdict"], &found["nearest"]), (&"unique".into(), &json!([])));
    let table = explain(folder.path(), &["near.txt", "-o", "table"]).out;
    assert!(table.contains("lookup     near of pages:3:2, by stage "), "{table}");
    assert!(table.contains(" of pages:3:2") && table.contains("cluster pages:3:2"), "{table}");
}

#[test]
fn a_page_without_a_simhash_has_the_reason_wherever_it_is_explained() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("short.txt"), "今天天气不错").unwrap();
    let report = explain_json(folder.path(), &["short.txt"]);
    assert_eq!((&report["fp"], &report["fp_missing"]), (&Value::Null, &"fewer than 20 different words".into()));
    let table = explain(folder.path(), &["short.txt", "-o", "table"]).out;
    assert!(table.contains("simhash    none: fewer than 20 different words\n"), "{table}");
}

#[test]
fn an_original_that_is_near_and_not_matched_has_its_reason() {
    let folder = TempDir::new().unwrap();
    let results = |numbers: &str| format!("{EN} Results: {numbers}.");
    remember(folder.path(), &[&results("17, 42, 99, 310")]);
    fs::write(folder.path().join("same.txt"), results("17, 42, 99, 310")).unwrap();
    fs::write(folder.path().join("other.txt"), results("18, 43, 98, 311")).unwrap();
    let nearest = |file: &str| explain_json(folder.path(), &[file])["lookup"]["nearest"][0].clone();
    let same = nearest("same.txt");
    assert_eq!((&same["refused_by"], &same["reason"]), (&Value::Null, &Value::Null), "{same}");
    let why = "0 of the smaller page's numbers are in the other (match.number_overlap is 0.5)";
    let other = nearest("other.txt");
    assert_eq!((&other["refused_by"], &other["reason"]), (&"number_guard".into(), &why.into()), "{other}");
    let table = explain(folder.path(), &["other.txt", "-o", "table"]).out;
    assert!(table.contains(&format!("  not a duplicate: {why}\n")), "{table}");
}

#[test]
fn runs_of_words_are_shown_as_such() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("page.txt"), EN).unwrap();
    let words = ["page.txt", "-s", "match.minhash.shingle={unit: words, han: 2, other: 3}"];
    let found = explain_json(folder.path(), &words);
    assert_eq!(found["shingle_unit"], "words");
    let shingles: Vec<&str> = found["shingles"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(shingles.len() > 5 && shingles.iter().all(|run| run.split(' ').count() == 3), "{shingles:?}");
    let table = explain(folder.path(), &[&words[..], &["-o", "table"]].concat()).out;
    let row = format!("{} different of 2 (Han) or 3 words; first: {}, {}", shingles.len(), shingles[0], shingles[1]);
    assert!(table.contains(&row), "{row}: {table}");
    // The rows of sketches show their contents.
    let options =
        ["page.txt", "-o", "table", "-s", "match.minhash.containment=0.75", "-s", "match.minhash.bottom_k=64"];
    let (all, table) =
        (explain_json(folder.path(), &["page.txt"])["shingles"].clone(), explain(folder.path(), &options).out);
    let about = table.split_once("(128 slots of 8 bits, of about ").and_then(|(_, row)| row.split_once(" shingles, "));
    let (about, rest) = about.unwrap_or_else(|| panic!("{table}"));
    assert!(rest.starts_with("the 64 smallest)"), "{table}");
    let (about, all) = (about.parse::<usize>().unwrap(), all.as_array().unwrap().len());
    assert!(about <= all && (all - about) * 100 <= all, "counted within a hundredth: {about} of {all}");
}

#[test]
fn a_page_comes_from_standard_input_as_well() {
    let folder = TempDir::new().unwrap();
    let mut command = dupgate();
    command.args(["explain", "--as", "text", "-o", "jsonl", "-s", "index.path=/nowhere"]).current_dir(folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(ZH.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["page"], &report["fp"]), (&"stdin".into(), &"41aba784b07e92e3".into()));
}

#[test]
fn pages_in_other_encodings_are_read() {
    let folder = TempDir::new().unwrap();
    let page =
        format!("<html><head><meta charset=gb2312><title>t</title></head><body><p>{}</p></body></html>", ZH.repeat(3));
    let (gbk, _, _) = encoding_rs::GBK.encode(&page);
    fs::write(folder.path().join("gbk.html"), &gbk).unwrap();
    fs::write(folder.path().join("utf8.html"), &page).unwrap();
    let one = explain_json(folder.path(), &["gbk.html"]);
    let other = explain_json(folder.path(), &["utf8.html"]);
    assert_eq!((&one["encoding"], &other["encoding"]), (&"gb18030".into(), &"utf-8".into()));
    assert_eq!((&one["text"], &one["exact"]), (&other["text"], &other["exact"]));
    let output = explain(folder.path(), &["gbk.html", "-o", "table"]);
    assert!(output.out.contains("from HTML (main, 100 % of the visible text kept) in gb18030"), "{}", output.out);
}

#[test]
fn site_title_and_canonical_address_are_shown() {
    let folder = TempDir::new().unwrap();
    let html = format!("<head><title>The 2 Stories</title><link rel=canonical href=/story></head><p>{EN}</p>");
    let page = json!({"url": "https://amp.news.example.co.uk/story?amp=1", "html": html}).to_string();
    fs::write(folder.path().join("page.json"), page).unwrap();
    let output = explain(folder.path(), &["page.json", "-o", "table"]);
    assert!(output.out.contains("example.co.uk\n"), "{}", output.out);
    assert!(output.out.contains("the2stories (tells pages of the site apart)\n"), "{}", output.out);
    assert!(output.out.contains("https://amp.news.example.co.uk/story (counts as the id)"), "{}", output.out);
    let report = explain_json(folder.path(), &["page.json"]);
    assert_eq!((&report["site"], &report["extraction"]), (&"example.co.uk".into(), &"main".into()));
    assert_eq!(report["title"], "the2stories");
}

#[test]
fn pages_that_cannot_be_read_have_the_exit_code_of_input() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("x.jsonl"), "{\"text\":1}\n").unwrap();
    for (place, why) in [
        ("nowhere.txt", "cannot read nowhere.txt"),
        ("x.jsonl:99", "x.jsonl:99: there is no such line"),
        ("x.jsonl:1", "x.jsonl:1: wrong_type"),
    ] {
        let output = explain(folder.path(), &[place]);
        assert!(output.code == 66 && output.err.contains(why), "{place}: {} {}", output.code, output.err);
    }
}

#[test]
fn a_byte_order_mark_before_a_record_is_skipped() {
    let folder = TempDir::new().unwrap();
    let record = json!({"url": "https://a.example/1", "text": EN}).to_string();
    fs::write(folder.path().join("pages.jsonl"), format!("\u{feff}{record}\n")).unwrap();
    for place in ["pages.jsonl", "pages.jsonl:1"] {
        assert_eq!(explain_json(folder.path(), &[place])["id"], "https://a.example/1", "{place}");
    }
}

#[test]
fn records_of_a_warc_file_and_compressed_lines_are_numbered_as_sieve_does() {
    let folder = TempDir::new().unwrap();
    let record = |kind: &str, url: &str, text: &str| {
        let head = format!("WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Type: text/plain\r\nWARC-Target-URI: {url}");
        format!("{head}\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n", text.len())
    };
    let long = EN.repeat(20);
    let records = [("warcinfo", "x"), ("resource", ZH), ("resource", EN), ("resource", &long)];
    let records = (1..).zip(records).map(|(at, (kind, text))| record(kind, &format!("https://a.example/{at}"), text));
    let records: String = records.collect();
    let lines = format!("{}\n\n{}\n", json!({"url": "u1", "text": ZH}), json!({"url": "u3", "text": EN}));
    for (name, text) in [("pages.warc", &records), ("pages.jsonl", &lines)] {
        fs::write(folder.path().join(name), text).unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        fs::write(folder.path().join(format!("{name}.gz")), packed.finish().unwrap()).unwrap();
    }
    for (place, id) in [
        ("pages.warc:2", "https://a.example/2"),
        ("pages.warc:3", "https://a.example/3"),
        ("pages.warc.gz:3", "https://a.example/3"),
        ("pages.jsonl:3", "u3"),
        ("pages.jsonl.gz:3", "u3"),
    ] {
        let report = explain_json(folder.path(), &[place]);
        let text = report["text"].as_str().unwrap();
        assert_eq!((&report["page"], &report["id"]), (&place.into(), &id.into()));
        assert_eq!(text.starts_with("the harbour authority"), id.ends_with('3'), "{place}: {text}");
    }
    fs::rename(folder.path().join("pages.warc.gz"), folder.path().join("pages.archive")).unwrap();
    assert_eq!(explain_json(folder.path(), &["pages.archive:3", "--as", "warc"])["id"], "https://a.example/3");
    let configured = ["pages.archive:3", "-s", "input.format=warc"];
    assert_eq!(explain_json(folder.path(), &configured)["id"], "https://a.example/3");
    let too_large =
        format!("the block of the WARC record has {} bytes, at most 2048 are read (input.max_document)", long.len());
    for (place, why) in [
        ("pages.warc:1", "pages.warc:1: missing_field: a WARC record of type `warcinfo` has no page"),
        ("pages.warc:4", &too_large),
        ("pages.warc:5", "pages.warc:5: there is no such line"),
        ("pages.warc", "pages.warc: too_large"),
        ("pages.warc", "; one record of a file is FILE:NUMBER"),
        ("pages.jsonl:2", "pages.jsonl:2: there is no such line, or it is blank"),
    ] {
        let output = explain(folder.path(), &[place, "-s", "input.max_document=2KiB"]);
        assert!(output.code == 66 && output.err.contains(why), "{place}: {} {}", output.code, output.err);
    }
}
