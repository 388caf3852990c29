//! Operators' views of a running service: its summary, verdicts and index.

use serde_json::Value;
use std::process::{Command, Stdio};

use super::broker::{Broker, wait};
use super::first_start::{CliOutput, CliRunner};
use super::process::Process;
use super::run::text;
use super::run::topics::{Given, committed, page, produce};

/// How soon an instance says that verdicts are missing, in seconds by its own clock.
const SILENCE: u64 = 3;

/// A service with its configuration.
struct Running<'b> {
    broker: &'b Broker,
    cli: CliRunner,
    port: u16,
    _process: Process,
}

impl<'b> Running<'b> {
    /// Creates the topics as an operator does, and starts the service.
    fn start(broker: &'b Broker) -> Self {
        Self::start_with(broker, &[])
    }

    /// The same, with further arguments.
    fn start_with(broker: &'b Broker, more: &[&str]) -> Self {
        let cli = CliRunner::new(broker);
        let made =
            cli.ask_with(broker.address(), "", &["topics", "create", "--with-input", "--partitions", "2", "--execute"]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        let port = dupgate_testkit::ports::two();
        let process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_dupgate"))
                .args(["run", "-c", &cli.files(broker.address(), &Self::listen(port))])
                .args(more)
                .env("ADMIN_TOKEN", TOKEN)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(cli.log_of("service")),
        );
        Self { broker, cli, port, _process: process }
    }

    /// The port of the admin listener is the next one.
    fn listen(port: u16) -> String {
        format!(
            "http: {{listen: \"127.0.0.1:{port}\", admin: {{listen: \"127.0.0.1:{}\", token: {{env: ADMIN_TOKEN}}, text: full}}}}\n\
             index: {{snapshot: {{interval: 1s}}}}\n",
            port + 1
        )
    }

    fn ask(&self, arguments: &[&str]) -> CliOutput {
        self.cli.ask_with(self.broker.address(), &Self::listen(self.port), arguments)
    }

    /// Runs a command with JSON lines as output.
    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.ask(&[arguments, &["-o", "jsonl"]].concat());
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.err);
        output.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// The operators' token.
pub(super) const TOKEN: &str = "known to operators";

fn with_id(id: &str, text: &str) -> Given {
    Given::value(&serde_json::json!({"url": id, "text": text}).to_string())
}

#[test]
fn operators_see_a_running_service() {
    let Some(broker) = Broker::shared() else { return };
    let running = Running::start(broker);
    wait::until("readiness", || (running.ask(&["status", "--ready"]).code == Some(0)).then_some(()));

    // Verdicts as they happen: a watcher sees only new ones.
    let (first, copy) = (with_id("http://a/1", &text(1)), with_id("http://b/1", &text(1)));
    let input = running.cli.input.clone();
    let tapped = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| running.lines(&["tap", "--verdict", "exact", "--limit", "1"]));
        produce(broker, &input, 0, std::slice::from_ref(&first));
        committed(broker, &running.cli.outputs[0], 1);
        // The watcher may not have started: produce copies until it has seen one.
        wait::until("a verdict", || {
            produce(broker, &input, 1, std::slice::from_ref(&copy));
            watcher.is_finished().then_some(())
        });
        watcher.join().expect("the watcher")
    });
    let [seen] = &tapped[..] else { panic!("{tapped:?}") };
    assert_eq!((&seen["id"], &seen["match_id"]), (&"http://b/1".into(), &"http://a/1".into()), "{seen}");
    assert_eq!((&seen["match"], &seen["distance"]), (&format!("{input}:0:0").into(), &0.into()));

    // The same from the log, by position and by id.
    let shown = running.lines(&["verdicts", "show", &format!("{input}:1:0")]);
    assert_eq!((&shown[0]["verdict"], &shown[0]["match"]), (&"exact".into(), &format!("{input}:0:0").into()));
    let shown = running.lines(&["verdicts", "show", "--id", "http://a/1", "--duplicates"]);
    assert_eq!((&shown[0]["source"], &shown[0]["verdict"]), (&format!("{input}:0:0").into(), &"unique".into()));
    assert!(shown.len() > 1 && shown[1..].iter().all(|verdict| verdict["verdict"] == "exact"), "{shown:?}");
    let shown = running.lines(&["verdicts", "show", "--id", "http://b/1"]);
    assert!(
        shown.iter().any(|verdict| verdict["source"] == format!("{input}:1:0") && verdict["verdict"] == "exact"),
        "{shown:?}"
    );
    // Without an instance, in the output topic.
    committed(broker, &running.cli.outputs[1], 1);
    let alone = |id: &str, more: &[&str]| {
        let arguments = [&["verdicts", "show", "--id", id, "-o", "jsonl"], more].concat();
        running.cli.ask_with(broker.address(), "", &arguments)
    };
    let shown = alone("http://b/1", &[]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    let is_copy = |line: &str| line.contains(&format!("\"source\":\"{input}:1:0\"")) && line.contains("\"exact\"");
    assert!(shown.out.lines().any(is_copy), "{}", shown.out);
    assert!(!alone("http://a/1", &[]).err.contains("searching"), "an original is in the log");
    let both = alone("http://a/1", &["--since", "start"]);
    assert!(both.code == Some(0) && both.err.contains("searching http://a/1 in topic"), "{}", both.err);
    let none = alone("http://none/", &[]);
    assert_eq!(none.code, Some(1), "{}", none.err);
    let place = format!("topic `{}`, from 20", running.cli.outputs[1]);
    for part in ["http://none/ is in none of the last ", &place, "it holds no more"] {
        assert!(none.err.contains(part), "{part}: {}", none.err);
    }
    let none = running.ask(&["verdicts", "show", &format!("{input}:1:999999")]);
    assert_eq!(none.code, Some(1), "{}", none.err);
    assert!(none.err.contains("or a dead letter, which is never judged"), "{}", none.err);
    let top = running.lines(&["index", "top", "-n", "1"]);
    assert_eq!(top[0]["cluster"], format!("{input}:0:0"));

    // The summary counts them.
    let status = wait::until("the numbers", || {
        let status = running.lines(&["status"]).remove(0);
        (status["documents"]["exact"].as_f64() >= Some(1.0)).then_some(status)
    });
    assert_eq!((&status["ready"], &status["mode"]), (&true.into(), &"route".into()), "{status}");
    assert_eq!(status["topics"], serde_json::json!([input]), "{status}");
    assert!(status["uptime_ms"].as_u64() > Some(0) && status["judge"]["0"] == 1, "{status}");
    let table = running.ask(&["status", "-o", "table"]).out;
    assert!(table.contains("ready         yes") && table.contains("judge 0       active"), "{table}");

    // The snapshot, while the service runs.
    let snapshot = wait::until("a snapshot", || {
        let output = running.ask(&["index", "stats", "-o", "json"]);
        let snapshot = (output.code == Some(0)).then(|| serde_json::from_str::<Value>(&output.out).expect("JSON"));
        // The first ones may be older than the page.
        snapshot.filter(|snapshot| snapshot[0]["originals"] != 0)
    });
    assert_eq!(snapshot[0]["originals"], 1, "{snapshot}");
    let found = running.lines(&["index", "lookup", "--id", "http://a/1"]);
    let fingerprint = found[0]["fp"].as_str().expect("a fingerprint");
    let near = running.lines(&["index", "lookup", "--fp", fingerprint, "--distance", "0"]);
    assert_eq!(near[0]["source"], format!("{input}:0:0"));
    assert_eq!(running.ask(&["index", "lookup", "--fp", "0123456789abcdef", "--distance", "0"]).code, Some(1));
    let verified = running.ask(&["index", "verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    let verified: Value = serde_json::from_str(&verified.out).expect("JSON");
    assert_eq!((&verified["verdicts"]["agree"], &verified["snapshot"]["agrees"]), (&true.into(), &true.into()));
    assert!(verified["verdicts"]["judged_again"].as_u64() >= Some(2), "{verified}");

    // The stream time is set back once, and every reader of the log takes it from there.
    let set_time = |more: &[&str]| running.ask(&[&["index", "set-time", "-o", "jsonl"], more].concat());
    let later = set_time(&["now", "--execute"]);
    assert_eq!(later.code, Some(1), "{}{}", later.out, later.err);
    let mut times = Vec::new();
    for (execute, code) in [(None, 0), (Some("--execute"), 0), (Some("--execute"), 1), (None, 1)] {
        let output = set_time(&["2020-01-01T00:00:00Z"].into_iter().chain(execute).collect::<Vec<_>>());
        assert_eq!(output.code, Some(code), "{}{}", output.out, output.err);
        let shown: Value = serde_json::from_str(&output.out).expect("JSON");
        assert_eq!(shown["done"], execute.is_some(), "{shown}");
        times.push((shown["before"].clone(), shown["after"].clone()));
    }
    let (before, after) = (times[0].0.clone(), Value::from("2020-01-01T00:00:00Z"));
    assert_ne!(before, after);
    let (changed, left) = ((before, after.clone()), (after.clone(), after));
    assert_eq!(times, [changed.clone(), changed, left.clone(), left]);
    let verified = running.ask(&["index", "verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);

    // A forgotten original cannot be forgotten again.
    let forget = ["index", "forget", "--id", "http://a/1", "--execute", "-o", "jsonl"];
    let once = running.ask(&forget);
    assert_eq!(once.code, Some(0), "{}", once.err);
    assert!(once.out.contains(&format!("\"source\":\"{input}:0:0\"")), "{}", once.out);
    let twice = running.ask(&forget);
    assert_eq!(twice.code, Some(1), "{}{}", twice.out, twice.err);
    let reopen = running.ask(&["verdicts", "reopen", &format!("{input}:0:0-1"), "--execute"]);
    assert_eq!(reopen.code, Some(0), "{}{}", reopen.out, reopen.err);
    let missing = ["index", "forget", "--source", &format!("{input}:0:77777777"), "--execute"];
    assert_eq!(running.ask(&missing).code, Some(1));
    let beyond = ["verdicts", "reopen", &format!("{input}:0:88888888-99999999"), "--execute"];
    running.ask(&beyond);
    // The judge logs what the operators' requests did, and no more.
    let count = |line: &str| running.cli.log("service").matches(line).count();
    for line in [
        "an operator request found nothing to forget",
        "an operator request found nothing to reopen",
        "an operator request forgot originals",
        "an operator request reopened a range",
        "an operator request set the stream time back",
    ] {
        wait::until(line, || (count(line) > 0).then_some(()));
    }
    for (line, times) in [
        ("an operator request forgot originals", 1),
        ("an operator request reopened a range", 1),
        ("an operator request set the stream time back", 1),
        ("an operator request found no later stream time to set back", 2),
    ] {
        assert_eq!(count(line), times, "{line}");
    }
}

/// Neither of delivered pages nor of dead letters.
#[test]
fn the_service_logs_no_text_of_a_page_at_any_level() {
    let Some(broker) = Broker::shared() else { return };
    let running = Running::start_with(broker, &["-vvv"]);
    wait::until("readiness", || (running.ask(&["status", "--ready"]).code == Some(0)).then_some(()));
    let html = "<p>The zzmarkerzz of this page is among other words, and no log may show it.</p>".repeat(20);
    let page = |url: &str| Given::value(&serde_json::json!({"url": url, "html": html}).to_string());
    let malformed = Given::value("{\"url\": \"https://a.example/3\", \"text\": \"a zzmarkerzz that never ends");
    produce(broker, &running.cli.input, 0, &[page("https://a.example/1"), page("https://b.example/2"), malformed]);
    for output in &running.cli.outputs {
        committed(broker, output, 1);
    }
    let log = running.cli.log("service");
    assert!(log.contains("\"level\":\"debug\"") || log.contains("DEBUG"), "{log}");
    assert!(!log.contains("zzmarkerzz"), "{log}");
}

#[test]
fn withdrawn_pages_are_listed() {
    let Some(broker) = Broker::shared() else { return };
    let running = Running::start(broker);
    broker.alter(&running.cli.outputs[0], &[("max.message.bytes", "20000")]);
    wait::until("readiness", || (running.ask(&["status", "--ready"]).code == Some(0)).then_some(()));
    let long: Vec<String> = (0..200).map(text).collect();
    produce(broker, &running.cli.input, 0, &[page(&long.join(" "))]);
    committed(broker, &running.cli.outputs[2], 1);
    let withdrawn = running.lines(&["verdicts", "withdrawn"]);
    assert_eq!(withdrawn[0]["source"], format!("{}:0:0", running.cli.input));
    assert_eq!(withdrawn[0]["verdict"], "withdrawn");
    let kept = running.lines(&["tap", "--kept", "--verdict", "withdrawn"]);
    assert_eq!((kept.len(), &kept[0]["source"]), (1, &withdrawn[0]["source"]), "{kept:?}");
}

#[test]
fn a_worker_without_a_judge_reports_it_and_its_lag_counts_uncommitted_pages() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let made = cli.ask_with(broker.address(), "", &["topics", "create", "--with-input", "--execute"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let start = |name: &str, more: &str| {
        Process::start(
            Command::new(env!("CARGO_BIN_EXE_dupgate"))
                .args(["run", "-q", "-c", &cli.files(broker.address(), more)])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(cli.log_of(name)),
        )
    };
    let (port, other) = (dupgate_testkit::ports::two(), dupgate_testkit::ports::two());
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let ask = |path: &str| super::cluster::http::get(address, path);
    let metric = |name: &str| super::cluster::http::sum(&ask("/metrics")?.1, name, &[]);
    let _worker = start("worker", &format!("roles: [worker]\nhttp: {{listen: \"{address}\"}}\n"));
    wait::until("readiness", || (ask("/readyz")?.0 == 200).then_some(()));
    produce(broker, &cli.input, 0, &[page_of(1), page_of(2), page_of(3)]);
    // However slow the machine is: who asks when they have waited for so long, by the clock of the worker, is told.
    let waited = || metric("dupgate_oldest_pending_verdict_seconds");
    let status = wait::until("`dupgate status` to report the silence", || {
        let is_late = waited()? > f64::from(u32::try_from(SILENCE).expect("seconds"));
        let status = cli.ask_with(broker.address(), "", &["status", "--address", &address.to_string()]);
        let is_reported = status.out.contains("no judge answers");
        assert!(is_reported || !is_late, "more than {SILENCE} s: {}{}", status.out, status.err);
        is_reported.then_some(status)
    });
    let message = wait::until("the silence", || {
        let (status, text) = ask("/readyz?verbose")?;
        (status == 503).then_some(text)
    });
    assert!(
        message.contains("[-] verdicts: none for ") && message.contains("3 pages wait; no judge answers"),
        "{message}"
    );
    assert!(message.contains("[-] worker: waits for verdicts"), "{message}");
    // The log has it as soon as it is known, and readiness and `dupgate status` agree.
    let seconds = |text: &str| -> Option<u64> {
        text.split_once("none for ")?.1.split_once(" s (3 pages wait; no judge answers)")?.0.parse().ok()
    };
    let log = cli.log("worker");
    let logged = seconds(&log).filter(|logged| *logged <= SILENCE).unwrap_or_else(|| panic!("{log}"));
    assert!(seconds(&message).is_some_and(|seconds| seconds >= logged), "{message}");
    assert!(seconds(&status.out).is_some_and(|seconds| seconds >= logged), "{}{}", status.out, status.err);
    // All three were read long ago, and none is committed.
    wait::until("the lag", || (metric("dupgate_consumer_lag_records")? >= 3.0).then_some(()));
    assert!(wait::until("how long they wait", waited) >= 2.0);

    let _judge = start("judge", &format!("roles: [judge]\nhttp: {{listen: \"127.0.0.1:{other}\"}}\n"));
    committed(broker, &cli.outputs[0], 3);
    wait::until("readiness again", || (ask("/readyz")?.0 == 200).then_some(()));
    wait::until("no lag", || (metric("dupgate_consumer_lag_records")? <= 0.0).then_some(()));
    wait::until("no page to wait", || (waited()? <= 0.0).then_some(()));
}

#[test]
fn a_standby_says_how_long_it_waits_at_most_until_it_takes_over_from_a_killed_judge() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let made = cli.ask_with(broker.address(), "", &["topics", "create", "--with-input", "--execute"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let start = |name: &str, roles: &str, port: u16| {
        let more = format!(
            "roles: [{roles}]\nhttp: {{listen: \"127.0.0.1:{port}\"}}\n\
             index: {{path: \"{}\"}}\njudge: {{session_timeout: 20s}}\n",
            cli.folder(name).display()
        );
        Process::start(
            Command::new(env!("CARGO_BIN_EXE_dupgate"))
                .args(["run", "-q", "-c", &cli.files(broker.address(), &more)])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(cli.log_of(name)),
        )
    };
    let [judge_port, standby_port, worker_port] = [(); 3].map(|()| dupgate_testkit::ports::two());
    let ask = |port: u16| super::cluster::http::get(([127, 0, 0, 1], port).into(), "/readyz?verbose");
    let is_ready = |port: u16| ask(port).is_some_and(|(status, _)| status == 200);
    let mut judge = start("judge", "judge", judge_port);
    wait::until("the judge to be ready", || is_ready(judge_port).then_some(()));
    let _worker = start("worker", "worker", worker_port);
    produce(broker, &cli.input, 0, &[page_of(1)]);
    committed(broker, &cli.outputs[0], 1);
    let _standby = start("standby", "judge", standby_port);
    wait::until("the standby to be ready", || is_ready(standby_port).then_some(()));

    judge.kill().expect("the judge is killed");
    produce(broker, &cli.input, 0, &[page_of(2)]);
    let (status, text) = wait::until("the standby to report that no instance judges", || {
        ask(standby_port).filter(|(_, text)| text.contains("no instance judges"))
    });
    // Its predecessor's session has begun before the silence, and the silence lasts two seconds by now.
    let left = text.split_once("waits to take over (at most ").and_then(|(_, rest)| rest.split_once(" s): "));
    let left: Option<u64> = left.and_then(|(seconds, _)| seconds.parse().ok());
    assert!(status == 503 && left.is_some_and(|seconds| (1..=18).contains(&seconds)), "{text}");
    let log = cli.log("standby");
    assert!(log.contains("no instance judges: waiting to take over (at most "), "{log}");
    committed(broker, &cli.outputs[0], 2);
    wait::until("the standby to be ready again", || is_ready(standby_port).then_some(()));
}

#[test]
fn an_unreachable_instance_is_reported() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    let output = cli.ask_with(broker.address(), "", &["status", "--address", "127.0.0.1:1"]);
    assert_eq!(output.code, Some(69), "{}", output.err);
    assert!(output.err.contains("cannot reach http://127.0.0.1:1"), "{}", output.err);
    let output = cli.ask_with(broker.address(), "", &["index", "stats"]);
    assert_eq!(output.code, Some(74), "{}", output.err);
    let output = cli.ask_with(broker.address(), "", &["tap"]);
    assert_eq!(output.code, Some(78), "{}", output.err);
    assert!(output.err.contains("nothing was judged under scheme"), "{}", output.err);
}

/// Sends a request to the admin listener, as its page does.
fn operators(running: &Running<'_>, request: &str, body: &str) -> (u16, Value) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", running.port + 1)).expect("the listener");
    let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}", body.len());
    write!(stream, "{request} HTTP/1.0\r\n{head}\r\n\r\n{body}").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn operators_inspect_and_control_a_running_instance() {
    let Some(broker) = Broker::shared() else { return };
    let running = Running::start(broker);
    wait::until("readiness", || (running.ask(&["status", "--ready"]).code == Some(0)).then_some(()));
    let (first, copy) = (with_id("http://a/1", &text(1)), with_id("http://b/1", &format!("{} <script>", text(1))));
    produce(broker, &running.cli.input, 0, std::slice::from_ref(&first));
    committed(broker, &running.cli.outputs[0], 1);
    // A listener receives only new pairs: produce copies until one is reported.
    let message = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| running.lines(&["tap", "--running", "--verdict", "near", "--limit", "1"]));
        wait::until("a pair", || {
            produce(broker, &running.cli.input, 1, std::slice::from_ref(&copy));
            watcher.is_finished().then_some(())
        });
        watcher.join().expect("the watcher")
    });
    let source = format!("{}:1:0", running.cli.input);
    assert_eq!(
        (&message[0]["id"], &message[0]["match_id"]),
        (&"http://b/1".into(), &"http://a/1".into()),
        "{}",
        message[0]
    );
    assert!(message[0]["differs"].to_string().contains("<script>"), "{}", message[0]);
    let (status, pair) = operators(&running, &format!("GET /api/v1/pairs/{source}"), "");
    assert_eq!((status, &pair["verdict"], &pair["text"]), (200, &"near".into(), &"full".into()), "{pair}");
    let whole = |other: &str| -> String {
        let runs = pair["runs"].as_array().expect("runs").iter().filter(|run| run["side"] != other);
        runs.map(|run| run["text"].as_str().unwrap_or_default()).collect()
    };
    assert_eq!(whole("own") + " <script>", whole("match"), "the compared texts: {pair}");

    // The index, by the command line and as a page would be judged.
    let judge = running.lines(&["index", "stats", "--running"]).remove(0);
    assert_eq!((&judge["role"], &judge["originals"]), (&"active".into(), &1.into()), "{judge}");
    let found = running.lines(&["index", "lookup", "--running", "--id", "http://a/1"]);
    let code = found[0]["fp"].as_str().expect("a fingerprint");
    let near = running.lines(&["index", "lookup", "--running", "--fp", code, "--distance", "64"]);
    assert_eq!((near.len(), &near[0]["distance"]), (1, &0.into()));
    assert_eq!(running.ask(&["index", "lookup", "--running", "--id", "http://none"]).code, Some(1));
    let page = first.value.as_deref().expect("a page");
    let (_, explained) = operators(&running, "POST /api/v1/explain", page);
    assert_eq!(
        (&explained["fp"], &explained["nearest"][0]["source"]),
        (&code.into(), &found[0]["source"]),
        "{explained}"
    );
    let (_, top) = operators(&running, "GET /api/v1/index/top?n=1", "");
    assert_eq!(top[0]["cluster"], format!("{}:0:0", running.cli.input));

    // A paused input does not move; pages from meanwhile are judged when it resumes.
    assert_eq!(operators(&running, "POST /api/v1/pause", ""), (200, serde_json::json!({"paused": true})));
    wait::until("a pause", || running.lines(&["status"])[0]["paused"].to_string().contains("manual").then_some(()));
    produce(broker, &running.cli.input, 0, &[page_of(2)]);
    let (_, forgotten) = operators(&running, "POST /api/v1/index/forget", "{\"id\": [\"http://a/1\"]}");
    assert_eq!(forgotten["forgotten"].as_array().map(Vec::len), Some(1), "{forgotten}");
    assert_eq!(running.lines(&["index", "top", "-n", "1"])[0]["cluster"], format!("{}:0:0", running.cli.input));
    assert_eq!(running.ask(&["verdicts", "show", &format!("{}:0:1", running.cli.input)]).code, Some(1), "it is paused");
    operators(&running, "POST /api/v1/resume", "");
    committed(broker, &running.cli.outputs[0], 2);
    assert_eq!(operators(&running, "POST /api/v1/index/snapshot", "").0, 200);
    assert_eq!(operators(&running, "PUT /api/v1/log", "{\"level\": \"warn\"}").0, 200);

    // Without the token requests are refused.
    let strange = "http: {admin: {token: not the token of it}}\n";
    let address = format!("--running=127.0.0.1:{}", running.port + 1);
    let output = running.cli.ask_with(broker.address(), strange, &["index", "stats", &address]);
    assert_eq!(output.code, Some(77), "{}", output.err);
    assert!(output.err.contains("answers 401: wrong token"), "{}", output.err);
}

fn page_of(number: u32) -> Given {
    with_id(&format!("http://a/{number}"), &text(number))
}
