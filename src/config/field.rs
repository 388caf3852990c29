//! Where a field of a page is read, as it is written in the configuration: a path alone, or a map with the path and how
//! the value is written.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// One step of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Coding {
    Base64,
    Gzip,
    Zstd,
    Deflate,
    Br,
}

impl From<Coding> for crate::record::Coding {
    fn from(coding: Coding) -> Self {
        match coding {
            Coding::Base64 => Self::Base64,
            Coding::Gzip => Self::Gzip,
            Coding::Zstd => Self::Zstd,
            Coding::Deflate => Self::Deflate,
            Coding::Br => Self::Brotli,
        }
    }
}

/// A field: `/body`, or `{path: /body, encoding: base64}`, or `{path: /crawled, zone: UTC}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawField {
    /// Its path. It is missing only in a map that gives the other keys alone.
    pub path: Option<String>,
    /// How the value is packed, the outermost coding first; one coding may be written without a list.
    pub encoding: Vec<Coding>,
    /// The zone of times without one.
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
        let Self { path, encoding, zone } = self;
        if let (Some(path), true, None) = (path, encoding.is_empty(), zone) {
            return serializer.serialize_str(path);
        }
        let mut map = serializer.serialize_map(None)?;
        if let Some(path) = path {
            map.serialize_entry("path", path)?;
        }
        if !encoding.is_empty() {
            map.serialize_entry("encoding", encoding)?;
        }
        if let Some(zone) = zone {
            map.serialize_entry("zone", zone)?;
        }
        map.end()
    }
}

/// The map, closed.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Map {
    path: Option<String>,
    #[serde(deserialize_with = "one_or_many")]
    encoding: Vec<Coding>,
    zone: Option<String>,
}

impl Default for Map {
    fn default() -> Self {
        let RawField { path, encoding, zone } = RawField::default();
        Self { path, encoding, zone }
    }
}

impl<'de> Deserialize<'de> for RawField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrMap;
        impl<'de> Visitor<'de> for PathOrMap {
            type Value = RawField;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path such as /url, or a map such as {path: /body, encoding: base64}")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<RawField, E> {
                Ok(RawField::at(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawField, A::Error> {
                let Map { path, encoding, zone } = Map::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawField { path, encoding, zone })
            }
        }
        deserializer.deserialize_any(PathOrMap)
    }
}

/// Reads a list of codings, or a single one.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Coding>, D::Error> {
    struct OneOrMany;
    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<Coding>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("base64, gzip, zstd, or a list such as [base64, gzip]")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<Coding>, E> {
            text.split(',').map(|word| Coding::deserialize(word.trim().into_deserializer())).collect()
        }
        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<Coding>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
        fn visit_unit<E>(self) -> Result<Vec<Coding>, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(OneOrMany)
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
