//! For each partition, the offset at which its next owner would begin; lags count from there.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::PartitionId;

/// Settled offsets of our partitions.
#[derive(Debug, Default)]
pub(super) struct SettledOffsets {
    partitions: BTreeMap<PartitionId, Settled>,
}

/// Read and committed positions of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Settled {
    /// The group's committed offset, as far as we have read or committed it.
    committed: Option<i64>,
    /// Where reading began, which counts while the group has no committed offset.
    first: Option<i64>,
    /// The offset after the last record that was handed over.
    read: Option<i64>,
    /// The end of the partition when reading last reached it. Transaction markers and aborted records are before it,
    /// though they are never handed over.
    end: Option<i64>,
}

impl Settled {
    /// Returns the settled offset. If the group has no committed offset, it is unknown until reading has begun, because
    /// `input.start` decides where. Once everything that was read is settled, markers after it do not count as lag.
    fn settled(&self) -> Option<i64> {
        let settled = self.committed.or(self.first)?;
        let all_is_settled = self.read.is_none_or(|read| settled >= read);
        Some(self.end.filter(|_| all_is_settled).map_or(settled, |end| end.max(settled)))
    }
}

impl SettledOffsets {
    /// Stores the group's committed offsets.
    pub(super) fn answered(&mut self, offsets: &BTreeMap<PartitionId, Option<i64>>) {
        for (partition, offset) in offsets {
            let progress = self.partitions.entry(partition.clone()).or_default();
            if offset.is_none() && progress.committed.is_some() {
                // The topic was recreated: earlier positions are meaningless.
                *progress = Settled::default();
            }
            progress.committed = *offset;
        }
    }

    /// Notes that this offset was committed.
    pub(super) fn committed(&mut self, partition: &PartitionId, offset: i64) {
        self.at(partition, |progress| progress.committed = Some(offset));
    }

    /// Returns the group's committed offset, as far as we have read or committed it.
    pub(super) fn committed_offset(&self, partition: &PartitionId) -> Option<i64> {
        self.partitions.get(partition)?.committed
    }

    /// Notes that reading starts at this offset.
    pub(super) fn started(&mut self, partition: &PartitionId, offset: i64) {
        self.at(partition, |progress| {
            progress.first.get_or_insert(offset);
        });
    }

    /// Notes that the record at this offset was handed over.
    pub(super) fn read(&mut self, partition: &PartitionId, offset: i64) {
        self.at(partition, |progress| {
            progress.first.get_or_insert(offset);
            progress.read = progress.read.max(Some(offset + 1));
        });
    }

    /// Notes that everything before this offset was handed over.
    pub(super) fn ended(&mut self, partition: &PartitionId, offset: i64) {
        self.at(partition, |progress| progress.end = progress.end.max(Some(offset)));
    }

    /// Notes that the partition was recreated.
    pub(super) fn out_of_range(&mut self, partition: &PartitionId) {
        self.at(partition, |progress| (progress.read, progress.end) = (None, None));
    }

    /// Drops partitions that are no longer ours.
    pub(super) fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.partitions.retain(|partition, _| !partitions.contains(partition));
    }

    /// Returns where the next owner of each of these partitions would begin; `None` if this is not known.
    pub(super) fn of<'a>(
        &self,
        partitions: impl IntoIterator<Item = &'a PartitionId>,
    ) -> Vec<(PartitionId, Option<i64>)> {
        let settled = |partition| self.partitions.get(partition).and_then(Settled::settled);
        partitions.into_iter().map(|partition| (partition.clone(), settled(partition))).collect()
    }

    fn at(&mut self, partition: &PartitionId, act: impl FnOnce(&mut Settled)) {
        if let Some(progress) = self.partitions.get_mut(partition) {
            act(progress);
        }
    }
}

/// Returns the blocked partitions whose lag counts from their first record, because the group has no offset there, or
/// one that is after the end.
pub(super) fn unsettled(
    settled: &[(PartitionId, Option<i64>)],
    ends: &BTreeMap<PartitionId, i64>,
    blocked: &BTreeSet<PartitionId>,
) -> BTreeSet<PartitionId> {
    let is_past = |partition, settled| ends.get(partition).is_some_and(|end| settled > *end);
    let of_blocked = settled.iter().filter(|(partition, _)| blocked.contains(partition));
    let unsettled = of_blocked.filter(|(partition, settled)| settled.is_none_or(|settled| is_past(partition, settled)));
    unsettled.map(|(partition, _)| partition.clone()).collect()
}

/// Returns the lag of each partition: from its offset in `starts`, else from its settled offset, to its end. A
/// partition with neither has no lag; one whose end is not known is left out.
pub(super) fn lags(
    settled: &[(PartitionId, Option<i64>)],
    ends: &BTreeMap<PartitionId, i64>,
    starts: &BTreeMap<PartitionId, i64>,
) -> BTreeMap<PartitionId, u64> {
    let of = |(partition, settled): &(PartitionId, Option<i64>)| {
        let settled = starts.get(partition).copied().or(*settled);
        let lag = settled.map_or(Some(0), |settled| Some(ends.get(partition)?.saturating_sub(settled).max(0)))?;
        Some((partition.clone(), lag.unsigned_abs()))
    };
    settled.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> PartitionId {
        PartitionId::new("pages", 0)
    }

    fn with(committed: Option<i64>) -> SettledOffsets {
        let mut offsets = SettledOffsets::default();
        offsets.answered(&BTreeMap::from([(pages(), committed)]));
        offsets
    }

    fn lag(offsets: &SettledOffsets, end: i64) -> Option<u64> {
        lags(&offsets.of([&pages()]), &BTreeMap::from([(pages(), end)]), &BTreeMap::new()).remove(&pages())
    }

    #[test]
    fn lag_counts_from_the_committed_offset_and_without_one_is_not_the_whole_log() {
        let mut read_further = with(Some(40));
        (40..90).for_each(|offset| read_further.read(&pages(), offset));
        assert_eq!(lag(&read_further, 100), Some(60));
        let mut begun = with(None);
        assert_eq!(lag(&begun, 5000), Some(0), "`start: latest` without an offset, and no record since");
        begun.started(&pages(), 90);
        assert_eq!(lag(&begun, 100), Some(10));
        assert_eq!(lag(&with(Some(9)), 7), Some(0));
        let nothing = BTreeMap::new();
        assert_eq!(
            lags(&with(Some(1)).of([&pages()]), &nothing, &nothing),
            BTreeMap::new(),
            "an end that is not known"
        );
    }

    #[test]
    fn lag_of_a_blocked_partition_without_a_valid_offset_counts_from_its_first_record() {
        let (ends, blocked) = (BTreeMap::from([(pages(), 1000)]), BTreeSet::from([pages()]));
        for (committed, expected) in [(None, 990), (Some(1001), 990), (Some(300), 700), (Some(1000), 0)] {
            let settled = with(committed).of([&pages()]);
            let starts = unsettled(&settled, &ends, &blocked).into_iter().map(|partition| (partition, 10)).collect();
            assert_eq!(lags(&settled, &ends, &starts), BTreeMap::from([(pages(), expected)]), "{committed:?}");
            assert_eq!(unsettled(&settled, &ends, &BTreeSet::new()), BTreeSet::new(), "it is not blocked");
        }
    }

    #[test]
    fn pages_in_flight_count_as_lag() {
        let mut offsets = with(Some(40));
        (40..90).for_each(|offset| offsets.read(&pages(), offset));
        // Pages that waited for a slower partition were dropped, and are read again.
        offsets.started(&pages(), 80);
        assert_eq!(lag(&offsets, 100), Some(60));
        offsets.committed(&pages(), 70);
        assert_eq!(lag(&offsets, 100), Some(30));
    }

    #[test]
    fn aborted_records_after_the_last_one_are_not_lag() {
        let mut offsets = with(Some(40));
        (40..50).for_each(|offset| offsets.read(&pages(), offset));
        offsets.ended(&pages(), 600);
        assert_eq!(lag(&offsets, 600), Some(560), "ten of them wait");
        offsets.committed(&pages(), 50);
        assert_eq!(lag(&offsets, 600), Some(0));
        assert_eq!(lag(&offsets, 603), Some(3), "later records");
        offsets.read(&pages(), 600);
        assert_eq!(lag(&offsets, 603), Some(553), "one of them is in flight");
        // Nothing but aborted records since the group's offset.
        let mut idle = with(Some(40));
        idle.ended(&pages(), 600);
        assert_eq!(lag(&idle, 600), Some(0));
    }

    #[test]
    fn positions_of_a_topic_are_reset_when_it_is_recreated() {
        let mut offsets = with(Some(40));
        offsets.read(&pages(), 40);
        offsets.committed(&pages(), 41);
        offsets.ended(&pages(), 600);
        offsets.answered(&BTreeMap::from([(pages(), None)]));
        offsets.started(&pages(), 0);
        assert_eq!(lag(&offsets, 7), Some(7));
        let mut cut = with(Some(40));
        cut.ended(&pages(), 600);
        cut.out_of_range(&pages());
        assert_eq!(lag(&cut, 45), Some(5));
        cut.forget(&BTreeSet::from([pages()]));
        assert_eq!(cut.of([&pages()]), [(pages(), None)]);
    }
}
