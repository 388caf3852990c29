//! The HTTP endpoints of an instance: metrics and health, and the admin API.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;

use super::Service;
use super::parts::Handle;
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::runtime::clock::{Clock, wall_time};
use crate::runtime::fatal::failure;
use crate::service::instance_admin::InstanceAdmin;
use crate::service::pair_inspector::PairInspector;
use crate::telemetry::admin::{self, Admin as AdminPage};
use crate::telemetry::http::{self, Endpoints};
use crate::telemetry::http_server::Server;
use crate::telemetry::metrics::Build;
use crate::telemetry::overview::{About, Overview};
use crate::telemetry::{Health, Metrics};

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

/// Returns the build information.
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
        .map_err(|error| Reason::System.because(error))
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
