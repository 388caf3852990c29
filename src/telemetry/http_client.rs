//! HTTP/1.1 client for a collector, with or without TLS, and for a running instance. It blocks the calling thread.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Request, header};
use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, BodyReader};

/// Time-out of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that opens a connection for each request. It follows no redirection and uses no proxy.
#[derive(Debug)]
pub struct HttpClient {
    agent: Agent,
}

/// An answer whose body is read as it arrives.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    body: BodyReader<'static>,
    silence: Duration,
}

impl HttpClient {
    /// Creates a client for http alone: it trusts no certificate.
    #[must_use]
    pub fn without_tls() -> Self {
        Self::trusting(&[])
    }

    /// Creates a client for http and https that trusts the system's authorities, or those of `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR`.
    ///
    /// # Errors
    ///
    /// No certificate is found there.
    pub fn trusting_system() -> io::Result<Self> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("failed to find trusted certificates: {why}")));
        }
        Ok(Self::trusting(&found.certs))
    }

    /// Creates a client for http and https that trusts these authorities.
    #[must_use]
    pub fn trusting(authorities: &[CertificateDer<'_>]) -> Self {
        let authorities: Vec<_> = authorities.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&authorities))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT));
        Self { agent: config.build().new_agent() }
    }

    /// Sends a request and waits for the head of its answer. `silence` is the time-out of each read, here and for the
    /// body.
    ///
    /// # Errors
    ///
    /// No address of the host answers, the answer is not HTTP, or the certificate is not trusted.
    pub fn call(&self, mut request: Request<impl AsSendBody>, silence: Duration) -> io::Result<Answer> {
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let request = self.agent.configure_request(request);
        let request = request
            .timeout_send_request(Some(silence))
            .timeout_send_body(Some(silence))
            .timeout_recv_response(Some(silence))
            .timeout_per_read(Some(silence));
        let response = self.agent.run(request.build()).map_err(|error| failed(error, silence))?;
        let (head, body) = response.into_parts();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.into_reader(), silence })
    }
}

fn failed(error: ureq::Error, silence: Duration) -> io::Error {
    if matches!(error, ureq::Error::Timeout(_)) {
        return io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {silence:?}"));
    }
    error.into_io()
}

impl Answer {
    /// Reads the body to its end, at most `max` bytes.
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
        self.body.read(into).map_err(|error| failed(error.into(), self.silence))
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
        let request = Request::get(format!("http://127.0.0.1:{port}/a?b=c")).body(()).unwrap();
        HttpClient::without_tls().call(request, silence)
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
