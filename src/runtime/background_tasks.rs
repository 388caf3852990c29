//! A background thread for slow work: cluster queries and index maintenance, one task at a time.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::index::Task;

/// Pause before a failed task is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

type BackgroundTask = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A thread that runs tasks one after the other, each until it succeeds. After this value is dropped, the thread
/// finishes the queued tasks, and ends early if one fails.
pub(super) struct BackgroundTasks {
    sender: Sender<BackgroundTask>,
    /// Closes when the owner is dropped; the thread then gives up a task that fails.
    _alive: Sender<()>,
}

impl BackgroundTasks {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(super) fn start(thread: String) -> io::Result<Self> {
        let (sender, background_tasks) = unbounded();
        let (alive, gone) = unbounded();
        std::thread::Builder::new().name(thread).spawn(move || run(&background_tasks, &gone))?;
        Ok(Self { sender, _alive: alive })
    }

    /// Runs `task` until it succeeds.
    pub(super) fn run(&self, task: impl FnMut() -> Result<(), String> + Send + 'static) {
        // The thread lives as long as this value.
        let _ = self.sender.send(Box::new(task));
    }

    /// Runs a task that cannot fail, after all earlier tasks.
    pub(super) fn run_once(&self, task: Task<'static>) {
        let mut task = Some(task);
        self.run(move || {
            task.take().into_iter().for_each(|task| task());
            Ok(())
        });
    }
}

fn run(background_tasks: &Receiver<BackgroundTask>, gone: &Receiver<()>) {
    for mut task in background_tasks {
        while let Err(error) = task() {
            tracing::warn!(target: "dupgate::service", error, "background task failed, retrying in 1 s");
            if gone.recv_timeout(RETRY_DELAY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_runs_until_it_succeeds_and_the_next_one_waits() {
        let (sender, done) = unbounded();
        let background_tasks = BackgroundTasks::start("tasks".to_owned()).unwrap();
        let mut tries = 0;
        let first = sender.clone();
        background_tasks.run(move || {
            tries += 1;
            if tries < 2 { Err("not yet".to_owned()) } else { first.send(tries).map_err(|error| error.to_string()) }
        });
        let last = sender.clone();
        background_tasks.run(move || sender.send(9).map_err(|error| error.to_string()));
        background_tasks.run_once(Box::new(move || last.send(5).unwrap()));
        assert_eq!(done.iter().take(3).collect::<Vec<_>>(), [2, 9, 5]);
    }
}
