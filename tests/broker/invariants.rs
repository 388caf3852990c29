//! Invariants for operators: counts that add up, and probes that name the problem.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::broker::{Broker, wait};
use super::cluster::{Cluster, Shape};
use super::first_start::CliRunner;
use super::process::Process;
use super::run::text;
use super::run::topics::{Given, page, produce};

/// Limit of `/livez` in these tests, in seconds: the shortest session that a broker grants, too.
const LIMIT: u16 = 6;

/// Pages of every outcome: unique, exact, near, broken, without text, tombstones.
fn mixed(number: usize) -> Given {
    let original = text(u32::try_from(number % 40).expect("a number"));
    match number % 8 {
        0..=2 => page(&original),
        3 | 4 => page(&format!("{original} {number}")),
        5 => Given::value("no json"),
        6 => Given::value("{\"text\": \" \"}"),
        _ => Given::tombstone("k"),
    }
}

#[test]
fn documents_and_dead_letters_add_up_to_the_committed_positions() {
    let Some(broker) = Broker::shared() else { return };
    let config = json!({"processing": {"pause_above_dead_letter_ratio": 1}, "window": {"max_future_skew": "1000d"}});
    let shape = Shape { topics: 1, partitions: 4, input_settings: &[], output_settings: &[], config };
    let cluster = Cluster::new(broker, shape);
    let input = cluster.inputs()[0].clone();
    let ended = |instances: &[&super::cluster::instance::Instance]| -> f64 {
        let of = |name| instances.iter().map(|instance| instance.metric(name, &[])).sum::<f64>();
        of("dupgate_documents_total") + of("dupgate_dead_letters_total")
    };
    let (waves, per_wave) = (6, 400);
    let write = |wave: usize| {
        for partition in 0..4 {
            let records: Vec<Given> =
                (0..per_wave / 4).map(|page| mixed(wave * per_wave + page * 4 + partition)).collect();
            produce(broker, &input, i32::try_from(partition).expect("a partition"), &records);
        }
    };
    let mut first = cluster.start("first");
    write(0);
    first.wait_ready();
    // The second one joins, and both are queried, while pages arrive.
    let mut second = cluster.start("second");
    let mut written = per_wave;
    for wave in 1..waves {
        write(wave);
        written += per_wave;
        let so_far = ended(&[&first, &second]);
        assert!(so_far <= f64::from(u32::try_from(written).expect("a count")), "{so_far} of {written}");
    }
    second.wait_ready();
    wait::until("the input to be done", || (cluster.lag() == 0).then_some(()));
    // Brokers know of a commit shortly before it is counted.
    let all = f64::from(u32::try_from(written).expect("a count"));
    wait::until("the last commit to be counted", || (ended(&[&first, &second]) >= all).then_some(()));
    assert_eq!(ended(&[&first, &second]).to_string(), all.to_string());
    let of_both = |name: &str, labels: &[&str]| first.metric(name, labels) + second.metric(name, labels);
    // Workers count what they have read a few times a second. Records read twice count twice.
    wait::until("all records to be counted as read", || {
        (of_both("dupgate_records_consumed_total", &[]) >= all).then_some(())
    });
    // Each near match is measured once, in the measure of the stage that found it.
    let by = |measure: &str| of_both(&format!("dupgate_match_{measure}_count"), &[]);
    let measured = by("hamming_distance") + by("similarity_ratio") + by("containment_ratio");
    let near = of_both("dupgate_documents_total", &["verdict=\"near\""]);
    assert!(near > 0.0 && (near - measured).abs() < 0.5, "{near} near, {measured} measured");
    let largest = first.metric("dupgate_largest_cluster_documents", &[]);
    assert!(largest > 1.0, "{largest}");
    first.stop();
    second.stop();
}

/// A service with the cli's configuration, queried over HTTP.
struct Service {
    process: Process,
    http: SocketAddr,
    admin: SocketAddr,
}

impl Service {
    fn start(cli: &CliRunner, broker: &Broker, stderr: Stdio, more: &str) -> Self {
        let port = dupgate_testkit::ports::two();
        let [http, admin] = [port, port + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let millis = u32::from(LIMIT) * 1000;
        let config = format!(
            "http: {{listen: \"{http}\", admin: {{listen: \"{admin}\"}}}}\n\
             kafka:\n  brokers: [\"{}\"]\n  consumer_properties: {{session.timeout.ms: {millis}, max.poll.interval.ms: {millis}}}\n  \
             producer_properties: {{transaction.timeout.ms: 4000}}\n{more}",
            broker.address()
        );
        let process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_dupgate"))
                .args(["run", "--log-format", "text", "-c", &cli.files(broker.address(), &config)])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(stderr),
        );
        Self { process, http, admin }
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        ask(self.http, "GET", path)
    }

    fn number(&self, name: &str) -> f64 {
        let (_, text) = wait::until("the metrics", || self.get("/metrics"));
        super::cluster::http::sum(&text, name, &[]).unwrap_or(0.0)
    }

    fn wait_ready(&self) {
        wait::until("readiness", || (self.get("/readyz")?.0 == 200).then_some(()));
    }
}

fn ask(address: SocketAddr, method: &str, path: &str) -> Option<(u16, String)> {
    use std::io::Write as _;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn topics(cli: &CliRunner, broker: &Broker) {
    let arguments = ["topics", "create", "--with-input", "--partitions", "2", "--execute"];
    let made = cli.ask_with(broker.address(), "", &arguments);
    assert_eq!(made.code, Some(0), "{}", made.err);
}

#[test]
fn it_is_alive_while_brokers_are_unreachable() {
    let Some(broker) = Broker::private() else { return };
    let cli = CliRunner::new(&broker);
    topics(&cli, &broker);
    let service = Service::start(&cli, &broker, Stdio::null(), "");
    service.wait_ready();
    broker.stop();
    // Longer than the limit, by the service's own clock.
    let polled = || service.number("dupgate_last_poll_timestamp_seconds");
    let since = polled();
    wait::until("the limit to pass", || {
        let (status, response) = service.get("/livez")?;
        assert_eq!(status, 200, "{response}");
        (polled() > since + 2.0 * f64::from(LIMIT)).then_some(())
    });
    broker.start();
    produce(&broker, &cli.input, 0, &[page(&text(1))]);
    wait::until("a page judged after all", || (service.number("dupgate_documents_total") >= 1.0).then_some(()));
    assert_eq!(wait::until("an answer", || service.get("/livez")).0, 200);
}

/// Reads the log of the service until it ends.
fn drain(mut stderr: ChildStderr) {
    std::thread::spawn(move || {
        let mut response = [0; 4096];
        while stderr.read(&mut response).is_ok_and(|read| read > 0) {}
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the stall is compared with the time between two answers")]
fn it_is_not_alive_while_a_loop_is_stalled() {
    let Some(broker) = Broker::shared() else { return };
    let cli = CliRunner::new(broker);
    topics(&cli, broker);
    // The log is not read: once the pipe is full, every thread that logs blocks. (As text: JSON leaves repetitions
    // out.)
    let verbose = "logging: {level: debug}\n";
    let mut service = Service::start(&cli, broker, Stdio::piped(), verbose);
    let stderr = service.process.stderr.take().expect("a pipe");
    let mut alive = Instant::now();
    wait::until("a stalled loop", || {
        // Log lines are written until the pipe is full.
        for order in ["pause", "resume"] {
            ask(service.admin, "POST", &format!("/api/v1/{order}"));
        }
        let asked = Instant::now();
        let (status, response) = service.get("/livez")?;
        if status == 200 {
            alive = asked;
            return None;
        }
        assert_eq!(status, 503);
        // At the last answer before this one, no loop had stalled for longer than the limit.
        let most = u64::from(LIMIT) + alive.elapsed().as_secs() + 1;
        let stalled = |line: &str| -> Option<u64> {
            let (_, rest) = line.split_once(": has not moved for ")?;
            rest.strip_suffix(&format!(" s (limit {LIMIT} s)"))?.parse().ok()
        };
        let is_right = |line| stalled(line).is_some_and(|seconds| (u64::from(LIMIT)..=most).contains(&seconds));
        assert!(!response.is_empty() && response.lines().all(is_right), "at most {most} s: {response}");
        Some(())
    });
    drain(stderr);
    wait::until("all loops to move again", || (service.get("/livez")?.0 == 200).then_some(()));
    service.wait_ready();
    let (_, status) = wait::until("an answer", || service.get("/status"));
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["ready"], true, "{status}");
}
