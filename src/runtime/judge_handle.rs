//! The owner's end of a judge's thread.

use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

use super::judge_message::{Message, Question};
use crate::judge::Judge;

/// How long the judge may take to answer a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Tells a judge to commit what is judged and leave, or asks it.
#[derive(Clone)]
pub struct JudgeHandle(Sender<Message>);

impl JudgeHandle {
    /// Creates a handle of the judge that reads these messages.
    pub(super) const fn new(messages: Sender<Message>) -> Self {
        Self(messages)
    }

    /// Asks for a clean stop.
    pub fn stop(&self) {
        // A thread that has ended is stopped already.
        let _ = self.0.send(Message::Stop);
    }

    /// Asks the judge; `None` when it has ended or does not answer in time. The judge waits meanwhile.
    pub(super) fn ask<T: Send + 'static>(&self, look: impl FnOnce(&Judge) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = bounded(1);
        let question: Question = Box::new(move |judge| drop(sender.send(look(judge))));
        self.0.send(Message::Asked(question)).ok()?;
        answer.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Has a snapshot written as soon as everything judged is committed.
    pub(super) fn snapshot(&self) {
        // A thread that has ended wrote its last one.
        let _ = self.0.send(Message::SnapshotWanted);
    }
}
