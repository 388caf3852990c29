//! Backpressure in bytes: what was read and is not yet taken in is counted, and readers wait while it is too much.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Counts bytes on their way from a reader to its owner.
#[derive(Debug)]
pub struct Gate {
    limit: usize,
    held: Mutex<usize>,
    sank: Condvar,
}

impl Gate {
    /// Makes a gate that is open while fewer than `limit` bytes are held.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::new(0), sank: Condvar::new() })
    }

    /// Counts `bytes` as held until the returned value is dropped. Never waits.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        Held { gate: Arc::clone(self), bytes }
    }

    /// Waits until fewer than the limit are held, at most `patience`. Says whether the gate is open.
    pub fn wait_open(&self, patience: Duration) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, _) = self
            .sank
            .wait_timeout_while(held, patience, |held| *held >= self.limit)
            .unwrap_or_else(PoisonError::into_inner);
        *held < self.limit
    }

    /// Returns the bytes held now.
    #[must_use]
    pub fn held(&self) -> usize {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, bytes: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let was_shut = *held >= self.limit;
        *held = held.saturating_sub(bytes);
        if was_shut && *held < self.limit {
            self.sank.notify_all();
        }
    }
}

/// Bytes counted by a [`Gate`] until this is dropped.
#[derive(Debug)]
pub struct Held {
    gate: Arc<Gate>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gate.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_shuts_at_its_limit_and_opens_when_bytes_are_dropped() {
        let gate = Gate::new(10);
        let first = gate.hold(6);
        assert!(gate.wait_open(Duration::ZERO));
        let second = gate.hold(4);
        assert!(!gate.wait_open(Duration::ZERO));
        drop(first);
        assert!(gate.wait_open(Duration::ZERO));
        drop(second);
        assert_eq!(gate.held(), 0);
    }

    #[test]
    fn waiting_reader_wakes_when_bytes_are_dropped() {
        let gate = Gate::new(1);
        let held = gate.hold(1);
        let waiting = std::thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.wait_open(Duration::from_mins(1))
        });
        drop(held);
        assert!(waiting.join().unwrap());
    }
}
