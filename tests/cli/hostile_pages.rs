//! Pages that no crawler should send, through `sieve`: each comes out once, with the expected verdict or reason, within
//! two seconds of work, and the other pages are judged as without them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::hostile_records::{all, text};
use super::program::dupgate;

/// Maximum work for a page.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Maximum time until a verdict, on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

const STORY: &str = "Ferry companies welcomed the decision of the harbour authority to dredge the northern channel next spring, \
    but asked for guarantees about summer timetables, because sediment had reduced its depth by nearly two metres.";

/// A running `sieve` that receives page after page.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start() -> Self {
        let mut command = dupgate();
        // Allow pages above the default limit, since the work itself is measured.
        command.args(["sieve", "-s", "input.max_document=32MiB"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).unwrap_or_default();
        });
        Self { child, lines }
    }

    /// Submits a page and returns its verdict line and its work.
    fn judge(&mut self, name: &str, page: &[u8]) -> (Value, Duration) {
        assert!(!page.contains(&b'\n'), "{name}: a page is a line");
        let before = self.work();
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(page).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush()).unwrap();
        let line = self.lines.recv_timeout(TIMEOUT).expect(name);
        let took = self.work().saturating_sub(before);
        (serde_json::from_str(&line).unwrap(), took)
    }

    /// Returns the processor time so far, so that other processes do not count; `None` if the system does not report
    /// it.
    fn work(&self) -> Duration {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.child.id())) else { return Duration::ZERO };
        // After the name: state is the third field, user and system time the 14th and 15th, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3).unwrap().parse::<u64>().unwrap();
        Duration::from_millis((ticks(14) + ticks(15)) * 10)
    }
}

#[test]
fn hostile_pages_come_out_once_each_with_their_reason() {
    let mut sieve = Running::start();
    let (first, _) = sieve.judge("a good page", &text(STORY));
    assert_eq!(first["verdict"], "unique");
    let all = all();
    assert!(all.len() > 60, "{}", all.len());
    let mut wrong = Vec::new();
    for (number, (name, page, expected)) in all.iter().enumerate() {
        let (line, took) = sieve.judge(name, page);
        let found = if line["verdict"] == "dead_letter" { &line["reason"] } else { &line["verdict"] };
        if found != expected || line["source"] != format!("stdin:{}", number + 2) {
            wrong.push(format!("{name}: {line}, not {expected}"));
        }
        if took > MAX_TIME {
            wrong.push(format!("{name}: {took:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (last, _) = sieve.judge("its copy", &text(&STORY.to_uppercase()));
    assert_eq!((&last["verdict"], &last["match"]), (&"exact".into(), &"stdin:1".into()));
    drop(sieve.child.stdin.take());
    assert!(sieve.child.wait().unwrap().success());
    assert_eq!(sieve.lines.iter().count(), 0, "as many lines as pages");
}
