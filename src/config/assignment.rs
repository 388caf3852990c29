//! Interprets values that arrive as bare text: variables, `--set`, and texts with `${…}` in them.
//!
//! Such text has no type. It is read as YAML (`3`, `true`, `null`, `[a, b]`, `{exact: 30d}`), as plain text, and as a
//! list separated by commas; the first reading that the key accepts counts. A refusal suggests the key or word that was
//! probably meant.

use serde_json::Value;

use super::raw::Raw;
use super::schema::key_paths;
use super::secret::SECRET_SLOTS;

/// Reads a text as the value of a key.
///
/// # Errors
///
/// The key does not exist, or accepts no reading of the text. The message is that of the simplest reading.
pub(super) fn interpret(path: &[String], text: &str) -> Result<Value, String> {
    let mut refused = None;
    for value in readings(path, text) {
        match check(path, &value) {
            Ok(()) => return Ok(value),
            Err(why) => drop(refused.get_or_insert(why)),
        }
    }
    Err(refused.unwrap_or_default())
}

fn readings(path: &[String], text: &str) -> Vec<Value> {
    let verbatim = Value::String(text.to_owned());
    // A password may look like anything, so only a reference is parsed.
    if SECRET_SLOTS.contains(&path.join(".").as_str()) {
        let reference = serde_saphyr::from_str(text).ok().filter(Value::is_object);
        return reference.into_iter().chain([verbatim]).collect();
    }
    let typed = serde_saphyr::from_str::<Value>(text).ok().filter(|value| match value {
        Value::Null => matches!(text, "" | "null" | "~"),
        Value::String(_) => false,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    });
    let items = || text.split(',').map(str::trim);
    let texts = items().map(Value::from).collect();
    let numbers = items().map(|item| item.parse::<u64>().map_or(Value::Null, Value::from)).collect();
    typed.into_iter().chain([verbatim, texts, numbers]).collect()
}

/// Checks that a key exists and accepts this value, by deserialising the mirror of the file.
///
/// # Errors
///
/// What was expected instead. Values of keys that may hold a secret are not repeated.
pub(super) fn check(path: &[String], value: &Value) -> Result<(), String> {
    let nested =
        path.iter().rev().fold(value.clone(), |value, key| Value::Object([(key.clone(), value)].into_iter().collect()));
    let error = match serde_json::from_value::<Raw>(nested) {
        // serde would fill a section from a list by position: reject a list whose result is not a list.
        Ok(raw) if value.is_array() && !gives_list(&raw, path) => {
            return Err("expected a map of settings, not a list".to_owned());
        }
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let message = error.to_string();
    let words = Words::of(&message, path);
    // A password may have been written at a wrong place in these sections, so report only what was expected.
    let secretive: [&[&str]; 3] = [&["kafka"], &["http", "admin"], &["input", "schema_registry"]];
    let is_below =
        |section: &[&str]| section.iter().enumerate().all(|(at, key)| path.get(at).is_some_and(|k| k == key));
    // In `match` only the seed is a secret, and it may have been given as the whole section.
    let is_section_of_seed = matches!(path, [section] if section == "match");
    if (secretive.into_iter().any(is_below) || is_section_of_seed) && !message.starts_with("unknown field") {
        let expected = words.map(|words| words.expected).or_else(|| {
            let (_, expected) = message.split_once("expected ")?;
            Some(expected.split(" at line ").next().unwrap_or(expected).to_owned())
        });
        return Err(format!("expected {}", expected.as_deref().unwrap_or("another kind of value")));
    }
    if let Some(Words { expected, given }) = words {
        return Err(format!("expected {expected}, not {given}"));
    }
    let section = path.split_last().map_or(&[][..], |(_, section)| section);
    Err(with_hint(message, section))
}

/// Reads a text as a list separated by commas, so that a single host is a list of one. `None` if the key takes no list.
#[must_use]
pub(super) fn as_list(path: &[String], value: &Value) -> Option<Value> {
    let items = value.as_str()?.split(',').map(str::trim).map(Value::from);
    let list: Value = items.collect();
    check(path, &list).is_ok().then_some(list)
}

/// What serde says about a value of the wrong kind, without the names of Rust types.
struct Words {
    expected: String,
    given: String,
}

impl Words {
    /// Parses a message such as `invalid type: string "many", expected u32`; `None` for every other message.
    fn of(message: &str, path: &[String]) -> Option<Self> {
        let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
        let (given, expected) = rest.rsplit_once(", expected ")?;
        let expected = expected.split(" at line ").next().unwrap_or(expected);
        Some(Self { expected: Self::kind(expected, path), given: Self::shown(given) })
    }

    fn kind(expected: &str, path: &[String]) -> String {
        let example = |example: &str| format!("a list such as [{example}]");
        match expected {
            "u8" => "a whole number from 0 to 255".to_owned(),
            "u16" => "a whole number from 0 to 65535".to_owned(),
            "u32" | "u64" | "usize" => "a whole number".to_owned(),
            "i32" | "i64" => "a whole number, with a sign or without".to_owned(),
            "f32" | "f64" => "a number".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "a string" | "path string" => "a text".to_owned(),
            "a sequence" => match path.last().map(String::as_str) {
                Some("brokers") => example("host:9092"),
                Some("topics") => example("crawl.pages"),
                Some("stages") => example("exact, simhash"),
                Some("roles") => example("worker, judge"),
                Some(_) | None => example("a, b"),
            },
            other if other.starts_with("struct ") => {
                let below = format!("{}.", path.join("."));
                let keys = key_paths();
                let first = keys.iter().find_map(|key| key.strip_prefix(&below)?.split('.').next());
                first.map_or_else(
                    || "a map of settings".to_owned(),
                    |key| format!("a map of settings such as {{{key}: ...}}"),
                )
            }
            other => other.to_owned(),
        }
    }

    fn shown(given: &str) -> String {
        let inside = |kind: &str, quote: char| given.strip_prefix(kind)?.strip_prefix(quote)?.strip_suffix(quote);
        if let Some(text) = inside("string ", '"') {
            return format!("the text `{text}`");
        }
        if let Some(number) = inside("integer ", '`').or_else(|| inside("floating point ", '`')) {
            return number.to_owned();
        }
        match given {
            "map" => "a map".to_owned(),
            "sequence" => "a list".to_owned(),
            "null" | "unit value" => "nothing".to_owned(),
            other => inside("boolean ", '`').unwrap_or(other).to_owned(),
        }
    }
}

fn gives_list(raw: &Raw, path: &[String]) -> bool {
    let tree = serde_json::to_value(raw).unwrap_or_default();
    path.iter().try_fold(&tree, |below, key| below.get(key)).is_some_and(Value::is_array)
}

/// Minimum similarity of two names, from 0 (nothing in common) to 1 (equal).
const MIN_SIMILARITY: f64 = 0.6;

/// Keys that had another name in an earlier release, and names that other programs use for them.
const OTHER_NAMES: [(&str, &str); 47] = [
    ("processing.stop_after_bad_ratio", "processing.pause_above_dead_letter_ratio"),
    ("processing.max_bad_ratio", "processing.pause_above_dead_letter_ratio"),
    ("processing.workers", "processing.threads"),
    ("processing.concurrency", "processing.threads"),
    ("processing.parallelism", "processing.threads"),
    ("processing.on_error", "processing.on_bad_record"),
    ("match.minhash.agree", "match.minhash.min_shared_bands"),
    ("match.minhash.bits", "match.minhash.bits_per_slot"),
    ("match.minhash.unsure", "match.minhash.low_confidence"),
    ("match.minhash.threshold", "match.minhash.min_similarity"),
    ("match.minhash.num_perm", "match.minhash.permutations"),
    ("match.simhash.threshold", "match.simhash.max_distance"),
    ("match.simhash.hamming_distance", "match.simhash.max_distance"),
    ("match.threshold", "match.minhash.min_similarity"),
    ("judge.serve", "judge.served_partitions"),
    ("judge.checkpoint_rulings", "judge.checkpoint_interval_records"),
    ("logs.keep", "logs.retention"),
    ("window.time", "window.timestamp_source"),
    ("window.lateness", "window.allowed_lateness"),
    ("window.duration", "window.size"),
    ("window.ttl", "window.size"),
    ("index.ttl", "window.size"),
    ("kafka.bootstrap", "kafka.brokers"),
    ("kafka.bootstrap_servers", "kafka.brokers"),
    ("kafka.group_id", "input.group"),
    ("input.group_id", "input.group"),
    ("input.auto_offset_reset", "input.start"),
    ("input.compression", "input.encoding"),
    ("input.fields.timestamp", "input.fields.fetched_at"),
    ("input.fields.url", "input.fields.id"),
    ("output.dlq", "output.dead_letter"),
    ("metrics.port", "http.listen"),
    ("http.port", "http.listen"),
    ("input.fields.body", "input.fields.text"),
    ("input.fields.content", "input.fields.text"),
    ("input.fields.date", "input.fields.fetched_at"),
    ("input.fields.time", "input.fields.fetched_at"),
    ("input.fields.crawled_at", "input.fields.fetched_at"),
    ("input.fields.site", "input.fields.scope"),
    ("input.fields.domain", "input.fields.scope"),
    ("input.codec", "input.format"),
    ("input.consumer_group", "input.group"),
    ("text.dictionary", "text.jieba.user_dict"),
    ("index.dir", "index.path"),
    ("index.size", "index.max_entries"),
    ("http.admin.password", "http.admin.token"),
    ("window.retention", "window.size"),
];

/// Adds to a refusal the name that was probably meant, if a similar one exists.
///
/// `refusal` is the message of serde: "unknown field `x`, expected one of `y`, `z`", or the same for a variant.
/// `section` is the path above the unknown field.
pub(super) fn with_hint(refusal: String, section: &[String]) -> String {
    let is_field = refusal.starts_with("unknown field");
    if !is_field && !refusal.starts_with("unknown variant") {
        return refusal;
    }
    let mut names = refusal.split('`').skip(1).step_by(2);
    let Some(given) = names.next() else { return refusal };
    let path = || [section, &[given.to_owned()]].concat();
    let former = || {
        let path = path().join(".");
        OTHER_NAMES.iter().find(|(name, _)| is_field && *name == path).map(|(_, key)| (*key).to_owned())
    };
    let meant = former()
        .or_else(|| nearest(given, names.map(str::to_owned)))
        .or_else(|| if is_field { elsewhere(&path()) } else { None });
    match meant {
        Some(name) => format!("{refusal}; did you mean `{name}`?"),
        None => refusal,
    }
}

/// Finds the key whose last levels are most similar to those of this path, in any section.
pub(super) fn elsewhere(path: &[String]) -> Option<String> {
    let (given, last) = (path.join("."), path.last()?);
    let of_name = |key: &str| {
        let name = key.rsplit('.').next().unwrap_or_default();
        strsim::normalized_damerau_levenshtein(last, name)
    };
    let of_path = |key: &str| strsim::normalized_damerau_levenshtein(&given, key);
    let near = key_paths().into_iter().filter(|key| of_name(key) > 0.75);
    near.max_by(|a, b| of_name(a).total_cmp(&of_name(b)).then(of_path(a).total_cmp(&of_path(b))))
}

fn nearest(given: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let scored = names.map(|name| (strsim::normalized_damerau_levenshtein(&given.to_lowercase(), &name), name));
    scored.filter(|(score, _)| *score >= MIN_SIMILARITY).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(path: &str, text: &str) -> Result<Value, String> {
        interpret(&path.split('.').map(str::to_owned).collect::<Vec<_>>(), text)
    }

    #[test]
    fn a_text_becomes_what_the_key_takes() {
        assert_eq!(read("match.simhash.max_distance", "4"), Ok(json!(4)));
        assert_eq!(read("text.normalize.lowercase", "false"), Ok(json!(false)));
        assert_eq!(read("kafka.client_id", "7"), Ok(json!("7")));
        assert_eq!(read("window.size", "72h"), Ok(json!("72h")));
        assert_eq!(read("window.stages", "{exact: 30d}"), Ok(json!({"exact": "30d"})));
        assert_eq!(read("input.fields.html", "null"), Ok(Value::Null));
        assert_eq!(read("judge.served_partitions", "all"), Ok(json!("all")));
    }

    #[test]
    fn commas_make_a_list_where_a_list_belongs() {
        assert_eq!(read("kafka.brokers", "a:1, b:2"), Ok(json!(["a:1", "b:2"])));
        assert_eq!(read("kafka.brokers", "a:1"), Ok(json!(["a:1"])));
        assert_eq!(read("judge.served_partitions", "[0, 2]"), Ok(json!([0, 2])));
        assert_eq!(read("judge.served_partitions", "0,2"), Ok(json!([0, 2])));
        assert_eq!(read("kafka.client_id", "a,b"), Ok(json!("a,b")));
    }

    #[test]
    fn a_text_is_a_list_where_a_list_of_texts_belongs() {
        let list =
            |path: &str, text: &str| as_list(&path.split('.').map(str::to_owned).collect::<Vec<_>>(), &json!(text));
        assert_eq!(list("kafka.brokers", "a:1"), Some(json!(["a:1"])));
        assert_eq!(list("match.stages", "exact, simhash"), Some(json!(["exact", "simhash"])));
        assert_eq!((list("match.stages", "exakt"), list("window.size", "1h")), (None, None));
    }

    #[test]
    fn a_section_is_not_a_list() {
        for text in ["[3]", "3", "3,4"] {
            assert!(read("match.simhash", text).is_err(), "{text}");
        }
        assert_eq!(read("match.simhash", "{max_distance: 4}"), Ok(json!({"max_distance": 4})));
        assert!(read("output.unique", "[pages]").unwrap_err().contains("expected a map"));
    }

    #[test]
    fn a_password_is_its_own_text() {
        for text in ["12345", "null", "# no comment", "[a]", "a,b", "true"] {
            assert_eq!(read("kafka.security.sasl.password", text), Ok(json!(text)));
        }
        assert_eq!(read("kafka.security.sasl.password", "{env: PW}"), Ok(json!({"env": "PW"})));
    }

    #[test]
    fn the_message_names_the_expected_value() {
        assert!(
            read("match.simhash.max_distanse", "4").unwrap_err().contains("expected one of `bits`, `max_distance`")
        );
        assert!(
            read("match.simhash.max_distance", "far")
                .unwrap_err()
                .contains("expected a whole number from 0 to 255, not the text `far`")
        );
        let wrong = |path: &str, value: Value| {
            check(&path.split('.').map(str::to_owned).collect::<Vec<_>>(), &value).unwrap_err()
        };
        assert_eq!(
            wrong("logging", json!("debug")),
            "expected a map of settings such as {format: ...}, not the text `debug`"
        );
        assert_eq!(wrong("input.topics", json!(5)), "expected a list such as [crawl.pages], not 5");
        assert_eq!(wrong("text.min_features", json!(-1)), "expected a whole number, not -1");
        assert_eq!(wrong("match.number_guard", json!("maybe")), "expected true or false, not the text `maybe`");
        // A possible secret is not repeated.
        assert_eq!(wrong("kafka.client_id", json!(["hunter2"])), "expected a text");
        assert_eq!(wrong("kafka.brokers", json!({"hunter2": 1})), "expected a list such as [host:9092]");
        assert!(read("window.size", "72").unwrap_err().contains("duration with its unit"));
        assert!(read("mode", "drop").unwrap_err().contains("expected one of `route`, `tag`, `observe`"));
    }

    fn hint(refusal: &str, section: &str) -> Option<String> {
        let section: Vec<String> = section.split('.').filter(|level| !level.is_empty()).map(str::to_owned).collect();
        let hinted = with_hint(refusal.to_owned(), &section);
        hinted.split_once("did you mean `").map(|(_, name)| name.trim_end_matches("`?").to_owned())
    }

    #[test]
    fn a_typing_error_gets_a_hint() {
        let hinted = hint("unknown field `max_distanse`, expected one of `bits`, `max_distance`", "match.simhash");
        assert_eq!(hinted.as_deref(), Some("max_distance"));
        let hinted = hint("unknown field `broker`, expected one of `brokers`, `client_id`", "kafka");
        assert_eq!(hinted.as_deref(), Some("brokers"));
        let hinted = hint("unknown variant `Rout`, expected one of `route`, `tag`", "");
        assert_eq!(hinted.as_deref(), Some("route"));
    }

    #[test]
    fn a_key_of_another_section_is_named_by_its_path() {
        let hinted = hint("unknown field `max_distance`, expected one of `stages`, `simhash`, `same_id`", "match");
        assert_eq!(hinted.as_deref(), Some("match.simhash.max_distance"));
        let hinted = hint("unknown field `password`, expected one of `brokers`, `security`", "kafka");
        assert_eq!(hinted.as_deref(), Some("kafka.security.sasl.password"));
    }

    #[test]
    fn a_former_name_and_that_of_another_program_are_known_by_their_meaning() {
        let keys = key_paths();
        for (name, key) in OTHER_NAMES {
            let is_key = |path: &str| keys.iter().any(|known| known == path || known.starts_with(&format!("{path}.")));
            assert!(is_key(key) && !is_key(name), "{name} {key}");
            let (section, field) = name.rsplit_once('.').unwrap();
            let hinted = hint(&format!("unknown field `{field}`, expected one of `threads`, `topics`"), section);
            assert_eq!(hinted.as_deref(), Some(key), "{name}");
        }
        assert_eq!(hint("unknown variant `workers`, expected one of `route`, `tag`", "processing"), None);
    }

    #[test]
    fn a_name_like_no_other_gets_no_hint() {
        assert_eq!(hint("unknown field `tracing_backend_url`, expected one of `version`, `roles`", ""), None);
        assert_eq!(hint("unknown variant `drop`, expected one of `route`, `tag`, `observe`", ""), None);
        assert_eq!(hint("invalid type: string \"brokers\", expected u8", ""), None);
    }
}
