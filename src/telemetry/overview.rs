//! Data of the overview page: the current state of this instance, and the last hour, with one sample every five
//! seconds.
//!
//! All data come from the metrics and the checks of the process. [`Reading`] extracts the sampled values, [`History`]
//! keeps the differences of two readings in a ring of [`KEPT`] samples, and [`Judges`] tracks how each log partition is
//! judged, and since when. These are pure; [`Overview`] owns them, and one task takes samples while `http.admin` is on.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::labels::{Blocked, Eviction, LabelValue, VerdictLabel};
use super::metrics::{Buckets, Build, MetricValues, Metrics};
use super::{Health, catalog, http};
use crate::protocol::LogPartition;
use crate::record::Timestamp;

/// Time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of input partitions that are listed: those with the largest lags.
const LISTED_LAGS: usize = 8;

const VERDICTS: usize = <VerdictLabel as LabelValue>::NAMES.len();

/// Number of kept samples: an hour, with one sample every five seconds.
const KEPT: usize = 720;

/// Number of samples that count as recent: five minutes.
const RECENT: usize = 60;

/// Name of the check that fails while requests wait and no verdicts arrive.
pub const VERDICTS_CHECK: &str = "verdicts";

/// Part of the reason of a standby's check while requests wait and no verdicts arrive.
pub const NO_JUDGE: &str = "no instance judges";

/// A clock that counts from any fixed point.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Facts about the instance that are known from its start.
#[derive(Clone, Debug)]
pub struct About {
    pub build: Build,
    pub instance: String,
    pub group: String,
    /// Roles of the instance, by name.
    pub roles: Vec<&'static str>,
    /// Partitions of each of the two logs.
    pub log_partitions: u32,
    /// When the instance was started. Sample numbers restart with each start.
    pub started: Timestamp,
}

/// The overview of one instance. Clones share it.
#[derive(Clone)]
pub struct Overview {
    inner: Arc<Inner>,
}

struct Inner {
    about: About,
    metrics: Metrics,
    health: Health,
    clock: Clock,
    wall: fn() -> Timestamp,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    judges: Judges,
}

impl fmt::Debug for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overview").field("about", &self.inner.about).finish_non_exhaustive()
    }
}

impl Overview {
    /// Creates an overview without samples. `clock` is monotonic, `wall` is the wall clock.
    #[must_use]
    pub fn new(about: About, metrics: Metrics, health: Health, clock: Clock, wall: fn() -> Timestamp) -> Self {
        Self { inner: Arc::new(Inner { about, metrics, health, clock, wall, state: Mutex::default() }) }
    }

    pub(super) fn instance(&self) -> &str {
        &self.inner.about.instance
    }

    /// Takes a sample at each interval, for as long as the future is polled.
    pub(super) async fn sample_every(self, interval: Duration) {
        let mut pace = tokio::time::interval(interval);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            self.sample();
        }
    }

    fn sample(&self) {
        let inner = &*self.inner;
        let metrics = inner.metrics.values();
        let checks = inner.health.readiness();
        let (now, at) = ((inner.clock)(), (inner.wall)());
        let mut state = self.lock();
        state.judges.note(at, &metrics, &checks, inner.about.log_partitions);
        state.history.note(now, at, Reading::of(&metrics));
    }

    /// Returns the current state, with the samples after this number.
    pub(super) fn answer(&self, after: u64) -> Value {
        let inner = &*self.inner;
        let metrics = inner.metrics.values();
        let checks = inner.health.readiness();
        let examples = inner.metrics.dead_letter_examples();
        let now = (inner.wall)();
        let mut answer = http::summary(&metrics, &examples, &checks, &inner.about.build, now);
        answer.extend(inner.about.json());
        answer.extend(more(&metrics));
        let listed =
            checks.iter().map(|(name, state)| json!({"name": name, "ok": state.is_ok(), "why": state.as_ref().err()}));
        answer.insert("checks".to_owned(), listed.collect());
        let mut state = self.lock();
        state.judges.note(now, &metrics, &checks, inner.about.log_partitions);
        answer.insert("judges".to_owned(), state.judges.json());
        answer.insert("no_judge".to_owned(), state.judges.silence());
        answer.insert("evicted_for_capacity".to_owned(), state.history.evicted_for_capacity().into());
        answer.insert("samples_kept".to_owned(), KEPT.into());
        answer.insert("sample_interval_ms".to_owned(), millis(INTERVAL));
        answer.insert("last_sample".to_owned(), state.history.last().into());
        answer.insert("samples".to_owned(), state.history.columns(after));
        answer.into()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl About {
    fn json(&self) -> Map<String, Value> {
        let about = json!({
            "instance": self.instance,
            "group": self.group,
            "roles": self.roles,
            "started_ms": self.started.millis(),
        });
        http::members(about)
    }
}

/// Returns the data that the page shows besides the summary.
fn more(metrics: &MetricValues) -> Map<String, Value> {
    let reasons = metrics.by_label(&catalog::BLOCKED_PARTITIONS, Blocked::LABEL);
    let blocked: BTreeMap<&str, f64> = reasons.filter(|(_, count)| *count > 0.0).collect();
    let interval = metrics.largest(&catalog::SNAPSHOT_INTERVAL).map(|seconds| seconds * 1000.0);
    http::members(json!({
        "lags": lags(metrics),
        "blocked": blocked,
        "snapshot_interval_ms": interval,
        "snapshot_bytes": metrics.largest(&catalog::SNAPSHOT_SIZE),
    }))
}

/// Returns the input partitions with the largest lags, largest first; those without a lag are left out.
fn lags(metrics: &MetricValues) -> Value {
    let all = metrics.by_two_labels(&catalog::CONSUMER_LAG, "topic", "partition");
    let mut lags: Vec<_> = all.filter(|(_, _, lag)| *lag > 0.0).collect();
    lags.sort_by(|one, other| other.2.total_cmp(&one.2));
    let listed = lags.iter().take(LISTED_LAGS);
    listed.map(|(topic, partition, lag)| json!({"topic": topic, "partition": partition, "lag": lag})).collect()
}

fn millis(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into()
}

/// Values of the metrics at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reading {
    /// Documents by verdict, in the order of `VerdictLabel::NAMES`.
    documents: [f64; VERDICTS],
    dead_letters: f64,
    end_to_end: Buckets,
    verdict_wait: Buckets,
    lag: f64,
    /// Originals evicted for lack of memory.
    evicted_for_capacity: f64,
    /// Share of the memory limit that the index holds.
    index_fill: Option<f64>,
    /// Share of the configured window that the originals in the index span.
    window_reached: Option<f64>,
}

impl Reading {
    fn of(metrics: &MetricValues) -> Self {
        let mut documents = [0.0; VERDICTS];
        for (total, verdict) in documents.iter_mut().zip(VerdictLabel::ALL) {
            *total = metrics.total_of(&catalog::DOCUMENTS, &[verdict.pair()]);
        }
        let window = metrics.largest(&catalog::INDEX_WINDOW).map(|seconds| seconds * 1000.0);
        Self {
            documents,
            dead_letters: metrics.total(&catalog::DEAD_LETTERS),
            end_to_end: metrics.buckets(&catalog::END_TO_END_LATENCY).to_vec(),
            verdict_wait: metrics.buckets(&catalog::VERDICT_SECONDS).to_vec(),
            lag: metrics.total(&catalog::CONSUMER_LAG),
            evicted_for_capacity: metrics.total_of(&catalog::INDEX_EVICTIONS, &[Eviction::Capacity.pair()]),
            index_fill: share(metrics.total(&catalog::INDEX_MEMORY), metrics.total(&catalog::INDEX_MEMORY_LIMIT)),
            window_reached: http::effective_window_ms(metrics).zip(window).and_then(|(reached, window)| {
                // Windows are far below 2^53 ms.
                let reached = reached.to_string().parse().ok()?;
                share(reached, window).map(|share| share.min(1.0))
            }),
        }
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Estimates a quantile of the values counted between two readings. As in Prometheus, values count as evenly spread
/// within a bucket, and values above the last bound count as that bound.
fn quantile(rank: f64, before: &[(f64, f64)], now: &[(f64, f64)]) -> Option<f64> {
    let counted = now.iter().enumerate().map(|(place, (bound, total))| {
        let earlier = before.get(place).map_or(0.0, |(_, total)| *total);
        (*bound, (total - earlier).max(0.0))
    });
    let counted: Buckets = counted.collect();
    let all = counted.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
    let wanted = rank.clamp(0.0, 1.0) * all;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in counted {
        if count >= wanted && count > below {
            let within = (wanted - below) / (count - below);
            return Some(if bound.is_finite() { lower + (bound - lower) * within } else { lower });
        }
        (lower, below) = (if bound.is_finite() { bound } else { lower }, count);
    }
    None
}

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
struct History {
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
    fn note(&mut self, now: Duration, at: Timestamp, reading: Reading) {
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
    const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of originals evicted for lack of memory in the newest [`RECENT`] samples.
    fn evicted_for_capacity(&self) -> f64 {
        self.samples.iter().rev().take(RECENT).map(|sample| sample.evicted_for_capacity).sum()
    }

    fn after(&self, number: u64) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.number > number)
    }

    /// Returns the samples after this number as columns, oldest first.
    fn columns(&self, after: u64) -> Value {
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

/// Returns the name of the check of the judge or standby of a partition of the logs.
#[must_use]
pub fn judge_check(log: LogPartition) -> String {
    format!("judge {log}")
}

/// How a log partition is judged, as this instance sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JudgePresence {
    /// By this instance.
    Judge,
    /// By another instance; this one would take over.
    Standby,
    /// By another instance, if any; this one could not take over yet.
    NotReady,
    /// By another instance.
    Elsewhere,
    /// Requests wait, and no instance judges.
    NoJudge,
}

impl JudgePresence {
    const fn name(self) -> &'static str {
        match self {
            Self::Judge => "judge",
            Self::Standby => "standby",
            Self::NotReady => "not_ready",
            Self::Elsewhere => "elsewhere",
            Self::NoJudge => "no_judge",
        }
    }
}

/// One partition of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    presence: JudgePresence,
    since: Timestamp,
    why: Option<String>,
}

/// All partitions of the logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Judges {
    by_partition: BTreeMap<u32, Judged>,
    /// Since when some partition has no judge, and the reason that a check reports.
    silence: Option<(Timestamp, String)>,
}

impl Judges {
    /// Updates the states.
    fn note(
        &mut self,
        at: Timestamp,
        metrics: &MetricValues,
        checks: &[(String, Result<(), String>)],
        log_partitions: u32,
    ) {
        let failing = |name: &str| {
            let state = checks.iter().find(|(known, _)| known == name).map(|(_, state)| state);
            state.map(|state| state.as_ref().err().cloned())
        };
        let no_verdicts = failing(VERDICTS_CHECK).flatten();
        let mut silence = no_verdicts.clone();
        for partition in 0..log_partitions {
            let label = partition.to_string();
            let is_judge = metrics.total_of(&catalog::JUDGE_ACTIVE, &[("log_partition", &label)]) > 0.0;
            let (presence, why) = match failing(&judge_check(LogPartition(partition))) {
                Some(_) if is_judge => (JudgePresence::Judge, None),
                Some(None) => (JudgePresence::Standby, None),
                Some(Some(why)) if why.contains(NO_JUDGE) => (JudgePresence::NoJudge, Some(why)),
                Some(Some(why)) => (JudgePresence::NotReady, Some(why)),
                // The worker does not report for which partition it waits; it is known only if there is just one.
                None if log_partitions == 1 && no_verdicts.is_some() => (JudgePresence::NoJudge, no_verdicts.clone()),
                None => (JudgePresence::Elsewhere, None),
            };
            if presence == JudgePresence::NoJudge && silence.is_none() {
                silence.clone_from(&why);
            }
            let judged =
                self.by_partition.entry(partition).or_insert_with(|| Judged { presence, since: at, why: None });
            if judged.presence != presence {
                (judged.presence, judged.since) = (presence, at);
            }
            judged.why = why;
        }
        let since = self.silence.take().map_or(at, |(since, _)| since);
        self.silence = silence.map(|why| (since, why));
    }

    /// Returns all partitions with their states.
    fn json(&self) -> Value {
        let one = |(partition, judged): (&u32, &Judged)| {
            json!({
                "log_partition": partition,
                "state": judged.presence.name(),
                "since_ms": judged.since.millis(),
                "why": judged.why,
            })
        };
        self.by_partition.iter().map(one).collect()
    }

    /// Returns since when some partition has no judge, and the reason; null while all have one.
    fn silence(&self) -> Value {
        self.silence.as_ref().map_or(Value::Null, |(since, why)| json!({"since_ms": since.millis(), "why": why}))
    }
}

#[cfg(test)]
mod tests;
