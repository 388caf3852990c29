//! `dupgate run` as its own process, in its default settings unless a part of the bench sets others.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dupgate::config::{Purpose, Settings, Sources, load};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::broker::Broker;
use crate::bus;
use crate::measure::cores;

/// Name of the file of its configuration.
const CONFIGURATION: &str = "dupgate.yaml";

const PROGRAM: &str = env!("CARGO_BIN_EXE_dupgate");

/// Returns the program on these cores only, if there is `taskset`. It takes the place of `taskset` in the process.
fn pinned_to(cores: &str) -> Command {
    let can_pin = || Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !can_pin() {
        return Command::new(PROGRAM);
    }
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cores, PROGRAM]);
    command
}

/// A running service with topics and a group of its own.
pub(crate) struct Service {
    pub(crate) group: String,
    /// Unique, duplicate, dead letter.
    pub(crate) outputs: [String; 3],
    pub(crate) settings: Settings,
    child: Child,
    http: SocketAddr,
    /// Taken out when it is stopped.
    folder: Option<TempDir>,
}

impl Service {
    /// Starts it on an input topic, with its default settings.
    pub(crate) fn start(broker: &Broker, input: &str) -> Self {
        Self::start_with(broker, input, "")
    }

    /// Starts it on an input topic, with further lines of configuration.
    pub(crate) fn start_with(broker: &Broker, input: &str, more: &str) -> Self {
        let outputs = ["unique", "duplicate", "dead"].map(|name| bus::topic(broker, name));
        Self::instance(broker, input, (&broker.unique("bench"), &outputs), "bench", None, more)
    }

    /// Starts several in one group. Where there is `taskset`, each has its share of the cores, or one of them in turn.
    pub(crate) fn start_fleet(broker: &Broker, input: &str, instances: usize) -> Vec<Self> {
        let outputs = ["unique", "duplicate", "dead"].map(|name| bus::topic(broker, name));
        let group = broker.unique("fleet");
        let start = |number: usize| {
            let (first, end) = (number * cores() / instances, (number + 1) * cores() / instances);
            let pinned =
                if instances > cores() { (number % cores()).to_string() } else { format!("{first}-{}", end - 1) };
            Self::instance(broker, input, (&group, &outputs), &format!("bench-{number}"), Some(&pinned), "")
        };
        (0..instances).map(start).collect()
    }

    fn instance(
        broker: &Broker,
        input: &str,
        (group, outputs): (&str, &[String; 3]),
        id: &str,
        pinned: Option<&str>,
        more: &str,
    ) -> Self {
        // Free now, and unlikely to be taken in the next moment.
        let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(CONFIGURATION);
        let [unique, duplicate, dead] = outputs;
        let config = format!(
            "version: 1\n\
             kafka: {{brokers: [\"{}\"]}}\n\
             input: {{topics: [\"{input}\"], group: \"{group}\", instance_id: {id}}}\n\
             output: {{unique: {{topic: \"{unique}\"}}, duplicate: {{topic: \"{duplicate}\"}}, dead_letter: {{topic: \"{dead}\"}}}}\n\
             index: {{path: \"{}\"}}\n\
             http: {{listen: \"{http}\"}}\n{more}",
            broker.address(),
            folder.path().join("index").display(),
        );
        std::fs::write(&file, config).unwrap();
        let settings =
            load(&Sources { files: vec![file.clone()], ..Sources::default() }, Purpose::Run).unwrap().settings;
        let said = File::create(folder.path().join("log")).unwrap();
        let mut command = pinned.map_or_else(|| Command::new(PROGRAM), pinned_to);
        let child = command
            .args(["run", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        Self { group: group.to_owned(), outputs: outputs.clone(), settings, child, http, folder: Some(folder) }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs. If not, what it said is printed.
    pub(crate) fn lives(&mut self) -> bool {
        if self.child.try_wait().unwrap().is_none() {
            return true;
        }
        eprintln!("{}", self.said());
        false
    }

    fn said(&self) -> String {
        let log = self.folder.as_ref().map(|folder| folder.path().join("log"));
        log.and_then(|log| std::fs::read_to_string(log).ok()).unwrap_or_default()
    }

    /// Whether it says that it is ready: it is in its groups, and the judge is at work.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").starts_with("HTTP/1.1 200")
    }

    /// Waits until it says that it is ready.
    pub(crate) fn wait_until_ready(&mut self) {
        let start = Instant::now();
        while !self.is_ready() {
            assert!(self.lives(), "the service has ended before it was ready");
            assert!(start.elapsed() < bus::TIMEOUT, "not ready after {:?}: {}", bus::TIMEOUT, self.get("/readyz"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn get(&self, path: &str) -> String {
        let answer = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.http)?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        answer().unwrap_or_default()
    }

    /// Stops it as an operator would.
    pub(crate) fn stop(mut self) -> Stopped {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "the service ended with {ended}:\n{}", self.said());
        Stopped(self.folder.take().unwrap())
    }
}

/// What a service leaves behind: its configuration and its snapshots.
pub(crate) struct Stopped(TempDir);

impl Stopped {
    /// The file of its configuration.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.0.path().join(CONFIGURATION)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // After a clean stop there is nothing left to end; after a failure nothing of it may stay.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
