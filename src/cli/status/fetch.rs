//! One GET over a plain connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the other side may be silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of an answer.
const MOST: u64 = 64 << 20;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    /// The body.
    pub(super) body: String,
}

/// Asks for a path. The connection ends with the answer, so its end is the body's.
pub(super) fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("no answer in HTTP"))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_taken_apart() {
        let answer = parse("HTTP/1.0 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nno\r\n").unwrap();
        assert_eq!(answer, Answer { status: 503, body: "no\r\n".to_owned() });
        assert_eq!(parse("SSH-2.0-OpenSSH\r\n\r\n"), None);
        assert_eq!(parse("HTTP/1.1 200 OK\r\n"), None);
    }
}
