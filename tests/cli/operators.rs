//! Daily commands of operators, without a broker or an instance.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use dupgate_testkit::ports::free_address;
use serde_json::Value;

use super::process::Process;
use super::program::{dupgate, output_of};

/// A configuration whose broker refuses every connection.
const AWAY: &str = "kafka: {brokers: [\"127.0.0.1:1\"]}\ninput: {topics: [pages], instance_id: one}\n\
    output: {unique: {topic: u}, duplicate: {topic: d}, dead_letter: {topic: x}}\n";

fn away() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dupgate.yaml");
    std::fs::write(&file, format!("{AWAY}index: {{path: \"{}\"}}\n", folder.path().display())).unwrap();
    let name = file.display().to_string();
    (folder, name)
}

#[test]
fn a_verdict_that_tap_cannot_show_is_refused_with_the_valid_ones() {
    let (_folder, file) = away();
    let misspelt = output_of(dupgate().args(["tap", "--verdict", "nearr", "-c", &file]));
    assert_eq!(misspelt.code, 2);
    assert!(misspelt.err.contains("unique, update, template, exact, near, withdrawn"), "{}", misspelt.err);
    let running = output_of(dupgate().args(["tap", "--running", "--verdict", "unique", "-c", &file]));
    assert_eq!(running.code, 2);
    assert!(running.err.contains("offers duplicates only (exact, near), not `unique`"), "{}", running.err);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time of the output is measured")]
fn refusing_brokers_are_reported_within_seconds_with_one_line_per_finding() {
    let (_folder, file) = away();
    let begun = Instant::now();
    let report = output_of(dupgate().args(["check", "-q", "-o", "jsonl", "-c", &file]));
    assert_eq!(report.code, 69, "{}", report.err);
    let rows: Vec<Value> = report.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let subjects: Vec<&str> = rows.iter().filter_map(|row| row["subject"].as_str()).collect();
    assert_eq!(subjects, ["brokers", "disk", "memory"], "{}", report.out);
    let why = rows[0]["text"].as_str().unwrap();
    assert!(why.starts_with("no broker answers: 127.0.0.1:1: Connection refused"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(9), "it took {:?}", begun.elapsed());
    let table = output_of(dupgate().args(["check", "-q", "-o", "table", "-c", &file])).out;
    assert!(table.starts_with("SUBJECT ") && table.contains("\nbrokers "), "{table}");
    let create = output_of(dupgate().args(["topics", "create", "-q", "-c", &file]));
    assert_eq!(create.code, 69, "{}", create.err);
    assert!(
        create.err.contains("no broker answers: 127.0.0.1:1: ") && create.err.contains("(check kafka.brokers"),
        "{}",
        create.err
    );
}

#[test]
fn watching_continues_while_the_instance_is_unreachable() {
    let closed = free_address();
    let mut command = dupgate();
    command.args(["status", "--watch", "--every", "100ms", "-o", "table", "--address", &closed.to_string()]);
    let mut watcher = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("unreachable for ") && line.contains("Connection refused"), "{line}");
    }
    // The watcher reconnects by itself.
    let listener = TcpListener::bind(closed).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = [0; 1024];
    assert!(stream.read(&mut request).unwrap() > 0);
    let body = r#"{"ready":true,"documents":{"unique":1234567}}"#;
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
    drop(stream);
    let shown = lines.map(Result::unwrap).find(|line| line.starts_with("pages")).unwrap();
    assert!(shown.contains("1,234,567"), "{shown}");
    assert!(watcher.try_wait().unwrap().is_none(), "it has ended");
}

#[test]
fn validate_reports_a_missing_certificate_and_an_unknown_property() {
    let (_folder, file) = away();
    let set =
        ["-s", "kafka.security={protocol: ssl, tls: {ca_file: /no/such/ca.pem}}", "-s", "kafka.properties.foo.bar=1"];
    let report = output_of(dupgate().args(["validate", &file]).args(set));
    assert_eq!(report.code, 78, "{}", report.err);
    for expected in [
        "kafka.security.tls.ca_file: cannot read /no/such/ca.pem: No such file",
        "kafka.properties.foo.bar: the Kafka client knows no such property",
    ] {
        assert!(report.err.contains(expected), "{expected}\n{}", report.err);
    }
}

#[test]
fn one_broker_is_a_list_of_one() {
    let (folder, file) = away();
    let text = std::fs::read_to_string(&file).unwrap().replace("[\"127.0.0.1:1\"]", "\"127.0.0.1:1, b:2\"");
    std::fs::write(&file, text).unwrap();
    let report = output_of(dupgate().args(["config", "show", "-o", "json", "-c", &file]));
    let shown: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(shown["kafka"]["brokers"], serde_json::json!(["127.0.0.1:1", "b:2"]), "{}", report.err);
    drop(folder);
}

#[test]
fn the_refused_configuration_is_named_when_two_are_compared() {
    let (folder, file) = away();
    let bad = folder.path().join("bad.yaml").display().to_string();
    std::fs::write(&bad, "mode: drop\n").unwrap();
    let report = output_of(dupgate().args(["config", "diff", &file, &bad]));
    assert_eq!(report.code, 78);
    assert!(report.err.contains(&format!("the configuration {bad} is refused")), "{}", report.err);
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    for arguments in [&["completions", "bash"][..], &["config", "schema"], &["man"], &["config", "init", "--full"]] {
        let mut child = dupgate().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn completions_offer_verdicts_and_not_files() {
    let script = output_of(dupgate().args(["completions", "bash"])).out;
    assert!(script.contains("\"unique update template exact near withdrawn\""), "no verdicts");
}
