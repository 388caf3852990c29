//! The membership of the group: the id of the member, what is sent with offsets, and partitions that no member owns
//! although the group is stable.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::{Arc, Weak};

use rdkafka::bindings::{rd_kafka_mem_free, rd_kafka_memberid};
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, TopicPartitionList};

use super::Context;
use crate::kafka::client::LoggingContext;
use crate::record::PartitionId;

/// Number of consecutive checks that must find a partition unassigned before we rejoin. It doubles after each rejoin
/// that did not help.
const MIN_CHECKS: u32 = 2;

/// Upper bound of that number. By then a group leader knows of partitions that were just created. Partitions that are
/// still unassigned are ignored: the group should not own them (a pattern may match more for us than for the client).
const MAX_CHECKS: u32 = 32;

/// A member's group membership, as sent with offsets.
///
/// Brokers check the member and its generation, but not whether the member owns the partition. So a membership is valid
/// only for an owner that has heard of every loss so far: after a loss the member has a new generation, and under it
/// brokers would accept offsets of partitions that now belong to another member. The owner gets the new membership
/// after the event of the loss. A membership is also valid only while the member id is that of the assignment: another
/// id means a loss that was not reported yet.
#[derive(Clone, Default)]
pub struct Membership {
    pub(super) consumer: Weak<BaseConsumer<Context>>,
    pub(super) loss_epoch: u64,
    /// The client of a process that commits offsets without having joined the group.
    pub(super) outside: Option<Arc<BaseConsumer<LoggingContext>>>,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("loss_epoch", &self.loss_epoch).finish_non_exhaustive()
    }
}

impl Membership {
    /// Creates the membership of a process that commits offsets for a group without joining it. Brokers accept them
    /// only while the group has no members.
    ///
    /// # Errors
    ///
    /// The client cannot be created from these settings.
    pub fn outside(config: &ClientConfig) -> KafkaResult<Self> {
        Ok(Self { outside: Some(Arc::new(config.create_with_context(LoggingContext(()))?)), ..Self::default() })
    }

    /// Returns the member and its generation; `None` after it has left the group, or after a loss that the owner has
    /// not heard of.
    pub(in super::super) fn metadata(&self) -> Option<ConsumerGroupMetadata> {
        if let Some(outside) = &self.outside {
            return outside.group_metadata();
        }
        let consumer = self.consumer.upgrade()?;
        let metadata = consumer.group_metadata();
        // Check only after the generation was read: a later loss makes that generation invalid.
        let known = !consumer.context().is_retired() && self.is_known_to(&consumer);
        metadata.filter(|_| known)
    }

    /// Returns whether the owner of this membership knows of every loss so far.
    fn is_known_to(&self, consumer: &BaseConsumer<Context>) -> bool {
        // Ids are never reused, so an equal id is also that of the generation that was read.
        let id = member_id(consumer.client());
        let fetch_states = consumer.context().fetch_states();
        fetch_states.loss_epoch == self.loss_epoch && fetch_states.member == id
    }

    /// Commits offsets without a transaction.
    pub(in super::super) fn commit(&self, offsets: &TopicPartitionList) -> KafkaResult<()> {
        match self.consumer.upgrade().filter(|consumer| self.is_known_to(consumer)) {
            Some(consumer) => consumer.commit(offsets, CommitMode::Sync),
            None => Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId)),
        }
    }
}

/// Returns the id that the coordinator has given to this member. `None` if it has none, as before the first join.
#[expect(unsafe_code, reason = "the client library's binding has no safe form of this question")]
pub(super) fn member_id<C: ClientContext>(client: &Client<C>) -> Option<Box<str>> {
    let native = client.native_ptr();
    // SAFETY: the client lives as long as it is borrowed, and may be called from any thread.
    let given = unsafe { rd_kafka_memberid(native) };
    if given.is_null() {
        return None;
    }
    // SAFETY: it is not null, so it is a NUL-terminated string that we own until it is freed below.
    let id: Box<str> = unsafe { CStr::from_ptr(given) }.to_string_lossy().into();
    // SAFETY: the client allocated it for us, and it is not used afterwards.
    unsafe { rd_kafka_mem_free(native, given.cast()) };
    Some(id).filter(|id| !id.is_empty())
}

/// The checks of one member.
#[derive(Debug)]
pub struct UnassignedPartitions {
    missing: BTreeSet<PartitionId>,
    checks: u32,
    timeout: u32,
    /// Partitions for which rejoining did not help.
    given_up: BTreeSet<PartitionId>,
}

impl Default for UnassignedPartitions {
    fn default() -> Self {
        Self { missing: BTreeSet::new(), checks: 0, timeout: MIN_CHECKS, given_up: BTreeSet::new() }
    }
}

impl UnassignedPartitions {
    /// Runs one check. `all` are the existing partitions, `shares` those of each member of a stable group (`None`
    /// during a rebalance), `own` those of this member. Returns the partitions for which this member should rejoin.
    pub fn look(
        &mut self,
        all: &BTreeSet<PartitionId>,
        shares: Option<&[BTreeSet<PartitionId>]>,
        own: &BTreeSet<PartitionId>,
    ) -> BTreeSet<PartitionId> {
        // A rebalance is under way.
        let Some(shares) = shares else {
            self.missing.clear();
            return BTreeSet::new();
        };
        let is_unowned = |partition: &&PartitionId| !shares.iter().any(|share| share.contains(partition));
        self.given_up.retain(|partition| is_unowned(&partition));
        let unowned = all.iter().filter(is_unowned).filter(|partition| !self.given_up.contains(partition));
        let unowned: BTreeSet<PartitionId> = unowned.cloned().collect();
        let still: BTreeSet<PartitionId> = self.missing.intersection(&unowned).cloned().collect();
        self.checks = if still.is_empty() { u32::from(!unowned.is_empty()) } else { self.checks + 1 };
        self.missing = if still.is_empty() { unowned } else { still };
        if self.missing.is_empty() {
            self.timeout = MIN_CHECKS;
        }
        if self.checks < self.timeout || self.missing.is_empty() || !is_least(own, shares) {
            return BTreeSet::new();
        }
        self.checks = 0;
        let missing = std::mem::take(&mut self.missing);
        if self.timeout < MAX_CHECKS {
            self.timeout *= 2;
        } else {
            self.timeout = MIN_CHECKS;
            self.given_up.extend(missing.iter().cloned());
        }
        missing
    }
}

/// Returns whether this member should be the one that rejoins: it owns the least, and a member that rejoins does
/// without its partitions for a moment.
fn is_least(own: &BTreeSet<PartitionId>, shares: &[BTreeSet<PartitionId>]) -> bool {
    shares.iter().map(|share| (share.len(), share)).min().is_none_or(|min| (own.len(), own) <= min)
}

/// Parses a member's assignment as consumers write it (`ConsumerProtocolAssignment`); `None` for other bytes.
pub(in crate::kafka) fn share_of(assignment: &[u8]) -> Option<BTreeSet<PartitionId>> {
    let mut rest = assignment;
    let mut owned = BTreeSet::new();
    // A member without partitions may have no bytes at all.
    if rest.is_empty() {
        return Some(owned);
    }
    let _version = take::<2>(&mut rest)?;
    for _ in 0..i32::from_be_bytes(take(&mut rest)?) {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, after) = rest.split_at_checked(length)?;
        rest = after;
        let topic: Arc<str> = Arc::from(std::str::from_utf8(name).ok()?);
        for _ in 0..i32::from_be_bytes(take(&mut rest)?) {
            owned.insert(PartitionId::new(Arc::clone(&topic), i32::from_be_bytes(take(&mut rest)?)));
        }
    }
    Some(owned)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[i32]) -> BTreeSet<PartitionId> {
        partitions.iter().map(|&number| PartitionId::new(Arc::from("pages"), number)).collect()
    }

    /// Results of repeated checks by the member that owns the first share.
    fn checks(unassigned: &mut UnassignedPartitions, shares: &[&[i32]], times: usize) -> Vec<BTreeSet<PartitionId>> {
        let shares: Vec<_> = shares.iter().map(|share| set(share)).collect();
        (0..times).map(|_| unassigned.look(&set(&[0, 1, 2, 3]), Some(&shares), &shares[0])).collect()
    }

    #[test]
    fn a_partition_that_stays_unassigned_makes_the_member_with_the_least_rejoin() {
        let mut idle = UnassignedPartitions::default();
        assert_eq!(checks(&mut idle, &[&[], &[0, 1], &[2]], 2), [set(&[]), set(&[3])]);
        assert_eq!(checks(&mut idle, &[&[3], &[0, 1], &[2]], 9), vec![set(&[]); 9]);
        // Another member has less.
        assert_eq!(checks(&mut UnassignedPartitions::default(), &[&[0, 1], &[2]], 9), vec![set(&[]); 9]);
        // Only one of equals rejoins.
        assert_eq!(checks(&mut UnassignedPartitions::default(), &[&[0], &[1], &[2]], 2)[1], set(&[3]));
        assert_eq!(checks(&mut UnassignedPartitions::default(), &[&[1], &[0], &[2]], 9), vec![set(&[]); 9]);
    }

    #[test]
    fn useless_rejoins_back_off_and_then_end() {
        let mut unassigned = UnassignedPartitions::default();
        let rejoins = checks(&mut unassigned, &[&[0], &[1, 2]], 200).into_iter().enumerate();
        let rejoins: Vec<usize> =
            rejoins.filter(|(_, missing)| !missing.is_empty()).map(|(look, _)| look + 1).collect();
        assert_eq!(rejoins, [2, 6, 14, 30, 62]);
        // Another partition is noticed soon, and so is the first once it has had an owner.
        assert_eq!(checks(&mut unassigned, &[&[0], &[1]], 2)[1], set(&[2]));
        checks(&mut unassigned, &[&[0], &[1, 2, 3]], 1);
        assert_eq!(checks(&mut unassigned, &[&[0], &[1, 2]], 2)[1], set(&[3]));
    }

    #[test]
    fn a_rebalancing_group_is_not_checked() {
        let mut unassigned = UnassignedPartitions::default();
        let (all, shares) = (set(&[0, 1]), [set(&[0])]);
        for _ in 0..9 {
            assert_eq!(unassigned.look(&all, Some(&shares), &shares[0]), set(&[]));
            assert_eq!(unassigned.look(&all, None, &shares[0]), set(&[]));
        }
        // Nor is one where another partition is missing at each check.
        for missing in [0, 1, 0, 1, 0, 1] {
            assert_eq!(unassigned.look(&all, Some(&[set(&[1 - missing])]), &set(&[])), set(&[]));
        }
    }

    #[test]
    fn an_assignment_is_read_as_consumers_write_it() {
        let bytes =
            b"\0\x01\0\0\0\x02\0\x05pages\0\0\0\x02\0\0\0\0\0\0\0\x03\0\x01x\0\0\0\x01\0\0\0\x07\xff\xff\xff\xff";
        let mut owned = set(&[0, 3]);
        owned.insert(PartitionId::new(Arc::from("x"), 7));
        assert_eq!(share_of(bytes), Some(owned));
        assert_eq!(share_of(b""), Some(set(&[])));
        assert_eq!(share_of(b"\0\0\0\0\0\0\xff\xff\xff\xff"), Some(set(&[])));
        for cut in 1..bytes.len() - 4 {
            assert_eq!(share_of(&bytes[..cut]), None, "{cut}");
        }
    }
}
