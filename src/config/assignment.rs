//! Values that arrive as bare text: variables, `--set`, and texts with `${…}` in them.
//!
//! Such text has no type of its own. It is read as YAML (`3`, `true`, `null`, `[a, b]`, `{exact: 30d}`), as it
//! stands, and as a list by comma: the first reading that the key takes is the one meant.

use serde_json::Value;

use super::nearest::with_hint;
use super::raw::Raw;
use super::secret::SECRET_SLOTS;

/// Reads a text as the value of a key.
///
/// # Errors
///
/// The key does not exist, or takes no reading of the text. The message is that of the plainest reading.
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
    let as_it_stands = Value::String(text.to_owned());
    // A password may look like anything: only a reference is more than its own text.
    if SECRET_SLOTS.contains(&path.join(".").as_str()) {
        let reference = serde_saphyr::from_str(text).ok().filter(Value::is_object);
        return reference.into_iter().chain([as_it_stands]).collect();
    }
    let typed = serde_saphyr::from_str::<Value>(text).ok().filter(|value| match value {
        Value::Null => matches!(text, "" | "null" | "~"),
        Value::String(_) => false,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    });
    let items = || text.split(',').map(str::trim);
    let texts = items().map(Value::from).collect();
    let numbers = items().map(|item| item.parse::<u64>().map_or(Value::Null, Value::from)).collect();
    typed.into_iter().chain([as_it_stands, texts, numbers]).collect()
}

/// Says whether a key exists and takes this value, by asking the mirror of the file.
///
/// # Errors
///
/// What was expected instead. Values of keys that may hold a secret are not repeated.
pub(super) fn check(path: &[String], value: &Value) -> Result<(), String> {
    let nested =
        path.iter().rev().fold(value.clone(), |value, key| Value::Object([(key.clone(), value)].into_iter().collect()));
    let error = match serde_json::from_value::<Raw>(nested) {
        // A list would fill a section by position: no key takes a list that does not give one back.
        Ok(raw) if value.is_array() && !gives_list(&raw, path) => {
            return Err("expected a map of settings, not a list".to_owned());
        }
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let message = error.to_string();
    // A password may stand at any wrong place in these sections: only what was expected is said of it.
    let secretive: [&[&str]; 2] = [&["kafka"], &["http", "admin"]];
    let is_below =
        |section: &[&str]| section.iter().enumerate().all(|(at, key)| path.get(at).is_some_and(|k| k == key));
    // Of `match` only the seed is one: it may have been given as the whole section.
    let is_section_of_seed = matches!(path, [section] if section == "match");
    if (secretive.into_iter().any(is_below) || is_section_of_seed) && !message.starts_with("unknown field") {
        let expected = message.split_once("expected ").map_or("another kind of value", |(_, expected)| expected);
        let expected = expected.split(" at line ").next().unwrap_or(expected);
        return Err(format!("expected {expected}"));
    }
    let section = path.split_last().map_or(&[][..], |(_, section)| section);
    Err(with_hint(message, section))
}

fn gives_list(raw: &Raw, path: &[String]) -> bool {
    let tree = serde_json::to_value(raw).unwrap_or_default();
    path.iter().try_fold(&tree, |below, key| below.get(key)).is_some_and(Value::is_array)
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
    fn a_section_is_no_list() {
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
    fn what_was_expected_is_said() {
        assert!(
            read("match.simhash.max_distanse", "4").unwrap_err().contains("expected one of `bits`, `max_distance`")
        );
        assert!(
            read("match.simhash.max_distance", "far")
                .unwrap_err()
                .contains("invalid type: string \"far\", expected u8")
        );
        assert!(read("window.size", "72").unwrap_err().contains("duration with its unit"));
        assert!(read("mode", "drop").unwrap_err().contains("expected one of `route`, `tag`, `observe`"));
    }
}
