//! `index warm`: fills the logs of a new scheme beside the running one.
//!
//! The verdict log of the running scheme shows which pages go to the unique topic, and in which order they were judged
//! ([`WarmUp`](dupgate_core::replay::WarmUp)). Those pages are read from the input, fingerprinted by the new scheme, and
//! requested in the new fingerprint log as a worker does. An ordinary judge of the new scheme decides: in this process,
//! or in instances that already run.

mod draft;
mod fill;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use dupgate_core::replay::WarmCounts;
use serde::Serialize;

use crate::clock::Clock;
use crate::config::settings::Settings;
use crate::context::{self, ServiceContext};
use crate::error::{Fatal, fatal};
use crate::fatal::failure;
use crate::judge::JudgeDriver;
use crate::judge::{JudgeHandle, judge_settings};
use crate::kafka::admin::Brokers;
use crate::kafka::fingerprint_log::Appended;
use crate::kafka::offsets::Offsets;
use crate::kafka::verdict_log::FollowEvent;
use crate::processing::schema_registry;
use crate::processing::text_pool::RecordProcessor;
use crate::processing::text_pool::TreeBudget;
use crate::protocol::LogPartition;
use crate::record::Timestamp;
use crate::replay::{RangeBound, Rate};
use crate::snapshot::ProcessLock;
use crate::telemetry::{Health, Metrics};
use crate::topics;

pub use draft::{Draft, draft, fits};

/// Time-out for the judges to commit and leave their groups.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The judges of the new scheme during the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judging {
    /// This process.
    Here,
    /// Instances that already run.
    Elsewhere,
}

/// When a warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// As soon as everything that the running scheme had judged is judged by the new one.
    CaughtUp,
    /// When it is stopped.
    Stopped,
}

/// Options of a warm-up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// First event time. If absent, it is one window and the allowed lateness before the newest page.
    pub from: Option<RangeBound>,
    /// The rate limit of reading pages.
    pub rate: Option<Rate>,
    /// Lag of the running service, in records, above which the warm-up waits.
    pub yield_to_lag: Option<u64>,
    /// The judges.
    pub judging: Judging,
    /// When the warm-up ends.
    pub until: Until,
}

/// Phase of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads what the new scheme already knows.
    Starting,
    /// Reads what was judged before it began.
    CatchingUp,
    /// Waits for the running service, which lags by this many records.
    Yielding(u64),
    /// Has caught up, and follows the running scheme.
    Following,
    /// Everything that was judged is filled in, and nothing was judged for some seconds.
    Quiet,
}

/// Numbers of pages by their outcome in the new scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filled {
    /// Verdicts of the running scheme by their use.
    #[serde(flatten)]
    pub verdicts: WarmCounts,
    /// Pages requested from the judges.
    pub asked: u64,
    /// Pages without a request in the new scheme: undecodable or too large.
    pub refused: u64,
    /// Pages that the input no longer holds.
    pub gone: u64,
}

/// Progress of a running warm-up.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The phase.
    pub phase: Phase,
    /// The numbers of pages filled in.
    pub filled: &'a Filled,
    /// Number of offsets of the running scheme's log read, and the total when it began.
    pub read: (u64, u64),
    /// Verdicts of the running scheme that are not filled in yet.
    pub waiting: u64,
}

/// The result of a warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The numbers of pages filled in.
    #[serde(flatten)]
    pub filled: Filled,
    /// Whether everything judged before its start was filled in.
    pub caught_up: bool,
    /// Verdicts of the running scheme that were left when it ended.
    pub waiting: u64,
    /// Milliseconds that it took.
    pub elapsed_ms: u64,
}

/// Messages to the filling thread.
enum Message {
    /// From the verdict log of the running scheme.
    Running(LogPartition, FollowEvent),
    /// From the verdict log of the new scheme.
    New(LogPartition, FollowEvent),
    Appended(Appended),
}

/// Fills the logs of `new` with the pages that `running` delivers, until it is caught up or stopped.
///
/// # Errors
///
/// The configurations do not fit each other, the cluster refuses a request, or the input was recreated.
pub fn run(
    running: &Settings,
    mut new: Settings,
    options: &Options,
    signals: &Receiver<i32>,
    see: impl FnMut(&Report<'_>),
) -> Result<Outcome, Fatal> {
    let clock = Clock::start();
    let draft = draft(running, &new, options.from)?;
    let _lock = lock(&new, &draft.scheme)?;
    let metrics = Metrics::new(&new.metrics).map_err(failure)?;
    let health = Health::new(new.kafka.max_poll_interval);
    // The index is filled from the input, not from what an earlier scheme decides.
    new.previous = None;
    schema_registry::connect_waiting(&mut new, &metrics, Some(&health), clock)?;
    let fingerprinter = context::fingerprinter(&new)?;
    let starting = health.check("started", "starting");
    let Some(topics) = topics::wait_for(&new, Brokers::Cluster, clock, signals, &starting)? else {
        return Err(fatal!(Unfinished, "stopped before a broker answered"));
    };
    drop(starting);
    let trees = TreeBudget::new(new.processing.max_in_flight_bytes, new.record.format);
    let context = Arc::new(ServiceContext {
        pair_recorder: None,
        // No worker runs here.
        transactional_id: String::new(),
        scheme: draft.scheme.clone(),
        connection: context::connection(&new.kafka),
        settings: Arc::new(new),
        brokers: Brokers::Cluster,
        names: topics.logs,
        verdict_log_bytes: topics.verdict_log_bytes,
        outputs: Arc::new(topics.outputs),
        clock,
        in_flight: Arc::default(),
        trees: Arc::clone(&trees),
        metrics: metrics.clone(),
        health,
        first_log: 0,
        dual: Arc::default(),
        earlier: None,
    });
    let processor = RecordProcessor {
        earlier: None,
        fingerprinter,
        outputs: Arc::clone(&context.outputs),
        clock,
        metrics,
        trees,
        untimed: Timestamp::default(),
        max_future_skew: context.settings.rules.max_future_skew,
    };
    let offsets = Offsets::new(&context.connection.query(&context.settings.input.group), draft::QUERY_TIMEOUT)
        .map_err(failure)?;
    let mut pages = fill::Pages::start(
        &context.connection.follower(&context.settings.input.group),
        offsets,
        processor,
        context.text_threads(),
        context.settings.processing.max_in_flight_bytes,
        clock,
    )?;
    let judges = Judges::start(&context, options.judging)?;
    let outcome = fill::Fill::new(running, &context, options, draft, signals, &judges, see)
        .and_then(|mut fill| fill.run(&mut pages));
    // Without a clean stop, the next judge would have to wait until our session times out.
    judges.stop(clock);
    outcome
}

/// Takes the lock of a warm-up. A second one would request every page again, and its judges would be on standby.
fn lock(new: &Settings, scheme: &str) -> Result<ProcessLock, Fatal> {
    let path = new.index.path.join("warm").join(format!("{}.{scheme}.lock", new.logs.prefix));
    let way_on = "stop that process (SIGTERM) first, or leave the work to it";
    ProcessLock::take(path, &format!("the warm-up of scheme `{scheme}`"), way_on)
}

/// The judges of this process.
struct Judges {
    handles: Vec<JudgeHandle>,
    ends: Receiver<(LogPartition, Result<(), Fatal>)>,
}

impl Judges {
    /// Starts a judge for each partition of the logs. It writes no snapshots: the folder belongs to the service.
    fn start(context: &Arc<ServiceContext>, judging: Judging) -> Result<Self, Fatal> {
        let (ended, ends) = unbounded();
        let logs = if judging == Judging::Here { context.settings.log_partitions().get() } else { 0 };
        let mut handles = Vec::new();
        for log in LogPartition::first(logs) {
            let driver = JudgeDriver::new(
                Arc::clone(context),
                log,
                judge_settings(&context.settings, context.verdict_log_bytes),
                None,
            )?;
            handles.push(driver.new_handle());
            let ended = ended.clone();
            let thread = std::thread::Builder::new().name(format!("judge-{log}"));
            thread.spawn(move || drop(ended.send((log, driver.run())))).map_err(failure)?;
        }
        Ok(Self { handles, ends })
    }

    /// Checks whether a judge has ended, which is a failure.
    fn look(&self) -> Result<(), Fatal> {
        match self.ends.try_recv() {
            Ok((log, Err(fatal))) => Err(fatal.in_part(&format!("judge-{log}"))),
            Ok((log, Ok(()))) => Err(fatal!(Failure, "judge-{log} stopped unexpectedly")),
            Err(_) => Ok(()),
        }
    }

    /// Asks the judges to commit what is judged and to leave their groups, and waits until they have ended.
    fn stop(&self, clock: Clock) {
        self.handles.iter().for_each(JudgeHandle::stop);
        let until = clock.now() + CLOSE_TIMEOUT;
        for _ in &self.handles {
            match self.ends.recv_timeout(until.saturating_sub(clock.now())) {
                Ok((_, Ok(()))) => {}
                Ok((log, Err(error))) => {
                    tracing::warn!(target: "dupgate::replay", log = log.0, %error, "the judge ended with an error");
                }
                Err(_) => {
                    tracing::warn!(
                        target: "dupgate::replay",
                        "a judge has not ended in time: others have to wait until its session ends"
                    );
                }
            }
        }
    }
}
