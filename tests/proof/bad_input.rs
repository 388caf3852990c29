//! Input that no crawler should send: each record has the designed outcome, and the pages around it are judged as if it
//! did not exist.

use std::collections::BTreeMap;

use dupgate::record::{PartitionId, Source};
use dupgate::telemetry::catalog::{Kind, Spec, TABLE};
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::broker::{Broker, wait};
use crate::cluster::http::sum;
use crate::cluster::instance::Instance;
use crate::cluster::records::{Page, PageProducer, Record, TopicReader};
use crate::cluster::{Cluster, Shape};

/// 2100-01-01T00:00Z.
const YEAR_2100: i64 = 4_102_444_800_000;
/// A time of 2026 in nanoseconds, where milliseconds belong.
const NANOSECONDS: i64 = 1_788_220_800_000_000_000;

/// The expected outcome of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Judged, with this verdict.
    Judged(&'static str),
    /// A dead letter with this stage and reason.
    Dead(&'static str, &'static str),
    /// Unchanged in both outputs.
    Tombstone,
}
use Fate::{Dead, Judged, Tombstone};

/// A page whose address has no other text.
fn text(words: &str) -> Vec<u8> {
    let url = format!("https://bad.example/{:x}", xxh3_64_with_seed(words.as_bytes(), 0));
    json!({ "url": url, "text": words }).to_string().into_bytes()
}

/// A text that shares neither words nor letters with others.
fn words(family: &str) -> String {
    let letters = |word: u64| {
        let drawn = xxh3_64_with_seed(family.as_bytes(), word);
        (0..8).map(move |letter| char::from(b'a' + u8::try_from((drawn >> (8 * letter)) % 26).unwrap()))
    };
    (0..40).map(|word| letters(word).collect::<String>()).collect::<Vec<_>>().join(" ")
}

fn nested_json(levels: usize) -> Vec<u8> {
    let lists = ["[".repeat(levels), "]".repeat(levels)].concat();
    format!(r#"{{"text":"{}","links":{lists}}}"#, words(&format!("json{levels}"))).into_bytes()
}

fn nested_html(levels: usize) -> Vec<u8> {
    let words = words(&format!("html{levels}"));
    let html = [&"<div>".repeat(levels), "<p>", &words, "</p>", &"</div>".repeat(levels)].concat();
    json!({ "html": html }).to_string().into_bytes()
}

fn filler(bytes: usize) -> Vec<u8> {
    json!({ "text": words("large"), "filler": "x".repeat(bytes) }).to_string().into_bytes()
}

/// The largest of the records for `sieve` that are among [`hostile_records`]: a tenth of a crawl must not take most of
/// the work.
const SMALL: usize = 20_000;

/// The records that every output takes as they are, and that go to one of them; and the small ones that are for `sieve`.
pub(crate) fn hostile_records() -> Vec<Page> {
    let is_taken = |fate: &Fate, page: &Page| match fate {
        Judged(_) => true,
        Dead(stage, _) => *stage != "produce" && page.value.as_ref().is_none_or(|value| value.len() < 1_000_000),
        Tombstone => false,
    };
    let ours = records().into_iter().filter(|(_, page, fate)| is_taken(fate, page)).map(|(_, page, _)| page);
    let small = crate::hostile_records::all().into_iter().filter(|(_, value, _)| value.len() <= SMALL);
    let small = small.map(|(name, value, _)| Page { key: name.to_owned(), value: Some(value), ..Page::default() });
    ours.chain(small).collect()
}

fn cut(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 2].to_vec()
}

/// Every record, with its outcome if the outputs have the default limits of topics.
fn records() -> Vec<(&'static str, Page, Fate)> {
    let value = |bytes: Vec<u8>| Page { value: Some(bytes), ..Page::default() };
    let at = |timestamp: i64, family: &str| Page { timestamp: Some(timestamp), ..value(text(&words(family))) };
    let mut records = vec![
        ("invalid utf-8", value(b"{\"text\":\"caf\xe9 noir\"}".to_vec()), Dead("decode", "undecodable")),
        ("truncated json", value(cut(&text(&words("cut")))), Dead("decode", "undecodable")),
        ("no bytes at all", value(Vec::new()), Dead("decode", "undecodable")),
        ("json of 200 levels", value(nested_json(200)), Judged("unique")),
        ("json of 100,000 levels", value(nested_json(100_000)), Dead("decode", "too_deep")),
        ("html of 200 levels", value(nested_html(200)), Judged("unique")),
        ("html of 10,000 levels", value(nested_html(10_000)), Judged("unique")),
        ("10 MB", value(filler(10_000_000)), Dead("decode", "too_large")),
        ("more than an output takes", value(filler(2_000_000)), Dead("produce", "too_large_for_output")),
        ("neither text nor html", value(br#"{"url":"https://a.example/"}"#.to_vec()), Dead("decode", "missing_field")),
        ("null for a text", value(br#"{"text":null}"#.to_vec()), Dead("decode", "missing_field")),
        ("not an object", value(b"[1,2,3]".to_vec()), Dead("decode", "missing_field")),
        ("a number for a text", value(br#"{"text":42}"#.to_vec()), Dead("decode", "wrong_type")),
        ("a list of texts", value(br#"{"text":["a","b"]}"#.to_vec()), Judged("unique")),
        ("a list of other things", value(br#"{"text":["a",{}]}"#.to_vec()), Dead("decode", "wrong_type")),
        ("an object for an id", value(br#"{"url":{},"text":"a"}"#.to_vec()), Dead("decode", "wrong_type")),
        ("an empty text", value(text("")), Dead("extract", "no_text")),
        ("white space", value(text(" \n\t\u{3000}\u{feff}")), Dead("extract", "no_text")),
        // No feature at all: only the exact stage judges, and they differ.
        ("stop words", value(text("the of and to in")), Judged("unique")),
        ("other stop words", value(text("it is not that which")), Judged("unique")),
        ("the same stop words", value(text("the of and to in")), Judged("exact")),
        ("punctuation", value(text("!!! ??? ...")), Judged("unique")),
        ("other punctuation", value(text("--- *** ###")), Judged("unique")),
        ("null", Page::default(), Tombstone),
        ("1970", at(1, "early"), Judged("unique")),
        ("2100", at(YEAR_2100, "late"), Dead("produce", "timestamp_rejected")),
        ("nanoseconds", at(NANOSECONDS, "nano"), Dead("produce", "timestamp_rejected")),
    ];
    for (name, page, _) in &mut records {
        (*name).clone_into(&mut page.key);
        page.headers = vec![("trace".to_owned(), Some(name.as_bytes().to_vec()))];
    }
    records
}

/// A recent page, equal to its namesakes and unlike all others.
fn good(number: usize, copy: &str) -> Page {
    let value = json!({ "url": format!("https://{copy}.example/{number}"), "text": words(&format!("good{number}")) });
    Page { key: format!("{copy} {number}"), value: Some(value.to_string().into_bytes()), ..Page::default() }
}

/// All outcomes, by key: kind of output and record.
fn ended(cluster: &Cluster<'_>) -> BTreeMap<String, Vec<(&'static str, Record)>> {
    let mut ended: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (output_kind, topic) in
        [("unique", cluster.unique()), ("duplicate", cluster.duplicate()), ("dead", cluster.dead())]
    {
        for record in TopicReader::open(cluster.broker(), &[topic]).read_to_end() {
            let key = String::from_utf8(record.key.clone().unwrap()).unwrap();
            ended.entry(key).or_default().push((output_kind, record));
        }
    }
    ended
}

fn shape<'s>(input: &'s [(&'s str, &'s str)], output: &'s [(&'s str, &'s str)]) -> Shape<'s> {
    // Half of this input is bad on purpose.
    let config = json!({ "processing": { "pause_above_dead_letter_ratio": 1.0 }, "index": { "snapshot": { "interval": "1s" } } });
    Shape { topics: 1, partitions: 1, input_settings: input, output_settings: output, config }
}

const ANY_SIZE: (&str, &str) = ("max.message.bytes", "20000000");
const ANY_TIME: (&str, &str) = ("message.timestamp.after.max.ms", "9223372036854775807");

/// Writes each record between a page and its copy, lets one instance process them, passes it to `look`, and returns the
/// outcomes.
fn run<'b>(
    broker: &'b Broker,
    shape: Shape<'b>,
    records: &[(&'static str, Page, Fate)],
    look: impl FnOnce(&Instance),
) -> (Cluster<'b>, usize) {
    let cluster = Cluster::new(broker, shape);
    let producer = PageProducer::new(broker);
    let topic = &cluster.inputs()[0];
    for (number, (_, page, _)) in records.iter().enumerate() {
        producer.write(topic, 0, &good(number, "first"));
        producer.write(topic, 0, page);
        producer.write(topic, 0, &good(number, "copy"));
        producer.flush();
    }
    let twice = records.iter().filter(|(_, _, fate)| *fate == Tombstone).count();
    let mut out = TopicReader::open(broker, &[cluster.unique(), cluster.duplicate(), cluster.dead()]);
    let instance = cluster.start("one");
    out.wait_for(records.len() * 3 + twice);
    numbers_add_up(&cluster, &instance, records.len() * 3);
    look(&instance);
    instance.stop();
    assert_eq!(cluster.lag(), 0);
    (cluster, records.len())
}

/// Checks that every committed position of the input counts once, as a document or a dead letter.
fn numbers_add_up(cluster: &Cluster<'_>, instance: &Instance, read: usize) {
    wait::until("the whole input to be committed", || (cluster.lag() == 0).then_some(()));
    let ended = || {
        let judged = instance.metric("dupgate_documents_total", &[]);
        judged + instance.metric("dupgate_dead_letters_total", &[])
    };
    let read = f64::from(u32::try_from(read).unwrap());
    wait::until("documents and dead letters to add up to the records read", || {
        let ended = ended();
        assert!(ended <= read, "{ended} ends of {read} records");
        (ended >= read).then_some(())
    });
}

/// Metrics that a single instance with healthy brokers does not set.
const QUIET: [&str; 25] = [
    "dupgate_clamped_timestamps_total",
    "dupgate_errors_total",
    "dupgate_index_evictions_total",
    // Set with dozens of pages of one template or site.
    "dupgate_index_family_members_total",
    "dupgate_index_full_keys_total",
    "dupgate_index_members_left_out_total",
    "dupgate_index_late_records_total",
    // Set when the verdict log does not go on as the judge's index did.
    "dupgate_index_restores_total",
    // Set when the logs are trimmed ("restore").
    "dupgate_last_trim_timestamp_seconds",
    "dupgate_repeated_requests_total",
    // Set by replays.
    "dupgate_replay_progress_ratio",
    "dupgate_replay_records_total",
    "dupgate_replay_remaining_records",
    "dupgate_replay_yielding",
    // Set where the input has a Schema Registry.
    "dupgate_schema_registry_failures_total",
    "dupgate_schemas_awaited",
    // No judge writes one.
    "dupgate_second_verdicts_total",
    "dupgate_match_hamming_distance",
    "dupgate_match_similarity_ratio",
    "dupgate_match_containment_ratio",
    "dupgate_produce_failures_total",
    "dupgate_rebalance_pause_seconds",
    "dupgate_restored_entries_total",
    "dupgate_snapshot_failures_total",
    // Counts whole seconds: another test runs that long.
    "dupgate_text_thread_busy_seconds_total",
];

/// Metrics of the table that have never been set: counters and histograms at 0, gauges without a series.
fn unfed(instance: &Instance) -> Vec<&'static str> {
    let metrics = instance.metrics();
    let fed = |spec: &Spec| {
        let counted = |suffix: &str| sum(&metrics, &format!("{}{suffix}", spec.name), &[]);
        match spec.kind {
            Kind::Counter => counted("").is_some_and(|total| total > 0.0),
            Kind::Gauge => counted("").is_some(),
            Kind::Histogram(_) => counted("_count").is_some_and(|total| total > 0.0),
        }
    };
    TABLE.iter().filter(|spec| !fed(spec)).map(|spec| spec.name).filter(|name| !QUIET.contains(name)).collect()
}

fn every_metric_is_fed(instance: &Instance) {
    // A snapshot is cut every second, lags are queried every ten.
    let mut missing = Vec::new();
    wait::until("every metric to be set", || {
        let now = unfed(instance);
        if now != missing {
            eprintln!("not set yet: {now:?}");
            missing = now;
        }
        missing.is_empty().then_some(())
    });
    for step in ["decode", "extract", "tokenize", "fingerprint", "lookup", "produce"] {
        let took = instance.metric("dupgate_stage_duration_seconds_count", &[&format!("stage=\"{step}\"")]);
        assert!(took > 0.0, "no page went through {step}");
    }
}

fn pages_around_are_judged(cluster: &Cluster<'_>, ended: &BTreeMap<String, Vec<(&'static str, Record)>>, count: usize) {
    let partition = PartitionId::new(cluster.inputs()[0].as_str(), 0);
    for number in 0..count {
        let first: Source = partition.at(i64::try_from(number * 3).unwrap());
        let [(output_kind, record)] = ended[&format!("first {number}")].as_slice() else {
            panic!("page {number}: not once")
        };
        assert_eq!((*output_kind, record.header("dupgate.verdict")), ("unique", Some("unique")), "page {number}");
        let [(output_kind, record)] = ended[&format!("copy {number}")].as_slice() else {
            panic!("copy {number}: not once")
        };
        assert_eq!((*output_kind, record.header("dupgate.verdict")), ("duplicate", Some("exact")), "copy {number}");
        assert_eq!(record.header("dupgate.match"), Some(first.to_string().as_str()), "copy {number}");
    }
}

#[test]
fn bad_records_end_as_designed_and_do_not_affect_their_neighbours() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let records = records();
    let (cluster, count) = run(broker, shape(&[ANY_SIZE, ANY_TIME], &[]), &records, every_metric_is_fed);
    let ended = ended(&cluster);
    pages_around_are_judged(&cluster, &ended, count);
    for (number, (name, page, fate)) in records.iter().enumerate() {
        let offset = (number * 3 + 1).to_string();
        let found = &ended[*name];
        let output_kinds: Vec<&str> = found.iter().map(|(output_kind, _)| *output_kind).collect();
        let (_, record) = &found[0];
        let trace = record.headers.iter().find(|(name, _)| name == "trace");
        assert_eq!(trace.and_then(|(_, value)| value.as_deref()), Some(name.as_bytes()), "{name}: a foreign header");
        match *fate {
            Judged(verdict) => {
                let output_kind = if verdict == "unique" { "unique" } else { "duplicate" };
                assert_eq!(
                    (output_kinds.as_slice(), record.header("dupgate.verdict")),
                    ([output_kind].as_slice(), Some(verdict)),
                    "{name}"
                );
                assert_eq!(record.value, page.value, "{name}");
            }
            Dead(stage, reason) => {
                assert_eq!(output_kinds, ["dead"], "{name}");
                assert_eq!(record.header("dupgate.error.reason"), Some(reason), "{name}");
                assert_eq!(record.header("dupgate.error.stage"), Some(stage), "{name}");
                assert_eq!(record.header("dupgate.error.offset"), Some(offset.as_str()), "{name}");
                assert!(record.header("dupgate.error.message").is_some_and(|message| !message.is_empty()), "{name}");
                // As many bytes as fit.
                let (kept, whole) = (record.value.as_deref().unwrap(), page.value.as_deref().unwrap());
                assert!(whole.starts_with(kept), "{name}: other bytes");
                assert!(kept.len() >= whole.len().min(900_000), "{name}: {} of {} bytes", kept.len(), whole.len());
            }
            Tombstone => {
                assert_eq!(output_kinds, ["unique", "duplicate"], "{name}");
                for (_, record) in found {
                    assert_eq!((&record.value, &record.headers), (&None, &page.headers), "{name}");
                }
            }
        }
    }
}

#[test]
fn absurd_timestamps_pass_if_the_outputs_accept_them_and_expire_nothing() {
    let _turn = crate::quarter_turn();
    let Some(broker) = Broker::shared() else { return };
    let mut records = records();
    records.retain(|(name, ..)| ["1970", "2100", "nanoseconds"].contains(name));
    let (cluster, count) = run(broker, shape(&[ANY_TIME], &[ANY_TIME]), &records, |_| {});
    let ended = ended(&cluster);
    pages_around_are_judged(&cluster, &ended, count);
    for (name, page, _) in &records {
        let [(output_kind, record)] = ended[*name].as_slice() else { panic!("{name}: not once") };
        assert_eq!((*output_kind, record.header("dupgate.verdict")), ("unique", Some("unique")), "{name}");
        assert_eq!(record.timestamp, page.timestamp, "{name}");
    }
}
