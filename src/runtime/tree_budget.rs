//! Bounds the total memory of HTML trees, whatever the number of threads.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::record::Format;
use crate::text;

/// Bytes of trees for each byte of `processing.max_in_flight_bytes`. Together with the pages and their copies, a worker
/// stays below six bytes for each of these.
const TREE_BYTES_PER_PAGE_BYTE: usize = 3;

/// Memory budget for HTML trees. Before a thread reads a page, it reserves the bytes of the page's tree, and waits
/// while the budget is exhausted.
#[derive(Debug)]
pub(crate) struct TreeBudget {
    limit: usize,
    format: Format,
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// Memory that is reserved until this value is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Taken {
    budget: Arc<TreeBudget>,
    bytes: usize,
}

impl TreeBudget {
    /// Creates the budget of a process that holds `max_in_flight_bytes` of pages of this format.
    pub(crate) fn new(max_in_flight_bytes: usize, format: Format) -> Arc<Self> {
        let limit = max_in_flight_bytes.saturating_mul(TREE_BYTES_PER_PAGE_BYTE);
        Arc::new(Self { limit, format, taken: Mutex::new(0), given_back: Condvar::new() })
    }

    /// Reserves the memory for reading this page. A page that weighs more than the whole budget waits until it is
    /// alone.
    pub(crate) fn take(self: &Arc<Self>, value: &[u8]) -> Taken {
        let bytes = if self.format == Format::Text { 0 } else { text::max_tree_bytes(value) };
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken > 0 && taken.saturating_add(bytes) > self.limit;
        let mut taken = self.given_back.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_add(bytes);
        Taken { budget: Arc::clone(self), bytes }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.bytes);
        drop(taken);
        self.budget.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::fingerprint::{self, Fingerprinter, Scratch};
    use crate::record::{InputSettings, RawRecord};

    const IN_FLIGHT: usize = 64 << 20;
    const PAGES: usize = 32;
    const THREADS: usize = 8;

    /// A page of two megabytes whose tree would be large: of nodes, of attributes, and of repeated elements.
    fn hostile_page(number: usize) -> String {
        let attributes = |of: usize| (0..1000).map(|n| format!(" a{of}x{n}")).collect::<Vec<_>>().concat();
        let tags = |name: &str, count: usize| {
            (0..count).map(|of| format!("<{name}{}>", attributes(of))).collect::<Vec<_>>().concat()
        };
        let start = match number % 5 {
            0 => "<br>a".repeat(20_000),
            1 => tags("body", 100),
            2 => format!("{}{}", tags("font", 80), "<p>a".repeat(1_000)),
            3 => format!("{}{}", tags("div", 90), "<".repeat(12_000)),
            _ => {
                (0..300).map(|size| format!("<font size={size}>")).collect::<Vec<_>>().concat() + &"<p>a".repeat(5_000)
            }
        };
        let rest = " ".repeat((IN_FLIGHT / PAGES).saturating_sub(start.len()));
        format!("<p>{start}<p>harbour dredging<!--{rest}-->")
    }

    /// A line of `/proc/self/status`, in bytes.
    fn status(name: &str) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    fn read_hostile_pages() {
        let input = InputSettings { format: Format::Html, ..InputSettings::default() };
        let reader = Fingerprinter::new(
            &input,
            &text::Settings::default(),
            &fingerprint::Settings::default(),
            NonZeroUsize::MIN,
        );
        let (reader, budget, next) = (reader.unwrap(), TreeBudget::new(IN_FLIGHT, Format::Html), AtomicUsize::new(0));
        let pages: Vec<String> = (0..PAGES).map(hostile_page).collect();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let work = || {
                    let mut scratch = Scratch::default();
                    while let Some(page) = pages.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let _taken = budget.take(page.as_bytes());
                        let record = RawRecord { key: None, value: Some(page.as_bytes()), headers: &() };
                        assert!(reader.read(&record, &mut scratch).is_ok(), "{}", &page[..60]);
                    }
                };
                std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, work).unwrap();
            }
        });
        let (peak, max) = (status("VmHWM:"), 6 * IN_FLIGHT + (512 << 20));
        println!("{peak} bytes at most for {} of pages", pages.iter().map(String::len).sum::<usize>());
        assert!(peak <= max, "{peak} bytes, not {max}");
    }

    /// Measured in a separate process, without memory of other tests.
    #[test]
    fn hostile_pages_on_all_threads_stay_within_memory() {
        const ALONE: &str = "DUPGATE_HOSTILE_PAGES_ALONE";
        if std::env::var_os(ALONE).is_some() {
            return read_hostile_pages();
        }
        let test = "runtime::tree_budget::tests::hostile_pages_on_all_threads_stay_within_memory";
        let program = std::env::current_exe().unwrap();
        let status = Command::new(program).args(["--exact", test, "--nocapture"]).env(ALONE, "1").status().unwrap();
        assert!(status.success(), "see above");
    }

    #[test]
    fn trees_in_flight_stay_within_the_budget() {
        let page = "<br>a".repeat(1000);
        let bytes = text::max_tree_bytes(page.as_bytes());
        let budget = TreeBudget::new(bytes, Format::Html);
        let (now, max) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    let _taken = budget.take(page.as_bytes());
                    max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=TREE_BYTES_PER_PAGE_BYTE).contains(&max.load(Ordering::SeqCst)), "{max:?}");
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }

    #[test]
    fn a_page_larger_than_the_budget_goes_alone() {
        let budget = TreeBudget::new(1, Format::Json);
        drop(budget.take(b"<p>"));
        let _first = budget.take(b"<p>");
        assert!(text::max_tree_bytes(b"<p>") > budget.limit);
    }
}
