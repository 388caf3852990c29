//! `test`: pairs of pages with expected verdicts.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::program::{Said, dupgate, said};

const NEWS: &str = "The committee met on Tuesday in the old town hall to discuss the new bridge over the river, which \
    engineers had called unsafe after heavy floods damaged three of its eleven pillars during the spring; a replacement \
    would cost forty million and take at least six years to build, according to a confidential report.";

/// A case of every kind of page and verdict; all of them hold under the defaults.
fn cases() -> String {
    let near = NEWS.replace("Tuesday", "Monday").replace("forty million", "sixty million");
    format!(
        "- name: two words changed
  one: {{text: '{NEWS}'}}
  other: {{text: '{near}'}}
  expect: near
  stage: minhash
- name: the page of a file
  one: {{file: pages.jsonl:2}}
  other: {{file: page.txt}}
  expect: exact
- name: another story
  one: {{text: '{NEWS}'}}
  other: {{html: '<p>Snow fell in the mountains overnight, and most of the roads were closed.</p>'}}
  expect: unique
- name: the same address with a new text
  one: {{record: {{url: 'https://a.example/1', text: '{NEWS}'}}}}
  other: {{record: {{url: 'https://a.example/1', text: '{near}'}}}}
  expect: update
- name: no text at all
  one: {{text: '{NEWS}'}}
  other: {{text: ' '}}
  expect: dead
- name: capitals, whichever stage says so
  one: {{text: '{NEWS}'}}
  other: {{text: '{}'}}
  expect: duplicate
",
        NEWS.to_uppercase()
    )
}

fn run(cases: &str, arguments: &[&str]) -> Said {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("ci")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join("ci").join(name), text).unwrap();
    write("cases.yaml", cases);
    write("pages.jsonl", &format!("{{}}\n{}\n", serde_json::json!({"text": NEWS})));
    write("page.txt", NEWS);
    said(dupgate().args(["test", "ci/cases.yaml"]).args(arguments).current_dir(folder.path()))
}

#[test]
fn cases_that_are_as_expected_pass() {
    let said = run(&cases(), &[]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "6 cases: all passed\n", ""));
}

#[test]
fn what_is_not_as_expected_is_told_with_its_distances_and_fails() {
    let said = run(&cases(), &["-s", "match.minhash.min_similarity=0.95"]);
    let why = "the SimHashes differ in 7 bits (match.simhash.max_distance is 3) and the estimated similarity is 0.89 \
               (match.minhash.min_similarity is 0.95)";
    let expected = format!(
        "\
RESULT  CASE                                EXPECTED         GOT     WHY
FAIL    \"two words changed\"                 near by minhash  unique  {why}
FAIL    \"the same address with a new text\"  update           unique  {why}
"
    );
    assert_eq!((said.code, said.out), (1, expected));
    assert_eq!(said.err, "error: 2 of 6 cases not as expected\n");
}

#[test]
fn a_case_that_is_uncertain_is_reported_with_its_share() {
    let said = run(
        &cases(),
        &["-s", "match.minhash.low_confidence={below: 0.95, below_short: 0.95, containment: 0.99, max_distance: 0}"],
    );
    let why = said.out.lines().nth(1).unwrap();
    let begin = "the estimated similarity 0.89 is below 0.95 (match.minhash.low_confidence.below is 0.95), 0.9";
    assert!(why.contains(begin), "{}", said.out);
    let end = " of the smaller page is in the other (containment is 0.99) and the SimHashes differ in 7 bits (max_distance is 0)";
    assert!(why.ends_with(end), "{}", said.out);
}

#[test]
fn a_case_of_containment_is_told_with_its_share() {
    let story = "Snow fell in the mountains overnight, and most of the roads to the valley were closed until noon.";
    let case = format!("- {{name: whole, one: {{text: '{NEWS}'}}, other: {{text: '{NEWS} {story}'}}, expect: unique}}");
    let said = run(&case, &["-s", "match.minhash.containment=0.75"]);
    let (_, measured) = said.out.split_once("similarity ").unwrap();
    assert!(measured.contains(", containment ") && measured.contains(" (limit 0.75)"), "{}", said.out);
    let json: Value =
        serde_json::from_str(&run(&case, &["-o", "json", "-s", "match.minhash.containment=0.75"]).out).unwrap();
    assert!(json["cases"][0]["containment"].as_f64().unwrap() > 0.75, "{json}");
    assert!(!run(&case, &[]).out.contains("containment"), "nothing is said of what is not asked for");
}

#[test]
fn the_stage_that_is_expected_must_be_the_one_that_matches() {
    let settings = ["-s", "match.simhash.max_distance=7"];
    let said = run(&cases(), &settings);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("\"two words changed\"  near by minhash  near by simhash"), "{}", said.out);
    assert_eq!(said.err, "error: 1 of 6 cases not as expected\n");
}

#[test]
fn programs_read_every_case() {
    let said = run(&cases(), &["-o", "json", "-s", "match.minhash.min_similarity=0.95"]);
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &told["passed"], &told["failed"]), (1, &4.into(), &2.into()));
    let first = &told["cases"][0];
    assert_eq!((&first["passed"], &first["got"], &first["distance"]), (&false.into(), &"unique".into(), &7.into()));
    assert_eq!(first["refused_by"], "distance");
    assert!(first["reason"].as_str().unwrap().contains("match.minhash.min_similarity is 0.95"), "{first}");
    let dead = &told["cases"][4];
    assert_eq!((&dead["got"], &dead["passed"]), (&"dead".into(), &true.into()));
    assert!(dead["reason"].as_str().unwrap().starts_with("no_text: "), "{dead}");
    let lines = run(&cases(), &["-o", "jsonl"]).out;
    assert_eq!(lines.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["passed"] == true).count(), 6);
}

#[test]
fn files_of_cases_that_make_no_sense_are_refused_with_the_place() {
    let refused = |cases: &str| {
        let said = run(cases, &[]);
        assert_eq!(said.out, "");
        (said.code, said.err)
    };
    let (code, why) = refused("- name: a\n  one: {text: x}\n  other: {text: y}\n  expect: nearly\n");
    assert!(
        code == 2 && why.contains("ci/cases.yaml") && why.contains("nearly") && why.contains("line 4"),
        "{code} {why}"
    );
    let (code, why) = refused("- name: a\n  one: {text: x}\n  other: {text: y}\n  expect: near\n  stages: exact\n");
    assert!(code == 2 && why.contains("stages"), "{code} {why}");
    assert_eq!(refused("[]").0, 2);
}

#[test]
fn a_case_that_cannot_be_run_does_not_keep_the_others_from_it() {
    let gone = "- {name: gone, one: {file: no.txt}, other: {text: y}, expect: near}\n";
    let said = run(gone, &[]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (66, "error: 1 of 1 case not as expected, 1 of them could not be run\n")
    );
    assert!(
        said.out.contains("ERROR   \"gone\"  near      nothing  cannot read ci/no.txt: No such file"),
        "{}",
        said.out
    );
    let blank = "- {name: blank, one: {text: ' '}, other: {text: y}, expect: near}\n";
    let said = run(&format!("{gone}{blank}{}", cases()), &["-s", "match.minhash.min_similarity=0.95"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (1, "error: 4 of 8 cases not as expected, 2 of them could not be run\n"),
        "{}",
        said.out
    );
    assert!(said.out.contains("\"blank\"") && said.out.contains("the first page is refused"), "{}", said.out);
}
