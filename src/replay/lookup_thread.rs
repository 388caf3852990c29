//! Looks up the next pages of a replay on a thread of its own, while the pages before them are judged.

use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender, unbounded};
use dupgate_core::replay::Rejudge;

use crate::error::{Fatal, Reason};
use crate::index::{LookedUp, Lookups, Task};
use crate::protocol::Request;
use crate::runtime::fatal::failure;

/// The thread, for the judges of one partition of the logs, by their numbers.
pub(super) struct LookupThread {
    lookups: Sender<(usize, Lookups)>,
    looked_up: Receiver<(usize, LookedUp)>,
    /// The judges whose lookups it has.
    judges: Vec<usize>,
}

impl LookupThread {
    /// Starts the thread of a partition.
    pub(super) fn start(partition: i32) -> Result<Self, Fatal> {
        let (lookups, begun) = unbounded::<(usize, Lookups)>();
        let (sender, looked_up) = unbounded();
        let run = move || {
            for (judge, lookups) in begun {
                // The receiver is dropped when the replay is over.
                if sender.send((judge, lookups.run())).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(format!("lookups-{partition}")).spawn(run).map_err(failure)?;
        Ok(Self { lookups, looked_up, judges: Vec::new() })
    }

    /// Prepares the judges for the next page, whose request comes first of those that `upcoming` returns. Passes
    /// maintenance tasks of their indexes to `hand_over`.
    pub(super) fn prepare<'r, I: Iterator<Item = &'r Request>>(
        &mut self,
        judges: &mut [Rejudge],
        upcoming: impl Fn() -> I,
        hand_over: &mut impl FnMut(Task<'static>),
    ) -> Result<(), Fatal> {
        let next = upcoming().next();
        for number in 0..judges.len() {
            self.wait_for_page(judges, number, next)?;
            let begun = judges.get_mut(number).and_then(|judge| judge.begin_lookups(upcoming(), hand_over));
            if let Some(lookups) = begun {
                self.lookups.send((number, lookups)).map_err(|_| ended())?;
                self.judges.push(number);
                self.wait_for_page(judges, number, next)?;
            }
        }
        Ok(())
    }

    /// Waits until a judge can judge this page.
    fn wait_for_page(&mut self, judges: &mut [Rejudge], number: usize, next: Option<&Request>) -> Result<(), Fatal> {
        let Some(page) = next.and_then(|request| request.body.page()) else { return Ok(()) };
        let waits = |judge: &Rejudge| judge.state().index().waits_for_lookups(page);
        while self.judges.contains(&number) && judges.get(number).is_some_and(waits) {
            let (of, looked_up) = self.looked_up.recv().map_err(|_| ended())?;
            // If a judge has begun lookups in other tables since, those before come first.
            if let Some(at) = self.judges.iter().position(|judge| *judge == of) {
                self.judges.remove(at);
            }
            if let Some(judge) = judges.get_mut(of) {
                judge.end_lookups(looked_up);
            }
        }
        Ok(())
    }
}

fn ended() -> Fatal {
    Reason::Bug.because(anyhow!("the thread that looks up pages has ended"))
}
