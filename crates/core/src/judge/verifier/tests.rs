use proptest::prelude::*;

use super::super::tests::{deliver_all, requests, rules};
use super::*;
use crate::protocol::{Decision, ExpiryWatermarks, LogIdentity, PerStage, RequestOffset, RulesNumber, RulesRecord};
use crate::record::Source;

/// Both logs as a judge leaves them: `asked[n]` belongs to the n-th batch of verdicts.
struct Logs {
    verdicts: Vec<VerdictRecord>,
    asked: Vec<Vec<Asked>>,
}

/// Judges requests as the service does: some in a record, some records in a batch, new rules and a checkpoint between.
fn logs(requests: &[(Request, Timestamp)], capacity: u64) -> Logs {
    let mut state = State::begin(LogIdentity(1), rules(capacity), RequestOffset(0));
    deliver_all(&mut state);
    let checkpoint = |state: &State| {
        let checkpoint = state.checkpoint(None, |_| 0).unwrap();
        VerdictRecord::Checkpoint(Box::new(checkpoint))
    };
    let (mut records, mut all_asked) = (vec![checkpoint(&state)], Vec::new());
    for (number, of_batch) in requests.chunks(7).enumerate() {
        if number == 3 {
            let mut rules = rules(capacity);
            rules.max_distance = 1;
            let record = RulesRecord { log: LogIdentity(1), number: RulesNumber(2), rules };
            state.follow_rules(&record);
            records.push(VerdictRecord::Rules(record));
        }
        let (mut verdicts, mut asked) = (Vec::new(), Vec::new());
        for (at, of_record) in of_batch.chunks(3).enumerate() {
            let (_, append_time) = of_record[0];
            let of_record: Vec<Request> = of_record.iter().map(|(request, _)| request.clone()).collect();
            for request in &of_record {
                let Some(verdict) = decide(&state, request, append_time) else { continue };
                state.follow(&verdict).unwrap();
                verdicts.push(verdict);
            }
            let offset = RequestOffset(i64::try_from(number * 3 + at).unwrap());
            asked.push(Asked { offset, append_time, requests: of_record });
            state.pass_requests(offset.next());
        }
        records.push(VerdictRecord::Verdicts(VerdictBatch {
            log: LogIdentity(1),
            rules: state.rules_number(),
            watermarks: state.watermarks(),
            next_request: state.next_request(),
            verdicts,
        }));
        all_asked.push(asked);
        if number % 5 == 4 {
            records.push(checkpoint(&state));
        }
    }
    Logs { verdicts: records, asked: all_asked }
}

fn judged_again(logs: &Logs) -> (Vec<Difference>, VerifyCounts, Result<(), Diverged>) {
    let (mut verifier, mut asked, mut found) = (LogVerifier::default(), logs.asked.iter(), Vec::new());
    for record in &logs.verdicts {
        let of_batch = matches!(record, VerdictRecord::Verdicts(_)).then(|| asked.next().unwrap().as_slice());
        match verifier.record(record, of_batch) {
            Ok(differences) => found.extend(differences),
            Err(why) => return (found, verifier.counts(), Err(why)),
        }
    }
    (found, verifier.counts(), Ok(()))
}

/// The verdicts of pages in the log, by batch and place.
fn pages(logs: &Logs) -> Vec<(usize, usize)> {
    let batches = logs.verdicts.iter().enumerate().filter_map(|(at, record)| match record {
        VerdictRecord::Verdicts(batch) => Some((at, batch)),
        VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
    });
    let of_pages = batches.flat_map(|(at, batch)| {
        let places = batch.verdicts.iter().enumerate();
        places.filter(|(_, verdict)| matches!(verdict.answer, Answer::Page(_))).map(move |(place, _)| (at, place))
    });
    of_pages.collect()
}

/// The verdict of a page, to be falsified.
fn page(logs: &mut Logs, (at, place): (usize, usize)) -> &mut crate::protocol::PageVerdict {
    let VerdictRecord::Verdicts(batch) = &mut logs.verdicts[at] else { panic!("no verdicts at {at}") };
    let Answer::Page(page) = &mut batch.verdicts[place].answer else { panic!("no page at {at}:{place}") };
    page
}

fn stranger() -> Source {
    crate::record::PartitionId::new("strangers", 0).at(7)
}

fn asked_about(difference: &Difference) -> Option<(&Verdict, &Verdict)> {
    let Difference::Verdict { request: Some(_), written: Some(written), again: Some(again) } = difference else {
        return None;
    };
    Some((written, again))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_a_judge_wrote_comes_out_again(requests in requests(), capacity in prop_oneof![Just(3), Just(1000)]) {
        let logs = logs(&requests, capacity);
        let (found, counts, end) = judged_again(&logs);
        prop_assert_eq!((found, end), (vec![], Ok(())));
        prop_assert_eq!(counts.judged, counts.same);
        let written = logs.verdicts.iter().map(|record| match record {
            VerdictRecord::Verdicts(batch) => batch.verdicts.len() as u64,
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => 0,
        });
        prop_assert_eq!(counts.judged, written.sum::<u64>());
    }

    #[test]
    fn a_falsified_verdict_is_found_and_no_other_is_blamed(requests in requests(), at in any::<prop::sample::Index>()) {
        let mut logs = logs(&requests, 1000);
        let pages = pages(&logs);
        prop_assume!(!pages.is_empty());
        let place = pages[at.index(pages.len())];
        let page = page(&mut logs, place);
        let (written, source) = (page.decision.clone(), page.source.clone());
        match &mut page.decision {
            // Its originals are what they were, so later verdicts stay right.
            Decision::Duplicate { of } | Decision::Update { of, .. } | Decision::Template { of, .. } => of.age_ms += 1,
            Decision::Unique { .. } => page.digest.0 ^= 1,
        }
        let (found, counts, end) = judged_again(&logs);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!((found.len(), counts.judged - counts.same), (1, 1), "{:?}", written);
        let (_, again) = asked_about(&found[0]).unwrap();
        prop_assert_eq!(again.answer.judged_source(), Some(&source));
    }
}

/// Requests that make something of each kind of verdict.
fn usual() -> Vec<(Request, Timestamp)> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    loop {
        let requests = requests().new_tree(&mut runner).unwrap().current();
        if requests.len() > 100 {
            return requests;
        }
    }
}

#[test]
fn a_verdict_without_a_request_and_a_request_without_a_verdict_are_reported() {
    let mut changed = logs(&usual(), 1000);
    let (at, place) = pages(&changed)[4];
    let VerdictRecord::Verdicts(batch) = &mut changed.verdicts[at] else { panic!("verdicts") };
    let taken = batch.verdicts.remove(place);
    let (found, ..) = judged_again(&changed);
    let is_taken = |difference: &Difference| matches!(difference, Difference::Verdict { request: Some(_), written: None, again: Some(again) } if **again == taken);
    assert!(found.iter().any(is_taken), "{found:?}");

    let mut changed = logs(&usual(), 1000);
    let VerdictRecord::Verdicts(batch) = &mut changed.verdicts[at] else { panic!("verdicts") };
    let mut made_up = taken;
    made_up.request.0 = u64::MAX;
    if let Answer::Page(page) = &mut made_up.answer {
        page.source = stranger();
    }
    batch.verdicts.insert(place, made_up.clone());
    let (found, ..) = judged_again(&changed);
    let is_made_up = |difference: &Difference| matches!(difference, Difference::Verdict { request: None, written: Some(written), again: None } if **written == made_up);
    assert!(found.iter().any(is_made_up), "{found:?}");
}

#[test]
fn tails_and_checkpoints_that_do_not_follow_are_reported() {
    let mut changed = logs(&usual(), 1000);
    let VerdictRecord::Verdicts(batch) = &mut changed.verdicts[1] else { panic!("verdicts") };
    batch.watermarks = ExpiryWatermarks { times: PerStage::all(Timestamp::from_millis(1_000_000)), first_sequence: 0 };
    assert!(judged_again(&changed).0.contains(&Difference::ExpiryWatermarks));

    let mut changed = logs(&usual(), 1000);
    let last = changed.verdicts.iter_mut().rev().find_map(|record| match record {
        VerdictRecord::Checkpoint(checkpoint) => Some(checkpoint),
        VerdictRecord::Rules(_) | VerdictRecord::Verdicts(_) => None,
    });
    last.unwrap().next_sequence += 1;
    assert_eq!(judged_again(&changed).0, [Difference::Checkpoint]);
}

#[test]
fn originals_that_are_older_than_the_kept_log_are_no_differences() {
    let whole = logs(&usual(), 1000);
    // The log is cut at its second checkpoint, though originals before it are still alive.
    let second = whole.verdicts.iter().enumerate().skip(1);
    let cut = second.filter(|(_, record)| matches!(record, VerdictRecord::Checkpoint(_))).map(|(at, _)| at).next();
    let cut = cut.unwrap();
    let before = whole.verdicts[..cut].iter().filter(|record| matches!(record, VerdictRecord::Verdicts(_))).count();
    let mut kept = Logs { verdicts: whole.verdicts[cut..].to_vec(), asked: whole.asked[before..].to_vec() };
    let (found, counts, end) = judged_again(&kept);
    assert_eq!((found, end), (vec![], Ok(())));
    assert!(counts.unknown > 0 && counts.same > 0, "{counts:?}");

    // Where the trim can be trusted, an original that the log does not have is a difference.
    let mut verifier = LogVerifier::default();
    verifier.trust_the_trim();
    let mut asked = kept.asked.iter();
    let mut differences = 0;
    for record in &kept.verdicts {
        let of_batch = matches!(record, VerdictRecord::Verdicts(_)).then(|| asked.next().unwrap().as_slice());
        differences += verifier.record(record, of_batch).unwrap().len() as u64;
    }
    assert_eq!((differences, verifier.counts().unknown), (counts.unknown, 0));

    // Requests that are gone are not judged.
    kept.asked.clear();
    let mut verifier = LogVerifier::default();
    for record in &kept.verdicts {
        assert_eq!(verifier.record(record, None), Ok(vec![]));
    }
    assert_eq!(verifier.counts().judged, 0);
    assert!(verifier.counts().unasked > 0);
}

#[test]
fn a_second_verdict_counts_for_nothing_and_is_no_difference() {
    let honest = logs(&usual(), 1000);
    let (_, expected, _) = judged_again(&honest);
    // Another judge has written it, by other rules, in the same record.
    let mut changed = logs(&usual(), 1000);
    let (at, place) = pages(&changed)[0];
    let VerdictRecord::Verdicts(batch) = &mut changed.verdicts[at] else { panic!("verdicts") };
    let mut twice = batch.verdicts[place].clone();
    if let Answer::Page(page) = &mut twice.answer {
        page.event_time = Timestamp::from_millis(1_000_000);
        page.decision = Decision::Unique { original: None };
    }
    batch.verdicts.push(twice);
    let with = |second_verdicts| VerifyCounts { second_verdicts, ..expected };
    assert_eq!(judged_again(&changed), (vec![], with(1), Ok(())));

    // Another judge has judged the last requests again, and had not read what is before them.
    let mut changed = logs(&usual(), 1000);
    let (at, batch) = changed
        .verdicts
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, record)| match record {
            VerdictRecord::Verdicts(batch) if batch.verdicts.iter().any(is_of_page) => Some((at, batch.clone())),
            VerdictRecord::Verdicts(_) | VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        })
        .unwrap();
    let verdicts: Vec<Verdict> = batch.verdicts.iter().filter(|verdict| is_of_page(verdict)).cloned().collect();
    let count = verdicts.len() as u64;
    let watermarks = ExpiryWatermarks { times: PerStage::all(Timestamp::MIN), first_sequence: 0 };
    let again = VerdictBatch { watermarks, verdicts, ..batch };
    let number = changed.verdicts[..=at].iter().filter(|record| matches!(record, VerdictRecord::Verdicts(_))).count();
    changed.verdicts.insert(at + 1, VerdictRecord::Verdicts(again));
    changed.asked.insert(number, Vec::new());
    assert_eq!(judged_again(&changed), (vec![], with(count), Ok(())));
}

fn is_of_page(verdict: &Verdict) -> bool {
    matches!(verdict.answer, Answer::Page(_))
}
