//! Work that can run in parallel, returned as a value: the caller decides on which threads.

use std::sync::{Arc, OnceLock};

/// A piece of work that does not depend on the others it comes with.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs all tasks, one after the other. Callers with more than one core can do better.
pub fn run_sequential(tasks: Vec<Task<'_>>) {
    tasks.into_iter().for_each(|task| task());
}

/// The future result of a task.
#[derive(Debug)]
pub(crate) struct Deferred<T>(Arc<OnceLock<T>>);

impl<T: Send + Sync + 'static> Deferred<T> {
    /// Returns the future result of some work, and the task that does the work.
    pub(crate) fn of(work: impl FnOnce() -> T + Send + 'static) -> (Self, Task<'static>) {
        let made = Arc::new(OnceLock::new());
        let deferred = Self(Arc::clone(&made));
        let task = move || {
            // Only this task sets it.
            let _ = made.set(work());
        };
        (deferred, Box::new(task))
    }

    /// Returns the result of the task, or `None` if the task was dropped.
    ///
    /// # Errors
    ///
    /// The deferred value itself, while the task is not done.
    pub(crate) fn into_inner(self) -> Result<Option<T>, Self> {
        Arc::try_unwrap(self.0).map(OnceLock::into_inner).map_err(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferred_value_is_there_when_its_task_is_done_and_not_when_the_task_is_given_up() {
        let (deferred, task) = Deferred::of(|| 21);
        let deferred = deferred.into_inner().unwrap_err();
        task();
        assert_eq!(deferred.into_inner().unwrap(), Some(21));
        let (deferred, task) = Deferred::of(|| 1);
        drop(task);
        assert_eq!(deferred.into_inner().unwrap(), None);
    }
}
