//! The live log by a judge, and what its replay gives.

use proptest::prelude::*;

use super::*;
use std::borrow::BorrowMut;
use std::sync::Arc;
use std::time::Duration;

use crate::fingerprint::{ExactHash, Fingerprints, Numbers, PageDigest};
use crate::protocol::{Decision, ForgetTarget, PerStage, RequestId, RulesNumber, RulesRecord, SameId, Stage};
use crate::record::{PartitionId, Timestamp};
use crate::replay::{InputRange, Plan};

const LIVE: LogIdentity = LogIdentity(1);
const OWN: LogIdentity = LogIdentity(2);

fn rules() -> Rules {
    Rules {
        stages: vec![Stage::Exact],
        max_distance: 3,
        windows: PerStage::all(Duration::from_hours(72)),
        lateness: Duration::from_hours(6),
        max_future_skew: Duration::from_hours(1),
        max_entries: 1_000_000,
        same_id: SameId::Update,
        number_guard: None,
        minhash: None,
        simhash_similarity: None,
        same_site: None,
        dual: None,
    }
}

/// A page whose text is number `text`.
fn page(partition: i32, offset: i64, text: u128) -> PageRequest {
    PageRequest {
        source: PartitionId::new("pages", partition).at(offset),
        event_time: Timestamp::from_millis(1000 * offset),
        id: None,
        scope: None,
        site: None,
        address: None,
        title: None,
        is_variant: false,
        fingerprints: Fingerprints { exact: ExactHash(text), simhash: None, sketch: None, numbers: Numbers::of("") },
        digest: PageDigest(7),
        earlier: None,
    }
}

/// Two partitions, of which each has a warm-up of `from` pages and a range after it.
fn ranges(from: i64) -> Ranges {
    let range = |partition| InputRange { topic: "pages".to_owned(), partition, warm_from: 0, from, to: i64::MAX };
    let text = serde_json::json!({
        "version": 1, "id": "x", "created_ms": 0, "cluster": "", "group": "g", "logs": "g", "order": "log", "reads": "pages", "into": "none",
        "set": [], "live_scheme": "s", "scheme": "s", "rules": [], "input": [range(0), range(1)], "verdict_log": [],
        "output": {"unique": null, "duplicate": null, "dead_letter": null}, "records": 0, "warm_up_records": 0,
        "warnings": []
    });
    serde_json::from_value::<Plan>(text).unwrap().ranges()
}

/// Judges pages live, this many in a record, and returns the log and all verdicts.
fn live(texts: &[u128], each: usize) -> (Vec<VerdictRecord>, Vec<Verdict>) {
    let mut judge = Rejudge::begin(LIVE, rules());
    let (mut log, mut verdicts) = (Vec::new(), Vec::new());
    for (at, text) in texts.iter().enumerate() {
        let offset = i64::try_from(at / 2).unwrap();
        let request = page(i32::try_from(at % 2).unwrap(), offset, *text);
        let verdict = judge.judge(&request, Timestamp::from_millis(i64::MAX)).unwrap();
        verdicts.extend(verdict.map(Arc::unwrap_or_clone));
        if (at + 1) % each == 0 {
            log.extend(judge.records());
        }
    }
    log.extend(judge.records());
    (log, verdicts)
}

/// Replays a log and returns what came out, with the live verdict of each page.
fn replay(
    mut order: impl BorrowMut<LogOrder>,
    log: &[VerdictRecord],
    texts: &[u128],
    gone: bool,
) -> Vec<(Verdict, Option<Verdict>)> {
    let (order, mut made) = (order.borrow_mut(), Vec::new());
    for record in log {
        order.record(record.clone()).unwrap();
        while let Some(next) = order.advance().unwrap() {
            let verdict = match next {
                Next::Page(verdict, _) => verdict,
                Next::Withdrawn(source, reason) => {
                    order.withdraw(&source, reason).unwrap();
                    continue;
                }
            };
            let source = verdict.answer.judged_source().unwrap().clone();
            let at = usize::try_from(source.offset * 2 + i64::from(source.partition.number)).unwrap();
            let mut request = page(source.partition.number, source.offset, texts[at]);
            let mut again = None;
            let take = |replayed: Replayed| again = again.take().or(Some(Arc::unwrap_or_clone(replayed.verdict)));
            order.judge(&verdict, Some(&mut request).filter(|_| !gone), take).unwrap();
            made.push((*verdict, again));
        }
    }
    made
}

fn decided(verdict: &Verdict) -> String {
    format!("{:?}", verdict.answer.page().unwrap())
}

proptest! {
    #[test]
    fn with_the_live_rules_the_live_verdicts_come_out(
        texts in prop::collection::vec(0_u128..6, 1..60), each in 1_usize..9, from in 0_i64..20, gone: bool,
    ) {
        let (log, verdicts) = live(&texts, each);
        let made = replay(LogOrder::as_live(OWN, ranges(from)), &log, &texts, gone);
        let in_range = verdicts.iter().filter(|verdict| verdict.answer.page().unwrap().source.offset >= from);
        prop_assert_eq!(made.len(), in_range.count());
        for (live, again) in made {
            prop_assert_eq!(decided(&live), decided(&again.unwrap()));
        }
    }

    /// Of two verdicts on a page the first counts, wherever the second is and whatever it says.
    #[test]
    fn second_verdicts_are_skipped_and_counted(
        texts in prop::collection::vec(0_u128..6, 1..60), each in 1_usize..9, from in 0_i64..20,
        seconds in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..9),
    ) {
        let (mut log, verdicts) = live(&texts, each);
        let expected = replay(LogOrder::as_live(OWN, ranges(from)), &log, &texts, false);
        for (verdict, after) in &seconds {
            let mut second = verdicts[verdict.index(verdicts.len())].clone();
            let Answer::Page(page) = &mut second.answer else { panic!("{second:?}") };
            page.event_time = Timestamp::from_millis(i64::MAX);
            page.decision = Decision::Unique { original: None };
            let is_first = |record: &VerdictRecord| match record {
                VerdictRecord::Verdicts(batch) => batch.verdicts.iter().any(|verdict| verdict.request == second.request),
                VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => false,
            };
            let first = log.iter().position(is_first).unwrap();
            let later = &mut log[first..];
            let at = after.index(later.len());
            if let VerdictRecord::Verdicts(batch) = &mut later[at] {
                batch.verdicts.push(second);
            }
        }
        let written = log.iter().map(|record| match record {
            VerdictRecord::Verdicts(batch) => batch.verdicts.len(),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => 0,
        });
        let written: usize = written.sum();
        let mut order = LogOrder::as_live(OWN, ranges(from));
        prop_assert_eq!(replay(&mut order, &log, &texts, false), expected);
        prop_assert_eq!(usize::try_from(order.take_second_verdicts()).unwrap(), written - verdicts.len());
        prop_assert_eq!(order.take_second_verdicts(), 0, "counted once");
    }

    #[test]
    fn other_rules_judge_the_warm_up_as_well(texts in prop::collection::vec(0_u128..6, 1..60), from in 0_i64..20) {
        let (log, verdicts) = live(&texts, 4);
        let made = replay(LogOrder::what_if(OWN, [rules()], ranges(from)), &log, &texts, false);
        prop_assert_eq!(made.len(), verdicts.len());
        for (live, again) in made {
            prop_assert_eq!(decided(&live), decided(&again.unwrap()), "the rules are the live ones after all");
        }
    }
}

#[test]
fn a_verdict_whose_original_is_older_than_the_log_is_taken_over() {
    let texts = [1, 2, 1, 3];
    let (log, verdicts) = live(&texts, 1);
    // A checkpoint, and what follows the original: as trimming leaves it.
    let kept = [&log[..1], &log[3..]].concat();
    let made = replay(LogOrder::as_live(OWN, ranges(1)), &kept, &texts, false);
    let again: Vec<String> = made.iter().map(|(_, again)| decided(again.as_ref().unwrap())).collect();
    assert_eq!(again, [decided(&verdicts[2]), decided(&verdicts[3])]);
    assert!(verdicts[2].answer.page().unwrap().decision.matched().is_some(), "a duplicate of what is gone");
}

/// What happens live.
#[derive(Clone, Debug)]
enum Event {
    /// A page with this text comes.
    Page(u128),
    /// A page that was judged, this far back, is withdrawn.
    Withdraw(usize),
    /// An operator has an original forgotten, this far back.
    Forget(usize),
    /// The window becomes this many seconds, and this many originals are kept.
    Rules(u64, u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0_u128..6).prop_map(Event::Page),
        1 => (1_usize..9).prop_map(Event::Withdraw),
        1 => (1_usize..9).prop_map(Event::Forget),
        1 => (1_u64..30, 1_u64..9).prop_map(|(window, entries)| Event::Rules(window, entries)),
    ]
}

/// The content of the live log after these events, this many in a record, and the texts of the pages.
fn eventful(events: &[Event], each: usize) -> (Vec<VerdictRecord>, Vec<u128>) {
    let mut judge = Rejudge::begin(LIVE, rules());
    let (mut log, mut texts): (Vec<VerdictRecord>, Vec<u128>) = (Vec::new(), Vec::new());
    let place =
        |at: usize| PartitionId::new("pages", i32::try_from(at % 2).unwrap()).at(i64::try_from(at / 2).unwrap());
    for (at, event) in events.iter().enumerate() {
        let request = RequestId(u64::try_from(at).unwrap() + 1000);
        match event {
            Event::Page(text) => {
                let source = place(texts.len());
                texts.push(*text);
                let asked = page(source.partition.number, source.offset, *text);
                assert!(judge.judge(&asked, Timestamp::from_millis(i64::MAX)).unwrap().is_some());
            }
            Event::Withdraw(back) => {
                if let Some(at) = texts.len().checked_sub(*back) {
                    judge.withdraw(place(at), Reject::Refused).unwrap();
                }
            }
            Event::Forget(back) => {
                if let Some(at) = texts.len().checked_sub(*back) {
                    let answer = Answer::Forgotten(ForgetTarget::Source(place(at)));
                    judge.take(&Verdict { request, answer }).unwrap();
                }
            }
            Event::Rules(window, max_entries) => {
                let number = RulesNumber(judge.state().rules_number().0 + 1);
                let windows = PerStage::all(Duration::from_secs(*window));
                let rules = Rules { windows, lateness: Duration::from_secs(2), max_entries: *max_entries, ..rules() };
                // Before the first verdict they are in the first checkpoint.
                judge.follow_record(&VerdictRecord::Rules(RulesRecord { log: LIVE, number, rules })).unwrap();
            }
        }
        if (at + 1) % each == 0 {
            log.extend(judge.records());
        }
    }
    log.extend(judge.records());
    (log, texts)
}

proptest! {
    /// Rules that change, pages that are withdrawn, originals that are forgotten, expired and evicted: wherever the
    /// range begins, its pages have the live verdicts, and so they have when the log begins again at any record.
    #[test]
    fn whatever_happened_live_the_live_verdicts_come_out(
        events in prop::collection::vec(event(), 1..80), each in 1_usize..9, from in 0_i64..20, gone: bool,
    ) {
        let (log, texts) = eventful(&events, each);
        let made = replay(LogOrder::as_live(OWN, ranges(from)), &log, &texts, gone);
        let in_range = texts.len().saturating_sub(usize::try_from(from * 2).unwrap());
        prop_assert_eq!(made.len(), in_range);
        for (live, again) in made {
            prop_assert_eq!(decided(&live), decided(&again.unwrap()));
        }
    }
}

#[test]
fn an_original_is_looked_up_by_its_page() {
    let mut judge = Rejudge::begin(LIVE, rules());
    for text in 0..5_000 {
        judge.judge(&page(0, i64::try_from(text).unwrap(), text), Timestamp::from_millis(i64::MAX)).unwrap();
    }
    let partition = PartitionId::new("pages", 0);
    assert!((0..5_000).all(|offset| judge.holds(&partition.at(offset))));
    // One that is not there is what the first pages of a trimmed log ask for: it costs no walk over all originals.
    assert!((5_000..300_000).all(|offset| !judge.holds(&partition.at(offset))));
    judge.withdraw(partition.at(7), Reject::Refused).unwrap();
    assert!(!judge.holds(&partition.at(7)) && judge.holds(&partition.at(8)));
}
