//! Liveness and readiness of the process.
//!
//! *Alive*: every loop that registered a [`Heartbeat`] has ticked within the limit, even if the brokers are
//! unreachable. *Ready*: every registered [`Check`] passes. Components report their state; they are not polled. Time is
//! passed in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an Instant cannot be created otherwise")]
mod tests {
    use super::*;

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
}
