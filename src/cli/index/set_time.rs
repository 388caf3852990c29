//! `index set-time`: sets the stream time back, after a clock that was ahead has moved it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use clap::Args;
use dupgate_core::judge::StreamTime;
use serde_json::{Value, json};

use crate::cli::operator_requests::REQUEST_TIMEOUT;
use crate::cli::output::{self, Format, print, print_json};
use crate::cli::replay::When;
use crate::cli::{Global, note};
use crate::clock::wall_time;
use crate::config::Purpose;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::operators::requests::{Answered, send_and_wait};
use crate::operators::verdicts::{LogExtent, Read, read};
use crate::protocol::{Answer, LogPartition, RequestBody, Rules, VerdictOffset, VerdictRecord};
use crate::record::Timestamp;

/// Arguments of `index set-time`.
#[derive(Clone, Debug, Args)]
pub struct SetTimeArgs {
    /// How far the crawl has come: a time (2026-09-01T00:00:00Z, milliseconds), an age (-2h), or now
    #[arg(value_name = "TIME", allow_hyphen_values = true)]
    pub time: When,
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

/// Runs the command.
///
/// # Errors
///
/// No stream time is later than the given one, or a judge does not answer.
pub(super) fn set_time(args: &SetTimeArgs, global: &Global) -> Result<(), Fatal> {
    let time = match args.time {
        When::At(time) => time,
        When::Ago(span) => wall_time().minus(span),
        When::End => wall_time(),
        When::Start | When::Offset(_) => {
            let why = "TIME is not a time: expected now, a time such as 2026-09-01T00:00:00Z, or an age such as -2h";
            return Err(Reason::Usage.because(anyhow::anyhow!(why)));
        }
    };
    let settings = global.start(Purpose::Run)?.settings;
    let changes = if args.execute { request(&settings, time)? } else { would_change(&settings, time)? };
    let format = Format::or_usual(global.output);
    match format {
        Format::Table => changes.iter().try_for_each(|change| print(&change.in_words()))?,
        Format::Json => print_json(&changes.iter().map(Change::json).collect(), format)?,
        Format::Jsonl => changes.iter().try_for_each(|change| print_json(&change.json(), format))?,
    }
    if changes.iter().all(|change| change.after == change.before) {
        let why = format!("nothing to do: no stream time is later than {}", output::time(time));
        return Err(Reason::Failure.because(anyhow::anyhow!(why)));
    }
    note(if args.execute {
        "what had expired stays gone; pages from that time on are remembered again"
    } else {
        "nothing was done: correct the clock that is ahead, then add --execute"
    });
    Ok(())
}

fn request(settings: &Settings, time: Timestamp) -> Result<Vec<Change>, Fatal> {
    let answers = send_and_wait(settings, &[RequestBody::SetTime(time)], REQUEST_TIMEOUT)?;
    let change = |answered: &Answered| match answered.answer {
        Answer::TimeSet { before, after } => {
            Some(Change { log: answered.log, before, after, answered: Some(answered.offset) })
        }
        Answer::Page(_) | Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } => None,
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
