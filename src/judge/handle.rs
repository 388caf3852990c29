//! The handle of a judge's thread, the messages to it, and its settings.

use std::ops::Range;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use dupgate_core::judge::{InputOffsets, Judge, JudgeSettings};

use crate::config::settings::Settings;
use crate::fingerprint::SketchForm;
use crate::kafka::client::ProducerSettings;
use crate::kafka::fingerprint_log::MAX_REQUESTS;
use crate::kafka::group_consumer::ConsumerEvent;
use crate::kafka::producer::Answer;
use crate::kafka::verdict_log::FollowEvent;
use crate::protocol::{LogIdentity, RequestOffset, VerdictOffset, max_verdict_bytes};
use crate::runtime::clock::random_id;
use crate::runtime::context::REVOKE_GRACE;
use crate::runtime::time_slice::STEP_REQUESTS;

/// Time-out of a query to the judge.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Stops a judge, or queries it.
#[derive(Clone)]
pub struct JudgeHandle(Sender<Message>);

impl JudgeHandle {
    /// Creates a handle for the receiver of these messages.
    pub(crate) const fn new(messages: Sender<Message>) -> Self {
        Self(messages)
    }

    /// Asks for a clean stop.
    pub fn stop(&self) {
        // An ended thread has already stopped.
        let _ = self.0.send(Message::Stop);
    }

    /// Runs a query on the judge's thread, which judges nothing meanwhile. Returns `None` if the thread has ended or
    /// does not answer in time.
    pub(crate) fn ask<T: Send + 'static>(&self, look: impl FnOnce(&Judge) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = bounded(1);
        let question: Question = Box::new(move |judge| drop(sender.send(look(judge))));
        self.0.send(Message::Asked(question)).ok()?;
        answer.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Requests a snapshot, taken with the next commit of verdicts.
    pub(crate) fn snapshot(&self) {
        // A thread that has ended has already written its last snapshot.
        let _ = self.0.send(Message::SnapshotWanted);
    }
}

/// A query that runs on the judge's thread, between two events.
pub(crate) type Question = Box<dyn FnOnce(&Judge) + Send>;

/// Messages of the driver.
pub(crate) enum Message {
    /// An event of the fingerprint log's group, with the number of the membership.
    GroupConsumer(u64, ConsumerEvent),
    Followed(FollowEvent),
    Called(Answer),
    /// The committed offsets of the input, with the number of the question that they answer.
    InputCommitted(u64, InputOffsets),
    /// The range of the verdict log to follow, for the follow command with this serial number.
    LogRange(u64, Range<VerdictOffset>),
    /// The end of the fingerprint log; `None` if the query failed.
    RequestsEnd(Option<RequestOffset>),
    /// The brokers have deleted the beginning of both logs.
    Trimmed,
    Asked(Question),
    SnapshotWanted,
    Stop,
}

/// Maximum number of verdicts in one record of the verdict log.
const BATCH_VERDICTS: usize = 2_000;

/// Returns the settings of a judge whose verdict log accepts batches of this many bytes. A new log gets a new identity.
pub(crate) fn judge_settings(settings: &Settings, verdict_log_bytes: usize) -> JudgeSettings {
    let producer = ProducerSettings::of_judge();
    JudgeSettings {
        rules: settings.rules.clone(),
        new_log: LogIdentity(random_id()),
        // Of a service that runs, `scheme_change` decides whether a new log may begin.
        cold_start: settings.index.cold_start.into(),
        commit_interval: settings.judge.commit_interval,
        checkpoint_interval_records: settings.judge.checkpoint_interval_records,
        keep: settings.logs.retention,
        batch_verdicts: batch_verdicts(
            verdict_log_bytes.min(producer.max_record_bytes),
            settings.rules.minhash.map(|minhash| minhash.form),
        ),
        pending_verdicts: 50_000,
        transaction_timeout: producer.transaction_timeout,
        step_requests: STEP_REQUESTS,
        snapshot_interval: Some(settings.index.snapshot_interval),
        revoke_grace: REVOKE_GRACE,
    }
}

/// Returns the number of verdicts from which on a record of the verdict log ends. It can end only where a record of
/// requests ends, so there is space left for the verdicts on one more such record within `max_bytes`.
fn batch_verdicts(max_bytes: usize, form: Option<SketchForm>) -> usize {
    (max_bytes / max_verdict_bytes(form)).saturating_sub(MAX_REQUESTS).clamp(1, BATCH_VERDICTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::SlotBits;

    #[test]
    fn a_record_of_verdicts_is_within_the_limit_of_the_log() {
        let usual = SketchForm::new(128, SlotBits::B8).unwrap().with_count();
        let large = SketchForm::new(255, SlotBits::B16).unwrap().with_count().with_bottom(255).unwrap();
        for (form, smallest) in [(None, 300_000), (Some(usual), 300_000), (Some(large), 1_000_000)] {
            for limit in [smallest, 1_048_588, 2_000_000, 2_097_152, 100_000_000] {
                let max = batch_verdicts(limit, form) - 1 + MAX_REQUESTS;
                assert!(max * max_verdict_bytes(form) <= limit, "{limit}: {max} verdicts");
            }
        }
        assert_eq!(batch_verdicts(2_000_000, Some(usual)), BATCH_VERDICTS);
    }
}
