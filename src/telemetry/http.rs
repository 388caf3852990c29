//! The listener for metrics and probes: `/metrics`, `/livez`, `/readyz`, `/healthz`, `/status`, `/config`, `/version`.
//! It is read-only, and no document ever passes through it.

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
use flate2::Compression;
use flate2::write::GzEncoder;

use super::admin::auth::guard_network;
use super::health::Health;
use super::http_server::{Server, bind};
use super::metrics::{Build, Metrics};
use super::status::status;
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
        .route("/status", get(summary).layer(from_fn(guard_network)))
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

async fn summary(State(endpoints): State<Endpoints>) -> Response {
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an Instant cannot be created otherwise")]
mod tests {
    use std::io::Read as _;
    use std::net::TcpStream;
    use std::sync::mpsc;

    use super::*;
    use crate::config::settings;
    use crate::telemetry::labels::VerdictLabel;

    /// A server whose clock is `ahead` of the time at which `heartbeat` ticked.
    fn server(health: &Health, ahead: Duration) -> (Server, Metrics) {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
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
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
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
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
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
}
