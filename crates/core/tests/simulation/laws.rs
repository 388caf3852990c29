//! The laws, checked after every step against the test's own copy of everything that was ever written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dupgate_core::judge::{Judge, State, decide};
use dupgate_core::protocol::{
    Answer, Checkpoint, Decision, LogPartition, Request, Stage, Verdict, VerdictBatch, VerdictReader, VerdictRecord,
    decode_requests,
};
use dupgate_core::record::{PartitionId, Source, Timestamp};
use dupgate_core::worker::Mode;
use dupgate_core::worker::PageOutcome;

use crate::bus::{CommittedTransaction, SlotState};
use crate::oracle::Oracle;
use crate::world::{GROUP, Given, Value, World, describe, judges_of, requests_of, routed, verdicts_of};

/// Whatever one log partition is held against.
#[derive(Default)]
struct Log {
    /// Follows every committed record from the beginning of time, as any standby does.
    reference: State,
    /// Offset of the next verdict record to look at.
    position: i64,
    reader: VerdictReader,
    /// Every committed record by the offset of its first part: the test's own copy.
    records: BTreeMap<i64, VerdictRecord>,
    /// Digest of the reference after each record, by the offset after it.
    digests: BTreeMap<i64, u64>,
    oracle: Oracle,
    /// Next request for the oracle: Kafka offset, and place within the record.
    next: (i64, usize),
    rules_number: u32,
    start: i64,
    /// Where the log ended when it was last trimmed: who begins at its first checkpoint holds every original that is
    /// still alive there, but not all that were alive on the way.
    whole_from: i64,
    latest_checkpoint: Option<i64>,
    /// Judged positions that the input group has not been seen behind since their verdict is in the log.
    on_their_way: BTreeSet<Source>,
}

impl Log {
    /// Answers a request as who followed every record does, and as the oracle does where it can judge.
    fn answer(&self, request: &Request, appended: Timestamp) -> Result<Option<Verdict>, String> {
        let decided = decide(&self.reference, request, appended);
        if self.oracle.can_judge() {
            let expected = self.oracle.answer(request, appended.millis());
            if expected != decided {
                return Err(format!("L5/L7 the oracle says\n  {expected:?}\nwho followed all says\n  {decided:?}"));
            }
        }
        Ok(decided)
    }
}

/// What was judged about one position, in order.
#[derive(Clone)]
enum Said {
    /// Somebody waits for it, unless the request was made before a range was reopened and came after it.
    Judged {
        log: LogPartition,
        at: i64,
        verdict: Arc<Verdict>,
        is_awaited: bool,
    },
    Reopened {
        log: LogPartition,
        at: i64,
    },
}

/// The bookkeeping of all laws.
pub(crate) struct Laws {
    logs: Vec<Log>,
    verdicts: BTreeMap<Source, Vec<Said>>,
    delivered: BTreeMap<Source, Vec<PageOutcome>>,
    /// Duplicates, each with its verdict and that of its original.
    duplicates: Vec<(Source, Arc<Verdict>, Source, Arc<Verdict>)>,
    /// Highest position the input group ever committed.
    pub(crate) high: BTreeMap<PartitionId, i64>,
    /// Where the group began to read.
    pub(crate) firsts: BTreeMap<PartitionId, i64>,
    pub(crate) reopened: BTreeSet<Source>,
    withdrawn: BTreeSet<Source>,
    pub(crate) statistics: BTreeMap<&'static str, u64>,
    /// Positions for which the verdict log was compared with the digest of a judge already.
    compared: BTreeMap<String, i64>,
    /// For the trace.
    lines: Vec<String>,
}

type Law = Result<(), String>;

impl Laws {
    pub(crate) fn new(logs: usize) -> Self {
        Self {
            logs: (0..logs).map(|_| Log::default()).collect(),
            verdicts: BTreeMap::new(),
            delivered: BTreeMap::new(),
            duplicates: Vec::new(),
            high: BTreeMap::new(),
            firsts: BTreeMap::new(),
            reopened: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            statistics: BTreeMap::new(),
            compared: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Begins with logs that hold nothing; what was counted stays.
    pub(crate) fn begin_anew(&mut self) {
        let statistics = std::mem::take(&mut self.statistics);
        *self = Self { statistics, ..Self::new(self.logs.len()) };
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.statistics.entry(what).or_default() += 1;
    }

    /// Looks at all that became visible since the last look.
    pub(crate) fn observe(&mut self, world: &mut World) {
        let looked = self.look(world);
        self.lines.drain(..).for_each(|line| world.log(|| line));
        if let Err(broken) = looked {
            world.violate(broken);
        }
    }

    fn look(&mut self, world: &mut World) -> Law {
        for log in LogPartition::first(self.logs.len()) {
            let partition = verdicts_of(log);
            while self.logs[log.index()].position < world.bus.stable_end(&partition) {
                let offset = self.logs[log.index()].position;
                self.logs[log.index()].position += 1;
                let slot = &world.bus.slots(&partition)[usize::try_from(offset).unwrap()];
                if let (SlotState::Committed, Some(Value::Verdict(part))) = (slot.state, &slot.value) {
                    let whole = self.logs[log.index()].reader.push(offset, part);
                    let whole = whole.map_err(|why| format!("verdicts:{log}@{offset} cannot be read: {why}"))?;
                    if let Some((first, record)) = whole {
                        self.follow(world, log, first, offset + 1, record)?;
                    }
                }
            }
            self.look_at_trims(world, log)?;
            let is_passed = |source: &Source| {
                let committed = world.bus.committed(GROUP, &source.partition);
                committed.is_some_and(|committed| source.offset < committed.offset)
            };
            self.logs[log.index()].on_their_way.retain(|source| !is_passed(source));
        }
        for given in std::mem::take(&mut world.given) {
            self.check_given(&given)?;
        }
        for transaction in world.bus.take_journal() {
            if transaction.offsets.iter().any(|moved| moved.group == GROUP) || transaction.id.starts_with("worker") {
                self.delivery(world, &transaction)?;
            } else {
                self.judgement(world, &transaction)?;
            }
        }
        Ok(())
    }

    // ---- the verdict log

    fn follow(&mut self, world: &World, log: LogPartition, offset: i64, next: i64, record: VerdictRecord) -> Law {
        let at = |why: String| format!("verdicts:{log}@{offset}: {why}");
        match &record {
            VerdictRecord::Rules(rules) => {
                let own = &mut self.logs[log.index()];
                own.rules_number += 1;
                if rules.number.0 != own.rules_number {
                    return Err(at(format!("rules {} after {}", rules.number.0, own.rules_number - 1)));
                }
                own.oracle.rules = Some(rules.rules.clone());
            }
            VerdictRecord::Checkpoint(checkpoint) => {
                self.lines.push(format!("verdicts:{log}@{offset}: checkpoint"));
                self.checkpoint(log, offset, checkpoint).map_err(at)?;
            }
            VerdictRecord::Verdicts(batch) => self.batch(world, log, offset, batch).map_err(at)?,
        }
        let own = &mut self.logs[log.index()];
        match &record {
            // Its verdicts were followed one by one.
            VerdictRecord::Verdicts(batch) => own.reference.end_batch(batch),
            VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => {
                own.reference.follow_record(&record).map_err(|why| at(format!("L5 cannot be followed: {why}")))?;
            }
        }
        // The judge that wrote a record knows where its first part is, the others where its last one does.
        let digest = own.reference.digest();
        own.digests.extend([(offset + 1, digest), (next, digest)]);
        own.records.insert(offset, record);
        Ok(())
    }

    fn batch(&mut self, world: &World, log: LogPartition, offset: i64, batch: &VerdictBatch) -> Law {
        if batch.rules.0 != self.logs[log.index()].rules_number {
            return Err(format!(
                "verdicts cite rules {}, {} are in force",
                batch.rules.0,
                self.logs[log.index()].rules_number
            ));
        }
        for verdict in &batch.verdicts {
            let expected = loop {
                let Some((request, appended)) = self.next_request(world, log, i64::MAX) else {
                    return Err(format!("L5 a verdict that no request asks for: {verdict:?}"));
                };
                if let Some(answer) = self.logs[log.index()].answer(&request, appended)? {
                    break answer;
                }
            };
            if expected != *verdict {
                return Err(format!("L5 who followed all says\n  {expected:?}\nthe log says\n  {verdict:?}"));
            }
            let judged_by = if self.logs[log.index()].oracle.can_judge() { "verdicts of the oracle" } else { "others" };
            self.count(judged_by);
            self.lines.push(format!("verdicts:{log}@{offset}: {}", describe_answer(&verdict.answer)));
            self.check_verdict(world, log, offset, verdict)?;
            let own = &mut self.logs[log.index()];
            own.reference.follow(verdict).map_err(|why| format!("L5 cannot be followed: {why}"))?;
            own.oracle.take(verdict);
            self.count("verdicts");
        }
        while let Some((request, appended)) = self.next_request(world, log, batch.next_request.0) {
            if let Some(answer) = self.logs[log.index()].answer(&request, appended)? {
                return Err(format!("L2 passed {} without an answer: {answer:?}", describe(&request)));
            }
            self.count("repeats");
        }
        let own = &self.logs[log.index()];
        if own.next != (batch.next_request.0, 0) {
            return Err(format!("next request {}, but the verdicts end at {:?}", batch.next_request, own.next));
        }
        let (watermarks, expected) = (batch.watermarks, own.oracle.watermarks());
        let said = (Stage::ALL.map(|stage| watermarks.times.of(stage).millis()), watermarks.first_sequence);
        if said != expected {
            return Err(format!("L5 watermarks {said:?}, the oracle's are {expected:?}"));
        }
        Ok(())
    }

    /// The oracle's next request before this offset.
    fn next_request(&mut self, world: &World, log: LogPartition, before: i64) -> Option<(Request, Timestamp)> {
        let own = &mut self.logs[log.index()];
        loop {
            let (offset, index) = own.next;
            let slots = world.bus.slots(&requests_of(log));
            let slot = slots.get(usize::try_from(offset).unwrap()).filter(|_| offset < before)?;
            let Some(Value::Requests(bytes)) = &slot.value else { return None };
            let requests = decode_requests(bytes).unwrap();
            if index + 1 >= requests.len() {
                own.next = (offset + 1, 0);
            } else {
                own.next = (offset, index + 1);
            }
            if let Some(request) = requests.get(index) {
                return Some((request.clone(), slot.timestamp));
            }
        }
    }

    fn check_verdict(&mut self, world: &World, log: LogPartition, at: i64, verdict: &Verdict) -> Law {
        match &verdict.answer {
            Answer::Page(page) => {
                let before = self.verdicts.get(&page.source).and_then(|said| said.last());
                if matches!(before, Some(Said::Judged { .. })) {
                    return Err(format!("L4 a second verdict of {}", page.source));
                }
                if let Some(of) = page.decision.matched() {
                    if of.source == page.source {
                        return Err(format!("L8 {} is its own duplicate", page.source));
                    }
                    let mut earlier = self.verdicts.get(&of.source).into_iter().flatten().rev();
                    let Some(Said::Judged { verdict: made, is_awaited, .. }) = earlier.find(|said| made_original(said))
                    else {
                        return Err(format!("L3 {} has the original {}, which is none", page.source, of.source));
                    };
                    if matches!(page.decision, Decision::Duplicate { .. }) && *is_awaited {
                        let (copy, made) = (Arc::new(verdict.clone()), Arc::clone(made));
                        self.duplicates.push((page.source.clone(), copy, of.source.clone(), made));
                    }
                }
            }
            Answer::Withdrawn { source, .. } => drop(self.withdrawn.insert(source.clone())),
            Answer::Forgotten(_) => {}
            Answer::Reopened { partition, from, to } => {
                let own = &self.logs[log.index()];
                for source in own.on_their_way.range(partition.at(*from)..partition.at(*to)) {
                    if own.oracle.is_judged(source) {
                        return Err(format!("L8 {source} is reopened on its way"));
                    }
                }
                for offset in *from..*to {
                    let source = partition.at(offset);
                    let last = self.verdicts.get(&source).and_then(|said| said.last());
                    if let Some(Said::Judged { log: of, verdict, is_awaited: true, .. }) = last
                        && *of == log
                        && matches!(verdict.answer, Answer::Page(_))
                        && world.mode != Mode::Observe
                        && !self.is_delivered_as(&source, verdict)
                    {
                        return Err(format!("L8 {source} is reopened and was never delivered as {verdict:?}"));
                    }
                    self.verdicts.entry(partition.at(offset)).or_default().push(Said::Reopened { log, at });
                    self.reopened.insert(partition.at(offset));
                }
            }
        }
        if let Some(source) = verdict.answer.judged_source() {
            self.logs[log.index()].on_their_way.insert(source.clone());
            let committed = world.bus.committed(GROUP, &source.partition);
            let is_awaited = committed.is_none_or(|committed| source.offset >= committed.offset);
            if !is_awaited {
                self.count("verdicts that nobody waits for");
            }
            let verdict = Arc::new(verdict.clone());
            self.verdicts.entry(source.clone()).or_default().push(Said::Judged { log, at, verdict, is_awaited });
        }
        Ok(())
    }

    fn checkpoint(&mut self, log: LogPartition, offset: i64, checkpoint: &Checkpoint) -> Law {
        let own = &mut self.logs[log.index()];
        if own.rules_number == 0 {
            own.rules_number = 1;
            own.oracle.rules = Some(checkpoint.rules.clone());
        }
        if checkpoint.previous.map(|previous| previous.0) != own.latest_checkpoint {
            return Err(format!("previous checkpoint {:?}, not {:?}", checkpoint.previous, own.latest_checkpoint));
        }
        own.latest_checkpoint = Some(offset);
        let said = (
            (checkpoint.rules_number.0, Some(&checkpoint.rules)),
            Stage::ALL.map(|stage| checkpoint.watermarks.times.of(stage).millis()),
            (checkpoint.watermarks.first_sequence, checkpoint.next_sequence, checkpoint.next_request.0),
            (checkpoint.stream_time.millis(), checkpoint.applied.iter().copied().collect::<BTreeSet<_>>()),
        );
        let (times, first_sequence) = own.oracle.watermarks();
        let expected = (
            (own.rules_number, own.oracle.rules.as_ref()),
            times,
            (first_sequence, own.oracle.next_sequence(), own.next.0),
            (own.oracle.newest.unwrap_or(i64::MIN), own.oracle.applied().clone()),
        );
        if said != expected {
            return Err(format!("L5 a checkpoint says\n  {said:?}\nthe oracle says\n  {expected:?}"));
        }
        for (partition, said) in &checkpoint.partitions {
            let judged: BTreeSet<i64> = (0..300).filter(|&offset| said.judged.contains(offset)).collect();
            let expected = own.oracle.judged(partition);
            if judged != expected {
                return Err(format!("L4 a checkpoint says of {partition}: judged {judged:?}, not {expected:?}"));
            }
            let low_watermark = own.oracle.raise_low_watermark(partition, said.low_watermark);
            own.oracle.deliver(partition, &said.delivered).map_err(|why| format!("L8 {why}"))?;
            let delivered = said.delivered.end();
            for source in own.on_their_way.range(partition.at(0)..partition.at(delivered)) {
                if !said.delivered.pending().contains(source.offset.unsigned_abs()) {
                    return Err(format!("L8 {source} counts as delivered on its way"));
                }
            }
            let high = self.high.get(partition).copied().unwrap_or(0);
            if low_watermark > high || delivered > high {
                return Err(format!(
                    "the low watermark of {partition} is {low_watermark}, delivered {delivered}; committed is {high}"
                ));
            }
        }
        Ok(())
    }

    /// A judge's state is the reference's at the same place of the log.
    pub(crate) fn compare(&mut self, world: &mut World, name: &str, log: LogPartition, judge: &Judge) {
        let Some(at) = judge.settled_at().map(|at| at.0) else { return };
        if self.compared.get(name) == Some(&at) {
            return;
        }
        self.compared.insert(name.to_owned(), at);
        match self.logs[log.index()].digests.get(&at) {
            _ if at < self.logs[log.index()].whole_from => {}
            None => world.violate(format!("L5 {name} stands at {at}, where no record ends")),
            Some(&digest) if digest != judge.state().digest() => {
                world.violate(format!("L5 {name} at verdicts:{log}@{at} holds another state than who followed all"));
            }
            Some(_) => self.count("states compared"),
        }
    }

    fn look_at_trims(&mut self, world: &World, log: LogPartition) -> Law {
        let partition = verdicts_of(log);
        let start = world.bus.start(&partition);
        let own = &mut self.logs[log.index()];
        let before = own.start;
        if start == before {
            return Ok(());
        }
        own.start = start;
        own.whole_from = own.position;
        *self.statistics.entry("trims").or_default() += 1;
        if !matches!(own.records.get(&start), Some(VerdictRecord::Checkpoint(_))) {
            return Err(format!("verdicts:{log} trimmed to {start}, where no committed checkpoint stands"));
        }
        let rules = own.oracle.rules.as_ref().unwrap();
        let window = i64::try_from((rules.windows.max() + rules.lateness).as_millis()).unwrap();
        let live = own.oracle.live();
        for record in own.records.range(before..start).map(|(_, record)| record) {
            let VerdictRecord::Verdicts(batch) = record else { continue };
            for verdict in &batch.verdicts {
                let Answer::Page(page) = &verdict.answer else { continue };
                if page.decision.original().is_some() && live.contains(&page.source) {
                    let latest = self.verdicts.get(&page.source).and_then(|said| said.last());
                    if matches!(latest, Some(Said::Judged { at, .. }) if *at < start) {
                        return Err(format!(
                            "verdicts:{log} trimmed to {start}, past the live original {}",
                            page.source
                        ));
                    }
                }
                if own.oracle.newest.is_some_and(|newest| page.event_time.millis() >= newest - window) {
                    return Err(format!(
                        "verdicts:{log} trimmed to {start}, past the young verdict of {}",
                        page.source
                    ));
                }
            }
        }
        let requests = world.bus.start(&requests_of(log));
        let committed = world.bus.committed(&judges_of(log), &requests_of(log)).map_or(0, |committed| committed.offset);
        if requests > committed {
            return Err(format!("fingerprints:{log} trimmed to {requests}, but the judge has committed {committed}"));
        }
        Ok(())
    }

    /// A worker gives a page no verdict that it has seen made void.
    fn check_given(&self, given: &Given) -> Law {
        let Some(source) = given.verdict.answer.judged_source() else { return Ok(()) };
        let said = self.verdicts.get(source).map(Vec::as_slice).unwrap_or_default();
        let judged =
            |said: &Said| matches!(said, Said::Judged { verdict, .. } if verdict.without_original() == *given.verdict);
        let Some(place) = said.iter().rposition(judged) else {
            return Err(format!("L4 {source} is given a verdict that nobody made"));
        };
        // Each log reopens for itself.
        let Said::Judged { log, .. } = said[place] else { return Ok(()) };
        let voids = |later: &Said| matches!(later, Said::Reopened { log: of, at } if *of == log && *at < given.followed[log.index()]);
        if said[place..].iter().any(voids) {
            return Err(format!("L4 {source} is given a verdict from before its reopening"));
        }
        Ok(())
    }

    // ---- commits

    /// The judge's offset is committed with all verdicts before it, and never goes back.
    fn judgement(&mut self, world: &World, transaction: &CommittedTransaction) -> Law {
        for moved in &transaction.offsets {
            let log = LogPartition(u32::try_from(moved.partition.number).unwrap());
            if moved.before.is_some_and(|before| before > moved.after) {
                return Err(format!("L2 {} went back from {:?} to {}", moved.group, moved.before, moved.after));
            }
            if self.logs[log.index()].next != (moved.after, 0) {
                let next = self.logs[log.index()].next;
                return Err(format!("L2 {} committed {}, the verdicts end at {next:?}", moved.group, moved.after));
            }
            let metadata = &world.bus.committed(&moved.group, &moved.partition).unwrap().metadata;
            if metadata.parse().ok() != self.logs[log.index()].latest_checkpoint {
                let latest = self.logs[log.index()].latest_checkpoint;
                return Err(format!("{}: checkpoint {metadata}, the latest is {latest:?}", moved.group));
            }
        }
        Ok(())
    }

    /// Outputs and offsets of a worker's transaction belong together, page by page.
    fn delivery(&mut self, world: &World, transaction: &CommittedTransaction) -> Law {
        let mut outputs: BTreeMap<PartitionId, Vec<i64>> = BTreeMap::new();
        let mut ends = Vec::new();
        for (partition, offset) in &transaction.records {
            if *partition == routed()
                && let Some(Value::Routed { source, outcome }) =
                    &world.bus.slots(partition)[usize::try_from(*offset).unwrap()].value
            {
                outputs.entry(source.partition.clone()).or_default().push(source.offset);
                ends.push((source.clone(), outcome.clone()));
            }
        }
        for moved in &transaction.offsets {
            let before = moved.before.unwrap_or_else(|| self.first(world, &moved.partition, moved.after));
            let pages = visible(world, &moved.partition, before, moved.after);
            let given = outputs.remove(&moved.partition).unwrap_or_default();
            // Who only observes moves on without a trace.
            let pages = if world.mode == Mode::Observe { Vec::new() } else { pages };
            if given != pages || moved.after < before {
                let (input, after, id) = (&moved.partition, moved.after, &transaction.id);
                return Err(format!("L1/L2 {id} moved {input} from {before} to {after} with outputs {given:?}"));
            }
            let (input, after) = (&moved.partition, moved.after);
            self.lines.push(format!("{}: {input} {before} -> {after}, outputs {given:?}", transaction.id));
            let high = self.high.entry(moved.partition.clone()).or_default();
            *high = (*high).max(moved.after);
        }
        if let Some((input, offsets)) = outputs.first_key_value() {
            return Err(format!("L2 outputs {offsets:?} of {input} committed without its offset"));
        }
        ends.into_iter().try_for_each(|(source, outcome)| self.delivered(world, &source, outcome))
    }

    /// Where the group begins to read a partition: in a world that starts at the end, wherever it says first.
    fn first(&mut self, world: &World, partition: &PartitionId, committed: i64) -> i64 {
        let first = if world.starts_at_end { committed } else { 0 };
        *self.firsts.entry(partition.clone()).or_insert(first)
    }

    fn delivered(&mut self, world: &World, source: &Source, outcome: PageOutcome) -> Law {
        let slot = &world.bus.slots(&source.partition)[usize::try_from(source.offset).unwrap()];
        let Some(Value::Page(page)) = &slot.value else { return Err(format!("{source} is no page")) };
        let said = self.verdicts.get(source).map(Vec::as_slice).unwrap_or_default();
        let judged = |wanted: &dyn Fn(&Verdict) -> bool| {
            said.iter().any(|said| matches!(said, Said::Judged { verdict, .. } if wanted(verdict)))
        };
        let right = match &outcome {
            PageOutcome::Tombstone => page.tombstone,
            PageOutcome::DeadLetter(reason) if reason.is_of_the_page() => page.reject == Some(*reason),
            PageOutcome::DeadLetter(reason) => judged(
                &|verdict| matches!(&verdict.answer, Answer::Withdrawn { reason: withdrawn, .. } if withdrawn == reason),
            ),
            PageOutcome::Judged(given) => {
                matches!(given.answer, Answer::Page(_)) && judged(&|verdict| verdict.without_original() == **given)
            }
        };
        if !right {
            return Err(format!("L1/L4 {source} was delivered as {outcome:?}, which nobody judged"));
        }
        let before = self.delivered.entry(source.clone()).or_default();
        let is_exempt = self.reopened.contains(source) || self.withdrawn.contains(source);
        if !before.is_empty() && !before.contains(&outcome) && !is_exempt {
            return Err(format!("L4 {source} was delivered as {outcome:?}, before as {before:?}"));
        }
        before.push(outcome);
        self.count("delivered");
        Ok(())
    }

    // ---- at the end

    /// No page is called a duplicate of one that was not delivered as unique.
    pub(crate) fn check_originals(&mut self, world: &mut World) {
        let mut exempt = 0;
        for (copy, verdict, original, made) in &self.duplicates {
            if !self.is_delivered_as(copy, verdict) || self.is_delivered_as(original, made) {
                continue;
            }
            if self.withdrawn.contains(original) {
                exempt += 1;
            } else {
                world.violate(format!("L8 {copy} is a duplicate of {original}, which was never delivered as {made:?}"));
            }
        }
        *self.statistics.entry("duplicates of withdrawn pages").or_default() += exempt;
    }

    fn is_delivered_as(&self, source: &Source, verdict: &Verdict) -> bool {
        let verdict = verdict.without_original();
        let is_it = |end: &PageOutcome| matches!(end, PageOutcome::Judged(given) if **given == verdict);
        self.ends(source).iter().any(is_it)
    }

    /// Every page has an end.
    pub(crate) fn check_ends(&self, world: &mut World) {
        for input in world.inputs.clone() {
            let first = self.firsts.get(&input).copied().unwrap_or(0);
            for offset in visible(world, &input, first, world.bus.end(&input)) {
                if !self.delivered.contains_key(&input.at(offset)) {
                    world.violate(format!("L1 {input}:{offset} has no end"));
                }
            }
        }
    }

    /// The page stands still because its verdict cannot be read back: says whether that is as the design says.
    pub(crate) fn is_gone_for_good(&self, world: &World, log: LogPartition, source: &Source) -> Result<(), String> {
        let start = world.bus.start(&verdicts_of(log));
        let said = self.verdicts.get(source).map(Vec::as_slice).unwrap_or_default();
        let kept = said.iter().rev().take_while(|said| !matches!(said, Said::Reopened { .. }));
        let kept = kept.filter(|said| matches!(said, Said::Judged { at, .. } if *at >= start)).count();
        let high = self.high.get(&source.partition).copied().unwrap_or(0);
        if kept > 0 {
            Err(format!("{source} stands still although the verdict log holds its verdict"))
        } else if source.offset >= high {
            Err(format!("swallowed: {source} counts as judged, was never delivered, and no verdict is left"))
        } else {
            Ok(())
        }
    }

    /// Returns how often and how a page was delivered.
    pub(crate) fn ends(&self, source: &Source) -> &[PageOutcome] {
        self.delivered.get(source).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn is_judged(&self, log: LogPartition, source: &Source) -> bool {
        self.logs[log.index()].oracle.is_judged(source)
    }

    pub(crate) fn live(&self, log: LogPartition) -> Vec<Source> {
        self.logs[log.index()].oracle.live().into_iter().collect()
    }
}

fn describe_answer(answer: &Answer) -> String {
    match answer {
        Answer::Page(page) => {
            let matched = page.decision.matched().map(|of| format!(" of {}", of.source)).unwrap_or_default();
            let made = if page.decision.original().is_some() { ", an original" } else { "" };
            let what = match page.decision {
                Decision::Unique { .. } => "unique",
                Decision::Update { .. } => "update",
                Decision::Template { .. } => "template",
                Decision::Duplicate { .. } => "duplicate",
            };
            format!("{} {what}{matched}{made}, at {}", page.source, page.event_time)
        }
        Answer::Withdrawn { source, reason } => format!("{source} withdrawn, {}", reason.name()),
        Answer::Forgotten(target) => format!("forgotten {target:?}"),
        Answer::Reopened { partition, from, to } => format!("reopened {partition} {from}..{to}"),
    }
}

fn made_original(said: &Said) -> bool {
    match said {
        Said::Reopened { .. } => false,
        Said::Judged { verdict, .. } => {
            matches!(&verdict.answer, Answer::Page(page) if page.decision.original().is_some())
        }
    }
}

/// The offsets of an input partition that hold something to see.
fn visible(world: &World, input: &PartitionId, from: i64, to: i64) -> Vec<i64> {
    let slots = world.bus.slots(input);
    let is_page = |offset: &i64| {
        let slot = &slots[usize::try_from(*offset).unwrap()];
        slot.value.is_some() && slot.state == SlotState::Committed
    };
    (from..to.min(world.bus.end(input))).filter(is_page).collect()
}
