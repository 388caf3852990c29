//! Finds partitions that no member owns although the group is stable.
//!
//! A cooperative rebalance takes two rounds. In the first, a member gives up the partitions that move; it then triggers
//! the second, in which they go to their new owners. If this member is static and is replaced between the two rounds
//! (its process was killed, or its client lost the brokers), it joins without a rebalance, as static members do, and no
//! member triggers the second round: the partitions would wait until another member joins or leaves. So members check
//! periodically, and one that finds a partition unassigned in two consecutive checks rejoins.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::record::PartitionId;

/// Number of consecutive checks that must find a partition unassigned before we rejoin. It doubles after each rejoin
/// that did not help.
const MIN_CHECKS: u32 = 2;

/// Upper bound of that number. By then a group leader knows of partitions that were just created. Partitions that are
/// still unassigned are ignored: the group should not own them (a pattern may match more for us than for the client).
const MAX_CHECKS: u32 = 32;

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
pub(super) fn share_of(assignment: &[u8]) -> Option<BTreeSet<PartitionId>> {
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
