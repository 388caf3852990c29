//! The input: what its group consumer reports, what the worker asks of it, and the pages that the text pool has read.
//!
//! Records of a partition go to the pool, and their pages to the machine in offset order, which a [`ReorderBuffer`]
//! keeps. Ends of partitions and records out of range take their place among them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use dupgate_core::worker::{BadRecords, Event, Page, PageAction, PageOutcome, ReadFrom};

use super::{Message, WorkerDriver};
use crate::clock::{wall_clock, wall_time};
use crate::config::Start as ConfiguredStart;
use crate::config::settings::Topics;
use crate::context::heartbeat;
use crate::error::{Fatal, Reason, fatal};
use crate::fatal::ended;
use crate::kafka::budget::Permit;
use crate::kafka::group_consumer::{Command, ConsumerEvent, GroupConsumerSettings, Start};
use crate::kafka::output::PagePayload;
use crate::processing::text_pool::{Done, Job};
use crate::record::{PartitionId, Timestamp};
use crate::telemetry::Metrics;
use crate::telemetry::labels::{Component, ErrorKind, Pause, Rebalance};

/// One partition of the input, as the driver sees it.
#[derive(Default)]
pub(super) struct InputState {
    serial: u64,
    order: ReorderBuffer<Ready>,
}

enum Ready {
    Page(Box<Page<PagePayload>>, Permit),
    End,
    OutOfRange { offset: i64, first: i64, end: i64 },
    Denied,
}

impl WorkerDriver {
    pub(super) fn join(&mut self) -> Result<(), Fatal> {
        let moved = polls(heartbeat(&self.context, "input poll"), self.context.metrics.clone());
        let settings = GroupConsumerSettings {
            config: self.context.input_consumer(),
            topics: self.context.input_topics(),
            thread: "input".to_owned(),
            budget: Arc::clone(&self.budget),
            moved,
        };
        self.member.join(settings, &self.sender, Message::GroupConsumer)
    }

    pub(super) fn seek(&mut self, partition: PartitionId, from: ReadFrom) {
        self.serials += 1;
        let start = match from {
            ReadFrom::Offset(offset) => Start::Offset(offset),
            ReadFrom::Beginning => Start::Earliest,
            ReadFrom::ConfiguredStart => start_of(self.context.settings.input.start),
        };
        let input = InputState { serial: self.serials, order: ReorderBuffer::default() };
        self.inputs.insert(partition.clone(), input);
        if self.held {
            self.member.command(Command::Pause(BTreeSet::from([partition.clone()])));
        }
        self.member.command(Command::Seek(partition, start, self.serials));
    }

    pub(super) fn pause(&mut self, partitions: BTreeSet<PartitionId>) {
        self.paused.extend(partitions.iter().cloned());
        self.member.command(Command::Pause(partitions));
    }

    pub(super) fn resume(&mut self, partitions: BTreeSet<PartitionId>) {
        self.paused.retain(|partition| !partitions.contains(partition));
        // While an operator has paused the input, only the operator resumes it.
        if !self.held {
            self.member.command(Command::Resume(partitions));
        }
    }

    /// Pauses the input for an operator, or resumes it where the machine allows.
    pub(super) fn hold(&mut self, is_held: bool) {
        match (self.held, is_held) {
            (false, true) => tracing::warn!(target: "dupgate::worker", "input paused by an operator"),
            (true, false) => tracing::warn!(target: "dupgate::worker", "input resumed by an operator"),
            (false, false) | (true, true) => {}
        }
        self.held = is_held;
        // With a consumer, the pause is reported once it is in effect (`ConsumerEvent::Paused`).
        self.report.metrics().paused(Pause::Manual, is_held && self.member.consumer().is_none());
        let inputs = self.inputs.keys();
        if is_held {
            self.member.command(Command::Pause(inputs.cloned().collect()));
        } else {
            self.member
                .command(Command::Resume(inputs.filter(|input| !self.paused.contains(input)).cloned().collect()));
        }
    }

    /// Rejoins the group if it has assigned partitions of a topic that is not configured: a static member that comes back
    /// gets the partitions that it had, whatever it subscribes to now, until the group rebalances.
    fn leave_foreign(&self, partitions: &BTreeSet<PartitionId>) {
        let Topics::Names(topics) = &self.context.settings.input.topics else { return };
        let is_foreign = |partition: &&PartitionId| !topics.iter().any(|topic| **topic == *partition.topic);
        let foreign: BTreeSet<PartitionId> = partitions.iter().filter(is_foreign).cloned().collect();
        if !foreign.is_empty() {
            tracing::warn!(
                target: "dupgate::worker",
                partitions = %names(&foreign), "rejoining the group: partitions assigned of topics that are not configured"
            );
            self.member.command(Command::Rejoin);
        }
    }

    pub(super) fn member_event(&mut self, event: ConsumerEvent) -> Result<(), Fatal> {
        match event {
            ConsumerEvent::Record { partition, offset, serial, record, permit } => {
                let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) else {
                    return Ok(());
                };
                let place = input.order.reserve();
                self.settled.read(&partition, offset);
                self.report.read(&partition, record.bytes());
                self.pool.read(Job { source: partition.at(offset), serial, place, record: Arc::new(record), permit });
                Ok(())
            }
            ConsumerEvent::Started { partition, serial, offset } => {
                if self.inputs.get(&partition).is_none_or(|input| input.serial != serial) {
                    return Ok(());
                }
                self.settled.started(&partition, offset);
                self.handle(Event::Started(partition, offset))
            }
            ConsumerEvent::AtEnd { partition, serial, offset } => {
                if let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) {
                    input.order.push(Ready::End);
                    self.settled.ended(&partition, offset);
                }
                self.hand_over(&partition)
            }
            ConsumerEvent::OutOfRange { partition, serial, offset, first, end } => {
                if let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) {
                    input.order.push(Ready::OutOfRange { offset, first, end });
                    self.settled.out_of_range(&partition);
                }
                self.hand_over(&partition)
            }
            ConsumerEvent::Denied { partition, serial } => {
                if let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) {
                    input.order.push(Ready::Denied);
                    self.settled.out_of_range(&partition);
                }
                self.hand_over(&partition)
            }
            ConsumerEvent::Assigned(partitions) => {
                tracing::info!(target: "dupgate::worker", partitions = %names(&partitions), "partitions assigned");
                self.leave_foreign(&partitions);
                self.report.metrics().rebalanced(Rebalance::Assign, partitions.len());
                self.handle(Event::Assigned(partitions))
            }
            ConsumerEvent::Revoked(partitions) => {
                tracing::info!(target: "dupgate::worker", partitions = %names(&partitions), "partitions revoked");
                self.report.metrics().rebalanced(Rebalance::Revoke, partitions.len());
                self.stop_reading(&partitions);
                // `settled` keeps their offsets until the revocation is done: they are checked before the last commit.
                self.revoked.extend(partitions.iter().cloned());
                self.revoked_at = Some(self.clock.now());
                self.handle(Event::Revoked(partitions))
            }
            ConsumerEvent::Lost(partitions) => {
                tracing::warn!(target: "dupgate::worker", partitions = %names(&partitions), "partitions lost");
                self.report.metrics().rebalanced(Rebalance::Lost, partitions.len());
                self.forget(&partitions);
                self.handle(Event::Lost(partitions))
            }
            ConsumerEvent::Renewed(membership) => {
                self.member.renew(membership);
                Ok(())
            }
            ConsumerEvent::Paused => {
                self.report.metrics().paused(Pause::Manual, self.held);
                Ok(())
            }
            ConsumerEvent::Reaches(reaches) => {
                self.report.reaches(reaches);
                Ok(())
            }
            ConsumerEvent::Left => Ok(()),
            ConsumerEvent::Failed(why) => Err(self.consumer_failed(Reason::Failure, &why)),
            ConsumerEvent::Fenced(why) => Err(self.consumer_failed(Reason::Config, &why)),
        }
    }

    pub(super) fn revoke_done(&mut self) {
        let revoked = std::mem::take(&mut self.revoked);
        self.settled.forget(&revoked);
        if let Some(since) = self.revoked_at.take() {
            self.report.metrics().series().rebalance_pause.record(self.clock.now().saturating_sub(since));
        }
        self.member.command(Command::RevokeDone);
    }

    fn consumer_failed(&self, reason: Reason, why: &str) -> Fatal {
        self.report.metrics().error(Component::Consumer, ErrorKind::Fatal);
        ended(reason, why, &self.context.settings.input.group)
    }

    fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.stop_reading(partitions);
        self.settled.forget(partitions);
    }

    fn stop_reading(&mut self, partitions: &BTreeSet<PartitionId>) {
        for partition in partitions {
            self.inputs.remove(partition);
            self.paused.remove(partition);
        }
    }

    pub(super) fn read(&mut self, done: Done) -> Result<(), Fatal> {
        let Done { serial, place, page, permit } = done;
        let partition = page.source.partition.clone();
        let Some(input) = self.inputs.get_mut(&partition).filter(|input| input.serial == serial) else { return Ok(()) };
        input.order.fill(place, Ready::Page(Box::new(page), permit));
        self.hand_over(&partition)
    }

    /// Hands finished pages to the machine, in offset order.
    fn hand_over(&mut self, partition: &PartitionId) -> Result<(), Fatal> {
        while let Some(ready) = self.inputs.get_mut(partition).and_then(|input| input.order.pop()) {
            match ready {
                Ready::End => self.handle(Event::AtEnd(partition.clone()))?,
                Ready::Denied => self.handle(Event::Denied(partition.clone()))?,
                Ready::OutOfRange { offset, first, end } => {
                    let partition = partition.clone();
                    self.handle(Event::OutOfRange { partition, offset, first, end })?;
                }
                Ready::Page(mut page, _held) => {
                    if self.must_stop_at(&page) {
                        self.inputs.remove(partition);
                        return self.handle(Event::StopAfter(partition.clone()));
                    }
                    page.payload.is_reported = self.report.page(&page);
                    self.handle(Event::Page(*page))?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the worker must stop at this page: with `on_bad_record: stop`, the first bad record ends the
    /// process before its offset is committed.
    fn must_stop_at(&mut self, page: &Page<PagePayload>) -> bool {
        if self.context.outputs.routing.bad_records != BadRecords::Stop {
            return false;
        }
        let reason = match &page.action {
            PageAction::Settled(PageOutcome::DeadLetter(reason)) | PageAction::Withdraw(_, reason) => *reason,
            PageAction::Settled(PageOutcome::Judged(_) | PageOutcome::Tombstone) | PageAction::Ask(..) => return false,
        };
        if self.leaving_because.is_none() {
            let why = page.payload.message.clone().unwrap_or_else(|| dupgate_core::worker::message(reason).to_owned());
            self.leaving_because = Some(fatal!(
                Failure,
                "{} cannot be judged ({}: {why}), and processing.on_bad_record is stop",
                page.source,
                reason.name()
            ));
        }
        true
    }

    /// Reports missing topics, and rejoins the group when there are unassigned partitions.
    pub(super) fn group(&mut self, all: Option<&BTreeSet<PartitionId>>, shares: Option<&[BTreeSet<PartitionId>]>) {
        self.is_group_query_pending = false;
        self.members = shares.map_or(self.members, <[_]>::len);
        let Some(all) = all else { return };
        self.report.missing_topics(self.missing_topics.look(&self.context.input_topics(), all));
        let own = self.inputs.keys().cloned().collect();
        let missing = self.unassigned.look(all, shares, &own);
        if !missing.is_empty() {
            tracing::warn!(
                target: "dupgate::worker",
                partitions = %names(&missing), "rejoining the group: partitions unassigned although the group is stable"
            );
            self.member.command(Command::Rejoin);
        }
    }
}

fn names(partitions: &BTreeSet<PartitionId>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the hook that the input's polling thread calls in each round: it beats the heartbeat and sets the time of
/// the last poll.
fn polls(moved: Box<dyn Fn() + Send>, metrics: Metrics) -> Box<dyn Fn() + Send> {
    Box::new(move || {
        moved();
        metrics.polled(wall_time());
    })
}

pub(super) fn start_of(configured: ConfiguredStart) -> Start {
    match configured {
        ConfiguredStart::Earliest => Start::Earliest,
        ConfiguredStart::Latest => Start::Latest,
        ConfiguredStart::At(time) => Start::At(time),
        ConfiguredStart::Ago(span) => {
            let since = wall_clock().saturating_sub(span);
            Start::At(Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
        }
    }
}

/// A queue of slots. Each slot is reserved first and filled later; it leaves from the front, once it is filled.
#[derive(Debug)]
pub(super) struct ReorderBuffer<T> {
    first: u64,
    places: VecDeque<Option<T>>,
}

impl<T> Default for ReorderBuffer<T> {
    fn default() -> Self {
        Self { first: 0, places: VecDeque::new() }
    }
}

impl<T> ReorderBuffer<T> {
    /// Reserves the next slot and returns its number.
    pub(super) fn reserve(&mut self) -> u64 {
        let place = self.first + self.places.len() as u64;
        self.places.push_back(None);
        place
    }

    /// Fills a slot. Does nothing if the slot has already left or was never reserved.
    pub(super) fn fill(&mut self, place: u64, value: T) {
        let index = place.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.places.get_mut(index)) {
            *slot = Some(value);
        }
    }

    /// Reserves the next slot and fills it.
    pub(super) fn push(&mut self, value: T) {
        self.places.push_back(Some(value));
    }

    /// Removes the first slot, if it is filled.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.places.front()?.as_ref()?;
        self.first += 1;
        self.places.pop_front().flatten()
    }
}

/// The named topics that had no partitions at the last look.
#[derive(Debug, Default)]
pub(super) struct MissingTopics(BTreeSet<String>);

impl MissingTopics {
    /// Compares the configured topics, names or a pattern, with all partitions that exist. Returns the named topics
    /// that are missing now and were missing at the last look: a single answer may come from a broker whose metadata is
    /// out of date.
    pub(super) fn look(&mut self, topics: &[String], all: &BTreeSet<PartitionId>) -> BTreeSet<String> {
        let is_known = |topic: &str| all.iter().any(|partition| *partition.topic == *topic);
        let named = topics.iter().filter(|topic| !topic.starts_with('^'));
        let missing: BTreeSet<String> = named.filter(|topic| !is_known(topic)).cloned().collect();
        let before = std::mem::replace(&mut self.0, missing);
        before.intersection(&self.0).cloned().collect()
    }

    /// Returns whether any topic was missing at the last look.
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::telemetry::catalog;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn a_named_topic_is_missing_after_two_looks_without_its_partitions() {
        let topics = ["a", "b", "^c.*"].map(str::to_owned);
        let partitions = |names: &[&str]| names.iter().map(|name| PartitionId::new(*name, 0)).collect();
        let mut missing = MissingTopics::default();
        assert_eq!(missing.look(&topics, &partitions(&["a", "b", "cc"])), BTreeSet::new());
        assert!(!missing.is_any());
        assert_eq!(missing.look(&topics, &partitions(&["a"])), BTreeSet::new(), "by the answer of one broker");
        assert!(missing.is_any());
        assert_eq!(missing.look(&topics, &partitions(&["a"])), BTreeSet::from(["b".to_owned()]));
        assert_eq!(missing.look(&topics, &partitions(&["b"])), BTreeSet::new());
    }

    #[test]
    fn each_poll_of_the_input_beats_and_sets_the_time_of_the_last_poll() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let last_poll = || metrics.values().largest(&catalog::LAST_POLL_TIMESTAMP);
        let beats = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&beats);
        let hook = polls(
            Box::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }),
            metrics.clone(),
        );
        assert_eq!(last_poll().filter(|seconds| *seconds > 0.0), None, "nothing was polled");
        let before = wall_time();
        hook();
        hook();
        assert_eq!(beats.load(Ordering::Relaxed), 2);
        let seconds = |time: Timestamp| Duration::from_millis(time.millis().unsigned_abs()).as_secs_f64();
        let polled = last_poll().expect("a time");
        assert!((seconds(before) - 0.001..=seconds(wall_time())).contains(&polled), "{polled}");
    }

    proptest! {
        #[test]
        fn results_leave_in_the_order_of_their_places(order in Just((0..40_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let mut queue = ReorderBuffer::default();
            for place in 0..40 {
                prop_assert_eq!(queue.reserve(), place);
            }
            let mut left = Vec::new();
            for place in order {
                queue.fill(place, place);
                left.extend(std::iter::from_fn(|| queue.pop()));
            }
            prop_assert_eq!(left, (0..40).collect::<Vec<_>>());
            prop_assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn late_result_of_a_slot_that_left_is_ignored() {
        let mut queue = ReorderBuffer::default();
        let place = queue.reserve();
        queue.fill(place, 'a');
        assert_eq!(queue.pop(), Some('a'));
        queue.fill(place, 'b');
        queue.push('c');
        assert_eq!(queue.pop(), Some('c'));
    }
}
