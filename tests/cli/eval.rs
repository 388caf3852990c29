//! `eval` over generated texts, texts of a file, and labelled pairs.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::program::{CliOutput, dupgate, output_of};

fn eval(arguments: &[&str]) -> CliOutput {
    output_of(dupgate().arg("eval").args(arguments))
}

/// The JSON object that ends the output.
fn report_of(output: &CliOutput) -> Value {
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(output.out.lines().last().unwrap()).unwrap()
}

#[test]
fn the_table_and_the_json_agree() {
    let report = report_of(&eval(&["--texts", "300", "--seed", "5"]));
    let output = eval(&["--texts", "300", "--seed", "5", "-o", "table"]);
    assert!(!output.out.contains('{'), "no JSON below the table: {}", output.out);
    let number = |name: &str| {
        let line = output.out.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        let words = line.trim_start().strip_prefix(name).unwrap_or_default().split_whitespace();
        words.filter_map(|word| word.parse::<f64>().ok()).collect::<Vec<f64>>()
    };
    let close = |shown: f64, of: &Value, digits: f64| {
        let exact = of.as_f64().unwrap();
        assert!((shown - exact).abs() <= digits, "{shown} {exact}: {}", output.out);
    };
    close(number("pages")[0], &report["pages"], 0.0);
    for (row, of) in [("duplicates removed", "removed"), ("uniques lost", "lost")] {
        let shown = number(row);
        close(shown[0] / 100.0, &report[format!("{of}_share")], 6e-5);
        close(shown[1], &report[of]["found"], 0.0);
        close(shown[2], &report[of]["planted"], 0.0);
    }
    for (row, of) in [("pair precision", "precision"), ("pair recall", "recall"), ("pair F1", "f1")] {
        close(number(row)[0], &report[of], 6e-5);
    }
    close(number("adjusted Rand index")[0], &report["adjusted_rand_index"], 6e-5);
    let edits = report["edits"].as_object().unwrap();
    assert_eq!(edits.len(), 11, "{edits:?}");
    for (edit, count) in edits {
        close(number(edit)[1], &count["found"], 0.0);
        close(number(edit)[2], &count["planted"], 0.0);
    }
    let copies: u64 = edits.values().map(|count| count["planted"].as_u64().unwrap()).sum();
    assert_eq!(report["removed"]["planted"], copies);
    assert_eq!(report["pages"], copies + report["lost"]["planted"].as_u64().unwrap());
    assert!(report["removed_share"].as_f64().unwrap() >= 0.97, "the floor: {}", output.out);
}

#[test]
fn pages_of_two_texts_are_found_by_containment_if_one_is_known() {
    let shares = |more: &[&str]| {
        let report = report_of(&eval(&[&["--texts", "300"][..], more].concat()));
        let output = eval(&[&["--texts", "300", "-o", "table"][..], more].concat());
        let one = &report["joined_one_known"];
        let shown = format!("{} of {}", one["found"], one["planted"]);
        let row = output.out.lines().find(|line| line.trim_start().starts_with("joined_one_known")).unwrap();
        assert!(row.contains(&shown), "{row}: {shown}");
        (report["apart"]["joined"]["found"].as_u64(), one["share"].as_f64().unwrap(), report["lost"]["found"].clone())
    };
    let (off, on) = (shares(&[]), shares(&["-s", "match.minhash.containment=0.75"]));
    assert!(on.1 > off.1 + 0.05 && off.1 > 0.5, "{off:?} {on:?}");
    assert!(on.0 >= off.0 && on.2 == off.2, "{off:?} {on:?}");
}

#[test]
fn one_seed_gives_one_stream() {
    let stream = |seed: &str| eval(&["--texts", "120", "--seed", seed]).out;
    let first = stream("1");
    assert_eq!(first.lines().count(), 1);
    assert_eq!(first, stream("1"));
    assert_ne!(first, stream("2"));
}

#[test]
fn stricter_rules_remove_less() {
    let removed = |more: &[&str]| {
        let report = report_of(&eval(&[&["--texts", "200"][..], more].concat()));
        report["removed_share"].as_f64().unwrap()
    };
    let (all, simhash) = (removed(&[]), removed(&["-s", "match.stages=[exact,simhash]"]));
    let exact = removed(&["-s", "match.stages=exact"]);
    assert!(all > simhash && simhash > exact && exact < 0.5, "{all} {simhash} {exact}");
}

#[test]
fn other_methods_judge_the_same_stream() {
    let report = report_of(&eval(&["--texts", "120", "--baselines"]));
    let output = eval(&["--texts", "120", "--baselines", "-o", "table"]);
    let judges = report["judges"].as_array().unwrap();
    let names: Vec<&str> = judges.iter().map(|judge| judge["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dupgate", "simhash", "word_bands", "jaccard", "tf_idf"]);
    for judge in judges {
        assert_eq!(judge["pairs"]["planted"], report["pairs"]["planted"], "another stream");
        assert_eq!(judge["edits"].as_object().unwrap().len(), 11, "{judge}");
        let name = judge["name"].as_str().unwrap();
        let row = output.out.lines().find(|line| line.starts_with(&format!("{name}  "))).unwrap();
        let f1 = format!("{:.4}", judge["f1"].as_f64().unwrap());
        assert!(row.split_whitespace().any(|cell| cell == f1), "{row}: {f1}");
    }
    for measure in ["removed", "lost", "pairs", "edits"] {
        assert_eq!(judges[0][measure], report[measure], "ours twice");
    }
    let removed = |judge: usize| judges[judge]["removed_share"].as_f64().unwrap();
    assert!(removed(3) >= 0.97 && removed(1) < 0.9 && removed(2) < 0.97, "{}", output.out);
    let refused = eval(&["--texts", "400", "--copies", "60", "--baselines"]);
    assert!(refused.code == 78 && refused.err.contains("at most 10000"), "{}", refused.err);
}

#[test]
fn labelled_pairs_are_scored_unedited() {
    let folder = TempDir::new().unwrap();
    let story = |what: &str| {
        format!(
            "The {what} was opened on Monday by the mayor, who thanked the builders of the {what} and the people of the \
             town; nobody had believed that a {what} could be paid for, she said, and yet the {what} stands."
        )
    };
    let (bridge, school) = (
        story("bridge"),
        "Snow fell in the mountains overnight, and most of the roads to the valley \
        were closed until noon, the police said; trains ran late, and two schools sent their pupils home early.",
    );
    let texts =
        [("a", bridge.clone()), ("b", format!("{bridge} (ag)")), ("c", school.to_owned()), ("d", story("opera"))];
    let lines: Vec<String> =
        texts.iter().map(|(id, text)| serde_json::json!({"id": id, "text": text}).to_string()).collect();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("texts.jsonl"), lines.join("\n")).unwrap();
    // A label that no method can find: the snow and the bridge.
    fs::write(path("pairs.txt"), "a b\nc a\n").unwrap();
    let report = report_of(&eval(&[&path("texts.jsonl"), "--pairs", &path("pairs.txt")]));
    assert_eq!((&report["pages"], &report["pairs"]["planted"]), (&4.into(), &3.into()));
    assert_eq!(report["removed"], serde_json::json!({"planted": 2, "found": 1}));
    assert_eq!(report["pairs"]["right"], 1);
    fs::write(path("pairs.txt"), "a nobody\n").unwrap();
    let refused = eval(&[&path("texts.jsonl"), "--pairs", &path("pairs.txt")]);
    assert!(refused.code == 66 && refused.err.contains("line 1: no text has the id nobody"), "{}", refused.err);
}

/// Known misses: copies in the text of other sites, without addresses that distinguish the sites.
const KNOWN_TO_MISS: [(&str, &str, bool); 1] = [("published", "text", false)];

#[test]
fn the_goals_of_streams_of_sites_are_met_except_in_known_rows() {
    let output = eval(&["--sites", "--pages", "400", "--texts", "200", "--check"]);
    let report: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    let rows = report["sites"].as_array().unwrap();
    let missed: Vec<_> = rows
        .iter()
        .filter(|row| row["met"] == false)
        .map(|row| (row["kind"].as_str().unwrap(), row["form"].as_str().unwrap(), row["addressed"] == true))
        .collect();
    assert_eq!(missed, KNOWN_TO_MISS, "{}", output.out);
    assert_eq!(output.code, 1, "{}", output.err);
    assert!(output.err.contains(&format!("1 of {} rows miss their goal", rows.len())), "{}", output.err);
    let of_one_site = rows.iter().find(|row| row["kind"] == "one_site").unwrap();
    // Copies of a page on its own site are found if nearly all of it is left.
    let found = of_one_site["found_share"].as_f64().unwrap();
    assert!((0.8..0.9).contains(&found), "{found}");
    assert_eq!(eval(&["--check"]).code, 2, "only streams of sites have goals");
}

#[test]
fn streams_of_sites_are_judged_and_missed_goals_are_marked() {
    let report = report_of(&eval(&["--sites", "--pages", "80", "--texts", "40"]));
    let output = eval(&["--sites", "--pages", "80", "--texts", "40", "-o", "table"]);
    let rows = report["sites"].as_array().unwrap();
    let missed = rows.iter().filter(|row| row["met"] == false).count();
    assert_eq!(report["missed"], missed);
    assert!(output.out.contains(&format!("\n{missed} of {} rows miss their goal", rows.len())), "{}", output.out);
    assert_eq!(output.out.matches(" !\n").count() + output.out.matches(" !  ").count(), missed, "{}", output.out);
    let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).collect::<Vec<_>>();
    // Five shares, two forms, with and without address.
    assert_eq!(of("unlike").len() % 20, 0);
    for (kind, min) in [
        ("ordinary", 2),
        ("one_site", 1),
        ("published", 4),
        ("print", 4),
        ("session", 4),
        ("amp", 1),
        ("short_posts", 2),
    ] {
        assert_eq!(of(kind).len(), min, "{kind}");
    }
    for row in rows {
        let lost = &row["lost"];
        let sum = row["lost_within"].as_u64().unwrap() + row["lost_across"].as_u64().unwrap();
        assert_eq!(lost["found"], sum, "{row}");
        assert!(lost["planted"].as_u64().unwrap() + row["found"]["planted"].as_u64().unwrap() > 0, "{row}");
    }
    // The stream that has nothing to do with sites is the one that `eval` judges.
    let plain = self::report_of(&eval(&["--texts", "40"]));
    let ordinary = of("ordinary").into_iter().find(|row| row["addressed"] == false).unwrap();
    assert_eq!((&ordinary["found"], &ordinary["lost"]), (&plain["removed"], &plain["lost"]));
    let chosen = self::report_of(&eval(&["--sites", "--pages", "80", "--texts", "40", "--share", "40,50"]));
    let of_shares: Vec<_> =
        rows.iter().filter(|row| row["kind"] == "unlike" && (row["share"] == 40 || row["share"] == 50)).collect();
    assert_eq!(chosen["sites"].as_array().unwrap().iter().collect::<Vec<_>>(), of_shares);
    let refused = eval(&["--sites", "--share", "45"]);
    assert!(refused.code == 2 && refused.err.contains("expected one of 20, 30, 40, 50, 60"), "{}", refused.err);
    let refused = eval(&["--pages", "200"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
}
