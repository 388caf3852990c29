//! Liveness and readiness of the process, and the silence of the judges.
//!
//! *Alive*: every loop that registered a [`Heartbeat`] has ticked within the limit, even if the brokers are
//! unreachable. *Ready*: every registered [`Check`] passes. Components report their state; they are not polled. Time is
//! passed in.
//!
//! If a single verdict is slow to arrive, the judge may only have a backlog. [`VerdictWatch`] detects silence instead:
//! requests wait, and no verdict at all was read for some time. Then no instance judges, or none can be reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::protocol::RequestOffset;

/// How long silence may last before it is reported.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// How often a standby queries the end of the fingerprint log, which shows whether a request waits.
const END_INTERVAL: Duration = Duration::from_millis(500);

/// Heartbeats and checks of the process. Clones share it.
#[derive(Clone, Debug)]
pub struct Health {
    limit: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    beats: BTreeMap<(String, u64), Instant>,
    checks: BTreeMap<(String, u64), Result<(), String>>,
}

/// Heartbeat of a loop. Drop it when the loop ends normally; it is then no longer checked.
#[derive(Debug)]
pub struct Heartbeat {
    health: Health,
    key: (String, u64),
}

/// Reports whether one condition holds. Drop it when the condition no longer matters.
#[derive(Debug)]
pub struct Check {
    health: Health,
    key: (String, u64),
}

impl Health {
    /// Starts with nothing registered: alive and ready. A loop may stall for `limit`, inclusive.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, state: Arc::default() }
    }

    /// Registers a loop; it counts as having ticked at `now`.
    #[must_use]
    pub fn heartbeat(&self, name: &str, now: Instant) -> Heartbeat {
        let mut state = self.lock();
        let key = state.key(name);
        state.beats.insert(key.clone(), now);
        Heartbeat { health: self.clone(), key }
    }

    /// Registers a condition that does not hold yet, for this reason.
    #[must_use]
    pub fn check(&self, name: &str, why_not_yet: &str) -> Check {
        let mut state = self.lock();
        let key = state.key(name);
        state.checks.insert(key.clone(), Err(why_not_yet.to_owned()));
        Check { health: self.clone(), key }
    }

    /// Checks that no loop has stalled for too long.
    ///
    /// # Errors
    ///
    /// One line for each loop that has.
    pub fn live(&self, now: Instant) -> Result<(), Vec<String>> {
        let state = self.lock();
        let stuck = state.beats.iter().filter_map(|((name, _), ticked)| {
            let still = now.saturating_duration_since(*ticked);
            let limit = self.limit;
            (still > limit)
                .then(|| format!("{name}: has not moved for {} s (limit {} s)", still.as_secs(), limit.as_secs_f64()))
        });
        let stuck: Vec<String> = stuck.collect();
        if stuck.is_empty() { Ok(()) } else { Err(stuck) }
    }

    /// Lists every condition with its state, by name.
    #[must_use]
    pub fn readiness(&self) -> Vec<(String, Result<(), String>)> {
        self.lock().checks.iter().map(|((name, _), state)| (name.clone(), state.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key(&mut self, name: &str) -> (String, u64) {
        self.next_id += 1;
        (name.to_owned(), self.next_id)
    }
}

impl Heartbeat {
    /// Notes that the loop has made progress.
    pub fn tick(&self, now: Instant) {
        if let Some(ticked) = self.health.lock().beats.get_mut(&self.key) {
            *ticked = now;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.health.lock().beats.remove(&self.key);
    }
}

impl Check {
    /// Notes that the condition holds.
    pub fn pass(&self) {
        self.set(Ok(()));
    }

    /// Notes that the condition does not hold, for this reason: one line, for people.
    pub fn fail(&self, why: impl Into<String>) {
        self.set(Err(why.into()));
    }

    fn set(&self, state: Result<(), String>) {
        if let Some(known) = self.health.lock().checks.get_mut(&self.key) {
            *known = state;
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        self.health.lock().checks.remove(&self.key);
    }
}

/// Watches one partition of the verdict log.
#[derive(Debug, Default)]
pub(crate) struct VerdictWatch {
    /// When a verdict was read last.
    heard: Duration,
    /// When the current wait of requests began.
    waiting: Option<Duration>,
}

impl VerdictWatch {
    /// Notes that a verdict was read, for any request.
    pub(crate) fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// Returns for how long no verdict has arrived although requests wait, if that is too long. `waits` says whether a
    /// request waits now.
    pub(crate) fn silence(&mut self, now: Duration, waits: bool) -> Option<Duration> {
        if !waits {
            self.waiting = None;
            return None;
        }
        let since = *self.waiting.get_or_insert(now);
        Some(now.saturating_sub(since.max(self.heard))).filter(|silence| *silence >= SILENCE_LIMIT)
    }
}

/// Detects on a standby that the active judge is gone: the fingerprint log holds requests, and no verdicts arrive.
///
/// While nothing is requested, a standby cannot tell an idle judge from a dead one. Only the group can: it assigns the
/// partition of a dead judge to a standby when the session of the dead one ends. So a new standby knows nothing until it
/// reads a verdict, or until a session has passed.
#[derive(Debug, Default)]
pub(crate) struct StandbyWatch {
    watch: VerdictWatch,
    /// When it became a standby, until it read a verdict.
    unsure_since: Option<Duration>,
    /// A recent end of the fingerprint log.
    end: RequestOffset,
    /// When the end was last requested.
    requested_at: Duration,
    /// Whether the answer to that request is pending.
    is_requested: bool,
}

impl StandbyWatch {
    /// Notes that the instance became a standby.
    pub(crate) fn stands_by(&mut self, now: Duration) {
        self.unsure_since = Some(now);
    }

    /// Notes that a verdict was read.
    pub(crate) fn heard(&mut self, now: Duration) {
        self.unsure_since = None;
        self.watch.heard(now);
    }

    /// Returns for how long it may still be unknown whether an instance judges, if it is; `session` is the session
    /// timeout of judges.
    pub(crate) fn unsure_for(&self, now: Duration, session: Duration) -> Option<Duration> {
        let since = self.unsure_since?;
        Some(session.saturating_sub(now.saturating_sub(since))).filter(|left| !left.is_zero())
    }

    /// Returns whether to request the end of the fingerprint log now. The caller must then call
    /// [`StandbyWatch::end_answered`], even if the request fails.
    pub(crate) fn asks_for_end(&mut self, now: Duration) -> bool {
        if self.is_requested || now.saturating_sub(self.requested_at) < END_INTERVAL {
            return false;
        }
        (self.requested_at, self.is_requested) = (now, true);
        true
    }

    /// Stores the end of the fingerprint log; `None` if the request failed.
    pub(crate) fn end_answered(&mut self, end: Option<RequestOffset>) {
        self.is_requested = false;
        // Not the largest one: the log may have been recreated.
        self.end = end.unwrap_or(self.end);
    }

    /// Returns the number of waiting requests.
    pub(crate) fn requests(&self, next_request: RequestOffset) -> u64 {
        self.end.since(next_request)
    }

    /// Returns for how long requests have waited without any verdict, if that is too long.
    pub(crate) fn silence(&mut self, now: Duration, next_request: RequestOffset) -> Option<Duration> {
        self.watch.silence(now, self.requests(next_request) > 0)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an Instant cannot be created otherwise")]
mod tests {
    use super::*;
    use crate::judge::HOUSEKEEPING_INTERVAL;
    use crate::threads::TICK_INTERVAL;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_loop_is_alive_up_to_the_limit() {
        let start = Instant::now();
        let health = Health::new(LIMIT);
        assert_eq!(health.live(start), Ok(()));
        let heartbeat = health.heartbeat("input", start);
        assert_eq!(health.live(start + LIMIT), Ok(()));
        let late = start + LIMIT + Duration::from_millis(1);
        assert_eq!(health.live(late), Err(vec!["input: has not moved for 10 s (limit 10 s)".to_owned()]));
        heartbeat.tick(late);
        assert_eq!(health.live(late), Ok(()));
    }

    #[test]
    fn a_loop_that_ended_is_not_waited_for() {
        let start = Instant::now();
        let health = Health::new(LIMIT);
        let (first, second) = (health.heartbeat("input", start), health.heartbeat("input", start));
        drop(first);
        assert!(health.live(start + LIMIT * 2).is_err(), "its namesake still counts");
        drop(second);
        assert_eq!(health.live(start + LIMIT * 2), Ok(()));
    }

    #[test]
    fn conditions_are_listed_with_their_reasons() {
        let health = Health::new(LIMIT);
        let restored = health.check("restored", "restoring, 0 %");
        let joined = health.check("joined", "waiting for the group");
        joined.pass();
        restored.fail("restoring, 40 %");
        let expected = [("joined".to_owned(), Ok(())), ("restored".to_owned(), Err("restoring, 40 %".to_owned()))];
        assert_eq!(health.readiness(), expected);
        drop(restored);
        assert_eq!(health.readiness().len(), 1);
    }

    #[test]
    fn a_lone_standby_reports_a_missing_judge_within_three_seconds() {
        // The brokers answer slowly.
        let answers_after = Duration::from_millis(200);
        for comes_at in (0..1_000).step_by(10).map(Duration::from_millis) {
            let (mut watch, mut now, mut last_check) = (StandbyWatch::default(), Duration::ZERO, Duration::ZERO);
            let mut question: Option<(Duration, RequestOffset)> = None;
            let answered_at = loop {
                now += TICK_INTERVAL;
                if let Some((_, end)) = question.take_if(|(since, _)| now >= *since + answers_after) {
                    watch.end_answered(Some(end));
                }
                if now.saturating_sub(last_check) < HOUSEKEEPING_INTERVAL {
                    continue;
                }
                last_check = now;
                if watch.silence(now, RequestOffset(0)).is_some() {
                    break now;
                }
                if watch.asks_for_end(now) {
                    question = Some((now, RequestOffset(i64::from(now >= comes_at))));
                }
            };
            let after = answered_at.saturating_sub(comes_at);
            assert!(
                (SILENCE_LIMIT..Duration::from_secs(3)).contains(&after),
                "a request at {comes_at:?}: reported after {after:?}"
            );
        }
    }

    #[test]
    fn silence_counts_from_the_last_verdict_or_from_the_first_request_that_waits() {
        let second = Duration::from_secs;
        let mut watch = VerdictWatch::default();
        assert_eq!(watch.silence(second(100), false), None, "nothing waits");
        assert_eq!(watch.silence(second(100), true), None);
        assert_eq!(watch.silence(second(101), true), None);
        assert_eq!(watch.silence(second(102), true), Some(second(2)), "counts from the first check that saw one wait");
        watch.heard(second(102));
        assert_eq!(watch.silence(second(103), true), None, "a verdict arrived, and the others follow");
        assert_eq!(watch.silence(second(106), true), Some(second(4)));
        assert_eq!(watch.silence(second(107), false), None);
        assert_eq!(watch.silence(second(108), true), None, "waits again, for a moment");
    }
}
