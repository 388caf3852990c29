//! Which faults have met which calls: a simulation shows nothing about a pair that never occurred.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What a fault happens to: whose it is, and which of its calls.
pub(crate) type Edge = (&'static str, &'static str);

const ROLES: [&str; 2] = ["worker", "judge"];

/// The calls by which a worker and a judge meet a cluster, except those to begin a transaction. They may die on either side
/// of each.
const SHARED: [&str; 13] = [
    "find end",
    "find committed",
    "join",
    "poll",
    "release",
    "leave",
    "follow",
    "read",
    "init",
    "produce",
    "send offsets",
    "commit",
    "abort",
];

/// The calls that only one of them makes.
const OWN: [Edge; 7] = [
    ("worker", "find checkpoint"),
    ("worker", "find new partitions"),
    ("worker", "find backlog"),
    ("worker", "append"),
    ("worker", "scan"),
    ("judge", "restore"),
    ("judge", "trim"),
];

/// What goes wrong with a call to a transactional producer besides. "Done" means that the broker did it all the same. No
/// transaction times out before its first record.
const TRANSACTIONAL: [(&str, &[&str]); 6] = [
    ("init", &["retriable", "retriable, done", "fatal", "fatal, done"]),
    ("begin", &["retriable", "abortable", "fatal", "fatal, done"]),
    ("produce", &["retriable", "abortable", "abortable, done", "fatal", "fatal, done", "refused: fenced"]),
    (
        "send offsets",
        &[
            "abortable",
            "abortable, done",
            "fatal",
            "fatal, done",
            "refused: fenced",
            "refused: timed out",
            "refused: unknown member",
            "refused: old generation",
        ],
    ),
    (
        "commit",
        &[
            "retriable",
            "retriable, done",
            "abortable",
            "unknown",
            "unknown, done",
            "fatal",
            "fatal, done",
            "refused: fenced",
            "refused: timed out",
        ],
    ),
    ("abort", &["retriable", "retriable, done", "fatal", "fatal, done", "refused: fenced", "refused: timed out"]),
];

/// Everything else that goes wrong.
const OTHERS: [(Edge, &[&str]); 6] = [
    (("worker", "read"), &["the text work panics"]),
    (("worker", "send offsets"), &["refused: replaced"]),
    (("judge", "find end"), &["too low"]),
    (("judge", "follow"), &["the end is told late"]),
    (("network", "request"), &["late", "lost", "lost after its acknowledgement", "twice", "its report is lost"]),
    (
        ("process", "running"),
        &[
            "its session ends",
            "its transaction times out",
            "pauses",
            "pauses, is expelled",
            "pauses, is replaced",
            "is killed",
            "loses its disk",
            "is stopped",
        ],
    ),
];

/// Number of calls while faults happen, and of the faults that they met.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    calls: BTreeMap<Edge, u64>,
    faults: BTreeMap<(Edge, &'static str), u64>,
}

impl Coverage {
    pub(crate) fn call(&mut self, edge: Edge) {
        *self.calls.entry(edge).or_default() += 1;
    }

    pub(crate) fn fault(&mut self, edge: Edge, fault: &'static str) {
        *self.faults.entry((edge, fault)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        other.calls.iter().for_each(|(edge, count)| *self.calls.entry(*edge).or_default() += count);
        other.faults.iter().for_each(|(pair, count)| *self.faults.entry(*pair).or_default() += count);
    }

    /// Returns the possible pairs that never occurred.
    pub(crate) fn missing(&self) -> Vec<(Edge, &'static str)> {
        possible().into_iter().filter(|pair| !self.faults.contains_key(pair)).collect()
    }

    /// One call per paragraph: how often it was made, then every possible fault with its count.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let mut last = None;
        let mut pairs = possible();
        pairs.extend(self.faults.keys().copied().filter(|pair| !possible().contains(pair)));
        pairs.sort_unstable();
        for (edge, fault) in pairs {
            if last.replace(edge) != Some(edge) {
                let calls = self.calls.get(&edge).map(|calls| format!(": {calls} calls")).unwrap_or_default();
                let _ = writeln!(table, "{} {}{calls}", edge.0, edge.1);
            }
            let count = self.faults.get(&(edge, fault)).copied().unwrap_or(0);
            let _ = writeln!(table, "{count:>12}  {fault}");
        }
        table
    }
}

fn possible() -> Vec<(Edge, &'static str)> {
    let shared = ROLES.iter().flat_map(|&role| SHARED.iter().map(move |&call| (role, call)));
    let dies = |edge| [(edge, "dies before"), (edge, "dies after")];
    let mut pairs: Vec<(Edge, &'static str)> = shared.chain(OWN).flat_map(dies).collect();
    for role in ROLES {
        for (call, faults) in TRANSACTIONAL {
            pairs.extend(faults.iter().map(|&fault| ((role, call), fault)));
        }
    }
    pairs.extend(OTHERS.iter().flat_map(|&(edge, faults)| faults.iter().map(move |&fault| (edge, fault))));
    pairs
}
