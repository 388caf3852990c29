//! Serving single HTTP requests, for small servers of the tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// One request: its lines before the body, and the body.
pub(super) struct Request {
    pub(super) head: Vec<String>,
    pub(super) body: String,
}

impl Request {
    /// The value of a header, ignoring the case of its name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.iter().filter_map(|line| line.split_once(": "));
        headers.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Reads a request; `None` when the other side hangs up.
pub(super) fn take(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut request = Request { head: Vec::new(), body: String::new() };
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        request.head.push(line.to_owned());
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Some(request)
}

/// Answers in JSON.
pub(super) fn answer(mut stream: TcpStream, status: &str, body: &serde_json::Value) -> Option<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close");
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()
}
