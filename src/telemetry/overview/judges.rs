//! Tracks which instance judges each log partition, as far as this instance knows, and since when.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::protocol::LogPartition;
use crate::record::Timestamp;
use crate::telemetry::{MetricValues, catalog};

/// Name of the check that fails while requests wait and no verdicts arrive.
pub const VERDICTS_CHECK: &str = "verdicts";

/// Part of the reason of a standby's check while requests wait and no verdicts arrive.
pub const NO_JUDGE: &str = "no instance judges";

/// Returns the name of the check of the judge or standby of a partition of the logs.
#[must_use]
pub fn judge_check(log: LogPartition) -> String {
    format!("judge {log}")
}

/// How a log partition is judged, as this instance sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JudgePresence {
    /// By this instance.
    Judge,
    /// By another instance; this one would take over.
    Standby,
    /// By another instance, if any; this one could not take over yet.
    NotReady,
    /// By another instance.
    Elsewhere,
    /// Requests wait, and no instance judges.
    NoJudge,
}

impl JudgePresence {
    const fn name(self) -> &'static str {
        match self {
            Self::Judge => "judge",
            Self::Standby => "standby",
            Self::NotReady => "not_ready",
            Self::Elsewhere => "elsewhere",
            Self::NoJudge => "no_judge",
        }
    }
}

/// One partition of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    presence: JudgePresence,
    since: Timestamp,
    why: Option<String>,
}

/// All partitions of the logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judges {
    by_partition: BTreeMap<u32, Judged>,
    /// Since when some partition has no judge, and the reason that a check reports.
    silence: Option<(Timestamp, String)>,
}

impl Judges {
    /// Updates the states.
    pub(super) fn note(
        &mut self,
        at: Timestamp,
        metrics: &MetricValues,
        checks: &[(String, Result<(), String>)],
        log_partitions: u32,
    ) {
        let failing = |name: &str| {
            let state = checks.iter().find(|(known, _)| known == name).map(|(_, state)| state);
            state.map(|state| state.as_ref().err().cloned())
        };
        let no_verdicts = failing(VERDICTS_CHECK).flatten();
        let mut silence = no_verdicts.clone();
        for partition in 0..log_partitions {
            let label = partition.to_string();
            let is_judge = metrics.total_of(&catalog::JUDGE_ACTIVE, &[("log_partition", &label)]) > 0.0;
            let (presence, why) = match failing(&judge_check(LogPartition(partition))) {
                Some(_) if is_judge => (JudgePresence::Judge, None),
                Some(None) => (JudgePresence::Standby, None),
                Some(Some(why)) if why.contains(NO_JUDGE) => (JudgePresence::NoJudge, Some(why)),
                Some(Some(why)) => (JudgePresence::NotReady, Some(why)),
                // The worker does not report for which partition it waits; it is known only if there is just one.
                None if log_partitions == 1 && no_verdicts.is_some() => (JudgePresence::NoJudge, no_verdicts.clone()),
                None => (JudgePresence::Elsewhere, None),
            };
            if presence == JudgePresence::NoJudge && silence.is_none() {
                silence.clone_from(&why);
            }
            let judged =
                self.by_partition.entry(partition).or_insert_with(|| Judged { presence, since: at, why: None });
            if judged.presence != presence {
                (judged.presence, judged.since) = (presence, at);
            }
            judged.why = why;
        }
        let since = self.silence.take().map_or(at, |(since, _)| since);
        self.silence = silence.map(|why| (since, why));
    }

    /// Returns all partitions with their states.
    pub(super) fn json(&self) -> Value {
        let one = |(partition, judged): (&u32, &Judged)| {
            json!({
                "log_partition": partition,
                "state": judged.presence.name(),
                "since_ms": judged.since.millis(),
                "why": judged.why,
            })
        };
        self.by_partition.iter().map(one).collect()
    }

    /// Returns since when some partition has no judge, and the reason; null while all have one.
    pub(super) fn silence(&self) -> Value {
        self.silence.as_ref().map_or(Value::Null, |(since, why)| json!({"since_ms": since.millis(), "why": why}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::telemetry::Metrics;

    /// Names of checks, with the reason of each failing one.
    type Known = [(&'static str, Option<&'static str>)];

    /// Whether this instance judges partition 0, if that is known, and the checks.
    type Seen = (Option<bool>, &'static Known);

    fn checks(list: &Known) -> Vec<(String, Result<(), String>)> {
        let state = |why: Option<&str>| why.map_or(Ok(()), |why| Err(why.to_owned()));
        list.iter().map(|(name, why)| ((*name).to_owned(), state(*why))).collect()
    }

    /// Applies these states one after the other, a second apart; returns state and time of partition 0, and since when
    /// no instance judges.
    fn noted(partitions: u32, states: &[Seen]) -> Vec<(String, i64, Option<i64>)> {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let mut judges = Judges::default();
        let one = |(second, (is_judge, known)): (usize, &Seen)| {
            is_judge.iter().for_each(|is_judge| metrics.judge_active(LogPartition(0), *is_judge));
            let at = Timestamp::from_millis(i64::try_from(second).unwrap() * 1000);
            judges.note(at, &metrics.values(), &checks(known), partitions);
            let json = judges.json();
            assert_eq!(json.as_array().unwrap().len(), usize::try_from(partitions).unwrap());
            let state = json[0]["state"].as_str().unwrap().to_owned();
            (state, json[0]["since_ms"].as_i64().unwrap(), judges.silence()["since_ms"].as_i64())
        };
        states.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_state_of_a_partition_is_shown_with_its_age() {
        let (active, idle) = (Some(true), Some(false));
        let found = noted(
            1,
            &[
                (None, &[("judge 0", Some("restoring the index"))]),
                (None, &[("judge 0", Some("restoring the index, 40 % of the verdict log"))]),
                (idle, &[("judge 0", None)]),
                (idle, &[("judge 0", Some("waits to take over (at most 6 s): no instance judges"))]),
                (idle, &[("judge 0", Some("waits to take over (at most 5 s): no instance judges"))]),
                (active, &[("judge 0", None), ("verdicts", None)]),
                (active, &[("judge 0", None), ("verdicts", None)]),
            ],
        );
        let expected = [
            ("not_ready", 0, None),
            ("not_ready", 0, None),
            ("standby", 2000, None),
            ("no_judge", 3000, Some(3000)),
            ("no_judge", 3000, Some(3000)),
            ("judge", 5000, None),
            ("judge", 5000, None),
        ];
        assert_eq!(found, expected.map(|(state, since, silence)| (state.to_owned(), since, silence)));
    }

    #[test]
    fn a_worker_without_a_judge_reports_that_no_instance_judges() {
        const WAITS: Option<&str> = Some("none for 4 s (3306 pages wait; no judge answers)");
        let states: [Seen; 3] =
            [(None, &[("verdicts", None)]), (None, &[("verdicts", WAITS)]), (None, &[("verdicts", None)])];
        let one = noted(1, &states);
        assert_eq!(one[0], ("elsewhere".to_owned(), 0, None));
        assert_eq!(one[1], ("no_judge".to_owned(), 1000, Some(1000)));
        assert_eq!(one[2], ("elsewhere".to_owned(), 2000, None));
        let several = noted(2, &states);
        assert_eq!(several[1], ("elsewhere".to_owned(), 0, Some(1000)), "which of them is not known");
    }
}
