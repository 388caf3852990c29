//! Keeps the last hour in a ring: the differences of two readings, with rates per second.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value};

use super::reading::{Reading, VERDICTS, quantile};
use crate::record::Timestamp;
use crate::telemetry::labels::{LabelValue, VerdictLabel};

/// Number of kept samples: an hour, with one sample every five seconds.
pub(super) const KEPT: usize = 720;

/// Number of samples that count as recent: five minutes.
const RECENT: usize = 60;

/// The difference of two readings, and the levels at the second one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    /// The number of the sample, from 1.
    number: u64,
    at: Timestamp,
    /// Rates per second, by verdict.
    documents: [f64; VERDICTS],
    /// Rates per second.
    dead_letters: f64,
    /// Seconds, as are the following three; absent if nothing was counted.
    end_to_end_p50: Option<f64>,
    end_to_end_p99: Option<f64>,
    verdict_wait_p50: Option<f64>,
    verdict_wait_p99: Option<f64>,
    lag: f64,
    /// Number of originals evicted between the two readings.
    evicted_for_capacity: f64,
    index_fill: Option<f64>,
    window_reached: Option<f64>,
}

/// The newest samples, at most [`KEPT`].
#[derive(Debug)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    last: u64,
    before: Option<(Duration, Reading)>,
}

impl Default for History {
    fn default() -> Self {
        Self { samples: VecDeque::with_capacity(KEPT), last: 0, before: None }
    }
}

impl History {
    /// Adds a reading of the metrics at `now`, which counts from any fixed point. The first reading adds no sample.
    pub(super) fn note(&mut self, now: Duration, at: Timestamp, reading: Reading) {
        let Some((then, before)) = &self.before else {
            self.before = Some((now, reading));
            return;
        };
        let seconds = now.saturating_sub(*then).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let mut documents = [0.0; VERDICTS];
        for ((rate, total), earlier) in documents.iter_mut().zip(reading.documents).zip(before.documents) {
            *rate = (total - earlier) / seconds;
        }
        let end_to_end = |rank| quantile(rank, &before.end_to_end, &reading.end_to_end);
        let verdict_wait = |rank| quantile(rank, &before.verdict_wait, &reading.verdict_wait);
        let sample = Sample {
            number: self.last + 1,
            at,
            documents,
            dead_letters: (reading.dead_letters - before.dead_letters) / seconds,
            end_to_end_p50: end_to_end(0.5),
            end_to_end_p99: end_to_end(0.99),
            verdict_wait_p50: verdict_wait(0.5),
            verdict_wait_p99: verdict_wait(0.99),
            lag: reading.lag,
            evicted_for_capacity: reading.evicted_for_capacity - before.evicted_for_capacity,
            index_fill: reading.index_fill,
            window_reached: reading.window_reached,
        };
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.last = sample.number;
        self.before = Some((now, reading));
    }

    /// Returns the number of the newest sample; 0 before there is one.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of originals evicted for lack of memory in the newest [`RECENT`] samples.
    pub(super) fn evicted_for_capacity(&self) -> f64 {
        self.samples.iter().rev().take(RECENT).map(|sample| sample.evicted_for_capacity).sum()
    }

    fn after(&self, number: u64) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.number > number)
    }

    /// Returns the samples after this number as columns, oldest first.
    pub(super) fn columns(&self, after: u64) -> Value {
        let mut columns = Map::new();
        let mut column = |name: &str, value: &dyn Fn(&Sample) -> Value| {
            columns.insert(name.to_owned(), self.after(after).map(value).collect());
        };
        column("number", &|sample| sample.number.into());
        column("at_ms", &|sample| sample.at.millis().into());
        for (place, verdict) in VerdictLabel::NAMES.iter().enumerate() {
            column(verdict, &|sample| short(sample.documents.get(place).copied()));
        }
        column("dead_letters", &|sample| short(Some(sample.dead_letters)));
        column("end_to_end_p50", &|sample| short(sample.end_to_end_p50));
        column("end_to_end_p99", &|sample| short(sample.end_to_end_p99));
        column("verdict_wait_p50", &|sample| short(sample.verdict_wait_p50));
        column("verdict_wait_p99", &|sample| short(sample.verdict_wait_p99));
        column("lag", &|sample| sample.lag.into());
        column("index_fill", &|sample| short(sample.index_fill));
        column("window_reached", &|sample| short(sample.window_reached));
        columns.into()
    }
}

/// Rounds a value to four digits, which is enough for a chart.
fn short(value: Option<f64>) -> Value {
    let digits = |value: f64| format!("{value:.3e}").parse::<f64>().ok();
    value.and_then(digits).map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(unique: f64) -> Reading {
        let mut documents = [0.0; VERDICTS];
        documents[0] = unique;
        Reading { documents, lag: 7.0, ..Reading::default() }
    }

    fn column(history: &History, after: u64, name: &str) -> Vec<f64> {
        let columns = history.columns(after);
        columns[name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    }

    #[test]
    fn the_first_reading_is_the_base_of_the_second() {
        let mut history = History::default();
        history.note(Duration::from_secs(100), Timestamp::from_millis(1000), reading(50.0));
        assert_eq!((history.last(), column(&history, 0, "number").len()), (0, 0));
        history.note(Duration::from_secs(105), Timestamp::from_millis(6000), reading(80.0));
        // The next one is late: the process was suspended for a while.
        history.note(Duration::from_secs(205), Timestamp::from_millis(106_000), reading(180.0));
        history.note(Duration::from_secs(205), Timestamp::from_millis(106_001), reading(190.0));
        assert_eq!(column(&history, 0, "unique"), [6.0, 1.0]);
        assert_eq!(column(&history, 0, "at_ms"), [6000.0, 106_000.0]);
        assert_eq!(column(&history, 1, "number"), [2.0]);
        assert_eq!(column(&history, 0, "lag"), [7.0, 7.0]);
        assert_eq!(history.columns(0)["end_to_end_p50"], serde_json::json!([null, null]), "nothing was counted");
        assert!(column(&history, 9, "number").is_empty(), "a number of an earlier start");
    }

    #[test]
    fn an_index_that_was_full_long_ago_is_full_no_longer() {
        let mut history = History::default();
        let evicted = [0.0, 0.0, 3.0, 5.0].into_iter().chain(std::iter::repeat_n(5.0, RECENT));
        let mut recent = Vec::new();
        for (seconds, evicted_for_capacity) in (0..).step_by(5).zip(evicted) {
            let reading = Reading { evicted_for_capacity, ..Reading::default() };
            history.note(Duration::from_secs(seconds), Timestamp::from_millis(0), reading);
            recent.push(history.evicted_for_capacity());
        }
        assert_eq!(recent[..4], [0.0, 0.0, 3.0, 5.0]);
        assert_eq!(recent[RECENT..], [5.0, 5.0, 2.0, 0.0], "five minutes later");
    }

    #[test]
    fn numbers_are_shortened_to_four_digits() {
        assert_eq!(short(Some(1234.567)), 1235.0);
        assert_eq!(short(Some(0.001_234_56)), 0.001_235);
        assert_eq!(short(Some(f64::INFINITY)), Value::Null);
        assert_eq!(short(None), Value::Null);
    }

    proptest! {
        #[test]
        fn the_ring_keeps_the_newest_samples_in_order_and_never_grows(
            steps in prop::collection::vec((1_u64..9_000, 0_u32..1_000), 0..1_600), after in 0_u64..1_700,
        ) {
            let mut history = History::default();
            let capacity = history.samples.capacity();
            let (mut now, mut total) = (Duration::ZERO, 0.0);
            history.note(now, Timestamp::from_millis(0), reading(0.0));
            let mut expected = Vec::new();
            for (millis, pages) in &steps {
                let step = Duration::from_millis(*millis);
                now += step;
                total += f64::from(*pages);
                history.note(now, Timestamp::from_millis(0), reading(total));
                expected.push(f64::from(*pages) / step.as_secs_f64());
            }
            prop_assert_eq!(history.samples.capacity(), capacity);
            prop_assert_eq!(history.last(), steps.len() as u64);
            let first = steps.len().saturating_sub(KEPT).max(usize::try_from(after).unwrap()).min(steps.len());
            let numbers: Vec<u64> = history.after(after).map(|sample| sample.number).collect();
            prop_assert_eq!(numbers, (first as u64 + 1..=steps.len() as u64).collect::<Vec<_>>());
            for (sample, rate) in history.after(after).zip(&expected[first..]) {
                prop_assert!((sample.documents[0] - rate).abs() <= 1e-6 * rate.max(1.0));
            }
        }
    }
}
