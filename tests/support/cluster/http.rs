//! HTTP requests to an instance.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time-out of an answer. A process that is stopped by a signal accepts connections and does not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Status and body of the answer; `None` if there is none in time.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    get_within(address, path, TIMEOUT)
}

/// Like [`get`], with another time-out.
pub(crate) fn get_within(address: SocketAddr, path: &str, timeout: Duration) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, timeout).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// The sum of a metric over the series whose labels hold all of `labels`; `None` if there is no such series.
pub(crate) fn sum(exposition: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut found = None;
    for line in exposition.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        let Some((given, value)) = rest.rsplit_once(' ') else { continue };
        let is_series = given.is_empty() || given.starts_with('{');
        if !is_series || !labels.iter().all(|label| given.contains(label)) {
            continue;
        }
        if let Ok(value) = value.parse::<f64>() {
            found = Some(found.unwrap_or(0.0) + value);
        }
    }
    found
}

#[test]
fn a_metric_is_summed_over_the_matching_series() {
    let text = "# HELP a x\na{p=\"1\",q=\"2\"} 3\na{p=\"2\"} 4\nab 9\nb 7\n";
    assert_eq!(sum(text, "a", &[]), Some(7.0));
    assert_eq!(sum(text, "a", &["p=\"1\""]), Some(3.0));
    assert_eq!(sum(text, "b", &[]), Some(7.0));
    assert_eq!(sum(text, "c", &[]), None);
}
