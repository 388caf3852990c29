//! What a change of each key affects. A test keeps the table equal to what a change of each key is seen to affect.

use std::fmt;

use super::values::words;

words! {
    /// What a change of a key affects, most costly first.
    ChangeImpact {
        /// The key decides which group and which logs hold the state: with another value, the service starts without
        /// state.
        State = "state",
        /// The key is part of the scheme, which decides fingerprints: another value starts a new index.
        Scheme = "scheme",
        /// The key is part of the rules, which decide verdicts: another value applies from the next verdict on.
        Rules = "rules",
        /// The key decides only how the work is done: another value takes effect at a restart.
        Work = "work",
    }
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

impl fmt::Display for ChangeImpact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
