//! The handle of a judge's thread.

use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

use super::judge_message::{Message, Question};
use crate::judge::Judge;

/// Time-out of a query to the judge.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Stops a judge, or queries it.
#[derive(Clone)]
pub struct JudgeHandle(Sender<Message>);

impl JudgeHandle {
    /// Creates a handle for the receiver of these messages.
    pub(super) const fn new(messages: Sender<Message>) -> Self {
        Self(messages)
    }

    /// Asks for a clean stop.
    pub fn stop(&self) {
        // An ended thread has already stopped.
        let _ = self.0.send(Message::Stop);
    }

    /// Runs a query on the judge's thread, which judges nothing meanwhile. Returns `None` if the thread has ended or
    /// does not answer in time.
    pub(super) fn ask<T: Send + 'static>(&self, look: impl FnOnce(&Judge) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = bounded(1);
        let question: Question = Box::new(move |judge| drop(sender.send(look(judge))));
        self.0.send(Message::Asked(question)).ok()?;
        answer.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Requests a snapshot, taken with the next commit of verdicts.
    pub(super) fn snapshot(&self) {
        // A thread that has ended has already written its last snapshot.
        let _ = self.0.send(Message::SnapshotWanted);
    }
}
