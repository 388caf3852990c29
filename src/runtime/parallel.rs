//! Runs tasks on all cores at once.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};

use crate::index::Task;

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
