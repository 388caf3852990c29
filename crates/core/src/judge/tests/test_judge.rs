//! A judge for the tests of its roles. Its cluster answers at once, except for the calls that a test answers itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::rules;
use crate::fingerprint::{ExactHash, Fingerprints, Numbers, PageDigest};
use crate::judge::{ColdStart, Effect, Event, InputOffsets, Judge, JudgeSettings, ProducerCall, Role};
use crate::protocol::{
    LogIdentity, PageRequest, Request, RequestBody, RequestId, RequestOffset, VerdictOffset, VerdictRecord,
};
use crate::record::{PartitionId, Reject, Source, Timestamp};
use crate::transaction::{Call, CallError};

/// A judge and what it wants done that is not done yet.
pub(super) struct TestJudge {
    pub(super) judge: Judge,
    pub(super) now: Duration,
    /// Effects that the test answers, or looks at.
    pub(super) effects: Vec<Effect>,
    /// Calls to the producer, in order.
    pub(super) calls: Vec<Call>,
    /// Records that the brokers took, in order.
    pub(super) records: Vec<VerdictRecord>,
    /// The brokers take no record.
    pub(super) refuses: bool,
    /// The next call of this kind is answered by the test.
    pub(super) held: Option<Call>,
    /// Questions for the end of the log are answered by the test.
    pub(super) holds_ends: bool,
    pub(super) next_verdict: i64,
    pub(super) next_request: i64,
}

impl TestJudge {
    /// Makes a judge that wants a checkpoint after each verdict, and follows an empty log to its end.
    pub(super) fn standby() -> Self {
        let mut judge = Self::restoring();
        judge.handle(Event::Restored(None));
        assert_eq!(judge.role(), Role::Standby);
        judge
    }

    /// Makes a judge that has taken over an empty log.
    pub(super) fn active() -> Self {
        let mut judge = Self::standby();
        judge.handle(Event::Assigned);
        assert_eq!(judge.role(), Role::Active);
        judge
    }

    /// Makes a judge that looks for a snapshot.
    pub(super) fn restoring() -> Self {
        Self::restoring_with(ColdStart::Proceed)
    }

    /// Makes a judge that looks for a snapshot, and does this where verdicts are lost.
    pub(super) fn restoring_with(cold_start: ColdStart) -> Self {
        let hour = Duration::from_hours(1);
        let settings = JudgeSettings {
            rules: rules(1_000),
            new_log: LogIdentity(7),
            cold_start,
            commit_interval: Duration::ZERO,
            checkpoint_interval_records: 1,
            keep: hour,
            batch_verdicts: 10,
            pending_verdicts: 1600,
            transaction_timeout: 5 * hour,
            step_requests: 1,
            snapshot_interval: None,
            revoke_grace: hour,
        };
        let mut judge = Self {
            judge: Judge::new(settings),
            now: Duration::ZERO,
            effects: Vec::new(),
            calls: Vec::new(),
            records: Vec::new(),
            refuses: false,
            held: None,
            holds_ends: false,
            next_verdict: 0,
            next_request: 0,
        };
        judge.perform();
        judge
    }

    pub(super) fn role(&self) -> Role {
        self.judge.role()
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.judge.handle(self.now, event);
        self.perform();
    }

    /// Lets so much time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.handle(Event::Tick);
    }

    fn perform(&mut self) {
        loop {
            // What is at hand is judged before the cluster answers.
            if self.judge.is_unfinished() {
                self.judge.handle(self.now, Event::Continue);
                continue;
            }
            let Some(effect) = self.judge.poll() else { return };
            if let Effect::Call(request) = &effect {
                let answer = self.call(request);
                if self.held.take_if(|held| self.calls.last() == Some(held)).is_none() {
                    self.judge.handle(self.now, Event::Called(answer));
                }
            } else if let Effect::FollowToEnd { question } | Effect::FollowToBarrier { question, .. } = effect
                && !self.holds_ends
            {
                self.judge.handle(self.now, Event::FollowedToEnd { question });
            } else {
                self.effects.push(effect);
            }
        }
    }

    /// Answers the call that was held.
    pub(super) fn answer_call(&mut self, answer: Result<(), CallError>) {
        assert_eq!(self.held, None, "it was made");
        self.handle(Event::Called(answer.map(|()| Vec::new())));
    }

    fn call(&mut self, request: &ProducerCall) -> Result<Vec<VerdictOffset>, CallError> {
        match request {
            ProducerCall::Produce(_) | ProducerCall::ProduceBarrier if self.refuses => {
                self.calls.push(Call::Produce);
                Err(CallError::Undeliverable { index: 0, reason: Reject::TooLargeForOutput })
            }
            ProducerCall::Produce(records) => {
                self.calls.push(Call::Produce);
                let first = self.next_verdict;
                self.records.extend_from_slice(records);
                self.next_verdict += i64::try_from(records.len()).unwrap() + 1;
                Ok((first..).take(records.len()).map(VerdictOffset).collect())
            }
            ProducerCall::ProduceBarrier => {
                self.calls.push(Call::Produce);
                let barrier = self.next_verdict;
                self.next_verdict += 2;
                Ok(vec![VerdictOffset(barrier)])
            }
            ProducerCall::SendOffsets { .. } => {
                self.calls.push(Call::SendOffsets);
                Ok(Vec::new())
            }
            ProducerCall::Plain(call) => {
                self.calls.push(*call);
                Ok(Vec::new())
            }
        }
    }

    // ---- what is asked

    /// The input's partition.
    pub(super) fn input() -> PartitionId {
        PartitionId::new("pages", 0)
    }

    /// The request of a page that was not seen before.
    pub(super) fn request(id: u64, offset: i64) -> Request {
        let page = PageRequest {
            source: Self::input().at(offset),
            event_time: Timestamp::from_millis(0),
            id: None,
            scope: None,
            site: None,
            address: None,
            title: None,
            is_variant: false,
            fingerprints: Fingerprints {
                exact: ExactHash(u128::from(offset.unsigned_abs())),
                simhash: None,
                sketch: None,
                numbers: Numbers::EMPTY,
            },
            digest: PageDigest(0),
            earlier: None,
        };
        Request { id: RequestId(id), body: RequestBody::Page(page) }
    }

    /// Has a page judged that was not seen before.
    pub(super) fn page(&mut self, offset: i64) {
        self.ask(Self::request(0, offset).body);
    }

    /// Has a range of the input judged again.
    pub(super) fn reopen(&mut self, range: Range<i64>) {
        self.ask(RequestBody::Reopen { partition: Self::input(), from: range.start, to: range.end });
    }

    fn ask(&mut self, body: RequestBody) {
        assert!(self.judge.wants_requests(), "{:?}", self.role());
        let offset = self.next_request;
        self.next_request += 1;
        let request = Request { id: RequestId(offset.unsigned_abs()), body };
        let append_time = Timestamp::from_millis(0);
        self.handle(Event::Requests { offset: RequestOffset(offset), append_time, requests: vec![request] });
    }

    pub(super) fn is_judged(&self, offset: i64) -> bool {
        let source: Source = Self::input().at(offset);
        self.judge.state().is_judged(&source)
    }

    // ---- what the input group has committed

    /// Takes the question for the input's offsets: the last one, where it was asked again.
    pub(super) fn question(&mut self) -> Option<u64> {
        self.take(|effect| if let Effect::FetchInputCommitted { question } = effect { Some(*question) } else { None })
    }

    /// Takes the question for the barrier.
    pub(super) fn end_question(&mut self) -> Option<u64> {
        self.take(|effect| if let Effect::FollowToBarrier { question, .. } = effect { Some(*question) } else { None })
    }

    /// Takes the effects that something is found in. Returns what is found in the last one.
    fn take(&mut self, find: impl Fn(&Effect) -> Option<u64>) -> Option<u64> {
        let found: Vec<u64> = self.effects.iter().filter_map(&find).collect();
        self.effects.retain(|effect| find(effect).is_none());
        found.last().copied()
    }

    /// Answers a question: the input group has committed so far.
    pub(super) fn answer(&mut self, question: u64, committed: i64) {
        self.answer_with(question, BTreeMap::from([(Self::input(), committed)]));
    }

    /// Answers a question: the input group has no offset, as of a topic that was recreated.
    pub(super) fn answer_without_offset(&mut self, question: u64) {
        self.answer_with(question, BTreeMap::new());
    }

    fn answer_with(&mut self, question: u64, committed: BTreeMap<PartitionId, i64>) {
        let input = InputOffsets { committed, partitions: [Self::input()].into() };
        self.handle(Event::InputCommitted { question, input });
    }

    // ---- the log

    /// Hands over a record of the verdict log.
    pub(super) fn followed(&mut self, offset: i64, record: VerdictRecord) {
        // What this judge writes comes after it.
        self.next_verdict = self.next_verdict.max(offset + 1);
        self.handle(Event::Followed { offset: VerdictOffset(offset), next: VerdictOffset(offset + 1), record });
    }

    /// Says how often the log was asked for from its beginning; forgets it.
    pub(super) fn read_from_the_beginning(&mut self) -> usize {
        let before = self.effects.len();
        self.effects.retain(|effect| *effect != Effect::Follow { from: None });
        before - self.effects.len()
    }
}
