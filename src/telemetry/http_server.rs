//! An HTTP listener on a separate thread.
//!
//! Whoever can reach a port can open connections and say nothing. They must not use up the file descriptors of the
//! process, nor keep a probe from being answered, so the open connections of a port are bounded in number, and in the
//! time that they may wait for a request.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Open connections of a port. One more closes the oldest that is not being answered.
const MOST_CONNECTIONS: usize = 64;

/// How long a connection may wait for the whole header of its next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failure to accept a connection, for example because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
            crate::panics::exit_on_panic(|| {
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

    /// Returns the listening address.
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
}
