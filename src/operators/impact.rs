//! Determines what an operator's request affects: the originals that it forgets, and the positions that it reopens.
//!
//! The answer in the verdict log names only the target. The log before it, read from its start, contains every live
//! original, and so shows what the request affected. Only originals and positions that the requests name are kept in
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::protocol::{
    Answer, Decision, ExpiryWatermarks, ForgetTarget, Judged, PageVerdict, RequestBody, Stage, VerdictRecord,
};
use crate::record::{PartitionId, Source, Timestamp};

/// The findings of one request in one partition of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Originals, with the number of their duplicates in the kept log.
    pub originals: Vec<(Source, u64)>,
    /// Number of judged positions, if the request names a range.
    pub positions: u64,
    /// Number of judged positions of the requested range that the judge left out, because they, or one before them, may
    /// still be on their way to the outputs.
    pub left_out: u64,
}

impl Found {
    /// Returns whether there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.originals.is_empty() && self.positions == 0
    }
}

/// Follows one partition of the verdict log and tracks what some requests affect.
#[derive(Debug, Default)]
pub(crate) struct RequestImpact {
    sources: BTreeSet<Source>,
    ids: BTreeSet<crate::fingerprint::IdHash>,
    ranges: Vec<(PartitionId, Range<i64>)>,
    originals: BTreeMap<Source, LiveOriginal>,
    judged: BTreeMap<PartitionId, Judged>,
    next_sequence: Option<u64>,
    watermarks: Option<ExpiryWatermarks>,
}

#[derive(Debug)]
struct LiveOriginal {
    /// `None` until the first rules or checkpoint.
    sequence: Option<u64>,
    event_time: Timestamp,
    id: Option<crate::fingerprint::IdHash>,
    duplicates: u64,
}

impl RequestImpact {
    /// Starts before the first record of the log.
    pub(crate) fn by(bodies: &[RequestBody]) -> Self {
        let mut affected = Self::default();
        for body in bodies {
            match body {
                RequestBody::Forget(ForgetTarget::Source(source)) => drop(affected.sources.insert(source.clone())),
                RequestBody::Forget(ForgetTarget::Id(id)) => drop(affected.ids.insert(*id)),
                RequestBody::Reopen { partition, from, to } => affected.ranges.push((partition.clone(), *from..*to)),
                RequestBody::Page(_) | RequestBody::Withdraw { .. } | RequestBody::SetTime(_) => {}
            }
        }
        affected
    }

    /// Follows a record. For each answer to an operator's request in it, in order, calls `visit` with the index of the
    /// verdict, what the request found, and the judged positions of the partition that it reopened.
    pub(crate) fn follow(&mut self, record: &VerdictRecord, mut visit: impl FnMut(usize, Found, Option<&Judged>)) {
        match record {
            // A log begins with its rules, a trimmed one with a checkpoint.
            VerdictRecord::Rules(_) => {
                self.next_sequence.get_or_insert(0);
            }
            VerdictRecord::Checkpoint(checkpoint) => {
                self.next_sequence = Some(checkpoint.next_sequence);
                self.watermarks = Some(checkpoint.watermarks);
                // A checkpoint lists everything judged before it.
                let known = |(partition, _): &(PartitionId, Range<i64>)| {
                    Some((partition.clone(), checkpoint.partitions.get(partition)?.judged.clone()))
                };
                self.judged = self.ranges.iter().filter_map(known).collect();
            }
            VerdictRecord::Verdicts(batch) => {
                for (number, verdict) in batch.verdicts.iter().enumerate() {
                    match &verdict.answer {
                        Answer::Page(page) => self.page(page),
                        Answer::Withdrawn { source, .. } => {
                            self.close(source);
                            self.originals.remove(source);
                        }
                        answer @ Answer::Forgotten(_) => visit(number, self.take(answer), None),
                        answer @ Answer::Reopened { partition, .. } => {
                            let found = self.take(answer);
                            visit(number, found, self.judged.get(partition));
                        }
                        Answer::TimeSet { .. } => self.drop_expired(),
                    }
                }
                self.watermarks = Some(batch.watermarks);
            }
        }
    }

    /// Returns what a request would find now.
    pub(crate) fn would_find(&self, body: &RequestBody) -> Found {
        match body {
            RequestBody::Forget(target) => self.found(&Answer::Forgotten(target.clone())),
            RequestBody::Reopen { partition, from, to } => {
                self.found(&Answer::Reopened { partition: partition.clone(), from: *from, to: *to })
            }
            RequestBody::Page(_) | RequestBody::Withdraw { .. } | RequestBody::SetTime(_) => Found::default(),
        }
    }

    fn found(&self, answer: &Answer) -> Found {
        let mut found = Found::default();
        for (source, held) in &self.originals {
            if self.is_alive(held) && is_target(answer, source, held) {
                found.originals.push((source.clone(), held.duplicates));
            }
        }
        if let Answer::Reopened { partition, from, to } = answer {
            found.positions = self.judged.get(partition).map_or(0, |judged| judged.count(*from, *to));
        }
        found
    }

    fn take(&mut self, answer: &Answer) -> Found {
        let found = self.found(answer);
        self.originals.retain(|source, held| !is_target(answer, source, held));
        if let Answer::Reopened { partition, from, to } = answer
            && let Some(judged) = self.judged.get_mut(partition)
        {
            judged.reopen(*from, *to);
        }
        found
    }

    fn page(&mut self, page: &PageVerdict) {
        self.close(&page.source);
        if let Decision::Update { of, original: Some(_) } = &page.decision {
            self.originals.remove(&of.source);
        }
        if let Decision::Duplicate { of } = &page.decision
            && let Some(held) = self.originals.get_mut(&of.source)
        {
            held.duplicates += 1;
        }
        let Some(original) = page.decision.original() else { return };
        let sequence = self.next_sequence;
        self.next_sequence = sequence.map(|sequence| sequence + 1);
        let is_wanted = self.sources.contains(&page.source)
            || original.id.is_some_and(|id| self.ids.contains(&id))
            || self.is_in_range(&page.source);
        if is_wanted {
            let held = LiveOriginal { sequence, event_time: page.event_time, id: original.id, duplicates: 0 };
            self.originals.insert(page.source.clone(), held);
        }
    }

    /// Drops what has expired before the stream time is set back: it does not come back.
    fn drop_expired(&mut self) {
        let mut originals = std::mem::take(&mut self.originals);
        originals.retain(|_, held| self.is_alive(held));
        self.originals = originals;
    }

    fn close(&mut self, source: &Source) {
        if self.is_in_range(source) {
            self.judged.entry(source.partition.clone()).or_default().insert(source.offset);
        }
    }

    fn is_in_range(&self, source: &Source) -> bool {
        self.ranges
            .iter()
            .any(|(partition, offsets)| *partition == source.partition && offsets.contains(&source.offset))
    }

    /// Returns whether the index still holds an original: those that have expired or were evicted do not count.
    fn is_alive(&self, held: &LiveOriginal) -> bool {
        let Some(watermarks) = &self.watermarks else { return true };
        let in_time = Stage::ALL.into_iter().any(|stage| held.event_time >= watermarks.times.of(stage));
        in_time && held.sequence.is_none_or(|sequence| sequence >= watermarks.first_sequence)
    }
}

fn is_target(answer: &Answer, source: &Source, held: &LiveOriginal) -> bool {
    match answer {
        Answer::Forgotten(ForgetTarget::Source(wanted)) => wanted == source,
        Answer::Forgotten(ForgetTarget::Id(wanted)) => held.id == Some(*wanted),
        Answer::Reopened { partition, from, to } => {
            *partition == source.partition && (*from..*to).contains(&source.offset)
        }
        Answer::Page(_) | Answer::Withdrawn { .. } | Answer::TimeSet { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExternalInputs, Layers, Purpose};
    use crate::fingerprint::{ExactHash, Fingerprints, IdHash, Numbers, PageDigest};
    use crate::protocol::{
        Checkpoint, Delivered, LogIdentity, Match, MatchedBy, NewOriginal, PartitionCheckpoint, PerStage, Placement,
        RequestId, RequestOffset, Rules, RulesNumber, Verdict, VerdictBatch,
    };
    use crate::record::Reject;
    use dupgate_core::judge::State;

    fn at(offset: i64) -> Source {
        PartitionId::new("pages", 0).at(offset)
    }

    fn unique(offset: i64, id: u64, millis: i64) -> Answer {
        let fingerprints =
            Fingerprints { exact: ExactHash(id.into()), simhash: None, sketch: None, numbers: Numbers::default() };
        let original = NewOriginal {
            fingerprints,
            id: Some(IdHash(id)),
            scope: None,
            site: None,
            address: None,
            title: None,
            placement: Placement::default(),
            cluster: None,
        };
        page(offset, millis, Decision::Unique { original: Some(original) })
    }

    fn duplicate(offset: i64, of: i64) -> Answer {
        let of = Match { by: MatchedBy::Exact, source: at(of), age_ms: 0, cluster: at(of) };
        page(offset, 0, Decision::Duplicate { of })
    }

    fn page(offset: i64, millis: i64, decision: Decision) -> Answer {
        let event_time = Timestamp::from_millis(millis);
        Answer::Page(PageVerdict { source: at(offset), event_time, digest: PageDigest(0), decision })
    }

    fn batch(tail: i64, first_sequence: u64, answers: Vec<Answer>) -> VerdictRecord {
        let watermarks = ExpiryWatermarks { times: PerStage::all(Timestamp::from_millis(tail)), first_sequence };
        let verdict = |answer| Verdict { request: RequestId(1), answer };
        VerdictRecord::Verdicts(VerdictBatch {
            log: LogIdentity(1),
            rules: RulesNumber(1),
            watermarks,
            next_request: RequestOffset(0),
            verdicts: answers.into_iter().map(verdict).collect(),
        })
    }

    #[test]
    fn a_request_finds_the_originals_that_are_alive_and_the_positions_that_are_judged() {
        let by_source = RequestBody::Forget(ForgetTarget::Source(at(1)));
        let by_id = RequestBody::Forget(ForgetTarget::Id(IdHash(7)));
        let range = RequestBody::Reopen { partition: PartitionId::new("pages", 0), from: 1, to: 4 };
        let bodies = [by_source.clone(), by_id.clone(), range.clone()];
        let mut affected = RequestImpact::by(&bodies);
        assert!(bodies.iter().all(|body| affected.would_find(body).is_empty()));
        affected.next_sequence = Some(0);
        let nothing = |_, found, _: Option<&Judged>| panic!("{found:?}");
        let record = batch(0, 0, vec![unique(1, 5, 10), unique(2, 7, 20), unique(9, 7, 5), duplicate(3, 1)]);
        affected.follow(&record, nothing);
        let originals = |body: &RequestBody| affected.would_find(body).originals;
        assert_eq!(originals(&by_source), [(at(1), 1)]);
        assert_eq!(originals(&by_id), [(at(2), 0), (at(9), 0)]);
        assert_eq!(
            affected.would_find(&range),
            Found { originals: vec![(at(1), 1), (at(2), 0)], positions: 3, left_out: 0 }
        );
        // One is forgotten by time, another by capacity.
        affected.follow(&batch(8, 0, Vec::new()), nothing);
        assert_eq!(affected.would_find(&by_id).originals, [(at(2), 0)]);
        affected.follow(&batch(8, 1, Vec::new()), nothing);
        assert!(affected.would_find(&by_source).is_empty());
        // A forgotten original is not found again; a withdrawn page is not an original.
        let mut reported = Vec::new();
        let forgotten = || Answer::Forgotten(ForgetTarget::Id(IdHash(7)));
        affected
            .follow(&batch(8, 1, vec![forgotten(), forgotten()]), |number, found, _| reported.push((number, found)));
        assert_eq!(
            reported.iter().map(|(number, found)| (*number, found.originals.len())).collect::<Vec<_>>(),
            [(0, 1), (1, 0)]
        );
        affected.follow(&batch(8, 1, vec![unique(1, 7, 30)]), nothing);
        affected.follow(&batch(8, 1, vec![Answer::Withdrawn { source: at(1), reason: Reject::Refused }]), nothing);
        assert!(affected.would_find(&by_source).is_empty() && affected.would_find(&by_id).is_empty());
        // What was asked to be reopened and was not is still judged.
        let reopened = Answer::Reopened { partition: PartitionId::new("pages", 0), from: 1, to: 2 };
        let mut left = Vec::new();
        affected.follow(&batch(8, 1, vec![reopened]), |_, found, judged| {
            left.push((found.positions, judged.map(|judged| judged.count(2, 4))));
        });
        assert_eq!(left, [(1, Some(2))]);
    }

    #[test]
    fn a_range_without_an_end_is_counted_and_never_walked() {
        let partition = PartitionId::new("pages", 0);
        let range = RequestBody::Reopen { partition: partition.clone(), from: 5, to: i64::MAX };
        let mut affected = RequestImpact::by(std::slice::from_ref(&range));
        let mut judged = Judged::default();
        judged.raise_low_watermark(1_000_000_000);
        judged.insert(1_000_000_007);
        let output = PartitionCheckpoint { judged, low_watermark: 0, delivered: Delivered::up_to(i64::MAX) };
        let Some(checkpoint) = State::begin(LogIdentity(1), rules(), RequestOffset(0)).checkpoint(None, |_| 0) else {
            panic!("rules are in force")
        };
        let checkpoint = Checkpoint { partitions: BTreeMap::from([(partition, output)]), ..checkpoint };
        affected.follow(&VerdictRecord::Checkpoint(Box::new(checkpoint)), |_, found, _| panic!("{found:?}"));
        affected.follow(&batch(0, 0, vec![duplicate(1_000_000_009, 1), duplicate(2, 1)]), |_, found, _| {
            panic!("{found:?}")
        });
        assert_eq!(affected.would_find(&range).positions, 1_000_000_000 - 5 + 2);
    }

    fn rules() -> Rules {
        let resolved = Layers::default().resolve(&ExternalInputs::default(), Purpose::Sieve);
        resolved.unwrap_or_else(|refused| panic!("{refused}")).0.rules
    }
}
