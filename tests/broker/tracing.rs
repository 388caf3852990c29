//! Spans of single records, sent to a collector.
#![expect(clippy::indexing_slicing, reason = "missing members of JSON fail the test")]

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::broker::{Broker, wait};
use super::first_start::CliRunner;
use super::http_server;
use super::process::Process;
use super::run::text;
use super::run::topics::{Given, committed, page, produce};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A collector that keeps all spans, as long as the process lives.
#[derive(Clone, Default)]
struct Collector {
    port: u16,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let collector = Self { port, ..Self::default() };
        let kept = Arc::clone(&collector.spans);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = http_server::take(&stream) else { continue };
                assert_eq!(request.head[0], "POST /v1/traces HTTP/1.1");
                let body: Value = serde_json::from_str(&request.body).expect("JSON");
                let service = attribute(&body["resourceSpans"][0]["resource"], "service.name");
                assert_eq!(service, json!({"stringValue": "dupgate"}));
                let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
                kept.lock().expect("the spans").extend(spans);
                let _ = http_server::answer(stream, "200 OK", &json!({}));
            }
        });
        collector
    }

    fn named(&self, name: &str) -> Vec<Value> {
        self.spans.lock().expect("the spans").iter().filter(|span| span["name"] == name).cloned().collect()
    }
}

/// The value of an attribute of a span or of its resource.
fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |attribute| attribute["value"].clone())
}

fn time(span: &Value, key: &str) -> u64 {
    span[key].as_str().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds")
}

#[test]
fn every_sampled_record_has_a_trace_with_its_steps() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let made = cli.ask_with(broker.address(), "", &["topics", "create", "--with-input", "--execute"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let collector = Collector::start();
    let more = format!("tracing: {{otlp_endpoint: \"http://127.0.0.1:{}\", sample_ratio: 1}}\n", collector.port);
    let _service = Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-q", "-c", &cli.files(broker.address(), &more)])
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    );
    let traced = Given { headers: &[("traceparent", Some(CONTEXT))], ..page(&text(1)) };
    produce(broker, &cli.input, 0, &[traced, page(&text(1)), Given::value("{\"url\": \"cut off")]);
    let unique = committed(broker, &cli.outputs[0], 1);
    assert_eq!(unique[0].header("traceparent"), [CONTEXT], "the message's own context is unchanged");

    let process = format!("process {}", cli.input);
    let spans = wait::until("three spans", || Some(collector.named(&process)).filter(|spans| spans.len() >= 3));
    let of = |offset: &str| {
        let mut found = spans.iter().filter(|span| attribute(span, "messaging.kafka.offset")["intValue"] == offset);
        let span = found.next().expect("a span of this offset");
        assert!(found.next().is_none(), "one span a record");
        span
    };
    let (first, copy, failed) = (of("0"), of("1"), of("2"));
    let links: Vec<_> =
        first["links"].as_array().expect("links").iter().map(|l| (&l["traceId"], &l["spanId"])).collect();
    assert_eq!((&first["kind"], links), (&5.into(), vec![(&TRACE.into(), &SPAN.into())]), "{first}");
    assert_eq!(attribute(first, "dupgate.verdict")["stringValue"], "unique");
    assert_eq!(attribute(first, "messaging.consumer.group.name")["stringValue"], cli.group.as_str());
    assert_eq!(attribute(copy, "dupgate.verdict")["stringValue"], "exact");
    assert_eq!(attribute(copy, "dupgate.match")["stringValue"], format!("{}:0:0", cli.input));
    assert_eq!((&copy["links"], &copy["status"]["code"]), (&json!([]), &0.into()), "{copy}");
    assert_eq!(failed["status"], json!({"code": 2, "message": "undecodable"}));

    // Its child spans lie within it and in the same trace.
    for (span, topic) in [(first, &cli.outputs[0]), (copy, &cli.outputs[1]), (failed, &cli.outputs[2])] {
        let parts = |name: &str| -> Vec<Value> {
            let all = collector.named(name).into_iter();
            all.filter(|part| part["parentSpanId"] == span["spanId"] && part["traceId"] == span["traceId"]).collect()
        };
        // They may be in a later request than the span itself.
        let (sent, judged) = wait::until("the parts of a span", || {
            let (sent, judged) = (parts(&format!("send {topic}")), parts("judge"));
            (!sent.is_empty() && judged.is_empty() == (span == failed)).then_some((sent, judged))
        });
        assert_eq!((sent.len(), judged.len()), (1, usize::from(span != failed)), "{span}");
        for part in sent.iter().chain(&judged) {
            let (begin, end) = (time(part, "startTimeUnixNano"), time(part, "endTimeUnixNano"));
            assert!(time(span, "startTimeUnixNano") <= begin && begin <= end, "{span} {part}");
            assert!(end <= time(span, "endTimeUnixNano"), "{span} {part}");
        }
        assert_eq!(sent[0]["kind"], 4);
    }
}
