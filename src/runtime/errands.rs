//! What may take its time, done one after the other on a thread of its own: questions to the cluster, chores of the index.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::index::Task;

/// How long to wait before a question that failed is asked again.
const AGAIN: Duration = Duration::from_secs(1);

type Errand = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A thread that runs errands until each succeeds. Dropping it ends the thread after the errand under way.
pub(super) struct Errands {
    sender: Sender<Errand>,
    /// Closes when the owner is gone: an errand that fails is then given up.
    _alive: Sender<()>,
}

impl Errands {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(super) fn start(thread: String) -> io::Result<Self> {
        let (sender, errands) = unbounded();
        let (alive, gone) = unbounded();
        std::thread::Builder::new().name(thread).spawn(move || run(&errands, &gone))?;
        Ok(Self { sender, _alive: alive })
    }

    /// Runs `errand` until it succeeds.
    pub(super) fn run(&self, errand: impl FnMut() -> Result<(), String> + Send + 'static) {
        // The thread lives as long as we do.
        let _ = self.sender.send(Box::new(errand));
    }

    /// Does a task, behind all that was given before.
    pub(super) fn do_once(&self, task: Task<'static>) {
        let mut task = Some(task);
        self.run(move || {
            task.take().into_iter().for_each(|task| task());
            Ok(())
        });
    }
}

fn run(errands: &Receiver<Errand>, gone: &Receiver<()>) {
    for mut errand in errands {
        while let Err(error) = errand() {
            tracing::warn!(error, "asked again in a second");
            if gone.recv_timeout(AGAIN) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errand_runs_until_it_succeeds_and_the_next_one_waits() {
        let (sender, done) = unbounded();
        let errands = Errands::start("errands".to_owned()).unwrap();
        let mut tries = 0;
        let first = sender.clone();
        errands.run(move || {
            tries += 1;
            if tries < 2 { Err("not yet".to_owned()) } else { first.send(tries).map_err(|error| error.to_string()) }
        });
        let last = sender.clone();
        errands.run(move || sender.send(9).map_err(|error| error.to_string()));
        errands.do_once(Box::new(move || last.send(5).unwrap()));
        assert_eq!(done.iter().take(3).collect::<Vec<_>>(), [2, 9, 5]);
    }
}
