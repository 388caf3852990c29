//! Backpressure by bytes: readers wait while too many bytes are read but not yet processed.
//!
//! Records that were handed to producers and are neither acknowledged nor given up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Counts bytes in flight from a reader to its owner.
#[derive(Debug)]
pub struct ByteBudget {
    limit: usize,
    held: Mutex<usize>,
    freed: Condvar,
}

impl ByteBudget {
    /// Creates a budget of `limit` bytes: it is open while fewer are held.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::new(0), freed: Condvar::new() })
    }

    /// Counts `bytes` as held until the returned value is dropped. Never waits.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Permit {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        Permit { budget: Arc::clone(self), bytes }
    }

    /// Returns the limit, in bytes.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Waits until fewer bytes than the limit are held, but at most `timeout`. Returns whether the budget is open.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, _) = self
            .freed
            .wait_timeout_while(held, timeout, |held| *held >= self.limit)
            .unwrap_or_else(PoisonError::into_inner);
        *held < self.limit
    }

    #[must_use]
    pub fn held(&self) -> usize {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, bytes: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let was_shut = *held >= self.limit;
        *held = held.saturating_sub(bytes);
        if was_shut && *held < self.limit {
            self.freed.notify_all();
        }
    }
}

/// Bytes counted by a [`ByteBudget`] until this is dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

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
    fn budget_closes_at_its_limit_and_opens_when_bytes_are_dropped() {
        let budget = ByteBudget::new(10);
        let first = budget.hold(6);
        assert!(budget.wait_for_room(Duration::ZERO));
        let second = budget.hold(4);
        assert!(!budget.wait_for_room(Duration::ZERO));
        drop(first);
        assert!(budget.wait_for_room(Duration::ZERO));
        drop(second);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn waiting_reader_wakes_when_bytes_are_dropped() {
        let budget = ByteBudget::new(1);
        let held = budget.hold(1);
        let waiting = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || budget.wait_for_room(Duration::from_mins(1))
        });
        drop(held);
        assert!(waiting.join().unwrap());
    }

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
