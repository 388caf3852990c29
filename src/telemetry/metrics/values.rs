//! The values of this process's metrics at one moment.

use std::collections::BTreeMap;

use metrics::Key;

use super::super::catalog::Spec;
use super::{LabelValue, Log, Metrics, PoisonError, catalog, flag, float, seconds};
use crate::protocol::LogPartition;
use crate::record::Timestamp;
use crate::telemetry::labels::{MemoryPart, ReplayPhase};

/// Cumulative counts of a histogram by upper bound, ascending; the last bound is infinite.
pub type Buckets = Vec<(f64, f64)>;

/// The value of every counter and gauge that was recorded, and the buckets that the overview reads. Labels that all
/// series carry (`metrics.labels`) are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValues {
    series: BTreeMap<Key, f64>,
    buckets: BTreeMap<&'static str, Buckets>,
}

impl MetricValues {
    pub(super) const fn new(series: BTreeMap<Key, f64>, buckets: BTreeMap<&'static str, Buckets>) -> Self {
        Self { series, buckets }
    }

    fn of<'v>(&'v self, spec: &Spec) -> impl Iterator<Item = (&'v Key, f64)> + use<'v> {
        let name = spec.name;
        self.series.iter().filter(move |(key, _)| key.name() == name).map(|(key, value)| (key, *value))
    }

    /// Sums the series of a counter or gauge.
    #[must_use]
    pub fn total(&self, spec: &Spec) -> f64 {
        self.total_of(spec, &[])
    }

    /// Sums the series that have these labels.
    #[must_use]
    pub fn total_of(&self, spec: &Spec, labels: &[(&str, &str)]) -> f64 {
        let fits = |key: &Key| labels.iter().all(|(name, value)| label(key, name) == Some(value));
        // The empty sum is -0.
        self.of(spec).filter(|(key, _)| fits(key)).map(|(_, value)| value).sum::<f64>() + 0.0
    }

    /// Sums the series as a whole number.
    #[must_use]
    pub fn count(&self, spec: &Spec) -> u64 {
        whole(self.total(spec))
    }

    /// Sums the series that have these labels, as a whole number.
    #[must_use]
    pub fn count_of(&self, spec: &Spec, labels: &[(&str, &str)]) -> u64 {
        whole(self.total_of(spec, labels))
    }

    /// Returns the largest value.
    #[must_use]
    pub fn largest(&self, spec: &Spec) -> Option<f64> {
        self.of(spec).map(|(_, value)| value).reduce(f64::max)
    }

    /// Returns the values of the series with this label.
    pub fn by_label<'v>(&'v self, spec: &Spec, name: &'static str) -> impl Iterator<Item = (&'v str, f64)> + use<'v> {
        self.of(spec).filter_map(move |(key, value)| Some((label(key, name)?, value)))
    }

    /// Returns the values by two labels; the second may be missing.
    pub fn by_two_labels<'v>(
        &'v self,
        spec: &Spec,
        first: &'static str,
        second: &'static str,
    ) -> impl Iterator<Item = (&'v str, Option<&'v str>, f64)> + use<'v> {
        self.of(spec).filter_map(move |(key, value)| Some((label(key, first)?, label(key, second), value)))
    }

    /// Returns the value of a label of any series.
    #[must_use]
    pub fn label(&self, spec: &Spec, name: &str) -> Option<&str> {
        self.of(spec).find_map(|(key, _)| label(key, name))
    }

    /// Returns the buckets of a histogram; none if they are not counted for reading.
    #[must_use]
    pub fn buckets(&self, spec: &Spec) -> &[(f64, f64)] {
        self.buckets.get(spec.name).map(Vec::as_slice).unwrap_or_default()
    }
}

fn label<'k>(key: &'k Key, name: &str) -> Option<&'k str> {
    key.labels().find(|label| label.key() == name).map(metrics::Label::value)
}

/// Rounds a count; below 0 it is 0.
#[must_use]
pub fn whole(count: f64) -> u64 {
    format!("{count:.0}").parse().unwrap_or(0)
}

/// Progress of one run of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayProgress {
    /// Records whose committed verdicts this run has read again.
    pub followed: u64,
    /// Records of the warm-up that this run has worked through.
    pub warmed_up: u64,
    /// Records of the range that this run has worked through.
    pub of_range: u64,
    /// Share of the replay that all of its runs together have done, from 0 to 1.
    pub share: f64,
    /// Remaining records; `None` if their number is unknown.
    pub remaining: Option<u64>,
    /// Whether it waits for the service.
    pub is_yielding: bool,
}

impl Metrics {
    /// Sets the progress of a replay. The numbers of records of one run must not decrease.
    pub fn replay(&self, id: &str, at: &ReplayProgress) {
        let label = ("replay", id);
        for phase in ReplayPhase::ALL {
            let records = match phase {
                ReplayPhase::Follow => at.followed,
                ReplayPhase::WarmUp => at.warmed_up,
                ReplayPhase::Range => at.of_range,
            };
            self.counter(catalog::REPLAY_RECORDS.name, &[label, phase.pair()]).absolute(records);
        }
        self.gauge(catalog::REPLAY_PROGRESS.name, &[label]).set(at.share);
        if let Some(remaining) = at.remaining {
            self.gauge(catalog::REPLAY_REMAINING.name, &[label]).set(float(remaining));
        }
        self.gauge(catalog::REPLAY_YIELDING.name, &[label]).set(flag(at.is_yielding));
    }
}

/// State of the index of one judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexTotals {
    /// Whether the judge or standby holds the whole state.
    pub is_ready: bool,
    /// Originals held.
    pub entries: u64,
    /// Event time of the oldest of them.
    pub oldest: Option<Timestamp>,
    /// The stream time.
    pub stream_time: Option<Timestamp>,
    /// Bytes for the originals.
    pub fingerprint_bytes: u64,
    /// Bytes for the tables of codes and bands.
    pub bucket_bytes: u64,
    /// Bytes for the tables by id and by source.
    pub ref_bytes: u64,
    /// Bytes for the table of exact hashes.
    pub exact_bytes: u64,
    /// Entries in the fullest bucket.
    pub largest_bucket: u32,
    /// Requests of the fingerprint log that were read and wait for a verdict.
    pub waiting: u64,
}

impl Metrics {
    /// Sets the index of the judge of a partition of the fingerprint log. The metrics show the sum over all judges of
    /// this process, or the worst of them where a sum has no meaning.
    pub fn index(&self, log: LogPartition, totals: IndexTotals) {
        let mut all = self.inner.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(log, totals);
        let sum = |part: fn(&IndexTotals) -> u64| float(all.values().map(part).sum());
        let part = |name: MemoryPart, bytes: f64| self.series().index_memory.of(name).set(bytes);
        self.set(&catalog::INDEX_READY, flag(all.values().all(|index| index.is_ready)));
        self.set(&catalog::INDEX_ENTRIES, sum(|index| index.entries));
        if let Some(oldest) = all.values().filter_map(|index| index.oldest).min() {
            self.set(&catalog::INDEX_OLDEST_ENTRY, seconds(oldest));
        }
        if let Some(stream_time) = all.values().filter_map(|index| index.stream_time).max() {
            self.set(&catalog::INDEX_STREAM_TIME, seconds(stream_time));
        }
        part(MemoryPart::Fingerprints, sum(|index| index.fingerprint_bytes));
        part(MemoryPart::Buckets, sum(|index| index.bucket_bytes));
        part(MemoryPart::Refs, sum(|index| index.ref_bytes));
        part(MemoryPart::Exact, sum(|index| index.exact_bytes));
        let largest = all.values().map(|index| index.largest_bucket).max().unwrap_or(0);
        self.set(&catalog::INDEX_LARGEST_BUCKET, f64::from(largest));
        self.series().log_lag.of(Log::Fingerprints).set(sum(|index| index.waiting));
    }

    /// Observes the lookup of a page: how many originals were compared, and the distance of the nearest one in bits.
    pub fn lookup(&self, compared: u32, nearest: Option<u8>) {
        self.series().lookup_candidates.record(f64::from(compared));
        if let Some(bits) = nearest {
            self.series().nearest_distance.record(f64::from(bits));
        }
    }
}

/// Puts the families in the order of their names, because that of the exporter changes from scrape to scrape. A blank
/// line ends each family.
pub(super) fn ordered(text: &str) -> String {
    let mut families: Vec<&str> = text.split_inclusive("\n\n").collect();
    families.sort_unstable();
    families.concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::super::catalog::{self, Kind, TABLE};
    use super::super::super::labels::{LabelValue, VerdictLabel};
    use super::super::{Metrics, ReplayProgress};
    use super::*;
    use crate::config::settings;
    use crate::record::{PartitionId, Reject, Timestamp};

    fn metrics() -> Metrics {
        Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap()
    }

    #[test]
    fn values_are_read_by_their_labels() {
        let metrics = metrics();
        assert_eq!(metrics.values().largest(&catalog::LAST_COMMIT_TIMESTAMP), None, "nothing is committed");
        metrics.dead_letter(Reject::NoText);
        metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 1), 5), (PartitionId::new("u", 0), 7)]));
        metrics.config_info("g", "h\"1", "s", "route", "simhash");
        let values = metrics.values();
        assert_eq!((values.count(&catalog::CONSUMER_LAG), values.largest(&catalog::CONSUMER_LAG)), (12, Some(7.0)));
        assert_eq!(values.count_of(&catalog::CONSUMER_LAG, &[("topic", "t")]), 5);
        assert_eq!(values.count_of(&catalog::CONSUMER_LAG, &[("topic", "t"), ("partition", "0")]), 0);
        let by_topic: BTreeMap<_, _> = values.by_label(&catalog::CONSUMER_LAG, "topic").collect();
        assert_eq!(by_topic, BTreeMap::from([("t", 5.0), ("u", 7.0)]));
        let mut by_partition: Vec<_> = values.by_two_labels(&catalog::CONSUMER_LAG, "topic", "partition").collect();
        by_partition.sort_by(|one, other| one.0.cmp(other.0));
        assert_eq!(by_partition, [("t", Some("1"), 5.0), ("u", Some("0"), 7.0)]);
        assert_eq!(values.count_of(&catalog::DEAD_LETTERS, &[("reason", Reject::NoText.name())]), 1);
        assert_eq!(values.label(&catalog::CONFIG_INFO, "hash"), Some("h\"1"));
        assert!(values.largest(&catalog::PROCESS_START_TIME).is_some_and(|seconds| seconds > 1e9));
    }

    #[test]
    fn buckets_are_cumulative_with_inclusive_bounds() {
        let metrics = metrics();
        for millis in [100, 101, 250, 90_000_000] {
            metrics.end_to_end_latency(Timestamp::from_millis(0), Timestamp::from_millis(millis));
        }
        let values = metrics.values();
        let buckets = values.buckets(&catalog::END_TO_END_LATENCY);
        assert_eq!(buckets[..3], [(0.1, 1.0), (0.25, 3.0), (0.5, 3.0)]);
        assert_eq!(buckets[buckets.len() - 2..], [(86_400.0, 3.0), (f64::INFINITY, 4.0)]);
        assert_eq!(values.buckets(&catalog::STAGE_DURATION), [], "only Prometheus counts it");
    }

    /// Every line of the exported text, except those of histograms that are not read.
    fn exported(metrics: &Metrics) -> BTreeSet<String> {
        let unread = |line: &str| {
            let mut histograms = TABLE.iter().filter(|spec| matches!(spec.kind, Kind::Histogram(_)));
            let read = [catalog::END_TO_END_LATENCY.name, catalog::VERDICT_SECONDS.name];
            histograms.any(|spec| {
                let is_bucket = read.contains(&spec.name) && line.starts_with(&format!("{}_bucket", spec.name));
                line.starts_with(spec.name) && !is_bucket
            })
        };
        let text = metrics.render();
        let lines = text.lines().filter(|line| line.starts_with("dupgate_") && !unread(line));
        lines.map(str::to_owned).collect()
    }

    /// The same lines, from the values.
    fn readings(values: &MetricValues) -> BTreeSet<String> {
        let ours = values.series.iter().filter(|(key, _)| key.name().starts_with("dupgate_"));
        let mut lines: BTreeSet<String> = ours
            .map(|(key, value)| {
                let labels: Vec<String> =
                    key.labels().map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
                let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
                format!("{}{labels} {value}", key.name())
            })
            .collect();
        for (name, buckets) in &values.buckets {
            lines.extend(buckets.iter().map(|(bound, count)| {
                let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
                format!("{name}_bucket{{le=\"{bound}\"}} {count}")
            }));
        }
        lines
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_is_exported(
            events in prop::collection::vec((0_u8..8, 0_i32..3, 0_u64..100_000), 0..60), scrapes in 1_usize..4,
        ) {
            let metrics = metrics();
            for _ in 0..scrapes {
                for (event, place, number) in &events {
                    let topic = format!("t{place}");
                    match event {
                        0 => metrics.consumed(&topic, *number, number * 7),
                        1 => metrics.document(VerdictLabel::ALL[usize::try_from(*place).unwrap()]),
                        2 => metrics.consumer_lags(&BTreeMap::from([(PartitionId::new(topic.as_str(), *place), *number)])),
                        // Times on the bounds of buckets, among others.
                        3 => metrics.verdict(Duration::from_millis(number % 50 * 250)),
                        4 => metrics.series().judge_wait.record_many(Duration::from_millis(*number), 3),
                        5 => metrics.worker_busy(Duration::from_millis(*number)),
                        6 => metrics.replay(&topic, &ReplayProgress { share: 0.25, of_range: *number, ..ReplayProgress::default() }),
                        _ => metrics.end_to_end_latency(
                            Timestamp::from_millis(0), Timestamp::from_millis(i64::try_from(*number).unwrap() * 1000),
                        ),
                    }
                }
                prop_assert_eq!(readings(&metrics.values()), exported(&metrics));
            }
        }
    }

    #[test]
    fn families_are_in_the_order_of_their_names() {
        let text = "# HELP b Second.\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"0\"} 1\n\n# HELP a First.\n# TYPE a gauge\na 3\n\n";
        let expected = "# HELP a First.\n# TYPE a gauge\na 3\n\n# HELP b Second.\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"0\"} 1\n\n";
        assert_eq!(ordered(text), expected);
    }

    #[test]
    fn every_scrape_has_the_same_families_in_the_same_order() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        metrics.consumed("pages", 1, 1);
        let names = || -> Vec<String> {
            let text = metrics.render();
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned).collect()
        };
        let first = names();
        assert!(first.len() > 20 && first.is_sorted(), "{first:?}");
        assert_eq!(names(), first);
    }
}
