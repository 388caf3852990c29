//! A recorder of metrics whose values this process can read.
//!
//! Counters and gauges are kept here and copied to Prometheus before each scrape, so that recording costs one atomic
//! operation. Histograms are recorded by Prometheus; the buckets that the process reads are counted here as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusHandle, PrometheusRecorder};
use metrics_util::registry::{AtomicStorage, Registry};

use super::super::catalog::{self, Kind, Spec};
use super::super::handles::METADATA;
use super::float;
use super::values::{Buckets, MetricValues};

/// The histograms whose buckets are read: they have no labels.
const READ: [&Spec; 2] = [&catalog::END_TO_END_LATENCY, &catalog::VERDICT_SECONDS];

pub(super) struct ReadableRecorder {
    /// Counters and gauges.
    registry: Registry<Key, AtomicStorage>,
    /// Each of [`READ`], by name.
    histograms: BTreeMap<&'static str, Arc<CountedHistogram>>,
    prometheus: PrometheusRecorder,
}

impl ReadableRecorder {
    pub(super) fn new(prometheus: PrometheusRecorder) -> Self {
        let counted = |spec: &'static Spec| {
            let bounds = match spec.kind {
                Kind::Histogram(bounds) => bounds,
                Kind::Counter | Kind::Gauge => &[],
            };
            let exported = prometheus.register_histogram(&Key::from_static_name(spec.name), &METADATA);
            (spec.name, Arc::new(CountedHistogram::new(bounds, exported)))
        };
        let histograms = READ.into_iter().map(counted).collect();
        Self { registry: Registry::atomic(), histograms, prometheus }
    }

    pub(super) fn handle(&self) -> PrometheusHandle {
        self.prometheus.handle()
    }

    /// Copies counters and gauges to Prometheus.
    pub(super) fn export(&self) {
        self.registry.visit_counters(|key, total| {
            self.prometheus.register_counter(key, &METADATA).absolute(total.load(Ordering::Relaxed));
        });
        self.registry.visit_gauges(|key, level| {
            self.prometheus.register_gauge(key, &METADATA).set(f64::from_bits(level.load(Ordering::Relaxed)));
        });
    }

    /// Reads all counters, gauges and counted buckets.
    pub(super) fn values(&self) -> MetricValues {
        let mut series = BTreeMap::new();
        self.registry.visit_counters(|key, total| {
            series.insert(key.clone(), float(total.load(Ordering::Relaxed)));
        });
        self.registry.visit_gauges(|key, level| {
            series.insert(key.clone(), f64::from_bits(level.load(Ordering::Relaxed)));
        });
        let buckets = self.histograms.iter().map(|(name, histogram)| (*name, histogram.buckets())).collect();
        MetricValues::new(series, buckets)
    }
}

impl Recorder for ReadableRecorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.prometheus.describe_counter(name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.prometheus.describe_gauge(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.prometheus.describe_histogram(name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.registry.get_or_create_counter(key, |total| Counter::from_arc(Arc::clone(total)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.registry.get_or_create_gauge(key, |level| Gauge::from_arc(Arc::clone(level)))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        match self.histograms.get(key.name()) {
            Some(counted) => Histogram::from_arc(Arc::clone(counted)),
            None => self.prometheus.register_histogram(key, metadata),
        }
    }
}

/// Counts in the buckets of the catalog, and records to Prometheus.
struct CountedHistogram {
    /// Upper bounds, ascending, inclusive.
    bounds: &'static [f64],
    /// The number of values in each bucket; the last bucket holds those above the last bound.
    counts: Vec<AtomicU64>,
    exported: Histogram,
}

impl CountedHistogram {
    fn new(bounds: &'static [f64], exported: Histogram) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), exported }
    }

    /// Returns the cumulative counts by upper bound, ascending; the last bound is infinite.
    fn buckets(&self) -> Buckets {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let totals = self.counts.iter().scan(0, |total, count| {
            *total += count.load(Ordering::Relaxed);
            Some(float(*total))
        });
        bounds.zip(totals).collect()
    }
}

impl HistogramFn for CountedHistogram {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, times: usize) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(times as u64, Ordering::Relaxed);
        }
        self.exported.record_many(value, times);
    }
}
