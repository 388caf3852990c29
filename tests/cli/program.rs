//! The binary, without the variables of whoever runs the tests.

use std::process::{Command, Stdio};

/// What a command printed and how it ended.
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: i32,
}

/// A command of dupgate that reads nothing and knows no setting but those that it is given.
pub(super) fn dupgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupgate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUPGATE_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(super) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { out: text(output.stdout), err: text(output.stderr), code: output.status.code().unwrap_or(-1) }
}
