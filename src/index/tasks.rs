//! Work that may be done at the same time, as a value: the caller has the cores.

/// A piece of work that needs nothing of the others it comes with.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Does all tasks, one after the other. Those who have more than one core bring something better.
pub fn in_turn(tasks: Vec<Task<'_>>) {
    tasks.into_iter().for_each(|task| task());
}
