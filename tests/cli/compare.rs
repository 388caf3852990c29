//! `compare`: distances, what would match, and the differing text.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::program::{CliOutput, dupgate, output_of};

const NEWS: &str = "The committee met on Tuesday in the old town hall to discuss the new bridge over the river, which \
    engineers had called unsafe after heavy floods damaged three of its eleven pillars during the spring; a replacement \
    would cost forty million and take at least six years to build, according to a confidential report.";

/// Two pages in a file of lines, and the same as files of text.
fn folder(one: &str, other: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let line = |url: &str, text: &str| serde_json::json!({"url": url, "text": text}).to_string();
    let lines = format!("{}\n\n{}\n", line("https://a.example/1", one), line("https://b.example/1", other));
    fs::write(folder.path().join("pages.jsonl"), lines).unwrap();
    fs::write(folder.path().join("a.txt"), one).unwrap();
    fs::write(folder.path().join("b.txt"), other).unwrap();
    folder
}

fn compare(folder: &TempDir, arguments: &[&str]) -> CliOutput {
    output_of(dupgate().arg("compare").args(arguments).current_dir(folder.path()))
}

fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    let output = compare(folder, &[arguments, &["-o", "json"]].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
}

#[test]
fn people_see_distances_thresholds_and_the_differing_words() {
    let folder = folder(NEWS, &NEWS.replace("Tuesday", "Monday").replace("forty million", "sixty million"));
    let output = compare(&folder, &["pages.jsonl:1", "pages.jsonl:3", "-o", "table"]);
    assert_eq!((output.code, output.err.as_str()), (0, ""));
    let expected = "\
exact    other texts                                           no match
simhash  7 of 64 bits differ                                   no match (match.simhash.max_distance is 3, 7 would match)
minhash  similarity 0.89, exactly 0.876; 31 of 42 keys shared  match (match.minhash.min_similarity is 0.3, up to 0.89 matches)
verdict  near, by stage minhash
equal    96.3 % of the normalised texts

- committee met on [tuesday] in the old town
+ committee met on [monday] in the old town

- would cost [forty] million and take
+ would cost [sixty] million and take
";
    assert_eq!(output.out, expected);
}

#[test]
fn files_and_lines_of_a_file_are_the_same_pages() {
    let folder = folder(NEWS, &NEWS.replace("Tuesday", "Monday"));
    let (lines, files) = (json(&folder, &["pages.jsonl:1", "pages.jsonl:3"]), json(&folder, &["a.txt", "b.txt"]));
    for of in ["verdict", "exact", "simhash", "minhash", "changes", "equal_share"] {
        assert_eq!(lines[of], files[of], "{of}");
    }
    assert_eq!(lines["pages"][1]["place"], "pages.jsonl:3");
    assert_eq!(lines["pages"][1]["id"], "https://b.example/1");
}

/// The reported threshold is the one at which the verdict of `sieve` changes.
#[test]
fn sieve_agrees_at_the_reported_threshold() {
    let folder = folder(NEWS, &NEWS.replace("Tuesday", "Monday").replace("forty million", "sixty million"));
    let report = json(&folder, &["pages.jsonl:1", "pages.jsonl:3"]);
    let sieved = |stage: &str, threshold: &str| {
        let settings = ["-s", &format!("match.stages={stage}"), "-s", threshold];
        let output = output_of(dupgate().args(["sieve", "pages.jsonl"]).args(settings).current_dir(folder.path()));
        let last: Value = serde_json::from_str(output.out.lines().last().unwrap()).unwrap();
        last["verdict"].as_str().unwrap().to_owned()
    };
    let bits = report["simhash"]["matches_from"].as_u64().unwrap();
    assert_eq!(report["simhash"]["distance"], bits);
    let distance = |bits: u64| sieved("simhash", &format!("match.simhash.max_distance={bits}"));
    assert_eq!((distance(bits).as_str(), distance(bits - 1).as_str()), ("near", "unique"));
    let similarity = report["minhash"]["matches_up_to"].as_f64().unwrap();
    assert_eq!(report["minhash"]["similarity"], similarity);
    let min = |similarity: f64| sieved("minhash", &format!("match.minhash.min_similarity={similarity}"));
    assert_eq!((min(similarity).as_str(), min(similarity + 0.001).as_str()), ("near", "unique"));
    let exactly = report["minhash"]["jaccard"].as_f64().unwrap();
    assert!((exactly - similarity).abs() < 4.0 * (0.25_f64 / 128.0).sqrt(), "{exactly} {similarity}");
}

#[test]
fn a_low_estimate_requires_containment() {
    let folder = folder(NEWS, &NEWS.replace("Tuesday", "Monday").replace("forty million", "sixty million"));
    let low_confidence = |containment: &str| {
        let limits = "below: 0.95, below_short: 0.95, max_distance: 0";
        let low_confidence = format!("match.minhash.low_confidence={{{limits}, containment: {containment}}}");
        let output = compare(&folder, &["a.txt", "b.txt", "-o", "table", "-s", &low_confidence]);
        let row = output.out.lines().find_map(|line| line.strip_prefix("minhash  ")).unwrap().to_owned();
        row.split("  ").last().unwrap().to_owned()
    };
    assert_eq!(low_confidence("0.9"), "match (match.minhash.min_similarity is 0.3, up to 0.89 matches)");
    let share = json(&folder, &["a.txt", "b.txt"])["containment"]["estimate"].clone();
    let why = "none would match: below 0.95 the smaller page has to be in the other to 0.99, and is to";
    assert_eq!(low_confidence("0.99"), format!("no match (match.minhash.min_similarity is 0.3, {why} {share})"));
    assert_eq!(json(&folder, &["a.txt", "b.txt"])["minhash"]["low_confidence"]["below"], 0.46);
}

#[test]
fn numbers_that_differ_are_named_as_the_cause() {
    let folder = folder(&format!("{NEWS} 2026-09-17 08:12 1024"), &format!("{NEWS} 2026-10-28 21:40 3377"));
    let report = json(&folder, &["a.txt", "b.txt"]);
    let hint = "most of what differs are digits; text.normalize.digits: mask makes the texts equal";
    assert_eq!(report["hint"], hint);
    let masked = json(&folder, &["a.txt", "b.txt", "-s", "text.normalize.digits=mask"]);
    assert_eq!((&masked["verdict"], &masked["hint"]), (&"exact".into(), &Value::Null));

    // Pages that the number guard keeps apart may differ in prices: masking would lose one of them.
    let folder = self::folder(&format!("{NEWS} 1024 2048 4096"), &format!("{NEWS} 3377 5566 7788"));
    let report = json(&folder, &["a.txt", "b.txt"]);
    let beware = format!("{hint}, and so it would pages that differ by a price or a result");
    assert_eq!((&report["verdict"], &report["hint"]), (&"template".into(), &beware.into()));
}

#[test]
fn equal_unrelated_and_short_texts_are_distinguished() {
    let folder = folder(NEWS, &NEWS.to_uppercase());
    let report = json(&folder, &["a.txt", "b.txt"]);
    assert_eq!(
        (&report["verdict"], &report["stage"], &report["equal_share"]),
        (&"exact".into(), &"exact".into(), &1.0.into())
    );
    assert_eq!((&report["simhash"]["matches"], &report["changes"]), (&true.into(), &Value::Array(Vec::new())));
    fs::write(folder.path().join("c.txt"), "今天天气不错").unwrap();
    let report = json(&folder, &["a.txt", "c.txt"]);
    assert_eq!((&report["verdict"], &report["simhash"]["distance"]), (&"unique".into(), &Value::Null));
    let output = compare(&folder, &["a.txt", "c.txt", "-o", "table"]);
    assert!(output.out.contains("simhash  too little text"), "{}", output.out);
}

#[test]
fn unreadable_pages_are_named_with_a_remedy() {
    let folder = folder(NEWS, NEWS);
    let refused = |one: &str| {
        let output = compare(&folder, &[one, "a.txt"]);
        assert_eq!(output.out, "");
        (output.code, output.err)
    };
    let (code, why) = refused("pages.jsonl");
    let begin = "error: pages.jsonl: undecodable: malformed JSON at line 3 column 1; one line of a file is FILE:LINE, ";
    assert!(code == 66 && why.starts_with(begin), "{code} {why}");
    let (code, why) = refused("pages.jsonl:0");
    assert!(code == 2 && why.contains("lines count from 1, so the first one is pages.jsonl:1"), "{code} {why}");
    let (code, why) = refused("pages.jsonl:9");
    assert!(code == 66 && why.contains("pages.jsonl:9: there is no such line"), "{code} {why}");
    let (code, why) = refused("nowhere.txt");
    assert!(code == 66 && why.contains("cannot read nowhere.txt: No such file"), "{code} {why}");
    assert_eq!(compare(&folder, &["-", "-"]).code, 2);
}

#[test]
fn other_numbers_make_a_template() {
    let report = |numbers: [u32; 3]| {
        let [pillars, million, years] = numbers;
        NEWS.replace("eleven", &pillars.to_string())
            .replace("forty million", &format!("{million} million"))
            .replace("six years", &format!("{years} years"))
    };
    let folder = folder(&report([11, 40, 6]), &report([12, 55, 6]));
    let output = compare(&folder, &["a.txt", "b.txt", "-o", "table"]);
    let line = |name: &str| output.out.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    let numbers = "numbers  0.333 of the smaller page's are in the other  ";
    assert!(line("numbers").starts_with(numbers), "{}", output.out);
    assert!(line("numbers").ends_with("others (match.number_overlap is 0.5)"), "{}", output.out);
    assert_eq!(line("verdict"), "verdict  template, by stage minhash");
    let json = json(&folder, &["a.txt", "b.txt"]);
    assert_eq!((&json["numbers"]["overlap"], &json["verdict"]), (&0.333.into(), &"template".into()));
    let off = compare(&folder, &["a.txt", "b.txt", "-o", "table", "-s", "match.number_guard=false"]);
    assert!(off.out.contains("verdict  near, by stage minhash") && !off.out.contains("numbers"), "{}", off.out);
}

#[test]
fn too_few_numbers_are_reported_as_such() {
    let row = |one: &str, other: &str| {
        let folder = folder(&format!("{NEWS} {one}"), &format!("{NEWS} {other}"));
        let output = compare(&folder, &["a.txt", "b.txt", "-o", "table"]);
        let row = output.out.lines().find_map(|line| line.strip_prefix("numbers "));
        let words = row.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
        (words, json(&folder, &["a.txt", "b.txt"])["numbers"]["kept"].clone())
    };
    let no_say = |counts: &str| Some(format!("{counts} no say, too few (match.number_overlap is 0.5)"));
    assert_eq!(row("for 12 dollars", "for 15 dollars"), (no_say("1 and 1"), serde_json::json!([1, 1])));
    assert_eq!(row("for nothing", "for 15 or 20 dollars"), (no_say("0 and 2"), serde_json::json!([0, 2])));
    let many = "for 11 12 13 14 15 16 17 18 19 20 dollars";
    assert_eq!(row("for nothing", many), (no_say("0 and 8 or more"), serde_json::json!([0, 8])));
    // One number and several others are compared.
    assert!(row("for 12 dollars", "for 15 or 20 dollars").0.is_some_and(|row| !row.contains("no say")));
    assert_eq!(row("for nothing", "for nothing at all").0, None);
}

/// Compares two records, and returns the verdict, the rule that refused the pair and its sentence.
fn refused(one: &Value, other: &Value, settings: &[&str]) -> (String, String, String) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("pages.jsonl"), format!("{one}\n{other}\n")).unwrap();
    let settings: Vec<&str> = settings.iter().flat_map(|set| ["-s", set]).collect();
    let pages = [&["pages.jsonl:1", "pages.jsonl:2"][..], &settings].concat();
    let report = json(&folder, &pages);
    let text = |of: &str| report.get(of).and_then(Value::as_str).unwrap_or_default().to_owned();
    let table = compare(&folder, &[&pages[..], &["-o", "table"]].concat()).out;
    let why = table.lines().find_map(|line| line.strip_prefix("why ")).unwrap_or_default().trim();
    assert_eq!(why, text("reason"), "{table}");
    (text("verdict"), text("refused_by"), text("reason"))
}

#[test]
fn the_rule_that_refuses_a_pair_is_named_with_its_setting() {
    let text = |text: &str| serde_json::json!({"text": text});
    let news = text(NEWS);
    let near = text(&NEWS.replace("Tuesday", "Monday").replace("forty million", "sixty million"));
    let numbers = |n: [u32; 3]| text(&format!("{NEWS} {} {} {}", n[0], n[1], n[2]));
    let framed = |host: &str, from: usize| {
        let text = format!("{NEWS} {}", &DIGEST[from..from + 120]);
        serde_json::json!({"url": format!("https://{host}/{from}"), "text": text})
    };
    let low_confidence =
        "match.minhash.low_confidence={below: 0.95, below_short: 0.95, containment: 0.99, max_distance: 2}";
    let in_scope = |scope: &str| serde_json::json!({"text": NEWS, "lang": scope});
    assert_eq!(refused(&news, &near, &[]), ("near".into(), String::new(), String::new()));
    let cases: &[(&Value, &Value, &[&str], [&str; 3])] = &[
        (&framed("a.example", 0), &framed("b.example", 300), &[], ["near", "", ""]),
        (
            &framed("a.example", 0),
            &framed("a.example", 300),
            &[],
            [
                "unique",
                "same_site",
                "both pages are of one site, and about 0.… of the page is in the original (match.same_site is 0.95)",
            ],
        ),
        (
            &news,
            &near,
            &[low_confidence],
            [
                "unique",
                "low_confidence",
                "the estimated similarity 0.89 is below 0.95 (match.minhash.low_confidence.below is 0.95), 0.… of the smaller page \
             is in the other (containment is 0.99) and the SimHashes differ in 7 bits (max_distance is 2)",
            ],
        ),
        (
            &news,
            &near,
            &["match.minhash.min_shared_bands=42"],
            [
                "unique",
                "min_shared_bands",
                "the sketches share 31 band keys (match.minhash.min_shared_bands is 42), although the estimated similarity is 0.89",
            ],
        ),
        (
            &text("各种血型人的冲动购买表现，准吗？请对号入座！"),
            &text(
                "健康 视频 科技 娱乐 教育 首页 更多\n各种血型人的冲动购买表现，准吗？请对号入座！\n网站地图 | 意见反馈",
            ),
            &[],
            [
                "unique",
                "min_shared_bands",
                "the sketches share 0 band keys (match.minhash.one_band_below is 64: a shorter page needs 1), although the \
             estimated similarity is 0.356",
            ],
        ),
        (
            &news,
            &near,
            &["match.simhash.max_distance=8", "match.simhash.min_similarity=0.9"],
            [
                "unique",
                "simhash_min_similarity",
                "the SimHashes are near, but the estimated similarity is 0.89 (match.simhash.min_similarity is 0.9)",
            ],
        ),
        (
            &numbers([11, 40, 7]),
            &numbers([12, 55, 7]),
            &[],
            [
                "template",
                "number_guard",
                "0.333 of the smaller page's numbers are in the other (match.number_overlap is 0.5)",
            ],
        ),
        (
            &news,
            &near,
            &["match.minhash.min_similarity=0.9", "match.minhash.containment=0.99"],
            [
                "unique",
                "distance",
                "the SimHashes differ in 7 bits (match.simhash.max_distance is 3) and the estimated similarity is 0.89 \
             (match.minhash.min_similarity is 0.9) and 0.… of the smaller page is in the other (match.minhash.containment is 0.99)",
            ],
        ),
        (
            &news,
            &near,
            &["match.stages=simhash"],
            ["unique", "distance", "the SimHashes differ in 7 bits (match.simhash.max_distance is 3)"],
        ),
        (
            &news,
            &text("今天天气不错"),
            &[],
            [
                "unique",
                "too_short",
                "the texts differ, and one of them is too short for the other stages (text.min_features, match.minhash.min_shingles)",
            ],
        ),
        (
            &news,
            &near,
            &["match.stages=exact"],
            ["unique", "stages", "the texts differ, and match.stages has no other stage than exact"],
        ),
        (
            &in_scope("en"),
            &in_scope("fr"),
            &["input.fields.scope=/lang"],
            ["unique", "scope", "the pages have different scopes (input.fields.scope)"],
        ),
    ];
    for (one, other, settings, [verdict, by, why]) in cases {
        let report = refused(one, other, settings);
        assert_eq!((report.0.as_str(), report.1.as_str()), (*verdict, *by), "{settings:?}: {report:?}");
        // An estimate is compared without its digits.
        let (begin, end) = why.split_once('…').unwrap_or((why, ""));
        assert!(report.2.starts_with(begin) && report.2.ends_with(end), "{settings:?}: {report:?}");
        assert!(why.contains('…') || report.2 == *why, "{settings:?}: {report:?}");
    }
}

/// A page that contains the story among three times as much other text.
const DIGEST: &str = "Snow fell in the mountains overnight, and most of the roads to the valley were closed until noon, \
    the police said. Trains ran late, and two schools sent their pupils home early because the heating had failed in both \
    of them. A bakery in the harbour quarter gave away whatever it could not sell, mostly rye loaves and plum cakes with \
    almonds. Fishermen reported the largest catch of herring since the war, and the price on the quay fell by a quarter at \
    once. The orchestra postponed its season because the conductor broke an ankle while he was showing his niece how to \
    skate. Farmers asked for cheaper diesel; ministers promised them an answer by the end of the month and left by \
    helicopter. Astronomers at the university named a comet after their cat, which had walked over the keyboard at the \
    right time.";

#[test]
fn a_page_that_contains_a_known_one_matches_if_containment_is_configured() {
    let folder = folder(NEWS, &format!("{DIGEST} {NEWS}"));
    // Shingles under which the pair shares one key, whatever the defaults are.
    let off = ["-s", "match.minhash.shingle.other=7"];
    let on = [&off[..], &["-s", "match.minhash.containment=0.75"]].concat();
    let line = |output: &CliOutput, name: &str| {
        output.out.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
    };
    let plain = compare(&folder, &[&["a.txt", "b.txt", "-o", "table"][..], &off].concat());
    assert_eq!((line(&plain, "verdict"), line(&plain, "containment")), ("verdict  unique".to_owned(), String::new()));
    let output = compare(&folder, &[&["a.txt", "b.txt", "-o", "table"][..], &on].concat());
    let containment = line(&output, "containment");
    assert!(containment.contains(" of the smaller page, exactly 1.000 "), "{}", output.out);
    assert!(containment.ends_with("  match (match.minhash.containment is 0.75)"), "{}", output.out);
    assert!(line(&output, "minhash").contains("no match (match.minhash.min_similarity is 0.3"), "{}", output.out);
    assert!(line(&output, "verdict").ends_with("near, by stage minhash (containment)"), "{}", output.out);
    // In either order; and `sieve` agrees.
    for (pages, lines) in [(["a.txt", "b.txt"], ["1", "3"]), (["b.txt", "a.txt"], ["3", "1"])] {
        let report = json(&folder, &[&pages[..], &on].concat());
        let estimate = &report["containment"]["estimate"];
        assert!(estimate.as_f64().unwrap() >= 0.75 && report["containment"]["exact"] == 1.0, "{report}");
        assert_eq!((&report["containment"]["matched"], &report["minhash"]["matches"]), (&true.into(), &false.into()));
        let all = fs::read_to_string(folder.path().join("pages.jsonl")).unwrap();
        let in_order: String =
            lines.map(|line| all.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap()).join("\n");
        fs::write(folder.path().join("ordered.jsonl"), in_order).unwrap();
        let sieved = |more: &[&str]| {
            let output = stdout_of(dupgate().args(["sieve", "ordered.jsonl"]).args(more).current_dir(folder.path()));
            serde_json::from_str::<Value>(output.lines().last().unwrap()).unwrap()
        };
        let last = sieved(&on);
        assert_eq!((&last["verdict"], &last["stage"]), (&"near".into(), &"minhash".into()), "{last}");
        assert_eq!((&last["containment"], &last["similarity"]), (estimate, &report["minhash"]["similarity"]), "{last}");
        assert_eq!(sieved(&off)["verdict"], "unique");
        let more = format!("match.minhash.containment={}", estimate.as_f64().unwrap() + 0.001);
        assert_eq!(sieved(&[&off[..], &["-s", &more]].concat())["verdict"], "unique");
    }
}

#[test]
fn by_the_smallest_shingles_a_short_pair_is_measured_exactly_and_sieve_agrees() {
    let short = &NEWS[..200];
    let folder = folder(short, &short.replace("Tuesday", "Monday").replace("engineers", "architects"));
    let on = ["-s", "match.minhash.bottom_k=255"];
    let report = json(&folder, &[&["pages.jsonl:1", "pages.jsonl:3"][..], &on].concat());
    let similarity = report["minhash"]["similarity"].as_f64().unwrap();
    let exactly = report["minhash"]["jaccard"].as_f64().unwrap();
    // All shingles of both are kept: nothing is estimated, a step is one of 255.
    assert!(similarity <= exactly && exactly < similarity + 1.0 / 255.0 + 0.001, "{exactly} {similarity}");
    let plain = json(&folder, &["pages.jsonl:1", "pages.jsonl:3"]);
    assert_eq!(plain["minhash"]["keys_shared"], report["minhash"]["keys_shared"], "bands are cut from slots");
    assert_ne!((&plain["scheme"], &plain["minhash"]["similarity"]), (&report["scheme"], &similarity.into()));
    let sieved = |min: f64| {
        let settings = ["-s", "match.stages=minhash", "-s", &format!("match.minhash.min_similarity={min}")];
        let out =
            stdout_of(dupgate().args(["sieve", "pages.jsonl"]).args(on).args(settings).current_dir(folder.path()));
        serde_json::from_str::<Value>(out.lines().last().unwrap()).unwrap()
    };
    let near = sieved(similarity);
    assert_eq!((&near["verdict"], &near["similarity"]), (&"near".into(), &similarity.into()), "{near}");
    assert_eq!(sieved(similarity + 0.001)["verdict"], "unique");
}

fn stdout_of(command: &mut std::process::Command) -> String {
    let output = output_of(command);
    assert_eq!(output.code, 0, "{}", output.err);
    output.out
}
