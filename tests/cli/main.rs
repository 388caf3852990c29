//! The binary as its users call it: arguments and files in, output and exit codes out.

mod demo;
mod secrets;
mod sieve;
