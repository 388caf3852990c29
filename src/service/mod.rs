//! `dupgate run`: builds all parts in processing order, supervises them, and stops them.
//!
//! `parts` runs the roles and ends them in order; `endpoints` serves HTTP.

mod earlier;
mod endpoints;
pub(crate) mod pair_inspector;
mod parts;
pub mod scheme_change;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use dupgate_core::judge::{ColdStart, JudgeSettings};
use dupgate_core::worker::{Pacing, WorkerSettings};

use self::earlier::EarlierJudges;
use self::endpoints::serve_http;
use self::parts::{Handle, Parts};
use crate::clock::{Clock, random_id};
use crate::config::settings::{Settings, Topics as InputTopics};
use crate::context::{self, REVOKE_GRACE, ServiceContext};
use crate::error::{Fatal, OrFatal, Reason};
use crate::fatal::failure;
use crate::fingerprint::Fingerprinter;
use crate::judge::snapshot_store::{self, FsSnapshotStore, SnapshotStore};
use crate::judge::{JudgeDriver, judge_settings};
use crate::kafka::admin::Brokers;
use crate::process;
use crate::processing::schema_registry;
use crate::processing::text_pool::{EarlierScheme, RecordProcessor, TreeBudget};
use crate::protocol::{LogPartition, Stage};
use crate::record::Timestamp;
use crate::service::pair_inspector::{PageCache, PairInspector};
use crate::snapshot::Folder;
use crate::telemetry::http_server::bind;
use crate::telemetry::{Health, Metrics, pairs};
use crate::topics::{self, Topics};
use crate::worker::WorkerDriver;

pub use self::endpoints::serve_replay;
pub use self::parts::signals;

/// Number of verdicts that a worker remembers: those of a minute or more at full speed. Each takes half a kilobyte.
const REMEMBERED_VERDICTS: usize = 100_000;

/// Number of offsets for which a worker keeps verdicts that it reads back.
const SCANNED_POSITIONS: i64 = 300_000;

/// Event time by which a partition may always be ahead of a slower one, because `window.allowed_lateness` may be zero.
const MIN_LEAD: Duration = Duration::from_mins(1);

/// How long to wait for a stalled partition of another worker: a killed worker is replaced once its session has timed
/// out (30 s) and its successor has started.
const AWAY_AFTER: Duration = Duration::from_mins(1);

/// Maximum number of pages in one transaction.
const TRANSACTION_PAGES: usize = 20_000;

/// Runs the service until a signal or a failure ends it.
///
/// # Errors
///
/// Why it could not start or continue.
pub fn run(settings: Settings) -> Result<(), Fatal> {
    run_watched(settings, Brokers::Cluster, |_| {})
}

/// Runs the service on these brokers and passes its metrics to `watch` before the first page is read.
///
/// # Errors
///
/// Why it could not start or continue.
pub fn run_watched(mut settings: Settings, brokers: Brokers, watch: impl FnOnce(&Metrics)) -> Result<(), Fatal> {
    process::end_the_process_on_panic();
    let signals = signals()?;
    let clock = Clock::start();
    let metrics = Metrics::new(&settings.metrics).map_err(failure)?;
    watch(&metrics);
    let health = Health::new(settings.kafka.max_poll_interval);
    // Without this check the instance would be ready before its parts add their checks.
    let starting = health.check("started", "starting");
    let server = serve_http(&settings, &metrics, &health, clock)?;
    schema_registry::connect_waiting(&mut settings, &metrics, Some(&health), clock)?;
    tracing::info!(target: "dupgate::service", listen = %server.address(), "metrics and health listening");

    // Bind first, so that a port conflict fails before any thread starts.
    let operators = settings.http.admin.as_ref().map(|admin| {
        bind(admin.listen).with_context(|| format!("cannot listen on {} (http.admin.listen)", admin.listen))
    });
    let operators = operators.transpose().or_fatal(Reason::System)?;
    let fingerprinter = context::fingerprinter(&settings)?;
    // Open the folder before waiting for the brokers, so that a wrong `index.path` fails at once.
    let remembered = settings.rules.windows.max() + settings.rules.lateness;
    let folder = settings.roles.judge.then(|| snapshot_store::open(&settings.index, remembered)).transpose()?;
    let Some(topics) = topics::wait_for(&settings, brokers, clock, &signals, &starting)? else { return Ok(()) };
    let cold_start = scheme_change::cold_start(&settings, brokers, folder.as_deref())?;
    let mut service = Service::build(settings, brokers, fingerprinter, topics, clock, metrics, health)?;
    service.start_parts(folder.as_ref(), cold_start)?;
    drop(starting);
    let operators = service.serve_operators(operators)?;
    if let Some(operators) = &operators {
        tracing::info!(target: "dupgate::service", listen = %operators.address(), "admin API listening");
    }
    let grace = service.context.settings.processing.shutdown_grace;
    let Service { context, parts, .. } = service;
    parts.supervise(&signals, grace, clock, &context.metrics)
}

struct Service {
    context: Arc<ServiceContext>,
    instance: String,
    fingerprinter: Fingerprinter,
    kept: PageCache,
    parts: Parts,
}

impl Service {
    fn build(
        settings: Settings,
        brokers: Brokers,
        fingerprinter: Fingerprinter,
        topics: Topics,
        clock: Clock,
        metrics: Metrics,
        health: Health,
    ) -> Result<Self, Fatal> {
        let settings = Arc::new(settings);
        let scheme = fingerprinter.scheme().to_string();
        let instance = settings.input.instance_id.clone().unwrap_or_else(|| format!("{:016x}", random_id()));
        metrics.config_info(
            &settings.input.group,
            &settings.hash,
            &scheme,
            topics.outputs.routing.mode.name(),
            &algorithms(&settings.rules.stages),
        );
        metrics.index_limits(settings.index.max_memory, settings.rules.windows.max(), settings.index.snapshot_interval);
        metrics.log_retention(settings.logs.retention);
        let (rdkafka, version) = (crate::kafka::client::library_version(), env!("CARGO_PKG_VERSION"));
        let topics_read = match &settings.input.topics {
            InputTopics::Names(names) => names.join(" "),
            InputTopics::Pattern(pattern) => pattern.clone(),
        };
        tracing::info!(
            target: "dupgate::service",
            version,
            librdkafka = rdkafka,
            brokers = settings.kafka.brokers.join(" "),
            group = settings.input.group,
            topics = topics_read,
            mode = topics.outputs.routing.mode.name(),
            worker = settings.roles.worker,
            judge = settings.roles.judge,
            scheme,
            config = settings.hash,
            instance,
            "dupgate starts"
        );
        let trees = TreeBudget::new(settings.processing.max_in_flight_bytes, settings.record.format);
        let kept = PageCache::of_pairs(match brokers {
            Brokers::Cluster => 0,
            // The in-process broker drops pages within seconds.
            Brokers::InProcess => pairs::KEPT,
        });
        // Pairs are collected only if the admin API is enabled.
        let pair_recorder = match settings.http.admin.as_ref().filter(|_| settings.roles.worker) {
            None => None,
            Some(admin) => Some(pair_inspector::start(PairInspector::open(
                &settings,
                fingerprinter.clone(),
                Arc::clone(&trees),
                admin.text,
                &kept,
            )?)?),
        };
        let mut context = ServiceContext {
            pair_recorder,
            transactional_id: format!("{}.worker.{instance}", settings.input.group),
            scheme,
            connection: context::connection(&settings.kafka),
            settings,
            brokers,
            names: topics.logs,
            verdict_log_bytes: topics.verdict_log_bytes,
            outputs: Arc::new(topics.outputs),
            clock,
            in_flight: Arc::default(),
            trees,
            metrics,
            health,
            first_log: 0,
            dual: Arc::default(),
            earlier: None,
        };
        let previous = context.settings.previous.clone();
        if let Some((previous, (names, verdict_log_bytes))) = previous.zip(topics.earlier) {
            context.earlier = Some(Arc::new(context.of_earlier(*previous, names, verdict_log_bytes)?));
        }
        let context = Arc::new(context);

        Ok(Self { context, instance, fingerprinter, kept, parts: Parts::new() })
    }

    /// Starts the judges, which keep their snapshots in this folder, and the worker.
    fn start_parts(&mut self, folder: Option<&Arc<Folder>>, cold_start: ColdStart) -> Result<(), Fatal> {
        let logs = self.context.settings.log_partitions().get();
        if let Some(folder) = folder {
            for log in served(&self.context.settings.judge.served_partitions, logs) {
                self.spawn_judge(log, folder, cold_start)?;
            }
            self.spawn_earlier_judges(folder)?;
        }
        if self.context.settings.roles.worker {
            self.spawn_worker(logs)?;
        }
        Ok(())
    }

    fn spawn_judge(&mut self, log: LogPartition, folder: &Arc<Folder>, cold_start: ColdStart) -> Result<(), Fatal> {
        let context = Arc::clone(&self.context);
        let settings = JudgeSettings { cold_start, ..judge_settings(&context.settings, context.verdict_log_bytes) };
        let driver = judge_driver(&context, folder, log, settings)?;
        self.parts.start(format!("judge-{log}"), Handle::Judge(log, driver.new_handle()), move || driver.run())
    }

    /// Starts what runs the judges of the earlier scheme in the dual period.
    fn spawn_earlier_judges(&mut self, folder: &Arc<Folder>) -> Result<(), Fatal> {
        let Some(earlier) = &self.context.earlier else { return Ok(()) };
        let (judges, stop) = EarlierJudges::new(earlier, folder);
        self.parts.start("earlier".to_owned(), Handle::Earlier(stop), move || judges.run())
    }

    fn spawn_worker(&mut self, logs: usize) -> Result<(), Fatal> {
        let context = Arc::clone(&self.context);
        let settings = &context.settings;
        let worker = WorkerSettings {
            logs,
            earlier_logs: context.all_logs() - logs,
            first_request: random_id(),
            remembered_verdicts: REMEMBERED_VERDICTS,
            scanned_positions: SCANNED_POSITIONS,
            in_flight_bytes: settings.processing.max_in_flight_bytes,
            transaction_pages: TRANSACTION_PAGES,
            transaction_timeout: settings.kafka.transaction_timeout,
            commit_interval: settings.output.commit_interval,
            revoke_grace: REVOKE_GRACE,
            shutdown_grace: settings.processing.shutdown_grace,
            pacing: Pacing {
                // The other half of the lateness is for pages that are requested and have no verdict yet.
                lead: (settings.rules.lateness / 2).max(MIN_LEAD),
                reach: settings.rules.lateness + 2 * settings.rules.windows.max(),
                idle_after: Duration::from_secs(5),
                away_after: AWAY_AFTER,
                interval: Duration::from_millis(50),
                look_interval: Duration::from_secs(2),
            },
            pause_above_dead_letters: settings.processing.pause_above_dead_letters,
            delivery: context.settings.output.delivery,
        };
        context.metrics.workers(context.text_threads() as u64);
        context.metrics.transaction_limit(TRANSACTION_PAGES as u64);
        let fingerprinter = self.fingerprinter.clone();
        let earlier = settings.previous.as_ref().map(|previous| -> Result<_, Fatal> {
            let event_time = previous.record.event_time;
            Ok(EarlierScheme { fingerprinter: context::fingerprinter(previous)?, event_time, first_log: logs })
        });
        let processor = RecordProcessor {
            fingerprinter,
            earlier: earlier.transpose()?,
            outputs: Arc::clone(&context.outputs),
            clock: context.clock,
            metrics: context.metrics.clone(),
            trees: Arc::clone(&context.trees),
            untimed: Timestamp::default(),
            max_future_skew: context.settings.rules.max_future_skew,
        };
        let driver = WorkerDriver::new(Arc::clone(&context), processor, worker)?;
        self.parts.start("worker".to_owned(), Handle::Worker(driver.new_handle()), move || driver.run())
    }
}

/// Creates a judge that keeps its snapshots in this folder.
fn judge_driver(
    context: &Arc<ServiceContext>,
    folder: &Arc<Folder>,
    log: LogPartition,
    settings: JudgeSettings,
) -> Result<JudgeDriver, Fatal> {
    let (folder, metrics) = (Arc::clone(folder), context.metrics.clone());
    let snapshots: Arc<dyn SnapshotStore> =
        Arc::new(FsSnapshotStore::new(folder, log, &context.scheme, context.clock, metrics));
    JudgeDriver::new(Arc::clone(context), log, settings, Some(snapshots))
}

/// Names the stages that decide verdicts, strongest first: `exact+simhash`.
fn algorithms(stages: &[Stage]) -> String {
    let used = Stage::ALL.into_iter().filter(|stage| stages.contains(stage));
    used.map(Stage::name).collect::<Vec<_>>().join("+")
}

/// Returns those of the configured log partitions that exist.
fn served(serve: &[u32], logs: usize) -> BTreeSet<LogPartition> {
    LogPartition::first(logs).filter(|log| serve.contains(&log.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_in_use_are_named_strongest_first() {
        assert_eq!(algorithms(&Stage::ALL), "exact+simhash+minhash");
        assert_eq!(algorithms(&[Stage::MinHash, Stage::Exact]), "exact+minhash");
    }
}
