//! OAUTHBEARER: tokens fetched from an endpoint by client id and secret, accepted by the broker, and renewed.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::broker::{Broker, wait};
use super::first_start::CliRunner;
use super::http_server;
use super::process::Process;
use super::run::text;
use super::run::topics::{committed, page, produce};
use super::secured::cli;

/// The only client of the endpoint.
const CLIENT: &str = "alice";
const CLIENT_SECRET: &str = "battery-staple";

/// An endpoint that hands out tokens as long as the process lives.
struct Endpoint {
    port: u16,
    given: Arc<AtomicUsize>,
}

impl Endpoint {
    /// Starts handing out tokens that are valid for this many seconds.
    fn start(seconds: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let given = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&given);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if answer(stream, seconds).is_some() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { port, given }
    }

    /// Number of tokens handed out.
    fn given(&self) -> usize {
        self.given.load(Ordering::Relaxed)
    }

    /// Configuration for logging in over this listener of the broker with this secret.
    fn login(&self, broker: &Broker, listener: &str, secret: &str) -> String {
        let ca = format!("{}/ca.pem", broker.way("CERTS"));
        let tls = if listener == "SASL_SSL" { format!("tls: {{ca_file: \"{ca}\"}}, ") } else { String::new() };
        let oauth = format!(
            "{{token_url: \"http://127.0.0.1:{}/token\", client_id: {CLIENT}, client_secret: {secret}, scope: pages}}",
            self.port
        );
        format!(
            "kafka: {{security: {{protocol: {}, {tls}sasl: {{mechanism: oauthbearer, oauth: {oauth}}}}}}}\n",
            listener.to_lowercase()
        )
    }
}

/// Answers one request as in RFC 6749 (section 4.4); `None` for a client that does not know the secret.
fn answer(stream: TcpStream, seconds: u64) -> Option<()> {
    let request = http_server::take(&stream)?;
    let known = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{CLIENT_SECRET}")));
    let is_known = request.header("authorization") == Some(known.as_str())
        && request.body.contains("grant_type=client_credentials")
        && request.body.contains("scope=pages");
    if is_known {
        let body = json!({"access_token": token(seconds), "token_type": "Bearer", "expires_in": seconds});
        http_server::answer(stream, "200 OK", &body)
    } else {
        let body = json!({"error": "invalid_client", "error_description": "no such client"});
        http_server::answer(stream, "401 Unauthorized", &body)?;
        None
    }
}

/// An unsigned token that names the client (RFC 7519, section 6).
fn token(seconds: u64) -> String {
    let now = dupgate::clock::wall_clock().as_secs();
    let claims = json!({"sub": CLIENT, "iat": now, "exp": now + seconds, "scope": "pages"});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims))
}

fn check(cli: &CliRunner, broker: &Broker, listener: &str, login: &str) -> super::first_start::CliOutput {
    let output = cli.ask_with(broker.way(listener), login, &["check", "-o", "table"]);
    for message in [&output.out, &output.err] {
        assert!(!message.contains(CLIENT_SECRET), "the secret is shown: {message}");
    }
    output
}

#[test]
fn a_token_from_the_endpoint_is_accepted_and_a_wrong_secret_is_refused() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let endpoint = Endpoint::start(3600);
    for listener in ["SASL_SSL", "SASL_PLAINTEXT"] {
        let output = check(&cli, broker, listener, &endpoint.login(broker, listener, CLIENT_SECRET));
        assert_eq!(output.code, Some(0), "{listener}: {}{}", output.out, output.err);
    }
    assert!(endpoint.given() > 0);
    let output = check(&cli, broker, "SASL_SSL", &endpoint.login(broker, "SASL_SSL", "wrong-staple"));
    assert_eq!(output.code, Some(77), "{}{}", output.out, output.err);
    assert!(output.out.contains("refuse the identity") && output.out.contains("kafka.security.sasl"), "{}", output.out);
    assert!(
        !output.out.contains("wrong-staple") && !output.err.contains("wrong-staple"),
        "{}{}",
        output.out,
        output.err
    );
}

#[test]
fn the_service_renews_its_tokens() {
    let Some(broker) = Broker::secured() else { return };
    let cli = cli(broker);
    let endpoint = Endpoint::start(5);
    let login = endpoint.login(broker, "SASL_SSL", CLIENT_SECRET);
    let _service = Process::start(
        Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-q", "-c", &cli.files(broker.way("SASL_SSL"), &login)])
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    );
    produce(broker, &cli.input, 0, &[page(&text(1)), page(&text(1))]);
    assert_eq!((committed(broker, &cli.outputs[0], 1).len(), committed(broker, &cli.outputs[1], 1).len()), (1, 1));
    // Each client has its own token: three times as many means two rounds of renewals.
    let first = endpoint.given();
    wait::until("renewed tokens", || (endpoint.given() >= first * 3).then_some(()));
    produce(broker, &cli.input, 0, &[page(&text(2))]);
    assert_eq!(committed(broker, &cli.outputs[0], 2).len(), 2);
}
