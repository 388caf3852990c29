//! What changing a key affects: fingerprints, verdicts, which state is used, or only operation.

use std::fmt;

/// What a change of a key affects, most costly first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeImpact {
    /// The key decides which group and which logs hold the state: with another value, the service starts without state.
    State,
    /// The key is part of the scheme, which decides fingerprints: another value starts a new index.
    Scheme,
    /// The key is part of the rules, which decide verdicts: another value applies from the next verdict on.
    Rules,
    /// The key decides only how the work is done: another value takes effect at a restart.
    Work,
}

/// Impacts by the beginning of the key; the first one that fits counts.
const TABLE: [(&str, ChangeImpact); 34] = [
    ("mode", ChangeImpact::State),
    ("input.group", ChangeImpact::State),
    ("logs.prefix", ChangeImpact::State),
    ("match.stages", ChangeImpact::Rules),
    ("match.same_id", ChangeImpact::Rules),
    ("match.same_site", ChangeImpact::Rules),
    ("match.number_guard", ChangeImpact::Rules),
    ("match.number_overlap", ChangeImpact::Rules),
    ("match.simhash.max_distance", ChangeImpact::Rules),
    ("match.simhash.min_similarity", ChangeImpact::Rules),
    ("match.minhash.min_similarity", ChangeImpact::Rules),
    ("match.minhash.containment", ChangeImpact::Rules),
    ("match.minhash.low_confidence", ChangeImpact::Rules),
    ("match.minhash.max_bucket", ChangeImpact::Rules),
    ("match.minhash.bands", ChangeImpact::Rules),
    ("match.minhash.rows", ChangeImpact::Rules),
    ("match.minhash.min_shared_bands", ChangeImpact::Rules),
    ("match.minhash.one_band_below", ChangeImpact::Rules),
    ("window.size", ChangeImpact::Rules),
    ("window.stages", ChangeImpact::Rules),
    ("window.allowed_lateness", ChangeImpact::Rules),
    ("window.max_future_skew", ChangeImpact::Rules),
    ("index.max_memory", ChangeImpact::Rules),
    ("index.max_entries", ChangeImpact::Rules),
    // The partitions that an instance serves share the memory of the index.
    ("judge.served_partitions", ChangeImpact::Rules),
    ("match", ChangeImpact::Scheme),
    ("window.timestamp_source", ChangeImpact::Scheme),
    ("text", ChangeImpact::Scheme),
    ("input.format", ChangeImpact::Scheme),
    ("input.encoding", ChangeImpact::Scheme),
    ("input.fields", ChangeImpact::Scheme),
    ("input.max_document", ChangeImpact::Scheme),
    ("judge.partitions", ChangeImpact::Scheme),
    ("", ChangeImpact::Work),
];

/// Returns the impact of a key.
#[must_use]
pub fn decides(path: &str) -> ChangeImpact {
    let fits = |begin: &str| {
        begin.is_empty() || path.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    TABLE.iter().find(|(begin, _)| fits(begin)).map_or(ChangeImpact::Work, |(_, decides)| *decides)
}

impl ChangeImpact {
    /// Returns the word used in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Scheme => "scheme",
            Self::Rules => "rules",
            Self::Work => "work",
        }
    }
}

impl fmt::Display for ChangeImpact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::schema::key_paths;
    use super::super::{ExternalInputs, Layers, Purpose, Settings, schema};
    use super::*;

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
