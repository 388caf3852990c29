//! A judge run alone on a copy of both logs: one state, one request after the other, no I/O.

use std::collections::BTreeMap;

use dupgate::protocol::{
    Answer, LogIdentity, Request, RequestOffset, Rules, Verdict, VerdictReader, VerdictRecord, decode_requests,
};
use dupgate::record::{Source, Timestamp};
use dupgate_core::judge::{State, decide};

use crate::accounting::Outcome;
use crate::cluster::Cluster;
use crate::cluster::records::{Record, TopicReader};

/// The records of both logs.
pub(crate) struct Logs {
    /// The append time of each record of the fingerprint log, and its requests.
    pub(crate) requests: Vec<(Timestamp, Vec<Request>)>,
    /// Records of the verdict log, with their offsets.
    pub(crate) answered: Vec<(i64, VerdictRecord)>,
}

impl Logs {
    /// Reads both logs.
    pub(crate) fn read(cluster: &Cluster<'_>) -> Self {
        let read = |log: &str| TopicReader::open(cluster.broker(), &[&cluster.log_topic(log)]).read_to_end();
        let records = read("fingerprints");
        assert_eq!(records.first().map(|record| record.source.offset), Some(0), "the fingerprint log was trimmed");
        let requests = records.iter().map(|record| {
            let append_time = Timestamp::from_millis(record.timestamp.expect("brokers stamp what they append"));
            (append_time, decode_requests(payload(record)).expect("requests"))
        });
        Self { requests: requests.collect(), answered: decode_verdicts(&read("verdicts")) }
    }

    /// Every verdict that was written, in order.
    pub(crate) fn verdicts(&self) -> Vec<&Verdict> {
        let batches = self.answered.iter().filter_map(|(_, record)| match record {
            VerdictRecord::Verdicts(batch) => Some(&batch.verdicts),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        });
        batches.flatten().collect()
    }

    /// The rules that the verdict log begins with, which must not change.
    pub(crate) fn rules(&self) -> &Rules {
        let changed = self.answered.iter().any(|(_, record)| matches!(record, VerdictRecord::Rules(_)));
        assert!(!changed, "all instances have the same configuration");
        match self.answered.first() {
            Some((_, VerdictRecord::Checkpoint(checkpoint))) => &checkpoint.rules,
            other => panic!("the verdict log begins with {other:?}"),
        }
    }

    /// The verdicts of a judge that works alone.
    pub(crate) fn judged_alone(&self) -> Vec<Verdict> {
        let mut state = State::begin(LogIdentity(0), self.rules().clone(), RequestOffset(0));
        let mut verdicts = Vec::new();
        for (append_time, requests) in &self.requests {
            for request in requests {
                let Some(verdict) = decide(&state, request, *append_time) else { continue };
                state.follow(&verdict).expect("its own verdict follows");
                verdicts.push(verdict);
            }
        }
        verdicts
    }
}

/// Reassembles records of a verdict log.
pub(crate) fn decode_verdicts(records: &[Record]) -> Vec<(i64, VerdictRecord)> {
    let mut reader = VerdictReader::new();
    let decoded =
        records.iter().filter_map(|record| reader.push(record.source.offset, payload(record)).expect("a record"));
    decoded.collect()
}

fn payload(record: &Record) -> &[u8] {
    record.value.as_deref().expect("a payload")
}

/// The last verdict of each page, as in the output headers.
pub(crate) fn verdicts_by_page(verdicts: &[Verdict]) -> BTreeMap<&Source, (&'static str, Option<&Source>)> {
    let pages = verdicts.iter().filter_map(|verdict| match &verdict.answer {
        Answer::Page(page) => {
            let word = page.decision.kind().name();
            // An update is special: its header names no original.
            let matched = page.decision.matched().filter(|_| word != "update").map(|of| &of.source);
            Some((&page.source, (word, matched)))
        }
        Answer::Withdrawn { .. } | Answer::Forgotten(_) | Answer::Reopened { .. } | Answer::TimeSet { .. } => None,
    });
    pages.collect()
}

/// The same for delivered pages, without dead letters.
pub(crate) fn delivered(outcomes: &BTreeMap<Source, Outcome>) -> BTreeMap<&Source, (&str, Option<&Source>)> {
    let judged = outcomes.iter().filter(|(_, outcome)| outcome.output_kind != crate::accounting::OutputKind::Dead);
    judged.map(|(source, outcome)| (source, outcome.verdict())).collect()
}
