//! Partitions: offsets, visibility, deletion.

use std::cell::Cell;

use dupgate_core::record::{PartitionId, Timestamp};

use super::Bus;

/// One partition. Deleted records stay here out of reach of `fetch`, so that a test can compare with them.
#[derive(Debug)]
pub(super) struct Partition<V> {
    pub(super) start: i64,
    pub(super) slots: Vec<Slot<V>>,
    /// Number of slots at the beginning that are known to be in no open transaction.
    stable: Cell<usize>,
    /// Records at its end were lost.
    is_truncated: bool,
}

/// What is at one offset.
#[derive(Debug)]
pub(crate) struct Slot<V> {
    pub(crate) timestamp: Timestamp,
    /// Absent for the marker that ends a transaction.
    pub(crate) value: Option<V>,
    pub(crate) state: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Committed,
    Open,
    Aborted,
}

/// What a committed reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fetched<V> {
    /// The next record that it may see.
    Record { offset: i64, timestamp: Timestamp, value: V },
    /// Nothing to see up to the last stable offset; the reader's position moves there.
    Nothing { position: i64 },
    /// The offset was deleted, or lies after the end.
    OutOfRange,
}

impl<V> Partition<V> {
    pub(super) fn end(&self) -> i64 {
        i64::try_from(self.slots.len()).unwrap()
    }

    pub(super) fn push(&mut self, timestamp: Timestamp, value: Option<V>, state: SlotState) -> i64 {
        self.slots.push(Slot { timestamp, value, state });
        self.end() - 1
    }

    fn stable_end(&self) -> i64 {
        let known = self.stable.get();
        let more = self.slots[known..].iter().take_while(|slot| slot.state != SlotState::Open).count();
        self.stable.set(known + more);
        i64::try_from(known + more).unwrap()
    }
}

impl<V> Bus<V> {
    /// Creates an empty partition.
    pub(crate) fn create(&mut self, partition: &PartitionId) {
        self.partitions.insert(
            partition.clone(),
            Partition { start: 0, slots: Vec::new(), stable: Cell::new(0), is_truncated: false },
        );
    }

    fn partition(&self, partition: &PartitionId) -> &Partition<V> {
        &self.partitions[partition]
    }

    /// Appends outside of any transaction.
    pub(crate) fn append(&mut self, partition: &PartitionId, timestamp: Timestamp, value: V) -> i64 {
        let partition = self.partitions.get_mut(partition).unwrap();
        partition.push(timestamp, Some(value), SlotState::Committed)
    }

    /// First offset that was not deleted.
    pub(crate) fn start(&self, partition: &PartitionId) -> i64 {
        self.partition(partition).start
    }

    /// Offset of the next append.
    pub(crate) fn end(&self, partition: &PartitionId) -> i64 {
        self.partition(partition).end()
    }

    /// The last stable offset: that of the first record of an open transaction, or the end.
    pub(crate) fn stable_end(&self, partition: &PartitionId) -> i64 {
        self.partition(partition).stable_end()
    }

    /// Everything ever written, deleted and aborted records included: for the test alone.
    pub(crate) fn slots(&self, partition: &PartitionId) -> &[Slot<V>] {
        &self.partition(partition).slots
    }

    /// Finds the first committed record at or after `from`.
    pub(crate) fn fetch(&self, partition: &PartitionId, from: i64) -> Fetched<&V> {
        let partition = self.partition(partition);
        if from < partition.start || from > partition.end() {
            return Fetched::OutOfRange;
        }
        let stable = partition.stable_end();
        for offset in from..stable {
            let slot = &partition.slots[usize::try_from(offset).unwrap()];
            if let (Some(value), SlotState::Committed) = (&slot.value, slot.state) {
                return Fetched::Record { offset, timestamp: slot.timestamp, value };
            }
        }
        Fetched::Nothing { position: from.max(stable) }
    }

    /// `DeleteRecords`: everything before `offset` is gone, at most up to the end.
    pub(crate) fn delete_before(&mut self, partition: &PartitionId, offset: i64) {
        let partition = self.partitions.get_mut(partition).unwrap();
        partition.start = partition.start.max(offset.min(partition.end()));
    }

    /// The partition loses everything from `offset` on: it is recreated, or a leader is elected that lacks its end.
    pub(crate) fn truncate(&mut self, partition: &PartitionId, offset: i64) {
        let partition = self.partitions.get_mut(partition).unwrap();
        partition.slots.truncate(usize::try_from(offset).unwrap());
        partition.stable.set(partition.stable.get().min(partition.slots.len()));
        partition.start = partition.start.min(offset);
        partition.is_truncated = true;
    }

    /// Returns whether the partition ever lost records at its end.
    pub(crate) fn is_truncated(&self, partition: &PartitionId) -> bool {
        self.partition(partition).is_truncated
    }

    /// First offset still held whose timestamp is not earlier than `time`.
    pub(crate) fn offset_for_time(&self, partition: &PartitionId, time: Timestamp) -> Option<i64> {
        let partition = self.partition(partition);
        let at = |offset: &i64| partition.slots[usize::try_from(*offset).unwrap()].timestamp;
        (partition.start..partition.end()).find(|offset| at(offset) >= time)
    }
}
