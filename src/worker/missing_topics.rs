//! Detects input topics that do not exist, or no longer exist.

use std::collections::BTreeSet;

use crate::record::PartitionId;

/// The named topics that had no partitions at the last look.
#[derive(Debug, Default)]
pub(super) struct MissingTopics(BTreeSet<String>);

impl MissingTopics {
    /// Compares the configured topics, names or a pattern, with all partitions that exist. Returns the named topics
    /// that are missing now and were missing at the last look: a single answer may come from a broker whose metadata is
    /// out of date.
    pub(super) fn look(&mut self, topics: &[String], all: &BTreeSet<PartitionId>) -> BTreeSet<String> {
        let is_known = |topic: &str| all.iter().any(|partition| *partition.topic == *topic);
        let named = topics.iter().filter(|topic| !topic.starts_with('^'));
        let missing: BTreeSet<String> = named.filter(|topic| !is_known(topic)).cloned().collect();
        let before = std::mem::replace(&mut self.0, missing);
        before.intersection(&self.0).cloned().collect()
    }

    /// Returns whether any topic was missing at the last look.
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_topic_is_missing_after_two_looks_without_its_partitions() {
        let topics = ["a", "b", "^c.*"].map(str::to_owned);
        let partitions = |names: &[&str]| names.iter().map(|name| PartitionId::new(*name, 0)).collect();
        let mut missing = MissingTopics::default();
        assert_eq!(missing.look(&topics, &partitions(&["a", "b", "cc"])), BTreeSet::new());
        assert!(!missing.is_any());
        assert_eq!(missing.look(&topics, &partitions(&["a"])), BTreeSet::new(), "by the answer of one broker");
        assert!(missing.is_any());
        assert_eq!(missing.look(&topics, &partitions(&["a"])), BTreeSet::from(["b".to_owned()]));
        assert_eq!(missing.look(&topics, &partitions(&["b"])), BTreeSet::new());
    }
}
