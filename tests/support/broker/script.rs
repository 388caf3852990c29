//! The pipe to `tests/broker/kafka.sh serve`: sends commands, and receives answers of one line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The running script. Closing its standard input makes it stop the broker, so nothing is left over even if this
/// process is killed.
#[derive(Debug)]
pub(super) struct Script {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Script {
    /// Starts the script with these variables in its environment, and returns what it says of the brokers, too.
    pub(super) fn serve(environment: &[(&str, &str)]) -> Result<(Self, String), String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker/kafka.sh");
        let mut child = Command::new(&path)
            .arg("serve")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|why| format!("cannot run {}: {why}", path.display()))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("the script has no standard output")?);
        let mut script = Self { child, orders, answers };
        let address = script.answer("ready")?;
        Ok((script, address))
    }

    /// The script's process id; brokers are its children.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends one order and waits for the answer that begins with `wanted`.
    pub(super) fn order(&mut self, order: &str, wanted: &str) -> Result<String, String> {
        let pipe = self.orders.as_mut().ok_or("the script has ended")?;
        writeln!(pipe, "{order}").map_err(|why| format!("cannot send `{order}` to the script: {why}"))?;
        self.answer(wanted)
    }

    /// Reads up to the line that begins with `wanted`; returns what follows the word. Other lines are messages and
    /// become part of the error if the wanted one does not arrive.
    fn answer(&mut self, wanted: &str) -> Result<String, String> {
        let mut output = String::new();
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).map_err(|why| format!("cannot read the script: {why}"))?;
            if let Some(rest) = line.strip_prefix(wanted) {
                return Ok(rest.trim().to_owned());
            }
            output.push_str(&line);
            if read == 0 || line.starts_with("failed") {
                return Err(format!("no broker to test against\n{output}"));
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.orders.take());
        drop(self.child.wait());
    }
}
