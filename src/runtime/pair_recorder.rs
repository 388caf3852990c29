//! Takes the duplicates that are delivered, and queues those whose pages are to be looked at.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::telemetry::pairs::{DeliveredDuplicate, KEPT, Pair, Pairs};

/// Where duplicates are handed to, on their way out.
#[derive(Clone, Debug)]
pub(super) struct PairRecorder {
    /// Those that are kept.
    pub(super) pairs: Pairs,
    queue: Sender<Arc<Pair>>,
}

impl PairRecorder {
    /// Creates it, with the queue of the pairs whose pages are to be looked at.
    pub(super) fn new() -> (Self, Receiver<Arc<Pair>>) {
        let (queue, waiting) = bounded(KEPT);
        (Self { pairs: Pairs::default(), queue }, waiting)
    }

    /// Counts a duplicate; when it is kept, both pages will be looked at.
    pub(super) fn offer(&self, now: Duration, seen: DeliveredDuplicate) {
        if let Some(pair) = self.pairs.offer(now, seen) {
            // The queue is as long as the buffer: a pair that does not fit would be evicted before it is inspected.
            let _ = self.queue.try_send(pair);
        }
    }
}
