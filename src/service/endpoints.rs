//! The HTTP endpoints of an instance: metrics and health, and the admin API with what it inspects and controls.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use dupgate_core::judge::Judge;
use serde_json::{Value, json};

use super::Service;
use super::pair_inspector::PairInspector;
use super::parts::Handle;
use crate::clock::{Clock, wall_time};
use crate::config::settings::Settings;
use crate::error::{Fatal, OrFatal, Reason};
use crate::fatal::failure;
use crate::fingerprint::{SimHash, id_hash};
use crate::index::Original;
use crate::judge::JudgeHandle;
use crate::kafka::admin::Brokers;
use crate::operators::requests::{Answered, Found, count_found, submit_to};
use crate::operators::state_summary::{StateSummary, original};
use crate::protocol::{ForgetTarget, LogPartition, RequestBody};
use crate::telemetry::admin::{Admin as AdminPage, AdminService, ApiError, Lookup};
use crate::telemetry::http::Endpoints;
use crate::telemetry::http_server::Server;
use crate::telemetry::metrics::Build;
use crate::telemetry::overview::{About, Overview};
use crate::telemetry::pairs::Pair;
use crate::telemetry::{Health, Metrics, admin, http};
use crate::worker::WorkerHandle;

/// How long to wait until all judges have forgotten what an operator named.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time-out for reading from the verdict log what was forgotten.
const COUNT_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of originals in one answer.
const MAX_FOUND: usize = 100;

/// Number of originals that a judge compares for an operator before it returns to its requests: some milliseconds.
const COMPARED_AT_ONCE: u64 = 100_000;

/// Maximum distance of the originals shown with an explained page, in bits.
const NEAR_ENOUGH: u8 = 8;

impl Service {
    /// Starts the admin API, if it is enabled.
    ///
    /// # Errors
    ///
    /// The server cannot be started.
    pub(super) fn serve_operators(&self, bound: Option<TcpListener>) -> Result<Option<Server>, Fatal> {
        let settings = &self.context.settings;
        let Some((bound, configured)) = bound.zip(settings.http.admin.as_ref()) else { return Ok(None) };
        let mut admin_service = InstanceAdmin {
            settings: Arc::clone(settings),
            brokers: self.context.brokers,
            judges: Vec::new(),
            worker: None,
            pair_inspector: PairInspector::open(
                settings,
                self.fingerprinter.clone(),
                Arc::clone(&self.context.trees),
                configured.text,
                &self.kept,
            )?,
        };
        for handle in self.parts.handles() {
            match handle {
                Handle::Worker(worker) => admin_service.worker = Some(worker.clone()),
                Handle::Judge(log, judge) => admin_service.judges.push((*log, judge.clone())),
                Handle::Earlier(_) => {}
            }
        }
        let clock = self.context.clock;
        let overview = Overview::new(
            self.about(),
            self.context.metrics.clone(),
            self.context.health.clone(),
            Arc::new(move || clock.now()),
            wall_time,
        );
        let page = AdminPage {
            token: configured.token.clone(),
            text: configured.text,
            max_distance: settings.rules.max_distance,
            pairs: self
                .context
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
        let settings = &self.context.settings;
        let roles = [("worker", settings.roles.worker), ("judge", settings.roles.judge)];
        About {
            build: build(),
            instance: self.instance.clone(),
            group: settings.input.group.clone(),
            roles: roles.into_iter().filter(|(_, has)| *has).map(|(role, _)| role).collect(),
            log_partitions: u32::try_from(settings.log_partitions().get()).unwrap_or(u32::MAX),
            started: wall_time().minus(self.context.clock.now()),
        }
    }
}

fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: option_env!("DUPGATE_REVISION").unwrap_or("unknown").to_owned(),
        librdkafka: crate::kafka::client::library_version(),
    }
}

/// Serves metrics and health.
///
/// # Errors
///
/// The address is in use.
pub(super) fn serve_http(
    settings: &Settings,
    metrics: &Metrics,
    health: &Health,
    clock: Clock,
) -> Result<Server, Fatal> {
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
        .or_fatal(Reason::System)
}

/// Serves the metrics of a replay at a separate address.
///
/// # Errors
///
/// The address is in use.
pub fn serve_replay(settings: &Settings, listen: SocketAddr, metrics: &Metrics) -> Result<Server, Fatal> {
    let mut settings = settings.clone();
    settings.http.listen = listen;
    serve_http(&settings, metrics, &Health::new(settings.kafka.max_poll_interval), Clock::start())
}

pub(crate) struct InstanceAdmin {
    pub(crate) settings: Arc<Settings>,
    pub(crate) brokers: Brokers,
    pub(crate) judges: Vec<(LogPartition, JudgeHandle)>,
    pub(crate) worker: Option<WorkerHandle>,
    pub(crate) pair_inspector: PairInspector,
}

impl InstanceAdmin {
    fn judges(&self) -> Result<&[(LogPartition, JudgeHandle)], ApiError> {
        if self.judges.is_empty() {
            return Err(ApiError::Unable("this instance is not a judge (roles): ask one that is".to_owned()));
        }
        Ok(&self.judges)
    }

    /// Asks every judge of this instance.
    fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(LogPartition, &Judge) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, ApiError> {
        let mut answers = Vec::new();
        for (log, judge) in self.judges()? {
            let (question, number) = (question.clone(), *log);
            let answer = judge.ask(move |judge| question(number, judge));
            answers.push(answer.ok_or_else(|| ApiError::Unable(format!("judge {log} does not answer")))?);
        }
        Ok(answers)
    }

    /// Finds the nearest originals. Each judge compares a part of its originals at a time, and judges in between.
    fn near(&self, code: SimHash, distance: u8) -> Result<Value, ApiError> {
        let mut found = Vec::new();
        for (log, judge) in self.judges()? {
            let mut next = Some(0);
            while let Some(from) = next {
                let answer = judge.ask(move |judge| near_from(judge, from, code, distance));
                let (near, rest) = answer.ok_or_else(|| ApiError::Unable(format!("judge {log} does not answer")))?;
                found.extend(near.into_iter().map(|(bits, original)| (Some(u32::from(bits)), original)));
                nearest(&mut found);
                next = rest;
            }
        }
        Ok(shown(&found))
    }

    fn found(
        &self,
        question: impl Fn(LogPartition, &Judge) -> Vec<(Option<u32>, Original)> + Clone + Send + 'static,
    ) -> Result<Value, ApiError> {
        let mut found: Vec<(Option<u32>, Original)> = self.ask(question)?.into_iter().flatten().collect();
        nearest(&mut found);
        Ok(shown(&found))
    }
}

/// Compares the next originals of a judge with a code. Returns the near ones, and where to continue if any are left.
fn near_from(judge: &Judge, from: u64, code: SimHash, distance: u8) -> (Vec<(u8, Original)>, Option<u64>) {
    let (index, watermarks) = (judge.state().index(), judge.state().watermarks());
    let held = index.positions();
    let to = from.max(held.start).saturating_add(COMPARED_AT_ONCE);
    let near = index.near_code_at(from..to, code, distance, &watermarks);
    (near, (to < held.end).then_some(to))
}

/// Keeps the nearest originals, nearest first.
fn nearest(found: &mut Vec<(Option<u32>, Original)>) {
    found.sort_by_key(|(distance, original)| (*distance, original.sequence));
    found.truncate(MAX_FOUND);
}

fn shown(found: &[(Option<u32>, Original)]) -> Value {
    found.iter().map(|(distance, found)| original(found, *distance)).collect()
}

impl AdminService for InstanceAdmin {
    fn pair(&self, pair: &Pair) -> Result<Value, ApiError> {
        self.pair_inspector.show(pair)
    }

    fn explain(&self, value: &[u8]) -> Result<Value, ApiError> {
        let (reading, mut explained) = self.pair_inspector.explain(value)?;
        let nearest = reading.fingerprints.simhash.map(|code| self.near(code, NEAR_ENOUGH)).transpose();
        if let Value::Object(explained) = &mut explained {
            // Instances without the judge role can still explain pages; they omit the nearest originals.
            explained.insert("nearest".to_owned(), nearest.ok().flatten().unwrap_or_default());
        }
        Ok(explained)
    }

    fn stats(&self) -> Result<Value, ApiError> {
        Ok(self.ask(|log, judge| StateSummary::by_judge(log, judge).json())?.into())
    }

    fn lookup(&self, what: &Lookup) -> Result<Value, ApiError> {
        let bare = |found: Vec<Original>| found.into_iter().map(|original| (None, original)).collect();
        match what.clone() {
            Lookup::Source(source) => self.found(move |_, judge| {
                let state = judge.state();
                bare(state.index().of_source(&source, &state.watermarks()))
            }),
            Lookup::Id(id) => self.found(move |_, judge| {
                let state = judge.state();
                bare(state.index().of_id(id_hash(&id), &state.watermarks()))
            }),
            Lookup::Code(code, distance) => {
                let checked = self.settings.fingerprint.simhash.check(code);
                checked.map_err(|wrong| ApiError::Wrong(format!("fp {wrong}")))?;
                self.near(code, distance.unwrap_or(self.settings.rules.max_distance))
            }
        }
    }

    fn forget(&self, targets: Vec<ForgetTarget>) -> Result<Value, ApiError> {
        let bodies: Vec<RequestBody> = targets.into_iter().map(RequestBody::Forget).collect();
        let answers = submit_to(&self.settings, self.brokers, &bodies, REQUEST_TIMEOUT);
        let mut answers = answers.map_err(|fatal| ApiError::Unable(fatal.to_string()))?;
        if let Err(error) = count_found(&self.settings, &bodies, &mut answers, Some(COUNT_TIMEOUT)) {
            tracing::warn!(target: "dupgate::service", %error, "failed to read what was forgotten");
        }
        let is_nothing = answers.iter().all(|answered| answered.found.as_ref().is_some_and(Found::is_empty));
        let mut results = Vec::new();
        for Answered { log, offset, asked, found, .. } in &answers {
            let RequestBody::Forget(target) = asked else { continue };
            let sources = found.as_ref().map(|found| &found.originals);
            let sources: Option<Vec<String>> =
                sources.map(|originals| originals.iter().map(|(source, _)| source.to_string()).collect());
            let originals = sources.as_ref().map_or_else(|| "not known".to_owned(), |sources| sources.join(" "));
            tracing::info!(
                target: "dupgate::service",
                log = log.0, offset = offset.0, %target, originals, "an operator requested to forget"
            );
            results.push(json!({"log_partition": log.0, "verdict_log_offset": offset.0, "originals": sources}));
        }
        if is_nothing {
            return Err(ApiError::Missing("no original there: nothing to forget".to_owned()));
        }
        Ok(json!({"forgotten": results}))
    }

    fn snapshot(&self) -> Result<Value, ApiError> {
        let judges = self.judges()?;
        judges.iter().for_each(|(_, judge)| judge.snapshot());
        Ok(json!({"asked": judges.iter().map(|(log, _)| log.0).collect::<Vec<_>>()}))
    }

    fn hold(&self, is_held: bool) -> Result<Value, ApiError> {
        let worker = self.worker.as_ref();
        let worker = worker.ok_or_else(|| ApiError::Unable("this instance reads no input (roles)".to_owned()))?;
        worker.hold(is_held);
        Ok(json!({"paused": is_held}))
    }
}
