//! An HTTP/1.1 client for a collector, with or without TLS, and for a running instance. It blocks the calling thread.

use std::error::Error;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, header};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::runtime::Runtime;

/// Time-out of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that opens a connection for each request.
#[derive(Debug)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    runtime: Arc<Runtime>,
}

/// An answer whose body is read as it arrives.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// Bytes of the body that were received and not read yet.
    piece: Bytes,
    silence: Duration,
    runtime: Arc<Runtime>,
}

impl HttpClient {
    /// Creates a client for http alone: it trusts no certificate.
    ///
    /// # Errors
    ///
    /// The machine has no file descriptors left.
    pub fn without_tls() -> io::Result<Self> {
        Self::trusting(RootCertStore::empty())
    }

    /// Creates a client for http and https that trusts the system's authorities, or those of `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR`.
    ///
    /// # Errors
    ///
    /// No certificate is found there.
    pub fn trusting_system() -> io::Result<Self> {
        Self::with_tls(tls()?.with_native_roots()?)
    }

    /// Creates a client for http and https that trusts these authorities.
    ///
    /// # Errors
    ///
    /// As [`Self::without_tls`].
    pub fn trusting(authorities: RootCertStore) -> io::Result<Self> {
        Self::with_tls(tls()?.with_root_certificates(authorities))
    }

    fn with_tls(tls: ConfigBuilder<ClientConfig, WantsClientCert>) -> io::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.with_no_client_auth())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
        // Keep no idle connections: the runtime does not run between requests, so it would not notice that the other
        // side closes them.
        Ok(Self { client: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector), runtime })
    }

    /// Sends a request and waits for the head of its answer. `silence` is the time-out of each read, here and for the
    /// body.
    ///
    /// # Errors
    ///
    /// No address of the host answers, the answer is not HTTP, or the certificate is not trusted.
    pub fn call(&self, mut request: Request<Body>, silence: Duration) -> io::Result<Answer> {
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        // The future must be created within the runtime, because it spawns the connection there.
        let response = self.runtime.block_on(async { in_time(silence, self.client.request(request)).await })?;
        let (head, body) = response.into_parts();
        let runtime = Arc::clone(&self.runtime);
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body, piece: Bytes::new(), silence, runtime })
    }
}

fn tls() -> io::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(io::Error::other)
}

async fn in_time<T, E>(silence: Duration, answer: impl Future<Output = Result<T, E>>) -> io::Result<T>
where
    E: Error + 'static,
{
    match tokio::time::timeout(silence, answer).await {
        Ok(answer) => answer.map_err(|error| cause(&error)),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {silence:?}"))),
    }
}

/// Returns the root cause of an error of the client: the text of the error itself, such as "client error (Connect)",
/// does not help.
fn cause(error: &(dyn Error + 'static)) -> io::Error {
    let (mut deepest, mut kind) = (error, io::ErrorKind::Other);
    loop {
        if let Some(error) = deepest.downcast_ref::<io::Error>() {
            kind = error.kind();
        }
        match deepest.source() {
            Some(source) => deepest = source,
            None => return io::Error::new(kind, deepest.to_string()),
        }
    }
}

impl Answer {
    /// Reads the body to its end, but at most `max` bytes.
    ///
    /// # Errors
    ///
    /// The other side closes the connection early or falls silent.
    pub fn text(self, max: u64) -> io::Result<String> {
        let mut body = Vec::new();
        self.take(max).read_to_end(&mut body)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

impl Read for Answer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let body = &mut self.body;
            let next = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context).map(Option::transpose));
            match self.runtime.block_on(in_time(self.silence, next))? {
                Some(frame) => self.piece = frame.into_data().unwrap_or_default(),
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(into.len());
        let taken = self.piece.split_to(count);
        into.iter_mut().zip(taken).for_each(|(place, byte)| *place = byte);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one request with these bytes, and keeps the connection open as long as the client does, if `keeps_open`
    /// is set.
    fn answering(bytes: &'static str, stays: bool) -> (u16, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
            }
            stream.write_all(bytes.as_bytes()).unwrap();
            if stays {
                drop(reader.read_line(&mut String::new()));
            }
            head
        });
        (port, thread)
    }

    fn get(port: u16, silence: Duration) -> io::Result<Answer> {
        let request = Request::get(format!("http://127.0.0.1:{port}/a?b=c")).body(Body::empty()).unwrap();
        HttpClient::without_tls().unwrap().call(request, silence)
    }

    const LONG: Duration = Duration::from_mins(1);

    /// Longer than a busy machine takes to send a request and the beginning of its answer.
    const SHORT: Duration = Duration::from_secs(3);

    #[test]
    fn status_and_body_are_parsed_and_chunks_joined() {
        for (bytes, status, text) in [
            ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nno\r\n", 503, "no\r\n"),
            ("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, "abcde"),
        ] {
            let (port, thread) = answering(bytes, false);
            let answer = get(port, LONG).unwrap();
            assert_eq!((answer.status, answer.text(9_999).unwrap()), (status, text.to_owned()));
            let head = thread.join().unwrap();
            assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{head}");
        }
    }

    #[test]
    fn no_more_is_read_than_requested() {
        let (port, thread) = answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", false);
        assert_eq!(get(port, LONG).unwrap().text(4).unwrap(), "0123");
        thread.join().unwrap();
    }

    #[test]
    fn silence_another_protocol_and_a_closed_port_are_distinct_errors() {
        let (port, thread) = answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", true);
        let cut = get(port, SHORT).unwrap().text(10).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut, "{cut}");
        thread.join().unwrap();
        let (port, thread) = answering("", true);
        let silent = get(port, SHORT).err().unwrap();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut, "{silent}");
        thread.join().unwrap();
        let (port, thread) = answering("SSH-2.0-OpenSSH\r\n\r\n", false);
        assert!(get(port, LONG).is_err());
        thread.join().unwrap();
        assert!(get(1, LONG).is_err(), "nothing listens there");
    }
}
