//! Describes the layout of the file as JSON Schema, for editors and for suggestions of keys.
//!
//! Shapes and defaults come from [`Raw`]; what each key means comes from the comments of the annotated sample, so
//! that it is documented in one place.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::field::RawField;
use super::problem::Origin;
use super::raw::Raw;
use super::secret::{RawProperty, RawSecret};
use super::tree::{Node, join};
use super::values::{ByteSize, Levels, Retention, ServedPartitions, Span};

/// The annotated sample: every key with its default and a comment.
pub const SAMPLE: &str = include_str!("../../config/dupgate.yaml");

/// Returns the JSON Schema (draft 2020-12) of the configuration file.
///
/// A text of the form `${NAME}` may stand for a number or `true` in a file; the schema does not know that.
#[must_use]
pub fn schema() -> Value {
    let mut made = plain();
    let comments = comments();
    describe(&mut made, "", &comments);
    if let Value::Object(top) = &mut made {
        top.insert("title".to_owned(), "configuration of dupgate".into());
    }
    made
}

/// Lists every key of the file by its full path; maps with free keys are listed as one.
pub(super) fn key_paths() -> Vec<String> {
    fn walk(schema: &Value, path: &str, found: &mut Vec<String>) {
        match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => properties.iter().for_each(|(key, below)| walk(below, &join(path, key), found)),
            None => found.push(path.to_owned()),
        }
    }
    let mut found = Vec::new();
    walk(&plain(), "", &mut found);
    found
}

fn plain() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Raw>().to_value()
}

fn describe(schema: &mut Value, path: &str, comments: &BTreeMap<String, String>) {
    let Value::Object(map) = schema else { return };
    // Remove descriptions that come from the names of sections in the code: they add nothing to the key.
    match comments.get(path) {
        Some(comment) => drop(map.insert("description".to_owned(), comment.as_str().into())),
        None => drop(map.remove("description")),
    }
    map.remove("title");
    allow_text_for_list(map);
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (key, below) in properties {
            describe(below, &join(path, key), comments);
        }
    }
}

/// Allows a list of texts to be written as one text, with commas between its items.
fn allow_text_for_list(schema: &mut Map<String, Value>) {
    let is_list = schema
        .get("type")
        .is_some_and(|of| of == "array" || of.as_array().is_some_and(|of| of.contains(&"array".into())));
    let Some(items) = schema.get("items").filter(|_| is_list) else { return };
    if items.get("type").is_none_or(|of| of != "string") {
        return;
    }
    let words =
        items.get("enum").and_then(Value::as_array).map(|words| words.iter().filter_map(Value::as_str).collect());
    let text = match words.map(|words: Vec<&str>| words.join("|")) {
        Some(words) => json!({"type": "string", "pattern": format!("^ *({words})( *, *({words}))* *$")}),
        None => json!({"type": "string"}),
    };
    let list: Map<String, Value> = ["type", "items"].into_iter().filter_map(|key| schema.remove_entry(key)).collect();
    schema.insert("anyOf".to_owned(), json!([list, text]));
}

/// Returns the comments of the sample by key. A comment is the rest of the line after the value, and the comment lines
/// that follow.
fn comments() -> BTreeMap<String, String> {
    let Ok(tree) = Node::parse("sample", SAMPLE) else { return BTreeMap::new() };
    let lines: Vec<&str> = SAMPLE.lines().collect();
    let mut found = BTreeMap::new();
    let mut taken = None;
    tree.each_node(&mut |path, node| {
        let Origin::File { line, .. } = &node.key else { return };
        let Ok(at) = usize::try_from(line.saturating_sub(1)) else { return };
        // If a line has several keys, the comment belongs to the first one, which is the section itself.
        if taken == Some(at) {
            return;
        }
        taken = Some(at);
        let comment_of = |line: &str| line.split_once(" # ").map(|(_, comment)| comment.trim().to_owned());
        let Some(mut text) = lines.get(at).and_then(|line| comment_of(line)) else { return };
        for line in lines.iter().skip(at + 1) {
            let Some(more) = line.strip_prefix("        ").and_then(|line| line.trim_start().strip_prefix('#')) else {
                break;
            };
            text.push('\n');
            text.push_str(more.trim());
        }
        found.insert(path.join("."), text);
    });
    found
}

/// Gives a type of the mirror its own schema.
macro_rules! shaped {
    ($type:ty, $name:literal, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

shaped!(Span, "Span", {"type": "string", "examples": ["500ms", "72h", "7d"]});
shaped!(ByteSize, "ByteSize", {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]+ *([TGMK]iB|[GMk]?B)?$"},
        {"type": "integer", "minimum": 0}
    ]
});
shaped!(Levels, "Levels", {"type": "string", "examples": ["info", "info,dupgate::judge=debug"]});
shaped!(Retention, "Retention", {"type": "string", "examples": ["window", "7d"]});
shaped!(ServedPartitions, "ServedPartitions", {
    "anyOf": [{"const": "all"}, {"type": "array", "items": {"type": "integer", "minimum": 0}}]
});
shaped!(RawField, "RawField", {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "encoding": {
                    "anyOf": [
                        {"enum": ["base64", "gzip", "zstd"]},
                        {"type": "array", "items": {"enum": ["base64", "gzip", "zstd"]}}
                    ]
                },
                "zone": {"type": "string", "examples": ["UTC", "Europe/Berlin", "+08:00"]}
            },
            "required": ["path"],
            "additionalProperties": false
        }
    ]
});
shaped!(RawProperty, "RawProperty", {"type": ["string", "number", "boolean"]});
shaped!(RawSecret, "RawSecret", {
    "anyOf": [
        {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"], "additionalProperties": false},
        {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"], "additionalProperties": false},
        {"type": "string"}
    ]
});

#[cfg(test)]
mod tests {
    use super::super::assignment::as_list;
    use super::*;

    fn at<'v>(schema: &'v Value, path: &str) -> &'v Value {
        path.split('.').fold(schema, |schema, key| &schema["properties"][key])
    }

    #[test]
    fn the_schema_has_every_key_with_its_meaning_and_default() {
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        let distance = at(&schema, "match.simhash.max_distance");
        assert_eq!(distance["default"], 3);
        assert_eq!(distance["description"], "differing bits of a match, inclusive: 0 to 8");
        assert!(at(&schema, "roles")["description"].as_str().unwrap().contains("\nlarge deployments"));
        assert!(at(&schema, "kafka.security.sasl.password").to_string().contains("\"env\""));
        assert_eq!(at(&schema, "kafka.security.sasl.mechanism")["enum"][2], "scram-sha-512");
        assert_eq!(at(&schema, "match.simhash")["additionalProperties"], false);
    }

    #[test]
    fn a_list_of_texts_may_be_one_text_as_in_the_file() {
        let schema = schema();
        for (key, text) in [
            ("kafka.brokers", "a:9092, b:9092"),
            ("input.topics", "pages"),
            ("output.headers.drop", "x-trace"),
            ("text.stopwords", "zh"),
            ("roles", "worker, judge"),
            ("match.stages", "exact"),
        ] {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            assert!(as_list(&path, &text.into()).is_some(), "{key}: {text}");
            let alternatives = at(&schema, key)["anyOf"].as_array().unwrap();
            assert_eq!(
                (&alternatives[0]["type"], &alternatives[1]["type"]),
                (&"array".into(), &"string".into()),
                "{key}"
            );
            assert!(at(&schema, key).get("type").is_none() && at(&schema, key).get("items").is_none(), "{key}");
        }
        let words = at(&schema, "roles")["anyOf"][1]["pattern"].as_str().unwrap();
        assert_eq!(words, "^ *(worker|judge)( *, *(worker|judge))* *$");
    }

    #[test]
    fn every_key_is_listed_once() {
        let keys = key_paths();
        for key in
            ["version", "index.max_entries", "window.stages.exact", "kafka.properties", "judge.served_partitions"]
        {
            assert_eq!(keys.iter().filter(|known| *known == key).count(), 1, "{key}: {keys:?}");
        }
    }
}
