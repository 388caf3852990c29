//! Reads totals and levels at one moment, and estimates quantiles between two readings.

use crate::telemetry::labels::{Eviction, LabelValue, VerdictLabel};
use crate::telemetry::metrics::{Buckets, MetricValues};
use crate::telemetry::{catalog, status};

/// Number of verdicts.
pub(super) const VERDICTS: usize = <VerdictLabel as LabelValue>::NAMES.len();

/// Values of the metrics at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Documents by verdict, in the order of `VerdictLabel::NAMES`.
    pub(super) documents: [f64; VERDICTS],
    pub(super) dead_letters: f64,
    pub(super) end_to_end: Buckets,
    pub(super) verdict_wait: Buckets,
    pub(super) lag: f64,
    /// Originals evicted for lack of memory.
    pub(super) evicted_for_capacity: f64,
    /// Share of the memory limit that the index holds.
    pub(super) index_fill: Option<f64>,
    /// Share of the configured window that the originals in the index span.
    pub(super) window_reached: Option<f64>,
}

impl Reading {
    pub(super) fn of(metrics: &MetricValues) -> Self {
        let mut documents = [0.0; VERDICTS];
        for (total, verdict) in documents.iter_mut().zip(VerdictLabel::ALL) {
            *total = metrics.total_of(&catalog::DOCUMENTS, &[verdict.pair()]);
        }
        let window = metrics.largest(&catalog::INDEX_WINDOW).map(|seconds| seconds * 1000.0);
        Self {
            documents,
            dead_letters: metrics.total(&catalog::DEAD_LETTERS),
            end_to_end: metrics.buckets(&catalog::END_TO_END_LATENCY).to_vec(),
            verdict_wait: metrics.buckets(&catalog::VERDICT_SECONDS).to_vec(),
            lag: metrics.total(&catalog::CONSUMER_LAG),
            evicted_for_capacity: metrics.total_of(&catalog::INDEX_EVICTIONS, &[Eviction::Capacity.pair()]),
            index_fill: share(metrics.total(&catalog::INDEX_MEMORY), metrics.total(&catalog::INDEX_MEMORY_LIMIT)),
            window_reached: status::effective_window_ms(metrics).zip(window).and_then(|(reached, window)| {
                // Windows are far below 2^53 ms.
                let reached = reached.to_string().parse().ok()?;
                share(reached, window).map(|share| share.min(1.0))
            }),
        }
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Estimates a quantile of the values counted between two readings. As in Prometheus, values count as evenly spread
/// within a bucket, and values above the last bound count as that bound.
pub(super) fn quantile(rank: f64, before: &[(f64, f64)], now: &[(f64, f64)]) -> Option<f64> {
    let counted = now.iter().enumerate().map(|(place, (bound, total))| {
        let earlier = before.get(place).map_or(0.0, |(_, total)| *total);
        (*bound, (total - earlier).max(0.0))
    });
    let counted: Buckets = counted.collect();
    let all = counted.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
    let wanted = rank.clamp(0.0, 1.0) * all;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in counted {
        if count >= wanted && count > below {
            let within = (wanted - below) / (count - below);
            return Some(if bound.is_finite() { lower + (bound - lower) * within } else { lower });
        }
        (lower, below) = (if bound.is_finite() { bound } else { lower }, count);
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::settings;
    use crate::protocol::LogPartition;
    use crate::record::{PartitionId, Timestamp};
    use crate::telemetry::{IndexTotals, Metrics};
    use std::collections::BTreeMap;
    use std::time::Duration;

    const BOUNDS: [f64; 5] = [0.1, 0.5, 1.0, 10.0, f64::INFINITY];

    /// Cumulative counts of these times.
    fn buckets(times: &[f64]) -> Buckets {
        let count = |bound: f64| times.iter().map(|time| f64::from(u8::from(*time <= bound))).sum();
        BOUNDS.into_iter().map(|bound| (bound, count(bound))).collect()
    }

    fn is(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn quantiles_are_spread_evenly_within_a_bucket() {
        let times = buckets(&[0.2, 0.3, 0.4, 0.4]);
        assert!(is(quantile(0.5, &[], &times), 0.3));
        assert!(is(quantile(1.0, &[], &times), 0.5));
        assert!(is(quantile(0.5, &[], &buckets(&[0.05, 20.0, 30.0])), 10.0), "above the last bound");
        assert_eq!(quantile(0.5, &times, &times), None, "nothing was counted");
        assert_eq!(quantile(0.5, &[], &[]), None);
    }

    proptest! {
        #[test]
        fn a_quantile_lies_in_the_bucket_of_the_time_that_it_estimates(
            old in prop::collection::vec(0.0_f64..20.0, 0..40),
            new in prop::collection::vec(0.0_f64..20.0, 1..40),
            rank in 0.01_f64..1.0,
        ) {
            let all: Vec<f64> = old.iter().chain(&new).copied().collect();
            let found = quantile(rank, &buckets(&old), &buckets(&all)).unwrap();
            let mut sorted = new.clone();
            sorted.sort_by(f64::total_cmp);
            // The oracle: the time at that place of the sorted list.
            let places = (1..=sorted.len()).map(|place| f64::from(u32::try_from(place).unwrap()));
            let count = f64::from(u32::try_from(sorted.len()).unwrap());
            let place = places.take_while(|place| *place < rank * count).count();
            let time = sorted[place.min(sorted.len() - 1)];
            let above = BOUNDS.into_iter().find(|bound| time <= *bound).unwrap();
            let below = BOUNDS.into_iter().take_while(|bound| *bound < time).last().unwrap_or(0.0);
            prop_assert!(found >= below - 1e-9 && found <= above + 1e-9, "{found} for {time}: {below} to {above}");
        }

        #[test]
        fn a_higher_rank_gives_no_lower_quantile(
            times in prop::collection::vec(0.0_f64..20.0, 1..40), one in 0.0_f64..1.0, other in 0.0_f64..1.0,
        ) {
            let times = buckets(&times);
            let (low, high) = (one.min(other), one.max(other));
            prop_assert!(quantile(low, &[], &times).unwrap() <= quantile(high, &[], &times).unwrap() + 1e-9);
        }
    }

    #[test]
    fn a_reading_has_the_values_of_the_metrics() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        assert_eq!(Reading::of(&metrics.values()).window_reached, None, "before anything was seen");
        for (verdict, count) in [(VerdictLabel::Unique, 3), (VerdictLabel::Near, 2), (VerdictLabel::Bypass, 1)] {
            (0..count).for_each(|_| metrics.document(verdict));
        }
        metrics.consumer_lags(&BTreeMap::from([(PartitionId::new("t", 1), 9), (PartitionId::new("u", 0), 4)]));
        metrics.index_limits(400, Duration::from_secs(100), Duration::from_secs(5));
        let oldest = Some(Timestamp::from_millis(50_000));
        let stream_time = Some(Timestamp::from_millis(75_000));
        metrics.index(LogPartition(0), IndexTotals { oldest, stream_time, exact_bytes: 100, ..IndexTotals::default() });
        metrics.verdict(Duration::from_millis(20));
        let reading = Reading::of(&metrics.values());
        let expected: [f64; VERDICTS] = [3.0, 0.0, 0.0, 2.0, 0.0, 1.0];
        assert!(reading.documents.iter().zip(expected).all(|(found, expected)| is(Some(*found), expected)));
        assert!(is(Some(reading.lag), 13.0));
        assert!(is(reading.index_fill, 0.25) && is(reading.window_reached, 0.25), "{reading:?}");
        let wait = quantile(0.5, &[], &reading.verdict_wait).unwrap();
        assert!((0.01..=0.025).contains(&wait), "{wait}");
        assert_eq!(quantile(0.5, &[], &reading.end_to_end), None);
    }
}
