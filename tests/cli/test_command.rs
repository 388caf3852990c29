//! `test`: pairs of pages with expected verdicts.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::program::{CliOutput, dupgate, output_of};

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
  expect: dead_letter
- name: capitals, by any stage
  one: {{text: '{NEWS}'}}
  other: {{text: '{}'}}
  expect: duplicate
",
        NEWS.to_uppercase()
    )
}

fn run(cases: &str, arguments: &[&str]) -> CliOutput {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("ci")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join("ci").join(name), text).unwrap();
    write("cases.yaml", cases);
    write("pages.jsonl", &format!("{{}}\n{}\n", serde_json::json!({"text": NEWS})));
    write("page.txt", NEWS);
    output_of(dupgate().args(["test", "ci/cases.yaml"]).args(arguments).current_dir(folder.path()))
}

#[test]
fn cases_that_are_as_expected_pass() {
    let output = run(&cases(), &[]);
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (0, "6 cases: all passed\n", ""));
}

#[test]
fn unexpected_verdicts_fail_and_are_shown_with_their_distances() {
    let output = run(&cases(), &["-s", "match.minhash.min_similarity=0.95"]);
    let why = "the SimHashes differ in 7 bits (match.simhash.max_distance is 3) and the estimated similarity is 0.89 \
               (match.minhash.min_similarity is 0.95)";
    let expected = format!(
        "\
RESULT  CASE                                EXPECTED         GOT     WHY
FAIL    \"two words changed\"                 near by minhash  unique  {why}
FAIL    \"the same address with a new text\"  update           unique  {why}
"
    );
    assert_eq!((output.code, output.out), (1, expected));
    assert_eq!(output.err, "error: 2 of 6 cases not as expected\n");
}

#[test]
fn a_low_confidence_case_is_shown_with_its_share() {
    let output = run(
        &cases(),
        &["-s", "match.minhash.low_confidence={below: 0.95, below_short: 0.95, containment: 0.99, max_distance: 0}"],
    );
    let why = output.out.lines().nth(1).unwrap();
    let begin = "the estimated similarity 0.89 is below 0.95 (match.minhash.low_confidence.below is 0.95), 0.9";
    assert!(why.contains(begin), "{}", output.out);
    let end = " of the smaller page is in the other (containment is 0.99) and the SimHashes differ in 7 bits (max_distance is 0)";
    assert!(why.ends_with(end), "{}", output.out);
}

#[test]
fn a_case_of_containment_is_shown_with_its_share() {
    let story = "Snow fell in the mountains overnight, and most of the roads to the valley were closed until noon.";
    let case = format!("- {{name: whole, one: {{text: '{NEWS}'}}, other: {{text: '{NEWS} {story}'}}, expect: unique}}");
    let output = run(&case, &["-s", "match.minhash.containment=0.75"]);
    let (_, measured) = output.out.split_once("similarity ").unwrap();
    assert!(measured.contains(", containment ") && measured.contains(" (limit 0.75)"), "{}", output.out);
    let json: Value =
        serde_json::from_str(&run(&case, &["-o", "json", "-s", "match.minhash.containment=0.75"]).out).unwrap();
    assert!(json["cases"][0]["containment"].as_f64().unwrap() > 0.75, "{json}");
    assert!(!run(&case, &[]).out.contains("containment"), "unused options are not shown");
}

#[test]
fn the_expected_stage_must_match() {
    let settings = ["-s", "match.simhash.max_distance=7"];
    let output = run(&cases(), &settings);
    assert_eq!(output.code, 1);
    assert!(output.out.contains("\"two words changed\"  near by minhash  near by simhash"), "{}", output.out);
    assert_eq!(output.err, "error: 1 of 6 cases not as expected\n");
}

#[test]
fn programs_read_every_case() {
    let output = run(&cases(), &["-o", "json", "-s", "match.minhash.min_similarity=0.95"]);
    let report: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, &report["passed"], &report["failed"]), (1, &4.into(), &2.into()));
    let first = &report["cases"][0];
    assert_eq!((&first["passed"], &first["got"], &first["distance"]), (&false.into(), &"unique".into(), &7.into()));
    assert_eq!(first["refused_by"], "distance");
    assert!(first["reason"].as_str().unwrap().contains("match.minhash.min_similarity is 0.95"), "{first}");
    let dead = &report["cases"][4];
    assert_eq!((&dead["got"], &dead["passed"]), (&"dead_letter".into(), &true.into()));
    assert!(dead["reason"].as_str().unwrap().starts_with("no_text: "), "{dead}");
    let lines = run(&cases(), &["-o", "jsonl"]).out;
    assert_eq!(lines.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["passed"] == true).count(), 6);
}

#[test]
fn invalid_files_of_cases_are_refused_with_the_place() {
    let refused = |cases: &str| {
        let output = run(cases, &[]);
        assert_eq!(output.out, "");
        (output.code, output.err)
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
fn a_case_that_cannot_be_run_does_not_stop_the_others() {
    let gone = "- {name: gone, one: {file: no.txt}, other: {text: y}, expect: near}\n";
    let output = run(gone, &[]);
    assert_eq!(
        (output.code, output.err.as_str()),
        (66, "error: 1 of 1 case not as expected, 1 of them could not be run\n")
    );
    assert!(
        output.out.contains("ERROR   \"gone\"  near      nothing  cannot read ci/no.txt: No such file"),
        "{}",
        output.out
    );
    let blank = "- {name: blank, one: {text: ' '}, other: {text: y}, expect: near}\n";
    let output = run(&format!("{gone}{blank}{}", cases()), &["-s", "match.minhash.min_similarity=0.95"]);
    assert_eq!(
        (output.code, output.err.as_str()),
        (1, "error: 4 of 8 cases not as expected, 2 of them could not be run\n"),
        "{}",
        output.out
    );
    assert!(output.out.contains("\"blank\"") && output.out.contains("the first page is refused"), "{}", output.out);
}
