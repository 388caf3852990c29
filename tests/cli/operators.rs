//! What operators type daily, where no broker and no instance answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process::Process;
use super::program::{dupgate, said};

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
fn a_verdict_that_tap_cannot_show_is_refused_with_those_that_it_can() {
    let (_folder, file) = away();
    let misspelt = said(dupgate().args(["tap", "--verdict", "nearr", "-c", &file]));
    assert_eq!(misspelt.code, 2);
    assert!(misspelt.err.contains("unique, update, template, exact, near, dead"), "{}", misspelt.err);
    let running = said(dupgate().args(["tap", "--running", "--verdict", "unique", "-c", &file]));
    assert_eq!(running.code, 2);
    assert!(running.err.contains("offers duplicates only (exact, near), not `unique`"), "{}", running.err);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is told in time is held against the time that passed")]
fn brokers_that_refuse_are_told_within_seconds_and_every_finding_is_a_line() {
    let (_folder, file) = away();
    let begun = Instant::now();
    let told = said(dupgate().args(["check", "-q", "-o", "jsonl", "-c", &file]));
    assert_eq!(told.code, 69, "{}", told.err);
    let rows: Vec<Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let subjects: Vec<&str> = rows.iter().filter_map(|row| row["subject"].as_str()).collect();
    assert_eq!(subjects, ["brokers", "disk", "memory"], "{}", told.out);
    let why = rows[0]["text"].as_str().unwrap();
    assert!(why.starts_with("no broker answers: 127.0.0.1:1: Connection refused"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(9), "it took {:?}", begun.elapsed());
    let table = said(dupgate().args(["check", "-q", "-o", "table", "-c", &file])).out;
    assert!(table.starts_with("SUBJECT ") && table.contains("\nbrokers "), "{table}");
    let create = said(dupgate().args(["topics", "create", "-q", "-c", &file]));
    assert_eq!(create.code, 69, "{}", create.err);
    assert!(
        create.err.contains("no broker answers: 127.0.0.1:1: ") && create.err.contains("(check kafka.brokers"),
        "{}",
        create.err
    );
}

#[test]
fn watching_goes_on_while_the_instance_is_away() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = dupgate();
    command.args(["status", "--watch", "--every", "100ms", "-o", "table", "--address", &closed.to_string()]);
    let mut watcher = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("unreachable for ") && line.contains("Connection refused"), "{line}");
    }
    // It comes back by itself.
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
fn a_certificate_that_is_not_there_and_a_property_that_is_none_are_told_by_validate() {
    let (_folder, file) = away();
    let set =
        ["-s", "kafka.security={protocol: ssl, tls: {ca_file: /no/such/ca.pem}}", "-s", "kafka.properties.foo.bar=1"];
    let told = said(dupgate().args(["validate", &file]).args(set));
    assert_eq!(told.code, 78, "{}", told.err);
    for expected in [
        "kafka.security.tls.ca_file: cannot read /no/such/ca.pem: No such file",
        "kafka.properties.foo.bar: the Kafka client knows no such property",
    ] {
        assert!(told.err.contains(expected), "{expected}\n{}", told.err);
    }
}

#[test]
fn one_broker_is_a_list_of_one() {
    let (folder, file) = away();
    let text = std::fs::read_to_string(&file).unwrap().replace("[\"127.0.0.1:1\"]", "\"127.0.0.1:1, b:2\"");
    std::fs::write(&file, text).unwrap();
    let told = said(dupgate().args(["config", "show", "-o", "json", "-c", &file]));
    let shown: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(shown["kafka"]["brokers"], serde_json::json!(["127.0.0.1:1", "b:2"]), "{}", told.err);
    drop(folder);
}

#[test]
fn the_configuration_that_is_refused_is_named_where_two_are_compared() {
    let (folder, file) = away();
    let bad = folder.path().join("bad.yaml").display().to_string();
    std::fs::write(&bad, "mode: drop\n").unwrap();
    let told = said(dupgate().args(["config", "diff", &file, &bad]));
    assert_eq!(told.code, 78);
    assert!(told.err.contains(&format!("the configuration {bad} is refused")), "{}", told.err);
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
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
    let script = said(dupgate().args(["completions", "bash"])).out;
    assert!(script.contains("\"unique update template exact near dead\""), "no verdicts");
}
