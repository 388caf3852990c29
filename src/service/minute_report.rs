//! Logs a summary line every minute.

use std::time::Duration;

use crate::telemetry::labels::{LabelValue, VerdictLabel};
use crate::telemetry::{Metrics, catalog};

/// Interval between two lines.
const INTERVAL: Duration = Duration::from_mins(1);

/// The counts at the previous line.
pub(crate) struct MinuteReport {
    at: Duration,
    pages: u64,
    duplicates: u64,
    dead_letters: u64,
}

impl MinuteReport {
    /// Starts counting.
    pub(crate) const fn begin(now: Duration) -> Self {
        Self { at: now, pages: 0, duplicates: 0, dead_letters: 0 }
    }

    /// Logs the line if it is due.
    pub(crate) fn look(&mut self, now: Duration, metrics: &Metrics) {
        let passed = now.saturating_sub(self.at);
        if passed < INTERVAL {
            return;
        }
        let metrics = metrics.values();
        let (pages, dead_letters) = (metrics.count(&catalog::DOCUMENTS), metrics.count(&catalog::DEAD_LETTERS));
        let duplicates: u64 =
            VerdictLabel::duplicates().map(|verdict| metrics.count_of(&catalog::DOCUMENTS, &[verdict.pair()])).sum();
        let new_pages = pages.saturating_sub(self.pages);
        tracing::info!(
            target: "dupgate::service",
            pages = new_pages,
            pages_per_second = new_pages * 1000 / u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1),
            duplicates = duplicates.saturating_sub(self.duplicates),
            dead_letters = dead_letters.saturating_sub(self.dead_letters),
            lag = metrics.count(&catalog::CONSUMER_LAG),
            originals = metrics.count(&catalog::INDEX_ENTRIES),
            "the last minute"
        );
        *self = Self { at: now, pages, duplicates, dead_letters };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{self, Level};
    use crate::telemetry::logging::captured;

    #[test]
    fn one_line_a_minute_sums_up_the_work() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        let mut minute = MinuteReport::begin(Duration::ZERO);
        let mut at = |seconds, metrics: &Metrics| {
            captured::at(Level::Info, || minute.look(Duration::from_secs(seconds), metrics))
        };
        (0..120).for_each(|_| metrics.document(VerdictLabel::Near));
        assert_eq!(at(59, &metrics), "");
        let line = at(60, &metrics);
        assert!(line.contains("\"pages\":120"), "{line}");
        assert!(line.contains("\"duplicates\":120") && line.contains("\"pages_per_second\":2"), "{line}");
        metrics.document(VerdictLabel::Unique);
        let line = at(120, &metrics);
        assert!(line.contains("\"pages\":1,") && line.contains("\"duplicates\":0"), "{line}");
    }
}
