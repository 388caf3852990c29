//! Summary of the originals held by a running judge or a snapshot.

use dupgate_core::judge::{Judge, Snapshot};
use serde_json::{Value, json};

use crate::index::Original;
use crate::protocol::{LogIdentity, LogPartition, RequestOffset, Rules, RulesNumber, VerdictOffset};
use crate::record::Timestamp;

/// Statistics of one partition of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSummary {
    log: LogPartition,
    at: Option<VerdictOffset>,
    identity: Option<LogIdentity>,
    originals: usize,
    rules: Option<Rules>,
    rules_number: RulesNumber,
    newest: Timestamp,
    oldest: Option<Timestamp>,
    next_request: RequestOffset,
    input_partitions: Option<usize>,
    memory_bytes: Option<usize>,
    role: Option<String>,
}

impl StateSummary {
    #[must_use]
    pub fn by_snapshot(log: LogPartition, snapshot: &Snapshot) -> Self {
        let state = &snapshot.state;
        Self {
            log,
            at: Some(snapshot.at),
            identity: Some(state.log),
            originals: snapshot.originals.len(),
            rules: Some(state.rules.clone()),
            rules_number: state.rules_number,
            newest: state.stream_time,
            oldest: snapshot.originals.iter().map(|original| original.event_time).min(),
            next_request: state.next_request,
            input_partitions: Some(state.partitions.len()),
            memory_bytes: None,
            role: None,
        }
    }

    /// Summarises a judge, at the cost of a few lookups: counts include forgotten originals that are still in memory.
    #[must_use]
    pub fn by_judge(log: LogPartition, judge: &Judge) -> Self {
        let state = judge.state();
        Self {
            log,
            at: judge.settled_at(),
            identity: state.log(),
            originals: state.index().originals(),
            rules: state.rules().cloned(),
            rules_number: state.rules_number(),
            newest: state.stream_time(),
            oldest: state.index().live(&state.watermarks()).next().map(|original| original.event_time),
            next_request: state.next_request(),
            input_partitions: None,
            memory_bytes: Some(state.index().stats().memory_bytes),
            role: Some(format!("{:?}", judge.role()).to_lowercase()),
        }
    }

    /// Returns the summary as JSON; unknown values are left out.
    #[must_use]
    pub fn json(&self) -> Value {
        let time = Timestamp::rfc3339;
        let window = |oldest: Timestamp| self.newest.millis().saturating_sub(oldest.millis()).max(0) / 1000;
        let rules = self.rules.as_ref();
        let mut value = json!({
            "log_partition": self.log.0,
            "role": self.role,
            "verdict_log_offset": self.at.map(|at| at.0),
            "log_identity": self.identity.map(|log| format!("{:016x}", log.0)),
            "originals": self.originals,
            "max_entries": rules.map(|rules| rules.max_entries),
            "memory_bytes": self.memory_bytes,
            "newest": Some(self.newest).filter(|_| self.originals > 0).and_then(time),
            "oldest_original": self.oldest.and_then(time),
            "effective_window_seconds": self.oldest.map(window),
            "configured_window_seconds": rules.map(|rules| rules.windows.max().as_secs()),
            "allowed_lateness_seconds": rules.map(|rules| rules.lateness.as_secs()),
            "rules_number": self.rules_number.0,
            "next_request": self.next_request.0,
            "input_partitions": self.input_partitions,
        });
        if let Value::Object(object) = &mut value {
            object.retain(|_, value| !value.is_null());
        }
        value
    }
}

/// Returns one original as JSON, with its distance to the requested fingerprint.
#[must_use]
pub fn original(original: &Original, distance: Option<u32>) -> Value {
    json!({
        "source": original.source.to_string(),
        "fp": original.fingerprints.simhash.map(|simhash| simhash.to_string()),
        "distance": distance,
        "event_time_ms": original.event_time.millis(),
        "cluster": original.cluster.to_string(),
    })
}
