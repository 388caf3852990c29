//! Turns pages into records: chooses topic, partition and headers, and leaves bytes and timestamp unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use dupgate_core::worker::{
    Header, HeaderSettings, MAX_HEADER_BYTES, Output, OutputKind, PageAction, PageOutcome, Routing,
};

use super::group_consumer::ConsumedRecord;
use super::producer::{HeaderField, OutgoingRecord, RecordSink, RecordSource};
use crate::record::{Reject, Source, Timestamp};
use crate::transaction::CallError;

/// Maximum overhead of a record besides key, value and headers: lengths, offsets, the batch header.
const RECORD_OVERHEAD: usize = 256;

/// The value of records in the duplicate topic (`output.duplicate.value`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DuplicateValue {
    /// The page, unchanged.
    #[default]
    Original,
    /// The page's source position and id.
    Reference,
    /// An empty value, not null.
    None,
}

/// Which timestamp the outputs carry (`output.timestamp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputTime {
    /// The timestamp of the input record.
    #[default]
    Source,
    /// The time of sending.
    Now,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTopic {
    pub name: String,
    /// The largest record that it accepts, in bytes.
    pub max_bytes: usize,
    /// Which timestamps it accepts.
    pub times: TimeLimits,
}

/// Which timestamps a topic accepts, measured from the brokers' clock, in milliseconds, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Maximum distance into the past (`message.timestamp.before.max.ms`).
    pub before_ms: u64,
    /// Maximum distance into the future (`message.timestamp.after.max.ms`).
    pub after_ms: u64,
}

impl TimeLimits {
    /// Limits that accept every timestamp.
    pub const NONE: Self = Self { before_ms: u64::MAX, after_ms: u64::MAX };

    /// Returns whether the topic accepts a record with this timestamp.
    #[must_use]
    pub fn take(&self, time: Timestamp, now: Timestamp) -> bool {
        time.gap_millis(now) <= if time > now { self.after_ms } else { self.before_ms }
    }
}

/// Number of partitions of each topic: of an input topic before the first page of a partition is read, of an output topic
/// from the start. Topics grow while the service runs.
#[derive(Debug, Default)]
pub struct PartitionCounts(RwLock<BTreeMap<Arc<str>, usize>>);

impl PartitionCounts {
    /// Stores the number of partitions of a topic.
    pub fn learn(&self, topic: Arc<str>, partitions: usize) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(topic, partitions);
    }

    /// Returns the number of partitions of a topic; 0 while it is unknown.
    #[must_use]
    pub fn count(&self, topic: &str) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(topic).copied().unwrap_or(0)
    }
}

/// Settings for turning a page into records.
#[derive(Debug)]
pub struct Outputs {
    pub routing: Routing,
    pub headers: HeaderSettings,
    /// The topics that are produced to.
    pub topics: BTreeMap<OutputKind, OutputTopic>,
    /// Partitions of the input and output topics, as far as they are known.
    pub partition_counts: PartitionCounts,
    /// The value of records in the duplicate topic.
    pub duplicate_value: DuplicateValue,
    /// Which timestamp the outputs carry.
    pub time: OutputTime,
    /// The wall clock.
    pub now: fn() -> Timestamp,
}

/// A page as the worker holds it.
#[derive(Clone, Debug, Default)]
pub struct PagePayload {
    pub record: Arc<ConsumedRecord>,
    /// The page's id as text, if it has one.
    pub id: Option<String>,
    /// How its text was extracted, if it is HTML.
    pub extraction: Option<&'static str>,
    /// Why the page was refused, in one line.
    pub message: Option<String>,
    /// Whether it was reported, when the page was read, that it gets no verdict.
    pub is_reported: bool,
    /// When it was read, on the clock of the process.
    pub read_at: Duration,
}

impl Outputs {
    /// Returns why an output topic that this page may go to would refuse it.
    ///
    /// Brokers refuse whole batches: without this check, a refused page would abort the transaction of its neighbours.
    #[must_use]
    pub fn refuse(&self, record: &ConsumedRecord) -> Option<Reject> {
        let bytes = record.bytes() + MAX_HEADER_BYTES + RECORD_OVERHEAD;
        let topics = || {
            [OutputKind::Unique, OutputKind::Duplicate].iter().filter_map(|output_kind| self.topics.get(output_kind))
        };
        if topics().any(|topic| bytes > topic.max_bytes) {
            return Some(Reject::TooLargeForOutput);
        }
        let time = record.timestamp.filter(|_| self.time == OutputTime::Source)?;
        let now = (self.now)();
        topics().any(|topic| !topic.times.take(time, now)).then_some(Reject::TimestampRefused)
    }

    /// Hands the records of a page to `load`.
    ///
    /// # Errors
    ///
    /// The first error of `load`.
    pub(crate) fn write_page_records(
        &self,
        output: &Output<PagePayload>,
        load: &mut dyn FnMut(OutputKind, OutgoingRecord<'_>) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let page = &output.page;
        let came = &page.payload.record;
        let now = (self.now)();
        for output_kind in self.routing.output_kinds(&output.outcome) {
            let Some(topic) = self.topics.get(output_kind) else { continue };
            let ours = self.our_headers(output);
            let mut outgoing = OutgoingRecord {
                topic: &topic.name,
                partition: Some(self.partition(&page.source, came.key.as_deref(), &topic.name)),
                key: came.key.as_deref(),
                value: came.value.as_deref().map(Cow::Borrowed),
                headers: Vec::with_capacity(came.headers.len() + ours.len()),
                timestamp: self.timestamp(came).map(Timestamp::millis),
                skew_ms: came.timestamp.unwrap_or_default().gap_millis(now),
            };
            outgoing.headers.extend(self.headers.foreign(&came.headers).map(borrowed));
            outgoing.headers.extend(ours.into_iter().map(owned));
            match (output_kind, &output.outcome) {
                (OutputKind::Duplicate, PageOutcome::Judged(_)) => self.replace_value(&mut outgoing, page),
                (OutputKind::DeadLetter, _) => {
                    let value_bytes = outgoing.value.as_ref().map_or(0, |value| value.len() as u64);
                    let value_bytes = came.cut.as_ref().map_or(value_bytes, |cut| cut.bytes);
                    if cut(&mut outgoing, topic.max_bytes) || came.cut.is_some() {
                        outgoing.headers.push(owned(self.headers.of_cut(value_bytes)));
                    }
                    // Drop a timestamp that the topic would refuse; a header preserves it.
                    if self.timestamp(came).is_some_and(|time| !topic.times.take(time, now)) {
                        outgoing.timestamp = None;
                    }
                }
                _ => {}
            }
            load(*output_kind, outgoing)?;
        }
        Ok(())
    }

    fn our_headers(&self, output: &Output<PagePayload>) -> Vec<Header> {
        let source = &output.page.source;
        match &output.outcome {
            PageOutcome::Judged(verdict) => {
                let simhash = match &output.page.action {
                    PageAction::Ask(_, request) => request.fingerprints.simhash,
                    PageAction::Settled(_) | PageAction::Withdraw(..) => None,
                };
                let mut ours = self.headers.of_verdict(verdict, source, simhash);
                ours.extend(output.page.payload.extraction.map(|how| self.headers.of_extraction(how)));
                ours
            }
            PageOutcome::DeadLetter(reason) => {
                let PagePayload { record, message, .. } = &output.page.payload;
                self.headers.of_reject(*reason, message.as_deref(), source, record.timestamp)
            }
            // A tombstone is passed on unchanged.
            PageOutcome::Tombstone => Vec::new(),
        }
    }

    fn partition(&self, source: &Source, key: Option<&[u8]>, topic: &str) -> i32 {
        let source_count = self.partition_counts.count(&source.partition.topic);
        self.routing.partition(source, source_count, key, self.partition_counts.count(topic))
    }

    fn timestamp(&self, came: &ConsumedRecord) -> Option<Timestamp> {
        match self.time {
            // The client library takes 0 for the current time, so the earliest time that can be sent is 1 ms.
            OutputTime::Source => came.timestamp.map(|timestamp| match timestamp.millis() {
                0 => Timestamp::from_millis(1),
                _ => timestamp,
            }),
            OutputTime::Now => None,
        }
    }

    fn replace_value(&self, outgoing: &mut OutgoingRecord<'_>, page: &dupgate_core::worker::Page<PagePayload>) {
        match self.duplicate_value {
            DuplicateValue::Original => {}
            DuplicateValue::None => outgoing.value = Some(Cow::Borrowed(&[])),
            DuplicateValue::Reference => {
                let reference = serde_json::json!({ "ref": page.source.to_string(), "id": page.payload.id });
                outgoing.value = Some(Cow::Owned(reference.to_string().into_bytes()));
            }
        }
    }
}

/// Makes a dead letter fit into its topic: cuts its value to the size that fits and, if that is not enough, removes its
/// original headers and its key. Returns whether anything was cut.
fn cut(outgoing: &mut OutgoingRecord<'_>, limit: usize) -> bool {
    let fixed = MAX_HEADER_BYTES + RECORD_OVERHEAD;
    let mut rest: usize =
        outgoing.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, |v| v.len())).sum();
    rest += outgoing.key.map_or(0, <[u8]>::len);
    let value = outgoing.value.as_ref().map_or(0, |value| value.len());
    if fixed + rest + value <= limit {
        return false;
    }
    if fixed + rest > limit {
        let ours =
            outgoing.headers.iter().rposition(|(name, _)| matches!(name, Cow::Borrowed(_))).map_or(0, |at| at + 1);
        outgoing.headers.drain(..ours);
        outgoing.key = None;
        rest = 0;
    }
    let room = limit.saturating_sub(fixed + rest);
    match &mut outgoing.value {
        Some(Cow::Borrowed(bytes)) => *bytes = bytes.get(..room).unwrap_or(bytes),
        Some(Cow::Owned(bytes)) => bytes.truncate(room),
        None => {}
    }
    true
}

fn borrowed(header: &Header) -> HeaderField<'_> {
    (Cow::Borrowed(&header.name), header.value.as_deref().map(Cow::Borrowed))
}

fn owned<'a>(header: Header) -> HeaderField<'a> {
    (Cow::Owned(header.name), header.value.map(Cow::Owned))
}

pub struct Pages {
    /// How they become records.
    pub outputs: Arc<Outputs>,
    /// The pages, in offset order within each partition.
    pub pages: Vec<Arc<Output<PagePayload>>>,
    /// Counts the records handed to the client.
    pub sent: Arc<Sent>,
}

/// Records and bytes of one transaction, by output: keys, values and headers, as they were handed to the client.
#[derive(Debug, Default)]
pub struct Sent(Mutex<BTreeMap<OutputKind, (u64, u64)>>);

impl Sent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<OutputKind, (u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns records and bytes by output, and resets the counts.
    pub fn take(&self) -> Vec<(OutputKind, u64, u64)> {
        let sent = std::mem::take(&mut *self.lock());
        sent.into_iter().map(|(output_kind, (records, bytes))| (output_kind, records, bytes)).collect()
    }
}

impl RecordSource for Pages {
    fn len(&self) -> usize {
        self.pages.len()
    }

    fn write_records(&self, load: &mut RecordSink<'_>) -> Result<(), CallError> {
        let mut sent = self.sent.lock();
        // A repeated send replaces the counts of the previous one.
        sent.clear();
        for (index, page) in self.pages.iter().enumerate() {
            self.outputs.write_page_records(page, &mut |output_kind, outgoing| {
                let (records, bytes) = sent.entry(output_kind).or_default();
                *records += 1;
                *bytes += outgoing.bytes() as u64;
                load(index, outgoing)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::PageDigest;
    use crate::kafka::group_consumer::CutValue;
    use crate::protocol::{Answer, Decision, Match, MatchedBy, PageVerdict, RequestId, Verdict};
    use crate::record::{PartitionId, Rejection};
    use dupgate_core::worker::Page;

    fn outputs(duplicate_value: DuplicateValue) -> Outputs {
        let topic = |name: &str| OutputTopic { name: name.to_owned(), max_bytes: 1 << 20, times: TimeLimits::NONE };
        let topics = [(OutputKind::Unique, topic("unique")), (OutputKind::Duplicate, topic("duplicate"))];
        Outputs {
            routing: Routing::default(),
            headers: HeaderSettings {
                prefix: "dupgate.".to_owned(),
                drop: Vec::new(),
                scheme: "s".to_owned(),
                sketch: None,
                group: "g".to_owned(),
                replay: None,
            },
            topics: topics.into_iter().collect(),
            partition_counts: PartitionCounts::default(),
            duplicate_value,
            time: OutputTime::Source,
            now: Timestamp::default,
        }
    }

    fn page(offset: i64, decision: Decision) -> Arc<Output<PagePayload>> {
        let partition = PartitionId::new("pages", 0);
        let source = partition.at(offset);
        let value = Some(vec![b'x'; 1000].into_boxed_slice());
        let record = Arc::new(ConsumedRecord { key: Some(Box::from(*b"key")), value, ..ConsumedRecord::default() });
        let (event_time, digest) = (Timestamp::default(), PageDigest(0));
        let verdict = PageVerdict { source: source.clone(), event_time, digest, decision };
        let verdict = Verdict { request: RequestId(1), answer: Answer::Page(verdict) };
        let action = PageAction::Settled(PageOutcome::Tombstone);
        let payload = PagePayload { record, ..PagePayload::default() };
        let page = Page { source, bytes: 0, event_time, paced_by: event_time, action, earlier: None, payload };
        Arc::new(Output { page, outcome: PageOutcome::Judged(Arc::new(verdict)) })
    }

    /// The key, the value and the headers of the dead letter for a value of 1000 bytes and this foreign header, in a
    /// topic with this limit. Of a line of a file the value may be only the beginning.
    fn dead_letter(
        limit: usize,
        foreign: usize,
        cut: Option<CutValue>,
    ) -> (Option<Vec<u8>>, usize, BTreeMap<String, Vec<u8>>) {
        let mut outputs = outputs(DuplicateValue::Original);
        let topic =
            OutputTopic { name: "dead".to_owned(), max_bytes: limit, ..outputs.topics[&OutputKind::Unique].clone() };
        outputs.topics.insert(OutputKind::DeadLetter, topic);
        let Output { mut page, .. } = Arc::into_inner(page(7, Decision::Unique { original: None })).unwrap();
        let headers = vec![Header { name: "trace".to_owned(), value: Some(vec![b't'; foreign]) }];
        page.payload.record =
            Arc::new(ConsumedRecord { headers, cut, ..Arc::into_inner(page.payload.record).unwrap() });
        let output = Output { page, outcome: PageOutcome::DeadLetter(Reject::NoText) };
        let mut sent = Vec::new();
        let mut load = |_: OutputKind, outgoing: OutgoingRecord<'_>| {
            assert!(outgoing.bytes() + RECORD_OVERHEAD <= limit, "fits its topic");
            let header = |(name, value): &HeaderField<'_>| (name.to_string(), value.as_ref().unwrap().to_vec());
            let headers = outgoing.headers.iter().map(header).collect();
            sent.push((outgoing.key.map(<[u8]>::to_vec), outgoing.value.as_ref().unwrap().len(), headers));
            Ok(())
        };
        outputs.write_page_records(&output, &mut load).unwrap();
        assert_eq!(sent.len(), 1);
        sent.remove(0)
    }

    #[test]
    fn a_dead_letter_that_was_cut_says_how_long_its_value_was() {
        let mark = "dupgate.error.cut_from_bytes";
        let (key, bytes, headers) = dead_letter(1 << 20, 10, None);
        assert_eq!((key.as_deref(), bytes), (Some(&b"key"[..]), 1000));
        assert!(headers.contains_key("trace") && !headers.contains_key(mark), "{headers:?}");

        let (key, bytes, headers) = dead_letter(3000, 10, None);
        assert!(key.is_some() && headers.contains_key("trace"), "{headers:?}");
        assert!((1..1000).contains(&bytes), "{bytes}");
        assert_eq!(headers[mark], b"1000");

        let (key, bytes, headers) = dead_letter(4000, 5000, None);
        assert!(key.is_none() && !headers.contains_key("trace"), "{headers:?}");
        assert_eq!((bytes, &headers[mark][..]), (1000, &b"1000"[..]), "key and headers alone are cut");

        let line = CutValue { bytes: 5000, rejection: Rejection::too_large("the line", 5000, 4000) };
        for limit in [1 << 20, 3000] {
            let (_, bytes, headers) = dead_letter(limit, 10, Some(line.clone()));
            assert!((1..=1000).contains(&bytes), "{bytes}");
            assert_eq!(headers[mark], b"5000", "{limit}");
        }
    }

    #[test]
    fn sent_records_are_counted_as_sent() {
        let first = PartitionId::new("pages", 0).at(0);
        let of = Match { by: MatchedBy::Exact, source: first.clone(), age_ms: 5, cluster: first };
        for (value, min) in [(DuplicateValue::Original, 1000), (DuplicateValue::None, 0)] {
            let pages = vec![
                page(0, Decision::Unique { original: None }),
                page(1, Decision::Duplicate { of: of.clone() }),
                page(2, Decision::Duplicate { of: of.clone() }),
            ];
            let sent = Arc::new(Sent::default());
            let cargo = Pages { outputs: Arc::new(outputs(value)), pages, sent: Arc::clone(&sent) };
            let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            // Only the second time counts.
            for _ in 0..2 {
                seen.clear();
                let mut load = |_: usize, outgoing: OutgoingRecord<'_>| {
                    let (records, bytes) = seen.entry(outgoing.topic.to_owned()).or_default();
                    *records += 1;
                    let headers: usize =
                        outgoing.headers.iter().map(|(n, v)| n.len() + v.as_ref().unwrap().len()).sum();
                    *bytes += (outgoing.key.unwrap().len() + outgoing.value.unwrap().len() + headers) as u64;
                    Ok(())
                };
                cargo.write_records(&mut load).unwrap();
            }
            let counted = sent.take();
            let (unique, duplicate) = (seen["unique"], seen["duplicate"]);
            assert_eq!(
                counted,
                [(OutputKind::Unique, unique.0, unique.1), (OutputKind::Duplicate, duplicate.0, duplicate.1)]
            );
            assert_eq!((unique.0, duplicate.0), (1, 2));
            assert!(unique.1 > 1003, "our headers count: {}", unique.1);
            let each = duplicate.1 / 2;
            assert!((min + 3..min + 400).contains(&each), "{each}");
            assert_eq!(sent.take(), []);
        }
    }
}
