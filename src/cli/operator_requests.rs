//! Runs operator requests (`index forget`, `index set-time`, `verdicts reopen`) and prints the answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use dupgate_core::judge::StreamTime;
use serde_json::{Value, json};

use super::Global;
use super::output::{self, counted, extend, print_each};
use super::replay::range_bound;
use crate::clock::wall_time;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, fatal};
use crate::operators::requests::{Answered, Found, count_found, send_and_wait, would_find};
use crate::operators::verdicts::{LogExtent, Read, read};
use crate::protocol::{Answer, ForgetTarget, LogPartition, RequestBody, Rules, VerdictOffset, VerdictRecord};
use crate::record::{Source, Timestamp};
use crate::replay::RangeBound;

/// Maximum number of originals that are named in one line.
const SHOWN_ORIGINALS: usize = 5;

/// How long to wait for the judges.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Sends the requests to the judges and prints their answers and what they found; without `execute`, only what they
/// would find.
///
/// # Errors
///
/// There is nothing to do, or no answer.
pub(super) fn operator_requests(global: &Global, bodies: &[RequestBody], execute: bool) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    let shown: Vec<Shown> = if execute {
        let mut answers = send_and_wait(&loaded.settings, bodies, REQUEST_TIMEOUT)?;
        super::note("done; reading the verdict log to find out what was affected");
        if let Err(error) = count_found(&loaded.settings, bodies, &mut answers, None) {
            super::note(&format!("what was there is not known: {error}"));
        }
        answers.iter().map(answered).collect()
    } else {
        let found = would_find(&loaded.settings, bodies)?;
        let would = |(body, found): (&RequestBody, &Found)| {
            let mut json = question(body);
            let words = format!("would request: {}; {}", in_words(&json), finds(found));
            add_found(&mut json, found);
            extend(&mut json, json!({"done": false}));
            (words, json, found.is_empty())
        };
        bodies.iter().zip(&found).map(would).collect()
    };
    print_each(global.format(), &shown, |(words, ..)| words.clone(), |(_, json, _)| json.clone())?;
    if shown.iter().all(|(.., is_empty)| *is_empty) {
        let is_left_out = shown.iter().any(|(_, json, _)| !json["left_out"].is_null());
        return Err(fatal!(Failure, if is_left_out { NOTHING_DELIVERED } else { NOTHING }));
    }
    if !execute {
        super::note("nothing was done: add --execute to do it");
    }
    Ok(())
}

/// A request or its answer in words and as JSON, and whether nothing was found.
type Shown = (String, Value, bool);

/// The error of requests that find nothing.
const NOTHING: &str = "nothing to do: no original and no judged position matches";

/// The error of requests that find only positions that must be left out.
const NOTHING_DELIVERED: &str = "nothing was done: the input group has not committed what is judged there";

/// Describes what was found, as in `1 original (crawl.pages:3:7, with 12 duplicates)`.
fn finds(found: &Found) -> String {
    let named = found.originals.iter().take(SHOWN_ORIGINALS).map(|(source, duplicates)| match duplicates {
        0 => source.to_string(),
        1 => format!("{source} with 1 duplicate"),
        many => format!("{source} with {many} duplicates"),
    });
    let mut named: Vec<String> = named.collect();
    if found.originals.len() > named.len() {
        named.push("...".to_owned());
    }
    let mut parts = Vec::new();
    match (found.originals.len(), found.positions) {
        (0, 0) => return "no original there".to_owned(),
        (0, _) => {}
        (1, _) => parts.push(format!("1 original ({})", named.join(", "))),
        (many, _) => parts.push(format!("{many} originals ({})", named.join(", "))),
    }
    if found.positions > 0 {
        parts.push(format!("{} judged positions", found.positions));
    }
    parts.join(", ")
}

fn add_found(json: &mut Value, found: &Found) {
    let one = |(source, duplicates): &(Source, u64)| json!({"source": source.to_string(), "duplicates": duplicates});
    let originals: Value = found.originals.iter().map(one).collect();
    extend(json, json!({"originals": originals, "positions": found.positions}));
}

/// Returns one answer in words and as JSON, and whether its request found nothing.
fn answered(answered: &Answered) -> Shown {
    let Answered { log, offset, answer, found, .. } = answered;
    let mut json = match answer {
        Answer::Forgotten(target) => forget(target),
        Answer::Reopened { partition, from, to } => json!({"reopen": format!("{partition}:{from}-{to}")}),
        // They answer no request of an operator who forgets or reopens.
        Answer::Withdrawn { .. } | Answer::Page(_) | Answer::TimeSet { .. } => json!({}),
    };
    let what = found.as_ref().map_or_else(|| "what was there is not known".to_owned(), finds);
    let mut words = format!("judge {log}: {}: {what} (verdict log offset {offset})", done(&json));
    if let Some(found) = found {
        add_found(&mut json, found);
    }
    let left_out = found.as_ref().map(|found| found.left_out).filter(|left_out| *left_out > 0);
    if let Some((positions, (partition, range))) = left_out.zip(answered.left_out()) {
        let first = partition.at(range.start);
        let count = counted(usize::try_from(positions).unwrap_or(usize::MAX), "judged position");
        let why = format!("the input group has not committed {first} since it was judged, so it may be on its way");
        let _ =
            write!(words, "\n  left out {count} from {first} on: {why}; reopen the rest once the group has passed it");
        let range = format!("{partition}:{}-{}", range.start, range.end);
        extend(&mut json, json!({"left_out": {"range": range, "positions": positions}}));
    }
    extend(&mut json, json!({"done": true, "log_partition": log.0, "verdict_log_offset": offset.0}));
    (words, json, found.as_ref().is_some_and(Found::is_empty))
}

fn question(body: &RequestBody) -> Value {
    match body {
        RequestBody::Forget(target) => forget(target),
        RequestBody::Reopen { partition, from, to } => json!({"reopen": format!("{partition}:{from}-{to}")}),
        // They are not sent here.
        RequestBody::Withdraw { .. } | RequestBody::Page(_) | RequestBody::SetTime(_) => json!({}),
    }
}

fn forget(target: &ForgetTarget) -> Value {
    match target {
        ForgetTarget::Source(source) => json!({"forget": source.to_string()}),
        ForgetTarget::Id(id) => json!({"forget_id_hash": format!("{:016x}", id.0)}),
    }
}

/// Describes a request in words, from its JSON members.
fn in_words(value: &Value) -> String {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if let Some(source) = text("forget") {
        format!("forget the original of {source}")
    } else if let Some(hash) = text("forget_id_hash") {
        format!("forget every original with the id of hash {hash}")
    } else if let Some(range) = text("reopen") {
        format!("reopen {range}: judge it again")
    } else {
        value.to_string()
    }
}

/// Describes a request that was carried out.
fn done(value: &Value) -> String {
    let words = in_words(value);
    let past = words.strip_prefix("forget ").map(|rest| format!("forgot {rest}"));
    let past = past.or_else(|| Some(format!("reopened {}", words.strip_prefix("reopen ")?.split(": ").next()?)));
    past.unwrap_or(words)
}

/// Arguments of `index set-time`.
#[derive(Clone, Debug, Args)]
pub struct SetTimeArgs {
    /// How far the crawl has come: a time (2026-09-01T00:00:00Z, milliseconds), an age (-2h), or now
    #[arg(value_name = "TIME", allow_hyphen_values = true, value_parser = range_bound)]
    pub time: RangeBound,
    /// Apply the change; without it, only print what would be done
    #[arg(long)]
    pub execute: bool,
}

/// The stream time of one judge before and after the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    log: LogPartition,
    before: Timestamp,
    after: Timestamp,
    /// Offset of the answer in the verdict log, if the request was sent.
    answered: Option<VerdictOffset>,
}

/// Sets the stream time back, after a clock that was ahead has moved it.
///
/// # Errors
///
/// No stream time is later than the given one, or a judge does not answer.
pub(super) fn set_time(args: &SetTimeArgs, global: &Global) -> Result<(), Fatal> {
    let time = match args.time {
        RangeBound::At(time) => time,
        RangeBound::End => wall_time(),
        RangeBound::Start | RangeBound::Offset(_) => {
            return Err(fatal!(
                Usage,
                "TIME is not a time: expected now, a time such as 2026-09-01T00:00:00Z, or an age such as -2h"
            ));
        }
    };
    let settings = global.start(Purpose::Run)?.settings;
    let changes = if args.execute { request(&settings, time)? } else { would_change(&settings, time)? };
    print_each(global.format(), &changes, Change::in_words, Change::json)?;
    if changes.iter().all(|change| change.after == change.before) {
        return Err(fatal!(Failure, "nothing to do: no stream time is later than {}", output::time(time)));
    }
    super::note(if args.execute {
        "what had expired stays gone; pages from that time on are remembered again"
    } else {
        "nothing was done: correct the clock that is ahead, then add --execute"
    });
    Ok(())
}

fn request(settings: &Settings, time: Timestamp) -> Result<Vec<Change>, Fatal> {
    let answers = send_and_wait(settings, &[RequestBody::SetTime(time)], REQUEST_TIMEOUT)?;
    let change = |&Answered { log, offset, ref answer, .. }: &Answered| {
        let Answer::TimeSet { before, after } = *answer else { return None };
        Some(Change { log, before, after, answered: Some(offset) })
    };
    Ok(answers.iter().filter_map(change).collect())
}

/// Returns what the request would do, by the verdict log.
fn would_change(settings: &Settings, time: Timestamp) -> Result<Vec<Change>, Fatal> {
    let mut logs: BTreeMap<LogPartition, (StreamTime, Option<Rules>)> = BTreeMap::new();
    read(settings, LogExtent::Kept, |news| {
        if let Some(Read { log, record, .. }) = news {
            let (stream_time, rules) = logs.entry(log).or_insert((StreamTime::START, None));
            follow(stream_time, rules, &record);
        }
        ControlFlow::Continue(())
    })?;
    let change = |(log, (stream_time, _)): (LogPartition, (StreamTime, _))| {
        let before = stream_time.get();
        Change { log, before, after: before.min(time), answered: None }
    };
    Ok(logs.into_iter().map(change).collect())
}

fn follow(stream_time: &mut StreamTime, rules: &mut Option<Rules>, record: &VerdictRecord) {
    match record {
        VerdictRecord::Checkpoint(checkpoint) => {
            *stream_time = StreamTime::new(checkpoint.stream_time, checkpoint.leap);
            *rules = Some(checkpoint.rules.clone());
        }
        VerdictRecord::Rules(record) => *rules = Some(record.rules.clone()),
        VerdictRecord::Verdicts(batch) => {
            let Some(rules) = rules else { return };
            for verdict in &batch.verdicts {
                match &verdict.answer {
                    Answer::Page(page) => stream_time.follow(page.event_time, rules),
                    Answer::TimeSet { after, .. } => stream_time.set_back(*after),
                    Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } => {}
                }
            }
        }
    }
}

impl Change {
    fn in_words(&self) -> String {
        let Self { log, before, after, answered } = *self;
        let place = answered.map(|offset| format!(" (verdict log offset {offset})")).unwrap_or_default();
        let at = output::time(before);
        if before == Timestamp::MIN {
            format!("judge {log}: no page was judged yet{place}")
        } else if after == before {
            format!("judge {log}: the stream time is {at} already{place}")
        } else if answered.is_some() {
            format!("judge {log}: set the stream time back from {at} to {}{place}", output::time(after))
        } else {
            format!("judge {log}: would set the stream time back from {at} to {}", output::time(after))
        }
    }

    fn json(&self) -> Value {
        let time = |time: Timestamp| (time > Timestamp::MIN).then(|| output::time(time));
        json!({
            "log_partition": self.log.0, "before": time(self.before), "after": time(self.after),
            "done": self.answered.is_some(), "verdict_log_offset": self.answered.map(|offset| offset.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::IdHash;
    use crate::record::PartitionId;

    #[test]
    fn requests_and_answers_are_shown_in_words_and_as_json() {
        let place = PartitionId::new("pages", 3);
        let reopen = RequestBody::Reopen { partition: place.clone(), from: 5, to: 9 };
        assert_eq!(question(&reopen), json!({"reopen": "pages:3:5-9"}));
        assert_eq!(in_words(&question(&reopen)), "reopen pages:3:5-9: judge it again");
        let forget = RequestBody::Forget(ForgetTarget::Id(IdHash(255)));
        assert_eq!(in_words(&question(&forget)), "forget every original with the id of hash 00000000000000ff");
        let answer = Answer::Forgotten(ForgetTarget::Source(place.at(7)));
        let found = Some(Found { originals: vec![(place.at(7), 12)], ..Found::default() });
        let (words, value, is_empty) = answered(&Answered {
            log: LogPartition(1),
            offset: VerdictOffset(42),
            number: 0,
            asked: forget.clone(),
            answer: answer.clone(),
            found,
        });
        assert_eq!(
            words,
            "judge 1: forgot the original of pages:3:7: 1 original (pages:3:7 with 12 duplicates) (verdict log offset 42)"
        );
        let expected = json!({
            "forget": "pages:3:7", "originals": [{"source": "pages:3:7", "duplicates": 12}], "positions": 0,
            "done": true, "log_partition": 1, "verdict_log_offset": 42
        });
        assert_eq!((value, is_empty), (expected, false));
        let (words, _, is_empty) = answered(&Answered {
            log: LogPartition(1),
            offset: VerdictOffset(43),
            number: 0,
            asked: forget.clone(),
            answer: answer.clone(),
            found: Some(Found::default()),
        });
        assert!(words.contains("no original there") && is_empty, "{words}");
        let (log, offset) = (LogPartition(1), VerdictOffset(43));
        let unknown = Answered { log, offset, number: 0, asked: forget, answer, found: None };
        let (words, value, is_empty) = answered(&unknown);
        assert!(words.contains("what was there is not known") && !is_empty, "{words}");
        assert_eq!(value.get("originals"), None, "not the same as none");
    }

    #[test]
    fn a_reopening_reports_what_it_left_out_and_why() {
        let place = PartitionId::new("pages", 3);
        let report = |to, found: Found| {
            answered(&Answered {
                log: LogPartition(0),
                offset: VerdictOffset(1),
                number: 0,
                asked: RequestBody::Reopen { partition: place.clone(), from: 5, to: 90 },
                answer: Answer::Reopened { partition: place.clone(), from: 5, to },
                found: Some(found),
            })
        };
        let originals = vec![(place.at(5), 0), (place.at(6), 1)];
        let found = Found { originals, positions: 4, left_out: 0 };
        let done = "judge 0: reopened pages:3:5-9: 2 originals (pages:3:5, pages:3:6 with 1 duplicate), 4 judged \
                    positions (verdict log offset 1)";
        let (words, value, _) = report(9, found.clone());
        assert_eq!((words.as_str(), value.get("left_out")), (done, None), "nothing is judged after it");
        let (words, value, _) = report(9, Found { left_out: 2, ..found });
        let expected = "\n  left out 2 judged positions from pages:3:9 on: the input group has not committed pages:3:9 \
                        since it was judged, so it may be on its way; reopen the rest once the group has passed it";
        assert_eq!(words, format!("{done}{expected}"));
        assert_eq!(value.get("left_out"), Some(&json!({"range": "pages:3:9-90", "positions": 2})));
        let (words, _, is_empty) = report(5, Found { left_out: 1, ..Found::default() });
        assert!(is_empty && words.contains("left out 1 judged position from pages:3:5 on"), "{words}");
    }

    fn change(before: i64, after: i64, answered: Option<i64>) -> Change {
        let (before, after) = (Timestamp::from_millis(before), Timestamp::from_millis(after));
        Change { log: LogPartition(1), before, after, answered: answered.map(VerdictOffset) }
    }

    #[test]
    fn a_change_is_shown_with_the_times_before_and_after() {
        let done = change(1_788_393_600_000, 1_788_220_800_000, Some(42));
        let words = "judge 1: set the stream time back from 2026-09-03T00:00:00Z to 2026-09-01T00:00:00Z (verdict log \
                     offset 42)";
        assert_eq!(done.in_words(), words);
        let would = Change { answered: None, ..done };
        assert!(would.in_words().starts_with("judge 1: would set the stream time back from 2026-09-03"));
        assert_eq!(would.json().get("done"), Some(&json!(false)));
        let none = change(1_788_220_800_000, 1_788_220_800_000, Some(43));
        assert_eq!(none.in_words(), "judge 1: the stream time is 2026-09-01T00:00:00Z already (verdict log offset 43)");
        let empty = Change { before: Timestamp::MIN, after: Timestamp::MIN, ..would };
        assert_eq!(empty.in_words(), "judge 1: no page was judged yet");
        assert_eq!(empty.json().get("before"), Some(&Value::Null));
    }
}
