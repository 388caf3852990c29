//! The chart's schema of values carries the program's own schema of configuration files, below `config`.

use dupgate::config::schema;
use serde_json::{Map, Value, json};

use super::{read, up_to_date};

const FILE: &str = "helm/dupgate/values.schema.json";

/// Whether a schema is one of a number, of a boolean or of some words.
fn is_scalar(shape: &Map<String, Value>) -> bool {
    let scalar = |kind: &Value| ["integer", "number", "boolean", "null"].iter().any(|name| kind == name);
    let is_listed = match shape.get("type") {
        Some(Value::Array(kinds)) => !kinds.is_empty() && kinds.iter().all(scalar),
        Some(kind) => scalar(kind),
        None => false,
    };
    is_listed || shape.contains_key("enum")
}

/// Allows `${NAME}` where the program accepts a number, a boolean or one of some words. Texts may name variables
/// anyway.
fn with_references(shape: Value) -> Value {
    let mut shape = match shape {
        Value::Array(shapes) => return shapes.into_iter().map(with_references).collect(),
        Value::Object(shape) => shape,
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => return scalar,
    };
    for (key, value) in &mut shape {
        match key.as_str() {
            "properties" => {
                for below in value.as_object_mut().unwrap().values_mut() {
                    *below = with_references(below.take());
                }
            }
            "anyOf" | "oneOf" | "allOf" | "items" | "additionalProperties" => *value = with_references(value.take()),
            _ => {}
        }
    }
    if !is_scalar(&shape) || shape.get("type").is_some_and(|kind| kind == "null") {
        return shape.into();
    }
    let mut either: Map<String, Value> =
        ["description", "default"].iter().filter_map(|key| shape.remove_entry(*key)).collect();
    either.insert("anyOf".into(), json!([shape, {"type": "string", "pattern": r"\$\{"}]));
    either.into()
}

#[test]
fn the_schema_of_values_includes_that_of_the_program() {
    let mut config = schema();
    let shape = config.as_object_mut().unwrap();
    shape.remove("$schema");
    // Values are merged: keys of another layer may be missing here.
    shape.remove("required");
    let about = "the configuration of dupgate; what may not be missing is checked by the chart's templates";
    shape.insert("description".into(), about.into());

    let mut values: Value = serde_json::from_str(&read(FILE)).unwrap();
    values["properties"]["config"] = with_references(config);
    up_to_date(FILE, &(serde_json::to_string_pretty(&values).unwrap() + "\n"));
}
