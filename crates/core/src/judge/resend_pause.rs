//! The pause before refused verdicts are sent again.

use std::time::Duration;

use crate::transaction::CallError;

/// The first pause; each further one in a row is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Whether, and until when, a refused transaction waits before it is begun again.
#[derive(Debug, Default)]
pub(super) struct ResendPause {
    /// Refusals since the last commit.
    refusals: u32,
    /// Whether the transaction that is being aborted was refused.
    is_refused: bool,
    /// When the refused transaction begins again.
    until: Option<Duration>,
}

impl ResendPause {
    /// Notes why a call failed.
    pub(super) fn failed(&mut self, error: &CallError) {
        if matches!(error, CallError::Undeliverable { .. }) {
            self.is_refused = true;
            self.refusals = self.refusals.saturating_add(1);
        }
    }

    /// Notes that the transaction is aborted. If it was refused, the pause begins.
    pub(super) fn aborted(&mut self, now: Duration) {
        if std::mem::take(&mut self.is_refused) {
            let doublings = self.refusals.saturating_sub(1).min(5);
            self.until = Some(now + (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE));
        }
    }

    /// Returns true, once, when the pause is over.
    pub(super) fn is_over(&mut self, now: Duration) -> bool {
        self.until.take_if(|until| now >= *until).is_some()
    }

    /// Returns whether a transaction waits.
    pub(super) const fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// Returns how many times in a row the brokers refused the transaction that is to be committed.
    pub(super) const fn refusals(&self) -> u32 {
        self.refusals
    }
}
