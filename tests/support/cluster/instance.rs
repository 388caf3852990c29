//! One process of the real program: started, queried, stopped, killed, suspended, resumed.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use dupgate_testkit::ports::free_address;
use serde_json::{Value, json};

use super::http;
use crate::broker::cpu::process_cpu;
use crate::broker::wait;

/// Time-out until a process is ready: it restores, joins two groups, and the machine may be busy.
const READY: Duration = Duration::from_mins(5);

/// Lines of a process's log that are shown when a test fails.
const SHOWN_LINES: usize = 60;

/// Metrics that are shown when a test fails.
const SHOWN_METRICS: [&str; 5] = [
    "dupgate_assigned_partitions",
    "dupgate_consumer_lag_records",
    "dupgate_consumer_paused",
    "dupgate_judge_active",
    "dupgate_internal_log_lag_records",
];

/// A running instance. Dropped, it is killed; a test that fails shows the end of its log.
#[derive(Debug)]
pub(crate) struct Instance {
    name: String,
    child: Child,
    http: SocketAddr,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Instance {
    /// Starts `dupgate run` with this configuration. `folder` takes its configuration file and its log.
    pub(crate) fn start(name: &str, folder: &Path, mut config: Value) -> Self {
        let http = free_address();
        super::merge(&mut config, json!({ "http": { "listen": http.to_string() } }));
        let file = folder.join(format!("{name}.yaml"));
        // JSON is YAML.
        std::fs::write(&file, config.to_string()).expect("the configuration is written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
        command.arg("run").arg("--config").arg(file);
        Self::spawn(name, folder, http, command)
    }

    /// Starts this command, whose listener has this address. `folder` takes its log.
    pub(crate) fn spawn(name: &str, folder: &Path, http: SocketAddr, mut command: Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log).expect("a log file");
        let err = out.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().expect("the program starts");
        Self { name: name.to_owned(), child, http, log, ended: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until it is ready by `/readyz`.
    pub(crate) fn wait_ready(&mut self) {
        let what = format!("{} to be ready", self.name);
        wait::within(READY, &what, || {
            let ended = self.has_ended();
            assert!(ended.is_none(), "{} ended instead of getting ready: {ended:?}", self.name);
            self.is_ready().then_some(())
        });
    }

    pub(crate) fn is_ready(&self) -> bool {
        http::get(self.http, "/readyz").is_some_and(|(status, _)| status == 200)
    }

    /// The output of `/readyz?verbose`.
    pub(crate) fn readiness(&self) -> String {
        http::get(self.http, "/readyz?verbose").map_or_else(|| "no answer".to_owned(), |(_, body)| body)
    }

    /// The sum of a metric over all series with these labels; 0 if there are none. Waits for the answer.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        http::sum(&self.metrics(), name, labels).unwrap_or(0.0)
    }

    /// The output of `/metrics`. Waits for the answer, which may take long on a busy machine.
    pub(crate) fn metrics(&self) -> String {
        wait::until(&format!("the metrics of {}", self.name), || self.exposition())
    }

    /// The output of `/metrics`, if it answers now.
    fn exposition(&self) -> Option<String> {
        http::get(self.http, "/metrics").filter(|(status, _)| *status == 200).map(|(_, body)| body)
    }

    /// The sum of a metric over all series; 0 without an answer, as while it starts or is suspended.
    fn reported(&self, name: &str) -> f64 {
        self.exposition().and_then(|metrics| http::sum(&metrics, name, &[])).unwrap_or(0.0)
    }

    /// Whether it judges, by its own report.
    pub(crate) fn judges(&self) -> bool {
        self.reported("dupgate_judge_active") > 0.0
    }

    /// Number of input partitions that it owns, by its own report.
    pub(crate) fn partitions(&self) -> f64 {
        self.reported("dupgate_assigned_partitions")
    }

    /// The status that the process ended with, if it has.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("the state of the process");
        }
        self.ended
    }

    /// `kill -9`, and waits for the end.
    pub(crate) fn kill(&mut self) {
        if self.has_ended().is_none() {
            self.child.kill().expect("the process is killed");
            self.ended = Some(self.child.wait().expect("the process ends"));
        }
    }

    /// SIGSTOP: suspends the process, as if its machine were suspended.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    /// SIGTERM; the process must end by itself with code 0.
    pub(crate) fn stop(self) {
        self.stop_within(wait::LIMIT);
    }

    /// SIGTERM; the process must end by itself with code 0 within this time.
    pub(crate) fn stop_within(mut self, limit: Duration) {
        self.signal("TERM");
        let what = format!("{} to stop", self.name);
        let status = wait::within(limit, &what, || self.has_ended());
        assert!(status.success(), "{} stopped with {status}", self.name);
    }

    /// Waits until the process ends by itself.
    pub(crate) fn end(mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait::until(&what, || self.has_ended())
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(id).status().expect("kill runs");
        assert!(sent.success(), "SIG{signal} was not sent to {}", self.name);
    }

    /// The names of its threads; none where there is no `/proc`.
    pub(crate) fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.map(|name| name.trim().to_owned()).collect()
    }

    /// The number of its open files; none where there is no `/proc`.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten().count()
    }

    /// CPU seconds that the process has used so far; 0 if it has ended.
    pub(crate) fn cpu(&self) -> f64 {
        process_cpu(self.child.id()).unwrap_or(0.0)
    }

    /// The largest memory that the process has taken so far, in bytes; `None` if it has ended.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.memory("VmHWM:")
    }

    /// The memory that the process takes now, in bytes; `None` if it has ended.
    pub(crate) fn resident_memory(&self) -> Option<u64> {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let taken = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(taken.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024)
    }

    /// The whole log.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if std::thread::panicking() && self.has_ended().is_none() {
            let metrics = self.exposition().unwrap_or_default();
            let message = metrics.lines().filter(|line| SHOWN_METRICS.iter().any(|name| line.starts_with(name)));
            eprintln!(
                "--- {} at the end:\n{}\n{}",
                self.name,
                self.readiness(),
                message.collect::<Vec<_>>().join("\n")
            );
        }
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default();
            eprintln!("--- {} ({:?}), last lines of its log:\n{}", self.name, self.ended, shown.join("\n"));
        }
    }
}
