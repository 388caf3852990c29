//! How fast the windowed index is: tables for people, then one JSON object as the last line of standard output.
//!
//! `make bench-index`, or `cargo bench -p dupgate-index --bench window -- [small] [large] [huge] [lean] [wide] [rivals]
//! [faiss]`: `small` is a window of a million codes, `large` of ten million, `huge` of a hundred million (asked for by
//! name only); `lean` and `wide` are our plans. One operation is a probe for the nearest code within 3 bits, an insert,
//! and the expiry of the oldest: a steady window. All is measured on one thread, in its CPU time, and nothing is
//! asserted but recall: floors are printed beside the numbers.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench asks the machine, and uses its cores"
)]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench panics where it cannot continue")]
#![expect(clippy::cast_precision_loss, reason = "numbers for people")]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares and small numbers")]

mod data;
mod engine;
mod faiss;
mod machine;
mod rivals;

use std::collections::BTreeMap;

use data::{Data, Kind};
use serde_json::{Map, Value, json};

/// Largest distance that is looked for.
pub(crate) const REACH: u8 = 3;

/// One window to measure.
struct Size {
    name: &'static str,
    entries: usize,
    operations: usize,
}

const SIZES: [Size; 3] = [
    Size { name: "small", entries: 1_000_000, operations: 1_000_000 },
    Size { name: "large", entries: 10_000_000, operations: 2_000_000 },
    Size { name: "huge", entries: 100_000_000, operations: 2_000_000 },
];

/// A number beside what it is to reach.
struct Floor {
    what: String,
    number: f64,
    least: f64,
    goal: f64,
    /// Whether less is better.
    less: bool,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let named = |part: &str| wanted.iter().any(|wanted| wanted == part);
    let wants = |part: &str| wanted.is_empty() && part != "huge" || named(part);
    let sized = |size: &Size| wants(size.name) || (!SIZES.iter().any(|size| named(size.name)) && size.name != "huge");
    let planned = |plan: &str| named(plan) || !["lean", "wide"].iter().any(|plan| named(plan));
    let load = machine::load();
    println!("{} cores, load {load} before the start, comparisons: {}\n", machine::cores(), machine::engine());

    let mut floors = Vec::new();
    let mut all = Map::new();
    for size in SIZES.iter().filter(|size| sized(size)) {
        for kind in [Kind::Uniform, Kind::Families] {
            let data = Data::make(kind, size.entries, size.operations);
            println!("{} {} codes, {} operations, a tenth planted", size.entries, kind.name(), size.operations);
            let runs = engine::run(&data, &planned);
            let rivals = if wants("rivals") { rivals::run(&data) } else { BTreeMap::new() };
            let faiss = if wants("faiss") && size.name != "huge" { faiss::run(&data) } else { BTreeMap::new() };
            ratios(&data, &runs, &rivals, &faiss, &mut floors);
            let name = format!("{}_{}", size.name, kind.name());
            all.insert(name, json!({ "ours": runs, "rivals": rivals, "faiss": faiss }));
        }
    }
    slowdown(&all, &mut floors);
    println!("{:<66} {:>10} {:>10} {:>10}", "", "number", "floor", "goal");
    for Floor { what, number, least: floor, goal, less } in &floors {
        let reached = |bound: f64| if *less { *number <= bound } else { *number >= bound };
        let mark = if reached(*goal) {
            "goal"
        } else if reached(*floor) {
            "floor"
        } else {
            "MISSED"
        };
        println!("{what:<66} {number:>10.2} {floor:>10.2} {goal:>10.2}  {mark}");
    }
    all.insert("load_before".to_owned(), json!(load));
    all.insert("cores".to_owned(), json!(machine::cores()));
    all.insert("engine".to_owned(), json!(machine::engine()));
    println!("{}", Value::Object(all));
}

/// How many times faster each of our plans is than each rival.
fn ratios(
    data: &Data,
    runs: &BTreeMap<String, engine::Run>,
    rivals: &BTreeMap<String, rivals::Rival>,
    faiss: &BTreeMap<String, faiss::Rival>,
    floors: &mut Vec<Floor>,
) {
    let best_faiss =
        faiss.values().filter(|rival| rival.recall >= 1.0).map(|rival| rival.ns).fold(f64::INFINITY, f64::min);
    println!("{:<34} {:>10} {:>12} {:>12} {:>12}", "times faster than", "ns/op", "", "", "");
    let others = rivals
        .iter()
        .map(|(name, rival)| (name.clone(), rival.ns))
        .chain(faiss.iter().map(|(name, rival)| (format!("faiss {name}"), rival.ns)));
    for (name, ns) in others {
        print!("  {name:<32} {ns:>10.0}");
        for (plan, run) in runs {
            print!("   {plan} {:.1}x", ns / run.ns);
        }
        println!();
    }
    println!();
    let at = format!("{} {}", data.window, data.kind.name());
    for (plan, run) in runs {
        let floor = |what: &str, number, least, goal, less| Floor {
            what: format!("{at}, {plan}: {what}"),
            number,
            least,
            goal,
            less,
        };
        if best_faiss.is_finite() && data.window >= 10_000_000 {
            let goal = if plan == "lean" { 15.0 } else { 60.0 };
            floors.push(floor("times faster than the best FAISS", best_faiss / run.ns, 8.0, goal, false));
        }
        if data.kind == Kind::Uniform {
            floors.push(floor("share of the memory bound", run.share_of_bound, 0.20, 0.65, false));
            if plan == "lean" {
                floors.push(floor("bytes an entry, without the log", run.table_bytes, 32.0, 22.0, true));
            }
        }
        floors.push(floor("longest stall, ms of CPU", run.longest_stall_ms, 5.0, 0.0, true));
        if data.window >= 100_000_000 && data.kind == Kind::Uniform {
            floors.push(floor(
                "everything resident, GB",
                run.resident_bytes * data.window as f64 / 1e9,
                6.5,
                4.2,
                true,
            ));
        }
    }
}

/// Families against uniform codes.
fn slowdown(all: &Map<String, Value>, floors: &mut Vec<Floor>) {
    for (size, plan) in [("large", "wide"), ("large", "lean")] {
        let ns = |kind: &str| all.get(&format!("{size}_{kind}"))?.get("ours")?.get(plan)?.get("ns")?.as_f64();
        if let (Some(uniform), Some(families)) = (ns("uniform"), ns("families")) {
            let what = format!("10000000, {plan}: families against uniform, slowdown");
            floors.push(Floor { what, number: families / uniform, least: 15.0, goal: 3.0, less: true });
        }
    }
}
