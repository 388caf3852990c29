//! Metrics of the indexes of all judges of this process taken together.

use super::{Log, Metrics, PoisonError, catalog, flag, float, seconds};
use crate::protocol::LogPartition;
use crate::record::Timestamp;
use crate::telemetry::labels::MemoryPart;

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
