//! Matches of the `simhash` stage by chance.

use serde_json::{Value, json};

use crate::cli::output::expected;
use crate::config::settings::Settings;
use crate::fingerprint::Width;
use crate::protocol::Stage;

/// The settings that decide the expected matches by chance.
pub(super) struct ChanceMatches {
    width: Width,
    max_distance: u8,
    max_entries: u64,
}

impl ChanceMatches {
    /// Takes them from the settings; `None` if the stage is not in use.
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        let rules = &settings.rules;
        let chance_matches = Self {
            width: settings.fingerprint.simhash.bits,
            max_distance: rules.max_distance,
            max_entries: rules.max_entries,
        };
        rules.stages.contains(&Stage::SimHash).then_some(chance_matches)
    }

    fn by_chance(&self) -> f64 {
        self.width.expected_chance_matches(self.max_distance, self.max_entries)
    }

    pub(super) fn line(&self) -> String {
        format!(
            "simhash: two texts match when at most {} of {} bits differ; by chance a page matches {} of {} originals\n\
             (assuming random codes; codes of real texts are closer)",
            self.max_distance,
            self.width.bits(),
            expected(self.by_chance()),
            self.max_entries
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "bits": self.width.bits(), "max_distance": self.max_distance, "max_entries": self.max_entries,
            "by_chance": self.by_chance(),
        })
    }
}
