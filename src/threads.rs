//! Threads: the loop of the drivers and their membership in a consumer group, and threads for slow work.
//!
//! A driver is the thread between a state machine and the cluster ([`crate::worker`], [`crate::judge`]). All its inputs
//! arrive through one channel, in order. In each turn it takes messages, up to its own limit, or notifies the machine of
//! the time if none arrives. Then it does its other work.
//!
//! Slow work is done elsewhere: [`BackgroundTasks`] one after the other, [`run_parallel`] many at once.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::clock::Clock;
use crate::error::Fatal;
use crate::fatal::failure;
use crate::index::Task;
use crate::kafka::group_consumer::{Command, ConsumerEvent, GroupConsumer, GroupConsumerSettings, Membership};
use crate::telemetry::labels::ErrorKind;
use crate::transaction::CallError;

/// How long a driver waits for a message before it notifies the machine of the time.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(10);

/// Time-out of one request to the cluster.
pub(crate) const QUERY_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of failures in a row that make a worker unready.
const LIMIT: usize = 2;

/// Pause before a failed task is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Whether a thread has more to do right away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    More,
    /// There is no work before the next message.
    Done,
}

/// The operations of a role in the loop of its thread. Any error ends the loop.
pub(crate) trait Driver {
    type Message;

    /// Returns whether the machine has stopped.
    fn is_stopped(&self) -> bool;

    /// How long to wait for a message while there is nothing else to do.
    fn wait(&self) -> Duration {
        TICK_INTERVAL
    }

    /// Returns whether a turn that began at `began` should end after `taken` messages.
    fn has_taken_enough(&self, taken: usize, began: Duration) -> bool;

    /// Performs the effects of the machine.
    fn perform_all(&mut self) -> Result<(), Fatal>;

    /// Hands one message to the machine.
    fn take(&mut self, message: Self::Message) -> Result<(), Fatal>;

    /// Notifies the machine of the time, after the messages of each turn.
    fn tick(&mut self) -> Result<(), Fatal>;

    /// Does the driver's other work of a turn. If it returns [`Work::More`], the next turn does not wait for a message.
    fn work(&mut self) -> Result<Work, Fatal>;
}

/// Runs the loop until the machine has stopped or all senders are gone.
///
/// # Errors
///
/// The first error of the driver.
pub(crate) fn drive<D: Driver>(driver: &mut D, messages: &Receiver<D::Message>, clock: Clock) -> Result<(), Fatal> {
    driver.perform_all()?;
    let mut work = Work::Done;
    while !driver.is_stopped() {
        let wait = if work == Work::More { Duration::ZERO } else { driver.wait() };
        match messages.recv_timeout(wait) {
            Ok(first) => take_many(driver, first, messages, clock)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        driver.tick()?;
        work = driver.work()?;
    }
    Ok(())
}

fn take_many<D: Driver>(
    driver: &mut D,
    first: D::Message,
    messages: &Receiver<D::Message>,
    clock: Clock,
) -> Result<(), Fatal> {
    let began = clock.now();
    let mut taken = 0;
    for message in std::iter::once(first).chain(messages.try_iter()) {
        driver.take(message)?;
        taken += 1;
        if driver.has_taken_enough(taken, began) {
            break;
        }
    }
    Ok(())
}

/// Returns a sink that sends its arguments to a driver.
pub(crate) fn sink<M: Send + 'static, T>(
    sender: &Sender<M>,
    wrap: impl Fn(T) -> M + Send + Sync + 'static,
) -> impl Fn(T) + Send + Sync + 'static {
    let sender = sender.clone();
    // The send fails once the driver has ended; it then needs no more messages.
    move |value| drop(sender.send(wrap(value)))
}

/// The group consumer of a driver. Memberships are numbered, so that the driver can drop events of an earlier one.
#[derive(Default)]
pub(crate) struct GroupMember {
    consumer: Option<GroupConsumer>,
    number: u64,
    /// The membership for sending offsets.
    membership: Membership,
}

impl GroupMember {
    /// Joins the group. `wrap` turns an event and the number of the membership into a message.
    ///
    /// # Errors
    ///
    /// The client or its thread cannot be created.
    pub(crate) fn join<M: Send + 'static>(
        &mut self,
        settings: GroupConsumerSettings,
        sender: &Sender<M>,
        wrap: impl Fn(u64, ConsumerEvent) -> M + Send + Sync + 'static,
    ) -> Result<(), Fatal> {
        self.begin_membership();
        let number = self.number;
        let consumer = GroupConsumer::join(settings, sink(sender, move |event| wrap(number, event)));
        self.consumer = Some(consumer.map_err(failure)?);
        Ok(())
    }

    /// Asks the consumer to leave the group and returns it, so that the caller can wait for it to leave. Its later
    /// events are stale.
    pub(crate) fn leave(&mut self) -> Option<GroupConsumer> {
        self.command(Command::Leave);
        self.begin_membership();
        self.consumer.take()
    }

    fn begin_membership(&mut self) {
        self.number += 1;
        self.membership = Membership::default();
    }

    /// Returns whether an event with this number belongs to the current membership.
    pub(crate) const fn is_current(&self, number: u64) -> bool {
        self.number == number
    }

    /// Hands a command to the consumer, if any.
    pub(crate) fn command(&self, command: Command) {
        if let Some(consumer) = &self.consumer {
            consumer.command(command);
        }
    }

    /// Sets the membership for sending offsets.
    pub(crate) fn renew(&mut self, membership: Membership) {
        self.membership = membership;
    }

    /// Returns the membership for sending offsets.
    pub(crate) fn membership(&self) -> Membership {
        self.membership.clone()
    }

    /// Returns the consumer, once it has joined the group.
    pub(crate) const fn consumer(&self) -> Option<&GroupConsumer> {
        self.consumer.as_ref()
    }
}

/// Waits until this consumer has left its group, but no later than `until`, and returns whether it has left. Drops the
/// messages that arrive meanwhile.
pub(crate) fn wait_until_left<M>(
    consumer: Option<&GroupConsumer>,
    messages: &Receiver<M>,
    clock: Clock,
    until: Duration,
) -> bool {
    let has_left = || consumer.is_none_or(GroupConsumer::is_over);
    while !has_left() && clock.now() < until {
        drop(messages.recv_timeout(TICK_INTERVAL));
    }
    has_left()
}

/// The failures since a transaction was last committed, or since there was last nothing to commit.
#[derive(Debug, Default)]
pub(crate) struct FailedTransactions {
    count: usize,
    last: String,
}

impl FailedTransactions {
    /// Notes that a transaction was aborted for this reason.
    pub(crate) fn failed(&mut self, why: String) {
        self.count += 1;
        self.last = why;
    }

    /// Notes that a transaction was committed.
    pub(crate) fn committed(&mut self) {
        *self = Self::default();
    }

    /// Notes how many pages the worker has yet to deliver. Without any, no commit would end the failures: after a
    /// partition was lost, its pages are another worker's.
    pub(crate) fn has_to_deliver(&mut self, pages: usize) {
        if pages == 0 {
            *self = Self::default();
        }
    }

    /// Returns why the worker does not deliver, after several failures in a row.
    pub(crate) fn why(&self) -> Option<String> {
        (self.count >= LIMIT).then(|| format!("the last {} transactions were aborted: {}", self.count, self.last))
    }
}

pub(crate) const fn kind_of(error: &CallError) -> ErrorKind {
    match error {
        CallError::Retriable(_) => ErrorKind::Retriable,
        CallError::Abortable(_) | CallError::Undeliverable { .. } | CallError::Unknown(_) => ErrorKind::Abortable,
        CallError::Fenced(_) => ErrorKind::Fenced,
        CallError::Fatal(_) => ErrorKind::Fatal,
    }
}

/// Returns what the state machine does next about a failed call, for log lines.
pub(crate) const fn next_step(error: &CallError) -> &'static str {
    match error {
        CallError::Retriable(_) => "retrying",
        CallError::Abortable(_) | CallError::Undeliverable { .. } => "aborting",
        CallError::Unknown(_) => "restarting the producer",
        CallError::Fenced(_) | CallError::Fatal(_) => "stopping",
    }
}

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
        std::thread::Builder::new().name(thread).spawn(move || run_tasks(&background_tasks, &gone))?;
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

fn run_tasks(background_tasks: &Receiver<BackgroundTask>, gone: &Receiver<()>) {
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
    use std::sync::atomic::{AtomicU32, Ordering};

    use crossbeam_channel::unbounded;

    use super::*;
    use crate::error::fatal;

    /// Records the calls of the loop.
    #[derive(Default)]
    struct Recorder {
        calls: Vec<String>,
        /// The other work of the next turns.
        work: Vec<Work>,
        is_stopped: bool,
        /// Sends a message that stops it, at the tick of the first turn without a message.
        stops: Option<Sender<&'static str>>,
    }

    impl Driver for Recorder {
        type Message = &'static str;

        fn is_stopped(&self) -> bool {
            self.is_stopped
        }

        fn wait(&self) -> Duration {
            Duration::from_hours(1)
        }

        fn has_taken_enough(&self, taken: usize, _: Duration) -> bool {
            taken >= 2
        }

        fn perform_all(&mut self) -> Result<(), Fatal> {
            self.calls.push("perform".to_owned());
            Ok(())
        }

        fn take(&mut self, message: &'static str) -> Result<(), Fatal> {
            self.calls.push(message.to_owned());
            self.is_stopped |= message == "stop";
            if message == "fail" {
                return Err(fatal!(Failure, "as requested"));
            }
            Ok(())
        }

        fn tick(&mut self) -> Result<(), Fatal> {
            let had_message = self.calls.last().is_some_and(|call| call != "work");
            self.calls.push("tick".to_owned());
            self.stops.take_if(|_| !had_message).into_iter().for_each(|sender| sender.send("stop").unwrap());
            Ok(())
        }

        fn work(&mut self) -> Result<Work, Fatal> {
            self.calls.push("work".to_owned());
            Ok(self.work.pop().unwrap_or(Work::Done))
        }
    }

    fn run(mut recorder: Recorder, messages: &[&'static str]) -> (Vec<String>, Result<(), Fatal>) {
        let (sender, receiver) = unbounded();
        messages.iter().for_each(|message| sender.send(*message).unwrap());
        drop(sender);
        let ended = drive(&mut recorder, &receiver, Clock::start());
        (recorder.calls, ended)
    }

    #[test]
    fn a_turn_takes_messages_up_to_its_bound_and_works_after_them() {
        let (calls, ended) = run(Recorder::default(), &["one", "two", "three"]);
        assert_eq!(calls, ["perform", "one", "two", "tick", "work", "three", "tick", "work"]);
        assert!(ended.is_ok(), "the loop ends with its senders");
    }

    #[test]
    fn a_stopped_machine_ends_the_loop_with_the_turn() {
        let (calls, ended) = run(Recorder::default(), &["stop", "two", "three"]);
        assert_eq!(calls, ["perform", "stop", "two", "tick", "work"]);
        assert!(ended.is_ok());
    }

    #[test]
    fn an_error_ends_the_loop_at_once() {
        let (calls, ended) = run(Recorder::default(), &["fail", "two"]);
        assert_eq!(calls, ["perform", "fail"]);
        assert!(ended.is_err());
    }

    #[test]
    fn a_turn_with_more_work_does_not_wait_for_a_message() {
        let (sender, receiver) = unbounded();
        sender.send("one").unwrap();
        // The loop would wait an hour for the second message, which is sent at its next tick.
        let mut recorder = Recorder { work: vec![Work::Done, Work::More], stops: Some(sender), ..Recorder::default() };
        drive(&mut recorder, &receiver, Clock::start()).unwrap();
        assert_eq!(recorder.calls, ["perform", "one", "tick", "work", "tick", "work", "stop", "tick", "work"]);
    }

    #[test]
    fn events_of_an_earlier_membership_are_stale() {
        let mut member = GroupMember::default();
        member.begin_membership();
        assert!(member.is_current(1));
        assert!(member.leave().is_none());
        assert!(!member.is_current(1), "events of a leaving member are ignored");
        assert!(member.is_current(2));
    }

    #[test]
    fn failures_are_a_fault_no_longer_than_pages_have_to_be_delivered() {
        let mut failed = FailedTransactions::default();
        failed.failed("out: gone".to_owned());
        failed.failed("out: gone".to_owned());
        failed.has_to_deliver(1);
        assert!(failed.why().is_some());
        failed.has_to_deliver(0);
        assert_eq!(failed.why(), None);
    }

    #[test]
    fn several_failures_in_a_row_are_a_fault_until_a_transaction_is_committed() {
        let mut failed = FailedTransactions::default();
        failed.failed("out: gone".to_owned());
        assert_eq!(failed.why(), None);
        failed.failed("dead: gone".to_owned());
        assert_eq!(failed.why().as_deref(), Some("the last 2 transactions were aborted: dead: gone"));
        failed.committed();
        assert_eq!(failed.why(), None);
    }

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
