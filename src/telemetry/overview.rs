//! Data of the overview page: the current state of this instance, and the last hour, with one sample every five
//! seconds.
//!
//! All data come from the metrics and the checks of the process. [`Reading`] extracts the sampled values, [`History`]
//! keeps the differences of two readings in a ring of [`KEPT`] samples, and [`Judges`] tracks how each log partition is
//! judged, and since when. These are pure; [`Overview`] owns them, and one task takes samples while `http.admin` is on.

mod history;
mod judges;
mod reading;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

pub use self::judges::{NO_JUDGE, VERDICTS_CHECK, judge_check};

use self::history::{History, KEPT};
use self::judges::Judges;
use self::reading::Reading;
use super::labels::{Blocked, LabelValue};
use super::metrics::{Build, MetricValues, Metrics};
use super::status;
use super::{Health, catalog};
use crate::record::Timestamp;

/// Time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of input partitions that are listed: those with the largest lags.
const LISTED_LAGS: usize = 8;

/// A clock that counts from any fixed point.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Facts about the instance that are known from its start.
#[derive(Clone, Debug)]
pub struct About {
    /// The program.
    pub build: Build,
    /// Name of the instance.
    pub instance: String,
    /// The group of the input.
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

    /// Returns the name of the instance.
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
        let mut answer = status::summary(&metrics, &examples, &checks, &inner.about.build, now);
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
        status::members(about)
    }
}

/// Returns the data that the page shows besides the summary.
fn more(metrics: &MetricValues) -> Map<String, Value> {
    let reasons = metrics.by_label(&catalog::BLOCKED_PARTITIONS, Blocked::LABEL);
    let blocked: BTreeMap<&str, f64> = reasons.filter(|(_, count)| *count > 0.0).collect();
    let interval = metrics.largest(&catalog::SNAPSHOT_INTERVAL).map(|seconds| seconds * 1000.0);
    status::members(json!({
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

#[cfg(test)]
mod tests;
