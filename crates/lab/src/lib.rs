//! Generated crawls with known duplicates, and the measurement of verdicts against them: for the demo, for `eval` and
//! `tune`, for benches and tests.
#![deny(clippy::print_stderr)]

pub mod crawl;
pub mod quality;
