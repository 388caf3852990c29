//! Receives delivered duplicates, and queues pairs for inspection.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::telemetry::pairs::{DeliveredDuplicate, KEPT, Pair, Pairs};

/// Receives duplicates as they are delivered.
#[derive(Clone, Debug)]
pub(super) struct PairRecorder {
    /// The duplicates that are kept for operators.
    pub(super) pairs: Pairs,
    queue: Sender<Arc<Pair>>,
}

impl PairRecorder {
    /// Creates a recorder, and the queue of pairs to inspect.
    pub(super) fn new() -> (Self, Receiver<Arc<Pair>>) {
        let (queue, waiting) = bounded(KEPT);
        (Self { pairs: Pairs::default(), queue }, waiting)
    }

    /// Counts a duplicate; if it is kept, both pages will be inspected.
    pub(super) fn offer(&self, now: Duration, seen: DeliveredDuplicate) {
        if let Some(pair) = self.pairs.offer(now, seen) {
            // The queue is as long as the buffer: a pair that does not fit would be evicted before it is inspected.
            let _ = self.queue.try_send(pair);
        }
    }
}
