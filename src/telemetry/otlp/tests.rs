use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::TcpListener;

use serde_json::Value;

use super::super::spans::Kind;
use super::*;
use crate::runtime::clock::Clock;

fn metrics() -> Metrics {
    Metrics::new(&crate::config::settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap()
}

fn span(id: u64) -> Span {
    let time = (Duration::from_secs(1), Duration::from_secs(2));
    let name = format!("step {id}");
    Span {
        trace: 1,
        id,
        parent: None,
        name,
        kind: Kind::Internal,
        time,
        attributes: Vec::new(),
        link: None,
        error: None,
    }
}

fn traces(address: &str, metrics: &Metrics) -> Traces {
    let clock = Clock::start();
    let resource = vec![("service.name", "dupgate".to_owned())];
    Traces::start(address.parse().unwrap(), resource, metrics.clone(), move || clock.instant()).unwrap()
}

/// Takes one request, answers it, and returns its head and body.
fn take(listener: &TcpListener, answer: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 2\r\n\r\n{{}}").unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[test]
fn spans_come_to_the_collector_and_the_last_ones_before_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = self::metrics();
    let traces = traces(&format!("http://{}", listener.local_addr().unwrap()), &metrics);
    let numbers = 0..10_u64;
    numbers.clone().for_each(|number| traces.offer(span(number)));
    let end = std::thread::spawn(move || drop(traces));
    let mut names = Vec::new();
    while names.len() < 10 {
        let (head, body) = take(&listener, "200 OK");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && head.contains("application/json"), "{head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        names.extend(spans.iter().map(|span| span["name"].as_str().unwrap().to_owned()));
    }
    end.join().unwrap();
    assert_eq!(names, numbers.map(|number| format!("step {number}")).collect::<Vec<_>>());
}

#[test]
fn a_collector_that_refuses_or_is_away_costs_the_spans_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let metrics = self::metrics();
    let refused = traces(&address, &metrics);
    refused.offer(span(1));
    let end = std::thread::spawn(move || drop(refused));
    take(&listener, "503 Service Unavailable");
    end.join().unwrap();
    drop(listener);
    let away = traces(&address, &metrics);
    away.offer(span(2));
    drop(away);
    let rendered = metrics.render();
    let line = rendered.lines().find(|line| line.contains("component=\"traces\"") && line.contains("\"io\""));
    assert!(line.is_some_and(|line| line.ends_with(" 2")), "{line:?}");
}
