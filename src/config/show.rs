//! Shows the effective settings without secrets: every key with its value, its origin and its impact.
//!
//! Computes the hash that shows operators whether a new configuration has reached every instance.

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::change_impact::{ChangeImpact, decides};
use super::layers::Layers;
use super::problem::{Origin, Problem};
use super::properties::is_sensitive;
use super::raw::Raw;
use super::schema::key_paths;
use super::secret::SECRET_SLOTS;

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

impl Raw {
    /// Returns the settings in the shape of the file, without secrets.
    #[must_use]
    pub fn shown(&self) -> Value {
        let mut tree = serde_json::to_value(self).unwrap_or_default();
        let kafka = &self.kafka;
        for (name, map) in [
            ("properties", &kafka.properties),
            ("consumer_properties", &kafka.consumer_properties),
            ("producer_properties", &kafka.producer_properties),
        ] {
            let value = |key: &str, value: &str| if is_sensitive(key) { REDACTED.into() } else { Value::from(value) };
            let shown = map.iter().map(|(key, property)| (key.clone(), value(key, &property.0))).collect();
            if let Some(place) = tree.pointer_mut(&format!("/kafka/{name}")) {
                *place = shown;
            }
        }
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
        let mut tree = serde_json::to_value(self.effective()).unwrap_or_default();
        for path in OF_THE_INSTANCE.iter().chain(&SECRET_SLOTS) {
            if let Some(value) = tree.pointer_mut(&format!("/{}", path.replace('.', "/"))) {
                *value = Value::Null;
            }
        }
        let kafka = &self.kafka;
        for (name, map) in [
            ("properties", &kafka.properties),
            ("consumer_properties", &kafka.consumer_properties),
            ("producer_properties", &kafka.producer_properties),
        ] {
            let shown = map.iter().filter(|(key, _)| !super::properties::is_sensitive(key));
            let shown = shown.map(|(key, value)| (key.clone(), Value::from(value.0.as_str()))).collect();
            if let Some(value) = tree.pointer_mut(&format!("/kafka/{name}")) {
                *value = shown;
            }
        }
        let mut digits = format!("{:016x}", xxh3_64(tree.to_string().as_bytes()));
        digits.truncate(12);
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
}
