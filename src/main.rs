//! The `dupgate` command: parse the arguments, dispatch to a command, turn an error into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    dupgate::process::return_freed_memory();
    dupgate::cli::main(std::env::args_os())
}
