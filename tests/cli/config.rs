//! `validate` and `config`: problems, effective settings, the cost of a change.

use std::path::Path;

use serde_json::Value;

use super::program::{CliOutput, dupgate, output_of};

/// Runs a command in a folder that holds these files.
fn run(files: &[(&str, &str)], variables: &[(&str, &str)], arguments: &[&str]) -> CliOutput {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    output_of(dupgate().envs(variables.iter().copied()).args(arguments).current_dir(folder.path()))
}

fn minimal() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/minimal.yaml")).unwrap()
}

const BROKEN: &str = "version: 1
kafka:
  brokers: [kafka:9092]
  security:
    protocol: sasl_ssl
    sasl: {username: u, password: hunter2}
input: {topics: [crawl.pages], instance_id: one}
output:
  unique: {topic: crawl.pages.unique}
  duplicate: {topic: crawl.pages.duplicate}
  dead_letter: {topic: crawl.pages.dead}
match:
  stages: [exact, simhash]
  simhash:
    max_distanse: 3
";

#[test]
fn all_problems_are_reported_at_once_with_excerpts_and_suggestions() {
    let output =
        run(&[("dupgate.yaml", BROKEN)], &[("DUPGATE_MATCH__MAX_DISTANC", "4")], &["validate", "dupgate.yaml"]);
    let expected =
        "error: dupgate.yaml:15:5: match.simhash.max_distanse: unknown field `max_distanse`, expected one of \
                    `bits`, `max_distance`, `min_similarity`, `weights`, `top_k`, `hash`; did you mean `max_distance`?
  --> dupgate.yaml:15:5
   |
13 |   stages: [exact, simhash]
14 |   simhash:
15 |     max_distanse: 3
   |     ^^^^^^^^^^^^ did you mean `max_distance`?
warning: dupgate.yaml:6:35: kafka.security.sasl.password: is written in the configuration; use {file: …} or {env: …}
warning: DUPGATE_MATCH__MAX_DISTANC: is set but names no setting; did you mean `DUPGATE_MATCH__SIMHASH__MAX_DISTANCE`?
warning: match.simhash.min_similarity: has no effect without the stage minhash, which compares sketches: \
     a page written against a known text can suppress it (add minhash to match.stages, or set null)
error: the configuration is refused (1 error, 3 warnings)
";
    assert_eq!(output.err, expected);
    assert_eq!((output.code, output.out.as_str()), (78, ""));
}

#[test]
fn programs_read_the_same_as_json() {
    let output = run(&[("dupgate.yaml", BROKEN)], &[], &["validate", "dupgate.yaml", "-o", "json"]);
    let value: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, &value["valid"]), (78, &Value::Bool(false)));
    let problem = &value["problems"][0];
    assert_eq!(
        (&problem["line"], &problem["column"], &problem["meant"]),
        (&15.into(), &5.into(), &"max_distance".into())
    );
    assert_eq!(value["warnings"][0]["key"], "kafka.security.sasl.password");
}

#[test]
fn a_dictionary_is_read_by_validate_as_by_the_service() {
    let validate = |words: &str| {
        let files = [("f.yaml", &*minimal()), ("words.txt", words)];
        let list = ["-s", "text.jieba.user_dict=words.txt"];
        run(&files, &[("HOSTNAME", "h")], &[&["validate", "f.yaml"], &list[..]].concat())
    };
    let unused = validate("# names\n云计算 5\nSK-II\n");
    assert_eq!(unused.code, 0, "{}", unused.err);
    assert!(unused.err.contains("text.jieba.user_dict: 1 of its words are never used"), "{}", unused.err);
    let refused = validate("云计算 often n\n");
    assert_eq!(refused.code, 78, "{}", refused.err);
    assert!(refused.err.contains("text.jieba.user_dict line 1: `often` is not a frequency"), "{}", refused.err);
}

#[test]
fn run_shows_a_broken_configuration_as_validate_does() {
    let validated = run(&[("dupgate.yaml", BROKEN)], &[], &["validate", "dupgate.yaml"]);
    let ran = run(&[("dupgate.yaml", BROKEN)], &[], &["run", "-c", "dupgate.yaml"]);
    // The log off a terminal is JSON: its collectors find the reason there, too.
    let (report, logged) = ran.err.trim_end().rsplit_once('\n').unwrap();
    assert_eq!((ran.code, report), (78, validated.err.trim_end()));
    let logged: Value = serde_json::from_str(logged).unwrap();
    assert_eq!((&logged["level"], &logged["exit_code"]), (&"error".into(), &78.into()), "{logged}");
    assert!(logged["error"].as_str().unwrap().contains("max_distanse"), "{logged}");
    let text = run(&[("dupgate.yaml", BROKEN)], &[], &["run", "-c", "dupgate.yaml", "--log-format", "text"]);
    assert_eq!(text.err, validated.err, "people read it once");
}

#[test]
fn warnings_are_errors_only_with_strict() {
    let text = minimal();
    let files = [("dupgate.yaml", text.as_str())];
    let validate = |more: &[&str]| run(&files, &[("HOSTNAME", "")], &[&["validate", "dupgate.yaml"], more].concat());
    assert_eq!(validate(&[]).code, 0);
    assert!(validate(&[]).err.contains("input.instance_id: is empty"), "{}", validate(&[]).err);
    assert_eq!(validate(&["--strict"]).code, 78);
}

#[test]
fn the_output_of_init_is_valid() {
    for arguments in [&["config", "init"][..], &["config", "init", "--full"]] {
        let text = run(&[], &[], arguments).out;
        let output = run(&[("f.yaml", &text)], &[("HOSTNAME", "h"), ("POD_NAME", "p")], &["validate", "f.yaml"]);
        assert_eq!(
            (output.code, output.err.as_str()),
            (0, "the configuration is valid (0 errors, 0 warnings)\n"),
            "{text}"
        );
        let schema = text.lines().find(|line| line.starts_with("# yaml-language-server:"));
        assert_eq!(schema, Some("# yaml-language-server: $schema=dupgate.schema.json"), "an editor finds the schema");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_host_name_replaces_a_variable_that_shells_do_not_export() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f.yaml"), minimal()).unwrap();
    let report =
        output_of(dupgate().env_remove("HOSTNAME").args(["validate", "f.yaml", "--strict"]).current_dir(folder.path()));
    assert_eq!(report.code, 0, "{}", report.err);
}

#[test]
fn show_prints_the_effective_settings_and_their_origins() {
    let (text, over) = (minimal(), "window: {size: 24h}\nkafka: {security: {sasl: {password: hunter2}}}\n");
    let files = [("a.yaml", text.as_str()), ("b.yaml", over)];
    let variables = [("DUPGATE_TEXT__HTML", "all_text"), ("HOSTNAME", "gate-0")];
    let arguments = ["config", "show", "-c", "a.yaml,b.yaml", "-s", "match.simhash.max_distance=4"];
    let yaml = run(&files, &variables, &arguments);
    assert!(yaml.out.starts_with("# hash ") && yaml.out.contains("\n  size: 1d\n"), "{}", yaml.out);
    let again = run(&[("f.yaml", &yaml.out)], &[], &["config", "show", "-c", "f.yaml"]);
    assert_eq!(again.out, yaml.out, "the output can be loaded");
    let listed = run(&files, &variables, &[&arguments[..], &["--origin", "-o", "json"]].concat());
    let list: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let of = |key: &str| {
        let found = list.iter().find(|shown| shown["key"] == key).unwrap();
        (found["origin"].as_str().unwrap(), found["decides"].as_str().unwrap())
    };
    assert_eq!(of("window.size"), ("b.yaml:1:16", "rules"));
    assert_eq!(of("text.html"), ("DUPGATE_TEXT__HTML", "scheme"));
    assert_eq!(of("match.simhash.max_distance"), ("--set", "rules"));
    assert_eq!(of("input.group"), ("default", "state"));
    assert_eq!(of("input.instance_id"), ("a.yaml:9:16", "work"));
    for output in [&yaml, &listed] {
        assert!(!output.out.contains("hunter2") && !output.err.contains("hunter2"), "{}{}", output.out, output.err);
    }
}

#[test]
fn diff_shows_the_cost_of_a_change() {
    let text = minimal();
    let files = [("a.yaml", text.as_str())];
    let diff = |set: &[&str]| {
        let set = set.iter().flat_map(|assignment| ["-s", assignment]);
        run(&files, &[], &["config", "diff", "a.yaml"].into_iter().chain(set).collect::<Vec<_>>())
    };
    assert_eq!(diff(&[]).out, "no difference\n");
    let work = diff(&["output.commit_interval=1s"]).out;
    assert_eq!(
        work,
        "DECIDES  KEY                     CHANGE\nwork     output.commit_interval  \"200ms\" -> \"1s\"\n\n* takes a restart of each instance\n"
    );
    let rules = diff(&["match.simhash.max_distance=4", "window.size=96h"]).out;
    assert!(rules.contains("rules    match.simhash.max_distance  3 -> 4\n"), "{rules}");
    assert!(
        rules.contains("earlier verdicts are unchanged, the index stays") && !rules.contains("new scheme"),
        "{rules}"
    );
    assert!(rules.contains("the full span is reached in 1 d"), "{rules}");
    let scheme = diff(&["text.html=all_text"]).out;
    assert!(
        scheme.contains("* new scheme sh64-") && scheme.contains("starts a new index in dupgate.fingerprints.sh64-"),
        "{scheme}"
    );
    assert!(scheme.contains("stop every old instance cleanly before the first new one starts"), "{scheme}");
    assert!(!scheme.contains("other rules"), "{scheme}");
    assert!(scheme.contains(r#"previous: {"text":{"html":"main_text"}}"#), "{scheme}");
    let sets = ["-s", "text.html=all_text", "-s", "previous.text.html=main_text"];
    let bridged = run(&files, &[], &[&["config", "diff", "a.yaml"][..], &sets].concat()).out;
    assert!(bridged.contains("bridged by previous") && bridged.contains("no duplicate is missed"), "{bridged}");
    for way in ["index warm", "stop every old instance"] {
        assert!(!bridged.contains(way), "{bridged}");
    }
    let first = "dupgate index warm -c a.yaml --running a.yaml -s text.html=all_text --execute";
    assert!(
        scheme.contains(&format!("\n1. {first}\n2. when it reports that it has caught up: stop every old")),
        "{scheme}"
    );
    for other in [&work, &rules] {
        assert!(!other.contains("index warm"), "{other}");
    }
    let arguments = ["config", "diff", "a.yaml", "-s", "match.seed=it's a secret", "-o", "json"];
    let report: Value = serde_json::from_str(&run(&files, &[], &arguments).out).unwrap();
    let first = "dupgate index warm -c a.yaml --running a.yaml -s 'match.seed=it'\\''s a secret' --execute";
    assert_eq!(
        (&report["warm_up"][0], report["warm_up"].as_array().map(Vec::len)),
        (&first.into(), Some(3)),
        "{report}"
    );
    let group = diff(&["input.group=other"]).out;
    assert!(group.contains("another group: other begins at input.start (earliest)"), "{group}");
    assert!(group.contains("pages that dupgate has delivered are delivered again"), "{group}");
    assert!(group.contains("starts a new index in other.fingerprints.sh64-"), "{group}");
    assert!(!group.contains("index warm"), "another group judges other pages: {group}");
}

#[test]
fn diff_shows_the_effect_of_another_mode_on_earlier_pages() {
    let text = minimal();
    let files = [("a.yaml", text.as_str()), ("o.yaml", &text.replace("version: 1", "version: 1\nmode: observe"))];
    let diff = |file: &str, mode: &str| run(&files, &[], &["config", "diff", file, "-s", &format!("mode={mode}")]).out;
    let report = diff("o.yaml", "route");
    for expected in [
        "state    mode  \"observe\" -> \"route\"\n",
        "another group: dupgate begins at input.start (earliest) unless it has an offset, and starts without originals: \
         what dupgate.observe saw was not delivered",
        "starts a new index in dupgate.fingerprints.sh64-",
    ] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
    let report = diff("a.yaml", "observe");
    assert!(
        report.contains("another group: dupgate.observe begins") && report.contains("nothing is delivered"),
        "{report}"
    );
    let report = diff("a.yaml", "tag");
    assert!(
        report.contains("the same group and index: duplicates go to unique") && !report.contains("new index"),
        "{report}"
    );
}

#[test]
fn the_schema_accepts_what_the_program_accepts() {
    let output = run(&[], &[], &["config", "schema"]);
    let schema: Value = serde_json::from_str(&output.out).unwrap();
    let distance = &schema["properties"]["match"]["properties"]["simhash"]["properties"]["max_distance"];
    assert_eq!((&distance["default"], &distance["type"]), (&3.into(), &"integer".into()));
}

#[test]
fn a_valid_configuration_is_shown_with_the_recall_and_cost_of_its_bands() {
    let text = minimal();
    let files = [("f.yaml", text.as_str())];
    let validate = |more: &[&str]| run(&files, &[], &[&["validate", "f.yaml", "--matching"], more].concat());
    let settings =
        ["-s", "match.minhash.bands=14", "-s", "match.minhash.rows=8", "-s", "match.minhash.min_shared_bands=1"];
    let report: Value = serde_json::from_str(&validate(&[&settings[..], &["-o", "json"]].concat()).out).unwrap();
    let curve = report["minhash"]["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 9);
    for point in curve {
        let (jaccard, recall) = (point["jaccard"].as_f64().unwrap(), point["compared"].as_f64().unwrap());
        let expected = 1.0 - (1.0 - jaccard.powi(8)).powi(14);
        assert!((recall - expected).abs() < 1e-9, "{point}, expected {expected}");
    }
    let table = validate(&["-s", "index.max_entries=10000000"]).out;
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(
        table.starts_with(
            "simhash: two texts match when at most 3 of 64 bits differ; by chance a page matches 2e-8 of 10000000 originals\n"
        ),
        "{table}"
    );
    assert!(table.contains("\n\nminhash: 42 bands of 3 rows out of 128 slots of 8 bits"), "{table}");
    assert_eq!(row("jaccard").split_whitespace().collect::<Vec<_>>()[1..4], ["0.1", "0.2", "0.3"]);
    let shares: Vec<String> = row("share a key").split_whitespace().skip(3).map(str::to_owned).collect();
    let expected = |jaccard: f64| format!("{:.3}", 1.0 - (1.0 - jaccard.powi(3)).powi(42));
    assert_eq!(shares[..3], [0.1, 0.2, 0.3].map(expected));
    assert!(table.contains("by chance among 10000000"), "{table}");
    for kind in ["Chinese news", "short Chinese posts", "English news"] {
        assert!(row(kind).contains(" us a page"), "{table}");
    }
    let by_bits = validate(&["-s", "match.stages=[exact,simhash]"]).out;
    assert!(by_bits.starts_with("simhash: ") && !by_bits.contains("minhash"), "{by_bits}");
    assert_eq!(
        validate(&["-s", "match.stages=[exact]"]).out,
        "exact   equal text            within 3 d\nmemory  about 5.6 GiB in all\n",
        "nothing is left to chance"
    );
    // By default it prints one line for each stage.
    let brief = run(&files, &[], &["validate", "f.yaml", "-s", "window.stages={exact: 30d}"]).out;
    assert_eq!(
        brief,
        "exact    equal text                                              within 30 d\n\
         simhash  at most 3 of 64 bits differ                             within 3 d\n\
         minhash  2 of 42 bands shared, estimated similarity 0.3 or more  within 3 d\n\
         memory   about 5.6 GiB in all\n"
    );
    let both = run(&files, &[], &["validate", "f.yaml", "-s", "previous={text: {version: 1}}"]).out;
    assert!(both.contains("memory   about 10.5 GiB in all") && both.contains("of both schemes"), "{both}");
    assert!(!run(&files, &[], &["validate", "f.yaml", "-o", "json"]).out.contains("curve"));
    // 1.2 times the index, 6 times the 64 MiB of pages in flight, and 512 MiB.
    let memory = ["-s", "index.max_memory=1000MiB"];
    let report: Value = serde_json::from_str(&validate(&[&memory[..], &["-o", "json"]].concat()).out).unwrap();
    assert_eq!(report["memory_bytes"], (1200_u64 + 6 * 64 + 512) << 20);
    let narrow = validate(&["-s", "match.simhash.bits=32", "-s", "index.max_entries=1000000", "-o", "json"]).out;
    let report: Value = serde_json::from_str(&narrow).unwrap();
    let simhash = &report["simhash"];
    assert_eq!(
        (&simhash["bits"], &simhash["max_distance"], &simhash["max_entries"]),
        (&32.into(), &3.into(), &1_000_000.into())
    );
    assert!(
        (simhash["by_chance"].as_f64().unwrap() - 5_489.0 * 1e6 / f64::from(1 << 16).powi(2)).abs() < 1e-9,
        "{report}"
    );
    assert!(report["warnings"].to_string().contains("within 3 of 32 bits of any page by chance"), "{report}");
    // Containment compares texts that share one key; chances of word shingles are unknown.
    let contained = validate(&["-s", "match.minhash.containment=0.75", "-s", "index.max_entries=10000000"]).out;
    assert!(
        contained.contains("share one band and 0.75 of the smaller\nis estimated to be in the other"),
        "{contained}"
    );
    assert!(
        contained.contains("(below 0.46 only with 0.8 of the smaller in the other, or within 14 bits)"),
        "{contained}"
    );
    let strangers = contained.lines().find(|line| line.starts_with("Chinese news")).unwrap_or_default();
    let counts: Vec<&str> = strangers.split_whitespace().skip(2).take(2).collect();
    assert!(counts[0] == counts[1] && counts[0] != "0", "{strangers}");
    let words = ["-s", "match.minhash.shingle={unit: words, han: 3, other: 5}"];
    let table = validate(&words).out;
    assert!(table.contains("not known for word shingles") && !table.contains("us a page"), "{table}");
    let report: Value = serde_json::from_str(&validate(&[&words[..], &["-o", "json"]].concat()).out).unwrap();
    assert_eq!(report["minhash"]["by_chance"], Value::Null);
}
