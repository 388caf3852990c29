//! Decides which partitions start at `input.start` and which at their first record.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::PartitionId;

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
