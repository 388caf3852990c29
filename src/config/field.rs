//! Where a field of a page is read, as it is written in the configuration: a path alone, or a map with the path and how
//! the value is written.

use serde::de::{Deserializer, Error, IntoDeserializer};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::values::{words, wrong_kind};

words! {
    /// One step of unpacking.
    Coding = crate::record::Coding { Base64, Gzip, Zstd, Deflate, #[serde(rename = "br")] Brotli, }
}

/// A field: `/body`, or `{path: /body, encoding: base64}`, or `{path: /crawled, zone: UTC}`. The derived code is that of
/// the map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct RawField {
    /// Its path. It is missing only in a map that gives the other keys alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How the value is packed, the outermost coding first; one coding may be written without a list.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub encoding: Vec<Coding>,
    /// The zone of times without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl RawField {
    /// Creates a field with nothing but a path.
    pub(super) fn at(path: &str) -> Self {
        Self { path: Some(path.to_owned()), ..Self::default() }
    }
}

impl Serialize for RawField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self { path: Some(path), encoding, zone: None } if encoding.is_empty() => serializer.serialize_str(path),
            map => Self::serialize(map, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(deserializer)?;
        match given.as_str() {
            Some(path) => Ok(Self::at(path)),
            None if given.is_object() => Self::deserialize(given).map_err(D::Error::custom),
            None => Err(wrong_kind(&given, "a path such as /url, or a map such as {path: /body, encoding: base64}")),
        }
    }
}

/// Reads a list of codings, or a single one.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Coding>, D::Error> {
    let given = Value::deserialize(deserializer)?;
    match given.as_str() {
        Some(text) => text.split(',').map(|word| Coding::deserialize(word.trim().into_deserializer())).collect(),
        None if given.is_array() => serde_json::from_value(given).map_err(D::Error::custom),
        None if given.is_null() => Ok(Vec::new()),
        None => Err(wrong_kind(&given, "base64, gzip, zstd, or a list such as [base64, gzip]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<RawField, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_field_is_a_path_or_a_map_and_is_written_as_it_was_read() {
        for value in [
            json!("/url"),
            json!({"path": "/body", "encoding": ["base64", "gzip"]}),
            json!({"path": "/crawled", "zone": "UTC"}),
            json!({"encoding": ["zstd"]}),
        ] {
            let field = read(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&field).unwrap(), value);
        }
        assert_eq!(read(json!({"path": "/url"})), read(json!("/url")));
        let base64 = RawField { encoding: vec![Coding::Base64], ..RawField::at("/body") };
        for encoding in [json!("base64"), json!(["base64"])] {
            assert_eq!(read(json!({"path": "/body", "encoding": encoding})), Ok(base64.clone()));
        }
        let chained = read(json!({"path": "/body", "encoding": "base64, gzip"})).unwrap();
        assert_eq!(chained.encoding, [Coding::Base64, Coding::Gzip]);
    }

    #[test]
    fn what_is_no_field_is_refused_with_what_was_expected() {
        for (value, expected) in [
            (json!(7), "expected a path such as /url, or a map such as {path: /body, encoding: base64}"),
            (json!({"pth": "/url"}), "unknown field `pth`, expected one of `path`, `encoding`, `zone`"),
            (json!({"path": "/url", "encoding": "bas64"}), "unknown variant `bas64`, expected one of `base64`, `gzip`"),
            (json!({"path": "/url", "encoding": 7}), "expected base64, gzip, zstd, or a list such as [base64, gzip]"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }
}
