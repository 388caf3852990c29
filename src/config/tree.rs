//! A tree of values with the place of each, into which the layers are merged.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::problem::{Origin, Problem};
use super::secret::SECRET_SLOTS;

/// Maps whose keys are free. Below them, a dot is part of the key.
pub(super) const FREE_MAPS: [&str; 5] = [
    "kafka.properties",
    "kafka.consumer_properties",
    "kafka.producer_properties",
    "kafka.security.sasl.oauth.extensions",
    "metrics.labels",
];

/// One value with its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Its place.
    pub(super) origin: Origin,
    /// The place of its key.
    pub(super) key: Origin,
    /// The value.
    pub(super) content: Content,
}

/// A map, which is merged with that of a later layer, or a value (also a list), which a later layer replaces as a
/// whole.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Scalars, lists, and values of secret slots.
    Leaf(Value),
    /// Everything else.
    Map(BTreeMap<String, Node>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Map(BTreeMap::new())
    }
}

impl Node {
    /// Reads the text of one file.
    ///
    /// # Errors
    ///
    /// Text that is not YAML, or whose top is not a map.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, Problem> {
        let name: Arc<str> = name.into();
        let at = |line, column| Origin::File { name: Arc::clone(&name), line, column };
        let options = serde_saphyr::options! { with_snippet: false };
        let parsed = serde_saphyr::from_str_with_options::<Option<Spanned<Found>>>(text, options);
        let found = parsed.map_err(|error| {
            let place = error.location();
            let origin = place.map_or_else(|| at(0, 0), |place| at(place.line(), place.column()));
            // The parser repeats its own place after the message; ours comes before it.
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().trim();
            let twice = message.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(", set ").next());
            let message = match twice {
                Some(key) => format!("the key `{key}` is given twice"),
                None => format!("invalid YAML: {message}{}", hint(text, &origin)),
            };
            Problem::at(origin, "", message)
        })?;
        match found {
            None => Ok(Self { origin: at(0, 0), ..Self::default() }),
            Some(Spanned { value: Found::Map(map), .. }) => Ok(place("", Found::Map(map), &name, at(1, 1), at(1, 1))),
            Some(Spanned { referenced, .. }) => {
                Err(Problem::at(at(referenced.line(), referenced.column()), "", "expected a map of settings"))
            }
        }
    }

    /// Creates a tree that holds one value at the end of a path.
    pub(super) fn at(path: &[String], origin: &Origin, value: Value) -> Self {
        let new = |content| Self { origin: origin.clone(), key: origin.clone(), content };
        let end = new(Content::of(&path.join("."), origin, value));
        path.iter().rev().fold(end, |below, key| new(Content::Map(BTreeMap::from([(key.clone(), below)]))))
    }

    /// Merges another tree over this one: maps are merged, everything else is replaced.
    pub(super) fn overlay(&mut self, over: Self) {
        match (&mut self.content, over.content) {
            (Content::Map(under), Content::Map(over)) => {
                for (key, node) in over {
                    match under.get_mut(&key) {
                        Some(below) => below.overlay(node),
                        None => drop(under.insert(key, node)),
                    }
                }
            }
            (content, over_content) => {
                *content = over_content;
                self.origin = over.origin;
                self.key = over.key;
            }
        }
    }

    /// Visits every leaf with its path; an empty map counts as one.
    pub(super) fn each_leaf(&self, visit: &mut impl FnMut(&[String], &Self)) {
        self.each_node(&mut |path, node| {
            if !matches!(&node.content, Content::Map(map) if !map.is_empty()) {
                visit(path, node);
            }
        });
    }

    /// Visits every node except the top, sections before their contents.
    pub(super) fn each_node(&self, visit: &mut impl FnMut(&[String], &Self)) {
        fn walk(node: &Node, path: &mut Vec<String>, visit: &mut impl FnMut(&[String], &Node)) {
            let Content::Map(map) = &node.content else { return };
            for (key, below) in map {
                path.push(key.clone());
                visit(path, below);
                walk(below, path, visit);
                path.pop();
            }
        }
        walk(self, &mut Vec::new(), visit);
    }

    /// Returns the value without the places.
    pub(super) fn value(&self) -> Value {
        match &self.content {
            Content::Leaf(value) => value.clone(),
            Content::Map(map) => map.iter().map(|(key, node)| (key.clone(), node.value())).collect(),
        }
    }

    /// Finds the place of the deepest node on a path that was written.
    pub(super) fn origin_of(&self, path: &str) -> Origin {
        let (mut node, mut origin) = (self, Origin::Default);
        for key in split(path) {
            let Content::Map(map) = &node.content else { break };
            let Some(below) = map.get(&key) else { break };
            node = below;
            origin = node.origin.clone();
        }
        // If the path ends at a section that holds other keys, the key itself was not given.
        if matches!(&node.content, Content::Map(map) if !map.is_empty()) { Origin::Default } else { origin }
    }

    /// Finds the node at a path.
    pub(super) fn find(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| match &node.content {
            Content::Map(map) => map.get(key),
            Content::Leaf(_) => None,
        })
    }

    /// Removes the value at a path, and the sections that become empty.
    pub(super) fn remove(&mut self, path: &[String]) {
        let (Content::Map(map), Some((first, rest))) = (&mut self.content, path.split_first()) else { return };
        if rest.is_empty() {
            map.remove(first);
        } else if let Some(below) = map.get_mut(first) {
            below.remove(rest);
            if matches!(&below.content, Content::Map(map) if map.is_empty()) {
                map.remove(first);
            }
        }
    }
}

/// Returns a hint for the most frequent causes of invalid YAML: a tab, or `${…}` inside braces without quotes.
fn hint(text: &str, origin: &Origin) -> &'static str {
    let Origin::File { line, .. } = origin else { return "" };
    let at = usize::try_from(*line).unwrap_or(0).saturating_sub(1);
    // The parser may notice the mistake only on the next line.
    let lines = || text.lines().skip(at.saturating_sub(1)).take(2);
    let is_bare = |line: &str| {
        let before = line.split_once("${").map_or("", |(before, _)| before);
        let quotes = before.matches(['"', '\'']).count();
        before.contains(['{', '[']) && quotes.is_multiple_of(2)
    };
    if lines().any(is_bare) {
        "; inside braces a variable needs quotes, such as {topic: \"${NAME}\"}"
    } else if lines().any(|line| line.trim_start_matches(' ').starts_with('\t')) {
        "; YAML is indented by spaces, not by tabs"
    } else {
        ""
    }
}

impl Content {
    /// Converts a plain value to maps and leaves.
    fn of(path: &str, origin: &Origin, value: Value) -> Self {
        match value {
            Value::Object(map) if !SECRET_SLOTS.contains(&path) => Self::Map(
                map.into_iter()
                    .map(|(key, value)| {
                        let content = Self::of(&join(path, &key), origin, value);
                        (key, Node { origin: origin.clone(), key: origin.clone(), content })
                    })
                    .collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Self::Leaf(value)
            }
        }
    }
}

/// Splits a path at its dots, except below maps whose keys are free.
pub(super) fn split(path: &str) -> Vec<String> {
    let free = FREE_MAPS.iter().find_map(|map| path.strip_prefix(map)?.strip_prefix('.').map(|key| (map, key)));
    let (levels, key) = free.map_or((path, None), |(map, key)| (*map, Some(key)));
    levels.split('.').chain(key).map(str::to_owned).collect()
}

/// Joins a path and a key.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The result of the YAML parser, with the place of each value of a map.
enum Found {
    Scalar(Value),
    List(Vec<Self>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl Found {
    fn into_value(self) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(list) => list.into_iter().map(Self::into_value).collect(),
            Self::Map(map) => map.into_iter().map(|(key, found)| (key.value, found.value.into_value())).collect(),
        }
    }
}

fn place(path: &str, found: Found, name: &Arc<str>, key: Origin, origin: Origin) -> Node {
    let content = match found {
        Found::Map(map) if !SECRET_SLOTS.contains(&path) => {
            let at = |place: serde_saphyr::Location| Origin::File {
                name: Arc::clone(name),
                line: place.line(),
                column: place.column(),
            };
            let below = map.into_iter().map(|(key, Spanned { value, referenced, .. })| {
                let node = place(&join(path, &key.value), value, name, at(key.referenced), at(referenced));
                (key.value, node)
            });
            Content::Map(below.collect())
        }
        Found::Scalar(_) | Found::List(_) | Found::Map(_) => Content::Leaf(found.into_value()),
    };
    Node { origin, key, content }
}

/// Defines methods of a visitor that take a scalar.
macro_rules! scalars {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E: Error>(self, value: $type) -> Result<Found, E> {
            Ok(Found::Scalar(value.into()))
        })*
    };
}

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Anything;
        impl<'de> Visitor<'de> for Anything {
            type Value = Found;
            scalars! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str }
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a YAML value")
            }
            fn visit_unit<E: Error>(self) -> Result<Found, E> {
                Ok(Found::Scalar(Value::Null))
            }
            fn visit_none<E: Error>(self) -> Result<Found, E> {
                Ok(Found::Scalar(Value::Null))
            }
            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
                Found::deserialize(deserializer)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Found, A::Error> {
                let mut list = Vec::new();
                while let Some(found) = seq.next_element()? {
                    list.push(found);
                }
                Ok(Found::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
                let mut found = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    found.push(entry);
                }
                Ok(Found::Map(found))
            }
        }
        deserializer.deserialize_any(Anything)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Node {
        Node::parse("f.yaml", text).unwrap()
    }

    #[test]
    fn every_value_knows_its_line() {
        let tree = file("a: 1\nb:\n  c: [x, y]\n  d:\n    e: text\n");
        let place = |path| tree.origin_of(path).to_string();
        assert_eq!(place("a"), "f.yaml:1:4");
        assert_eq!(place("b.c"), "f.yaml:3:6");
        assert_eq!(place("b.d.e"), "f.yaml:5:8");
        assert_eq!(place("b.d.other"), "default");
        assert_eq!(place("nothing"), "default");
    }

    #[test]
    fn every_key_knows_its_line() {
        let tree = file("a: 1\nb:\n  c: [x, y]\n  d: {e: text}\n");
        let place = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
            tree.find(&path).map(|node| node.key.to_string())
        };
        assert_eq!(place(&["a"]).as_deref(), Some("f.yaml:1:1"));
        assert_eq!(place(&["b", "c"]).as_deref(), Some("f.yaml:3:3"));
        assert_eq!(place(&["b", "d", "e"]).as_deref(), Some("f.yaml:4:7"));
        assert_eq!(place(&["b", "x"]), None);
    }

    #[test]
    fn maps_are_merged_and_lists_are_replaced() {
        let mut tree = file("a: {x: 1, y: [1, 2]}\nb: 1\n");
        tree.overlay(file("a: {y: [3], z: 4}\n"));
        assert_eq!(tree.value(), serde_json::json!({"a": {"x": 1, "y": [3], "z": 4}, "b": 1}));
    }

    #[test]
    fn a_secret_is_replaced_as_a_whole() {
        let mut tree = file("kafka: {security: {sasl: {password: {file: a}}}}\n");
        tree.overlay(file("kafka: {security: {sasl: {password: {env: B}}}}\n"));
        assert_eq!(tree.value(), serde_json::json!({"kafka": {"security": {"sasl": {"password": {"env": "B"}}}}}));
    }

    #[test]
    fn text_that_is_not_yaml_is_named_with_its_line() {
        let refused = Node::parse("f.yaml", "a: 1\nb: [1,\n").unwrap_err();
        assert!(refused.to_string().starts_with("f.yaml:"), "{refused}");
        assert!(Node::parse("f.yaml", "- a\n").unwrap_err().to_string().contains("expected a map"));
        let twice = Node::parse("f.yaml", "a: 1\na: 2\n").unwrap_err().to_string();
        assert!(twice.starts_with("f.yaml:2") && twice.ends_with("the key `a` is given twice"), "{twice}");
        let bare = Node::parse("f.yaml", "a: 1\nb:\n  c: {d: ${NAME}}\n").unwrap_err().to_string();
        assert!(bare.contains("inside braces a variable needs quotes"), "{bare}");
        let tab = Node::parse("f.yaml", "a:\n\tb: 1\n").unwrap_err().to_string();
        assert!(tab.contains("not by tabs"), "{tab}");
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# only words\n", "---\n"] {
            assert_eq!(file(text).value(), serde_json::json!({}), "{text:?}");
        }
    }
}
