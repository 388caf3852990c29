//! HTTP/1.1 client without TLS, one request per connection, for a collector or a running instance.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::time::Duration;

use axum::http::{Request, header};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::runtime::Runtime;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// An answer whose body is read as it comes.
pub struct Answer {
    /// The status code.
    pub status: u16,
    body: Incoming,
    /// What of the body came and was not read.
    piece: Bytes,
    silence: Duration,
    runtime: Runtime,
}

/// Sends a request and waits for the head of its answer. The other side may be silent for so long at a time, here and
/// while the body is read.
///
/// # Errors
///
/// When nobody answers at any address of `host` (without brackets), or not in HTTP.
pub fn call(host: &str, port: u16, mut request: Request<String>, silence: Duration) -> io::Result<Answer> {
    let stream = connect(host, port)?;
    stream.set_nonblocking(true)?;
    let name = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    request.headers_mut().insert(header::HOST, name.parse().map_err(io::Error::other)?);
    request.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let response = runtime.block_on(async {
        let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream)?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
        // Errors of the connection surface where the response is awaited.
        drop(tokio::spawn(connection));
        in_time(silence, sender.send_request(request)).await
    })?;
    let (head, body) = response.into_parts();
    Ok(Answer { status: head.status.as_u16(), body, piece: Bytes::new(), silence, runtime })
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn in_time<T>(silence: Duration, answer: impl Future<Output = hyper::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(silence, answer).await {
        Ok(answer) => answer.map_err(io::Error::other),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {silence:?}"))),
    }
}

impl Answer {
    /// Reads the body to its end, `most` bytes of it at the most.
    ///
    /// # Errors
    ///
    /// When the other side breaks off or falls silent.
    pub fn text(self, most: u64) -> io::Result<String> {
        let mut body = Vec::new();
        self.take(most).read_to_end(&mut body)?;
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

    /// Answers one request with these bytes, and keeps the connection open as long as the client does, if told to.
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
        call("127.0.0.1", port, Request::get("/a?b=c").body(String::new()).unwrap(), silence)
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn status_and_body_are_taken_apart_and_chunks_put_together() {
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
    fn no_more_is_read_than_asked_for() {
        let (port, thread) = answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", false);
        assert_eq!(get(port, LONG).unwrap().text(4).unwrap(), "0123");
        thread.join().unwrap();
    }

    #[test]
    fn who_says_nothing_speaks_another_tongue_or_is_away_is_told_apart() {
        let (port, thread) = answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", true);
        let cut = get(port, Duration::from_millis(50)).unwrap().text(10).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut, "{cut}");
        thread.join().unwrap();
        let (port, thread) = answering("", true);
        let silent = get(port, Duration::from_millis(50)).err().unwrap();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut, "{silent}");
        thread.join().unwrap();
        let (port, thread) = answering("SSH-2.0-OpenSSH\r\n\r\n", false);
        assert!(get(port, LONG).is_err());
        thread.join().unwrap();
        assert!(get(port, LONG).is_err(), "nobody listens there any more");
    }
}
