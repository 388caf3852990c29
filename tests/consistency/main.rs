//! Tier 0: documents and samples agree with the code.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a file that cannot be read fails the test"
)]

mod chart;
mod configuration;
mod input;
mod log_targets;
mod metrics;
mod output;
mod scheme;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dupgate::config::{ExternalInputs, Layers, Purpose, Raw};
use serde_json::Value;

/// The minimal configuration of a service: everything else in the sample must be the default.
const REQUIRED: [(&str, &str); 5] = [
    ("kafka.brokers", "kafka:9092"),
    ("input.topics", "crawl.pages"),
    ("output.unique.topic", "crawl.pages.unique"),
    ("output.duplicate.topic", "crawl.pages.duplicate"),
    ("output.dead_letter.topic", "crawl.pages.dead"),
];

/// Set to rewrite the documents.
const REWRITE: &str = "DUPGATE_WRITE_DOCS";

/// Compares a generated document with the file, or writes it.
fn up_to_date(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(expected.lines()).find(|(written, expected)| written != expected);
    assert!(
        written == expected,
        "{name} is out of date ({differs:?}): {REWRITE}=1 cargo test --test consistency writes it"
    );
}

/// Reads a file, by its path from the root.
fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn sample() -> String {
    read("config/dupgate.yaml")
}

fn minimal() -> Layers {
    let mut layers = Layers::default();
    for (key, value) in REQUIRED {
        layers.set(&format!("{key}={value}"));
    }
    layers
}

fn from_sample() -> Layers {
    let mut layers = Layers::new(BTreeMap::new());
    layers.file("config/dupgate.yaml", &sample());
    layers
}

/// Paths of all values of a tree; an empty map counts as one.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, below) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                keys(below, &path, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            found.insert(path.to_owned());
        }
    }
}

/// Paths of all existing keys.
fn known_keys() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    keys(&serde_json::to_value(Raw::default()).unwrap(), "", &mut known);
    // Neither has a default: at most one of them may be set.
    known.extend(["index.max_memory".to_owned(), "index.max_entries".to_owned()]);
    known
}

#[test]
fn the_annotated_sample_resolves_to_the_defaults() {
    let resolve = |layers: Layers| {
        let resolved = layers.resolve(&ExternalInputs::default(), Purpose::Run);
        let (settings, warnings) = resolved.unwrap_or_else(|refused| panic!("{refused}"));
        (format!("{settings:#?}"), warnings.iter().map(|warning| warning.message.clone()).collect::<Vec<_>>())
    };
    assert_eq!(resolve(from_sample()), resolve(minimal()));
}

#[test]
fn the_annotated_sample_has_exactly_the_existing_keys() {
    let tree: Value = serde_saphyr::from_str(&sample()).unwrap();
    let mut written = BTreeSet::new();
    keys(&tree, "", &mut written);
    let mut known = known_keys();
    // Of two ways to limit the index the sample shows one; the other is named in its comment.
    known.remove("index.max_entries");
    assert_eq!(written, known);
    assert!(sample().contains("or max_entries"));
}

#[test]
fn the_sample_lists_every_choice_of_a_closed_list() {
    let text = sample();
    let mut minimal = minimal();
    // Each refusal lists what was expected instead: those words must be in the sample.
    for key in [
        "mode",
        "kafka.security.protocol",
        "kafka.security.sasl.mechanism",
        "input.format",
        "input.tombstones",
        "text.html",
        "text.normalize.unicode",
        "text.normalize.han",
        "text.normalize.digits",
        "text.normalize.urls",
        "text.segmenter",
        "match.simhash.weights",
        "match.simhash.hash",
        "match.same_id",
        "window.timestamp_source",
        "index.cold_start",
        "output.duplicate.value",
        "output.delivery",
        "output.partition",
        "output.timestamp",
        "output.compression",
        "processing.on_bad_record",
        "http.admin.text",
        "logging.level",
        "logging.format",
    ] {
        minimal.set(&format!("{key}=no_such_word"));
    }
    let refused = minimal.resolve(&ExternalInputs::default(), Purpose::Run).unwrap_err();
    assert_eq!(refused.problems.len(), 25, "{refused}");
    for problem in refused.problems {
        let (_, expected) = problem.message.split_once("expected ").unwrap();
        let words: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        assert!(!words.is_empty(), "{problem}");
        for word in words {
            assert!(text.contains(word), "{word} of {} is not in the sample", problem.path);
        }
    }
}
