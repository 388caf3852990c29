//! Waiting on a condition, never for a time.

use std::time::{Duration, Instant};

/// How long a test waits for a condition before it fails. Generous: only failures reach it.
pub(crate) const LIMIT: Duration = Duration::from_mins(5);

/// Polls until there is an answer; `what` names it in the failure.
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, what, ask)
}

/// Like [`until`], with another limit.
#[expect(clippy::disallowed_methods, reason = "the condition is another process's, and must be polled")]
pub(crate) fn within<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < limit, "timed out after {limit:?} waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
