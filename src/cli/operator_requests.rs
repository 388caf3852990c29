//! Runs operator requests (`forget`, `reopen`) and prints the answers.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::Global;
use super::output::{self, Format, print, print_json};
use crate::config::Purpose;
use crate::error::{Fatal, Reason};
use crate::operators::requests::Found;
use crate::operators::requests::{Answered, count_found, send_and_wait, would_find};
use crate::protocol::{Answer, ForgetTarget, RequestBody};
use crate::record::Source;

/// Maximum number of originals that are named in one line.
const SHOWN_ORIGINALS: usize = 5;

/// How long to wait for the judges.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Sends the requests to the judges and prints their answers and what they found; without `execute`, only what they
/// would find.
///
/// # Errors
///
/// There is nothing to do, or no answer.
pub(super) fn operator_requests(global: &Global, bodies: &[RequestBody], execute: bool) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    let answers_shown: Vec<(String, Value, bool)> = if execute {
        let mut answers = send_and_wait(&loaded.settings, bodies, REQUEST_TIMEOUT)?;
        super::note("done; reading the verdict log to find out what was affected");
        if let Err(error) = count_found(&loaded.settings, bodies, &mut answers, None) {
            super::note(&format!("what was there is not known: {error}"));
        }
        answers.iter().map(answered).collect()
    } else {
        let found = would_find(&loaded.settings, bodies)?;
        let would = |(body, found): (&RequestBody, &Found)| {
            let mut value = question(body);
            add_found(&mut value, found);
            if let Value::Object(object) = &mut value {
                object.insert("done".to_owned(), false.into());
            }
            (format!("would request: {}; {}", in_words(&value), finds(found)), value, found.is_empty())
        };
        bodies.iter().zip(&found).map(would).collect()
    };
    let is_nothing = answers_shown.iter().all(|(.., is_empty)| *is_empty);
    let is_left_out = answers_shown.iter().any(|(_, value, _)| value.get("left_out").is_some());
    let format = Format::or_usual(global.output);
    match format {
        Format::Table => answers_shown.iter().try_for_each(|(words, ..)| print(words))?,
        Format::Json => print_json(&answers_shown.into_iter().map(|(_, value, _)| value).collect(), format)?,
        Format::Jsonl => answers_shown.iter().try_for_each(|(_, value, _)| print_json(value, format))?,
    }
    if is_nothing {
        let why = if is_left_out { NOTHING_DELIVERED } else { NOTHING };
        return Err(Reason::Failure.because(anyhow::anyhow!(why)));
    }
    if !execute {
        super::note("nothing was done: add --execute to do it");
    }
    Ok(())
}

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

fn add_found(value: &mut Value, found: &Found) {
    if let Value::Object(object) = value {
        let one =
            |(source, duplicates): &(Source, u64)| json!({"source": source.to_string(), "duplicates": duplicates});
        object.insert("originals".to_owned(), found.originals.iter().map(one).collect());
        object.insert("positions".to_owned(), found.positions.into());
    }
}

/// Returns one answer in words and as JSON, and whether its request found nothing.
fn answered(answered: &Answered) -> (String, Value, bool) {
    let Answered { log, offset, answer, found, .. } = answered;
    let mut value = match answer {
        Answer::Forgotten(target) => forget(target),
        Answer::Reopened { partition, from, to } => json!({"reopen": format!("{partition}:{from}-{to}")}),
        Answer::Withdrawn { source, .. } => json!({"withdraw": source.to_string()}),
        Answer::Page(page) => json!({"judge": page.source.to_string()}),
        Answer::TimeSet { after, .. } => json!({"set_time": output::time(*after)}),
    };
    let mut words = format!("judge {log}: {}: {} (verdict log offset {offset})", done(&value), what(found.as_ref()));
    if let Some(found) = found {
        add_found(&mut value, found);
    }
    let left_out = found.as_ref().map(|found| found.left_out).filter(|left_out| *left_out > 0);
    if let (Some(positions), Some((partition, range))) = (left_out, answered.left_out())
        && let Value::Object(object) = &mut value
    {
        let first = partition.at(range.start);
        let count =
            if positions == 1 { "1 judged position".to_owned() } else { format!("{positions} judged positions") };
        let why = format!("the input group has not committed {first} since it was judged, so it may be on its way");
        let _ =
            write!(words, "\n  left out {count} from {first} on: {why}; reopen the rest once the group has passed it");
        let left_out = json!({"range": format!("{partition}:{}-{}", range.start, range.end), "positions": positions});
        object.insert("left_out".to_owned(), left_out);
    }
    if let Value::Object(object) = &mut value {
        object.insert("done".to_owned(), true.into());
        object.insert("log_partition".to_owned(), log.0.into());
        object.insert("verdict_log_offset".to_owned(), offset.0.into());
    }
    (words, value, found.as_ref().is_some_and(Found::is_empty))
}

fn what(found: Option<&Found>) -> String {
    found.map_or_else(|| "what was there is not known".to_owned(), finds)
}

fn question(body: &RequestBody) -> Value {
    match body {
        RequestBody::Forget(target) => forget(target),
        RequestBody::Reopen { partition, from, to } => json!({"reopen": format!("{partition}:{from}-{to}")}),
        RequestBody::Withdraw { source, .. } => json!({"withdraw": source.to_string()}),
        RequestBody::Page(page) => json!({"judge": page.source.to_string()}),
        RequestBody::SetTime(time) => json!({"set_time": output::time(*time)}),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::IdHash;
    use crate::protocol::{LogPartition, VerdictOffset};
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
}
