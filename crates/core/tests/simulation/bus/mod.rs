//! A Kafka cluster in memory that the two roles cannot distinguish from a real one.
//!
//! It has partitions with offsets and start offsets, transactions with epochs and control markers, and consumer groups
//! with generations and two-phase rebalances. It has one owner, no threads and no clock: everything happens within a
//! call. It is as careless as real brokers: offsets sent in a transaction are checked for member and generation, not
//! for who owns the partition.

mod group;
mod partition;
#[cfg(test)]
mod tests;
mod transaction;

use std::collections::BTreeMap;

use dupgate_core::record::PartitionId;

pub(crate) use group::{Committed, MemberId, Notice};
pub(crate) use partition::{Fetched, SlotState};
pub(crate) use transaction::{CommittedOffset, CommittedTransaction, End};

use group::Group;
use partition::Partition;
use transaction::Producer;

/// Why a broker does not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The transactional id has a newer epoch, given to another process.
    Fenced,
    /// The coordinator gave up on the transaction and took a new epoch itself; the owner may take the next one.
    TimedOut,
    /// The group does not know the member.
    UnknownMember,
    /// The member has not seen the group's latest generation.
    IllegalGeneration,
    /// A newer process uses the member's instance id.
    FencedInstance,
}

/// The cluster. `V` is what a record holds.
#[derive(Debug)]
pub(crate) struct Bus<V> {
    partitions: BTreeMap<PartitionId, Partition<V>>,
    groups: BTreeMap<String, Group>,
    producers: BTreeMap<String, Producer>,
    journal: Vec<CommittedTransaction>,
    members_made: u64,
}

impl<V> Bus<V> {
    pub(crate) const fn new() -> Self {
        Self {
            partitions: BTreeMap::new(),
            groups: BTreeMap::new(),
            producers: BTreeMap::new(),
            journal: Vec::new(),
            members_made: 0,
        }
    }

    /// Takes partitions over from another cluster, with all that is in them.
    pub(crate) fn adopt(&mut self, mut other: Self, partitions: &[PartitionId]) {
        self.partitions.extend(partitions.iter().filter_map(|wanted| other.partitions.remove_entry(wanted)));
    }
}
