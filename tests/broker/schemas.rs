//! Records that name their schema, while the Schema Registry is away and when it is back.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::broker::{Broker, wait};
use super::first_start::CliRunner;
use super::http_server;
use super::process::Process;
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

#[test]
fn records_wait_for_the_registry_and_an_unknown_schema_is_a_dead_letter() {
    const TEXT: &str = "the old bridge is closed for six weeks from monday on";
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
