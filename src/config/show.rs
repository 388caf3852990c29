//! Shows the effective settings without secrets: every key with its value, its origin and its impact.
//!
//! Computes the hash that shows operators whether a new configuration has reached every instance.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::impact::{ChangeImpact, decides};
use super::layers::Layers;
use super::problem::{Origin, Problem};
use super::raw::{Kafka, Raw};
use super::schema::key_paths;
use super::secret::{RawProperty, SECRET_SLOTS, is_sensitive};

/// What is shown instead of a secret.
const REDACTED: &str = "[redacted]";

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The key, its levels joined by dots.
    pub path: String,
    /// Its value; a secret shows its source, or `[redacted]`.
    pub value: Value,
    /// Where the value came from.
    pub origin: Origin,
    /// Its impact.
    pub decides: ChangeImpact,
}

impl Kafka {
    /// Returns the maps of raw properties, each with its key.
    pub(super) const fn property_maps(&self) -> [(&'static str, &BTreeMap<String, RawProperty>); 3] {
        [
            ("properties", &self.properties),
            ("consumer_properties", &self.consumer_properties),
            ("producer_properties", &self.producer_properties),
        ]
    }
}

impl Raw {
    /// Returns the settings in the shape of the file. Raw properties that may be secret have this value, or are left out.
    fn tree(&self, secret: Option<&str>) -> Value {
        let mut tree = serde_json::to_value(self).unwrap_or_default();
        for (name, map) in self.kafka.property_maps() {
            let shown = |(key, property): (&String, &RawProperty)| {
                let value = if is_sensitive(key) { secret } else { Some(property.0.as_str()) };
                Some((key.clone(), Value::from(value?)))
            };
            if let Some(place) = tree.pointer_mut(&format!("/kafka/{name}")) {
                *place = map.iter().filter_map(shown).collect();
            }
        }
        tree
    }

    /// Returns the settings in the shape of the file, without secrets.
    #[must_use]
    pub fn shown(&self) -> Value {
        let mut tree = self.tree(Some(REDACTED));
        if let Some(Value::Object(extensions)) = tree.pointer_mut("/kafka/security/sasl/oauth/extensions") {
            extensions.iter_mut().filter(|(key, _)| is_sensitive(key)).for_each(|(_, value)| *value = REDACTED.into());
        }
        tree
    }
}

impl Layers {
    /// Lists every key with its effective value and where that came from.
    ///
    /// # Errors
    ///
    /// The layers do not fit together.
    pub fn show(&self) -> Result<Vec<Shown>, Problem> {
        let tree = self.raw()?.shown();
        let of = |path: String| {
            let value = path.split('.').try_fold(&tree, |below, key| below.get(key)).cloned().unwrap_or_default();
            let (origin, decides) = (self.origin_of(&path), decides(&path));
            Shown { path, value, origin, decides }
        };
        let mut found = Vec::new();
        for shown in key_paths().into_iter().map(of) {
            // Below a map with free keys, each key has an origin of its own.
            match shown.value.as_object().filter(|map| !map.is_empty() && !is_reference(map)) {
                Some(map) => found.extend(map.iter().map(|(key, value)| {
                    let path = format!("{}.{key}", shown.path);
                    Shown { origin: self.origin_of(&path), path, value: value.clone(), decides: shown.decides }
                })),
                None => found.push(shown),
            }
        }
        Ok(found)
    }
}

/// Returns whether a map is `{file: …}` or `{env: …}` instead of a secret.
fn is_reference(map: &Map<String, Value>) -> bool {
    map.len() == 1 && (map.contains_key("file") || map.contains_key("env"))
}

/// Keys that may differ between the instances of one deployment, so that a difference does not mean a partial rollout.
const OF_THE_INSTANCE: [&str; 6] =
    ["roles", "input.instance_id", "judge.served_partitions", "http.listen", "http.admin.listen", "index.path"];

impl Raw {
    /// Returns the settings with the defaults that depend on other keys filled in.
    pub(super) fn effective(&self) -> Self {
        let mut effective = self.clone();
        if effective.index.max_entries.is_none() {
            effective.index.max_memory.get_or_insert(super::resolve::DEFAULT_MAX_MEMORY);
        }
        effective
    }

    /// Hashes the effective settings, as twelve hexadecimal digits: the `hash` label of `dupgate_config_info`.
    ///
    /// It leaves out secrets, values of raw properties that may be secrets, and keys that differ between the instances
    /// of one deployment: `roles`, `input.instance_id`, `judge.served_partitions`, addresses to listen on, and
    /// `index.path`.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut tree = self.effective().tree(None);
        for path in OF_THE_INSTANCE.iter().chain(&SECRET_SLOTS) {
            if let Some(value) = tree.pointer_mut(&format!("/{}", path.replace('.', "/"))) {
                *value = Value::Null;
            }
        }
        let mut digits = format!("{:016x}", xxh3_64(tree.to_string().as_bytes()));
        digits.truncate(12);
        digits
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::schema::{key_paths, schema};
    use super::super::{ExternalInputs, Layers, Purpose, Settings};
    use super::*;

    #[test]
    fn every_value_is_listed_with_its_place() {
        let variables = [("DUPGATE_WINDOW__SIZE".to_owned(), "24h".to_owned())];
        let mut layers = Layers::new(variables.into());
        layers.file("f.yaml", "match: {simhash: {max_distance: 5}}\nkafka: {properties: {socket.timeout.ms: 5000}}");
        layers.environment();
        layers.set("text.html=all_text");
        let shown = layers.show().unwrap();
        let of = |path: &str| {
            let shown = shown.iter().find(|shown| shown.path == path).unwrap();
            (shown.value.to_string(), shown.origin.to_string(), shown.decides.name())
        };
        assert_eq!(of("match.simhash.max_distance"), ("5".into(), "f.yaml:1:33".into(), "rules"));
        assert_eq!(of("window.size"), ("\"1d\"".into(), "DUPGATE_WINDOW__SIZE".into(), "rules"));
        assert_eq!(of("text.html"), ("\"all_text\"".into(), "--set".into(), "scheme"));
        assert_eq!(of("http.listen"), ("\"0.0.0.0:9464\"".into(), "default".into(), "work"));
        assert_eq!(of("kafka.properties.socket.timeout.ms").0, "\"5000\"");
    }

    #[test]
    fn no_secret_is_listed() {
        let mut layers = Layers::default();
        layers.file(
            "f.yaml",
            "kafka:\n  security: {sasl: {password: hunter2, oauth: {client_secret: {env: X}, extensions: {token: hunter2}}}}\n\
             \x20 properties: {sasl.password: hunter2, ssl.key.pem: hunter2, a: b}\n",
        );
        let (shown, tree) = (layers.show().unwrap(), layers.raw().unwrap().shown().to_string());
        assert!(!format!("{shown:?}{tree}").contains("hunter2"), "{shown:#?}");
        assert!(tree.contains(r#"{"env":"X"}"#) && tree.contains(r#""a":"b""#), "{tree}");
    }

    fn hash(value: Value) -> String {
        serde_json::from_value::<Raw>(value).unwrap().hash()
    }

    #[test]
    fn instances_of_one_deployment_have_one_hash() {
        let plain = hash(json!({}));
        assert_eq!(plain.len(), 12);
        assert_eq!(
            hash(json!({"roles": ["worker"], "judge": {"served_partitions": [0]}, "input": {"instance_id": "gate-1"}})),
            plain
        );
        assert_eq!(hash(json!({"http": {"listen": "127.0.0.1:1", "admin": {"listen": "127.0.0.1:2"}}})), plain);
        assert_eq!(hash(json!({"index": {"path": "/data/1"}})), plain);
        assert_eq!(hash(json!({"kafka": {"security": {"sasl": {"password": "a"}}}})), plain);
        assert_eq!(hash(json!({"kafka": {"properties": {"sasl.password": "a"}}})), hash(json!({"kafka": {}})));
    }

    #[test]
    fn a_changed_setting_changes_the_hash() {
        let plain = hash(json!({}));
        assert_ne!(hash(json!({"match": {"simhash": {"max_distance": 4}}})), plain);
        let pace = |millis| hash(json!({"kafka": {"properties": {"socket.timeout.ms": millis}}}));
        assert_ne!(pace(1), plain);
        assert_ne!(pace(1), pace(2));
    }

    fn settings(path: &str, value: &Value) -> Option<Settings> {
        let mut layers = Layers::default();
        // A configuration in which every key has an effect.
        layers.file(
            "f.yaml",
            "input: {fields: {scope: /site, fetched_at: /at}}\nindex: {max_entries: 1000}\njudge: {partitions: 2}",
        );
        if path != "window.timestamp_source" {
            layers.set("window.timestamp_source=field");
        }
        if path == "index.max_memory" {
            layers.set("index.max_entries=null");
        }
        if !path.is_empty() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            layers.set(&format!("{path}={text}"));
        }
        let words = [("/w", "word"), ("/stop", "# stop-shingles 1\n天安门上\n")];
        let words = words.map(|(path, contents)| (path.into(), contents.to_owned())).into();
        let given = ExternalInputs { words, ..ExternalInputs::default() };
        layers.resolve(&given, Purpose::Sieve).ok().map(|(settings, _)| settings)
    }

    fn scheme(settings: &Settings) -> String {
        settings.scheme().to_string()
    }

    /// Values worth trying for a key.
    fn candidates(path: &str) -> Vec<Value> {
        let schema = schema();
        let shape = path.split('.').fold(&schema, |schema, key| &schema["properties"][key]);
        let mut found: Vec<Value> = shape["enum"].as_array().cloned().unwrap_or_default();
        found.extend(shape.get("minimum").cloned());
        found.extend([json!(true), json!(false), json!(2), json!(7), json!("1d"), json!("/x"), json!("32MiB")]);
        found.extend([
            json!("/w"),
            json!("/stop"),
            json!(["exact"]),
            json!(["/w"]),
            json!("field"),
            json!("minhash"),
            json!("header:x"),
            json!("gzip"),
            json!(4),
            json!(16),
            json!(200),
            json!(0.5),
            json!(0.7),
            json!(["exact", "minhash"]),
            json!([0]),
        ]);
        found
    }

    #[test]
    fn the_table_matches_the_observed_impact() {
        let plain = settings("", &Value::Null).unwrap();
        let mut tried = 0;
        for path in key_paths() {
            for value in candidates(&path) {
                let Some(changed) = settings(&path, &value) else { continue };
                tried += 1;
                let (scheme_moved, rules_moved) = (scheme(&changed) != scheme(&plain), changed.rules != plain.rules);
                let impact = decides(&path);
                assert!(
                    !scheme_moved || impact == ChangeImpact::Scheme,
                    "{path}={value} moves the scheme, the table has {impact}"
                );
                let is_memory = path.starts_with("index.");
                assert!(
                    !rules_moved || impact <= ChangeImpact::Rules || is_memory,
                    "{path}={value} moves the rules, the table has {impact}"
                );
            }
            let moves = |test: &dyn Fn(&Settings) -> bool| {
                candidates(&path).iter().filter_map(|value| settings(&path, value)).any(|changed| test(&changed))
            };
            // A key with a single choice cannot change anything.
            if decides(&path) == ChangeImpact::Scheme
                && !["match.simhash.bits", "match.simhash.hash"].contains(&path.as_str())
            {
                assert!(
                    moves(&|changed| scheme(changed) != scheme(&plain)),
                    "{path} is listed as deciding fingerprints"
                );
            }
            if decides(&path) == ChangeImpact::Rules {
                assert!(moves(&|changed| changed.rules != plain.rules), "{path} is listed as deciding verdicts");
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
