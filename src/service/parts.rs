//! The running parts of a service: their threads, their handles, and the order in which they end.
//!
//! Logs a summary line every minute.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select, tick, unbounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::clock::Clock;
use crate::error::{Fatal, Reason, fatal};
use crate::fatal::failure;
use crate::judge::JudgeHandle;
use crate::protocol::LogPartition;
use crate::telemetry::labels::{LabelValue, VerdictLabel};
use crate::telemetry::{Metrics, catalog};
use crate::worker::WorkerHandle;

/// How a part of the service ended.
type Ended = (String, Result<(), Fatal>);

pub(super) enum Handle {
    Worker(WorkerHandle),
    Judge(LogPartition, JudgeHandle),
    /// The judges of the earlier scheme.
    Earlier(Sender<()>),
}

impl Handle {
    fn stop(&self) {
        match self {
            Self::Worker(handle) => handle.stop(),
            Self::Judge(_, handle) => handle.stop(),
            // A part that has ended has stopped already.
            Self::Earlier(stop) => drop(stop.send(())),
        }
    }
}

pub(super) struct Parts {
    /// The handle of each running part, with the part's name.
    handles: Vec<(String, Handle)>,
    running: usize,
    ended: Sender<Ended>,
    ends: Receiver<Ended>,
}

impl Parts {
    /// Creates the set, without parts.
    pub(super) fn new() -> Self {
        let (ended, ends) = unbounded();
        Self { handles: Vec::new(), running: 0, ended, ends }
    }

    /// Returns the handles of the running parts.
    pub(super) fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.handles.iter().map(|(_, handle)| handle)
    }

    /// Starts a part on a separate thread.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(super) fn start(
        &mut self,
        name: String,
        handle: Handle,
        work: impl FnOnce() -> Result<(), Fatal> + Send + 'static,
    ) -> Result<(), Fatal> {
        let ended = self.ended.clone();
        self.handles.push((name.clone(), handle));
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let result = work();
                drop(ended.send((name, result)));
            })
            .map_err(failure)?;
        self.running += 1;
        Ok(())
    }

    /// Waits until all parts have ended. The first signal, or the end of any part, asks the others to finish; a second
    /// signal ends the process at once.
    ///
    /// # Errors
    ///
    /// A part failed or ended unasked, the parts did not finish in time, or a second signal arrived.
    pub(super) fn supervise(
        mut self,
        signals: &Receiver<i32>,
        grace: Duration,
        clock: Clock,
        metrics: &Metrics,
    ) -> Result<(), Fatal> {
        let ticker = tick(Duration::from_millis(200));
        let until = |clock: Clock| clock.now() + grace + Duration::from_secs(10);
        let mut stop_by: Option<Duration> = None;
        let mut outcome = Ok(());
        let mut minute = MinuteReport::begin(clock.now());
        while self.running > 0 {
            select! {
                recv(signals) -> signal => {
                    let signal = signal.unwrap_or_default();
                    if stop_by.is_some() {
                        return Err(fatal!(Unfinished, "a second signal ({signal}): stopped at once"));
                    }
                    tracing::info!(
                        target: "dupgate::service",
                        signal, ?grace, "stopping: complete pages are committed first"
                    );
                    stop_by = Some(until(clock));
                    self.stop_in_order();
                }
                recv(self.ends) -> end => {
                    let Ok((name, result)) = end else { break };
                    self.running -= 1;
                    self.handles.retain(|(known, _)| *known != name);
                    tracing::info!(target: "dupgate::service", name, "component stopped");
                    let early = stop_by.is_none();
                    if outcome.is_ok() {
                        outcome = match result {
                            Ok(()) if early => Err(fatal!(Failure, "{name} stopped unexpectedly")),
                            Ok(()) => Ok(()),
                            Err(fatal) => Err(fatal.in_part(&name)),
                        };
                    }
                    stop_by = stop_by.or_else(|| Some(until(clock)));
                    self.stop_in_order();
                }
                recv(ticker) -> _ => {
                    minute.look(clock.now(), metrics);
                    if stop_by.is_some_and(|until| clock.now() > until) {
                        let late = anyhow::anyhow!("not everything was finished within processing.shutdown_grace ({grace:?})");
                        return outcome.and(Err(Reason::Unfinished.because(late)));
                    }
                }
            }
        }
        if outcome.is_ok() {
            let totals = metrics.values();
            tracing::info!(
                target: "dupgate::service",
                documents = totals.count(&catalog::DOCUMENTS),
                dead_letters = totals.count(&catalog::DEAD_LETTERS),
                produced = totals.count(&catalog::RECORDS_PRODUCED),
                "stopped: everything is committed"
            );
        }
        outcome
    }

    /// Asks the workers to stop, and the judges once the workers have ended: until then workers wait for verdicts.
    fn stop_in_order(&self) {
        let is_worker = |handle: &Handle| matches!(handle, Handle::Worker(_));
        let workers = self.handles.iter().any(|(_, handle)| is_worker(handle));
        for (_, handle) in self.handles.iter().filter(|(_, handle)| is_worker(handle) == workers) {
            handle.stop();
        }
    }
}

/// Returns a channel of stop signals: SIGTERM, SIGINT, and SIGHUP unless the parent process ignores it, as nohup does.
///
/// # Errors
///
/// No handler can be set.
pub fn signals() -> Result<Receiver<i32>, Fatal> {
    let mut wanted = vec![SIGTERM, SIGINT];
    if !is_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    let mut signals = signal_hook::iterator::Signals::new(wanted).map_err(failure)?;
    let (sender, receiver) = unbounded();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    return;
                }
            }
        })
        .map_err(failure)?;
    Ok(receiver)
}

/// Returns whether the process was started with this signal ignored. Only Linux shows this; elsewhere the signal counts
/// as not ignored.
fn is_ignored(signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|bits| bits & 1 == 1)
}

/// Interval between two lines.
const INTERVAL: Duration = Duration::from_mins(1);

/// The counts at the previous line.
pub(crate) struct MinuteReport {
    at: Duration,
    pages: u64,
    duplicates: u64,
    dead_letters: u64,
}

impl MinuteReport {
    /// Starts counting.
    pub(crate) const fn begin(now: Duration) -> Self {
        Self { at: now, pages: 0, duplicates: 0, dead_letters: 0 }
    }

    /// Logs the line if it is due.
    pub(crate) fn look(&mut self, now: Duration, metrics: &Metrics) {
        let passed = now.saturating_sub(self.at);
        if passed < INTERVAL {
            return;
        }
        let metrics = metrics.values();
        let (pages, dead_letters) = (metrics.count(&catalog::DOCUMENTS), metrics.count(&catalog::DEAD_LETTERS));
        let duplicates: u64 =
            VerdictLabel::duplicates().map(|verdict| metrics.count_of(&catalog::DOCUMENTS, &[verdict.pair()])).sum();
        let new_pages = pages.saturating_sub(self.pages);
        tracing::info!(
            target: "dupgate::service",
            pages = new_pages,
            pages_per_second = new_pages * 1000 / u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1),
            duplicates = duplicates.saturating_sub(self.duplicates),
            dead_letters = dead_letters.saturating_sub(self.dead_letters),
            lag = metrics.count(&catalog::CONSUMER_LAG),
            originals = metrics.count(&catalog::INDEX_ENTRIES),
            "the last minute"
        );
        *self = Self { at: now, pages, duplicates, dead_letters };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{self, Level};
    use crate::telemetry::logging::captured;

    #[test]
    fn one_line_a_minute_sums_up_the_work() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let mut minute = MinuteReport::begin(Duration::ZERO);
        let mut at = |seconds, metrics: &Metrics| {
            captured::at(Level::Info, || minute.look(Duration::from_secs(seconds), metrics))
        };
        (0..120).for_each(|_| metrics.document(VerdictLabel::Near));
        assert_eq!(at(59, &metrics), "");
        let line = at(60, &metrics);
        assert!(line.contains("\"pages\":120"), "{line}");
        assert!(line.contains("\"duplicates\":120") && line.contains("\"pages_per_second\":2"), "{line}");
        metrics.document(VerdictLabel::Unique);
        let line = at(120, &metrics);
        assert!(line.contains("\"pages\":1,") && line.contains("\"duplicates\":0"), "{line}");
    }
}
