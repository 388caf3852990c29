//! A partition of the verdict log: a copy of all its records, and the two states that they are checked with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use dupgate_core::judge::{Judge, State, decide};
use dupgate_core::protocol::{
    Answer, Checkpoint, LogPartition, Request, RulesRecord, Stage, Verdict, VerdictBatch, VerdictReader, VerdictRecord,
    decode_requests,
};
use dupgate_core::record::{PartitionId, Source, Timestamp};

use super::Law;
use super::deliveries::Deliveries;
use super::history::VerdictHistory;
use crate::bus::{CommittedOffset, SlotState};
use crate::oracle::Oracle;
use crate::world::{GROUP, Value, World, describe, judges_of, requests_of, verdicts_of};

/// One partition of the logs.
pub(super) struct LogCopy {
    log: LogPartition,
    /// Follows every committed record from the first one, as a standby does.
    reference: State,
    oracle: Oracle,
    /// Offset of the next slot to read.
    position: i64,
    reader: VerdictReader,
    /// Every committed record by the offset of its first part.
    records: BTreeMap<i64, VerdictRecord>,
    /// Digest of the reference after each record, by the offset after it.
    digests: BTreeMap<i64, u64>,
    /// Next request for the oracle: Kafka offset, and place within the record.
    next: (i64, usize),
    rules_number: u32,
    start: i64,
    /// Where the log ended when it was last trimmed. A judge that begins at its first checkpoint has every original
    /// that is live there, but not all that were live before.
    whole_from: i64,
    latest_checkpoint: Option<i64>,
    /// The stream time at each checkpoint since the log was last trimmed.
    times: Vec<i64>,
    /// Judged positions that the input group has not committed since their verdict is in the log.
    undelivered: BTreeSet<Source>,
    /// By judge: the offset at which its state was last compared.
    compared: BTreeMap<String, i64>,
}

impl LogCopy {
    pub(super) fn new(log: LogPartition) -> Self {
        Self {
            log,
            reference: State::default(),
            oracle: Oracle::default(),
            position: 0,
            reader: VerdictReader::default(),
            records: BTreeMap::new(),
            digests: BTreeMap::new(),
            next: (0, 0),
            rules_number: 0,
            start: 0,
            whole_from: 0,
            latest_checkpoint: None,
            times: Vec::new(),
            undelivered: BTreeSet::new(),
            compared: BTreeMap::new(),
        }
    }

    /// Returns the next committed record with the offsets of its first part and after its last part; `None` at the end.
    pub(super) fn read(&mut self, world: &World) -> Result<Option<(i64, i64, VerdictRecord)>, String> {
        let partition = verdicts_of(self.log);
        while self.position < world.bus.stable_end(&partition) {
            let offset = self.position;
            self.position += 1;
            let slot = &world.bus.slots(&partition)[usize::try_from(offset).unwrap()];
            if let (SlotState::Committed, Some(Value::Verdict(part))) = (slot.state, &slot.value) {
                let whole = self.reader.push(offset, part);
                let whole = whole.map_err(|why| format!("verdicts:{}@{offset} cannot be read: {why}", self.log))?;
                if let Some((first, record)) = whole {
                    return Ok(Some((first, offset + 1, record)));
                }
            }
        }
        Ok(None)
    }

    /// Keeps a record that was checked; its verdicts were followed one by one.
    pub(super) fn append(&mut self, (first, next): (i64, i64), record: VerdictRecord) -> Law {
        match &record {
            VerdictRecord::Verdicts(batch) => self.reference.end_batch(batch),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => {
                self.reference.follow_record(&record).map_err(|why| format!("L5 cannot be followed: {why}"))?;
            }
        }
        // The judge that wrote a record knows where its first part is, the others where its last one does.
        let digest = self.reference.digest();
        self.digests.extend([(first + 1, digest), (next, digest)]);
        self.records.insert(first, record);
        Ok(())
    }

    // ---- rules and checkpoints

    pub(super) fn check_rules(&mut self, rules: &RulesRecord) -> Law {
        self.rules_number += 1;
        if rules.number.0 != self.rules_number {
            return Err(format!("rules {} after {}", rules.number.0, self.rules_number - 1));
        }
        self.oracle.rules = Some(rules.rules.clone());
        Ok(())
    }

    /// Checks that a checkpoint has the oracle's state, and counts nothing as delivered that the input group has not
    /// committed.
    pub(super) fn check_checkpoint(&mut self, offset: i64, checkpoint: &Checkpoint, deliveries: &Deliveries) -> Law {
        if self.rules_number == 0 {
            self.rules_number = 1;
            self.oracle.rules = Some(checkpoint.rules.clone());
        }
        if checkpoint.previous.map(|previous| previous.0) != self.latest_checkpoint {
            return Err(format!("previous checkpoint {:?}, not {:?}", checkpoint.previous, self.latest_checkpoint));
        }
        self.latest_checkpoint = Some(offset);
        self.times.push(checkpoint.stream_time.millis());
        let found = (
            (checkpoint.rules_number.0, Some(&checkpoint.rules)),
            Stage::ALL.map(|stage| checkpoint.watermarks.times.of(stage).millis()),
            (checkpoint.watermarks.first_sequence, checkpoint.next_sequence, checkpoint.next_request.0),
            (checkpoint.stream_time.millis(), checkpoint.leap.map(|leap| (leap.from.millis(), leap.pages))),
            checkpoint.applied.iter().copied().collect::<BTreeSet<_>>(),
        );
        let (times, first_sequence) = self.oracle.watermarks();
        let expected = (
            (self.rules_number, self.oracle.rules.as_ref()),
            times,
            (first_sequence, self.oracle.next_sequence(), self.next.0),
            (self.oracle.newest.unwrap_or(i64::MIN), self.oracle.ahead),
            self.oracle.applied().clone(),
        );
        if found != expected {
            return Err(format!("L5 a checkpoint says\n  {found:?}\nthe oracle says\n  {expected:?}"));
        }
        for (partition, found) in &checkpoint.partitions {
            let judged: BTreeSet<i64> = (0..300).filter(|&offset| found.judged.contains(offset)).collect();
            let expected = self.oracle.judged(partition);
            if judged != expected {
                return Err(format!("L4 a checkpoint says of {partition}: judged {judged:?}, not {expected:?}"));
            }
            let low_watermark = self.oracle.raise_low_watermark(partition, found.low_watermark);
            self.oracle.deliver(partition, &found.delivered).map_err(|why| format!("L8 {why}"))?;
            let delivered = found.delivered.end;
            for source in self.undelivered.range(partition.at(0)..partition.at(delivered)) {
                if !found.delivered.pending.contains(source.offset.unsigned_abs()) {
                    return Err(format!("L8 {source} counts as delivered before it is"));
                }
            }
            let high = deliveries.high(partition);
            if low_watermark > high || delivered > high {
                return Err(format!(
                    "the low watermark of {partition} is {low_watermark}, delivered {delivered}; committed is {high}"
                ));
            }
        }
        Ok(())
    }

    // ---- verdicts

    pub(super) fn begin_batch(&self, batch: &VerdictBatch) -> Law {
        if batch.rules.0 != self.rules_number {
            return Err(format!("verdicts cite rules {}, {} are in force", batch.rules.0, self.rules_number));
        }
        Ok(())
    }

    /// Checks that a verdict answers the next request as the reference and the oracle do. Returns, for the statistics,
    /// whether the oracle could judge.
    pub(super) fn check_verdict(&mut self, world: &World, verdict: &Verdict) -> Result<&'static str, String> {
        let expected = loop {
            let Some((request, appended)) = self.next_request(world, i64::MAX) else {
                return Err(format!("L5 a verdict without a request: {verdict:?}"));
            };
            if let Some(answer) = self.answer(&request, appended)? {
                break answer;
            }
        };
        if expected != *verdict {
            return Err(format!("L5 the reference says\n  {expected:?}\nthe log says\n  {verdict:?}"));
        }
        Ok(if self.oracle.can_judge() { "verdicts of the oracle" } else { "others" })
    }

    /// Checks that a verdict of the dual period is that of the earlier scheme, which has judged the page first. Returns
    /// whether it is; once nobody can say what that was, the page is judged by itself.
    pub(super) fn check_taken_over(&self, verdict: &Verdict, earlier: &VerdictHistory) -> Result<bool, String> {
        let is_dual = self.oracle.rules.as_ref().is_some_and(|rules| rules.dual.is_some());
        let Some(page) = verdict.answer.page().filter(|_| is_dual) else { return Ok(false) };
        let decided = page.decision.without_original();
        let is_same =
            |verdict: &Verdict| verdict.answer.page().is_some_and(|page| page.decision.without_original() == decided);
        if earlier.has_verdict(&page.source, is_same) {
            return Ok(true);
        }
        if earlier.has_verdict(&page.source, |verdict| verdict.answer.page().is_some()) {
            return Err(format!("the earlier scheme has judged {} in another way", page.source));
        }
        Err(format!("the earlier scheme was not asked about {}", page.source))
    }

    /// Checks that no position that is reopened is still to be delivered.
    pub(super) fn check_reopening(&self, partition: &PartitionId, range: Range<i64>) -> Law {
        let mut reopened = self.undelivered.range(partition.at(range.start)..partition.at(range.end));
        match reopened.find(|source| self.oracle.is_judged(source)) {
            Some(source) => Err(format!("L8 {source} is reopened before it is delivered")),
            None => Ok(()),
        }
    }

    /// Follows a verdict that was checked.
    pub(super) fn follow(&mut self, verdict: &Verdict) -> Law {
        self.undelivered.extend(verdict.answer.judged_source().cloned());
        self.reference.follow(verdict).map_err(|why| format!("L5 cannot be followed: {why}"))?;
        self.oracle.take(verdict);
        Ok(())
    }

    /// Checks that the remaining requests of a batch need no answer. Returns their number.
    pub(super) fn end_batch(&mut self, world: &World, batch: &VerdictBatch) -> Result<u64, String> {
        self.skip_lost_requests(world, batch);
        let mut repeats = 0;
        while let Some((request, appended)) = self.next_request(world, batch.next_request.0) {
            if let Some(answer) = self.answer(&request, appended)? {
                return Err(format!("L2 passed {} without an answer: {answer:?}", describe(&request)));
            }
            repeats += 1;
        }
        if self.next != (batch.next_request.0, 0) {
            return Err(format!("next request {}, but the verdicts end at {:?}", batch.next_request, self.next));
        }
        let (watermarks, expected) = (batch.watermarks, self.oracle.watermarks());
        let found = (Stage::ALL.map(|stage| watermarks.times.of(stage).millis()), watermarks.first_sequence);
        if found != expected {
            return Err(format!("L5 watermarks {found:?}, the oracle's are {expected:?}"));
        }
        Ok(repeats)
    }

    /// Goes to where the judge goes on, in a batch without verdicts, if the log does not hold the next request: back
    /// after it was truncated, or on after its beginning was deleted.
    fn skip_lost_requests(&mut self, world: &World, batch: &VerdictBatch) {
        let (requests, next) = (requests_of(self.log), batch.next_request.0);
        let is_back = next < self.next.0 && world.bus.is_truncated(&requests);
        let start = world.bus.start(&requests);
        if batch.verdicts.is_empty() && (is_back || self.next.0 < start && next == start) {
            self.next = (next, 0);
        }
    }

    /// Returns the next request before this offset.
    fn next_request(&mut self, world: &World, before: i64) -> Option<(Request, Timestamp)> {
        loop {
            let (offset, index) = self.next;
            let slots = world.bus.slots(&requests_of(self.log));
            let slot = slots.get(usize::try_from(offset).unwrap()).filter(|_| offset < before)?;
            let Some(Value::Requests(bytes)) = &slot.value else { return None };
            let requests = decode_requests(bytes).unwrap();
            self.next = if index + 1 >= requests.len() { (offset + 1, 0) } else { (offset, index + 1) };
            if let Some(request) = requests.get(index) {
                return Some((request.clone(), slot.timestamp));
            }
        }
    }

    /// Answers a request by the reference, and checks the answer with the oracle where it can judge.
    fn answer(&self, request: &Request, appended: Timestamp) -> Result<Option<Verdict>, String> {
        let decided = decide(&self.reference, request, appended);
        if self.oracle.can_judge() {
            let expected = self.oracle.answer(request, appended.millis());
            if expected != decided {
                return Err(format!("L5/L7 the oracle says\n  {expected:?}\nthe reference says\n  {decided:?}"));
            }
        }
        Ok(decided)
    }

    // ---- commits and trims

    /// Checks that the judge's offset is committed with all verdicts before it, and never goes back.
    pub(super) fn check_commit(&self, world: &World, moved: &CommittedOffset) -> Law {
        let is_back = moved.before.is_some_and(|before| before > moved.after);
        if is_back && !world.bus.is_truncated(&moved.partition) {
            return Err(format!("L2 {} went back from {:?} to {}", moved.group, moved.before, moved.after));
        }
        if self.next != (moved.after, 0) {
            let next = self.next;
            return Err(format!("L2 {} committed {}, the verdicts end at {next:?}", moved.group, moved.after));
        }
        let metadata = &world.bus.committed(&moved.group, &moved.partition).unwrap().metadata;
        if metadata.parse().ok() != self.latest_checkpoint {
            let latest = self.latest_checkpoint;
            return Err(format!("{}: checkpoint {metadata}, the latest is {latest:?}", moved.group));
        }
        Ok(())
    }

    /// Checks what was deleted from both logs since the last time. Returns whether anything was.
    pub(super) fn check_trim(&mut self, world: &World, history: &VerdictHistory) -> Result<bool, String> {
        let (log, start, before) = (self.log, world.bus.start(&verdicts_of(self.log)), self.start);
        if start == before {
            return Ok(false);
        }
        self.start = start;
        self.whole_from = self.position;
        let trimmed = |past: String| Err(format!("verdicts:{log} trimmed to {start}, past {past}"));
        if !matches!(self.records.get(&start), Some(VerdictRecord::Checkpoint(_))) {
            return Err(format!("verdicts:{log} trimmed to {start}, where there is no committed checkpoint"));
        }
        let rules = self.oracle.rules.as_ref().unwrap();
        let window = i64::try_from((rules.windows.max() + rules.lateness).as_millis()).unwrap();
        let live = self.oracle.live();
        // It may have been set back since.
        let newest = self.times.iter().copied().max();
        self.times.drain(..self.times.len().saturating_sub(1));
        for record in self.records.range(before..start).map(|(_, record)| record) {
            let VerdictRecord::Verdicts(batch) = record else { continue };
            for verdict in &batch.verdicts {
                let Answer::Page(page) = &verdict.answer else { continue };
                if page.decision.original().is_some()
                    && live.contains(&page.source)
                    && history.last_verdict_at(&page.source).is_some_and(|at| at < start)
                {
                    return trimmed(format!("the live original {}", page.source));
                }
                if newest.is_some_and(|newest| page.event_time.millis() >= newest.saturating_sub(window)) {
                    return trimmed(format!("the young verdict of {}", page.source));
                }
            }
        }
        let requests = world.bus.start(&requests_of(log));
        let committed = world.bus.committed(&judges_of(log), &requests_of(log)).map_or(0, |committed| committed.offset);
        if requests > committed {
            return Err(format!("fingerprints:{log} trimmed to {requests}, but the judge has committed {committed}"));
        }
        Ok(true)
    }

    /// Drops positions from the undelivered ones that the input group has committed.
    pub(super) fn forget_delivered(&mut self, world: &World) {
        self.undelivered.retain(|source| {
            let committed = world.bus.committed(GROUP, &source.partition);
            committed.is_none_or(|committed| source.offset >= committed.offset)
        });
    }

    // ---- states

    /// Checks that the state of a judge is the reference's at the same place. Returns whether they were compared.
    pub(super) fn compare(&mut self, name: &str, judge: &Judge) -> Result<bool, String> {
        let Some(at) = judge.settled_at().map(|at| at.0) else { return Ok(false) };
        if self.compared.insert(name.to_owned(), at) == Some(at) || at < self.whole_from {
            return Ok(false);
        }
        match self.digests.get(&at) {
            None => Err(format!("L5 {name} is at {at}, where no record ends")),
            Some(&digest) if digest != judge.state().digest() => {
                Err(format!("L5 {name} at verdicts:{}@{at} has another state than the reference", self.log))
            }
            Some(_) => Ok(true),
        }
    }

    pub(super) fn is_judged(&self, source: &Source) -> bool {
        self.oracle.is_judged(source)
    }

    /// Returns the pages that made the live originals.
    pub(super) fn live(&self) -> Vec<Source> {
        self.oracle.live().into_iter().collect()
    }
}
