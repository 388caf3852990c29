//! Consumer groups: members, generations, the cooperative rebalance, committed offsets.

use std::collections::{BTreeMap, BTreeSet};

use dupgate_core::record::PartitionId;

use super::{Bus, Refused};

/// Names one member of one group, once for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberId(String);

impl std::fmt::Display for MemberId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A transaction is about to move one of the positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unstable;

/// A committed position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) metadata: String,
}

impl Committed {
    pub(crate) const fn plain(offset: i64) -> Self {
        Self { offset, metadata: String::new() }
    }
}

/// What a member learns when it polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Quiet,
    /// It was thrown out, or a newer process has its instance id.
    Lost,
    /// It must give these up and say so with `release`.
    Revoke(BTreeSet<PartitionId>),
    /// These are its own from now on.
    Assigned(BTreeSet<PartitionId>),
}

#[derive(Debug, Default)]
pub(super) struct Group {
    generation: u32,
    partitions: Vec<PartitionId>,
    members: BTreeMap<MemberId, Member>,
    replaced: BTreeSet<MemberId>,
    committed: BTreeMap<PartitionId, Committed>,
}

#[derive(Debug, Default)]
struct Member {
    instance: Option<String>,
    /// The generation it took part in last.
    seen: u32,
    owned: BTreeSet<PartitionId>,
    target: BTreeSet<PartitionId>,
}

impl Group {
    /// Owners keep what they have as far as the balance allows; the rest goes to the member that has least.
    fn rebalance(&mut self) {
        self.generation += 1;
        for member in self.members.values_mut() {
            member.target.clear();
        }
        let mut free = Vec::new();
        for partition in &self.partitions {
            let owner = self.members.values_mut().find(|member| member.owned.contains(partition));
            match owner {
                Some(member) => drop(member.target.insert(partition.clone())),
                None => free.push(partition.clone()),
            }
        }
        for partition in free {
            if let Some(member) = self.members.values_mut().min_by_key(|member| member.target.len()) {
                member.target.insert(partition);
            }
        }
        loop {
            let most = self.members.iter().max_by_key(|(_, member)| member.target.len());
            let least = self.members.iter().min_by_key(|(_, member)| member.target.len());
            let (Some((rich, most)), Some((poor, least))) = (most, least) else { return };
            if most.target.len() < least.target.len() + 2 {
                return;
            }
            let (rich, poor) = (rich.clone(), poor.clone());
            let moved = self.members.get_mut(&rich).unwrap().target.pop_last().unwrap();
            self.members.get_mut(&poor).unwrap().target.insert(moved);
        }
    }

    pub(super) fn check(&self, member: &MemberId, generation: u32) -> Result<(), Refused> {
        if self.replaced.contains(member) {
            return Err(Refused::FencedInstance);
        }
        let known = self.members.get(member).ok_or(Refused::UnknownMember)?;
        if generation == self.generation && known.seen == generation { Ok(()) } else { Err(Refused::IllegalGeneration) }
    }

    /// Returns the position before.
    pub(super) fn commit(&mut self, partition: &PartitionId, committed: Committed) -> Option<i64> {
        self.committed.insert(partition.clone(), committed).map(|before| before.offset)
    }
}

impl<V> Bus<V> {
    pub(super) fn group(&self, name: &str) -> &Group {
        &self.groups[name]
    }

    pub(super) fn group_mut(&mut self, name: &str) -> &mut Group {
        self.groups.get_mut(name).unwrap()
    }

    /// Creates a group that shares these partitions out.
    pub(crate) fn create_group(&mut self, name: &str, partitions: Vec<PartitionId>) {
        self.groups.insert(name.to_owned(), Group { partitions, ..Group::default() });
    }

    /// A topic has got another partition: the group shares it out.
    pub(crate) fn add_partition(&mut self, name: &str, partition: &PartitionId) {
        let group = self.group_mut(name);
        group.partitions.push(partition.clone());
        group.rebalance();
    }

    /// A topic is not consumed any more, or is gone: no member owns its partition.
    pub(crate) fn remove_partition(&mut self, name: &str, partition: &PartitionId) {
        let group = self.group_mut(name);
        group.partitions.retain(|known| known != partition);
        group.rebalance();
    }

    /// Joins. A known instance id takes over its assignment without a rebalance; the older member is fenced.
    pub(crate) fn join(&mut self, name: &str, instance: Option<&str>) -> MemberId {
        self.members_made += 1;
        let id = MemberId(format!("{}#{}", instance.unwrap_or("member"), self.members_made));
        let group = self.group_mut(name);
        let known = |member: &Member| instance.is_some() && member.instance.as_deref() == instance;
        let before = group.members.iter().find(|(_, member)| known(member)).map(|(before, _)| before.clone());
        if let Some(before) = before {
            let member = group.members.remove(&before).unwrap();
            group.replaced.insert(before);
            // The new process owns nothing yet: its first poll grants what the old one had.
            group.members.insert(id.clone(), Member { owned: BTreeSet::new(), ..member });
        } else {
            let member = Member { instance: instance.map(str::to_owned), ..Member::default() };
            group.members.insert(id.clone(), member);
            group.rebalance();
        }
        id
    }

    /// Heartbeat and fetch: what the group has to say to this member.
    pub(crate) fn poll(&mut self, name: &str, id: &MemberId) -> Notice {
        let group = self.group_mut(name);
        let taken: BTreeSet<PartitionId> = group.members.values().flat_map(|member| member.owned.clone()).collect();
        let Some(member) = group.members.get_mut(id) else { return Notice::Lost };
        if member.seen != group.generation {
            member.seen = group.generation;
            let revoked: BTreeSet<PartitionId> = member.owned.difference(&member.target).cloned().collect();
            if !revoked.is_empty() {
                return Notice::Revoke(revoked);
            }
        }
        let granted: BTreeSet<PartitionId> = member.target.difference(&taken).cloned().collect();
        if granted.is_empty() {
            return Notice::Quiet;
        }
        member.owned.extend(granted.clone());
        Notice::Assigned(granted)
    }

    /// Acknowledges a revocation: the second phase of the rebalance gives the partitions to their next owners.
    pub(crate) fn release(&mut self, name: &str, id: &MemberId, partitions: &BTreeSet<PartitionId>) {
        let group = self.group_mut(name);
        if let Some(member) = group.members.get_mut(id) {
            member.owned.retain(|partition| !partitions.contains(partition));
            group.rebalance();
        }
    }

    /// Leaves the group. A static member says nothing when it goes: only its session runs out.
    pub(crate) fn leave(&mut self, name: &str, id: &MemberId) {
        let is_static = self.group(name).members.get(id).is_some_and(|member| member.instance.is_some());
        if !is_static {
            self.kick(name, id);
        }
    }

    /// The member's session ran out.
    pub(crate) fn kick(&mut self, name: &str, id: &MemberId) {
        let group = self.group_mut(name);
        if group.members.remove(id).is_some() {
            group.rebalance();
        }
    }

    /// Returns whether a newer process has the member's instance id.
    pub(crate) fn is_replaced(&self, name: &str, id: &MemberId) -> bool {
        self.group(name).replaced.contains(id)
    }

    /// The members, in the order of their names.
    pub(crate) fn members(&self, name: &str) -> Vec<MemberId> {
        self.group(name).members.keys().cloned().collect()
    }

    /// The generation that a member took part in last, 0 for a stranger.
    pub(crate) fn generation_seen(&self, name: &str, id: &MemberId) -> u32 {
        self.group(name).members.get(id).map_or(0, |member| member.seen)
    }

    /// `OffsetFetch` that requires stable positions: refused as a whole while an open transaction holds one of them
    /// (brokers say `UNSTABLE_OFFSET_COMMIT` for that partition, and clients ask for all of them again).
    pub(crate) fn stable_committed(
        &self,
        name: &str,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<BTreeMap<PartitionId, Option<Committed>>, Unstable> {
        if partitions.iter().any(|partition| self.is_pending(name, partition)) {
            return Err(Unstable);
        }
        Ok(self.last_committed(name, partitions))
    }

    /// `OffsetFetch` that waits for no transaction: positions as they were committed last.
    pub(crate) fn last_committed(
        &self,
        name: &str,
        partitions: &BTreeSet<PartitionId>,
    ) -> BTreeMap<PartitionId, Option<Committed>> {
        let committed = &self.group(name).committed;
        partitions.iter().map(|partition| (partition.clone(), committed.get(partition).cloned())).collect()
    }

    /// The committed position, whether or not a transaction is about to move it.
    pub(crate) fn committed(&self, name: &str, partition: &PartitionId) -> Option<&Committed> {
        self.group(name).committed.get(partition)
    }

    /// An operator sets the positions of a group that has no members.
    pub(crate) fn set_committed(&mut self, name: &str, partition: &PartitionId, offset: i64) {
        let group = self.group_mut(name);
        assert!(group.members.is_empty(), "offsets of group {name} set while it has members");
        group.commit(partition, Committed::plain(offset));
    }
}
