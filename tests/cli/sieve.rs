//! `dupgate sieve` over files and standard input.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dupgate::crawl::{Crawl, CrawlSettings, Truth};
use dupgate_testkit::site_builders::{self, ROW_SIZES, layouts, row};
use serde_json::Value;
use tempfile::TempDir;

const FIRST: &str = "The committee met on Tuesday in the old town hall to discuss the new bridge over the river, \
    which engineers had called unsafe after heavy floods damaged three of its eleven pillars during the spring; a \
    replacement would cost forty million and take at least six years to build, according to a confidential report.";

/// Runs the binary in a folder, without configuration from outside.
fn dupgate(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

fn page(url: &str, text: &str) -> String {
    serde_json::json!({"url": url, "text": text}).to_string()
}

/// Writes generated pages, broken ones included, as lines. Line breaks do not occur in them.
fn crawl(folder: &Path, name: &str, pages: usize) -> Vec<(Vec<u8>, Truth)> {
    let settings = CrawlSettings { near: 0.2, broken: 0.05, html: 0.05, ..CrawlSettings::default() };
    let planted: Vec<_> = Crawl::new(settings).unwrap().take(pages).map(|page| (page.value, page.truth)).collect();
    let mut bytes = Vec::new();
    for (value, _) in &planted {
        assert!(!value.contains(&b'\n'));
        bytes.extend_from_slice(value);
        bytes.push(b'\n');
    }
    fs::write(folder.join(name), bytes).unwrap();
    planted
}

fn verdicts(output: &Output) -> Vec<Value> {
    output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn a_sample_gets_the_documented_verdict_lines() {
    let folder = TempDir::new().unwrap();
    let other = "Snow fell in the mountains overnight.";
    let near = FIRST.replace("Tuesday", "tuesday,").replace("six years", "six long years");
    let lines = [
        page("https://a.example/1", FIRST),
        page("https://b.example/1", FIRST),
        page("https://c.example/1", other),
        "{\"url\":\"https://d.example/1\",\"text\":\"cut of".to_owned(),
        page("https://e.example/1", &near),
        page("https://a.example/1", &near),
    ];
    fs::write(folder.path().join("pages.jsonl"), lines.join("\n") + "\n").unwrap();
    let output = succeeds(dupgate(folder.path()).args(["sieve", "pages.jsonl", "-s", "match.simhash.max_distance=8"]));
    let report = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines.len(), 6, "{report}");
    assert_eq!(lines[0], r#"{"source":"pages.jsonl:1","id":"https://a.example/1","verdict":"unique"}"#);
    assert_eq!(
        lines[1],
        r#"{"source":"pages.jsonl:2","id":"https://b.example/1","verdict":"exact","stage":"exact","match":"pages.jsonl:1","match_id":"https://a.example/1","distance":0}"#
    );
    assert_eq!(lines[2], r#"{"source":"pages.jsonl:3","id":"https://c.example/1","verdict":"unique"}"#);
    let verdicts = verdicts(&output);
    assert_eq!((&verdicts[3]["source"], &verdicts[3]["verdict"]), (&"pages.jsonl:4".into(), &"dead_letter".into()));
    assert_eq!(verdicts[3]["reason"], "undecodable");
    assert!(verdicts[3]["message"].as_str().unwrap().contains("truncated JSON"), "{report}");
    for (line, verdict) in [(4, "near"), (5, "update")] {
        let found = &verdicts[line];
        assert_eq!((&found["verdict"], &found["stage"]), (&verdict.into(), &"simhash".into()), "{report}");
        assert_eq!((&found["match"], &found["match_id"]), (&"pages.jsonl:1".into(), &"https://a.example/1".into()));
        assert!((1..=8).contains(&found["distance"].as_u64().unwrap()), "{report}");
    }
}

#[test]
fn routed_files_hold_every_line_once_byte_for_byte() {
    let folder = TempDir::new().unwrap();
    let planted = crawl(folder.path(), "pages.jsonl", 600);
    let verdicts = verdicts(&succeeds(dupgate(folder.path()).args(["sieve", "pages.jsonl"])));
    let arguments = ["sieve", "pages.jsonl", "--unique", "u", "--duplicate", "d", "--dead", "x"];
    let routed = succeeds(dupgate(folder.path()).args(arguments));
    assert!(routed.stdout.is_empty());
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    for ((value, _), verdict) in planted.iter().zip(&verdicts) {
        let route = match verdict["verdict"].as_str().unwrap() {
            "unique" | "update" => 0,
            "exact" | "near" => 1,
            _ => 2,
        };
        expected[route].extend_from_slice(value);
        expected[route].push(b'\n');
    }
    assert_eq!(verdicts.len(), planted.len());
    for (name, expected) in ["u", "d", "x"].into_iter().zip(expected) {
        assert!(!expected.is_empty());
        assert!(fs::read(folder.path().join(name)).unwrap() == expected, "{name} holds other lines");
    }
    // Exact copies and broken records have only one verdict, whatever the rules.
    for ((_, truth), verdict) in planted.iter().zip(&verdicts) {
        match truth {
            Truth::Exact { original } => assert_eq!(verdict["match_id"], original.as_str(), "{verdict}"),
            Truth::Broken { damage } => assert_eq!(verdict["reason"], damage.reason().name(), "{verdict}"),
            Truth::Unique => assert_eq!(verdict["verdict"], "unique", "{verdict}"),
            Truth::Near { .. } => {}
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = TempDir::new().unwrap();
    crawl(folder.path(), "pages.jsonl", 500);
    let run = |threads: &str| {
        succeeds(dupgate(folder.path()).args([
            "sieve",
            "pages.jsonl",
            "--set",
            &format!("processing.threads={threads}"),
        ]))
        .stdout
    };
    let one = run("1");
    assert_eq!(one.split(|byte| *byte == b'\n').count(), 501);
    assert!(one == run("8"), "8 threads give other verdicts than 1");
}

#[test]
fn one_bad_line_is_a_dead_letter_and_does_not_end_the_run() {
    let folder = TempDir::new().unwrap();
    let good = |number: usize| page(&format!("https://a.example/{number}"), &format!("page {number}"));
    let mut bytes = Vec::new();
    for number in 1..=9 {
        if number == 5 {
            bytes.extend_from_slice(b"{\"text\": \"\xff\xfe\"}\n\n");
        }
        bytes.extend_from_slice(good(number).as_bytes());
        bytes.extend_from_slice(if number == 9 { b"" } else { b"\r\n" });
    }
    fs::write(folder.path().join("pages.jsonl"), &bytes).unwrap();
    let output = succeeds(dupgate(folder.path()).args(["sieve", "pages.jsonl"]));
    let verdicts = verdicts(&output);
    let places: Vec<&str> = verdicts.iter().map(|verdict| verdict["source"].as_str().unwrap()).collect();
    let lines = [1, 2, 3, 4, 5, 7, 8, 9, 10, 11];
    assert_eq!(places, lines.map(|line| format!("pages.jsonl:{line}")), "the empty line counts, but holds no page");
    for verdict in &verdicts {
        let dead = verdict["source"] == "pages.jsonl:5";
        assert_eq!(verdict["verdict"], if dead { "dead_letter" } else { "unique" }, "{verdict}");
    }

    let arguments = ["sieve", "pages.jsonl", "--unique", "u", "--dead", "x"];
    let routed = succeeds(dupgate(folder.path()).args(arguments));
    assert_eq!(fs::read(folder.path().join("x")).unwrap(), b"{\"text\": \"\xff\xfe\"}\n");
    let expected: String = (1..=9).map(|number| good(number) + if number == 9 { "\n" } else { "\r\n" }).collect();
    assert_eq!(String::from_utf8(fs::read(folder.path().join("u")).unwrap()).unwrap(), expected);
    let report = String::from_utf8_lossy(&routed.stderr).into_owned();
    assert!(report.contains("pages.jsonl:5") && report.contains("undecodable"), "{report}");

    let stopped =
        dupgate(folder.path()).args(["sieve", "pages.jsonl", "-s", "processing.on_bad_record=stop"]).output().unwrap();
    assert_eq!(stopped.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("pages.jsonl:5: undecodable"));
}

#[test]
fn standard_input_and_several_files_are_one_input_in_their_order() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.jsonl"), page("https://a.example/1", FIRST)).unwrap();
    fs::write(folder.path().join("b.jsonl"), page("https://b.example/1", FIRST) + "\n").unwrap();
    let piped = |arguments: &[&str], text: &str| {
        let mut command = dupgate(folder.path());
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        verdicts(&output)
    };
    let alone = piped(&["sieve"], &(page("https://c.example/1", FIRST) + "\n"));
    assert_eq!((alone.len(), &alone[0]["source"], &alone[0]["verdict"]), (1, &"stdin:1".into(), &"unique".into()));
    let between = piped(&["sieve", "b.jsonl", "-", "a.jsonl"], &page("https://c.example/1", FIRST));
    let report: Vec<_> = between.iter().map(|it| (it["source"].as_str().unwrap(), it["match"].as_str())).collect();
    assert_eq!(report, [("b.jsonl:1", None), ("stdin:1", Some("b.jsonl:1")), ("a.jsonl:1", Some("b.jsonl:1"))]);
    // The same file twice is two inputs: its pages are duplicates of themselves.
    let twice = verdicts(&succeeds(dupgate(folder.path()).args(["sieve", "a.jsonl", "a.jsonl"])));
    assert_eq!((twice.len(), &twice[1]["verdict"], &twice[1]["match"]), (2, &"exact".into(), &"a.jsonl:1".into()));
}

#[test]
fn verdicts_arrive_while_the_input_is_still_open() {
    use std::io::{BufRead, BufReader};
    let folder = TempDir::new().unwrap();
    let mut command = dupgate(folder.path());
    let mut child =
        command.arg("sieve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for number in 1..=3 {
        writeln!(stdin, "{}", page("https://a.example/1", &format!("short page {number}"))).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("{{\"source\":\"stdin:{number}\"")), "{line}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn event_time_comes_from_the_configured_field() {
    let folder = TempDir::new().unwrap();
    let at =
        |time: &str| format!("{{\"url\":\"https://a.example/{time}\",\"text\":{FIRST:?},\"fetched_at\":\"{time}\"}}\n");
    let lines = [at("2026-09-01T00:00:00Z"), at("2026-09-04T00:00:00Z"), at("2026-09-04T00:00:00.001Z")].concat();
    fs::write(folder.path().join("pages.jsonl"), lines).unwrap();
    let config: PathBuf = folder.path().join("sieve.yaml");
    let yaml = "version: 1\ninput: {fields: {fetched_at: /fetched_at}}\nwindow: {timestamp_source: field, size: 72h, allowed_lateness: 0s}\n";
    fs::write(&config, yaml).unwrap();
    let run = |size: &str| -> Vec<String> {
        let output = succeeds(dupgate(folder.path()).args(["sieve", "-c", "sieve.yaml", "--set", size, "pages.jsonl"]));
        verdicts(&output).iter().map(|it| it["verdict"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(run("window.size=72h"), ["unique", "exact", "unique"], "the window is inclusive");
    assert_eq!(run("window.size=73h"), ["unique", "exact", "exact"]);
}

#[test]
fn errors_have_their_exit_codes_and_truncate_no_file() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("pages.jsonl"), page("https://a.example/1", FIRST)).unwrap();
    let fails = |arguments: &[&str], code: i32, message: &str| {
        let output = dupgate(folder.path()).args(arguments).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {report}");
        assert!(report.contains(message), "{arguments:?}: {report}");
    };
    fails(&["sieve", "missing.jsonl"], 66, "cannot read missing.jsonl");
    fails(&["sieve", "."], 66, "cannot read .");
    fails(&["sieve", "pages.jsonl", "--unique", "no/such/folder"], 74, "cannot create no/such/folder");
    fails(&["sieve", "pages.jsonl", "-s", "match.max_distanse=3"], 78, "max_distanse");
    fails(&["sieve", "pages.jsonl", "--unique", "pages.jsonl"], 2, "is an input or another output");
    fails(&["sieve", "pages.jsonl", "--unique", "o", "--dead", "o"], 2, "is an input or another output");
    assert!(fs::read_to_string(folder.path().join("pages.jsonl")).unwrap().contains("committee"));
}

#[test]
fn verdicts_are_printed_in_the_requested_format() {
    let folder = TempDir::new().unwrap();
    let lines = [page("https://a.example/1", FIRST), page("https://b.example/1", FIRST), "{}".to_owned()];
    fs::write(folder.path().join("pages.jsonl"), lines.join("\n")).unwrap();
    let sieve = |format: &str, file: &str| {
        let output = succeeds(dupgate(folder.path()).args(["sieve", file, "-o", format]));
        String::from_utf8(output.stdout).unwrap()
    };
    let document: Vec<Value> = serde_json::from_str(&sieve("json", "pages.jsonl")).unwrap();
    let lines: Vec<Value> = sieve("jsonl", "pages.jsonl").lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((document.len(), &document), (3, &lines));
    let table = sieve("table", "pages.jsonl");
    assert!(table.starts_with("PAGE              VERDICT   NEARNESS  ORIGINAL          ID\n"), "{table}");
    assert!(table.contains("pages.jsonl:2     exact     d=0       pages.jsonl:1     https://b.example/1\n"), "{table}");
    fs::write(folder.path().join("none.jsonl"), "").unwrap();
    assert_eq!(sieve("json", "none.jsonl"), "[]\n");
}

#[test]
fn files_may_begin_with_a_byte_order_mark() {
    let folder = TempDir::new().unwrap();
    let mark = "\u{feff}";
    fs::write(folder.path().join("pages.jsonl"), format!("{mark}{}\n", page("https://a.example/1", FIRST))).unwrap();
    fs::write(folder.path().join("more.jsonl"), format!("{mark}{}\n", page("https://b.example/1", FIRST))).unwrap();
    let output = succeeds(dupgate(folder.path()).args(["sieve", "pages.jsonl", "more.jsonl"]));
    let verdicts: Vec<Value> = verdicts(&output).into_iter().map(|verdict| verdict["verdict"].clone()).collect();
    assert_eq!(verdicts, ["unique", "exact"]);
    succeeds(dupgate(folder.path()).args(["sieve", "pages.jsonl", "more.jsonl", "--duplicate", "copies.jsonl"]));
    let copies = fs::read_to_string(folder.path().join("copies.jsonl")).unwrap();
    assert_eq!(copies, page("https://b.example/1", FIRST) + "\n", "written without the mark");
}

#[test]
fn compressed_files_are_read_by_their_content() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let lines = [FIRST, "Something else entirely, with nothing of the other page."]
        .map(|text| serde_json::json!({"text": text}).to_string() + "\n");
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    write("pages.jsonl", lines.concat().as_bytes());
    // Two concatenated archives.
    write("pages.jsonl.gz", &lines.each_ref().map(|line| gzip(line)).concat());
    write("pages.jsonl.zst", &lines.each_ref().map(|line| zstd(line)).concat());
    let verdicts = |name: &str| {
        let output = succeeds(dupgate(folder.path()).args(["sieve", name]));
        String::from_utf8(output.stdout).unwrap().replace(name, "FILE")
    };
    let plain = verdicts("pages.jsonl");
    assert_eq!(plain.lines().count(), 2);
    assert_eq!([verdicts("pages.jsonl.gz"), verdicts("pages.jsonl.zst")], [plain.clone(), plain]);

    let whole = gzip(&lines.concat());
    write("torn.jsonl.gz", &whole[..whole.len() / 2]);
    for (name, bytes, why) in [
        ("torn.jsonl.gz", None, "torn.jsonl.gz"),
        ("pages.jsonl.bz2", Some(b"BZh9rest\n".as_slice()), "`bunzip2 -c FILE | "),
        ("pages.jsonl.xz", Some(b"\xfd7zXZ\0rest\n".as_slice()), "`xz -dc FILE | "),
    ] {
        bytes.into_iter().for_each(|bytes| write(name, bytes));
        let output = dupgate(folder.path()).args(["sieve", name]).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(66), "{report}");
        assert!(report.contains(why), "{report}");
    }
}

/// A page of a million elements took a hundred times its size: 831 MB.
#[test]
fn a_page_of_tags_is_read_within_bounded_memory() {
    let folder = TempDir::new().unwrap();
    let pages = ["<br>a", "a<hr>", "<p>,", "<p>a,", "<b a=1>"].map(|tags| {
        let html = format!("<p>{FIRST}</p>{}", tags.repeat(7_800_000 / tags.len()));
        serde_json::json!({"url": tags, "html": html}).to_string()
    });
    let pages = pages.join("\n");
    fs::write(folder.path().join("pages.jsonl"), pages).unwrap();
    let program = dupgate(folder.path());
    let mut limited = Command::new("sh");
    // In KiB of address space: what the program needs for a small page, and 250 MB.
    limited
        .args(["-c", "ulimit -v 900000 && exec \"$0\" sieve -s processing.threads=1 pages.jsonl"])
        .arg(program.get_program());
    limited.current_dir(folder.path()).stdin(Stdio::null());
    let output = succeeds(&mut limited);
    assert_eq!(verdicts(&output).len(), 5, "{}", String::from_utf8_lossy(&output.stderr));
}

/// A page is visited again and keeps one row, a copy has all of them in another layout, another site has one row in common.
#[test]
fn articles_in_rows_are_judged_whole_in_the_layouts_of_site_builders() {
    let (folder, layouts) = (TempDir::new().unwrap(), layouts());
    let (mut lines, mut wanted) = (Vec::new(), Vec::new());
    let mut seeds = 1..;
    for (at, (name, around)) in layouts.iter().enumerate() {
        let (_, another) = layouts[(at + 1) % layouts.len()];
        for count in 2..=6 {
            let sizes = ROW_SIZES[(at + count) % ROW_SIZES.len()];
            let mut rows = || -> Vec<_> { (0..count).map(|at| row(seeds.next().unwrap(), sizes[at])).collect() };
            let (first, mut again, mut other) = (rows(), rows(), rows());
            // The longest row that is no more than half of the article.
            let total: usize = sizes[..count].iter().sum();
            let common = (0..count).filter(|at| 2 * sizes[*at] <= total).max_by_key(|at| sizes[*at]).unwrap();
            again[common].clone_from(&first[common]);
            other[common].clone_from(&first[common]);
            // Half a text in common is a Jaccard index of a third, and the estimate of some pairs is higher.
            let is_half = 5 * sizes[common] > 2 * total;
            for (what, site, around, rows, verdicts) in [
                ("the page", "a", *around, &first, ["unique"].as_slice()),
                ("visited again", "a", *around, &again, &["unique", "update"]),
                ("a copy in another layout", "b", another, &again, &["exact", "near"]),
                ("another site", "c", *around, &other, &["unique"]),
            ] {
                let site = format!("{site}{at}-{count}.example");
                let html = site_builders::page(&site, around, rows);
                lines.push(serde_json::json!({"url": format!("https://{site}/works"), "html": html}).to_string());
                wanted.push((
                    format!("{name}, {count} rows of {sizes:?}, {common} in common: {what}"),
                    verdicts,
                    is_half,
                ));
            }
        }
    }
    fs::write(folder.path().join("pages.jsonl"), lines.join("\n") + "\n").unwrap();
    let judged = verdicts(&succeeds(dupgate(folder.path()).args(["sieve", "pages.jsonl"])));
    assert_eq!(judged.len(), wanted.len());
    let wrong = judged.iter().zip(&wanted).filter(|(line, (_, verdicts, is_half))| {
        let is_estimate = *is_half && line["similarity"].as_f64().is_some_and(|estimate| estimate < 0.5);
        !is_estimate && !verdicts.contains(&line["verdict"].as_str().unwrap())
    });
    let wrong: Vec<_> = wrong.map(|(line, (name, ..))| format!("{name}: {line}")).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), wanted.len(), wrong.join("\n"));
}

#[test]
fn warc_records_over_the_limit_are_skipped_with_their_place_and_size() {
    let folder = TempDir::new().unwrap();
    let record = |url: &str, block: &[u8]| {
        let head = "WARC/1.0\r\nWARC-Type: resource\r\nContent-Type: text/plain";
        let head = format!("{head}\r\nWARC-Target-URI: {url}\r\nContent-Length: {}\r\n\r\n", block.len());
        [head.as_bytes(), block, b"\r\n\r\n"].concat()
    };
    let (first, copy) =
        (record("https://a.example/1", FIRST.as_bytes()), record("https://b.example/1", FIRST.as_bytes()));
    let records = [first.clone(), record("https://c.example/1", &vec![b' '; 20 << 20]), copy];
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&records.concat()).unwrap();
    fs::write(folder.path().join("pages.warc.gz"), packed.finish().unwrap()).unwrap();
    let sieve = ["sieve", "pages.warc.gz", "-s", "input.format=warc"];
    let judged = verdicts(&succeeds(dupgate(folder.path()).args(sieve)));
    assert_eq!(
        judged.iter().map(|line| line["verdict"].as_str().unwrap()).collect::<Vec<_>>(),
        ["unique", "dead_letter", "exact"]
    );
    let why = "the block of the WARC record has 20971520 bytes, at most 8388608 are read (input.max_document)";
    assert_eq!((&judged[1]["source"], &judged[1]["message"]), (&"pages.warc.gz:2".into(), &why.into()));
    let routed = succeeds(dupgate(folder.path()).args(sieve).args(["--unique", "unique", "--dead", "dead"]));
    let log = String::from_utf8(routed.stderr).unwrap();
    assert!(log.contains(&format!("pages.warc.gz:2 is left out: too_large: {why}")), "{log}");
    let written = ["unique", "dead"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert_eq!(written[0].trim_ascii(), first.trim_ascii());
    assert!(written[1].is_empty(), "headers alone would damage the file");
}

#[test]
fn lines_over_the_limit_are_skipped_with_their_place_and_size() {
    let folder = TempDir::new().unwrap();
    let long_line = page("https://c.example/1", &FIRST.repeat(200));
    let lines =
        [page("https://a.example/1", FIRST), String::new(), long_line.clone(), page("https://b.example/1", FIRST)];
    fs::write(folder.path().join("pages.jsonl"), lines.join("\n")).unwrap();
    let sieve = ["sieve", "pages.jsonl", "-s", "input.max_document=2KiB"];
    let why = format!("the line has {} bytes, at most 2048 are read (input.max_document)", long_line.len() + 1);
    let judged = verdicts(&succeeds(dupgate(folder.path()).args(sieve)));
    let seen = judged.iter().map(|line| ["source", "verdict", "reason"].map(|key| line[key].as_str().unwrap_or("-")));
    let expected = [
        ["pages.jsonl:1", "unique", "-"],
        ["pages.jsonl:3", "dead_letter", "too_large"],
        ["pages.jsonl:4", "exact", "-"],
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(judged[1]["message"], why.as_str());
    let routed = succeeds(dupgate(folder.path()).args(sieve).args(["--unique", "unique", "--dead", "dead"]));
    let said = String::from_utf8(routed.stderr).unwrap();
    assert!(said.contains(&format!("pages.jsonl:3 is left out: too_large: {why}")), "{said}");
    let written = ["unique", "dead"].map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
    assert_eq!(written, [lines[0].clone() + "\n", String::new()], "a part of a line would damage the file");
    let stopped = ["-s", "processing.on_bad_record=stop"];
    let stopped = dupgate(folder.path()).args(sieve).args(stopped).output().unwrap();
    let said = String::from_utf8(stopped.stderr).unwrap();
    assert!(!stopped.status.success() && said.contains(&format!("pages.jsonl:3: too_large: {why}")), "{said}");
}
