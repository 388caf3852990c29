//! Reports which records get no verdict, and why: periodically in the log, and in the status.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::{Reject, Source};
use crate::telemetry::Metrics;

/// Minimum interval between two log lines of the same reason.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The records without a verdict that one worker has found.
#[derive(Debug)]
pub(crate) struct DeadLetterReport {
    metrics: Metrics,
    reasons: BTreeMap<Reject, Reason>,
}

#[derive(Debug)]
struct Reason {
    records: u64,
    first: Source,
    why: String,
    warned: Duration,
    /// Records since the last line in the log.
    left_out: u64,
}

impl DeadLetterReport {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, reasons: BTreeMap::new() }
    }

    /// Reports a record that gets no verdict. It becomes a dead letter, unless the input is paused first.
    pub(crate) fn found(&mut self, now: Duration, source: &Source, reason: Reject, why: &str) {
        self.metrics.dead_letter_read(reason, source, why);
        let known = self.reasons.entry(reason).or_insert_with(|| Reason {
            records: 0,
            first: source.clone(),
            why: why.to_owned(),
            warned: Duration::ZERO,
            left_out: 0,
        });
        known.records += 1;
        if known.records > 1 && now.saturating_sub(known.warned) < WARN_INTERVAL {
            known.left_out += 1;
            return;
        }
        let more = std::mem::take(&mut known.left_out);
        known.warned = now;
        tracing::warn!(
            target: "dupgate::worker",
            position = %source, reason = reason.name(), why, more, "a record gets no verdict"
        );
    }

    /// Lists the reasons, most frequent first, each with its first record.
    pub(crate) fn summary(&self) -> String {
        let mut reasons: Vec<(&Reject, &Reason)> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, reason)| std::cmp::Reverse(reason.records));
        let tell = |(reject, reason): (&Reject, &Reason)| {
            let Reason { records, first, why, .. } = reason;
            format!("{} {records}: {why}, first at {first}", reject.name())
        };
        reasons.into_iter().map(tell).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::record::PartitionId;

    #[test]
    fn reasons_are_listed_with_their_first_record_most_frequent_first() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let mut report = DeadLetterReport::new(metrics.clone());
        assert_eq!(report.summary(), "");
        let at = |offset| PartitionId::new("pages", 0).at(offset);
        report.found(Duration::ZERO, &at(1), Reject::Undecodable, "not JSON");
        report.found(Duration::ZERO, &at(2), Reject::MissingField, "no `/text`");
        report.found(Duration::ZERO, &at(3), Reject::MissingField, "no `/text`");
        assert_eq!(
            report.summary(),
            "missing_field 2: no `/text`, first at pages:0:2; undecodable 1: not JSON, first at pages:0:1"
        );
        let examples = metrics.dead_letter_examples();
        assert_eq!(examples.get("missing_field"), Some(&("pages:0:3".to_owned(), "no `/text`".to_owned())));
    }

    #[test]
    fn each_reason_is_logged_periodically_with_the_number_left_out() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let mut report = DeadLetterReport::new(metrics);
        let at = |offset| PartitionId::new("pages", 0).at(offset);
        let text = crate::telemetry::logging::captured::at(crate::config::settings::Level::Info, || {
            for millis in (0..=10_000).step_by(1000) {
                let offset = i64::try_from(millis).unwrap();
                report.found(Duration::from_millis(millis), &at(offset), Reject::NoText, "no text is left");
            }
            report.found(Duration::from_secs(10), &at(1), Reject::TooDeep, "nested");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("\"position\":\"pages:0:0\"") && lines[0].contains("no text is left"), "{text}");
        assert!(lines[1].contains("\"more\":9"), "{text}");
        assert!(lines[2].contains("\"reason\":\"too_deep\""), "{text}");
    }
}
