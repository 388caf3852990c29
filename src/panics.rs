//! What a panic costs: a page where text work is shielded, the process everywhere else.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Reason;

thread_local! {
    static SHIELDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work whose panic costs only its own result: `None`.
pub fn shielded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = SHIELDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    SHIELDED.set(before);
    result
}

/// From here on a panic outside of [`shielded`] work is logged as one line and ends the process with [`Reason::Bug`].
pub fn end_the_process_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // The payload may hold text of a page: it is shown only where no page is at hand.
        if SHIELDED.get() {
            tracing::warn!(place, "text work panicked on a page");
            return;
        }
        let thread = std::thread::current().name().unwrap_or("?").to_owned();
        let message = panic.payload_as_str().unwrap_or("");
        tracing::error!(place, thread, message, "panic: the process ends");
        std::process::exit(i32::from(Reason::Bug.code()));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_in_shielded_work_costs_only_its_result() {
        assert_eq!(shielded(|| 3), Some(3));
        assert_eq!(shielded(|| -> i32 { panic!("a page") }), None);
        assert!(!SHIELDED.get());
    }
}
