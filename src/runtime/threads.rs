//! Threads for slow work: one for tasks in the background, one after the other, and one for each core for many at once.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::index::Task;

/// Pause before a failed task is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

type BackgroundTask = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A thread that runs tasks one after the other, each until it succeeds. After this value is dropped, the thread
/// finishes the queued tasks, and ends early if one fails.
pub(crate) struct BackgroundTasks {
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
    pub(crate) fn start(thread: String) -> io::Result<Self> {
        let (sender, background_tasks) = unbounded();
        let (alive, gone) = unbounded();
        std::thread::Builder::new().name(thread).spawn(move || run(&background_tasks, &gone))?;
        Ok(Self { sender, _alive: alive })
    }

    /// Runs `task` until it succeeds.
    pub(crate) fn run(&self, task: impl FnMut() -> Result<(), String> + Send + 'static) {
        // The thread lives as long as this value.
        let _ = self.sender.send(Box::new(task));
    }

    /// Runs a task that cannot fail, after all earlier tasks.
    pub(crate) fn run_once(&self, task: Task<'static>) {
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

/// Runs all tasks, on at most one thread for each core, and returns when the last one is done.
///
/// # Panics
///
/// Panics if a task panics, after the other threads are done.
pub fn run_parallel(tasks: Vec<Task<'_>>) {
    let threads = available_parallelism().map_or(1, NonZeroUsize::get).min(tasks.len());
    let waiting = Mutex::new(tasks.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| std::iter::from_fn(next).for_each(|task| task()));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

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

    #[test]
    fn every_task_is_done_once() {
        let done: Vec<AtomicU32> = (0..50).map(|_| AtomicU32::new(0)).collect();
        let tasks = done.iter().map(|count| -> Task<'_> {
            Box::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
        });
        run_parallel(tasks.collect());
        assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        run_parallel(Vec::new());
    }
}
