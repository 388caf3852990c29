//! The connection: TLS, client certificates, SASL; and missing permissions.

use super::broker::Broker;
use super::first_start::{CliOutput, CliRunner};
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};

/// The password of all users on the secured broker.
pub(super) const SECRET: &str = "correct-horse";

/// A cli whose topics exist on the secured broker.
pub(super) fn cli(broker: &Broker) -> CliRunner {
    let cli = CliRunner::new(broker);
    let made = cli.ask_with(broker.address(), "", &["topics", "create", "--with-input", "--execute"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    cli
}

pub(super) fn sasl(broker: &Broker, listener: &str, mechanism: &str, user: &str, password: &str) -> String {
    let ca = format!("{}/ca.pem", broker.way("CERTS"));
    let tls = if listener == "SASL_SSL" { format!("tls: {{ca_file: \"{ca}\"}}, ") } else { String::new() };
    format!(
        "kafka: {{security: {{protocol: {}, {tls}sasl: {{mechanism: {mechanism}, username: {user}, password: \"{password}\"}}}}}}\n",
        listener.to_lowercase()
    )
}

fn check(cli: &CliRunner, broker: &Broker, listener: &str, more: &str) -> CliOutput {
    let output = cli.ask_with(broker.way(listener), more, &["check", "-o", "table"]);
    for message in [&output.out, &output.err] {
        assert!(!message.contains(SECRET), "the password is shown: {message}");
    }
    output
}

#[test]
fn every_login_mechanism_works() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    for listener in ["SASL_SSL", "SASL_PLAINTEXT"] {
        for mechanism in ["plain", "scram-sha-256", "scram-sha-512"] {
            let output = check(&cli, broker, listener, &sasl(broker, listener, mechanism, "alice", SECRET));
            assert_eq!(output.code, Some(0), "{listener} {mechanism}: {}{}", output.out, output.err);
        }
    }
}

#[test]
fn a_certificate_works_with_or_without_an_encrypted_key() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let certs = broker.way("CERTS");
    let tls = |key: &str| {
        format!(
            "kafka: {{security: {{protocol: ssl, tls: {{ca_file: {certs}/ca.pem, cert_file: {certs}/client.crt, {key}}}}}}}\n"
        )
    };
    for key in [
        format!("key_file: {certs}/client.key"),
        format!("key_file: {certs}/client.locked.key, key_password: {SECRET}"),
    ] {
        let output = check(&cli, broker, "SSL", &tls(&key));
        assert_eq!(output.code, Some(0), "{key}: {}{}", output.out, output.err);
    }
    let anonymous = format!("kafka: {{security: {{protocol: ssl, tls: {{ca_file: {certs}/ca.pem}}}}}}\n");
    assert_eq!(check(&cli, broker, "SSL", &anonymous).code, Some(69), "a client without a certificate");
}

#[test]
fn a_wrong_password_and_an_unknown_authority_are_distinguished() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let wrong = check(&cli, broker, "SASL_SSL", &sasl(broker, "SASL_SSL", "scram-sha-512", "alice", "wrong-horse"));
    assert_eq!(wrong.code, Some(77), "{}{}", wrong.out, wrong.err);
    assert!(
        wrong.out.contains("refuse the identity") && wrong.out.contains("check kafka.security.sasl"),
        "{}",
        wrong.out
    );
    assert!(!wrong.out.contains("wrong-horse") && !wrong.err.contains("wrong-horse"), "{}{}", wrong.out, wrong.err);
    let more = sasl(broker, "SASL_SSL", "scram-sha-512", "alice", "wrong-horse");
    let ran = cli.ask_with(broker.way("SASL_SSL"), &more, &["run"]);
    assert_eq!(ran.code, Some(77), "{}", ran.err);
    assert!(ran.err.contains("refuse the identity") && ran.err.contains("check kafka.security.sasl"), "{}", ran.err);
    assert!(!ran.err.contains("retrying"), "waiting does not help: {}", ran.err);
    // Without ca_file the system's authorities are used, and none has signed this broker's certificate.
    let stranger = sasl(broker, "SASL_PLAINTEXT", "plain", "alice", SECRET).replace("sasl_plaintext", "sasl_ssl");
    let stranger = check(&cli, broker, "SASL_SSL", &stranger);
    assert_eq!(stranger.code, Some(69), "{}{}", stranger.out, stranger.err);
    assert!(stranger.out.contains("certificate"), "{}", stranger.out);
}

#[test]
fn a_denied_client_error_names_the_missing_acl() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    let output = check(&cli, broker, "SASL_SSL", &bob);
    assert_eq!(output.code, Some(77), "{}{}", output.out, output.err);
    for expected in [
        format!("--operation Describe --topic '{}'", cli.input),
        format!("--operation Describe --topic '{}'", cli.outputs[0]),
        format!("--operation Write --transactional-id '{}.worker.' --resource-pattern-type prefixed", cli.group),
    ] {
        assert!(output.out.contains(&expected), "{expected}: {}", output.out);
    }
    let ran = cli.ask_with(broker.way("SASL_SSL"), &bob, &["run"]);
    assert_eq!(ran.code, Some(77), "{}", ran.err);
    assert!(ran.err.contains("add the ACL: kafka-acls.sh"), "{}", ran.err);
    let created = cli.ask_with(broker.way("SASL_SSL"), &bob, &["topics", "create", "--execute"]);
    assert_eq!(created.code, Some(77), "{}", created.err);
}

#[test]
fn the_service_works_over_tls_and_scram() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let port = dupgate_testkit::ports::two();
    let more = sasl(broker, "SASL_SSL", "scram-sha-512", "alice", SECRET)
        + &format!("http: {{listen: \"127.0.0.1:{port}\"}}\nlogging: {{level: trace}}\n");
    let mut service = Process::start(
        std::process::Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-c"])
            .arg(cli.files(broker.way("SASL_SSL"), &more))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped()),
    );
    // Read its log, or the program blocks on a full pipe.
    let pipes: [Box<dyn std::io::Read + Send>; 2] =
        [Box::new(service.stdout.take().expect("a pipe")), Box::new(service.stderr.take().expect("a pipe"))];
    let readers = pipes.map(|mut pipe| {
        std::thread::spawn(move || {
            let mut message = Vec::new();
            drop(pipe.read_to_end(&mut message));
            String::from_utf8_lossy(&message).into_owned()
        })
    });
    produce(broker, &cli.input, 0, &[page(&text(1)), page(&text(1))]);
    let (unique, duplicate) = (committed(broker, &cli.outputs[0], 1), committed(broker, &cli.outputs[1], 1));
    let shown = get(port, "/config");
    drop(service);
    assert_eq!((unique.len(), duplicate.len()), (1, 1));
    // The password is never shown: neither in the settings nor in a complete log.
    assert!(shown.contains("\"username\": \"alice\"") && shown.contains("[redacted]"), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
    let log: String = readers.map(|reader| reader.join().expect("a reader")).concat();
    assert!(log.contains("dupgate starts") && !log.contains(SECRET), "{log}");
}

/// Sends a request to the service's listener.
fn get(port: u16, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_denied_append_to_the_fingerprint_log_names_the_missing_acl() {
    use super::acl::allow;
    use rdkafka::bindings::rd_kafka_AclOperation_t::{
        RD_KAFKA_ACL_OPERATION_ALL as ALL, RD_KAFKA_ACL_OPERATION_DESCRIBE as DESCRIBE,
        RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS as DESCRIBE_CONFIGS, RD_KAFKA_ACL_OPERATION_READ as READ,
    };
    use rdkafka::bindings::rd_kafka_ResourceType_t::{
        RD_KAFKA_RESOURCE_GROUP as GROUP, RD_KAFKA_RESOURCE_TOPIC as TOPIC, RD_KAFKA_RESOURCE_TRANSACTIONAL_ID as ID,
    };
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    // Bob has all permissions except Write on this log.
    let topics = cli.outputs.iter().chain([&cli.input]).map(String::as_str);
    topics.for_each(|topic| allow(broker, "bob", TOPIC, topic, &[ALL]));
    allow(broker, "bob", TOPIC, &format!("{}.verdicts.", cli.group), &[ALL]);
    allow(broker, "bob", TOPIC, &format!("{}.fingerprints.", cli.group), &[READ, DESCRIBE, DESCRIBE_CONFIGS]);
    allow(broker, "bob", GROUP, &cli.group, &[ALL]);
    allow(broker, "bob", ID, &cli.group, &[ALL]);
    let bob = sasl(broker, "SASL_SSL", "scram-sha-512", "bob", SECRET);
    produce(broker, &cli.input, 0, &[page(&text(1))]);
    let requested = ["index", "forget", "--id", "http://a/1", "--execute"];
    for arguments in [&["run"][..], &requested] {
        let output = cli.ask_with(broker.way("SASL_SSL"), &bob, arguments);
        assert_eq!(output.code, Some(77), "{arguments:?}: {}", output.err);
        let expected = format!("--operation Write --topic '{}.fingerprints.", cli.group);
        assert!(output.err.contains("add the ACL: ") && output.err.contains(&expected), "{}", output.err);
    }
}
