//! Queries the backlog of the input for the worker: which records of each partition the group has not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::worker::{Backlog, Subscription, new_to_group};

use crate::fingerprint::Fingerprinter;
use crate::kafka::client::ClientSettings;
use crate::kafka::first_records::first_records;
use crate::kafka::group_consumer::Start;
use crate::kafka::offsets::Offsets;
use crate::processing::record_processor;
use crate::record::{EventTime, PartitionId};
use crate::runtime::clock::wall_time;

/// Time-out for reading the next records of the partitions; records that arrive later are left out.
const NEXT_RECORDS_TIMEOUT: Duration = Duration::from_secs(2);

/// Queries the backlog of all partitions of the input.
pub(crate) struct RemainingInput {
    pub(crate) offsets: Arc<Offsets>,
    /// Settings of the client that reads the next records.
    pub(crate) client: ClientSettings,
    /// Topics, or one pattern that starts with `^`.
    pub(crate) topics: Vec<String>,
    /// Finds the event time of a record.
    pub(crate) fingerprinter: Fingerprinter,
    /// Where it comes from, and how far it may be ahead of the record's own.
    pub(crate) event_time: (EventTime, Duration),
}

impl RemainingInput {
    /// Returns the backlog of each partition. For each partition in `heads`, it includes the event times of the next
    /// pages from that offset on. A partition without a committed offset begins at `start` if [`new_to_group`] says
    /// that it is new to the group, else at its first record. Partitions that do not answer are left out.
    ///
    /// # Errors
    ///
    /// No broker answers in time.
    pub(crate) fn ask(
        &self,
        heads: &BTreeMap<PartitionId, i64>,
        start: Start,
    ) -> anyhow::Result<BTreeMap<PartitionId, Backlog>> {
        let partitions = self.offsets.partitions(&self.topics)?;
        let committed = self.offsets.last_committed(&partitions)?;
        let mut next: BTreeMap<PartitionId, Option<i64>> =
            committed.into_iter().map(|(partition, known)| (partition, known.map(|known| known.offset))).collect();
        let new_to_group = new_to_group(&partitions, &next, subscription(&self.topics)).unwrap_or_default();
        let without = |is_new_to_group: bool| -> BTreeSet<PartitionId> {
            let without = next.iter().filter(|(_, offset)| offset.is_none()).map(|(partition, _)| partition);
            without.filter(|partition| new_to_group.contains(*partition) == is_new_to_group).cloned().collect()
        };
        let mut begins = self.offsets.starts(&without(true), start)?;
        begins.extend(self.offsets.starts(&without(false), Start::Earliest)?);
        next.extend(begins.into_iter().map(|(partition, offset)| (partition, Some(offset))));
        let ends = self.offsets.ends(&partitions)?;
        let records = first_records(&self.client, heads, Backlog::PAGES, NEXT_RECORDS_TIMEOUT)?;
        let now = wall_time();
        let backlog = |(partition, next): (PartitionId, Option<i64>)| {
            let (next, end) = (next?, *ends.get(&partition)?);
            let times = |record| record_processor::event_time(&self.fingerprinter, self.event_time, record).min(now);
            let head = records.get(&partition).map(|records| records.iter().map(times).collect());
            Some((partition, Backlog { next, end, head }))
        };
        Ok(next.into_iter().filter_map(backlog).collect())
    }
}

/// Returns whether the input is subscribed by topic names or by a pattern.
pub(crate) fn subscription(topics: &[String]) -> Subscription {
    let by_pattern = topics.iter().any(|topic| topic.starts_with('^'));
    if by_pattern { Subscription::Pattern } else { Subscription::Topics }
}
