//! Computes the hash that shows operators whether a new configuration has reached every instance.

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::raw::Raw;
use super::secret::SECRET_SLOTS;

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
    use serde_json::json;

    use super::*;

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
