//! Records that were handed to producers and are neither acknowledged nor given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts records in flight, over any number of producers.
#[derive(Debug, Default)]
pub struct InFlight {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl InFlight {
    /// Counts one record until the returned value is dropped.
    #[must_use]
    pub fn add(self: &Arc<Self>, bytes: usize) -> InFlightGuard {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.records.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        InFlightGuard { in_flight: Arc::clone(self), bytes }
    }

    /// Returns the number of records in flight.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Returns the bytes of these records.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Guard for one in-flight record: passed to the client as the opaque value and dropped with the delivery report.
#[derive(Debug)]
pub struct InFlightGuard {
    in_flight: Arc<InFlight>,
    bytes: u64,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.in_flight.records.fetch_sub(1, Ordering::Relaxed);
        self.in_flight.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_until_their_report_is_in() {
        let in_flight = Arc::new(InFlight::default());
        let first = in_flight.add(10);
        let second = in_flight.add(5);
        assert_eq!((in_flight.records(), in_flight.bytes()), (2, 15));
        drop(first);
        assert_eq!((in_flight.records(), in_flight.bytes()), (1, 5));
        drop(second);
        assert_eq!((in_flight.records(), in_flight.bytes()), (0, 0));
    }
}
