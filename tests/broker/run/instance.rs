//! The real program, as its users start it.

use std::io::Write as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::super::broker::{Broker, wait};

/// Topics, group and folder of one test.
pub(super) struct Site {
    pub(super) broker: &'static Broker,
    pub(super) input: String,
    pub(super) unique: String,
    pub(super) duplicate: String,
    pub(super) dead: String,
    pub(super) group: String,
    folder: tempfile::TempDir,
}

impl Site {
    /// Makes the topics, each with so many partitions.
    pub(super) fn new(broker: &'static Broker, partitions: i32) -> Self {
        Self {
            input: broker.topic("pages", partitions),
            unique: broker.topic("unique", partitions),
            duplicate: broker.topic("duplicate", partitions),
            dead: broker.topic("dead", 1),
            group: broker.unique("group"),
            folder: tempfile::tempdir().expect("a folder"),
            broker,
        }
    }

    /// The configuration of an instance, with further lines in YAML.
    fn configuration(&self, instance: &str, more: &str) -> std::path::PathBuf {
        let path = self.folder.path().join(format!("{instance}.yaml"));
        let index = self.folder.path().join(format!("{instance}-index"));
        let text = format!(
            "version: 1\n\
             kafka: {{brokers: [\"{}\"]}}\n\
             input: {{topics: [\"{}\"], group: \"{}\", instance_id: \"{instance}\"}}\n\
             output:\n  unique: {{topic: \"{}\"}}\n  duplicate: {{topic: \"{}\"}}\n  dead_letter: {{topic: \"{}\"}}\n\
             index: {{path: \"{}\"}}\n\
             http: {{listen: \"127.0.0.1:0\"}}\n\
             logging: {{level: info, format: text}}\n{more}\n",
            self.broker.address(),
            self.input,
            self.group,
            self.unique,
            self.duplicate,
            self.dead,
            index.display()
        );
        std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).expect("a configuration");
        path
    }

    /// Starts an instance.
    pub(super) fn start(&self, instance: &str) -> Instance {
        self.start_with(instance, "")
    }

    /// Starts an instance with some keys set.
    pub(super) fn start_set(&self, instance: &str, set: &[&str]) -> Instance {
        self.launch(instance, "", set)
    }

    /// Starts an instance with further lines of configuration.
    pub(super) fn start_with(&self, instance: &str, more: &str) -> Instance {
        self.launch(instance, more, &[])
    }

    fn launch(&self, instance: &str, more: &str, set: &[&str]) -> Instance {
        let log = self.folder.path().join(format!("{instance}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let child = program()
            .arg("run")
            .arg("-c")
            .arg(self.configuration(instance, more))
            .args(set.iter().flat_map(|assignment| ["--set", assignment]))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the program");
        Instance { child }
    }

    /// Runs a command to its end and returns what it printed.
    pub(super) fn ask(&self, arguments: &[&str]) -> String {
        let path = self.configuration("operator", "");
        let output = program().args(arguments).arg("-c").arg(path).output().expect("the program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What an instance has logged.
    pub(super) fn log(&self, instance: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{instance}.log"))).unwrap_or_default()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for entry in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|ending| ending == "log") {
                    let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                    drop(writeln!(std::io::stderr(), "---- {}\n{text}", entry.path().display()));
                }
            }
        }
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dupgate"))
}

/// A running program. Killed when dropped.
pub(super) struct Instance {
    child: Child,
}

impl Instance {
    /// Stops it as an orchestrator does (SIGTERM) and returns how it ended.
    pub(super) fn stop(mut self) -> ExitStatus {
        self.signal(libc::SIGTERM);
        wait::until("the end of the program", || self.child.try_wait().expect("a child"))
    }

    /// Waits until it ends by itself.
    pub(super) fn end(mut self) -> ExitStatus {
        wait::until("the end of the program", || self.child.try_wait().expect("a child"))
    }

    /// Ends it without a word (`kill -9`).
    pub(super) fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    #[expect(unsafe_code, reason = "the standard library sends no signal but SIGKILL")]
    fn signal(&self, signal: i32) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: the process is our child and has not been waited for, so the id is still its.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
