//! How fast dupgate is: tables for people, then one JSON object as the last line of standard output.
//!
//! `make bench`, or `cargo bench --bench speed -- [text] [sketch] [end-to-end] [replay] [latency] [scaling]` for some
//! parts of it; scaling, which takes minutes, only runs if it is named. `DUPGATE_BENCH_QUICK=1` makes it short and
//! rough. Each part says what it measures and over which pages. All of it is measured, nothing is asserted: floors are
//! printed beside the numbers. Parts that need a broker start one as the tests do (`tests/broker/kafka.sh`); it takes
//! its share of the same cores.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench panics where it cannot continue")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]

mod bus;
mod copy;
mod end_to_end;
mod heap;
mod latency;
mod measure;
mod pure;
mod replay;
mod report;
mod scaling;
mod service;
mod sketch;
mod streams;
mod text;

#[path = "../../tests/support/broker/mod.rs"]
mod broker;

use serde_json::{Value, json};

/// How much is measured.
pub(crate) struct Scale {
    /// Rounds of every text stage.
    rounds: usize,
    /// Text in one round.
    text_bytes: usize,
    /// Pages of the topic that is run through.
    pages: usize,
    /// Pages that the pure stages are measured with.
    pure_pages: usize,
    /// How often service and copy take turns.
    turns: usize,
    warm_up_seconds: usize,
    latency_seconds: usize,
}

const FULL: Scale = Scale {
    rounds: 9,
    text_bytes: 2_000_000,
    pages: 120_000,
    pure_pages: 20_000,
    turns: 3,
    warm_up_seconds: 5,
    latency_seconds: 20,
};

const QUICK: Scale = Scale {
    rounds: 3,
    text_bytes: 400_000,
    pages: 80_000,
    pure_pages: 5_000,
    turns: 1,
    warm_up_seconds: 2,
    latency_seconds: 5,
};

fn main() {
    let quick = std::env::var("DUPGATE_BENCH_QUICK").is_ok_and(|value| value == "1");
    let scale = if quick { &QUICK } else { &FULL };
    // Cargo adds `--bench` of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == part);
    let load = measure::load();
    println!("{} cores, load {load} before the start{}\n", measure::cores(), if quick { ", quick" } else { "" });

    let mut floors = Vec::new();
    let (mut text, mut end_to_end, mut cpu, mut latency) = (Value::Null, Value::Null, Value::Null, Value::Null);
    let (mut sketch, mut replay, mut scaling) = (Value::Null, Value::Null, Value::Null);
    if wants("text") {
        text = text::run(scale, &mut floors);
    }
    if wants("sketch") {
        sketch = sketch::run(scale, &mut floors);
    }
    if wants("end-to-end")
        && let Some(broker) = broker::Broker::shared()
    {
        (end_to_end, cpu) = end_to_end::run(broker, scale, &mut floors);
    }
    if wants("replay")
        && let Some(broker) = broker::Broker::shared()
    {
        replay = replay::run(broker, scale, &mut floors);
    }
    if wants("latency")
        && let Some(broker) = broker::Broker::shared()
    {
        latency = latency::run(broker, scale);
    }
    // Not in a run of all parts.
    if wanted.iter().any(|part| part == "scaling")
        && let Some(broker) = broker::Broker::shared()
    {
        scaling = scaling::run(broker, scale);
    }
    let floors = report::print(&floors);
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"), "quick": quick, "cores": measure::cores(), "load_before": load,
        "text": text, "sketch": sketch, "end_to_end": end_to_end, "cpu": cpu, "replay": replay, "latency": latency,
        "scaling": scaling, "floors": floors,
    });
    println!("{report}");
}
