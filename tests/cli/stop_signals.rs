//! Which signals stop the program cleanly.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use dupgate_testkit::ports::free_address;
use tempfile::TempDir;

use super::process::Process;
use super::program::dupgate;

/// Gives the program the usual SIGHUP, also where the tests run under `nohup`.
const WITH_SIGHUP: &[&str] = if cfg!(target_os = "linux") { &["env", "--default-signal=HUP"] } else { &[] };

/// Starts the service by a command, without brokers, which it waits for, and returns once it handles signals.
fn waiting(folder: &Path, command: &[&str]) -> Process {
    let listen = free_address();
    let (file, log) = (folder.join("dupgate.yaml"), folder.join("log"));
    let config = format!(
        "{{version: 1, kafka: {{brokers: ['127.0.0.1:1']}}, input: {{topics: [pages]}}, http: {{listen: '{listen}'}},
          index: {{path: '{}'}},
          output: {{unique: {{topic: u}}, duplicate: {{topic: d}}, dead_letter: {{topic: x}}}}}}",
        folder.join("state").display()
    );
    fs::write(&file, config).unwrap();
    let program = dupgate();
    let mut run = match command {
        [] => program,
        [command, arguments @ ..] => {
            let mut run = Command::new(command);
            run.args(arguments).arg(program.get_program());
            run
        }
    };
    let out = File::create(&log).unwrap();
    run.args(["run", "-c"]).arg(&file).stdout(out.try_clone().unwrap()).stderr(out);
    let mut child = Process::start(&mut run);
    while !fs::read_to_string(&log).unwrap().contains("metrics and health listening") {
        assert_eq!(child.try_wait().unwrap(), None, "{}", fs::read_to_string(&log).unwrap());
    }
    child
}

fn send(signal: &str, child: &Process) {
    assert!(Command::new("kill").arg(signal).arg(child.id().to_string()).status().unwrap().success());
}

#[test]
fn a_service_stops_cleanly_when_its_terminal_is_closed_as_on_sigterm_and_sigint() {
    for signal in ["-HUP", "-TERM", "-INT"] {
        let folder = TempDir::new().unwrap();
        let mut child = waiting(folder.path(), WITH_SIGHUP);
        send(signal, &child);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {}", fs::read_to_string(folder.path().join("log")).unwrap());
    }
}

/// Linux shows which signals a process ignores; SIGHUP is the lowest bit.
#[cfg(target_os = "linux")]
#[test]
fn a_service_under_nohup_survives_its_terminal() {
    let folder = TempDir::new().unwrap();
    let mut child = waiting(folder.path(), &["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "{status}");
    send("-HUP", &child);
    send("-TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
