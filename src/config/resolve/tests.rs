use std::time::Duration;

use serde_json::json;

use super::super::settings::ShownText;
use super::super::{Layers, Settings, settings};
use super::*;
use crate::fingerprint::{LowConfidence, PerMille, Shingling, StopShingles};
use crate::protocol::{LogPartition, PerStage, Rules, Stage, VerdictOffset};
use crate::{fingerprint, record, text};

/// The minimal configuration of a service.
const MINIMAL: &str = "
kafka: {brokers: ['kafka:9092']}
input: {topics: [crawl.pages]}
output:
  unique: {topic: crawl.pages.unique}
  duplicate: {topic: crawl.pages.duplicate}
  dead_letter: {topic: crawl.pages.dead}
";

const DEFAULT_LOW_CONFIDENCE: LowConfidence = LowConfidence {
    below: PerMille(460),
    below_short: PerMille(330),
    short: 200,
    containment: PerMille(800),
    max_distance: 14,
    of_many: true,
};

fn resolved(sets: &[&str]) -> Result<(Settings, Vec<Problem>), Refused> {
    let mut layers = Layers::default();
    layers.file("f.yaml", MINIMAL);
    for set in sets {
        layers.set(set);
    }
    layers.resolve(&ExternalInputs::default(), Purpose::Run)
}

fn settings(sets: &[&str]) -> Settings {
    resolved(sets).unwrap_or_else(|refused| panic!("{sets:?}: {refused}")).0
}

/// Asserts that these assignments are refused with exactly one problem at `path`, whose message contains `why`.
#[track_caller]
fn refused(sets: &[&str], path: &str, why: &str) {
    let refused = resolved(sets).expect_err("must be refused");
    let [problem] = refused.problems.as_slice() else { panic!("one problem expected: {refused}") };
    assert_eq!(problem.path, path, "{problem}");
    assert!(problem.message.contains(why), "{problem}");
}

#[test]
fn a_minimal_file_resolves_to_the_defaults_of_every_module() {
    let settings = settings(&[]);
    assert_eq!(settings.record, record::InputSettings::default());
    assert_eq!(settings.text, text::Settings::default());
    assert_eq!(settings.fingerprint, fingerprint::Settings::default());
    assert_eq!(settings.rules, Rules { max_entries: settings.rules.max_entries, ..Rules::default() });
    assert_eq!(settings.rules.windows, PerStage::all(Duration::from_hours(72)));
    assert_eq!(settings.rules.max_entries, (4 << 30) / (BYTES_PER_ORIGINAL + 130 + 42 * 7));
    assert_eq!(settings.index.max_memory, 4 << 30);
    assert_eq!(settings.logs.retention, Duration::from_hours(78));
    assert_eq!(settings.logs.prefix, "dupgate");
    assert_eq!(settings.judge.served_partitions, [0]);
    assert_eq!(settings.processing.pause_above_dead_letters, PerMille(500));
    assert_eq!(settings.processing.threads, None);
    assert_eq!(settings.output.dead_letter.as_deref(), Some("crawl.pages.dead"));
    assert_eq!(settings.http.listen.port(), 9464);
}

#[test]
fn missing_brokers_and_topics_are_reported_all_at_once() {
    let refused = Layers::default().resolve(&ExternalInputs::default(), Purpose::Run).unwrap_err();
    let paths: Vec<_> = refused.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        ["kafka.brokers", "input.topics", "output.unique.topic", "output.duplicate.topic", "output.dead_letter.topic"]
    );
    assert!(Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve).is_ok(), "a sieve needs no broker");
}

#[test]
fn outputs_are_needed_only_where_the_mode_writes() {
    let mut layers = Layers::default();
    layers.file("f.yaml", "{mode: observe, kafka: {brokers: ['k:1']}, input: {topics: [a]}}");
    let output = layers.resolve(&ExternalInputs::default(), Purpose::Run).unwrap().0.output;
    assert_eq!((output.unique, output.duplicate, output.dead_letter), (None, None, None));
    let output = settings(&["mode=tag", "output.duplicate.topic=null"]).output;
    assert_eq!((output.unique.is_some(), output.duplicate), (true, None));
    let output = settings(&["processing.on_bad_record=skip", "output.dead_letter.topic=null"]).output;
    assert_eq!(output.dead_letter, None);
    refused(&["output.dead_letter.topic=null"], "output.dead_letter.topic", "on_bad_record is dead_letter");
}

#[test]
fn limits_are_inclusive_as_documented() {
    assert_eq!(settings(&["match.simhash.max_distance=8"]).rules.max_distance, 8);
    refused(&["match.simhash.max_distance=9"], "match.simhash.max_distance", "9 is above the limit of 8");
    assert_eq!(settings(&["match.simhash.max_distance=0"]).rules.max_distance, 0);
    settings(&["window.size=1ms"]);
    refused(&["window.size=0s"], "window.size", "0s remembers nothing");
    settings(&["window.size=3650d"]);
    for key in ["window.size", "window.stages.exact", "window.allowed_lateness"] {
        refused(&[&format!("{key}=99999999999d")], key, "99999999999d is above the limit of 3650d");
    }
    settings(&["index.snapshot.interval=1s"]);
    refused(&["index.snapshot.interval=999ms"], "index.snapshot.interval", "999ms is below the limit of 1s");
    settings(&["processing.max_in_flight_bytes=8MiB"]);
    refused(
        &["processing.max_in_flight_bytes=8388607"],
        "processing.max_in_flight_bytes",
        "8388607B is below input.max_document, 8MiB",
    );
    assert_eq!(settings(&["logs.retention=78h"]).logs.retention, Duration::from_hours(78));
    refused(&["logs.retention=77h"], "logs.retention", "is below window and lateness together");
    refused(
        &["logs.retention=78h", "window.stages.minhash=96h"],
        "logs.retention",
        "is below window and lateness together",
    );
    assert_eq!(
        settings(&["processing.pause_above_dead_letter_ratio=1"]).processing.pause_above_dead_letters,
        PerMille::ONE
    );
    refused(
        &["processing.pause_above_dead_letter_ratio=0"],
        "processing.pause_above_dead_letter_ratio",
        "0 is not one of",
    );
    refused(
        &["processing.pause_above_dead_letter_ratio=1.01"],
        "processing.pause_above_dead_letter_ratio",
        "1.01 is not one of",
    );
    refused(&["processing.shutdown_grace=0s"], "processing.shutdown_grace", "below the limit of 1ms");
    refused(&["output.commit_interval=0s"], "output.commit_interval", "below the limit of 1ms");
    refused(&["judge.commit_interval=0s"], "judge.commit_interval", "below the limit of 1ms");
    refused(&["judge.checkpoint_interval_records=0"], "judge.checkpoint_interval_records", "below the limit of 1");
    refused(&["judge.session_timeout=999ms"], "judge.session_timeout", "999ms is below the limit of 1s");
    refused(&["judge.session_timeout=301s"], "judge.session_timeout", "is above the limit of 5m");
    refused(&["text.min_features=0"], "text.min_features", "below the limit of 1");
    refused(&["text.max_bytes=0"], "text.max_bytes", "below the limit of 1B");
    refused(&["index.snapshot.keep=0"], "index.snapshot.keep", "below the limit of 1");
    refused(&["logs.replication_factor=0"], "logs.replication_factor", "below the limit of 1");
    refused(&["match.simhash.bits=96"], "match.simhash.bits", "96 bits are not supported (32, 64 and 128 are)");
    refused(
        &["match.simhash.bits=128", "match.simhash.hash=jenkins"],
        "match.simhash.hash",
        "jenkins has 64 bits, too few for match.simhash.bits, 128: take xxh3 or md5, or fewer bits",
    );
    refused(&["match.simhash.bits=128", "match.simhash.max_distance=9"], "match.simhash.max_distance", "limit of 8");
    refused(&["version=2"], "version", "2 is not a known layout");
    refused(&["roles=[]"], "roles", "without a role");
    refused(&["http.listen=9464"], "http.listen", "`9464` is not an address with a port");
}

#[test]
fn a_simhash_has_32_64_or_128_bits() {
    for (bits, hash) in [(32, "jenkins"), (64, "jenkins"), (64, "md5"), (128, "md5"), (128, "xxh3")] {
        let made = settings(&[&format!("match.simhash.bits={bits}"), &format!("match.simhash.hash={hash}")]);
        let simhash = made.fingerprint.simhash.clone();
        assert_eq!((simhash.bits.bits(), simhash.hash.name()), (bits, hash));
        assert!(made.scheme().to_string().starts_with(&format!("sh{bits}-")));
    }
    let entries = |bits: &str| settings(&[bits, "index.max_memory=4GiB"]).rules.max_entries;
    assert_eq!(entries("match.simhash.bits=32"), entries("match.simhash.bits=64"));
    assert!(entries("match.simhash.bits=128") < entries("match.simhash.bits=64"));
}

#[test]
fn codes_that_unrelated_pages_share_cause_a_warning() {
    let warned = |given: &[&str]| {
        let (_, warnings) = resolved(given).unwrap();
        let warning = warnings.into_iter().find(|warning| warning.path == "match.simhash.bits");
        warning.map(|warning| warning.message)
    };
    let narrow = warned(&["match.simhash.bits=32", "index.max_entries=1000000"]).unwrap();
    assert!(
        narrow.starts_with("of 1000000 originals about 1.278 are within 3 of 32 bits of any page by chance"),
        "{narrow}"
    );
    assert_eq!(warned(&["match.simhash.bits=32", "index.max_entries=1000"]), None);
    assert_eq!(warned(&["match.simhash.bits=32", "match.stages=exact"]), None, "nothing compares them");
    assert_eq!(warned(&["match.simhash.bits=32", "roles=worker"]), None, "nor does a worker");
    for given in [&[][..], &["match.simhash.bits=128", "match.simhash.max_distance=8"]] {
        assert_eq!(warned(given), None);
    }
}

#[test]
fn stages_and_their_windows_fit_together() {
    let rules = settings(&["match.stages=exact", "window.stages.exact=30d"]).rules;
    assert_eq!(rules.stages, [Stage::Exact]);
    assert_eq!(rules.windows.exact, Duration::from_hours(720));
    assert_eq!(settings(&["match.stages=minhash,simhash,exact"]).rules.stages, Stage::ALL, "strongest first");
    refused(&["match.stages=[]"], "match.stages", "nothing ever matches");
    refused(&["match.stages=exact,exact"], "match.stages", "twice");
    refused(&["match.stages=exact", "window.stages.simhash=1h"], "window.stages.simhash", "not in match.stages");
    refused(&["window.stages.exact=0s"], "window.stages.exact", "0s remembers nothing");
    assert_eq!(settings(&["window.stages.exact=30d"]).logs.retention, Duration::from_hours(726), "the longest counts");
    assert_eq!(settings(&["match.number_overlap=0.25"]).rules.number_guard, Some(PerMille(250)));
    assert_eq!(settings(&["match.number_guard=false"]).rules.number_guard, None);
    assert_eq!(settings(&["match.same_id=duplicate"]).rules.same_id, crate::protocol::SameId::Duplicate);
}

#[test]
fn similarity_that_nothing_compares_causes_a_warning() {
    let path = "match.simhash.min_similarity";
    let is_warned = |given: &[&str]| resolved(given).unwrap().1.iter().any(|warning| warning.path == path);
    assert!(is_warned(&["match.stages=[exact,simhash]"]));
    assert!(!is_warned(&["match.stages=[exact,simhash]", "match.simhash.min_similarity=null"]), "meant so");
    assert!(!is_warned(&["match.stages=[simhash,minhash]"]));
    assert!(!is_warned(&["match.stages=exact"]), "nothing compares codes either");
}

#[test]
fn sketches_and_their_bands_fit_together() {
    let made = settings(&[]);
    let form = made.fingerprint.minhash.form.unwrap();
    assert_eq!((form.slots(), form.bits().count()), (128, 8));
    assert_eq!(made.fingerprint, crate::fingerprint::Settings::default());
    assert_eq!(made.rules.minhash.map(|minhash| minhash.form), Some(form));
    assert_eq!(settings(&["match.minhash.min_similarity=0.25"]).rules.minhash.unwrap().min_similarity, PerMille(250));
    let without = settings(&["match.minhash.permutations=0", "match.stages=exact"]);
    assert_eq!((without.fingerprint.minhash.form, without.rules.minhash), (None, None));
    assert_eq!(settings(&["match.stages=exact"]).fingerprint, made.fingerprint, "stages are no part of the scheme");
    refused(&["match.minhash.permutations=0"], "match.minhash.permutations", "nothing to compare");
    refused(&["match.minhash.permutations=256"], "match.minhash.permutations", "expected 16 to 255");
    refused(
        &["match.minhash.bits_per_slot=16"],
        "match.minhash.bits_per_slot",
        "16 bits are not supported (4 and 8 are)",
    );
    refused(&["match.simhash.weights=uniform"], "match.simhash.weights", "expected `tf-idf` or `tf`");
    refused(&["match.minhash.bits_per_slot=5"], "match.minhash.bits_per_slot", "4 and 8");
    refused(&["match.minhash.bands=43"], "match.minhash.bands", "43 bands of 3 rows need 129 slots");
    refused(&["match.minhash.rows=0"], "match.minhash.bands", "at least 1 of each");
    refused(&["match.minhash.min_shared_bands=0"], "match.minhash.min_shared_bands", "expected 1 to 42");
    refused(&["match.minhash.min_similarity=1.5"], "match.minhash.min_similarity", "expected 0 to 1");
    refused(&["match.number_overlap=-0.1"], "match.number_overlap", "expected 0 to 1");
    refused(&["match.minhash.min_shingles=0"], "match.minhash.min_shingles", "below the limit of 1");
    assert_eq!(form, form.with_count(), "sketches carry what containment needs, even if it is not configured");
    let contained = settings(&["match.minhash.containment=0.75"]);
    assert_eq!(contained.rules.minhash.unwrap().containment, Some(PerMille(750)));
    assert_eq!(contained.fingerprint, made.fingerprint, "containment is no part of the scheme");
    assert_eq!(made.rules.minhash.unwrap().low_confidence, DEFAULT_LOW_CONFIDENCE);
    let lenient = settings(&["match.minhash.low_confidence={below: 0, containment: 0.5}"]);
    assert_eq!(
        lenient.rules.minhash.unwrap().low_confidence,
        LowConfidence { below: PerMille(0), containment: PerMille(500), ..DEFAULT_LOW_CONFIDENCE }
    );
    assert_eq!(lenient.fingerprint, made.fingerprint, "nor is low_confidence");
    refused(&["match.minhash.low_confidence.below=35"], "match.minhash.low_confidence.below", "expected 0 to 1");
    refused(
        &["match.minhash.low_confidence.containment=-1"],
        "match.minhash.low_confidence.containment",
        "expected 0 to 1",
    );
    assert_eq!(made.rules.minhash.unwrap().containment, None, "off by default");
    refused(&["match.minhash.containment=75"], "match.minhash.containment", "expected 0 to 1");
    let small = ["match.minhash.containment=0.75", "match.minhash.bits_per_slot=4"];
    refused(&small, "match.minhash.containment", "slots of 4 bits agree too often");
    let by_bottom = settings(&["match.minhash.bottom_k=64"]);
    assert_eq!(by_bottom.fingerprint.minhash.form, form.with_bottom(64).ok());
    assert_eq!(by_bottom.rules.minhash.map(|minhash| minhash.form), form.with_bottom(64).ok());
    refused(&["match.minhash.bottom_k=15"], "match.minhash.bottom_k", "expected 16 to 255");
    refused(&["match.minhash.bottom_k=256"], "match.minhash.bottom_k", "expected 16 to 255");
    refused(&["match.minhash.shingle.han=0"], "match.minhash.shingle.han", "expected 1 to 64");
    let cut = |sets: &[&str]| settings(sets).fingerprint.minhash.shingle;
    let words = ["match.minhash.shingle.unit=words", "match.minhash.shingle.han=3", "match.minhash.shingle.other=5"];
    assert_eq!(cut(&words), crate::fingerprint::Shingling::of_words(3, 5));
    let two = ["match.minhash.shingle.han=2", "match.minhash.shingle.other=2", "index.max_entries=100000"];
    assert_eq!(cut(&two), crate::fingerprint::Shingling::of_characters(2, 2));
    refused(
        &["match.minhash.shingle.unit=words", "match.minhash.shingle.other=65"],
        "match.minhash.shingle.other",
        "65 words",
    );
}

#[test]
fn a_list_of_stop_shingles_is_taken_by_its_contents() {
    let resolved = |contents: &str, length: &str| {
        let mut layers = Layers::default();
        layers.set("match.minhash.stop_shingles=/stop");
        layers.set(length);
        let given =
            ExternalInputs { words: [("/stop".into(), contents.to_owned())].into(), ..ExternalInputs::default() };
        layers.resolve(&given, Purpose::Sieve).map(|(settings, _)| settings.fingerprint.minhash.stop)
    };
    let length = "match.minhash.shingle.han=2";
    let list = "# stop-shingles 1\n首页\n";
    let shingling = Shingling::of_characters(2, fingerprint::MinHashSettings::default().shingle.lengths.other);
    assert_eq!(resolved(list, length).unwrap(), StopShingles::parse(list, shingling).unwrap());
    for (contents, why) in
        [("", "line 1 is ``"), ("首页\n", "expected a file that"), ("# stop-shingles 1\n首\n", "line 2")]
    {
        let refused = resolved(contents, length).unwrap_err().problems;
        let messages: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert!(
            messages.len() == 1 && messages[0].contains("/stop: line ") && messages[0].contains(why),
            "{messages:?}"
        );
    }
    let refused = resolved("# stop-shingles 1\n首页\n", "match.minhash.shingle.han=3").unwrap_err().problems;
    assert!(refused[0].to_string().contains("match.minhash.stop_shingles"), "{refused:?}");
}

#[test]
fn one_limit_bounds_the_index() {
    let settings_of = |sets: &[&str]| {
        let settings = settings(sets);
        (settings.rules.max_entries, settings.index.max_memory)
    };
    assert_eq!(settings_of(&["index.max_memory=6400B"]), (10, 6400));
    assert_eq!(settings_of(&["index.max_entries=10"]), (10, 6400));
    assert_eq!(
        settings_of(&["index.max_entries=10", "match.minhash.permutations=0", "match.stages=exact"]),
        (10, 2160)
    );
    refused(&["index.max_memory=1GiB", "index.max_entries=5"], "index.max_entries", "use only one");
    refused(&["index.max_memory=215B"], "index.max_memory", "hold no original");
    refused(&["index.max_entries=0"], "index.max_entries", "below the limit of 1");
}

#[test]
fn the_limit_of_the_index_is_shared_by_the_partitions_that_an_instance_serves() {
    let settings_of = |sets: &[&str]| {
        let settings = settings(&[&["input.fields.scope=/site", "judge.partitions=4"], sets].concat());
        (settings.rules.max_entries, settings.index.max_memory)
    };
    assert_eq!(settings_of(&["index.max_memory=6400B"]), (2, 6400), "ten originals in four indexes");
    assert_eq!(settings_of(&["index.max_entries=10"]), (2, 6400));
    assert_eq!(settings_of(&["index.max_memory=6400B", "judge.served_partitions=1,3"]), (5, 6400));
    assert_eq!(settings_of(&["index.max_memory=6400B", "judge.served_partitions=2"]), (10, 6400));
    let two_of_four = settings(&[
        "input.fields.scope=/site",
        "judge.partitions=4",
        "index.max_memory=6400B",
        "judge.served_partitions=1,3",
    ]);
    assert_eq!((two_of_four.rules_of_one_index().max_entries, two_of_four.memory_of_all_indexes()), (10, 12_800));
    let four = ["input.fields.scope=/site", "judge.partitions=4"];
    refused(
        &[&four[..], &["index.max_memory=2559B"]].concat(),
        "index.max_memory",
        "639 bytes of each of 4 partitions",
    );
    refused(&[&four[..], &["index.max_entries=3"]].concat(), "index.max_entries", "3 is below the limit of 4");
}

#[test]
fn several_judges_need_a_scope() {
    refused(&["judge.partitions=2"], "input.fields.scope", "judge.partitions is 2");
    let scope = "input.fields.scope=/site";
    assert_eq!(settings(&[scope, "judge.partitions=3"]).judge.served_partitions, [0, 1, 2]);
    assert_eq!(settings(&[scope, "judge.partitions=3", "judge.served_partitions=2,0"]).judge.served_partitions, [0, 2]);
    refused(
        &[scope, "judge.partitions=3", "judge.served_partitions=3"],
        "judge.served_partitions",
        "partition 3 is not below",
    );
    refused(&["judge.served_partitions=0,0"], "judge.served_partitions", "twice");
    refused(&["judge.served_partitions=[]"], "judge.served_partitions", "lists no partition");
    refused(&["judge.partitions=0"], "judge.partitions", "0 is not within 1 to 1024");
    refused(&[scope, "judge.partitions=1025"], "judge.partitions", "1025 is not within");
}

#[test]
fn topics_are_names_or_one_pattern() {
    assert_eq!(settings(&["input.topics=a,b"]).input.topics, settings::Topics::Names(vec!["a".into(), "b".into()]));
    let pattern = r"^raw\..*$";
    let assignment = format!("input.topics={pattern}");
    assert_eq!(settings(&[&assignment]).input.topics, settings::Topics::Pattern(pattern.into()));
    refused(&["input.topics=^a,b"], "input.topics", "must be the only entry");
    refused(&["input.topics=a,a"], "input.topics", "named twice");
    refused(&["input.topics=a b"], "input.topics", "`a b` is not a valid name");
    refused(&["input.topics=^a("], "input.topics", "is not a pattern");
    refused(&[r"input.topics=^raw\.\d+$"], "input.topics", r"has `\d`, which matches no topic");
    refused(&["input.topics=^(?i)raw"], "input.topics", "has `(?`, which matches no topic");
    let escaped = r"^raw\(?\\\.[0-9]$";
    let assignment = format!("input.topics={escaped}");
    assert_eq!(settings(&[&assignment]).input.topics, settings::Topics::Pattern(escaped.into()));
    let long = format!("input.topics={}", "a".repeat(250));
    refused(&[&long], "input.topics", "a name of 250 bytes is above the limit of 249");
    refused(&["input.group="], "input.group", "is not a valid name");
    refused(&["input.instance_id=a/b"], "input.instance_id", "is not a valid name");
    refused(&["logs.prefix=a/b"], "logs.prefix", "is not a valid name");
}

#[test]
fn observe_mode_has_separate_group_and_logs() {
    for prefix in ["logs.prefix=null", "logs.prefix=crawl"] {
        let names = |mode: &str| {
            let settings = settings(&[prefix, mode]);
            (settings.input.group, settings.logs.prefix, settings.index.path)
        };
        let (route, observe) = (names("mode=route"), names("mode=observe"));
        assert_eq!(names("mode=tag"), route, "what was tagged was delivered as unique");
        assert_ne!(observe.0, route.0);
        assert_ne!(observe.1, route.1);
        assert_ne!(observe.2, route.2);
    }
    assert_eq!(settings(&["mode=observe"]).input.group, "dupgate.observe");
    assert_eq!(dupgate_core::worker::Mode::Observe.own_name("a"), "a.observe");
    // A name that the other mode would derive.
    refused(&["input.group=a.observe"], "input.group", "is added to it by `mode: observe`");
    refused(&["logs.prefix=a.observe"], "logs.prefix", "is added to it by `mode: observe`");
    refused(&["mode=observe", "input.group=a.observe"], "input.group", "leave that part out");
    refused(
        &["mode=observe", "input.topics=^dupgate[.]observe[.]f.*"],
        "input.topics",
        "own log `dupgate.observe.finger",
    );
}

#[test]
fn pages_never_loop() {
    refused(&["output.unique.topic=crawl.pages"], "output.unique.topic", "is also an input topic");
    refused(&["input.topics=^crawl[.].*[.]unique"], "output.unique.topic", "is also an input topic");
    refused(&["output.duplicate.topic=crawl.pages.dead"], "output.dead_letter.topic", "used by another output");
    refused(&["input.topics=^dupgate[.]fing.*"], "input.topics", "the program's own log `dupgate.fingerprints.…`");
}

#[test]
fn fields_are_read_only_from_valid_places() {
    refused(&["input.fields.id=url"], "input.fields.id", "names no field");
    refused(&["input.fields.text=null", "input.fields.html=null"], "input.fields", "nothing to compare");
    settings(&["input.fields.text=null", "input.fields.html=null", "input.format=html"]);
    refused(&["window.timestamp_source=field"], "input.fields.fetched_at", "window.timestamp_source is field");
    let field = |name: &str, value: &str| format!("input.fields.{name}={value}");
    for (name, value, why) in [
        ("id", "{path: /url, encoding: base64}", "takes no encoding"),
        ("text", "{path: /text, zone: UTC}", "takes no zone"),
        ("fetched_at", "{path: /at, zone: Mars/Olympus}", "`Mars/Olympus` names no time zone"),
        ("html", "{path: /body, encoding: gzip}", "the first encoding is base64"),
        ("html", "{encoding: base64}", "has no path"),
    ] {
        refused(&[&field(name, value)], &format!("input.fields.{name}"), why);
    }
    refused(&["input.fields.html.encoding=bas64"], "input.fields.html.encoding", "did you mean `base64`?");
    refused(&["input.fields.html.pth=/body"], "input.fields.html.pth", "did you mean `path`?");
    let record = settings(&[
        "window.timestamp_source=field",
        "input.encoding=gzip",
        "input.fields.html={path: /body, encoding: [base64, gzip]}",
        "input.fields.text={path: header:body, encoding: gzip}",
        "input.fields.fetched_at.path=/at",
        "input.fields.fetched_at.zone=Europe/Berlin",
    ])
    .record;
    assert_eq!(record.encoding, [record::Coding::Gzip]);
    assert_eq!(record.fields.html_encoding, [record::Coding::Base64, record::Coding::Gzip]);
    assert_eq!(record.fields.text_encoding, [record::Coding::Gzip]);
    assert_eq!(record.fields.zone.as_ref().map(record::Zone::name), Some("Europe/Berlin"));
    assert_eq!(record.fields.fetched_at.map(|path| path.to_string()).as_deref(), Some("/at"));
    let record = settings(&["window.timestamp_source=field", "input.fields.fetched_at=/at"]).record;
    assert_eq!(record.event_time, record::EventTime::Field);
}

#[test]
fn a_record_of_the_verdict_log_to_pass_is_a_partition_and_an_offset() {
    assert_eq!(settings(&[]).kafka.skip_corrupt_verdict, None);
    let passed = settings(&["kafka.skip_corrupt_verdict=2:184211"]).kafka.skip_corrupt_verdict;
    assert_eq!(passed, Some((LogPartition(2), VerdictOffset(184_211))));
    for wrong in ["184211", "2:", ":5", "-1:5", "0:-5", "0:5:6"] {
        refused(&[&format!("kafka.skip_corrupt_verdict={wrong}")], "kafka.skip_corrupt_verdict", "as in 0:184211");
    }
}

#[test]
fn a_transaction_ends_before_the_session_of_its_owner() {
    let kafka = settings(&[]).kafka;
    assert_eq!(kafka.transaction_timeout, Duration::from_secs(10));
    assert_eq!(kafka.session_timeout, Duration::from_secs(30));
    settings(&["kafka.producer_properties.transaction.timeout.ms=29999"]);
    refused(
        &["kafka.producer_properties.transaction.timeout.ms=30000"],
        "kafka",
        "transaction.timeout.ms (30000) must be below session.timeout.ms (30000)",
    );
    refused(&["kafka.consumer_properties.session.timeout.ms=9000"], "kafka", "must be below session.timeout.ms (9000)");
    refused(&["kafka.properties.transaction.timeout.ms=soon"], "kafka", "transaction.timeout.ms is `soon`");
    refused(
        &["kafka.consumer_properties.max.poll.interval.ms=29999"],
        "kafka",
        "must not be above max.poll.interval.ms",
    );
    refused(&["output.commit_interval=10s"], "output.commit_interval", "10s must be below transaction.timeout.ms, 10s");
    refused(&["judge.commit_interval=11s"], "judge.commit_interval", "11s must be below");
}

#[test]
fn properties_of_the_program_are_refused_with_the_reason() {
    let path = "kafka.consumer_properties.enable.auto.commit";
    refused(&[&format!("{path}=true")], path, "belongs to the program: offsets are committed only");
    assert_eq!(settings(&["kafka.properties.socket.timeout.ms=5000"]).kafka.properties.len(), 1);
}

#[test]
fn brokers_and_identity_are_complete() {
    refused(&["kafka.brokers=kafka"], "kafka.brokers", "`kafka` is not a broker");
    let mut layers = Layers::default();
    layers.file("f.yaml", &MINIMAL.replace("['kafka:9092']", "17"));
    let refusal = layers.resolve(&ExternalInputs::default(), Purpose::Run).expect_err("must be refused");
    let [problem] = refusal.problems.as_slice() else { panic!("one problem expected: {refusal}") };
    assert_eq!(problem.path, "kafka.brokers", "{problem}");
    refused(&["kafka.brokers="], "kafka.brokers", "is empty: expected at least one host:port");
    refused(&["kafka.brokers=kafka:9092,"], "kafka.brokers", "names an empty broker: expected host:port");
    refused(&["kafka.brokers=kafka:0"], "kafka.brokers", "expected host:port");
    settings(&["kafka.brokers=[::1]:9092"]);
    refused(&["kafka.client_id="], "kafka.client_id", "must not be empty");
    let sasl = "kafka.security.protocol=sasl_ssl";
    let user = "kafka.security.sasl.username=crawler";
    refused(&[sasl, user], "kafka.security.sasl.password", "scram-sha-512 needs it");
    let (complete, warnings) = resolved(&[sasl, user, "kafka.security.sasl.password=hunter2"]).unwrap();
    assert!(matches!(complete.kafka.security.sasl, Some(settings::Sasl::Password { .. })));
    assert!(warnings.iter().any(|warning| warning.path == "kafka.security.sasl.password"), "{warnings:?}");
    let oauth = resolved(&[sasl, "kafka.security.sasl.mechanism=oauthbearer"]).unwrap_err();
    assert_eq!(oauth.problems.len(), 3, "{oauth}");
    refused(&["kafka.security.tls.cert_file=/c"], "kafka.security.tls", "go together");
    let (_, warnings) = resolved(&[user]).unwrap();
    assert!(warnings.iter().any(|warning| warning.path == "kafka.security.sasl"), "{warnings:?}");
}

#[test]
fn words_come_from_the_files_that_were_read() {
    let given = ExternalInputs {
        words: BTreeMap::from([("/d".into(), "词 3".into()), ("/s".into(), "the".into())]),
        ..ExternalInputs::default()
    };
    let mut layers = Layers::default();
    layers.set("text.jieba.user_dict=/d");
    layers.set("text.stopwords=zh,/s");
    let text = layers.clone().resolve(&given, Purpose::Sieve).unwrap().0.text;
    assert_eq!(text.jieba.user_dict.as_deref(), Some("词 3"));
    assert_eq!(text.stopwords, [text::StopWords::Zh, text::StopWords::List("the".into())]);
    let refused = layers.resolve(&ExternalInputs::default(), Purpose::Sieve).unwrap_err();
    assert_eq!(refused.problems.len(), 2, "{refused}");
}

#[test]
fn free_labels_do_not_hide_the_programs_own() {
    assert_eq!(
        settings(&["metrics.labels.env=prod"]).metrics.labels,
        BTreeMap::from([("env".to_owned(), "prod".to_owned())])
    );
    refused(&["metrics.labels.verdict=x"], "metrics.labels.verdict", "program's own");
    refused(&["metrics.labels.group=x"], "metrics.labels.group", "program's own");
    refused(&["metrics.labels.a-b=x"], "metrics.labels.a-b", "not a label name");
}

#[test]
fn a_password_is_never_shown_wherever_it_is() {
    let password = "hunter2swordfish";
    // Every slot, every way to give it, right and wrong places, resolved and refused.
    let mut texts: Vec<String> = Vec::new();
    for slot in SECRET_SLOTS {
        texts.push(format!("{slot}={password}"));
        texts.push(format!("{slot}=[{password}]"));
        texts.push(format!("{slot}={{fil: {password}}}"));
        texts.push(format!("{slot}={{file: [{password}]}}"));
        texts.push(format!("{slot}={{env: A, file: {password}}}"));
        let (section, _) = slot.rsplit_once('.').unwrap();
        texts.push(format!("{section}={password}"));
        texts.push(format!("{section}=[{password}]"));
    }
    for key in ["sasl.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "ssl.key.password"] {
        texts.push(format!("kafka.properties.{key}={password}"));
        texts.push(format!("kafka.properties.{key}=[{password}]"));
        texts.push(format!("kafka.producer_properties.{key}={password}"));
    }
    texts.push(format!("kafka.security.protocol={password}"));
    texts.push(format!("kafka.security.sasl.mechanism={password}"));
    texts.push(format!("kafka={password}"));
    // Three contexts: a complete one, one that lacks the user, one with a problem elsewhere.
    let complete =
        ["kafka.security.protocol=sasl_ssl", "kafka.security.sasl.username=u", "kafka.security.sasl.password=p"];
    let mut accepted = 0;
    for assignment in &texts {
        for surroundings in [&complete[..], &complete[..1], &["match.simhash.max_distance=99"]] {
            let shown = match resolved(&[surroundings, &[assignment]].concat()) {
                Ok((settings, warnings)) => {
                    accepted += 1;
                    format!("{settings:?} {settings:#?} {warnings:?}")
                }
                Err(refused) => format!("{refused:?} {refused}"),
            };
            assert!(!shown.contains("hunter2"), "{assignment}: {shown}");
        }
    }
    assert!(accepted >= SECRET_SLOTS.len() + 8, "settings were shown only {accepted} times");
    let raw: Raw = serde_json::from_value(json!({"kafka": {"security": {"sasl": {"password": password}}}})).unwrap();
    assert!(!format!("{raw:?}").contains(password));
    assert!(!serde_json::to_string(&raw).unwrap().contains(password));
}

#[test]
fn the_schema_registry_belongs_to_the_formats_that_need_it() {
    let refused = |settings: &[&str]| resolved(settings).unwrap_err().to_string();
    let (avro, url) = ("input.format=avro", "input.schema_registry.url=https://r.example:8081/api/");
    let settings = resolved(&[avro, url]).unwrap().0;
    assert_eq!(settings.input.schema_registry.unwrap().url, "https://r.example:8081/api");
    assert!(resolved(&["input.format=json_schema"]).is_ok(), "its schemas are not needed");
    for (settings, expected) in [
        (&[avro][..], "input.schema_registry.url: is missing: input.format avro reads values by their schemas"),
        (&[url], "input.schema_registry.url: has no effect: input.format json needs no schemas"),
        (&["input.schema_registry.ca_file=/ca"], "input.schema_registry.url: is missing"),
        (&[avro, "input.schema_registry.url=r.example:8081"], "is not the address of a registry"),
        (&[avro, "input.schema_registry.url=http://u:hunter2@r.example"], "without user and password"),
        (&[avro, url, "input.schema_registry.username=u"], "username and password go together"),
        (&[avro, url, "input.schema_registry.password=p"], "username and password go together"),
        (
            &[avro, url, "input.schema_registry.username=u", "input.schema_registry.token=t"],
            "input.schema_registry.token: is given beside username or password",
        ),
        (
            &[avro, "input.schema_registry.url=http://r.example", "input.schema_registry.ca_file=/ca"],
            "input.schema_registry.ca_file: has no effect: the url is not https",
        ),
        (&[avro, url, "input.schema_registry.timeout=0s"], "input.schema_registry.timeout"),
    ] {
        let message = refused(settings);
        assert!(message.contains(expected) && !message.contains("hunter2"), "{settings:?}: {message}");
    }
    let bytes = ["input.fields.html={path: /body, encoding: gzip}", avro, url];
    assert!(resolved(&bytes).is_ok(), "a field of bytes needs no base64");
    assert!(refused(&bytes[..1]).contains("a string in JSON holds no bytes"));
}

#[test]
fn an_empty_secret_is_refused_with_the_name_of_its_source() {
    let given = ExternalInputs {
        variables: BTreeMap::from([("EMPTY".to_owned(), String::new()), ("BLANK".to_owned(), " \n".to_owned())]),
        secrets: BTreeMap::from([("/run/secrets/empty".into(), SecretString::from(""))]),
        ..ExternalInputs::default()
    };
    for slot in SECRET_SLOTS {
        for (reference, source) in [
            ("{env: EMPTY}", "variable EMPTY is empty"),
            ("{env: BLANK}", "variable BLANK is empty"),
            ("{file: /run/secrets/empty}", "the file /run/secrets/empty is empty"),
        ] {
            let mut layers = Layers::default();
            layers.file("f.yaml", MINIMAL);
            layers.set(&format!("{slot}={reference}"));
            let refused = layers.resolve(&given, Purpose::Run).expect_err("must be refused");
            let of_slot: Vec<&Problem> = refused.problems.iter().filter(|problem| problem.path == slot).collect();
            let [problem] = of_slot.as_slice() else { panic!("one problem of {slot} expected: {refused}") };
            assert!(problem.message.starts_with(source), "{problem}");
        }
    }
    let mut layers = Layers::default();
    layers.file("f.yaml", &format!("{MINIMAL}match: {{seed: ''}}\n"));
    let refused = layers.resolve(&given, Purpose::Run).expect_err("must be refused");
    assert!(refused.problems.iter().any(|problem| problem.message.starts_with("is empty")), "{refused}");
}

#[test]
fn secrets_come_from_files_and_variables() {
    let given = ExternalInputs {
        variables: BTreeMap::from([("KAFKA_PASSWORD".to_owned(), "from-variable".to_owned())]),
        secrets: BTreeMap::from([("/run/secrets/kafka".into(), SecretString::from("from-file"))]),
        ..ExternalInputs::default()
    };
    for (reference, expected) in
        [("{env: KAFKA_PASSWORD}", "from-variable"), ("{file: /run/secrets/kafka}", "from-file")]
    {
        let mut layers = Layers::default();
        layers.file("f.yaml", MINIMAL);
        layers.set("kafka.security.protocol=sasl_ssl");
        layers.set("kafka.security.sasl.username=crawler");
        layers.set(&format!("kafka.security.sasl.password={reference}"));
        let (settings, warnings) = layers.resolve(&given, Purpose::Run).unwrap();
        let Some(settings::Sasl::Password { password, .. }) = settings.kafka.security.sasl else {
            panic!("no identity")
        };
        assert_eq!(secrecy::ExposeSecret::expose_secret(&password), expected);
        assert!(!warnings.iter().any(|warning| warning.path.ends_with("password")), "{warnings:?}");
    }
    refused(
        &["kafka.security.tls.key_password={env: NOT_THERE}"],
        "kafka.security.tls.key_password",
        "variable NOT_THERE is not set",
    );
}

#[test]
fn sieve_does_not_warn_about_brokers_and_groups() {
    let warned = |purpose: Purpose| {
        let mut layers = Layers::default();
        layers.file("f.yaml", MINIMAL);
        layers.set("kafka.security.sasl.password=hunter2");
        layers.set("kafka.security.tls.ca_file=/ca");
        let (_, warnings) = layers.resolve(&ExternalInputs::default(), purpose).unwrap();
        warnings.iter().map(|warning| warning.path.clone()).collect::<Vec<_>>()
    };
    let service = ["kafka.security.sasl.password", "kafka.security.tls", "kafka.security.sasl", "input.instance_id"];
    assert_eq!(warned(Purpose::Run), service);
    assert_eq!(warned(Purpose::Sieve), [""; 0]);
}

#[test]
fn only_a_judge_needs_an_instance_id() {
    let warned = |roles: &str| {
        let mut layers = Layers::default();
        layers.file("f.yaml", MINIMAL);
        layers.set(roles);
        let (_, warnings) = layers.resolve(&ExternalInputs::default(), Purpose::Run).unwrap();
        warnings.iter().any(|warning| warning.path == "input.instance_id")
    };
    assert!(warned("roles=worker,judge"));
    assert!(!warned("roles=worker"), "stateless workers need no stable name");
}

#[test]
fn bands_that_overload_the_judge_are_refused_with_a_remedy() {
    let dear = ["match.minhash.bands=64", "match.minhash.rows=2", "match.minhash.min_shared_bands=1"];
    refused(&dear, "match.minhash.bands", "64 bands of 2 rows, 1 to be shared, find about ");
    refused(
        &dear,
        "match.minhash.bands",
        "(limit 1 ms); more rows, a larger min_shared_bands, longer shingles or fewer index.max_entries",
    );
    // Each remedy works.
    for way_out in ["match.minhash.rows=8", "index.max_entries=10000"] {
        let bands = if way_out.contains("rows") { "match.minhash.bands=16" } else { "match.minhash.bands=64" };
        settings(&[&dear[..], &[way_out, bands]].concat());
    }
    settings(&[&dear[..], &["match.stages=exact"]].concat());
    settings(&[&dear[..], &["roles=worker"]].concat());
    // `sieve` has no such limit, and the other problems are reported together.
    let mut layers = Layers::default();
    dear.iter().for_each(|set| layers.set(set));
    assert!(layers.resolve(&ExternalInputs::default(), Purpose::Sieve).is_ok());
    let both = resolved(&[&dear[..], &["window.size=0s"]].concat()).unwrap_err();
    let paths: Vec<&str> = both.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths.len(), 2, "{both}");
    assert!(paths.contains(&"window.size") && paths.contains(&"match.minhash.bands"), "{both}");
}

#[test]
fn the_admin_listener_is_off_by_default_and_needs_a_token_when_reachable() {
    assert!(settings(&[]).http.admin.is_none());
    let own = settings(&["http.admin.listen=127.0.0.1:9465"]).http.admin.unwrap();
    assert!(own.token.is_none() && own.text == ShownText::Snippet);
    assert!(settings(&["http.admin.listen=[::1]:9465"]).http.admin.is_some());
    refused(&["http.admin.listen=0.0.0.0:9465"], "http.admin.token", "is missing: http.admin.listen (0.0.0.0:9465)");
    refused(&["http.admin.listen=10.0.0.1:9465"], "http.admin.token", "can be reached from other machines");
    let with = settings(&["http.admin.listen=0.0.0.0:9465", "http.admin.token=0123456789abcdef"]).http.admin.unwrap();
    assert_eq!(with.token.unwrap().expose_secret(), "0123456789abcdef");
    refused(&["http.admin.token=0123456789abcde"], "http.admin.token", "has 15 characters: expected at least 16");
    refused(&["http.admin.listen=9465"], "http.admin.listen", "`9465` is not an address with a port");
    refused(&["http.admin.listen=127.0.0.1:1", "http.listen=127.0.0.1:1"], "http.admin.listen", "is http.listen, too");
}

#[test]
fn spans_of_sampled_records_go_to_the_configured_collector() {
    assert!(settings(&[]).tracing.is_none());
    let tracing = settings(&["tracing.otlp_endpoint=http://otel:4318"]).tracing.unwrap();
    assert_eq!((tracing.endpoint.to_string().as_str(), tracing.sample_ratio), ("http://otel:4318/v1/traces", 0.001));
    refused(&["tracing.otlp_endpoint=grpc://otel"], "tracing.otlp_endpoint", "expected http://host:port or https://");
    for ratio in ["0", "1.1", "-1"] {
        refused(&[&format!("tracing.sample_ratio={ratio}")], "tracing.sample_ratio", "is not above 0 and at most 1");
    }
}

#[test]
fn the_settings_before_a_change_of_the_scheme_are_those_with_the_values_of_previous() {
    let now = settings(&["match.simhash.bits=128", "previous.match.simhash.bits=64", "window.size=24h"]);
    let before = now.previous.as_ref().expect("there are settings before");
    assert_eq!(before.scheme(), settings(&[]).scheme());
    assert_ne!(before.scheme(), now.scheme());
    assert_eq!((before.rules.windows, &before.kafka.brokers), (now.rules.windows, &now.kafka.brokers));
    assert!(before.previous.is_none() && settings(&[]).previous.is_none());
    // A secret stays as it is.
    let seeded = ["match.seed=not the default seed", "match.simhash.bits=128"];
    let with = settings(&[&seeded[..], &["previous.match.simhash.bits=64"]].concat());
    assert_eq!(with.previous.unwrap().scheme(), settings(&seeded[..1]).scheme());
}

#[test]
fn previous_holds_what_decides_fingerprints_and_nothing_else() {
    let changed = "match.simhash.bits=128";
    refused(
        &[changed, "previous.match.simhash.max_distance=2"],
        "previous.match.simhash.max_distance",
        "no fingerprints",
    );
    refused(&[changed, "previous.match.seed=another seed of words"], "previous.match.seed", "index warm");
    refused(&[changed, "previous.match.simhash.bits=128"], "previous", "the same scheme");
    refused(&[changed, "previous.match.simhash.bits=65"], "previous.match.simhash.bits", "65");
    refused(&[changed, "previous.match.simhash.bit=64"], "previous", "bit");
}
