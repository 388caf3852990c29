//! Progress on standard error.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, tick};
use indicatif::{ProgressBar, ProgressStyle};

/// Time between two log lines, where there is no terminal for a bar.
pub(super) const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Creates a bar of this length, `None` if it is unknown, from a template of indicatif.
pub(super) fn progress_bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Pages of a known total that several threads judge: a bar on a terminal, else a log line every ten seconds.
pub(super) struct PageProgress {
    done: AtomicU64,
    total: u64,
    bar: Option<ProgressBar>,
    ticks: Receiver<Instant>,
}

impl PageProgress {
    /// Starts at zero.
    pub(super) fn new(total: u64) -> Self {
        Self::logging_every(total, LOG_INTERVAL)
    }

    fn logging_every(total: u64, interval: Duration) -> Self {
        let template = "judge {bar:28} {percent:>3} %  {pos}/{len} pages  {per_sec}  left {eta}";
        let bar = std::io::stderr().is_terminal().then(|| progress_bar(Some(total), template));
        Self { done: AtomicU64::new(0), total, bar, ticks: tick(interval) }
    }

    /// Adds pages. Returns the percentage, if it was logged.
    pub(super) fn add(&self, pages: u64) -> Option<u64> {
        let done = self.done.fetch_add(pages, Ordering::Relaxed) + pages;
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            return None;
        }
        self.ticks.try_recv().ok()?;
        let percent = done.saturating_mul(100) / self.total.max(1);
        tracing::info!(target: "dupgate::cli", pages = done, total = self.total, percent, "judging");
        Some(percent)
    }

    /// Removes the bar.
    pub(super) fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_all_threads_are_logged_once_an_interval() {
        let progress = PageProgress { bar: None, ..PageProgress::logging_every(400, Duration::from_millis(1)) };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        progress.add(2);
                    }
                });
            }
        });
        progress.ticks.recv().unwrap();
        // The next tick may not be there yet, but one comes.
        let percent = std::iter::repeat_with(|| progress.add(0)).flatten().next();
        assert_eq!(percent, Some(50));
        let never = PageProgress { bar: None, ..PageProgress::logging_every(9, Duration::from_hours(1)) };
        assert_eq!(never.add(9), None);
    }
}
