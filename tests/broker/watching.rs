//! What operators see of a running service: its summary, its verdicts, its rulings, its index.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::broker::{Broker, wait};
use super::operate::{Desk, Said};
use super::run::text;
use super::run::topics::{Given, committed, page, produce};

/// A service with its configuration.
struct Running<'b> {
    broker: &'b Broker,
    desk: Desk,
    port: u16,
    child: Child,
}

impl<'b> Running<'b> {
    /// Creates the topics as an operator does, and starts the service.
    fn start(broker: &'b Broker) -> Self {
        let desk = Desk::new(broker);
        let made = desk.ask_with(
            broker.address(),
            "",
            &["topics", "create", "--with-input", "--partitions", "2", "--execute"],
        );
        assert_eq!(made.code, Some(0), "{}", made.err);
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let child = Command::new(env!("CARGO_BIN_EXE_dupgate"))
            .args(["run", "-q", "-c", &desk.files(broker.address(), &Self::listen(port))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program");
        Self { broker, desk, port, child }
    }

    fn listen(port: u16) -> String {
        format!("http: {{listen: \"127.0.0.1:{port}\"}}\nindex: {{snapshot: {{interval: 1s}}}}\n")
    }

    fn ask(&self, arguments: &[&str]) -> Said {
        self.desk.ask_with(self.broker.address(), &Self::listen(self.port), arguments)
    }

    /// Asks for JSON lines.
    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let said = self.ask(&[arguments, &["-o", "jsonl"]].concat());
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.err);
        said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn with_id(id: &str, text: &str) -> Given {
    Given::value(&serde_json::json!({"url": id, "text": text}).to_string())
}

#[test]
fn a_running_service_shows_what_it_does() {
    let Some(broker) = Broker::shared() else { return };
    let running = Running::start(broker);
    wait::until("readiness", || (running.ask(&["status", "--ready"]).code == Some(0)).then_some(()));

    // Verdicts as they happen: whoever watches sees what comes from now on.
    let (first, copy) = (with_id("http://a/1", &text(1)), with_id("http://b/1", &text(1)));
    let input = running.desk.input.clone();
    let tapped = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| running.lines(&["tap", "--verdict", "exact", "--limit", "1"]));
        produce(broker, &input, 0, std::slice::from_ref(&first));
        committed(broker, &running.desk.outputs[0], 1);
        // The watcher may not be there yet: copies come until it has seen one.
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
    let shown = running.lines(&["rulings", "show", &format!("{input}:1:0")]);
    assert_eq!((&shown[0]["verdict"], &shown[0]["match"]), (&"exact".into(), &format!("{input}:0:0").into()));
    let shown = running.lines(&["rulings", "show", "--id", "http://a/1", "--duplicates"]);
    assert_eq!((&shown[0]["source"], &shown[0]["verdict"]), (&format!("{input}:0:0").into(), &"unique".into()));
    assert!(shown.len() > 1 && shown[1..].iter().all(|ruling| ruling["verdict"] == "exact"), "{shown:?}");
    let none = running.ask(&["rulings", "show", &format!("{input}:1:999999")]);
    assert_eq!(none.code, Some(1), "{}", none.err);
    let top = running.lines(&["index", "top", "-n", "1"]);
    assert_eq!(top[0]["cluster"], format!("{input}:0:0"));

    // The summary knows of them.
    let status = wait::until("the figures", || {
        let status = running.lines(&["status"]).remove(0);
        (status["documents"]["exact"].as_f64() >= Some(1.0)).then_some(status)
    });
    assert_eq!((&status["ready"], &status["mode"]), (&true.into(), &"route".into()), "{status}");
    let table = running.ask(&["status", "-o", "table"]).out;
    assert!(table.contains("ready         yes") && table.contains("0 judges"), "{table}");

    // The snapshot, while the service runs.
    let snapshot = wait::until("a snapshot", || {
        let said = running.ask(&["index", "stats", "-o", "json"]);
        (said.code == Some(0)).then(|| serde_json::from_str::<Value>(&said.out).expect("JSON"))
    });
    assert_eq!(snapshot[0]["originals"], 1, "{snapshot}");
    let found = running.lines(&["index", "lookup", "--id", "http://a/1"]);
    let fingerprint = found[0]["fp"].as_str().expect("a fingerprint");
    let near = running.lines(&["index", "lookup", "--fp", fingerprint, "--distance", "0"]);
    assert_eq!(near[0]["source"], format!("{input}:0:0"));
    assert_eq!(running.ask(&["index", "lookup", "--fp", "0123456789abcdef", "--distance", "0"]).code, Some(1));
    let verified = running.ask(&["index", "verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    assert!(verified.out.starts_with("ok  log 0 at offset "), "{}", verified.out);
}

#[test]
fn what_is_withdrawn_is_listed() {
    let Some(broker) = Broker::shared() else { return };
    let running = Running::start(broker);
    broker.alter(&running.desk.outputs[0], &[("max.message.bytes", "20000")]);
    wait::until("readiness", || (running.ask(&["status", "--ready"]).code == Some(0)).then_some(()));
    let long: Vec<String> = (0..200).map(text).collect();
    produce(broker, &running.desk.input, 0, &[page(&long.join(" "))]);
    committed(broker, &running.desk.outputs[2], 1);
    let withdrawn = running.lines(&["rulings", "withdrawn"]);
    assert_eq!(withdrawn[0]["source"], format!("{}:0:0", running.desk.input));
    assert_eq!(withdrawn[0]["verdict"], "withdrawn");
}

#[test]
fn nobody_who_listens_is_told_as_such() {
    let Some(broker) = Broker::shared() else { return };
    let desk = Desk::new(broker);
    let said = desk.ask_with(broker.address(), "", &["status", "--address", "127.0.0.1:1"]);
    assert_eq!(said.code, Some(69), "{}", said.err);
    assert!(said.err.contains("nobody answers on http://127.0.0.1:1"), "{}", said.err);
    let said = desk.ask_with(broker.address(), "", &["index", "stats"]);
    assert_eq!(said.code, Some(74), "{}", said.err);
    let said = desk.ask_with(broker.address(), "", &["tap"]);
    assert_eq!(said.code, Some(78), "{}", said.err);
    assert!(said.err.contains("nothing was judged under scheme"), "{}", said.err);
}
