use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceFlags, TraceId, TraceState};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::*;
use crate::clock::Clock;
use crate::record::PartitionId;

fn metrics() -> Metrics {
    Metrics::new(&crate::config::settings::Metrics::default()).unwrap()
}

fn span(id: u64) -> Span {
    Span {
        trace: TraceId::from(1),
        id: SpanId::from(id),
        parent: None,
        name: format!("step {id}"),
        kind: SpanKind::Internal,
        time: (Duration::from_secs(1), Duration::from_secs(2)),
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

/// Receives one request, answers it, and returns its head and body.
fn take(listener: &TcpListener, answer: &str) -> (String, String) {
    converse(listener.accept().unwrap().0, answer).unwrap()
}

fn converse(stream: impl Read + Write, answer: &str) -> io::Result<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body)?;
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 2\r\n\r\n{{}}")?;
    stream.flush()?;
    Ok((head, String::from_utf8(body).unwrap()))
}

/// Returns how many spans were dropped.
fn dropped(metrics: &Metrics) -> u64 {
    let rendered = metrics.render();
    let line = rendered.lines().find(|line| line.contains("component=\"traces\"") && line.contains("\"io\""));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn spans_reach_the_collector_and_the_last_ones_before_the_end() {
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
fn a_collector_that_refuses_or_is_unreachable_loses_only_the_spans() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = self::metrics();
    let refused = traces(&format!("http://{}", listener.local_addr().unwrap()), &metrics);
    refused.offer(span(1));
    let end = std::thread::spawn(move || drop(refused));
    take(&listener, "503 Service Unavailable");
    end.join().unwrap();
    // Nothing listens there.
    let away = traces("http://127.0.0.1:1", &metrics);
    away.offer(span(2));
    drop(away);
    assert_eq!(dropped(&metrics), 2);
}

#[test]
fn a_silent_collector_does_not_delay_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = self::metrics();
    let traces = traces(&format!("http://{}", listener.local_addr().unwrap()), &metrics);
    let clock = Clock::start();
    (1..=u64::try_from(MAX_WAITING).unwrap() + BATCH as u64 + 10).for_each(|number| traces.offer(span(number)));
    assert!(clock.now() < REQUEST_TIMEOUT, "nothing waits for it");
    assert!(dropped(&metrics) >= 10, "{}", dropped(&metrics));
    drop(traces);
    // All batches together would take as long as some requests; the rest is for a busy machine.
    assert!(clock.now() < SHUTDOWN_TIMEOUT + 3 * REQUEST_TIMEOUT, "{:?}", clock.now());
}

#[test]
fn spans_are_encoded_as_otlp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let traces = traces(&format!("http://{}", listener.local_addr().unwrap()), &metrics());
    let flags = TraceFlags::default();
    traces.offer(Span {
        trace: TraceId::from(0xabc),
        parent: Some(SpanId::from(2)),
        kind: SpanKind::Consumer,
        time: (Duration::from_nanos(1_760_000_000_000_000_001), Duration::from_secs(1_760_000_001)),
        attributes: vec![KeyValue::new("messaging.system", "kafka"), KeyValue::new("messaging.kafka.offset", 7)],
        link: Some(SpanContext::new(TraceId::from(5), SpanId::from(6), flags, true, TraceState::default())),
        error: Some("undecodable".to_owned()),
        ..span(1)
    });
    let end = std::thread::spawn(move || drop(traces));
    let body: Value = serde_json::from_str(&take(&listener, "200 OK").1).unwrap();
    end.join().unwrap();
    let spans = &body["resourceSpans"][0];
    assert_eq!(spans["resource"]["attributes"], json!([{"key": "service.name", "value": {"stringValue": "dupgate"}}]));
    let span = &spans["scopeSpans"][0]["spans"][0];
    for (key, value) in [
        ("traceId", json!("00000000000000000000000000000abc")),
        ("spanId", json!("0000000000000001")),
        ("parentSpanId", json!("0000000000000002")),
        ("name", json!("step 1")),
        ("kind", json!(5)),
        ("startTimeUnixNano", json!("1760000000000000001")),
        ("endTimeUnixNano", json!("1760000001000000000")),
        (
            "attributes",
            json!([
                {"key": "messaging.system", "value": {"stringValue": "kafka"}},
                {"key": "messaging.kafka.offset", "value": {"intValue": "7"}},
            ]),
        ),
        ("status", json!({"code": 2, "message": "undecodable"})),
    ] {
        assert_eq!(span[key], value, "{key} of {span:#}");
    }
    let link = &span["links"][0];
    let trace = "00000000000000000000000000000005";
    assert_eq!((&link["traceId"], &link["spanId"]), (&json!(trace), &json!("0000000000000006")));
}

/// A collector with TLS whose certificate is of a separate authority, and that authority.
fn collector_with_tls() -> (TcpListener, Arc<ServerConfig>, CertificateDer<'static>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(config), issuer.der().clone())
}

#[test]
fn spans_reach_a_collector_by_tls_if_its_certificate_is_trusted() {
    let (listener, config, authority) = collector_with_tls();
    let endpoint: Endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    let metrics = self::metrics();
    let serve = || {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        converse(StreamOwned::new(connection, listener.accept().unwrap().0), "200 OK")
    };
    let send = |authorities: &[CertificateDer<'_>]| {
        let clock = Clock::start();
        let client = HttpClient::trusting(authorities);
        let now = move || clock.instant();
        let traces = Traces::start_with(client, endpoint.clone(), Vec::new(), metrics.clone(), now).unwrap();
        traces.offer(span(1));
        std::thread::spawn(move || drop(traces))
    };
    let end = send(&[authority]);
    let (head, body) = serve().unwrap();
    end.join().unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && body.contains("step 1"), "{head}{body}");
    assert_eq!(dropped(&metrics), 0);

    let end = send(&[]);
    assert!(serve().is_err(), "no span is sent to a collector that is not trusted");
    end.join().unwrap();
    assert_eq!(dropped(&metrics), 1);
}

#[test]
fn the_sampled_share_is_the_ratio() {
    let partition = PartitionId::new("pages", 3);
    let chosen = |ratio: f64| {
        let sampler = Sampler::new(ratio);
        (0..20_000).filter(|offset| sampler.takes(&partition.at(*offset))).count()
    };
    assert_eq!((chosen(0.0), chosen(1.0), chosen(7.0)), (0, 20_000, 20_000));
    let tenth = chosen(0.1);
    assert!((1800..2200).contains(&tenth), "{tenth}");
}

#[test]
fn only_a_traceparent_is_linked_to() {
    let of = |text: &str| traceparent(text.as_bytes());
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let known = |context: Option<SpanContext>| {
        let context = context.unwrap();
        assert_eq!((context.trace_id().to_string(), context.span_id().to_string()), (trace.into(), span.into()));
    };
    known(of(&format!("00-{trace}-{span}-01")));
    // Later versions may have more.
    known(of(&format!("cc-{trace}-{span}-01-more")));
    for wrong in [
        "",
        "00",
        "\u{fc}",
        &format!("ff-{trace}-{span}-01"),
        &format!("00-{}-{span}-01", "0".repeat(32)),
        &format!("00-{trace}-{}-01", "0".repeat(16)),
        &format!("00-{}-{span}-01", trace.to_uppercase()),
        &format!("00-{trace}-{span}0-01"),
    ] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
}
