//! The worker's place in the input group: when it joins, what it hands over, when it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::record::PartitionId;

/// Joining, draining and leaving.
#[derive(Debug, Default)]
pub(super) struct Membership {
    joined: bool,
    /// Partitions that begin at the configured start if the group has no offset for them; not known at first.
    new_to_group: Option<BTreeSet<PartitionId>>,
    draining: Option<Draining>,
    /// When to leave at the latest.
    stop_by: Option<Duration>,
    /// Leave when all pages that were read of this partition are taken in.
    stop_after: Option<PartitionId>,
    stopped: bool,
    /// Fetches of committed offsets that are not answered.
    fetches: usize,
}

/// Partitions that are being revoked.
#[derive(Debug)]
struct Draining {
    partitions: BTreeSet<PartitionId>,
    until: Duration,
}

impl Membership {
    /// Joins, once all is known that has to be before. Returns whether that is to be done now.
    pub(super) fn join(&mut self, is_ready: bool) -> bool {
        let joins = is_ready && self.new_to_group.is_some() && !self.joined && self.stop_by.is_none();
        self.joined |= joins;
        joins
    }

    /// Returns whether it is in the group.
    pub(super) fn is_joined(&self) -> bool {
        self.joined
    }

    // ---- offsets

    /// These partitions begin at the configured start if the group has no offset for them.
    pub(super) fn learn_new_to_group(&mut self, partitions: BTreeSet<PartitionId>) {
        self.new_to_group = Some(partitions);
    }

    /// The group has an offset of this partition, or had one: a partition of this name that has none was recreated, and
    /// begins at its beginning.
    pub(super) fn has_begun(&mut self, partition: &PartitionId) {
        if let Some(new_to_group) = &mut self.new_to_group {
            new_to_group.remove(partition);
        }
    }

    pub(super) fn is_new_to_group(&self, partition: &PartitionId) -> bool {
        self.new_to_group.as_ref().is_some_and(|new_to_group| new_to_group.contains(partition))
    }

    /// Committed offsets are asked for.
    pub(super) fn fetches(&mut self) {
        self.fetches += 1;
    }

    /// Committed offsets were answered. Returns whether the answer counts: the last one does, for it was asked for all
    /// that is needed.
    pub(super) fn fetched(&mut self) -> bool {
        self.fetches = self.fetches.saturating_sub(1);
        self.fetches == 0
    }

    // ---- handing over

    /// These partitions are revoked: what is complete of them may be committed until then.
    pub(super) fn drain(&mut self, partitions: BTreeSet<PartitionId>, until: Duration) {
        self.draining = Some(Draining { partitions, until });
    }

    /// Returns the partitions that are being revoked, and whether their time is over.
    pub(super) fn draining(&self, now: Duration) -> Option<(&BTreeSet<PartitionId>, bool)> {
        self.draining.as_ref().map(|draining| (&draining.partitions, now >= draining.until))
    }

    /// The revoked partitions are given up. Returns them, if there are any.
    pub(super) fn drained(&mut self) -> Option<BTreeSet<PartitionId>> {
        self.draining.take().map(|draining| draining.partitions)
    }

    // ---- leaving

    /// It is to leave, by then at the latest. The first word counts.
    pub(super) fn stop(&mut self, by: Duration) {
        self.stop_by.get_or_insert(by);
    }

    /// It is to leave when all pages that were read of this partition are taken in.
    pub(super) fn stop_after(&mut self, partition: PartitionId) {
        self.stop_after = Some(partition);
    }

    /// Returns whether that is so now.
    pub(super) fn takes_stop_after(&mut self, is_taken_in: impl Fn(&PartitionId) -> bool) -> bool {
        self.stop_after.take_if(|partition| is_taken_in(partition)).is_some()
    }

    /// Returns whether it is to leave.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop_by.is_some()
    }

    /// Returns whether it is to leave, and if so, whether its time is over.
    pub(super) fn stopping(&self, now: Duration) -> Option<bool> {
        self.stop_by.map(|by| now >= by)
    }

    /// Everything that can be delivered is.
    pub(super) fn stopped(&mut self) {
        self.stopped = true;
    }

    /// Returns whether it has stopped for good.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns whether what is complete goes out without waiting for its time.
    pub(super) fn hurries(&self) -> bool {
        self.draining.is_some() || self.is_stopping()
    }
}

/// How the topics of the input are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// One by one: a topic that the group has no offset of is new to it.
    Topics,
    /// By a pattern: once the group has an offset of any topic, another one is a topic that appeared later.
    Pattern,
}

/// Returns the partitions that begin at `input.start` when the group has no offset for them: those that were there when
/// the worker asked, of topics that the group had not read yet. Every other partition without an offset appeared later
/// and begins at its beginning, or its first pages would be skipped.
///
/// `committed` may lack partitions whose offset was not answered, and may be older than what is committed by now.
/// `None` when it lacks too many to tell.
#[must_use]
pub fn new_to_group(
    partitions: &BTreeSet<PartitionId>,
    committed: &BTreeMap<PartitionId, Option<i64>>,
    subscription: Subscription,
) -> Option<BTreeSet<PartitionId>> {
    let is_read = |partition: &PartitionId| committed.get(partition).is_some_and(Option::is_some);
    let read = partitions.iter().filter(|partition| is_read(partition));
    let read: BTreeSet<&str> = read.map(|partition| &*partition.topic).collect();
    let is_new_to_group = |partition: &&PartitionId| match subscription {
        Subscription::Topics => !read.contains(&*partition.topic),
        Subscription::Pattern => read.is_empty(),
    };
    let new_to_group: BTreeSet<PartitionId> = partitions.iter().filter(is_new_to_group).cloned().collect();
    new_to_group.iter().all(|partition| committed.contains_key(partition)).then_some(new_to_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn joins_once_when_all_is_known_and_never_while_leaving() {
        let mut membership = Membership::default();
        assert!(!membership.join(true), "it is not known yet which partitions begin at the configured start");
        membership.learn_new_to_group(BTreeSet::new());
        assert!(!membership.join(false));
        assert!(membership.join(true));
        assert!(!membership.join(true), "it is in the group");
        let mut leaving = Membership { new_to_group: Some(BTreeSet::new()), ..Membership::default() };
        leaving.stop(SECOND);
        assert!(!leaving.join(true));
    }

    #[test]
    fn only_the_last_answer_about_committed_offsets_counts() {
        let mut membership = Membership::default();
        membership.fetches();
        membership.fetches();
        assert!(!membership.fetched());
        assert!(membership.fetched());
    }

    #[test]
    fn the_first_word_to_leave_counts_and_hurries() {
        let mut membership = Membership::default();
        assert!(!membership.hurries());
        membership.stop(SECOND);
        membership.stop(3 * SECOND);
        assert_eq!((membership.stopping(SECOND / 2), membership.stopping(SECOND)), (Some(false), Some(true)));
        assert!(membership.hurries());
    }

    #[test]
    fn revoked_partitions_are_given_up_once() {
        let mut membership = Membership::default();
        let revoked = BTreeSet::from([PartitionId::new("pages", 0)]);
        membership.drain(revoked.clone(), SECOND);
        assert_eq!(membership.draining(Duration::ZERO), Some((&revoked, false)));
        assert_eq!(membership.draining(SECOND), Some((&revoked, true)));
        assert_eq!((membership.drained(), membership.drained()), (Some(revoked), None));
    }

    #[test]
    fn it_leaves_after_a_partition_when_that_is_taken_in() {
        let mut membership = Membership::default();
        membership.stop_after(PartitionId::new("pages", 1));
        assert!(!membership.takes_stop_after(|_| false));
        assert!(membership.takes_stop_after(|partition| partition.number == 1));
        assert!(!membership.takes_stop_after(|_| true), "once");
    }

    fn partitions(named: &[(&str, i32)]) -> BTreeSet<PartitionId> {
        named.iter().map(|&(topic, number)| PartitionId::new(topic, number)).collect()
    }

    #[test]
    fn a_topic_that_the_group_has_read_begins_nowhere_but_at_its_beginning() {
        let all = partitions(&[("a", 0), ("a", 1), ("b", 0), ("b", 1)]);
        let answer = |offsets: [Option<i64>; 4]| all.iter().cloned().zip(offsets).collect::<BTreeMap<_, _>>();
        let none = answer([None; 4]);
        let one = answer([None, Some(7), None, None]);
        assert_eq!(new_to_group(&all, &none, Subscription::Topics), Some(all.clone()));
        assert_eq!(new_to_group(&all, &none, Subscription::Pattern), Some(all.clone()));
        assert_eq!(new_to_group(&all, &one, Subscription::Topics), Some(partitions(&[("b", 0), ("b", 1)])));
        assert_eq!(new_to_group(&all, &one, Subscription::Pattern), Some(partitions(&[])));
    }

    #[test]
    fn an_answer_that_lacks_partitions_counts_where_it_says_enough() {
        let all = partitions(&[("a", 0), ("a", 1)]);
        let read = BTreeMap::from([(PartitionId::new("a", 1), Some(7))]);
        assert_eq!(new_to_group(&all, &read, Subscription::Topics), Some(partitions(&[])), "one offset will do");
        let uncertain = BTreeMap::from([(PartitionId::new("a", 1), None)]);
        assert_eq!(new_to_group(&all, &uncertain, Subscription::Topics), None, "the other may have an offset");
    }
}
