//! The probes of a container: when a pod is ready, and whether its container would be restarted.
#![expect(clippy::disallowed_methods, reason = "probes have periods")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::pod::{Container, Handler};
use super::{has_only, number, seconds};

/// What the probes have found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Whether the startup probe has succeeded; the other ones begin then.
    is_started: bool,
    /// Since when the readiness probe holds.
    pub(crate) ready_since: Option<Instant>,
    /// Which probe has failed so often that the container would be restarted.
    pub(crate) failed: Option<&'static str>,
}

/// Probes a container until dropped.
#[derive(Debug)]
pub(crate) struct Prober {
    health: Arc<Mutex<Health>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Begins to probe a container that was just started.
    pub(crate) fn start(container: &Arc<Container>) -> Self {
        let (health, stop): (Arc<Mutex<Health>>, Arc<AtomicBool>) = Default::default();
        let mut probes = Probes::new(container);
        let (found, stopped) = (health.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut health = Health::default();
            while !stopped.load(Ordering::Relaxed) {
                let next = probes.probe(&mut health);
                *found.lock().expect("the last result") = health.clone();
                std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
            }
        });
        Self { health, stop, thread: Some(thread) }
    }

    pub(crate) fn health(&self) -> Health {
        self.health.lock().expect("the last result").clone()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        let ended = thread.join();
        assert!(std::thread::panicking() || ended.is_ok(), "the probes end well");
    }
}

/// The three probes of a container. One that the chart does not render has succeeded.
#[derive(Debug)]
struct Probes {
    startup: Option<Probe>,
    liveness: Option<Probe>,
    readiness: Option<Probe>,
}

impl Probes {
    fn new(container: &Arc<Container>) -> Self {
        let probe = |name: &str| Probe::new(container, name);
        Self { startup: probe("startupProbe"), liveness: probe("livenessProbe"), readiness: probe("readinessProbe") }
    }

    /// Makes the probes that are due, and returns when the next one is.
    fn probe(&mut self, health: &mut Health) -> Instant {
        if !health.is_started {
            if let Some(startup) = &mut self.startup {
                startup.probe_if_due();
                if startup.has_failed() {
                    health.failed = Some("startup");
                }
                if !startup.has_succeeded() {
                    return startup.due;
                }
            }
            health.is_started = true;
        }
        if let Some(liveness) = &mut self.liveness {
            liveness.probe_if_due();
            if liveness.has_failed() {
                health.failed = Some("liveness");
            }
        }
        match &mut self.readiness {
            Some(readiness) => {
                readiness.probe_if_due();
                if readiness.has_failed() {
                    health.ready_since = None;
                } else if readiness.has_succeeded() {
                    health.ready_since.get_or_insert_with(Instant::now);
                }
            }
            None => drop(health.ready_since.get_or_insert_with(Instant::now)),
        }
        let due = [&self.liveness, &self.readiness].into_iter().flatten().map(|probe| probe.due).min();
        due.unwrap_or_else(|| Instant::now() + Duration::from_secs(1))
    }
}

/// One probe.
#[derive(Debug)]
struct Probe {
    container: Arc<Container>,
    handler: Handler,
    period: Duration,
    timeout: Duration,
    failure_threshold: u32,
    success_threshold: u32,
    due: Instant,
    /// Failures since the last success, and successes since the last failure.
    failures: u32,
    successes: u32,
}

impl Probe {
    fn new(container: &Arc<Container>, name: &str) -> Option<Self> {
        let spec: &Value = container.field(name);
        if spec.is_null() {
            return None;
        }
        let timing = ["initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold"];
        has_only(name, spec, &[&Handler::FIELDS[..], &timing].concat());
        Some(Self {
            container: container.clone(),
            handler: Handler::new(spec),
            period: seconds(&spec["periodSeconds"], 10),
            timeout: seconds(&spec["timeoutSeconds"], 1),
            failure_threshold: number(&spec["failureThreshold"], 3),
            success_threshold: number(&spec["successThreshold"], 1),
            due: Instant::now() + seconds(&spec["initialDelaySeconds"], 0),
            failures: 0,
            successes: 0,
        })
    }

    fn probe_if_due(&mut self) {
        if Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + self.period;
        if self.handler.holds(&self.container, self.timeout) {
            (self.successes, self.failures) = (self.successes + 1, 0);
        } else {
            (self.successes, self.failures) = (0, self.failures + 1);
        }
    }

    fn has_succeeded(&self) -> bool {
        self.successes >= self.success_threshold
    }

    fn has_failed(&self) -> bool {
        self.failures >= self.failure_threshold
    }
}
