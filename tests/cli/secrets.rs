//! A password is never shown, wherever it is configured.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dupgate_testkit::ports::free_address;
use tempfile::TempDir;

use super::process::Process;
use super::wait;

const PASSWORD: &str = "hunter2hunter2hunter2";

/// Every place that takes a secret, and every property whose name marks one.
fn configuration(listen: SocketAddr, operators: SocketAddr, index: &Path, mechanism: &str) -> String {
    let oauth = format!("{{token_url: 'http://127.0.0.1:1/', client_id: c, client_secret: {PASSWORD}}}");
    let properties = format!("{{sasl.password: {PASSWORD}, ssl.keystore.password: {PASSWORD}, debug: all}}");
    // Nothing listens at the brokers' address: the program keeps trying, and logs it.
    format!(
        "version: 1
kafka:
  brokers: ['127.0.0.1:1']
  security:
    protocol: sasl_ssl
    tls: {{key_password: {PASSWORD}}}
    sasl: {{mechanism: {mechanism}, username: u, password: {PASSWORD}, oauth: {oauth}}}
  properties: {properties}
  consumer_properties: {{ssl.key.password: {PASSWORD}}}
  producer_properties: {{sasl.oauthbearer.client.secret: {PASSWORD}}}
input: {{topics: [pages], instance_id: one}}
output: {{unique: {{topic: u}}, duplicate: {{topic: d}}, dead_letter: {{topic: x}}}}
index: {{path: '{}'}}
http: {{listen: '{listen}', admin: {{listen: '{operators}', token: {PASSWORD}}}}}
logging: {{level: trace, format: json}}
",
        index.display()
    )
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn dupgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

#[test]
fn a_password_is_in_no_log_line_no_error_and_no_metric() {
    logs_no_password("scram-sha-512");
}

#[test]
fn a_client_secret_is_in_no_log_line_no_error_and_no_metric() {
    logs_no_password("oauthbearer");
}

fn logs_no_password(mechanism: &str) {
    let folder = TempDir::new().unwrap();
    let (listen, operators) = (free_address(), free_address());
    let (file, log) = (folder.path().join("dupgate.yaml"), folder.path().join("log"));
    fs::write(&file, configuration(listen, operators, &folder.path().join("index"), mechanism)).unwrap();

    let checked = dupgate().args(["validate", "-vv", "-c"]).arg(&file).output().unwrap();
    let mut report = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(checked.status.success(), "{report}");

    let out = File::create(&log).unwrap();
    let mut run = dupgate();
    run.args(["run", "-c"]).arg(&file).stdout(out.try_clone().unwrap()).stderr(out);
    let mut child = Process::start(&mut run);
    let mut scraped = String::new();
    wait::until("the client library to try the brokers, or the program to give up on them", || {
        let pages: Option<Vec<String>> =
            ["/metrics", "/config", "/status", "/readyz?verbose"].iter().map(|path| get(listen, path)).collect();
        if let Some(pages) = pages {
            scraped = pages.concat();
        }
        let output = fs::read_to_string(&log).unwrap();
        let is_tried = output.contains("librdkafka") && scraped.contains("dupgate_");
        (is_tried || child.try_wait().unwrap().is_some()).then_some(())
    });
    drop(child);
    report += &scraped;
    report += &fs::read_to_string(&log).unwrap();
    assert!(scraped.contains("dupgate_build_info") && scraped.contains("\"token\": \"[redacted]\""), "{report}");
    assert!(report.contains("librdkafka"), "the client library has logged: {report}");
    assert!(!report.contains(PASSWORD), "{mechanism}: {report}");
}

#[test]
fn no_text_of_a_page_is_logged_at_any_level() {
    let folder = TempDir::new().unwrap();
    let html = "<p>The zzmarkerzz of this page is among other words, and no log may show it.</p>".repeat(20);
    let line = serde_json::json!({"url": "https://a.example/1", "html": html}).to_string();
    fs::write(folder.path().join("pages.jsonl"), &line).unwrap();
    fs::write(folder.path().join("page.html"), &html).unwrap();
    for arguments in [&["sieve", "pages.jsonl"][..], &["explain", "page.html"], &["compare", "page.html", "page.html"]]
    {
        for more in [
            &["-v"][..],
            &["-vv"],
            &["-vvv"],
            &["-s", "logging.level=trace,dupgate=trace,dupgate::cli=trace,dupgate::worker=trace"],
        ] {
            let output = dupgate().args(arguments).args(more).current_dir(folder.path()).output().unwrap();
            let report = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?} {more:?}: {report}");
            assert!(!report.contains("zzmarkerzz"), "{arguments:?} {more:?}: {report}");
        }
    }
}
