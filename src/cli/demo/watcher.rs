//! Reads what the service of the demo delivers, compares it with the truth, and shows the results.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{IsTerminal, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, tick};
use signal_hook::consts::SIGTERM;

use super::{Fed, JudgedPage, Shared, judged_page};
use crate::clock::Clock;
use crate::crawl::Summary;
use crate::crawl::score::{Found, Scorer};
use crate::error::{Fatal, OrFatal, Reason};
use crate::kafka::demo::{Step, Tail, Written};
use crate::telemetry::metrics::whole;
use crate::telemetry::{Metrics, catalog};

/// Maximum number of pages whose positions and families are remembered: more than the reach of the crawl plus the pages
/// in flight.
const REMEMBERED: usize = 50_000;
/// Time between two updates of a terminal, and between two log lines elsewhere.
const LIVE: Duration = Duration::from_secs(1);
const LOGGED: Duration = Duration::from_secs(10);
/// Time-out of one wait for an output.
const WAIT: Duration = Duration::from_millis(50);
/// How long to wait for pages in flight after feeding has ended.
const LAST_PAGES: Duration = Duration::from_mins(1);

/// Escape sequences that make a terminal cut lines at its edge, and wrap them again.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Receivers of the channels, and the watcher's other inputs.
pub(super) struct Watcher {
    pub(super) tail: Tail,
    pub(super) prefix: String,
    pub(super) fed_receiver: Receiver<Fed>,
    pub(super) seen: Sender<u64>,
    pub(super) metrics: Receiver<Metrics>,
    pub(super) shared: Arc<Shared>,
    /// Fires when feeding should stop.
    pub(super) end: Receiver<Instant>,
    /// Fires when the service has ended.
    pub(super) service_ended: Receiver<()>,
}

/// The state so far.
struct Known {
    scorer: Scorer,
    keys: HashMap<String, String>,
    order: VecDeque<String>,
    verdicts: BTreeMap<&'static str, u64>,
    judged: u64,
    bytes: u64,
    failed: u64,
}

impl Watcher {
    /// Watches until everything fed was delivered, or the service has ended. Returns the final results.
    pub(super) fn watch(mut self) -> Result<Summary, Fatal> {
        // The service handles signals before it hands out its metrics, so it can be stopped by one from here on. A
        // service that fails to start hands out none, and ends by itself.
        let Ok(metrics) = self.metrics.recv() else { return Ok(Summary::default()) };
        let summary = self.follow(&metrics);
        self.shared.stop();
        // Stop the service as Ctrl-C does: it commits complete pages first.
        let raised = signal_hook::low_level::raise(SIGTERM).or_fatal(Reason::Failure);
        summary.and_then(|summary| raised.map(|()| summary))
    }

    fn follow(&mut self, metrics: &Metrics) -> Result<Summary, Fatal> {
        let clock = Clock::start();
        let is_terminal = std::io::stderr().is_terminal();
        let shows = tick(if is_terminal { LIVE } else { LOGGED });
        let mut known = Known {
            scorer: Scorer::new(REMEMBERED),
            keys: HashMap::new(),
            order: VecDeque::new(),
            verdicts: BTreeMap::new(),
            judged: 0,
            bytes: 0,
            failed: 0,
        };
        let mut screen = Screen { is_terminal, lines: 0 };
        let (mut before, mut stop_by) = ((0, Duration::ZERO), None);
        loop {
            let step = self.tail.next(WAIT).or_fatal(Reason::Failure)?;
            self.fed_receiver.try_iter().for_each(|fed| known.hear(fed));
            if let Step::Record(written) = step {
                known.note(&written, &self.prefix);
                // The feeder may have exited.
                let _ = self.seen.send(u64::try_from(written.value_bytes).unwrap_or(0));
            }
            if shows.try_recv().is_ok() {
                let now = clock.now();
                let summary = known.summary(&self.shared, metrics, now, before);
                before = (known.judged, now);
                screen.show(&summary);
            }
            let is_over = self.end.try_recv().is_ok();
            let ended = !self.service_ended.is_empty();
            if (is_over || ended) && stop_by.is_none() {
                self.shared.stop();
                stop_by = Some(clock.now() + LAST_PAGES);
            }
            if let Some(stop_by) = stop_by {
                let all_out = known.judged + known.failed >= self.shared.fed.load(Ordering::Relaxed);
                if all_out || clock.now() > stop_by || ended {
                    screen.clear();
                    return Ok(known.summary(&self.shared, metrics, clock.now(), before));
                }
            }
        }
    }
}

impl Known {
    fn hear(&mut self, fed: Fed) {
        match fed {
            Fed::Planted(key, truth) => self.scorer.plant(&key, &truth),
            Fed::Written(key, source) => {
                let source = source.to_string();
                self.keys.insert(source.clone(), key);
                self.order.push_back(source);
                if self.order.len() > REMEMBERED
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.keys.remove(&oldest);
                }
            }
            Fed::Failed(message) => {
                self.failed += 1;
                tracing::warn!(target: "dupgate::cli", message, "failed to produce a page");
            }
        }
    }

    fn note(&mut self, written: &Written, prefix: &str) {
        self.judged += 1;
        self.bytes += u64::try_from(written.value_bytes).unwrap_or(0);
        let Some(JudgedPage { key, truth, found, matched }) = judged_page(written, prefix) else {
            tracing::warn!(
                target: "dupgate::cli",
                place = %written.partition, "skipping an output without key, truth or verdict"
            );
            return;
        };
        *self.verdicts.entry(found.name()).or_default() += 1;
        // An original that is not remembered cannot be a page of the family.
        let matched = matched.map(|source| self.keys.get(&source).cloned().unwrap_or(source));
        self.scorer.note(&key, &truth, found, matched.as_deref());
    }

    fn summary(&self, shared: &Shared, metrics: &Metrics, now: Duration, before: (u64, Duration)) -> Summary {
        let metrics = metrics.values();
        Summary {
            elapsed: now,
            fed: shared.fed.load(Ordering::Relaxed),
            judged: self.judged,
            bytes: self.bytes,
            lately: (self.judged - before.0, now.saturating_sub(before.1)),
            verdicts: Found::NAMES.map(|name| (name, self.verdicts.get(name).copied().unwrap_or(0))).into(),
            originals: metrics.largest(&catalog::INDEX_ENTRIES).map(whole),
            index_bytes: Some(metrics.count(&catalog::INDEX_MEMORY)),
            report: self.scorer.report(),
        }
    }
}

/// Where the live summary is shown: redrawn on a terminal, one line elsewhere.
struct Screen {
    is_terminal: bool,
    lines: usize,
}

impl Screen {
    fn show(&mut self, summary: &Summary) {
        let text = if self.is_terminal { self.redrawn(&summary.live()) } else { summary.line() + "\n" };
        // Standard error may be closed: the outputs are written all the same.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Removes the previous lines from the terminal.
    fn clear(&mut self) {
        let _ = std::io::stderr().write_all(self.cleared().as_bytes());
    }

    /// Returns the text that replaces the previous lines by these.
    fn redrawn(&mut self, lines: &[String]) -> String {
        let mut text = self.cleared();
        self.lines = lines.len();
        // Let the terminal cut long lines: if one took two rows, the next update would leave one of them on the screen.
        text.push_str(NO_WRAP);
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(WRAP);
        text
    }

    fn cleared(&mut self) -> String {
        match mem::take(&mut self.lines) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rows that a terminal of this many columns shows after this.
    fn rows(columns: usize, text: &str) -> Vec<String> {
        let (mut rows, mut row, mut wraps) = (vec![String::new()], 0, true);
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if let Some(code) = rest.strip_prefix("\x1b[") {
                let end = code.find(|c: char| c.is_ascii_alphabetic()).expect("an escape sequence has an end");
                let (number, command) = (&code[..end], &code[end..=end]);
                match command {
                    "A" => row -= number.parse::<usize>().expect("a number of rows"),
                    "J" => {
                        rows.truncate(row);
                        rows.push(String::new());
                    }
                    "h" | "l" if number == "?7" => wraps = command == "h",
                    _ => {}
                }
                rest = &code[end + 1..];
                continue;
            }
            let is_full = rows[row].chars().count() == columns;
            match letter {
                '\n' => row += 1,
                _ if !is_full => rows[row].push(letter),
                _ if wraps => {
                    row += 1;
                    rows.insert(row, letter.to_string());
                }
                _ => {
                    rows[row].pop();
                    rows[row].push(letter);
                }
            }
            if rows.len() == row {
                rows.push(String::new());
            }
            rest = &rest[letter.len_utf8()..];
        }
        rows
    }

    #[test]
    fn a_narrow_terminal_keeps_no_lines_of_the_summaries_before() {
        let mut screen = Screen { is_terminal: true, lines: 0 };
        let summary = |second: u32| vec![format!("second {second}"), "v".repeat(106), "end".to_owned()];
        let mut text = "started\n".to_owned();
        for second in 1..=3 {
            text += &screen.redrawn(&summary(second));
        }
        assert_eq!(rows(80, &text), ["started", "second 3", &"v".repeat(80), "end", ""], "{text:?}");
        text += &screen.cleared();
        assert_eq!(rows(80, &text), ["started", ""], "{text:?}");
    }
}
