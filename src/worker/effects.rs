//! Performs the worker's effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dupgate_core::worker::{Effect, Failure, ProducerCall, ReadFrom, new_to_group};

use super::{InputState, Message, Reader, ReorderBuffer, WorkerDriver};
use crate::config::Start as ConfiguredStart;
use crate::error::{Fatal, Reason};
use crate::kafka::group_consumer::{Command, GroupConsumerSettings, Start};
use crate::kafka::output::{PagePayload, Pages};
use crate::kafka::producer::{OffsetAndMetadata, ProducerCommand};
use crate::kafka::verdict_log::FollowCommand;
use crate::protocol::{LogPartition, VerdictOffset};
use crate::record::{PartitionId, Timestamp};
use crate::runtime::clock::{wall_clock, wall_time};
use crate::runtime::context::{SCAN, heartbeat};
use crate::runtime::driver::sink;
use crate::runtime::fatal::ended;
use crate::telemetry::Metrics;
use crate::telemetry::labels::Pause;
use crate::transaction::Call;
use crate::worker::remaining_input::subscription;

impl WorkerDriver {
    pub(super) fn perform(&mut self, effect: Effect<PagePayload>) -> Result<(), Fatal> {
        match effect {
            Effect::FetchCheckpoint(log) => self.fetch_checkpoint(log),
            Effect::Follow { log, from } => {
                self.serials += 1;
                if let Some(reader) = self.readers.get_mut(log.index()) {
                    reader.serial = self.serials;
                    reader.next = None;
                    reader.follower.command(FollowCommand::From(from, self.serials));
                }
            }
            Effect::FollowToEnd(log) => {
                if let Some(reader) = self.readers.get(log.index()) {
                    reader.follower.command(FollowCommand::ToEnd(reader.serial));
                }
            }
            Effect::Join => self.join()?,
            Effect::Leave => self.member.command(Command::Leave),
            Effect::FetchCommitted(partitions) => self.fetch_committed(partitions),
            Effect::FetchBacklog(heads) => self.fetch_backlog(heads),
            Effect::FetchNewToGroup => self.fetch_new_to_group(),
            Effect::Seek { partition, from } => self.seek(partition, from),
            Effect::Pause(partitions) => {
                self.paused.extend(partitions.iter().cloned());
                self.member.command(Command::Pause(partitions));
            }
            Effect::Resume(partitions) => {
                self.paused.retain(|partition| !partitions.contains(partition));
                // While an operator has paused the input, only the operator resumes it.
                if !self.held {
                    self.member.command(Command::Resume(partitions));
                }
            }
            Effect::Append(log, request) => {
                self.report.requested(log, request.id);
                self.requests_since.get_or_insert_with(|| self.clock.now());
                self.requests.append(log, request);
            }
            Effect::ScanVerdicts { log, from } => self.scan(log, from)?,
            Effect::EndScan(log) => self.end_scan(log),
            Effect::Call(request) => self.call(request),
            Effect::Delivered(outputs) => self.report.delivered(&outputs),
            Effect::RevokeDone => {
                let revoked = std::mem::take(&mut self.revoked);
                self.settled.forget(&revoked);
                if let Some(since) = self.revoked_at.take() {
                    self.report.metrics().series().rebalance_pause.record(self.clock.now().saturating_sub(since));
                }
                self.member.command(Command::RevokeDone);
            }
            Effect::Stopped => self.stopped = true,
            Effect::Fail(why) => {
                let reason = if matches!(why, Failure::Fenced(_)) { Reason::Config } else { Reason::Failure };
                return Err(ended(reason, why, &self.context.settings.input.group));
            }
        }
        Ok(())
    }

    pub(super) fn fetch_checkpoint(&self, log: LogPartition) {
        let Some(offsets) = self.judge_offsets.get(log.index()).map(Arc::clone) else { return };
        let (sender, partition) = (self.sender.clone(), self.context.fingerprints(log));
        self.background_tasks.run(move || {
            let committed =
                offsets.committed(&BTreeSet::from([partition.clone()])).map_err(|error| error.to_string())?;
            let metadata = committed.into_values().flatten().next().map(|committed| committed.metadata);
            drop(
                sender
                    .send(Message::Checkpoint(log, metadata.and_then(|offset| offset.parse().ok()).map(VerdictOffset))),
            );
            Ok(())
        });
    }

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

    pub(super) fn scan(&mut self, log: LogPartition, from: Option<VerdictOffset>) -> Result<(), Fatal> {
        self.serials += 1;
        let serial = self.serials;
        let Some(place) = self.scan_readers.get_mut(log.index()) else { return Ok(()) };
        let reader = if let Some(reader) = place {
            reader
        } else {
            let sink = sink(&self.sender, move |event| Message::Scanned(log, event));
            let follower = self.context.follow(log, SCAN, &self.log_budget, sink)?;
            place.insert(Reader { follower, serial, next: None })
        };
        reader.serial = serial;
        reader.follower.command(FollowCommand::From(from, serial));
        reader.follower.command(FollowCommand::ToEnd(serial));
        Ok(())
    }

    fn end_scan(&mut self, log: LogPartition) {
        self.serials += 1;
        if let Some(Some(reader)) = self.scan_readers.get_mut(log.index()) {
            // Records that the reader has read ahead carry the old serial number and are dropped.
            reader.serial = self.serials;
            reader.follower.command(FollowCommand::Stop);
        }
    }

    pub(super) fn call(&mut self, request: ProducerCall<PagePayload>) {
        let (command, call, pages) = match request {
            ProducerCall::Produce(pages) => {
                let count = pages.len();
                let outputs = Arc::clone(&self.context.outputs);
                let records = Pages { outputs, pages, sent: self.report.sent() };
                (ProducerCommand::Produce(Box::new(records)), Call::Produce, count)
            }
            ProducerCall::SendOffsets(offsets) => {
                self.sent_offsets.clone_from(&offsets);
                let offset_of = |(partition, offset)| OffsetAndMetadata { partition, offset, metadata: String::new() };
                let offsets = offsets.into_iter().map(offset_of).collect();
                (ProducerCommand::SendOffsets(offsets, self.member.membership()), Call::SendOffsets, 0)
            }
            ProducerCall::Plain(call) => (ProducerCommand::Plain(call), call, 0),
        };
        self.calling = Some(call);
        self.report.calls(call, pages);
        if call == Call::SendOffsets {
            self.submit_checked(command);
        } else {
            self.producer.submit(command);
        }
    }
}

/// Returns the hook that the input's polling thread calls in each round: it beats the heartbeat and sets the time of
/// the last poll.
fn polls(moved: Box<dyn Fn() + Send>, metrics: Metrics) -> Box<dyn Fn() + Send> {
    Box::new(move || {
        moved();
        metrics.polled(wall_time());
    })
}

fn start_of(configured: ConfiguredStart) -> Start {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::config::settings;
    use crate::telemetry::catalog;

    #[test]
    fn each_poll_of_the_input_beats_and_sets_the_time_of_the_last_poll() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
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
}
