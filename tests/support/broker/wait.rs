//! Waiting on a condition, never for a time.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a test waits before it says that the condition will not come true. Generous: it is only met by failures.
pub(crate) const LIMIT: Duration = Duration::from_mins(3);

/// Asks again and again until there is an answer; `what` names it when it never comes.
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
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a future of the admin client to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}
