//! Recall of the bands of the `minhash` stage, and their matches by chance.

use serde_json::{Value, json};

use crate::cli::output::{columns, expected};
use crate::config::settings::Settings;
use crate::fingerprint::{LowConfidence, Width};
use crate::protocol::{MinHashRules, Stage};
use crate::quality::{Chance, chances};

/// The Jaccard indices of the curve, in hundredths.
const HUNDREDTHS: [u8; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];

/// The bands in use, with their expected matches.
pub(super) struct Curve {
    minhash: MinHashRules,
    max_entries: u64,
    chances: Vec<Chance>,
}

impl Curve {
    /// Computes the curve from the settings; `None` if the stage is not in use.
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        let rules = &settings.rules;
        let minhash = rules.minhash.filter(|_| rules.stages.contains(&Stage::MinHash))?;
        let shingle = settings.fingerprint.minhash.shingle;
        let chances = chances(shingle, minhash.banding, minhash.least_keys(None), rules.max_entries);
        Some(Self { minhash, max_entries: rules.max_entries, chances })
    }

    fn recall(&self, hundredths: u8, min: u8) -> f64 {
        self.minhash.banding.recall(f64::from(hundredths) / 100.0, min)
    }

    pub(super) fn table(&self) -> String {
        let MinHashRules {
            form,
            banding,
            min_shared_bands,
            one_band_below,
            min_similarity,
            containment,
            low_confidence,
            ..
        } = self.minhash;
        let (slots, bits) = (form.slots(), form.bits().count());
        let row = |name: &str, cells: [String; 9]| std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>();
        let sharing = |min: u8| HUNDREDTHS.map(|hundredths| format!("{:.3}", self.recall(hundredths, min)));
        let mut curve = vec![
            row("jaccard", HUNDREDTHS.map(|hundredths| format!("{:.1}", f64::from(hundredths) / 100.0))),
            row(if containment.is_some() { "share 1, compared" } else { "share a key" }, sharing(1)),
        ];
        if min_shared_bands > 1 {
            let compared = if containment.is_some() { "" } else { ", compared" };
            curve.push(row(&format!("share {min_shared_bands}{compared}"), sharing(min_shared_bands)));
        }
        let originals = self.max_entries;
        let head = [format!("by chance among {originals}"), "share a key".into(), "compared".into(), "judge".into()];
        let chance = |chance: &Chance| {
            let microseconds = chance.nanoseconds(banding) / 1e3;
            let [found, compared] = [chance.found, chance.compared].map(|count| format!("{count:.0}"));
            vec![chance.kind.to_owned(), found, compared, format!("about {microseconds:.0} us a page")]
        };
        let chances = std::iter::once(head.to_vec()).chain(self.chances.iter().map(chance)).collect::<Vec<_>>();
        let by_chance = if self.chances.is_empty() {
            format!(
                "by chance among {originals}: not known for word shingles; `dupgate eval` measures it on your texts"
            )
        } else {
            columns(&chances)
        };
        format!(
            "minhash: {} bands of {} rows out of {slots} slots of {bits} bits; two texts match when they share {min_shared_bands} bands{} \
             and their\nsimilarity is estimated at {} or more{}{}{}\n\n{}\n\n{}",
            banding.bands(),
            banding.rows(),
            if min_shared_bands > 1 && one_band_below > 0 {
                format!(" (one, where the later has fewer than {one_band_below} shingles)")
            } else {
                String::new()
            },
            min_similarity,
            form.bottom().map_or_else(String::new, |k| format!(" by the {k} smallest hashes")),
            if low_confidence.below > min_similarity {
                let LowConfidence { below, containment, .. } = low_confidence;
                format!(
                    " (below {below} only with {containment} of the smaller in the other, or within {} bits)",
                    low_confidence.max_distance
                )
            } else {
                String::new()
            },
            containment.map_or_else(String::new, |min| {
                format!(", or when they share one band and {min} of the smaller\nis estimated to be in the other")
            }),
            columns(&curve),
            by_chance
        )
    }

    pub(super) fn json(&self) -> Value {
        let MinHashRules { banding, min_shared_bands, one_band_below, .. } = self.minhash;
        let min = self.minhash.least_keys(None);
        let point = |hundredths: &u8| {
            json!({
                "jaccard": f64::from(*hundredths) / 100.0,
                "share_a_key": self.recall(*hundredths, 1),
                "compared": self.recall(*hundredths, min),
            })
        };
        let chance = |chance: &Chance| {
            json!({
                "kind": chance.kind,
                "share_a_key": chance.found,
                "compared": chance.compared,
                "nanoseconds": chance.nanoseconds(banding),
            })
        };
        json!({
            "bands": banding.bands(), "rows": banding.rows(), "min_shared_bands": min_shared_bands,
            "one_band_below": one_band_below, "max_entries": self.max_entries,
            "curve": HUNDREDTHS.iter().map(point).collect::<Vec<_>>(),
            "by_chance": (!self.chances.is_empty()).then(|| self.chances.iter().map(chance).collect::<Vec<_>>()),
        })
    }
}

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
