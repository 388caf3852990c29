//! The listener for metrics and probes: `/metrics`, `/livez`, `/readyz`, `/healthz`, `/status`, `/config`, `/version`.
//! It is read-only, and no document ever passes through it.
//!
//! `/status` summarises a running instance on one page, also for `dupgate status`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dupgate_core::worker::Mode;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use super::catalog::{self, Spec};
use super::health::Health;
use super::http_server::{Server, bind, guard_network};
use super::labels::{Component, ErrorKind, LabelValue, Pause, VerdictLabel};
use super::metrics::{Build, MetricValues, Metrics, whole};
use crate::record::Timestamp;

/// How often samples are moved into their buckets, whether or not metrics are scraped.
const UPKEEP: Duration = Duration::from_secs(5);

/// Every path with a description.
const PATHS: [(&str, &str); 8] = [
    ("/", "this list"),
    ("/metrics", "metrics as Prometheus text, compressed by gzip if the client accepts it"),
    ("/livez", "200 while every loop makes progress, else 503 with the reason"),
    ("/readyz", "200 when this instance is ready, else 503 with the reasons; ?verbose lists every check"),
    ("/healthz", "the same as /livez"),
    ("/status", "one page about this instance as JSON: readiness, verdicts, lag, index, errors"),
    ("/config", "the settings in effect as JSON, secrets left out, with their hash"),
    ("/version", "version of the program and of its client library as JSON"),
];

/// The monotonic clock of the listener, which reads no other.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Data of the listener.
#[derive(Clone)]
pub struct Endpoints {
    /// For `/metrics`.
    pub metrics: Metrics,
    /// For `/livez` and `/readyz`.
    pub health: Health,
    /// For `/version`.
    pub build: Build,
    /// For `/livez`.
    pub clock: Clock,
    /// For `/status`: the wall clock.
    pub wall: fn() -> Timestamp,
    /// Body of `/config`. Must not contain secrets.
    pub config: Arc<str>,
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").field("health", &self.health).field("build", &self.build).finish_non_exhaustive()
    }
}

/// Binds the address (port 0 takes any free one), starts answering, and runs the upkeep of the metrics.
///
/// # Errors
///
/// The address cannot be bound, or no thread can be started.
pub fn start(listen: SocketAddr, endpoints: Endpoints) -> io::Result<Server> {
    let metrics = endpoints.metrics.clone();
    start_with(listen, endpoints, UPKEEP, move || metrics.upkeep())
}

fn start_with(
    listen: SocketAddr,
    endpoints: Endpoints,
    every: Duration,
    upkeep: impl Fn() + Send + 'static,
) -> io::Result<Server> {
    Server::start("http", bind(listen)?, router(endpoints), async move {
        let mut pace = tokio::time::interval(every);
        loop {
            pace.tick().await;
            upkeep();
        }
    })
}

fn router(endpoints: Endpoints) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz))
        .route("/status", get(status_page).layer(from_fn(guard_network)))
        .route("/config", get(config).layer(from_fn(guard_network)))
        .route("/version", get(version))
        .with_state(endpoints)
}

async fn list() -> String {
    PATHS.iter().fold(String::new(), |mut text, (path, what)| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{path:<10} {what}");
        text
    })
}

async fn metrics(State(endpoints): State<Endpoints>, request_headers: HeaderMap) -> Response {
    let head = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), (header::VARY, "accept-encoding")];
    let text = endpoints.metrics.render();
    match accepts_gzip(&request_headers).then(|| gzip(text.as_bytes())) {
        Some(Ok(packed)) => (head, [(header::CONTENT_ENCODING, "gzip")], packed).into_response(),
        // Writing to memory cannot fail; the plain text would be valid, too.
        Some(Err(_)) | None => (head, text).into_response(),
    }
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes)?;
    packed.finish()
}

/// Returns whether an answer may be compressed: `Accept-Encoding` names gzip or `*`, without `q=0`.
fn accepts_gzip(request_headers: &HeaderMap) -> bool {
    let lines = request_headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|line| line.to_str().ok());
    let mut accepted = None;
    for coding in lines.flat_map(|line| line.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight =
            parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse::<f32>().ok());
        let is_wanted = weight.is_some_and(|weight| weight > 0.0);
        // A name takes precedence over the asterisk.
        if name.eq_ignore_ascii_case("gzip") {
            return is_wanted;
        }
        if name == "*" {
            accepted = Some(is_wanted);
        }
    }
    accepted.unwrap_or(false)
}

async fn livez(State(endpoints): State<Endpoints>) -> Response {
    match endpoints.health.live((endpoints.clock)()) {
        Ok(()) => "alive\n".into_response(),
        Err(stuck) => (StatusCode::SERVICE_UNAVAILABLE, stuck.join("\n") + "\n").into_response(),
    }
}

async fn readyz(State(endpoints): State<Endpoints>, RawQuery(query): RawQuery) -> Response {
    let is_verbose = query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let checks = endpoints.health.readiness();
    let is_ready = checks.iter().all(|(_, state)| state.is_ok());
    let mut text = String::new();
    for (name, state) in &checks {
        // Writing to a `String` cannot fail.
        let _ = match state {
            Ok(()) if is_verbose => writeln!(text, "[+] {name}: ok"),
            Ok(()) => Ok(()),
            Err(why) if is_verbose => writeln!(text, "[-] {name}: {why}"),
            Err(why) => writeln!(text, "{name}: {why}"),
        };
    }
    if is_ready {
        text.push_str("ready\n");
        text.into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    }
}

async fn status_page(State(endpoints): State<Endpoints>) -> Response {
    let Endpoints { metrics, health, build, wall, config, .. } = &endpoints;
    let body = status(metrics, &health.readiness(), build, config, wall());
    ([(header::CONTENT_TYPE, "application/json")], format!("{body:#}\n")).into_response()
}

async fn config(State(endpoints): State<Endpoints>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], endpoints.config.to_string()).into_response()
}

async fn version(State(endpoints): State<Endpoints>) -> Response {
    let Build { version, revision, librdkafka } = &endpoints.build;
    let body = serde_json::json!({"version": version, "revision": revision, "librdkafka": librdkafka});
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Summarises the metrics and the checks. The input and the group, in observe mode the group that is used there, come
/// from `config`, the body of `/config`. Times of events that have not occurred are null.
#[must_use]
pub fn status(
    metrics: &Metrics,
    checks: &[(String, Result<(), String>)],
    build: &Build,
    config: &str,
    now: Timestamp,
) -> Value {
    let mut page = summary(&metrics.values(), &metrics.dead_letter_examples(), checks, build, now);
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    let is_observed = config.pointer("/config/mode").and_then(Value::as_str) == Some("observe");
    if let Some(input) = config.pointer("/config/input").and_then(Value::as_object) {
        let named = ["group", "instance_id", "topics"].into_iter();
        page.extend(named.filter_map(|key| Some((key.to_owned(), input.get(key)?.clone()))));
        if let Some(group) = input.get("group").and_then(Value::as_str).filter(|_| is_observed) {
            page.insert("group".to_owned(), Mode::Observe.own_name(group).into());
        }
    }
    page.into()
}

/// Summarises the metrics and the checks.
pub(super) fn summary(
    metrics: &MetricValues,
    examples: &BTreeMap<&'static str, (String, String)>,
    checks: &[(String, Result<(), String>)],
    build: &Build,
    now: Timestamp,
) -> Map<String, Value> {
    let waits: Vec<String> =
        checks.iter().filter_map(|(name, state)| Some(format!("{name}: {}", state.as_ref().err()?))).collect();
    let label = |name| metrics.label(&catalog::CONFIG_INFO, name);
    let count = |spec| metrics.count(spec);
    let age = |spec| metrics.largest(spec).and_then(millis).map(|then| now.millis().saturating_sub(then));
    let since_start = metrics.largest(&catalog::PROCESS_START_TIME).and_then(millis);
    let page = json!({
        "version": build.version,
        "librdkafka": build.librdkafka,
        "at_ms": now.millis(),
        "uptime_ms": since_start.map(|then| now.millis().saturating_sub(then).max(0)),
        "ready": waits.is_empty(),
        "waits_for": waits,
        "mode": label("mode"),
        "scheme": label("scheme"),
        "config_hash": label("hash"),
        "documents": object(metrics.by_label(&catalog::DOCUMENTS, VerdictLabel::LABEL)),
        "dead_letters": count(&catalog::DEAD_LETTERS),
        "dead_letter_reasons": dead_letters(metrics, examples),
        "pending_verdicts_ms": metrics.largest(&catalog::OLDEST_PENDING_VERDICT).and_then(millis),
        "assigned_partitions": object(metrics.by_label(&catalog::ASSIGNED_PARTITIONS, "topic")),
        "lag": count(&catalog::CONSUMER_LAG),
        "last_record_age_ms": age(&catalog::LAST_RECORD_TIMESTAMP),
        "paused": paused(metrics),
        "last_commit_age_ms": age(&catalog::LAST_COMMIT_TIMESTAMP),
        "judge": object(metrics.by_label(&catalog::JUDGE_ACTIVE, "log_partition")),
        "dual_period_ms": metrics.largest(&catalog::DUAL_PERIOD).and_then(millis),
        "index_entries": count(&catalog::INDEX_ENTRIES),
        "index_memory_bytes": count(&catalog::INDEX_MEMORY),
        "index_memory_limit_bytes": count(&catalog::INDEX_MEMORY_LIMIT),
        "window_ms": metrics.largest(&catalog::INDEX_WINDOW).and_then(millis),
        "effective_window_ms": effective_window_ms(metrics),
        "snapshot_age_ms": age(&catalog::SNAPSHOT_LAST_SUCCESS),
        "errors": errors(metrics),
    });
    members(page)
}

/// Returns the members of a JSON object; none of any other value.
pub(super) fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Returns the span of event time from the oldest original to the newest judged page, in milliseconds.
pub(super) fn effective_window_ms(metrics: &MetricValues) -> Option<i64> {
    let oldest = metrics.largest(&catalog::INDEX_OLDEST_ENTRY).and_then(millis)?;
    let newest = metrics.largest(&catalog::INDEX_STREAM_TIME).and_then(millis)?;
    Some(newest.saturating_sub(oldest).max(0))
}

/// Converts seconds since 1970 to milliseconds; `None` for 0, which means never.
fn millis(seconds: f64) -> Option<i64> {
    let span = jiff::SignedDuration::try_from_secs_f64(seconds).ok().filter(|_| seconds > 0.0)?;
    i64::try_from(span.as_millis()).ok()
}

/// Lists every reason why a record got no verdict, with the last such record.
fn dead_letters(metrics: &MetricValues, examples: &BTreeMap<&'static str, (String, String)>) -> Vec<Value> {
    let of = |spec: &Spec, reason: &str| metrics.count_of(spec, &[("reason", reason)]);
    let tell = |(reason, (position, why)): (&&str, &(String, String))| {
        json!({
            "reason": reason,
            "delivered": of(&catalog::DEAD_LETTERS, reason),
            "held": of(&catalog::DEAD_LETTERS_HELD, reason),
            "example": position,
            "why": why,
        })
    };
    examples.iter().map(tell).collect()
}

fn object<'v>(values: impl Iterator<Item = (&'v str, f64)>) -> Map<String, Value> {
    values.map(|(name, number)| (name.to_owned(), whole(number).into())).collect()
}

/// Returns the reasons for which the input is paused.
fn paused(metrics: &MetricValues) -> Vec<&str> {
    let reasons = metrics.by_label(&catalog::CONSUMER_PAUSED, Pause::LABEL);
    reasons.filter(|(_, is_paused)| *is_paused > 0.0).map(|(reason, _)| reason).collect()
}

/// Counts the errors that have occurred, by component and kind.
fn errors(metrics: &MetricValues) -> BTreeMap<&str, BTreeMap<&str, u64>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (component, kind, count) in metrics.by_two_labels(&catalog::ERRORS, Component::LABEL, ErrorKind::LABEL) {
        if let Some(kind) = kind.filter(|_| count > 0.0) {
            found.entry(component).or_default().insert(kind, whole(count));
        }
    }
    found
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an Instant cannot be created otherwise")]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::protocol::LogPartition;
    use crate::record::Reject;
    use crate::telemetry::IndexTotals;
    use crate::telemetry::labels::{CommitResult, VerdictLabel};
    use std::io::Read as _;
    use std::net::TcpStream;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A server whose clock is `ahead` of the time at which `heartbeat` ticked.
    fn server(health: &Health, ahead: Duration) -> (Server, Metrics) {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let now = Instant::now() + ahead;
        let endpoints = Endpoints {
            metrics: metrics.clone(),
            health: health.clone(),
            build: Build { version: "1.2.3".into(), revision: "abc".into(), librdkafka: "2.12.1".into() },
            clock: Arc::new(move || now),
            wall: || Timestamp::from_millis(10_000),
            config: Arc::from("{}"),
        };
        (start(SocketAddr::from(([127, 0, 0, 1], 0)), endpoints).unwrap(), metrics)
    }

    /// Sends a request over a real socket; returns status, head and body.
    fn ask(server: &Server, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    #[test]
    fn the_list_names_every_path_and_every_path_answers() {
        let (server, _) = server(&Health::new(Duration::from_secs(1)), Duration::ZERO);
        let (status, _, body) = ask(&server, "/");
        assert_eq!(status, 200);
        for (path, _) in PATHS {
            assert!(body.lines().any(|line| line.split(' ').next() == Some(path)), "{path}");
            assert_eq!(ask(&server, path).0, 200, "{path}");
        }
        assert_eq!(ask(&server, "/elsewhere").0, 404);
    }

    #[test]
    fn metrics_are_prometheus_text() {
        let (server, metrics) = server(&Health::new(Duration::from_secs(1)), Duration::ZERO);
        metrics.document(VerdictLabel::Near);
        let (status, head, body) = ask(&server, "/metrics");
        assert_eq!(status, 200);
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        assert!(body.contains("dupgate_documents_total{verdict=\"near\"} 1\n"), "{body}");
        assert!(body.contains("\nprocess_cpu_seconds_total "), "{body}");
    }

    #[test]
    fn metrics_are_compressed_for_clients_that_accept_it() {
        let (server, metrics) = server(&Health::new(Duration::from_secs(1)), Duration::ZERO);
        metrics.document(VerdictLabel::Near);
        let answer = |accepted: &str| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let head = format!("Host: x\r\nAccept-Encoding: {accepted}\r\nConnection: close");
            write!(stream, "GET /metrics HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
            (String::from_utf8_lossy(&answer[..end]).to_lowercase(), answer[end + 4..].to_vec())
        };
        let line = "dupgate_documents_total{verdict=\"near\"} 1\n";
        let (head, packed) = answer("deflate, gzip;q=0.8");
        assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert!(text.contains(line) && packed.len() * 4 < text.len(), "{} of {}", packed.len(), text.len());
        for accepted in ["identity", "gzip;q=0", "gzip; q=0.0, *", "*;q=0", "zstd, br", "gzipped"] {
            let (head, plain) = answer(accepted);
            assert!(!head.contains("content-encoding"), "{accepted}: {head}");
            assert!(String::from_utf8_lossy(&plain).contains(line), "{accepted}");
        }
        assert!(answer("*").0.contains("content-encoding: gzip"));
    }

    #[test]
    fn a_stalled_loop_is_not_alive() {
        let health = Health::new(Duration::from_secs(10));
        let heartbeat = health.heartbeat("input", Instant::now());
        let (moving, _) = server(&health, Duration::ZERO);
        assert_eq!(ask(&moving, "/livez").0, 200);
        let (stuck, _) = server(&health, Duration::from_mins(1));
        for path in ["/livez", "/healthz"] {
            let (status, _, body) = ask(&stuck, path);
            assert_eq!(status, 503);
            assert!(body.starts_with("input: has not moved for 6"), "{body}");
        }
        drop(heartbeat);
        assert_eq!(ask(&stuck, "/livez").0, 200);
    }

    #[test]
    fn readiness_names_failing_checks() {
        let health = Health::new(Duration::from_secs(10));
        let (server, _) = server(&health, Duration::ZERO);
        let joined = health.check("joined", "waiting for the group");
        let restored = health.check("restored", "restoring, 40 %");
        joined.pass();
        let (status, _, body) = ask(&server, "/readyz");
        assert_eq!((status, body.as_str()), (503, "restored: restoring, 40 %\n"));
        let (status, _, body) = ask(&server, "/readyz?verbose");
        assert_eq!((status, body.as_str()), (503, "[+] joined: ok\n[-] restored: restoring, 40 %\n"));
        restored.pass();
        assert_eq!(ask(&server, "/readyz").2, "ready\n");
        let (status, _, body) = ask(&server, "/readyz?verbose=1");
        assert_eq!((status, body.as_str()), (200, "[+] joined: ok\n[+] restored: ok\nready\n"));
    }

    #[test]
    fn settings_and_status_are_hidden_from_pages_of_other_sites() {
        let (server, _) = server(&Health::new(Duration::from_secs(1)), Duration::ZERO);
        let status = |path: &str, headers: &str| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        for path in ["/config", "/status"] {
            assert_eq!(status(path, "Host: dupgate:9464"), "200", "{path}");
            // A name that resolves here only during a page's visit.
            assert_eq!(status(path, "Host: evil.example:9464"), "403", "{path}");
            assert_eq!(status(path, "Host: dupgate:9464\r\nOrigin: http://evil.example"), "403", "{path}");
        }
        assert_eq!(status("/metrics", "Host: dupgate.example:9464"), "200", "Prometheus may use any name");
    }

    #[test]
    fn the_version_is_json() {
        let (server, _) = server(&Health::new(Duration::from_secs(1)), Duration::ZERO);
        let (_, head, body) = ask(&server, "/version");
        assert!(head.contains("content-type: application/json"), "{head}");
        let version: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(version, serde_json::json!({"version": "1.2.3", "revision": "abc", "librdkafka": "2.12.1"}));
    }

    #[test]
    fn upkeep_runs_without_scrapes() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let now = Instant::now();
        let endpoints = Endpoints {
            metrics,
            health: Health::new(Duration::from_secs(1)),
            build: Build { version: String::new(), revision: String::new(), librdkafka: String::new() },
            clock: Arc::new(move || now),
            wall: || Timestamp::from_millis(10_000),
            config: Arc::from("{}"),
        };
        let (ran, runs) = mpsc::channel();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let upkeep = move || ran.send(()).unwrap_or_default();
        let server = start_with(listen, endpoints, Duration::from_millis(1), upkeep).unwrap();
        for _ in 0..3 {
            runs.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        drop(server);
        while runs.try_recv().is_ok() {}
        assert_eq!(runs.try_recv(), Err(mpsc::TryRecvError::Disconnected), "nothing runs after the end");
    }

    #[test]
    fn an_address_in_use_is_an_error() {
        let (first, _) = server(&Health::new(Duration::from_secs(1)), Duration::ZERO);
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let now = Instant::now();
        let endpoints = Endpoints {
            metrics,
            health: Health::new(Duration::from_secs(1)),
            build: Build { version: String::new(), revision: String::new(), librdkafka: String::new() },
            clock: Arc::new(move || now),
            wall: || Timestamp::from_millis(10_000),
            config: Arc::from("{}"),
        };
        assert_eq!(start(first.address(), endpoints).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn the_group_is_the_one_that_the_mode_uses() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let build = Build { version: "1".into(), revision: "a".into(), librdkafka: "2".into() };
        for (mode, group) in [("route", "crawl"), ("observe", "crawl.observe")] {
            let config = json!({"hash": "x", "config": {"mode": mode, "input": {"group": "crawl"}}}).to_string();
            assert_eq!(status(&metrics, &[], &build, &config, Timestamp::from_millis(1))["group"], group, "{mode}");
        }
    }

    #[test]
    fn the_page_shows_what_is_not_ready_and_the_state() {
        let metrics = Metrics::new(&settings::Metrics::default()).unwrap();
        let started = metrics.values().largest(&catalog::PROCESS_START_TIME).and_then(millis).unwrap();
        // In whole seconds, which a metric shows exactly.
        let start = started.div_euclid(1000) * 1000;
        let at = |millis: i64| Timestamp::from_millis(start + millis);
        (0..25).for_each(|_| metrics.document(VerdictLabel::Near));
        metrics.config_info("crawl", "abc", "sh64-1", "route", "simhash");
        metrics.assigned_partitions(&BTreeMap::from([("a".to_owned(), 2)]));
        metrics.paused(Pause::Manual, true);
        metrics.committed(CommitResult::Ok, at(7500));
        metrics.judge_active(LogPartition(0), true);
        metrics.last_record("a", at(9000));
        metrics.index(
            LogPartition(0),
            IndexTotals { oldest: Some(at(2000)), stream_time: Some(at(8500)), ..IndexTotals::default() },
        );
        (0..3).for_each(|_| metrics.dead_letter(Reject::NoText));
        metrics.dead_letters_held(&BTreeMap::from([(Reject::NoText, 2)]));
        metrics.oldest_pending_verdict(Duration::from_millis(4500));
        metrics.dual_period(LogPartition(0), Duration::from_mins(1));
        metrics.dual_period(LogPartition(1), Duration::ZERO);
        (0..3).for_each(|_| metrics.error(Component::Log, ErrorKind::Corrupt));
        let checks = [("joined".to_owned(), Ok(())), ("restored".to_owned(), Err("restoring, 40 %".to_owned()))];
        let build = Build { version: "1.2.3".into(), revision: "abc".into(), librdkafka: "2.12.1".into() };
        let examples = BTreeMap::from([("no_text", ("a:0:7".to_owned(), "no text is left".to_owned()))]);
        let page = summary(&metrics.values(), &examples, &checks, &build, at(10_000));
        for (key, expected) in [
            ("version", json!("1.2.3")),
            ("ready", json!(false)),
            ("waits_for", json!(["restored: restoring, 40 %"])),
            ("mode", json!("route")),
            ("documents", json!({"bypass": 0, "exact": 0, "near": 25, "template": 0, "unique": 0, "update": 0})),
            ("assigned_partitions", json!({"a": 2})),
            ("paused", json!(["manual"])),
            ("judge", json!({"0": 1})),
            ("dead_letters", json!(3)),
            (
                "dead_letter_reasons",
                json!([{
                    "reason": "no_text", "delivered": 3, "held": 2, "example": "a:0:7", "why": "no text is left"
                }]),
            ),
            ("pending_verdicts_ms", json!(4500)),
            ("dual_period_ms", json!(60_000)),
            ("last_commit_age_ms", json!(2500)),
            ("last_record_age_ms", json!(1000)),
            ("effective_window_ms", json!(6500)),
            ("uptime_ms", json!(start + 10_000 - started)),
            ("snapshot_age_ms", json!(null)),
            ("errors", json!({"log": {"corrupt": 3}})),
        ] {
            assert_eq!(page[key], expected, "{key} of {page:#?}");
        }
        assert_eq!(summary(&metrics.values(), &BTreeMap::new(), &[], &build, at(1))["ready"], true);
    }
}
