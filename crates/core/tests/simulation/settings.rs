//! What the settings of simulated workers have in common: small bounds and short times, so that all of them are reached.

use std::time::Duration;

use dupgate_core::fingerprint::PerMille;
use dupgate_core::transaction::Delivery;
use dupgate_core::worker::{Pacing, WorkerSettings};

pub(super) fn worker_settings() -> WorkerSettings {
    let ms = Duration::from_millis;
    WorkerSettings {
        logs: 1,
        first_request: 0,
        remembered_verdicts: 10,
        scanned_positions: 10,
        in_flight_bytes: 100,
        transaction_pages: 100,
        transaction_timeout: Duration::from_secs(10),
        commit_interval: ms(1),
        revoke_grace: ms(10),
        shutdown_grace: ms(20),
        pacing: Pacing {
            lead: ms(6),
            reach: ms(40),
            idle_after: ms(20),
            away_after: ms(40),
            interval: ms(1),
            look_interval: ms(8),
        },
        pause_above_dead_letters: PerMille::ONE,
        delivery: Delivery::ExactlyOnce,
        earlier_logs: 0,
    }
}
