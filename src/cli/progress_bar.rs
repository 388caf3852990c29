//! Shows progress on standard error: a bar on a terminal, else log lines.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, tick};
use indicatif::{ProgressBar, ProgressState, ProgressStyle, WeakProgressBar};

use super::output;

/// Time between two log lines, where there is no terminal for a bar.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The bar that is on the terminal. A command shows at most one.
static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// A bar on a terminal, else a log line every ten seconds.
pub(super) struct ProgressDisplay {
    bar: Option<ProgressBar>,
    ticks: Receiver<Instant>,
}

impl ProgressDisplay {
    /// Starts with a bar of this length, `None` if it is unknown, from a template of indicatif.
    pub(super) fn new(length: Option<u64>, template: &str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            // The bar's own rate has four decimals.
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                // Rates are not negative, and writing to a string does not fail.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate to look at")]
                let _ = write!(out, "{}/s", output::count(state.per_sec().round() as u64));
            };
            shown(bar.with_style(style.with_key("per_sec", rate)))
        });
        Self { bar, ..Self::logging_every(LOG_INTERVAL) }
    }

    fn logging_every(interval: Duration) -> Self {
        Self { bar: None, ticks: tick(interval) }
    }

    /// Returns the bar, if there is a terminal for it.
    pub(super) const fn bar(&self) -> Option<&ProgressBar> {
        self.bar.as_ref()
    }

    /// Updates the bar by calling `draw`. If there is no bar, calls `log` when a line is due, and returns its result.
    pub(super) fn show<R>(&self, draw: impl FnOnce(&ProgressBar), log: impl FnOnce() -> R) -> Option<R> {
        if let Some(bar) = &self.bar {
            draw(bar);
            return None;
        }
        self.ticks.try_recv().ok().map(|_| log())
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn shown(bar: ProgressBar) -> ProgressBar {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
    bar
}

/// Writes to standard error above the bar, if one is shown: it is removed and drawn again.
pub(super) fn above_bar<R>(write: impl FnOnce() -> R) -> R {
    let bar = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(WeakProgressBar::upgrade);
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Standard error for log lines: they are written above the bar.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        above_bar(|| io::stderr().write(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Progress of several threads that judge a known number of pages.
pub(super) struct PageProgress {
    done: AtomicU64,
    total: u64,
    display: ProgressDisplay,
}

impl PageProgress {
    /// Starts with no page judged.
    pub(super) fn new(total: u64) -> Self {
        let template = "judge {bar:28} {percent:>3} %  {pos}/{len} pages  {per_sec}  left {eta}";
        Self { done: AtomicU64::new(0), total, display: ProgressDisplay::new(Some(total), template) }
    }

    /// Adds pages. Returns the percentage, if it was logged.
    pub(super) fn add(&self, pages: u64) -> Option<u64> {
        let done = self.done.fetch_add(pages, Ordering::Relaxed) + pages;
        let log = || {
            let percent = done.saturating_mul(100) / self.total.max(1);
            tracing::info!(target: "dupgate::cli", pages = done, total = self.total, percent, "judging");
            percent
        };
        self.display.show(|bar| bar.set_position(done), log)
    }

    /// Removes the bar.
    pub(super) fn finish(self) {
        self.display.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    fn logging_every(total: u64, interval: Duration) -> PageProgress {
        PageProgress { done: AtomicU64::new(0), total, display: ProgressDisplay::logging_every(interval) }
    }

    #[test]
    fn pages_of_all_threads_are_logged_once_an_interval() {
        let progress = logging_every(400, Duration::from_millis(1));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        progress.add(2);
                    }
                });
            }
        });
        progress.display.ticks.recv().unwrap();
        // The next tick may not be there yet, but one comes.
        let percent = std::iter::repeat_with(|| progress.add(0)).flatten().next();
        assert_eq!(percent, Some(50));
        assert_eq!(logging_every(9, Duration::from_hours(1)).add(9), None);
    }

    /// Keeps what a terminal is sent, with `|` where a row is cleared.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn push(&self, text: &str) {
            self.0.lock().unwrap().push_str(text);
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.push(&format!("{text}\n"));
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.push(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.push("|");
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_above_the_bar() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let style = ProgressStyle::with_template("bar").unwrap();
        let bar = shown(ProgressBar::with_draw_target(Some(9), target).with_style(style));
        bar.tick();
        above_bar(|| screen.push("a line\n"));
        let text = screen.0.lock().unwrap().replace(' ', "");
        let (before, after) = text.split_once("aline\n").unwrap();
        assert!(before.starts_with("bar") && before.ends_with('|') && after.starts_with("bar"), "{text:?}");
        drop(bar);
        above_bar(|| screen.push("without a bar"));
        assert!(screen.0.lock().unwrap().ends_with("without a bar"));
    }
}
