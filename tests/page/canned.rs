//! A listener that serves both pages as the service does, with canned answers of a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// Files of the pages by path, with their types.
const FILES: [(&str, &str, &str); 10] = [
    ("/ui/", "overview.html", "text/html; charset=utf-8"),
    ("/ui/overview.css", "overview.css", "text/css"),
    ("/ui/overview.js", "overview.js", "text/javascript"),
    ("/ui/pairs", "pairs.html", "text/html; charset=utf-8"),
    ("/ui/pairs.css", "pairs.css", "text/css"),
    ("/ui/pairs.js", "pairs.js", "text/javascript"),
    ("/ui/colours.css", "colours.css", "text/css"),
    ("/ui/access.js", "access.js", "text/javascript"),
    ("/ui/vendor/uplot.css", "vendor/uplot.css", "text/css"),
    ("/ui/vendor/uplot.js", "vendor/uplot.js", "text/javascript"),
];

/// Stops when dropped: then nothing listens at its address.
pub(super) struct Canned {
    address: String,
    answer: Arc<Mutex<Value>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Canned {
    /// Listens at this address with these answers.
    pub(super) fn start(address: &str, answer: Value) -> Self {
        let listener = TcpListener::bind(address).expect("an address");
        let (answer, is_over) = (Arc::new(Mutex::new(answer)), Arc::new(AtomicBool::new(false)));
        let (answers, ends) = (Arc::clone(&answer), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                // A browser opens connections that it does not use: do not wait for them.
                let answers = Arc::clone(&answers);
                std::thread::spawn(move || drop(serve(&stream, &answers)));
            }
        });
        Self { address: address.to_owned(), answer, is_over, thread: Some(thread) }
    }

    /// Replaces the answers.
    pub(super) fn change(&self, change: impl FnOnce(&mut Value)) {
        change(&mut self.answer.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(&self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn serve(mut stream: &TcpStream, answer: &Mutex<Value>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.take(65_536)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let target = request.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let number = |name: &str| {
        let given = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        given.and_then(|given| given.parse::<u64>().ok())
    };
    let json_response = |json_response: Value| ("200 OK", "application/json", json_response.to_string());
    let answer = || answer.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, kind, body) = match path {
        "/api/v1/overview" => json_response(after(&answer(), number("since").unwrap_or(0))),
        "/api/v1/pairs" => json_response(page(&answer(), number("before"))),
        "/api/v1/index/top" => json_response(answer()["clusters"].clone()),
        _ if path.starts_with("/api/v1/pairs/") => json_response(opened(path)),
        _ => match FILES.iter().find(|(known, ..)| *known == path) {
            Some((_, name, kind)) => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/telemetry/page");
                ("200 OK", *kind, std::fs::read_to_string(folder.join(name))?)
            }
            None => ("204 No Content", "text/plain", String::new()),
        },
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'self'\r\nConnection: close\r\n\r\n{body}"
    )
}

/// The answer with only the samples after this number.
fn after(answer: &Value, since: u64) -> Value {
    let mut answer = answer.clone();
    let numbers = answer["samples"]["number"].as_array().cloned().unwrap_or_default();
    let old = numbers.iter().filter(|number| number.as_u64().is_some_and(|number| number <= since)).count();
    for column in answer["samples"].as_object_mut().into_iter().flatten() {
        column.1.as_array_mut().into_iter().for_each(|values| drop(values.drain(..old)));
    }
    answer
}

/// The answer of a healthy instance with this start time and this many samples.
pub(super) fn answer(started_ms: u64, samples: u64) -> Value {
    let numbers: Vec<u64> = (1..=samples).collect();
    let column = |value: &dyn Fn(u64) -> Value| -> Value { numbers.iter().map(|number| value(*number)).collect() };
    let at_ms = started_ms + samples * 5000;
    let mut columns = json!({"number": numbers, "at_ms": column(&|number| json!(started_ms + number * 5000))});
    for (name, value) in [
        ("unique", json!(120)),
        ("update", json!(2)),
        ("template", json!(5)),
        ("near", json!(20)),
        ("exact", json!(10)),
        ("bypass", json!(0)),
        ("dead_letters", json!(0)),
        ("end_to_end_p50", json!(0.3)),
        ("end_to_end_p99", json!(2.5)),
        ("verdict_wait_p50", json!(0.02)),
        ("verdict_wait_p99", json!(0.1)),
        ("lag", json!(40)),
        ("index_fill", json!(0.3)),
        ("window_reached", Value::Null),
    ] {
        columns[name] = column(&|_| value.clone());
    }
    json!({
        "instance": "canned", "group": "g", "roles": ["worker"], "version": "1.2.3", "mode": "route", "scheme": "sh64-1",
        "started_ms": started_ms, "at_ms": at_ms, "ready": true, "paused": [], "no_judge": null, "blocked": {},
        "checks": [{"name": "verdicts", "ok": true, "why": null}, {"name": "worker", "ok": true, "why": null}],
        "judges": [{"log_partition": 0, "state": "elsewhere", "since_ms": started_ms, "why": null}],
        "documents": {"unique": 1200 * samples, "near": 100 * samples, "exact": 0, "update": 0, "template": 0, "bypass": 0},
        "dead_letters": 0, "dead_letter_reasons": [], "lag": 40, "lags": [{"topic": "pages", "partition": "3", "lag": 40}],
        "index_entries": 0, "index_memory_bytes": 0, "index_memory_limit_bytes": 100, "evicted_for_capacity": 0,
        "window_ms": 604_800_000, "effective_window_ms": null, "last_commit_age_ms": 80,
        "snapshot_age_ms": null, "snapshot_interval_ms": 300_000, "snapshot_bytes": null,
        "sample_interval_ms": 5000, "samples_kept": 720, "last_sample": samples, "samples": columns,
    })
}

/// The answer of an instance with this many pairs and these clusters.
pub(super) fn pairs(newest: u64, clusters: &Value) -> Value {
    json!({"newest": newest, "clusters": clusters})
}

/// A cluster of this many duplicates whose first page is at this offset and has this id.
pub(super) fn cluster(offset: u64, duplicates: u64, id: &str) -> Value {
    json!({"cluster": format!("pages:0:{offset}"), "duplicates": duplicates, "id": id, "duplicate_id": null})
}

/// Fifty pairs, newest first, older than number `before` if that is given.
fn page(answer: &Value, before: Option<u64>) -> Value {
    let newest = answer["newest"].as_u64().unwrap_or_default();
    let first = before.map_or(newest, |before| before - 1);
    let listed: Vec<Value> = (1..=first).rev().take(50).map(pair).collect();
    json!({
        "instance": "canned", "duplicates": newest, "kept": newest, "text": "full", "max_distance": 3, "matching": newest,
        "newer": newest - first, "distances": [0, 4, 9, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], "pairs": listed,
    })
}

fn pair(number: u64) -> Value {
    let same = "a long beginning that both of the pages have in common before they differ";
    let differs = json!([
        {"side": "both", "text": same}, {"side": "match", "text": " yesterday "}, {"side": "own", "text": " today "},
    ]);
    let is_exact = number.is_multiple_of(5);
    json!({
        "number": number, "at_ms": 1000 * number, "source": format!("pages:1:{number}"), "match": "pages:0:7",
        "cluster": "pages:0:7", "verdict": if is_exact { "exact" } else { "near" }, "stage": "simhash", "distance": 2,
        "bits": if is_exact { Value::Null } else { json!(2) }, "age_ms": 60_000 * number, "segmenter": "unicode",
        "id": format!("https://copies.example/{number}/with-a-name-that-is-long-and-has-no-place-to-break-it-into-lines"),
        "match_id": "https://originals.example/7", "words": {"own": 90, "match": 90, "common": 88}, "differs": differs,
    })
}

/// One pair with both texts.
fn opened(path: &str) -> Value {
    let number = path.rsplit("%3A").next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let mut opened = pair(number);
    opened["text"] = json!("full");
    opened["case"] = json!("- name: a case\n");
    opened["runs"] = opened["differs"].clone();
    opened
}
