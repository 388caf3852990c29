//! The binary, without the environment variables of the test run.

use std::process::{Command, Stdio};

/// Output and exit code of a command.
pub(super) struct CliOutput {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: i32,
}

/// A command of dupgate without standard input and with explicit settings only.
pub(super) fn dupgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(super) fn output_of(command: &mut Command) -> CliOutput {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CliOutput { out: text(output.stdout), err: text(output.stderr), code: output.status.code().unwrap_or(-1) }
}
