//! Bounds the memory that trees of HTML take at once, whatever the number of threads.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::record::Format;
use crate::text;

/// Bytes of trees for each byte of `processing.max_in_flight_bytes`. With the pages themselves and their copies a worker
/// stays below six.
const TREE_BYTES_PER_PAGE_BYTE: usize = 3;

/// Memory budget for HTML trees. A reader acquires the page's weight first and waits while the budget is exhausted.
#[derive(Debug)]
pub(super) struct TreeBudget {
    limit: usize,
    format: Format,
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// Memory that is taken until this value is dropped.
#[must_use]
pub(super) struct Taken {
    budget: Arc<TreeBudget>,
    weight: usize,
}

impl TreeBudget {
    /// Makes the budget of a process that holds `max_in_flight_bytes` of pages of this format.
    pub(super) fn new(max_in_flight_bytes: usize, format: Format) -> Arc<Self> {
        let limit = max_in_flight_bytes.saturating_mul(TREE_BYTES_PER_PAGE_BYTE);
        Arc::new(Self { limit, format, taken: Mutex::new(0), given_back: Condvar::new() })
    }

    /// Takes what reading this page needs. A page that weighs more than the whole budget waits until it is alone.
    pub(super) fn take(self: &Arc<Self>, value: &[u8]) -> Taken {
        let weight = if self.format == Format::Text { 0 } else { text::weight(value) };
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken > 0 && taken.saturating_add(weight) > self.limit;
        let mut taken = self.given_back.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_add(weight);
        Taken { budget: Arc::clone(self), weight }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.weight);
        drop(taken);
        self.budget.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn trees_in_flight_stay_within_the_budget() {
        let page = "<br>a".repeat(1000);
        let weight = text::weight(page.as_bytes());
        let budget = TreeBudget::new(weight, Format::Html);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    let _taken = budget.take(page.as_bytes());
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=TREE_BYTES_PER_PAGE_BYTE).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }

    #[test]
    fn a_page_larger_than_the_budget_goes_alone() {
        let budget = TreeBudget::new(1, Format::Json);
        drop(budget.take(b"<p>"));
        let _first = budget.take(b"<p>");
        assert!(text::weight(b"<p>") > budget.limit);
    }
}
