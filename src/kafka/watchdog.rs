//! Detects clients that have lost all brokers, so that they can be replaced.
//!
//! librdkafka 2.10 to 2.13 forgets every broker for good if the last metadata response names none, as the response of a
//! broker during shutdown does (confluentinc/librdkafka issue 5301), and may wait forever for a coordinator that it has
//! forgotten (issue 5511). Only a new client helps. So each client periodically requests metadata, and is replaced
//! after [`MAX_MISSES`] consecutive misses ([`super::renewed_client`]). If the brokers are only unreachable, the new
//! client waits as the old one did.

use std::time::Duration;

use crossbeam_channel::{Receiver, tick};
use rdkafka::client::{Client, ClientContext};

/// Interval between probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Time-out of a probe.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1500);

/// Consecutive misses after which a client is replaced.
const MAX_MISSES: u32 = 3;

/// Consecutive misses after which the brokers count as unreachable: after a single miss, a broker may just be slow.
const SILENT: u32 = 2;

/// Counts the misses of one client.
pub(super) struct ClientWatchdog {
    interval: Duration,
    due: Receiver<std::time::Instant>,
    misses: u32,
    /// Whether a broker answered the last probe.
    answers: bool,
}

impl ClientWatchdog {
    pub(super) fn new() -> Self {
        Self::probing_every(PROBE_INTERVAL)
    }

    pub(super) fn probing_every(interval: Duration) -> Self {
        Self { interval, due: tick(interval), misses: 0, answers: true }
    }

    /// Restarts the count for a new client. Keeps what is known about the brokers.
    pub(super) fn begin_again(&mut self) {
        *self = Self { answers: self.answers, ..Self::probing_every(self.interval) };
    }

    /// Returns whether a broker answered the client's last probe.
    pub(super) const fn answers(&self) -> bool {
        self.answers
    }

    /// Notes that a broker has answered something else than a probe.
    pub(super) const fn answered(&mut self) {
        (self.misses, self.answers) = (0, true);
    }

    /// Probes the client if a probe is due. Returns whether to replace it.
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

/// Closes a client on a separate thread: closing can block while the brokers are unreachable.
pub(super) fn close_in_background<T: Send + 'static>(client: T) {
    if let Err(error) = std::thread::Builder::new().name("closing".to_owned()).spawn(move || drop(client)) {
        tracing::warn!(target: "dupgate::kafka", %error, "failed to start the thread that closes a client");
    }
}
