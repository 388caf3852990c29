//! Records that name their schema: what reads them, while the Schema Registry is away and when it is back.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::broker::{Broker, wait};
use super::cluster::merge;
use super::first_start::CliRunner;
use super::http_server;
use super::process::Process;
use super::run::instance::Site;
use super::run::topics::{Given, committed, count, produce};

/// A registry that knows schema 7. It refuses every request until it is there.
#[derive(Clone, Default)]
struct Registry {
    is_there: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Registry {
    /// Serves requests, and returns the address.
    fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let registry = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = http_server::take(&stream) else { continue };
                registry.asked.fetch_add(1, Ordering::SeqCst);
                let is_there = registry.is_there.load(Ordering::SeqCst);
                let schema = r#"{"type": "record", "name": "Page", "fields": [
                    {"name": "url", "type": "string"}, {"name": "body", "type": ["null", "bytes"]}]}"#;
                let (status, body) = match request.head.first().and_then(|line| line.split(' ').nth(1)) {
                    _ if !is_there => ("503 Service Unavailable", json!({})),
                    Some("/schemas/types") => ("200 OK", json!(["AVRO"])),
                    Some("/schemas/ids/7") => ("200 OK", json!({ "schema": schema })),
                    _ => ("404 Not Found", json!({"error_code": 40403, "message": "Schema not found"})),
                };
                http_server::answer(stream, status, &body);
            }
        });
        address
    }
}

/// A page in Avro, of short texts, behind the number of its schema.
fn page(schema: u8, url: &str, text: &str) -> Given {
    let length = |text: &str| char::from(u8::try_from(2 * text.len()).expect("a short text"));
    let schema = char::from(schema);
    Given::value(&format!("\0\0\0\0{schema}{}{url}\x02{}{text}", length(url), length(text)))
}

const TEXT: &str = "the old bridge is closed for six weeks from monday on";

/// How long a process may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// An original, a copy of it, and another text.
fn pages() -> [Given; 3] {
    let other = "in the north a second harbour opens for ferries";
    [page(7, "http://a/1", TEXT), page(7, "http://b/1", TEXT), page(7, "http://c/1", other)]
}

/// Settings of a service whose records name their schema.
fn settings(registry: &Registry) -> serde_json::Value {
    let fields = json!({"id": "/url", "text": "/body", "html": null});
    json!({"input": {"format": "avro", "schema_registry": {"url": registry.serve()}, "fields": fields}})
}

/// Writes the configuration of an operator with these settings.
fn operator_file(site: &Site, folder: &Path, settings: &serde_json::Value) -> PathBuf {
    let text = std::fs::read_to_string(site.operator_file()).expect("a configuration");
    let mut configuration = serde_json::from_str(&text).expect("JSON");
    merge(&mut configuration, settings.clone());
    let path = folder.join("avro.yaml");
    std::fs::write(&path, configuration.to_string()).expect("a file");
    path
}

fn dupgate(arguments: &[&str], file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    command.args(arguments).arg("-c").arg(file).stdin(Stdio::null());
    command
}

#[test]
fn every_command_reads_records_by_their_schemas() {
    let Some(broker) = Broker::shared() else { return };
    let (registry, site, folder) = (Registry::default(), Site::new(broker, 1), tempfile::tempdir().expect("a folder"));
    registry.is_there.store(true, Ordering::SeqCst);
    let settings = settings(&registry);
    let instance = site.start_with("one", settings.clone());
    produce(broker, &site.input, 0, &pages());
    committed(broker, &site.unique, 2);
    committed(broker, &site.duplicate, 1);
    let file = operator_file(&site, folder.path(), &settings);
    let ask = |arguments: &[&str]| {
        let output = dupgate(arguments, &file).output().expect("the program");
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
        assert!(output.status.success(), "{arguments:?}: {out}{err}");
        out
    };
    let record = folder.path().join("page");
    std::fs::write(&record, pages()[0].value.as_deref().expect("a value")).expect("a file");
    let explained = ask(&["explain", record.to_str().expect("a path")]);
    assert!(explained.contains("http://a/1") && explained.contains(TEXT), "{explained}");
    let tapped = ask(&["tap", "--kept", "--limit", "3"]);
    assert!(["a", "b", "c"].iter().all(|site| tapped.contains(&format!("http://{site}/1"))), "{tapped}");
    let replayed =
        ask(&["replay", "run", "--from", "start", "--order", "time", "--into", "none", "--id", "x", "--execute"]);
    assert!(replayed.contains(r#""verdicts":{"exact":1,"unique":2}"#), "{replayed}");
    let running = file.to_str().expect("a path");
    let warmed = ask(&["index", "warm", "--running", running, "--once", "--execute", "-s", "match.seed=other"]);
    assert!(warmed.contains(r#""asked":2,"#) && warmed.contains(r#""refused":0,"#), "{warmed}");
    instance.stop();
}

#[test]
fn stopping_while_the_registry_is_away_loses_nothing() {
    let Some(broker) = Broker::shared() else { return };
    let (registry, site, folder) = (Registry::default(), Site::new(broker, 1), tempfile::tempdir().expect("a folder"));
    let settings = settings(&registry);
    // The second request shows that the first one was not enough.
    let wait_until_asked = || {
        let before = registry.asked.load(Ordering::SeqCst);
        wait::until("two requests", || (registry.asked.load(Ordering::SeqCst) >= before + 2).then_some(()));
    };
    let instance = site.start_with("one", settings.clone());
    produce(broker, &site.input, 0, &pages());
    wait_until_asked();
    instance.stop_within(STOP_LIMIT);
    let file = operator_file(&site, folder.path(), &settings);
    let replay = ["replay", "run", "--from", "start", "--order", "time", "--id", "x", "--execute"];
    let mut replay = Process::start(dupgate(&replay, &file).stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until_asked();
    let sent = Command::new("kill").arg(replay.id().to_string()).status().expect("kill runs");
    assert!(sent.success(), "SIGTERM was not sent");
    wait::within(STOP_LIMIT, "the replay to stop", || replay.try_wait().expect("a status"));
    registry.is_there.store(true, Ordering::SeqCst);
    let resumed = dupgate(&["replay", "resume", "x"], &file).output().expect("the program");
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let instance = site.start_with("one", settings);
    committed(broker, &site.unique, 2);
    committed(broker, &site.duplicate, 1);
    instance.stop();
    assert_eq!(committed(broker, &site.unique, 2).len() + committed(broker, &site.duplicate, 1).len(), 3);
    assert_eq!(count(broker, &site.dead), 0);
}

#[test]
fn records_wait_for_the_registry_and_an_unknown_schema_is_a_dead_letter() {
    let Some(broker) = Broker::shared() else { return };
    let (registry, cli) = (Registry::default(), CliRunner::new(broker));
    let more = format!(
        "input: {{format: avro, schema_registry: {{url: \"{}\"}}, fields: {{id: /url, text: /body, html: null}}}}\n",
        registry.serve()
    );
    cli.create_topics(broker.address(), &more, &["--partitions", "1"]);
    let check = || cli.ask_with(broker.address(), &more, &["check"]).out;
    let shown = check();
    assert!(shown.contains("schema registry") && shown.contains("gives no answer: HTTP 503"), "{shown}");
    let _service = Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-c", &cli.files(broker.address(), &more)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(cli.log_of("service")),
    );
    let pages = [page(7, "http://a/1", TEXT), page(8, "http://c/1", TEXT), page(7, "http://b/1", TEXT)];
    let before = registry.asked.load(Ordering::SeqCst);
    produce(broker, &cli.input, 0, &pages);
    wait::until("repeated requests", || (registry.asked.load(Ordering::SeqCst) >= before + 3).then_some(()));
    let log = cli.log("service");
    assert!(log.contains("the schema registry does not answer") && log.contains("HTTP 503"), "{log}");
    assert_eq!(cli.outputs.iter().map(|topic| count(broker, topic)).sum::<usize>(), 0, "all wait");
    registry.is_there.store(true, Ordering::SeqCst);
    let [unique, duplicate, dead] =
        cli.outputs.clone().map(|topic| committed(broker, &topic, 1).into_iter().next().expect("a record"));
    for (got, given) in [(&unique, &pages[0]), (&dead, &pages[1]), (&duplicate, &pages[2])] {
        assert_eq!(got.value.as_deref(), given.value.as_deref().map(str::as_bytes), "byte for byte");
    }
    let why = dead.header("dupgate.error.message").join("");
    assert!(why.starts_with("schema 8 is unknown: http://127.0.0.1:") && why.ends_with("Schema not found"), "{why}");
    assert_eq!(dead.header("dupgate.error.reason"), ["undecodable"]);
    wait::until("the line", || cli.log("service").contains("the schema registry answers again").then_some(()));
    assert!(check().contains("schema registry"), "{}", check());
}
