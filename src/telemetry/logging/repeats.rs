//! Limits a repeated warning or error to one line per interval, with the number of those left out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::Xxh3;

/// Minimum interval between equal lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of remembered lines. Beyond it, expired lines are dropped, and all if that is not enough.
const MAX_LINES: usize = 1024;

/// Remembers which lines were written recently.
pub(super) struct Repeats {
    now: fn() -> Duration,
    /// For each line, when it was written, and the number of repetitions left out since.
    written: Mutex<HashMap<u64, (Duration, u64)>>,
}

impl Repeats {
    /// Starts without lines. `now` counts from any fixed point.
    pub(super) fn new(now: fn() -> Duration) -> Self {
        Self { now, written: Mutex::default() }
    }

    /// Returns whether a line should be written: `None` if it should be left out, else the number of repetitions that
    /// were left out before it.
    pub(super) fn pass(&self, line: u64) -> Option<u64> {
        let now = (self.now)();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= MAX_LINES {
            written.retain(|_, (at, _)| now.saturating_sub(*at) < INTERVAL);
            if written.len() >= MAX_LINES {
                written.clear();
            }
        }
        match written.get_mut(&line) {
            Some((at, left_out)) if now.saturating_sub(*at) < INTERVAL => {
                *left_out += 1;
                None
            }
            Some(entry) => Some(std::mem::replace(entry, (now, 0)).1),
            None => {
                written.insert(line, (now, 0));
                Some(0)
            }
        }
    }
}

/// Returns the identity of a line. It ignores numbers, because times, ports and counts differ in repetitions. It
/// includes text fields, so that a line about another partition is another line.
pub(super) fn name(target: &str, message: &str, fields: &Map<String, Value>) -> u64 {
    let mut hash = Xxh3::new();
    let words: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
    let mut add = |text: &str| {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    };
    add(target);
    add(&words);
    for (name, value) in fields {
        add(name);
        if let Value::String(text) = value {
            add(text);
        }
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;

    static CLOCK: AtomicU64 = AtomicU64::new(0);

    fn now() -> Duration {
        Duration::from_millis(CLOCK.load(Ordering::Relaxed))
    }

    #[test]
    fn a_line_is_written_once_in_an_interval_with_the_number_left_out() {
        let repeats = Repeats::new(now);
        let at = |millis: u64, line: u64| {
            CLOCK.store(millis, Ordering::Relaxed);
            repeats.pass(line)
        };
        assert_eq!(
            [at(0, 1), at(5, 1), at(5, 2), at(9_999, 1), at(10_000, 1)],
            [Some(0), None, Some(0), None, Some(2)]
        );
        assert_eq!([at(19_999, 1), at(50_000, 1), at(50_000, 2)], [None, Some(1), Some(0)]);
        // Of many different lines, few are remembered.
        (0..5000).for_each(|line| assert_eq!(at(60_000, 100 + line), Some(0)));
        assert!(repeats.written.lock().unwrap().len() <= MAX_LINES);
    }

    #[test]
    fn numbers_do_not_distinguish_lines_and_texts_do() {
        let fields = |value: Value| value.as_object().unwrap().clone();
        let line = |message: &str, value: Value| name("librdkafka", message, &fields(value));
        let first = line("FAIL after 3ms", json!({"partition": "pages:1", "entries": 7}));
        assert_eq!(first, line("FAIL after 12ms", json!({"partition": "pages:1", "entries": 9})));
        assert_ne!(first, line("FAIL after 3ms", json!({"partition": "pages:2", "entries": 7})));
        assert_ne!(first, line("FAIL before 3ms", json!({"partition": "pages:1", "entries": 7})));
        assert_ne!(first, name("dupgate", "FAIL after 3ms", &fields(json!({"partition": "pages:1", "entries": 7}))));
    }
}
