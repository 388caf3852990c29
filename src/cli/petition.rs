//! What an operator asks of the judges, and how their answers are shown.

use std::time::Duration;

use serde_json::{Value, json};

use super::Global;
use super::output::{Format, print, print_json};
use crate::config::Purpose;
use crate::error::Fatal;
use crate::log::{Answer, EntryBody, ForgetTarget};
use crate::runtime::petition::{Answered, submit};

/// How long to wait for the judges.
const PATIENCE: Duration = Duration::from_mins(1);

/// Asks the judges and prints what they answer; without `execute` only says what would be asked.
pub(super) fn petition(global: &Global, bodies: &[EntryBody], execute: bool) -> Result<(), Fatal> {
    let loaded = global.start(Purpose::Run)?;
    let said: Vec<(String, Value)> = if execute {
        submit(&loaded.settings, bodies, PATIENCE)?.iter().map(answered).collect()
    } else {
        let would = |body: &EntryBody| {
            let mut value = question(body);
            if let Value::Object(object) = &mut value {
                object.insert("done".to_owned(), false.into());
            }
            (format!("would ask: {}", in_words(&value)), value)
        };
        bodies.iter().map(would).collect()
    };
    let format = Format::or_usual(global.output);
    match format {
        Format::Table => said.iter().try_for_each(|(words, _)| print(words))?,
        Format::Json => print_json(&said.into_iter().map(|(_, value)| value).collect(), format)?,
        Format::Jsonl => said.iter().try_for_each(|(_, value)| print_json(value, format))?,
    }
    if !execute {
        super::note("nothing was done: add --execute to do it");
    }
    Ok(())
}

/// One answer, in words and as JSON.
fn answered(Answered { log, offset, answer }: &Answered) -> (String, Value) {
    let mut value = match answer {
        Answer::Forgotten(target) => forget(target),
        Answer::Reopened { partition, from, to } => json!({"reopen": format!("{partition}:{from}-{to}")}),
        Answer::Withdrawn { source, .. } => json!({"withdraw": source.to_string()}),
        Answer::Page(page) => json!({"judge": page.source.to_string()}),
    };
    let words = format!("judge {log}: {} (verdict log offset {offset})", done(&value));
    if let Value::Object(object) = &mut value {
        object.insert("done".to_owned(), true.into());
        object.insert("log_partition".to_owned(), (*log).into());
        object.insert("verdict_log_offset".to_owned(), (*offset).into());
    }
    (words, value)
}

fn question(body: &EntryBody) -> Value {
    match body {
        EntryBody::Forget(target) => forget(target),
        EntryBody::Reopen { partition, from, to } => json!({"reopen": format!("{partition}:{from}-{to}")}),
        EntryBody::Withdraw { source, .. } => json!({"withdraw": source.to_string()}),
        EntryBody::Page(page) => json!({"judge": page.source.to_string()}),
    }
}

fn forget(target: &ForgetTarget) -> Value {
    match target {
        ForgetTarget::Source(source) => json!({"forget": source.to_string()}),
        ForgetTarget::Id(id) => json!({"forget_id_hash": format!("{:016x}", id.0)}),
    }
}

/// What is asked, by the words of its members.
fn in_words(value: &Value) -> String {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if let Some(source) = text("forget") {
        format!("forget the original of {source}")
    } else if let Some(hash) = text("forget_id_hash") {
        format!("forget every original with the id of hash {hash}")
    } else if let Some(range) = text("reopen") {
        format!("reopen {range}: judge it anew")
    } else {
        value.to_string()
    }
}

/// The same once it is done.
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
    use crate::record::PartitionId;

    #[test]
    fn what_is_asked_and_answered_is_told_in_words_and_as_json() {
        let place = PartitionId::new("pages", 3);
        let reopen = EntryBody::Reopen { partition: place.clone(), from: 5, to: 9 };
        assert_eq!(question(&reopen), json!({"reopen": "pages:3:5-9"}));
        assert_eq!(in_words(&question(&reopen)), "reopen pages:3:5-9: judge it anew");
        let forget = EntryBody::Forget(ForgetTarget::Id(IdHash(255)));
        assert_eq!(in_words(&question(&forget)), "forget every original with the id of hash 00000000000000ff");
        let answer = Answer::Forgotten(ForgetTarget::Source(place.at(7)));
        let (words, value) = answered(&Answered { log: 1, offset: 42, answer });
        assert_eq!(words, "judge 1: forgot the original of pages:3:7 (verdict log offset 42)");
        assert_eq!(value, json!({"forget": "pages:3:7", "done": true, "log_partition": 1, "verdict_log_offset": 42}));
        let answer = Answer::Reopened { partition: place, from: 5, to: 9 };
        let (words, _) = answered(&Answered { log: 0, offset: 1, answer });
        assert_eq!(words, "judge 0: reopened pages:3:5-9 (verdict log offset 1)");
    }
}
