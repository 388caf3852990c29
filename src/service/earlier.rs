//! The judges of the earlier scheme: they run as long as one of our logs is in its dual period.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::{judge_driver, served};
use crate::context::ServiceContext;
use crate::error::{Fatal, fatal};
use crate::fatal::failure;
use crate::judge::{JudgeHandle, judge_settings};
use crate::snapshot::Folder;

/// Interval of looks at the dual period.
const INTERVAL: Duration = Duration::from_millis(250);

/// The part that starts and stops the judges.
pub(super) struct EarlierJudges {
    context: Arc<ServiceContext>,
    folder: Arc<Folder>,
    running: Vec<(JudgeHandle, JoinHandle<Result<(), Fatal>>)>,
    stop: Receiver<()>,
}

impl EarlierJudges {
    /// Creates the part in the context of the earlier scheme, and what stops it.
    pub(super) fn new(context: &Arc<ServiceContext>, folder: &Arc<Folder>) -> (Self, Sender<()>) {
        let (sender, stop) = bounded(1);
        (Self { context: Arc::clone(context), folder: Arc::clone(folder), running: Vec::new(), stop }, sender)
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    ///
    /// Why one of the judges cannot be started or continue.
    pub(super) fn run(mut self) -> Result<(), Fatal> {
        while self.stop.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let is_dual = self.context.dual.is_any();
            if is_dual && self.running.is_empty() {
                self.start()?;
            } else if self.running.iter().any(|(_, thread)| thread.is_finished()) {
                self.end()?;
                return Err(fatal!(Failure, "a judge stopped unexpectedly"));
            } else if !is_dual && !self.running.is_empty() {
                self.end()?;
                tracing::info!(
                    target: "dupgate::service",
                    scheme = self.context.scheme,
                    "the dual period is over: the index of the scheme before is dropped, and `previous` has no effect any more"
                );
            }
        }
        self.end()
    }

    fn start(&mut self) -> Result<(), Fatal> {
        let context = &self.context;
        tracing::info!(
            target: "dupgate::service",
            scheme = context.scheme,
            "the dual period: the scheme before decides until the new index knows a window"
        );
        let settings = &context.settings;
        for log in served(&settings.judge.served_partitions, settings.log_partitions().get()) {
            let of_judge = judge_settings(settings, context.verdict_log_bytes);
            let driver = judge_driver(context, &self.folder, log, of_judge)?;
            let handle = driver.new_handle();
            let name = format!("judge-{}", context.shown(log));
            let thread = std::thread::Builder::new().name(name).spawn(move || driver.run()).map_err(failure)?;
            self.running.push((handle, thread));
        }
        Ok(())
    }

    /// Stops the judges and waits until they have.
    fn end(&mut self) -> Result<(), Fatal> {
        self.running.iter().for_each(|(handle, _)| handle.stop());
        self.running.drain(..).try_for_each(|(_, thread)| {
            // A panic ends the process.
            thread.join().unwrap_or(Ok(()))
        })
    }
}
