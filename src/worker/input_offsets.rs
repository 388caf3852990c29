//! Offsets of the input: queries about the group, and what is known of each partition.
//!
//! The group is asked what it has committed, how much it has left to read, and whose partitions are whose. For each of
//! our partitions, [`SettledOffsets`] keeps the offset at which its next owner would begin; lags count from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dupgate_core::worker::{Backlog, Event, Subscription, new_to_group};

use super::input::start_of;
use super::{ASKING_MEMBERS, Message, WorkerDriver};
use crate::clock::wall_time;
use crate::error::Fatal;
use crate::fingerprint::Fingerprinter;
use crate::kafka::client::ClientSettings;
use crate::kafka::group_consumer::Start;
use crate::kafka::offsets::{Offsets, first_records};
use crate::kafka::output::Outputs;
use crate::processing::text_pool;
use crate::protocol::{LogPartition, VerdictOffset};
use crate::record::{EventTime, PartitionId};
use crate::telemetry::labels::Log;

/// Time-out for reading the next records of the partitions; records that arrive later are left out.
const NEXT_RECORDS_TIMEOUT: Duration = Duration::from_secs(2);

impl WorkerDriver {
    pub(super) fn fetch_committed(&self, partitions: BTreeSet<PartitionId>) {
        let (sender, offsets) = (self.sender.clone(), Arc::clone(&self.offsets));
        let outputs = Arc::clone(&self.context.outputs);
        self.background_tasks.run(move || {
            let topics: BTreeSet<String> = partitions.iter().map(|partition| partition.topic.to_string()).collect();
            let topics: Vec<String> = topics.into_iter().collect();
            let all = offsets.partitions(&topics).map_err(|error| error.to_string())?;
            for topic in &topics {
                let count = all.iter().filter(|partition| *partition.topic == **topic).count();
                outputs.partition_counts.learn(Arc::from(topic.as_str()), count);
            }
            let committed = offsets.committed(&partitions).map_err(|error| error.to_string())?;
            let committed =
                committed.into_iter().map(|(partition, known)| (partition, known.map(|known| known.offset)));
            drop(sender.send(Message::Committed(committed.collect())));
            Ok(())
        });
    }

    pub(super) fn committed(&mut self, offsets: BTreeMap<PartitionId, Option<i64>>) -> Result<(), Fatal> {
        self.settled.answered(&offsets);
        self.handle(Event::Committed(offsets))
    }

    pub(super) fn fetch_new_to_group(&self) {
        let (sender, offsets, topics) = (self.sender.clone(), Arc::clone(&self.offsets), self.context.input_topics());
        self.background_tasks.run(move || {
            let partitions = offsets.partitions(&topics).map_err(|error| error.to_string())?;
            let committed = offsets.last_committed(&partitions).map_err(|error| error.to_string())?;
            let committed =
                committed.into_iter().map(|(partition, known)| (partition, known.map(|known| known.offset)));
            let new_to_group = new_to_group(&partitions, &committed.collect(), subscription(&topics));
            let new_to_group =
                new_to_group.ok_or("the coordinator has not answered for all partitions of the input")?;
            drop(sender.send(Message::NewToGroup(new_to_group)));
            Ok(())
        });
    }

    pub(super) fn fetch_backlog(&self, heads: BTreeMap<PartitionId, i64>) {
        let (sender, backlogs) = (self.sender.clone(), Arc::clone(&self.backlogs));
        let start = self.context.settings.input.start;
        // This must not wait for queries that wait for other workers' transactions: it uses neither their thread nor
        // their client.
        self.lag_tasks.run(move || {
            let answer = backlogs.ask(&heads, start_of(start)).map_err(|error| error.to_string())?;
            drop(sender.send(Message::Backlog(answer)));
            Ok(())
        });
    }

    pub(super) fn ask_lags(&self) {
        // Skip if a query is pending: unanswered queries must not pile up.
        if self.is_lag_query_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        // A blocked partition may not be among the inputs. Its lag counts from the committed offset, whatever was read.
        let blocked: BTreeSet<PartitionId> = self.worker.blocked().into_keys().collect();
        let mut positions = self.settled.of(self.inputs.keys().filter(|input| !blocked.contains(input)));
        positions.extend(blocked.iter().map(|input| (input.clone(), self.settled.committed_offset(input))));
        let asks = Arc::clone(&self.is_lag_query_pending);
        let verdicts = LogPartition::first(self.readers.len()).zip(&self.readers);
        let verdicts: Vec<(PartitionId, VerdictOffset)> =
            verdicts.filter_map(|(log, reader)| Some((self.context.verdicts(log), reader.next?))).collect();
        let (offsets, metrics) = (Arc::clone(&self.offsets), self.report.metrics().clone());
        self.lag_tasks.run(move || {
            let wanted = positions.iter().map(|(partition, _)| partition).chain(verdicts.iter().map(|(log, _)| log));
            // After an error, the next query is due in a second.
            if let Ok(ends) = offsets.ends(&wanted.cloned().collect()) {
                let starts = offsets.starts(&unsettled(&positions, &ends, &blocked), Start::Earliest);
                let lags = lags(&positions, &ends, &starts.unwrap_or_default());
                metrics.consumer_lags(&lags);
                metrics.blocked_lag(blocked.iter().filter_map(|partition| lags.get(partition)).sum());
                let unread = verdicts.iter().filter_map(|(partition, next)| {
                    // The offset after the last record holds the marker that ends its transaction, which is never
                    // handed over.
                    Some(VerdictOffset(*ends.get(partition)?).since(next.next()))
                });
                metrics.log_lag(Log::Verdicts, unread.sum());
            }
            asks.store(false, Ordering::Release);
            Ok(())
        });
    }

    pub(super) fn ask_group(&mut self) {
        if self.member.consumer().is_none() || std::mem::replace(&mut self.is_group_query_pending, true) {
            return;
        }
        let asks = self.missing_topics.is_any() || is_turn(self.group_rounds, self.members);
        self.group_rounds = self.group_rounds.wrapping_add(1);
        let (sender, offsets, topics) = (self.sender.clone(), Arc::clone(&self.offsets), self.context.input_topics());
        let outputs = Arc::clone(&self.context.outputs);
        self.lag_tasks.run(move || {
            learn_output_partitions(&outputs, &offsets);
            if !asks {
                drop(sender.send(Message::Group(None, None)));
                return Ok(());
            }
            let failed = |error: &dyn std::fmt::Display| {
                tracing::debug!(
                    target: "dupgate::worker",
                    %error, "failed to describe the group; retrying at the next check"
                );
            };
            let all = offsets.partitions(&topics).inspect_err(|error| failed(error)).ok();
            // If the query fails, the shares are unknown, as they are during a rebalance.
            let shares = all.as_ref().and_then(|_| offsets.shares().inspect_err(|error| failed(error)).ok().flatten());
            drop(sender.send(Message::Group(all, shares)));
            Ok(())
        });
    }
}

/// Returns whether a member of a group of this size asks about it in this round: all do in a small group, one in a few in
/// a large one.
const fn is_turn(round: usize, members: usize) -> bool {
    let turns = members / ASKING_MEMBERS;
    turns == 0 || round.is_multiple_of(turns)
}

/// Asks how many partitions the output topics have. Without an answer, they keep their numbers until the next time.
fn learn_output_partitions(outputs: &Outputs, offsets: &Offsets) {
    for topic in outputs.topics.values() {
        let Ok(partitions) = offsets.partitions(std::slice::from_ref(&topic.name)) else { return };
        if !partitions.is_empty() {
            outputs.partition_counts.learn(Arc::from(topic.name.as_str()), partitions.len());
        }
    }
}

/// Queries the backlog of all partitions of the input.
pub(super) struct RemainingInput {
    pub(super) offsets: Arc<Offsets>,
    /// Settings of the client that reads the next records.
    pub(super) client: ClientSettings,
    /// Topics, or one pattern that starts with `^`.
    pub(super) topics: Vec<String>,
    /// Finds the event time of a record.
    pub(super) fingerprinter: Fingerprinter,
    /// Where it comes from, and how far it may be ahead of the record's own.
    pub(super) event_time: (EventTime, Duration),
}

impl RemainingInput {
    /// Returns the backlog of each partition. For each partition in `heads`, it includes the event times of the next
    /// pages from that offset on. A partition without a committed offset begins at `start` if [`new_to_group`] says
    /// that it is new to the group, else at its first record. Partitions that do not answer are left out.
    ///
    /// # Errors
    ///
    /// No broker answers in time.
    pub(super) fn ask(
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
            let times = |record| text_pool::event_time(&self.fingerprinter, self.event_time, record).min(now);
            let head = records.get(&partition).map(|records| records.iter().map(times).collect());
            Some((partition, Backlog { next, end, head }))
        };
        Ok(next.into_iter().filter_map(backlog).collect())
    }
}

/// Returns whether the input is subscribed by topic names or by a pattern.
fn subscription(topics: &[String]) -> Subscription {
    let by_pattern = topics.iter().any(|topic| topic.starts_with('^'));
    if by_pattern { Subscription::Pattern } else { Subscription::Topics }
}

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
    fn a_large_group_asks_about_itself_as_often_as_a_small_one() {
        let questions = |members: usize| (0..6_300).filter(|round| is_turn(*round, members)).count() * members / 6_300;
        assert_eq!([1, 16, 31].map(questions), [1, 16, 31], "each member in each round");
        for members in [32, 100, 1_000, 10_000] {
            assert!((16..=31).contains(&questions(members)), "{members} members: {}", questions(members));
        }
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
