//! Ranges of offsets of the input, by partition.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::record::PartitionId;

pub(super) type Ranges = BTreeMap<PartitionId, Range<i64>>;

/// Lists the topics of partitions.
pub(super) fn names(partitions: &BTreeSet<PartitionId>) -> String {
    let topics: BTreeSet<&str> = partitions.iter().map(|partition| &*partition.topic).collect();
    topics.into_iter().collect::<Vec<_>>().join(", ")
}

/// The most partitions that an error lists.
const MAX_LISTED: usize = 5;

/// Lists what partitions hold: `pages:0 offsets 0 to 99`.
pub(super) fn listed(held: &Ranges) -> String {
    let ranges = held.iter().filter(|(_, range)| !range.is_empty());
    let more = if held.len() > MAX_LISTED { ", ..." } else { "" };
    let listed: Vec<String> = ranges
        .take(MAX_LISTED)
        .map(|(partition, range)| format!("{partition} offsets {} to {}", range.start, range.end - 1))
        .collect();
    listed.join(", ") + more
}

/// Shortens the ranges evenly, so that they hold this many records.
pub(super) fn cut(ranges: &mut Ranges, max_records: Option<u64>) {
    let Some(limit) = max_records else { return };
    let total: u64 = ranges.values().map(|range| u64::try_from(range.end - range.start).unwrap_or(0)).sum();
    if total <= limit || total == 0 {
        return;
    }
    for range in ranges.values_mut() {
        let length = u128::try_from(range.end - range.start).unwrap_or(0) * u128::from(limit) / u128::from(total);
        range.end = range.start + i64::try_from(length).unwrap_or(0);
    }
}
