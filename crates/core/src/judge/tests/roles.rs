//! The roles of a judge one after another, where the order of events is what matters.

use std::time::Duration;

use super::rules;
use super::test_judge::TestJudge;
use crate::fingerprint::PageDigest;
use crate::judge::{ColdStart, Effect, Event, Failure, OperatorOutcome, Role, State};
use crate::protocol::{
    Answer, Checkpoint, Decision, ForgetTarget, LogIdentity, PageVerdict, Request, RequestBody, RequestId,
    RequestOffset, Rules, RulesNumber, RulesRecord, Verdict, VerdictBatch, VerdictOffset, VerdictRecord,
};
use crate::record::Timestamp;
use crate::transaction::{Call, CallError};

/// A checkpoint as a new log begins with.
fn beginning(log: u64, rules: Rules) -> Checkpoint {
    State::begin(LogIdentity(log), rules, RequestOffset(0)).checkpoint(None, |_| 0).unwrap()
}

fn batch(log: u64, next_request: i64) -> VerdictRecord {
    VerdictRecord::Verdicts(VerdictBatch {
        log: LogIdentity(log),
        rules: RulesNumber(1),
        watermarks: crate::protocol::ExpiryWatermarks::START,
        next_request: RequestOffset(next_request),
        verdicts: Vec::new(),
    })
}

#[test]
fn offsets_of_the_input_that_come_while_standing_by_hold_nothing_up() {
    let mut judge = TestJudge::active();
    judge.page(0);
    let question = judge.question().expect("a checkpoint is due");
    judge.handle(Event::Revoked);
    assert_eq!(judge.role(), Role::Standby);
    judge.answer(question, 1);
    judge.handle(Event::Assigned);
    assert_eq!(judge.role(), Role::Active);
    judge.handle(Event::Tick);
    let question = judge.question().expect("the checkpoint is still due");
    judge.answer(question, 1);
    assert_eq!(judge.judge.state().delivered(&TestJudge::input()), 1, "it is written");
}

#[test]
fn a_range_is_reopened_by_a_judge_that_stood_by_while_the_offsets_of_the_input_came() {
    let mut judge = TestJudge::active();
    judge.page(0);
    judge.page(1);
    let former = judge.question().expect("a checkpoint is due");
    judge.handle(Event::Lost);
    assert_eq!(judge.role(), Role::Standby);
    judge.handle(Event::Assigned);
    judge.reopen(0..2);
    let question = judge.question().expect("asked again");
    // The answer to the question asked before it last became active comes late: more was committed since.
    judge.answer(former, 0);
    judge.answer(question, 2);
    assert!(!judge.is_judged(0) && !judge.is_judged(1), "reopened");
    judge.page(2);
    assert!(judge.is_judged(2), "judging goes on");
}

/// A record that waits, or that was judged before, is judged on no event.
#[test]
fn what_requests_did_is_shown_on_the_event_that_judges_them_only() {
    let mut judge = TestJudge::active();
    judge.page(0);
    let mut ask = |offset: i64, body| {
        let requests = vec![Request { id: RequestId(offset.unsigned_abs()), body }];
        let event = Event::Requests { offset: RequestOffset(offset), append_time: Timestamp::MIN, requests };
        judge.judge.handle(Duration::ZERO, event);
        judge.judge.operator_outcomes().to_vec()
    };
    let target = ForgetTarget::Source(TestJudge::input().at(0));
    let reopen = RequestBody::Reopen { partition: TestJudge::input(), from: 0, to: 1_000 };
    let outcome = |forgotten| vec![OperatorOutcome { answer: Answer::Forgotten(target.clone()), forgotten }];
    assert_eq!(ask(10, RequestBody::Forget(target.clone())), outcome(1));
    assert_eq!(ask(11, RequestBody::Forget(target.clone())), outcome(0));
    assert_eq!(ask(11, RequestBody::Forget(target.clone())), [], "judged before");
    assert_eq!(ask(12, reopen), [], "waits for the offsets of the input");
}

/// A judge that has judged three pages of a topic, all delivered; then the topic was recreated and all of it reopened.
fn judge_of_a_recreated_topic() -> TestJudge {
    let mut judge = TestJudge::active();
    (0..3).for_each(|offset| judge.page(offset));
    let question = judge.question().expect("a checkpoint is due");
    judge.answer(question, 3);
    assert_eq!(judge.judge.state().delivered(&TestJudge::input()), 3);
    judge.reopen(0..1_000);
    let question = judge.question().expect("more may be delivered");
    judge.answer_without_offset(question);
    assert!((0..3).all(|offset| !judge.is_judged(offset)), "reopened");
    judge
}

#[test]
fn pages_of_a_recreated_topic_that_are_on_their_way_are_not_reopened() {
    let mut judge = judge_of_a_recreated_topic();
    // A worker has committed where it begins, and waits with two pages in its transaction.
    (0..2).for_each(|offset| judge.page(offset));
    let question = judge.question().expect("a checkpoint is due");
    judge.answer(question, 0);
    judge.reopen(0..1_000);
    let question = judge.question().expect("more may be delivered");
    judge.answer(question, 0);
    assert!(judge.is_judged(0) && judge.is_judged(1), "their duplicates may be delivered already (law L8)");
    // Once they are delivered, they are.
    judge.reopen(0..1_000);
    let question = judge.question().expect("more may be delivered");
    judge.answer(question, 2);
    assert!(!judge.is_judged(0) && !judge.is_judged(1));
}

#[test]
fn what_was_committed_before_a_range_is_reopened_says_nothing_about_what_is_judged_of_it_afterwards() {
    let mut judge = TestJudge::active();
    (0..3).for_each(|offset| judge.page(offset));
    let former = judge.question().expect("a checkpoint is due");
    judge.reopen(0..1_000);
    let question = judge.question().expect("asked again");
    judge.answer_without_offset(question);
    assert!((0..3).all(|offset| !judge.is_judged(offset)), "reopened");
    judge.page(0);
    judge.answer(former, 3);
    judge.reopen(0..1_000);
    let question = judge.question().expect("more may be delivered");
    judge.answer(question, 0);
    assert!(judge.is_judged(0), "it may be on its way");
}

/// A judge that has judged three pages, all delivered, and then the first of them again: no answer about it is there.
fn judge_of_a_page_on_its_way_again() -> TestJudge {
    let mut judge = TestJudge::active();
    (0..3).for_each(|offset| judge.page(offset));
    judge.reopen(0..1);
    let question = judge.question().expect("what is delivered is not known");
    judge.answer(question, 3);
    assert!(!judge.is_judged(0), "reopened");
    judge.page(0);
    judge
}

#[test]
fn a_page_that_is_on_its_way_again_is_not_reopened_again() {
    let mut judge = judge_of_a_page_on_its_way_again();
    judge.reopen(0..3);
    let question = judge.question().expect("it may be delivered");
    judge.answer(question, 0);
    assert!((0..3).all(|offset| judge.is_judged(offset)), "its duplicates may be delivered already (law L8)");
    // What comes after it is delivered, and can be reopened by itself.
    judge.reopen(1..3);
    assert_eq!([0, 1, 2].map(|offset| judge.is_judged(offset)), [true, false, false]);
    judge.reopen(0..3);
    let question = judge.question().expect("it may be delivered");
    judge.answer(question, 1);
    assert!(!judge.is_judged(0), "it is delivered again");
}

#[test]
fn what_was_committed_before_a_verdict_is_in_the_log_says_nothing_about_its_page() {
    let mut judge = judge_of_a_page_on_its_way_again();
    let former = judge.question().expect("a checkpoint is due");
    // The group was asked before the verdict of the page was committed: it has passed the page once.
    judge.answer(former, 3);
    judge.reopen(0..3);
    let question = judge.question().expect("it may be delivered");
    judge.answer(question, 0);
    assert!(judge.is_judged(0), "it may be on its way");
}

#[test]
fn a_page_whose_verdict_the_brokers_refuse_is_not_delivered() {
    let mut judge = TestJudge::active();
    (0..3).for_each(|offset| judge.page(offset));
    judge.reopen(0..1);
    let question = judge.question().expect("what is delivered is not known");
    judge.answer(question, 3);
    judge.refuses = true;
    judge.page(0);
    judge.question();
    judge.reopen(0..3);
    let question = judge.question().expect("it may be delivered");
    // No worker can have seen the verdict: what is committed is the first delivery.
    judge.answer(question, 3);
    assert!(judge.is_judged(0));
    judge.refuses = false;
    judge.pass(Duration::from_secs(1));
    judge.reopen(0..3);
    let question = judge.question().expect("it may be delivered");
    judge.answer(question, 3);
    assert!(!judge.is_judged(0));
}

#[test]
fn a_delayed_end_of_the_log_ends_no_later_take_over() {
    let mut judge = TestJudge::standby();
    judge.holds_ends = true;
    judge.handle(Event::Assigned);
    let earlier = judge.end_question().expect("follows to the barrier");
    judge.handle(Event::Revoked);
    // Another judge writes meanwhile.
    judge.handle(Event::Assigned);
    let question = judge.end_question().expect("follows to the barrier");
    judge.handle(Event::FollowedToEnd { question: earlier });
    assert_eq!(judge.role(), Role::TakingOver);
    judge.handle(Event::FollowedToEnd { question });
    assert_eq!(judge.role(), Role::Active);
}

#[test]
fn a_judge_takes_over_once_it_has_read_what_it_wrote_itself() {
    let mut judge = TestJudge::standby();
    judge.holds_ends = true;
    judge.handle(Event::Assigned);
    assert_eq!(judge.calls, [Call::Init, Call::Begin, Call::Produce, Call::Commit], "offsets move with verdicts alone");
    let barriers: Vec<_> =
        judge.effects.iter().filter(|effect| matches!(effect, Effect::FollowToBarrier { .. })).cloned().collect();
    let [Effect::FollowToBarrier { question, barrier: VerdictOffset(0) }] = barriers[..] else {
        panic!("{barriers:?}")
    };
    assert_eq!(judge.role(), Role::TakingOver);
    // The predecessor's last words, which no broker that was asked for the end knew of.
    judge.followed(0, VerdictRecord::Checkpoint(Box::new(beginning(1, rules(1_000)))));
    judge.followed(1, batch(1, 5));
    judge.handle(Event::FollowedToEnd { question });
    assert_eq!(judge.role(), Role::Active);
    assert_eq!(judge.judge.state().next_request(), RequestOffset(5));
}

#[test]
fn a_barrier_that_is_refused_is_written_again_after_a_pause() {
    let mut judge = TestJudge::standby();
    judge.refuses = true;
    judge.handle(Event::Assigned);
    let attempt = [Call::Init, Call::Begin, Call::Produce, Call::Abort];
    assert_eq!((judge.role(), &judge.calls[..]), (Role::Standby, &attempt[..]));
    judge.refuses = false;
    judge.pass(Duration::from_millis(900));
    assert_eq!(judge.role(), Role::Standby, "not at once");
    judge.pass(Duration::from_millis(100));
    assert_eq!(judge.role(), Role::Active);
}

#[test]
fn a_refused_record_is_sent_again_after_a_pause_that_grows() {
    let mut judge = TestJudge::active();
    judge.refuses = true;
    judge.calls.clear();
    judge.page(0);
    let attempt = [Call::Begin, Call::Produce, Call::Abort];
    assert_eq!(judge.calls, attempt);
    judge.pass(Duration::from_millis(900));
    assert_eq!(judge.calls, attempt, "not at once");
    judge.page(1);
    judge.pass(Duration::from_millis(100));
    assert_eq!(judge.calls.len(), 2 * attempt.len());
    judge.pass(Duration::from_millis(1_900));
    assert_eq!(judge.calls.len(), 2 * attempt.len(), "the second pause is longer");
    judge.refuses = false;
    judge.pass(Duration::from_millis(100));
    assert_eq!(judge.calls.last(), Some(&Call::Commit));
    assert!(judge.judge.settled_at().is_some(), "what was judged meanwhile is committed as well");
}

#[test]
fn a_judge_that_is_refused_can_still_hand_over() {
    let mut judge = TestJudge::active();
    judge.refuses = true;
    judge.page(0);
    judge.handle(Event::Revoked);
    assert_eq!(judge.role(), Role::Draining);
    judge.refuses = false;
    judge.pass(Duration::from_secs(1));
    assert_eq!(judge.role(), Role::Standby);
}

/// A judge without a snapshot, which reads the log from its beginning.
fn reading() -> TestJudge {
    let mut judge = TestJudge::restoring();
    judge.holds_ends = true;
    judge.handle(Event::Restored(None));
    judge
}

#[test]
fn the_beginning_of_another_log_is_taken_over_where_it_is() {
    let mut judge = reading();
    assert_eq!(judge.read_from_the_beginning(), 1);
    let checkpoint = |log| VerdictRecord::Checkpoint(Box::new(beginning(log, rules(1_000))));
    // What is left of a log whose first checkpoint is gone, another one, and the log that is written now.
    let records = [batch(1, 9), checkpoint(2), batch(2, 3), checkpoint(3), batch(3, 5)];
    for (offset, record) in (0..).zip(records) {
        judge.followed(offset, record);
        assert_eq!(judge.read_from_the_beginning(), 0, "at {offset}");
    }
    assert_eq!(judge.judge.state().log(), Some(LogIdentity(3)));
    assert_eq!(judge.judge.state().next_request(), RequestOffset(5));
}

#[test]
fn a_later_checkpoint_of_another_log_is_not_taken_for_its_beginning() {
    let mut judge = TestJudge::standby();
    judge.followed(0, VerdictRecord::Checkpoint(Box::new(beginning(1, rules(1_000)))));
    judge.read_from_the_beginning();
    let later = Checkpoint { previous: Some(VerdictOffset(0)), ..beginning(2, rules(1_000)) };
    judge.followed(1, VerdictRecord::Checkpoint(Box::new(later)));
    assert_eq!(judge.read_from_the_beginning(), 1, "there is more of it");
}

#[test]
fn a_judge_continues_where_the_fingerprint_log_has_records_and_says_so() {
    let mut judge = TestJudge::active();
    (0..3).for_each(|offset| judge.page(offset));
    let range = |first, end| Event::RequestsOutOfRange { first: RequestOffset(first), end: RequestOffset(end) };
    for (first, end, from) in [(0, 1, 1), (9, 9, 9), (10, 20, 10), (0, 20, 10)] {
        (judge.effects, judge.records) = (Vec::new(), Vec::new());
        judge.handle(range(first, end));
        let leaves = judge.effects.contains(&Effect::Leave);
        assert_eq!((leaves, judge.effects.contains(&Effect::Join)), (end == 1, end == 1), "with another client");
        judge.handle(Event::Assigned);
        assert!(judge.effects.contains(&Effect::ReadRequests { from: RequestOffset(from) }), "{:?}", judge.effects);
        assert_eq!(judge.judge.state().next_request(), RequestOffset(from));
        let written: Vec<_> = judge.records.iter().map(next_request).collect();
        assert_eq!(written, if end == 20 && first == 0 { vec![] } else { vec![Some((from, 0))] }, "{first} to {end}");
    }
}

#[test]
fn what_was_judged_before_the_fingerprint_log_was_recreated_is_in_a_batch_of_its_own() {
    let mut judge = TestJudge::active();
    judge.records.clear();
    judge.refuses = true;
    (0..3).for_each(|offset| judge.page(offset));
    judge.handle(Event::RequestsOutOfRange { first: RequestOffset(0), end: RequestOffset(0) });
    judge.next_request = 0;
    (3..7).for_each(|offset| judge.page(offset));
    judge.refuses = false;
    judge.pass(Duration::from_secs(1));
    let written: Vec<_> = judge.records.iter().filter_map(next_request).collect();
    assert_eq!(written, [(1, 1), (3, 2), (0, 0), (4, 4)], "next request and verdicts of each batch");
}

/// Returns the next request that a batch names, and the number of its verdicts.
fn next_request(record: &VerdictRecord) -> Option<(i64, usize)> {
    match record {
        VerdictRecord::Verdicts(batch) => Some((batch.next_request.0, batch.verdicts.len())),
        VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
    }
}

/// A page judged unique, as the log has it.
fn verdict(request: u64, offset: i64, event_time: i64) -> Verdict {
    let page = PageVerdict {
        source: TestJudge::input().at(offset),
        event_time: Timestamp::from_millis(event_time),
        digest: PageDigest(0),
        decision: Decision::Unique { original: None },
    };
    Verdict { request: RequestId(request), answer: Answer::Page(page) }
}

fn verdicts(verdicts: Vec<Verdict>) -> VerdictRecord {
    let VerdictRecord::Verdicts(empty) = batch(1, 5) else { panic!() };
    VerdictRecord::Verdicts(VerdictBatch { verdicts, ..empty })
}

#[test]
fn a_second_verdict_in_the_log_changes_nothing_is_counted_and_stops_no_judge() {
    let [with, without] = [vec![verdict(3, 0, 14), verdict(4, 1, 12)], vec![verdict(4, 1, 12)]].map(|later| {
        let mut judge = reading();
        judge.followed(0, VerdictRecord::Checkpoint(Box::new(beginning(1, rules(1_000)))));
        judge.followed(1, verdicts(vec![verdict(1, 0, 10)]));
        judge.followed(2, verdicts(later));
        judge
    });
    assert!(!with.effects.iter().any(|effect| matches!(effect, Effect::Fail(_))), "{:?}", with.effects);
    let counted = [&with, &without].map(|judge| judge.judge.counts().second_verdicts);
    assert_eq!(counted, [1, 0]);
    assert_eq!(with.judge.state().second_verdict(), Some(&TestJudge::input().at(0)));
    assert_eq!(with.judge.state().digest(), without.judge.state().digest());
    assert_eq!(with.judge.state().stream_time(), Timestamp::from_millis(12));
}

#[test]
fn a_verdict_after_a_reopening_is_no_second_one() {
    let mut judge = reading();
    judge.followed(0, VerdictRecord::Checkpoint(Box::new(beginning(1, rules(1_000)))));
    let reopened = Answer::Reopened { partition: TestJudge::input(), from: 0, to: 1 };
    let reopened = Verdict { request: RequestId(2), answer: reopened };
    judge.followed(1, verdicts(vec![verdict(1, 0, 10), reopened, verdict(3, 0, 14)]));
    assert_eq!(judge.judge.counts().second_verdicts, 0);
    assert_eq!(judge.judge.state().stream_time(), Timestamp::from_millis(14));
}

#[test]
fn a_judge_of_a_new_scheme_begins_no_log_if_the_window_of_another_one_would_be_lost() {
    let started = |cold_start| {
        let mut judge = TestJudge::restoring_with(cold_start);
        judge.handle(Event::Restored(None));
        judge.handle(Event::Assigned);
        let wrote = judge.calls.iter().filter(|call| **call == Call::Produce).count();
        (judge.effects.contains(&Effect::Fail(Failure::NewScheme)), judge.judge.cold_starts().new_log, wrote)
    };
    assert_eq!(started(ColdStart::Stop), (false, 1, 2), "the barrier and a checkpoint");
    assert_eq!(started(ColdStart::StopOnNewScheme), (true, 0, 1), "only the barrier");
}

#[test]
fn a_judge_whose_log_was_recreated_begins_a_new_one() {
    let mut judge = TestJudge::active();
    judge.page(0);
    judge.page(1);
    let (lost, before) = (judge.judge.state().log(), judge.judge.cold_starts());
    // The next transaction is committed at the beginning of the new topic.
    (judge.next_verdict, judge.holds_ends) = (0, true);
    judge.page(2);
    assert_eq!(judge.role(), Role::Restoring);
    assert!(judge.effects.contains(&Effect::Leave) && judge.effects.contains(&Effect::StopReading));
    assert!(!judge.is_judged(2), "its state follows from no log");
    let orphan = judge.records.last().unwrap().clone();
    judge.followed(0, orphan);
    let end = |effect: &Effect| if let Effect::FollowToEnd { question } = effect { Some(*question) } else { None };
    let question = judge.effects.iter().rev().find_map(end).unwrap();
    judge.holds_ends = false;
    judge.handle(Event::FollowedToEnd { question });
    judge.effects.clear();
    judge.handle(Event::Assigned);
    assert_eq!(judge.role(), Role::Active);
    assert!(matches!(judge.records.last(), Some(VerdictRecord::Checkpoint(_))));
    assert_ne!(judge.judge.state().log(), lost);
    assert!(judge.effects.contains(&Effect::ReadRequests { from: RequestOffset(0) }), "what is left is judged anew");
    let after = judge.judge.cold_starts();
    assert_eq!((after.log_truncated, after.new_log), (before.log_truncated + 1, before.new_log));
}

// ---- stepping down with verdicts that are not known to be committed

/// A judge that has committed page 0. It waits for the answer to the commit of page 1, and has judged page 2.
fn committing() -> TestJudge {
    let mut judge = TestJudge::active();
    judge.page(0);
    (judge.effects, judge.records) = (Vec::new(), Vec::new());
    judge.held = Some(Call::Commit);
    judge.page(1);
    judge.page(2);
    assert_eq!(judge.records.len(), 1);
    judge
}

/// The batches of page 1 and of page 2, as that judge sends them.
fn batches() -> [VerdictRecord; 2] {
    let mut judge = committing();
    judge.answer_call(Ok(()));
    judge.records.try_into().expect("one after the other")
}

/// A batch of another judge with these verdicts.
fn batch_of(verdicts: &[&[Verdict]], next_request: i64) -> VerdictRecord {
    let [VerdictRecord::Verdicts(own), _] = batches() else { panic!() };
    let (verdicts, next_request) = (verdicts.concat(), RequestOffset(next_request));
    VerdictRecord::Verdicts(VerdictBatch { next_request, verdicts, ..own })
}

fn verdicts_in(record: &VerdictRecord) -> &[Verdict] {
    let VerdictRecord::Verdicts(batch) = record else { panic!("{record:?}") };
    &batch.verdicts
}

fn unknown() -> Result<(), CallError> {
    Err(CallError::Unknown(String::new()))
}

fn has_judged(judge: &TestJudge, pages: &[i64]) -> bool {
    !judge.effects.contains(&Effect::Restore) && pages.iter().all(|&page| judge.is_judged(page))
}

#[test]
fn a_judge_that_was_thrown_out_sends_again_what_was_not_committed() {
    let mut judge = committing();
    judge.handle(Event::Lost);
    judge.records.clear();
    judge.answer_call(Err(CallError::Abortable(String::new())));
    assert_eq!((judge.role(), judge.calls.last()), (Role::Standby, Some(&Call::Abort)));
    assert!(has_judged(&judge, &[0, 1, 2]) && judge.judge.settled_at().is_none(), "it may be ahead of the log");
    judge.handle(Event::Assigned);
    assert_eq!((judge.role(), &judge.records[..]), (Role::Active, &batches()[..]));
    assert!(has_judged(&judge, &[0, 1, 2]) && judge.judge.settled_at().is_some());
}

#[test]
fn a_commit_of_unknown_outcome_is_looked_up_in_the_log() {
    for is_committed in [true, false] {
        let mut judge = committing();
        judge.holds_ends = true;
        judge.answer_call(unknown());
        assert_eq!(judge.role(), Role::TakingOver, "it is still assigned");
        let question = judge.end_question().expect("follows to the barrier");
        let [first, second] = batches();
        if is_committed {
            judge.followed(10, first.clone());
        }
        judge.records.clear();
        judge.handle(Event::FollowedToEnd { question });
        let expected = if is_committed { vec![second] } else { vec![first, second] };
        assert_eq!((judge.role(), &judge.records), (Role::Active, &expected), "committed: {is_committed}");
        assert!(has_judged(&judge, &[0, 1, 2]) && !judge.effects.contains(&Effect::Leave));
    }
}

#[test]
fn a_checkpoint_of_unknown_outcome_is_looked_up_in_the_log() {
    let mut judge = TestJudge::active();
    judge.page(0);
    let question = judge.question().expect("a checkpoint is due");
    (judge.holds_ends, judge.held) = (true, Some(Call::Commit));
    judge.records.clear();
    judge.answer(question, 1);
    let sent = std::mem::take(&mut judge.records);
    assert!(matches!(sent[..], [VerdictRecord::Checkpoint(_)]), "{sent:?}");
    judge.answer_call(unknown());
    let end = judge.end_question().expect("follows to the barrier");
    judge.followed(10, sent[0].clone());
    judge.handle(Event::FollowedToEnd { question: end });
    assert_eq!((judge.role(), &judge.records[..]), (Role::Active, &[][..]));
    assert_eq!(judge.judge.settled_at(), Some(VerdictOffset(11)));
    judge.page(1);
    let question = judge.question().expect("the next checkpoint is due");
    judge.answer(question, 2);
    let Some(VerdictRecord::Checkpoint(next)) = judge.records.last() else { panic!("{:?}", judge.records) };
    assert_eq!(next.previous, Some(VerdictOffset(10)));
}

#[test]
fn what_another_judge_has_judged_alike_is_kept() {
    let mut judge = committing();
    judge.handle(Event::Lost);
    judge.answer_call(Err(CallError::Abortable(String::new())));
    let [first, second] = batches();
    judge.followed(10, batch_of(&[verdicts_in(&first)], 2));
    assert!(judge.judge.settled_at().is_none(), "it is ahead by page 2");
    assert_eq!(judge.judge.state().next_request(), RequestOffset(3));
    judge.followed(11, batch_of(&[verdicts_in(&second), &[verdict(9, 5, 0)]], 9));
    assert!(has_judged(&judge, &[0, 1, 2, 5]));
    assert_eq!(judge.judge.settled_at(), Some(VerdictOffset(12)));
    assert_eq!(judge.judge.state().next_request(), RequestOffset(9));
    judge.records.clear();
    judge.handle(Event::Assigned);
    assert_eq!((judge.role(), &judge.records[..]), (Role::Active, &[][..]));
}

#[test]
fn what_another_judge_has_not_judged_is_sent_alone() {
    let mut judge = committing();
    judge.handle(Event::Lost);
    judge.answer_call(Err(CallError::Abortable(String::new())));
    let [first, second] = batches();
    judge.followed(10, batch_of(&[verdicts_in(&first)], 2));
    judge.records.clear();
    judge.handle(Event::Assigned);
    assert_eq!(judge.records, [second]);
}

/// A judge that was asked about these pages after page 0, has written a checkpoint after them, and was thrown out before any
/// of it was committed.
fn thrown_out_with_a_checkpoint(pages: &[i64]) -> TestJudge {
    let mut judge = TestJudge::active();
    judge.page(0);
    let question = judge.question().expect("a checkpoint is due");
    judge.held = Some(Call::Commit);
    pages.iter().for_each(|&page| judge.page(page));
    judge.answer(question, 0);
    judge.handle(Event::Lost);
    judge.answer_call(Err(CallError::Abortable(String::new())));
    judge
}

#[test]
fn a_checkpoint_does_not_go_back_before_requests_that_another_judge_has_passed() {
    let mut judge = thrown_out_with_a_checkpoint(&[1, 2]);
    let [first, second] = batches();
    // After page 2 come requests that need no verdict.
    judge.followed(10, batch_of(&[verdicts_in(&first), verdicts_in(&second)], 7));
    judge.records.clear();
    judge.handle(Event::Assigned);
    let [VerdictRecord::Checkpoint(checkpoint)] = &judge.records[..] else { panic!("{:?}", judge.records) };
    assert_eq!((checkpoint.next_request, judge.judge.state().next_request()), (RequestOffset(7), RequestOffset(7)));
}

#[test]
fn requests_that_another_judge_has_not_passed_are_passed_by_a_batch_not_by_a_checkpoint_alone() {
    // The last one is a repeat, which needs no verdict.
    let mut judge = thrown_out_with_a_checkpoint(&[1, 2, 2]);
    let [first, second] = batches();
    judge.followed(10, batch_of(&[verdicts_in(&first), verdicts_in(&second)], 3));
    judge.records.clear();
    judge.handle(Event::Assigned);
    let [VerdictRecord::Verdicts(batch), VerdictRecord::Checkpoint(checkpoint)] = &judge.records[..] else {
        panic!("{:?}", judge.records)
    };
    assert!(batch.verdicts.is_empty());
    assert_eq!([batch.next_request, checkpoint.next_request], [RequestOffset(4); 2]);
}

#[test]
fn a_judge_leaves_the_group_and_restores_its_state_if_the_log_holds_something_else() {
    let [first, _] = batches();
    let (log, number) = (LogIdentity(7), RulesNumber(2));
    let rules = VerdictRecord::Rules(RulesRecord { log, number, rules: rules(5) });
    let checkpoint = VerdictRecord::Checkpoint(Box::new(beginning(7, super::rules(1_000))));
    let VerdictRecord::Verdicts(other_rules) = &first else { panic!() };
    let other_rules = VerdictRecord::Verdicts(VerdictBatch { rules: number, ..other_rules.clone() });
    let other_verdict = batch_of(&[&[verdict(77, 1, 5)]], 2);
    for record in [rules, checkpoint, other_rules, other_verdict] {
        let mut judge = committing();
        judge.handle(Event::Lost);
        judge.effects.clear();
        judge.followed(10, record.clone());
        assert_eq!(judge.role(), Role::Restoring, "{record:?}");
        assert_eq!(judge.effects, [Effect::Leave, Effect::Unfollow, Effect::Restore]);
        assert!(!judge.is_judged(0));
    }
}

#[test]
fn a_fenced_judge_leaves_the_group_keeps_its_state_and_joins_again() {
    let mut judge = committing();
    judge.answer_call(Err(CallError::Fenced(String::new())));
    assert!(has_judged(&judge, &[0, 1, 2]));
    let changes = judge.effects.iter().filter(|effect| matches!(effect, Effect::Leave | Effect::Join));
    assert_eq!(changes.cloned().collect::<Vec<_>>(), [Effect::Leave, Effect::Join]);
    assert_eq!(judge.role(), Role::Standby, "until it is assigned again");
}

#[test]
fn a_record_of_requests_is_judged_to_its_end_before_its_judge_steps_down() {
    let mut judge = committing();
    let requests = vec![TestJudge::request(3, 3), TestJudge::request(4, 4)];
    let event = Event::Requests { offset: RequestOffset(3), append_time: Timestamp::MIN, requests };
    judge.judge.handle(Duration::ZERO, event);
    assert!(judge.is_judged(3) && !judge.is_judged(4));
    judge.handle(Event::Lost);
    assert!(judge.is_judged(4));
    assert_eq!(judge.judge.state().next_request(), RequestOffset(4));
}
