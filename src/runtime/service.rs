//! `dupgate run`: builds everything in walking order, watches it, and ends it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, select, tick, unbounded};

use super::clock::{Clock, wall_time};
use super::instance_admin::InstanceAdmin;
use super::judge_driver::JudgeDriver;
use super::judge_handle::JudgeHandle;
use super::judge_settings::judge_settings;
use super::minute_report::MinuteReport;
use super::page_cache::PageCache;
use super::pair_inspector::{self, PairInspector};
use super::random::draw;
use super::record_processor::RecordProcessor;
use super::service_context::{self, REVOKE_GRACE, ServiceContext, failure};
use super::snapshot_store::{self, FsSnapshotStore, SnapshotStore};
use super::topics::{self, Topics};
use super::tree_budget::TreeBudget;
use super::worker_driver::{WorkerDriver, WorkerHandle};
use crate::config::settings::{Settings, Topics as InputTopics};
use crate::error::{Fatal, Reason};
use crate::fingerprint::Fingerprinter;
use crate::kafka::admin::Brokers;
use crate::panics;
use crate::protocol::{LogPartition, Stage};
use crate::record::Timestamp;
use crate::snapshot::Folder;
use crate::telemetry::admin::{self, Admin as AdminPage};
use crate::telemetry::catalog;
use crate::telemetry::http::{self, Endpoints};
use crate::telemetry::http_server::{Server, bind};
use crate::telemetry::metrics::Build;
use crate::telemetry::overview::{About, Overview};
use crate::telemetry::pairs;
use crate::telemetry::parsed_metrics::ParsedMetrics;
use crate::telemetry::{Health, Metrics};
use crate::worker::{Mode, Pacing, WorkerSettings};

/// Verdicts that a worker remembers: a minute or more at full speed. Half a kilobyte each, as those that it reads back.
const REMEMBERED_VERDICTS: usize = 100_000;

/// Offsets that a worker keeps verdicts for that it reads back.
const RECALLED_POSITIONS: i64 = 300_000;

/// How far a partition may be ahead of a slower one at the least: `window.allowed_lateness` may be nothing.
const MIN_LEAD: Duration = Duration::from_mins(1);

/// How long a partition of another worker that does not move is waited for: a worker that is killed is replaced after its
/// session time-out of 30 s and has to start.
const AWAY_AFTER: Duration = Duration::from_mins(1);

/// Most pages in one transaction.
const TRANSACTION_PAGES: usize = 20_000;

/// How a part of the service ended.
type Ended = (String, Result<(), Fatal>);

enum Handle {
    Worker(WorkerHandle),
    Judge(LogPartition, JudgeHandle),
}

impl Handle {
    fn stop(&self) {
        match self {
            Self::Worker(handle) => handle.stop(),
            Self::Judge(_, handle) => handle.stop(),
        }
    }
}

/// Runs the service until a signal or a failure ends it.
///
/// # Errors
///
/// Why it could not begin or go on.
pub fn run(settings: Settings) -> Result<(), Fatal> {
    run_watched(settings, Brokers::Cluster, |_| {})
}

/// Runs the service on these brokers and passes its metrics to `watch` before the first page is read.
///
/// # Errors
///
/// Why it could not begin or go on.
pub fn run_watched(settings: Settings, brokers: Brokers, watch: impl FnOnce(&Metrics)) -> Result<(), Fatal> {
    panics::end_the_process_on_panic();
    let signals = signals()?;
    let clock = Clock::start();
    let metrics = Metrics::new(&settings.metrics).map_err(failure)?;
    watch(&metrics);
    let health = Health::new(settings.kafka.max_poll_interval);
    // Before the parts have conditions of their own, readiness must not be the absence of any.
    let starting = health.check("started", "starting");
    let server = serve_http(&settings, &metrics, &health, clock)?;
    tracing::info!(listen = %server.address(), "metrics and health listening");

    // Bind first, so that a port conflict fails before any thread starts.
    let operators = settings.http.admin.as_ref().map(|admin| {
        bind(admin.listen).with_context(|| format!("cannot listen on {} (http.admin.listen)", admin.listen))
    });
    let operators = operators.transpose().map_err(|error| Reason::System.because(error))?;
    let reader = Fingerprinter::new(&settings.record, &settings.text, &settings.fingerprint, settings.log_partitions())
        .map_err(|error| Reason::Config.because(error))?;
    let Some(topics) = topics::wait_for(&settings, brokers, clock, &signals, &starting)? else { return Ok(()) };
    let service = Service::build(settings, brokers, reader, topics, clock, metrics, health)?;
    drop(starting);
    let operators = service.serve_operators(operators)?;
    if let Some(operators) = &operators {
        tracing::info!(listen = %operators.address(), "admin API listening");
    }
    let grace = service.plan.settings.processing.shutdown_grace;
    service.supervise(&signals, grace)
}

struct Service {
    plan: Arc<ServiceContext>,
    instance: String,
    reader: Fingerprinter,
    kept: PageCache,
    /// Of the parts that run, by name.
    handles: Vec<(String, Handle)>,
    running: usize,
    ends: Receiver<Ended>,
}

impl Service {
    fn build(
        settings: Settings,
        brokers: Brokers,
        reader: Fingerprinter,
        topics: Topics,
        clock: Clock,
        metrics: Metrics,
        health: Health,
    ) -> Result<Self, Fatal> {
        let settings = Arc::new(settings);
        let logs = settings.log_partitions().get();
        let scheme = reader.scheme().to_string();
        let instance = settings.input.instance_id.clone().unwrap_or_else(|| format!("{:016x}", draw()));
        metrics.config_info(
            &settings.hash,
            &scheme,
            mode_name(topics.outputs.routing.mode),
            &algorithms(&settings.rules.stages),
        );
        metrics.index_limits(settings.index.max_memory, settings.rules.windows.max(), settings.index.snapshot_interval);
        let (rdkafka, version) = (crate::kafka::client::library_version(), env!("CARGO_PKG_VERSION"));
        let topics_read = match &settings.input.topics {
            InputTopics::Names(names) => names.join(" "),
            InputTopics::Pattern(pattern) => pattern.clone(),
        };
        tracing::info!(
            version,
            librdkafka = rdkafka,
            brokers = settings.kafka.brokers.join(" "),
            group = settings.input.group,
            topics = topics_read,
            mode = mode_name(topics.outputs.routing.mode),
            worker = settings.roles.worker,
            judge = settings.roles.judge,
            scheme,
            config = settings.hash,
            instance,
            "dupgate starts"
        );
        let trees = TreeBudget::new(settings.processing.max_in_flight_bytes, settings.record.format);
        // Skip pair collection unless the admin API is enabled.
        let kept = PageCache::of(match brokers {
            Brokers::Cluster => 0,
            // It forgets pages within seconds.
            Brokers::InProcess => 2 * pairs::KEPT,
        });
        let pair_recorder = match settings.http.admin.as_ref().filter(|_| settings.roles.worker) {
            None => None,
            Some(admin) => Some(pair_inspector::start(PairInspector::open(
                &settings,
                reader.clone(),
                Arc::clone(&trees),
                admin.text,
                &kept,
            )?)?),
        };
        let plan = Arc::new(ServiceContext {
            pair_recorder,
            transactional_id: format!("{}.worker.{instance}", settings.input.group),
            scheme,
            cluster: service_context::cluster(&settings.kafka),
            settings,
            brokers,
            names: topics.logs,
            outputs: Arc::new(topics.outputs),
            clock,
            backlog: Arc::default(),
            trees,
            metrics,
            health,
        });

        let (ended, ends) = unbounded();
        let mut service = Self { plan, instance, reader, kept, handles: Vec::new(), running: 0, ends };
        if service.plan.settings.roles.judge {
            let folder = snapshot_store::open(&service.plan.settings.index)?;
            for log in served(&service.plan.settings.judge.served_partitions, logs) {
                service.spawn_judge(log, &folder, &ended)?;
            }
        }
        if service.plan.settings.roles.worker {
            service.spawn_worker(logs, &ended)?;
        }
        Ok(service)
    }

    /// Begins to answer operators, when they are to be answered.
    fn serve_operators(&self, bound: Option<TcpListener>) -> Result<Option<Server>, Fatal> {
        let settings = &self.plan.settings;
        let Some((bound, configured)) = bound.zip(settings.http.admin.as_ref()) else { return Ok(None) };
        let mut admin_service = InstanceAdmin {
            settings: Arc::clone(settings),
            brokers: self.plan.brokers,
            judges: Vec::new(),
            worker: None,
            pair_inspector: PairInspector::open(
                settings,
                self.reader.clone(),
                Arc::clone(&self.plan.trees),
                configured.text,
                &self.kept,
            )?,
        };
        for (_, handle) in &self.handles {
            match handle {
                Handle::Worker(worker) => admin_service.worker = Some(worker.clone()),
                Handle::Judge(log, judge) => admin_service.judges.push((*log, judge.clone())),
            }
        }
        let clock = self.plan.clock;
        let overview = Overview::new(
            self.about(),
            self.plan.metrics.clone(),
            self.plan.health.clone(),
            Arc::new(move || clock.now()),
            wall_time,
        );
        let page = AdminPage {
            token: configured.token.clone(),
            text: configured.text,
            max_distance: settings.rules.max_distance,
            pairs: self
                .plan
                .pair_recorder
                .as_ref()
                .map(|pair_recorder| pair_recorder.pairs.clone())
                .unwrap_or_default(),
            overview,
            admin_service: Arc::new(admin_service),
        };
        let server = admin::start(bound, page).map_err(failure)?;
        Ok(Some(server))
    }

    fn about(&self) -> About {
        let settings = &self.plan.settings;
        let roles = [("worker", settings.roles.worker), ("judge", settings.roles.judge)];
        About {
            build: build(),
            instance: self.instance.clone(),
            group: settings.input.group.clone(),
            roles: roles.into_iter().filter(|(_, has)| *has).map(|(role, _)| role).collect(),
            log_partitions: u32::try_from(settings.log_partitions().get()).unwrap_or(u32::MAX),
            started: wall_time().minus(self.plan.clock.now()),
        }
    }

    fn spawn_judge(&mut self, log: LogPartition, folder: &Arc<Folder>, ended: &Sender<Ended>) -> Result<(), Fatal> {
        let plan = Arc::clone(&self.plan);
        let settings = &plan.settings;
        let (folder, metrics) = (Arc::clone(folder), plan.metrics.clone());
        let snapshots: Arc<dyn SnapshotStore> =
            Arc::new(FsSnapshotStore::new(folder, log, &plan.scheme, plan.clock, metrics));
        let driver = JudgeDriver::new(Arc::clone(&plan), log, judge_settings(settings), Some(snapshots))?;
        self.start(format!("judge-{log}"), Handle::Judge(log, driver.control()), ended, move || driver.run())
    }

    fn spawn_worker(&mut self, logs: usize, ended: &Sender<Ended>) -> Result<(), Fatal> {
        let plan = Arc::clone(&self.plan);
        let settings = &plan.settings;
        let worker = WorkerSettings {
            logs,
            first_request: draw(),
            remembered_verdicts: REMEMBERED_VERDICTS,
            recalled_positions: RECALLED_POSITIONS,
            in_flight_bytes: settings.processing.max_in_flight_bytes,
            transaction_pages: TRANSACTION_PAGES,
            commit_interval: settings.output.commit_interval,
            revoke_grace: REVOKE_GRACE,
            shutdown_grace: settings.processing.shutdown_grace,
            pacing: Pacing {
                // The other half is for what is asked about and not judged yet.
                lead: (settings.rules.lateness / 2).max(MIN_LEAD),
                reach: settings.rules.lateness + 2 * settings.rules.windows.max(),
                idle_after: Duration::from_secs(5),
                away_after: AWAY_AFTER,
                interval: Duration::from_millis(50),
                look_interval: Duration::from_secs(2),
            },
            pause_above_dead_letter_ratio: f64::from(settings.processing.pause_above_dead_letter_percent) / 100.0,
            delivery: plan.settings.output.delivery,
        };
        plan.metrics.workers(plan.text_threads() as u64);
        plan.metrics.transaction_limit(TRANSACTION_PAGES as u64);
        let reader = self.reader.clone();
        let reading = RecordProcessor {
            reader,
            outputs: Arc::clone(&plan.outputs),
            clock: plan.clock,
            metrics: plan.metrics.clone(),
            trees: Arc::clone(&plan.trees),
            untimed: Timestamp::default(),
        };
        let driver = WorkerDriver::new(Arc::clone(&plan), reading, worker)?;
        self.start("worker".to_owned(), Handle::Worker(driver.control()), ended, move || driver.run())
    }

    fn start(
        &mut self,
        name: String,
        handle: Handle,
        ended: &Sender<Ended>,
        work: impl FnOnce() -> Result<(), Fatal> + Send + 'static,
    ) -> Result<(), Fatal> {
        let ended = ended.clone();
        self.handles.push((name.clone(), handle));
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let result = work();
                drop(ended.send((name, result)));
            })
            .map_err(failure)?;
        self.running += 1;
        Ok(())
    }

    /// Waits for a signal or an end. The first signal asks everybody to finish, the second ends the process at once.
    fn supervise(mut self, signals: &Receiver<i32>, grace: Duration) -> Result<(), Fatal> {
        let clock = self.plan.clock;
        let ticker = tick(Duration::from_millis(200));
        let until = |clock: Clock| clock.now() + grace + Duration::from_secs(10);
        let mut stop_by: Option<Duration> = None;
        let mut outcome = Ok(());
        let mut minute = MinuteReport::begin(clock.now());
        while self.running > 0 {
            select! {
                recv(signals) -> signal => {
                    let signal = signal.unwrap_or_default();
                    if stop_by.is_some() {
                        return Err(Reason::Unfinished.because(anyhow::anyhow!("a second signal ({signal}): stopped at once")));
                    }
                    tracing::info!(signal, ?grace, "stopping: what is complete is committed first");
                    stop_by = Some(until(clock));
                    self.stop_in_order();
                }
                recv(self.ends) -> end => {
                    let Ok((name, result)) = end else { break };
                    self.running -= 1;
                    self.handles.retain(|(known, _)| *known != name);
                    tracing::info!(name, "ended");
                    let early = stop_by.is_none();
                    if outcome.is_ok() {
                        outcome = match result {
                            Ok(()) if early => Err(Reason::Failure.because(anyhow::anyhow!("{name} ended by itself"))),
                            Ok(()) => Ok(()),
                            Err(fatal) => Err(fatal.in_part(&name)),
                        };
                    }
                    stop_by = stop_by.or_else(|| Some(until(clock)));
                    self.stop_in_order();
                }
                recv(ticker) -> _ => {
                    minute.look(clock.now(), &self.plan.metrics);
                    if stop_by.is_some_and(|until| clock.now() > until) {
                        let late = anyhow::anyhow!("not everything was finished within processing.shutdown_grace ({grace:?})");
                        return outcome.and(Err(Reason::Unfinished.because(late)));
                    }
                }
            }
        }
        if outcome.is_ok() {
            let figures = ParsedMetrics::parse(&self.plan.metrics.render());
            tracing::info!(
                documents = figures.count(catalog::DOCUMENTS.name),
                dead_letters = figures.count(catalog::DEAD_LETTERS.name),
                produced = figures.count(catalog::RECORDS_PRODUCED.name),
                "stopped: everything is committed"
            );
        }
        outcome
    }

    /// Asks the workers to stop, and the judges once the workers have ended: until then workers wait for verdicts.
    fn stop_in_order(&self) {
        let is_worker = |handle: &Handle| matches!(handle, Handle::Worker(_));
        let workers = self.handles.iter().any(|(_, handle)| is_worker(handle));
        for (_, handle) in self.handles.iter().filter(|(_, handle)| is_worker(handle) == workers) {
            handle.stop();
        }
    }
}

/// Hands over signals to stop as they come.
///
/// # Errors
///
/// When no handler can be set.
pub fn signals() -> Result<Receiver<i32>, Fatal> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
        .map_err(failure)?;
    let (sender, receiver) = unbounded();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    return;
                }
            }
        })
        .map_err(failure)?;
    Ok(receiver)
}

fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: option_env!("DUPGATE_REVISION").unwrap_or("unknown").to_owned(),
        librdkafka: crate::kafka::client::library_version(),
    }
}

fn serve_http(settings: &Settings, metrics: &Metrics, health: &Health, clock: Clock) -> Result<Server, Fatal> {
    let build = build();
    metrics.build_info(&build);
    let config =
        serde_json::json!({"hash": settings.hash, "scheme": settings.scheme().to_string(), "config": settings.shown});
    let endpoints = Endpoints {
        metrics: metrics.clone(),
        health: health.clone(),
        build,
        clock: Arc::new(move || clock.instant()),
        wall: wall_time,
        config: Arc::from(format!("{config:#}\n")),
    };
    http::start(settings.http.listen, endpoints)
        .with_context(|| format!("cannot listen on {} (http.listen)", settings.http.listen))
        .map_err(|error| Reason::System.because(error))
}

/// Serves the metrics of a replay at an address of its own.
///
/// # Errors
///
/// When the address is taken.
pub fn serve_replay(settings: &Settings, listen: SocketAddr, metrics: &Metrics) -> Result<Server, Fatal> {
    let mut settings = settings.clone();
    settings.http.listen = listen;
    serve_http(&settings, metrics, &Health::new(settings.kafka.max_poll_interval), Clock::start())
}

/// Names the stages that decide verdicts, strongest first: `exact+simhash`.
fn algorithms(stages: &[Stage]) -> String {
    let used = Stage::ALL.into_iter().filter(|stage| stages.contains(stage));
    used.map(Stage::name).collect::<Vec<_>>().join("+")
}

const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Route => "route",
        Mode::Tag => "tag",
        Mode::Observe => "observe",
    }
}

/// Returns the partitions to serve that exist.
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
