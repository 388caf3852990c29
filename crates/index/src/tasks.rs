//! Work that can run in parallel, returned as a value: the caller decides on which threads.

use std::sync::{Arc, OnceLock};

/// A piece of work that needs nothing of the others it comes with.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs all tasks, one after the other. Callers with more than one core can do better.
pub fn run_sequential(tasks: Vec<Task<'_>>) {
    tasks.into_iter().for_each(|task| task());
}

/// What a task will have made.
#[derive(Debug)]
pub(crate) struct Deferred<T>(Arc<OnceLock<T>>);

impl<T: Send + Sync + 'static> Deferred<T> {
    /// Promises what the work makes; returns the task that does it.
    pub(crate) fn of(work: impl FnOnce() -> T + Send + 'static) -> (Self, Task<'static>) {
        let made = Arc::new(OnceLock::new());
        let promise = Self(Arc::clone(&made));
        let task = move || {
            // Only this task sets it.
            let _ = made.set(work());
        };
        (promise, Box::new(task))
    }

    /// Returns what the task has made, or nothing when it was given up.
    ///
    /// # Errors
    ///
    /// The promise, while the task is not done.
    pub(crate) fn kept(self) -> Result<Option<T>, Self> {
        Arc::try_unwrap(self.0).map(OnceLock::into_inner).map_err(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_when_its_task_is_done_and_void_when_it_is_given_up() {
        let (promise, task) = Deferred::of(|| 21);
        let promise = promise.kept().unwrap_err();
        task();
        assert_eq!(promise.kept().unwrap(), Some(21));
        let (promise, task) = Deferred::of(|| 1);
        drop(task);
        assert_eq!(promise.kept().unwrap(), None);
    }
}
