//! The `dupgate` command: arguments in, exit code out.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use dupgate::cli::{Arguments, dispatch};

fn main() -> ExitCode {
    match dispatch(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            // Nobody is left to be told when standard error is gone.
            let _ = writeln!(std::io::stderr(), "dupgate: {fatal}");
            fatal.exit_code()
        }
    }
}
