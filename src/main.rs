//! The `dupgate` command.
fn main() {}
