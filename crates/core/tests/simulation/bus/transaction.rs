//! Transactions: epochs, fencing, commit and abort.

use std::collections::BTreeMap;

use dupgate_core::record::{PartitionId, Timestamp};

use super::group::Committed;
use super::partition::SlotState;
use super::{Bus, MemberId, Refused};

/// What the coordinator knows of one transactional id.
#[derive(Debug, Default)]
pub(super) struct Producer {
    epoch: u32,
    open: Option<Open>,
    /// How the latest transaction of this epoch ended: a repeated call gets the same answer.
    ended: Option<End>,
    /// The latest epoch was taken by the coordinator, not by a process.
    timed_out: bool,
}

#[derive(Debug, Default)]
struct Open {
    records: Vec<(PartitionId, i64)>,
    offsets: Vec<(String, BTreeMap<PartitionId, Committed>)>,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Abort,
}

/// What one commit made visible: for the test alone.
#[derive(Clone, Debug)]
pub(crate) struct CommittedTransaction {
    pub(crate) id: String,
    pub(crate) records: Vec<(PartitionId, i64)>,
    pub(crate) offsets: Vec<CommittedOffset>,
}

/// One position that a commit moved.
#[derive(Clone, Debug)]
pub(crate) struct CommittedOffset {
    pub(crate) group: String,
    pub(crate) partition: PartitionId,
    pub(crate) before: Option<i64>,
    pub(crate) after: i64,
}

impl<V> Bus<V> {
    /// Takes over a transactional id: aborts what is open and fences every earlier epoch.
    pub(crate) fn init_producer(&mut self, id: &str) -> u32 {
        self.end_open(id, End::Abort);
        let producer = self.producers.entry(id.to_owned()).or_default();
        producer.epoch += 1;
        producer.ended = None;
        producer.timed_out = false;
        producer.epoch
    }

    /// Takes the next epoch after the coordinator timed the transaction out, unless another producer did.
    pub(crate) fn recover_producer(&mut self, id: &str, epoch: u32) -> Result<u32, Refused> {
        match self.check_epoch(id, epoch) {
            Err(Refused::TimedOut) => Ok(self.init_producer(id)),
            Err(refused) => Err(refused),
            Ok(()) => Ok(epoch),
        }
    }

    fn check_epoch(&self, id: &str, epoch: u32) -> Result<(), Refused> {
        let producer = self.producers.get(id).ok_or(Refused::Fenced)?;
        match producer.epoch - epoch {
            0 => Ok(()),
            1 if producer.timed_out => Err(Refused::TimedOut),
            _ => Err(Refused::Fenced),
        }
    }

    /// Appends in the id's transaction, which the first append opens.
    pub(crate) fn produce(
        &mut self,
        id: &str,
        epoch: u32,
        partition: &PartitionId,
        timestamp: Timestamp,
        value: V,
    ) -> Result<i64, Refused> {
        self.check_epoch(id, epoch)?;
        let log = self.partitions.get_mut(partition).unwrap();
        let offset = log.push(timestamp, Some(value), SlotState::Open);
        self.open(id).records.push((partition.clone(), offset));
        Ok(offset)
    }

    /// Adds consumed offsets to the transaction. Member and generation are checked, ownership is not.
    pub(crate) fn send_offsets(
        &mut self,
        (id, epoch): (&str, u32),
        group: &str,
        (member, generation): (&MemberId, u32),
        offsets: BTreeMap<PartitionId, Committed>,
    ) -> Result<(), Refused> {
        self.check_epoch(id, epoch)?;
        self.group(group).check(member, generation)?;
        self.open(id).offsets.push((group.to_owned(), offsets));
        Ok(())
    }

    /// Ends the transaction. A transaction without records and offsets is none: the call succeeds.
    pub(crate) fn end_transaction(&mut self, id: &str, epoch: u32, end: End) -> Result<(), Refused> {
        self.check_epoch(id, epoch)?;
        self.end_open(id, end);
        Ok(())
    }

    /// The coordinator loses patience with an open transaction: aborts it and takes the next epoch.
    pub(crate) fn time_out(&mut self, id: &str) {
        if self.is_open(id) {
            self.end_open(id, End::Abort);
            let producer = self.producers.get_mut(id).unwrap();
            producer.epoch += 1;
            producer.timed_out = true;
        }
    }

    /// Returns the epoch of the producer that has this id.
    pub(crate) fn epoch_of(&self, id: &str) -> Option<u32> {
        self.producers.get(id).map(|producer| producer.epoch)
    }

    /// Returns whether the id has an open transaction.
    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.producers.get(id).is_some_and(|producer| producer.open.is_some())
    }

    /// The ids with an open transaction.
    pub(crate) fn open_transactions(&self) -> Vec<String> {
        self.producers.iter().filter(|(_, producer)| producer.open.is_some()).map(|(id, _)| id.clone()).collect()
    }

    /// Returns whether an open transaction holds an offset of this partition: a stable fetch waits for it.
    pub(crate) fn is_pending(&self, group: &str, partition: &PartitionId) -> bool {
        let open = self.producers.values().filter_map(|producer| producer.open.as_ref());
        open.flat_map(|open| &open.offsets).any(|(of, offsets)| of == group && offsets.contains_key(partition))
    }

    /// The commits since the last look.
    pub(crate) fn take_journal(&mut self) -> Vec<CommittedTransaction> {
        std::mem::take(&mut self.journal)
    }

    fn open(&mut self, id: &str) -> &mut Open {
        self.producers.get_mut(id).unwrap().open.get_or_insert_default()
    }

    fn end_open(&mut self, id: &str, end: End) {
        let Some(producer) = self.producers.get_mut(id) else { return };
        producer.ended = Some(end);
        let Some(open) = producer.open.take() else { return };
        let state = if end == End::Commit { SlotState::Committed } else { SlotState::Aborted };
        let mut marked: Vec<&PartitionId> = Vec::new();
        for (partition, offset) in &open.records {
            let log = self.partitions.get_mut(partition).unwrap();
            let slot = &mut log.slots[usize::try_from(*offset).unwrap()];
            slot.state = state;
            let timestamp = slot.timestamp;
            if !marked.contains(&partition) {
                marked.push(partition);
                log.push(timestamp, None, SlotState::Committed);
            }
        }
        if end == End::Abort {
            return;
        }
        let mut moved = Vec::new();
        for (group, offsets) in open.offsets {
            for (partition, committed) in offsets {
                let after = committed.offset;
                let before = self.group_mut(&group).commit(&partition, committed);
                moved.push(CommittedOffset { group: group.clone(), partition, before, after });
            }
        }
        self.journal.push(CommittedTransaction { id: id.to_owned(), records: open.records, offsets: moved });
    }
}
