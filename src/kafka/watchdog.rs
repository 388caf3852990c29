//! Watchdog: detects clients that have lost all brokers, so that they can be replaced.
//!
//! librdkafka 2.10 to 2.13 forgets every broker for good when the last one to answer names none, as a broker does while
//! it shuts down (confluentinc/librdkafka issue 5301), and may wait forever for a coordinator that it has forgotten
//! (issue 5511). Nothing short of a new client cures that. So clients are asked now and then for metadata, and one that
//! got none [`MAX_MISSES`] times running is replaced ([`super::renewed_client`]). When the brokers are merely away, a
//! new client waits as the old one did.

use std::time::Duration;

use crossbeam_channel::{Receiver, tick};
use rdkafka::client::{Client, ClientContext};

/// How often a client is asked.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// How long an answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1500);

/// Questions without an answer after which a client is replaced.
const MAX_MISSES: u32 = 3;

/// Questions without an answer after which no broker is taken to answer: one may be slow.
const SILENT: u32 = 2;

/// Keeps count of one client's answers.
pub(super) struct ClientWatchdog {
    interval: Duration,
    due: Receiver<std::time::Instant>,
    misses: u32,
    /// Whether a broker answered at last.
    answers: bool,
}

impl ClientWatchdog {
    pub(super) fn new() -> Self {
        Self::probing_every(PROBE_INTERVAL)
    }

    pub(super) fn probing_every(interval: Duration) -> Self {
        Self { interval, due: tick(interval), misses: 0, answers: true }
    }

    /// Begins again with another client. Whether brokers answer is not known better by that.
    pub(super) fn begin_again(&mut self) {
        *self = Self { answers: self.answers, ..Self::probing_every(self.interval) };
    }

    /// Returns whether a broker answered when the client was asked last.
    pub(super) const fn answers(&self) -> bool {
        self.answers
    }

    /// Asks the client when it is time to. Returns whether it is to be replaced.
    pub(super) fn is_lost(&mut self, has_brokers: impl FnOnce() -> bool) -> bool {
        if self.due.try_recv().is_err() {
            return false;
        }
        if has_brokers() {
            (self.misses, self.answers) = (0, true);
            return false;
        }
        self.misses += 1;
        self.answers &= self.misses < SILENT;
        self.misses >= MAX_MISSES
    }
}

/// Returns whether any broker answers this client.
pub(super) fn has_brokers<C: ClientContext>(client: &Client<C>, topic: Option<&str>) -> bool {
    client.fetch_metadata(topic, REQUEST_TIMEOUT).is_ok_and(|metadata| !metadata.brokers().is_empty())
}

/// Ends a client on a thread of its own: closing can block for as long as the brokers are away.
pub(super) fn close_in_background<T: Send + 'static>(client: T) {
    if let Err(error) = std::thread::Builder::new().name("closing".to_owned()).spawn(move || drop(client)) {
        tracing::warn!(target: "dupgate::kafka", %error, "failed to start the thread that closes a client");
    }
}
