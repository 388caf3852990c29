//! An HTTP listener on a separate thread, and what it refuses.
//!
//! Whoever can reach a port can open connections and say nothing. They must not use up the file descriptors of the
//! process, nor keep a probe from being answered, so the open connections of a port are bounded in number, and in the
//! time that they may wait for a request.
//!
//! The guards are layers of a router: against cross-origin requests, and for requests without the bearer token.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Open connections of a port. One more closes the oldest that is not being answered.
const MOST_CONNECTIONS: usize = 64;

/// How long a connection may wait for the whole header of its next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failure to accept a connection, for example because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Headers of every response. They forbid browsers to load anything from elsewhere, to store a response, or to frame
/// it.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// A listener on a separate thread, which stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Binds an address (port 0 takes any free one). Connections wait until a server starts answering.
///
/// # Errors
///
/// The address cannot be bound.
pub fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(listen)?;
    bound.set_nonblocking(true)?;
    Ok(bound)
}

impl Server {
    /// Starts answering, and runs `beside` on the same thread.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub(super) fn start(
        thread: &str,
        bound: TcpListener,
        router: Router,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;
        let address = bound.local_addr()?;
        let listener = {
            let _runtime = runtime.enter();
            tokio::net::TcpListener::from_std(bound)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(thread.to_owned()).spawn(move || {
            crate::process::exit_on_panic(|| {
                runtime.block_on(async move {
                    tokio::select! {
                        _ = stopped => {}
                        () = serve(listener, router) => {}
                        () = beside => {}
                    }
                });
                // Do not wait for requests in progress.
                runtime.shutdown_background();
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Accepts connections without end.
async fn serve(listener: tokio::net::TcpListener, router: Router) {
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.open(stream, router.clone()).await,
            Err(error) => {
                tracing::warn!(target: "dupgate::http", %error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The open connections of a port, oldest first.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    task: AbortHandle,
    /// Whether a request is being answered.
    is_busy: Arc<AtomicBool>,
}

impl Connections {
    /// Answers the requests of a connection in a task of its own. If all others are being answered, it is closed.
    async fn open(&mut self, stream: TcpStream, router: Router) {
        self.0.retain(|connection| !connection.task.is_finished());
        if self.0.len() >= MOST_CONNECTIONS {
            let idle = self.0.iter().position(|connection| !connection.is_busy.load(Ordering::Relaxed));
            let Some(oldest) = idle.and_then(|at| self.0.remove(at)) else { return };
            oldest.task.abort();
        }
        let is_busy = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(answer(stream, router, Arc::clone(&is_busy))).abort_handle();
        self.0.push_back(Connection { task, is_busy });
        // Before the next one is accepted, the runtime closes an aborted connection, and this one reads what it was sent:
        // in a burst of connections a request would count as idle otherwise, and be closed.
        tokio::task::yield_now().await;
    }
}

/// Answers the requests of a connection until its client closes it or a time-out ends it.
async fn answer(stream: TcpStream, router: Router, is_busy: Arc<AtomicBool>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        let answered = router.call(request);
        let is_busy = &is_busy;
        async move {
            is_busy.store(true, Ordering::Relaxed);
            let answer = answered.await;
            is_busy.store(false, Ordering::Relaxed);
            answer
        }
    });
    // The time-out also ends connections that are kept alive: it starts when the last answer is written.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(target: "dupgate::http", %error, "a connection ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // If there is no receiver, the thread has already ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has ended the process.
            let _ = thread.join();
        }
    }
}

pub(super) fn json_answer(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

/// Refuses cross-origin requests, and adds the security headers to responses.
pub(super) async fn guard(State(has_token): State<bool>, request: Request, next: Next) -> Response {
    let mut response = match refusal_of_cross_origin(request.headers(), has_token) {
        Some(why) => json_answer(StatusCode::FORBIDDEN, &json!({"error": why})),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns why a request is refused, if it may come from a page of another site.
fn refusal_of_cross_origin(headers: &HeaderMap, has_token: bool) -> Option<&'static str> {
    // Without a token only the address protects the listener, and a site may own a name that resolves to it.
    page_of_another_site(headers).or_else(|| {
        let is_safe = has_token || is_loopback(host(headers));
        (!is_safe).then_some("without http.admin.token only requests to a loopback address are answered")
    })
}

/// Refuses requests to a host name that another site may have pointed here (DNS rebinding). Accepts requests to the
/// names that are usual within a network.
pub(super) async fn guard_network(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let foreign_name = || {
        let is_foreign = !is_name_of_a_network(host(headers));
        is_foreign
            .then_some("the Host is a name that any site may have: use the IP address, or a name within the network")
    };
    match page_of_another_site(headers).or_else(foreign_name) {
        Some(why) => json_answer(StatusCode::FORBIDDEN, &json!({"error": why})),
        None => next.run(request).await,
    }
}

fn page_of_another_site(headers: &HeaderMap) -> Option<&'static str> {
    let origin = headers.get(header::ORIGIN)?;
    let authority = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
    (authority != Some(host(headers))).then_some("cross-origin request: its Origin is not this Host")
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = name_of(host);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns whether no site of the internet can have this name, because it is an address, a single label, or in a
/// reserved domain.
fn is_name_of_a_network(host: &str) -> bool {
    const DOMAINS: [&str; 7] = ["localhost", "local", "internal", "svc", "lan", "home", "arpa"];
    let name = name_of(host).trim_end_matches('.');
    let domain = name.rsplit_once('.').map(|(_, domain)| domain.to_ascii_lowercase());
    name.parse::<IpAddr>().is_ok() || domain.is_none_or(|domain| DOMAINS.contains(&domain.as_str()))
}

/// Requires the token, if there is one.
pub(super) async fn token(State(token): State<Option<SecretString>>, request: Request, next: Next) -> Response {
    let Some(token) = token else { return next.run(request).await };
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let (challenge, why) = match given.map(|given| is_token(given, &token)) {
        Some(true) => return next.run(request).await,
        Some(false) => ("Bearer realm=\"dupgate\", error=\"invalid_token\"", "wrong token (http.admin.token)"),
        None => (
            "Bearer realm=\"dupgate\"",
            "requires the token of http.admin.token as the header `Authorization: Bearer TOKEN`",
        ),
    };
    let mut response = json_answer(StatusCode::UNAUTHORIZED, &json!({"error": why})).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Compares the token in a time that depends only on the lengths.
fn is_token(given: &[u8], token: &SecretString) -> bool {
    let Some((scheme, given)) = given.split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.ct_eq(token.expose_secret().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use axum::routing::get;

    use super::*;

    fn server(router: Router) -> Server {
        let bound = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Server::start("test", bound, router, std::future::pending()).unwrap()
    }

    /// Connects and sends the beginning of a request.
    fn send(server: &Server, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Reads until the server closes the connection.
    fn read(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        // Closing a connection with unread bytes resets it.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn hundreds_of_half_open_connections_keep_nobody_from_an_answer_and_are_closed() {
        let server = server(Router::new().route("/livez", get(|| async { "alive" })));
        let half_open: Vec<_> = (0..300).map(|_| send(&server, "GET /livez HTTP/1.1\r\nHost:")).collect();
        let answer = read(send(&server, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("alive"), "{answer}");
        let mut open = 0;
        for stream in &half_open {
            stream.set_nonblocking(true).unwrap();
            open += usize::from(stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
            stream.set_nonblocking(false).unwrap();
        }
        assert!(open <= MOST_CONNECTIONS, "{open} are open");
        for stream in half_open {
            stream.set_read_timeout(Some(HEADER_TIMEOUT * 6)).unwrap();
            assert_eq!(read(stream), "");
        }
    }

    #[test]
    fn a_connection_that_is_kept_alive_is_closed_when_no_further_request_comes() {
        let server = server(Router::new().route("/livez", get(|| async { "alive" })));
        let stream = send(&server, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.set_read_timeout(Some(HEADER_TIMEOUT * 6)).unwrap();
        assert_eq!(read(stream).matches("alive").count(), 2);
    }

    #[test]
    fn a_request_that_is_being_answered_is_not_closed_for_another_connection() {
        let (answer, answered) = tokio::sync::watch::channel(false);
        let slow = move || {
            let mut answered = answered.clone();
            async move {
                let _ = answered.wait_for(|is_answered| *is_answered).await;
                "at last"
            }
        };
        let router = Router::new().route("/slow", get(slow)).route("/livez", get(|| async { "alive" }));
        let server = server(router);
        let slow = send(&server, "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let half_open: Vec<_> = (0..100).map(|_| send(&server, "GET /")).collect();
        // When this answer is there, all connections before it were accepted.
        let probe = read(send(&server, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        assert!(probe.ends_with("alive"), "{probe}");
        answer.send(true).unwrap();
        assert!(read(slow).ends_with("at last"));
        drop(half_open);
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = SecretString::from("0123456789abcdef");
        let is = |given: &str| is_token(given.as_bytes(), &token);
        assert!(is("Bearer 0123456789abcdef") && is("bearer 0123456789abcdef"));
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeg", "Basic  0123456789abcdef"]
        {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is("Bearer 0123456789abcdef "), "spaces count");
    }

    #[test]
    fn names_of_a_network_are_distinguished_from_public_ones() {
        for own in [
            "10.0.0.5:9464",
            "[fd00::5]:9464",
            "dupgate:9464",
            "dupgate-0.dupgate.crawl.svc:9464",
            "",
            "dupgate-0.dupgate.crawl.svc.cluster.local:9464",
            "ip-10-0-0-5.eu-west-1.compute.internal",
            "localhost",
        ] {
            assert!(is_name_of_a_network(own), "{own}");
        }
        for foreign in ["evil.example:9464", "10.0.0.5.evil.example", "svc.evil.example.", "127.0.0.1.nip.io:9464"] {
            assert!(!is_name_of_a_network(foreign), "{foreign}");
        }
    }

    #[test]
    fn cross_origin_requests_are_recognised() {
        let strange = |host: &'static str, origin: Option<&'static str>, has_token: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            refusal_of_cross_origin(&headers, has_token).is_some()
        };
        for own in ["127.0.0.1:9465", "localhost:9465", "[::1]:9465", "localhost"] {
            assert!(!strange(own, None, false), "{own}");
        }
        assert!(!strange("localhost:1", Some("http://localhost:1"), false));
        assert!(!strange("gate.example:1", Some("http://gate.example:1"), true));
        // A foreign name that resolves to this machine, and a page of that site.
        assert!(strange("evil.example:9465", None, false) && strange("", None, false));
        assert!(strange("127.0.0.1.evil.example:9465", None, false));
        for foreign in ["http://evil.example", "null", "http://localhost:2"] {
            assert!(
                strange("localhost:1", Some(foreign), false) && strange("localhost:1", Some(foreign), true),
                "{foreign}"
            );
        }
    }
}
