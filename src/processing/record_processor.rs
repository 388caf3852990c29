//! Reads one record and decides what to do with it.

use std::sync::{Arc, Once};
use std::time::Duration;

use dupgate_core::worker::{Header, Page, PageAction, PageOutcome};

use crate::fingerprint::{Fingerprinter, Scratch, Step};
use crate::kafka::group_consumer::ConsumedRecord;
use crate::kafka::output::{Outputs, PagePayload};
use crate::panics::shielded;
use crate::protocol::{LogPartition, PageRequest};
use crate::record::{Encoding, EventTime, Headers, RawRecord, Reject, Source, Timestamp};
use crate::runtime::clock::{Clock, wall_time};
use crate::runtime::tree_budget::TreeBudget;
use crate::telemetry::{Metrics, labels};
use crate::text::{CutBy, Extraction};

/// Does the text work of one worker.
pub(crate) struct RecordProcessor {
    /// Bytes to fingerprints.
    pub(crate) fingerprinter: Fingerprinter,
    /// Knows which records the outputs accept.
    pub(crate) outputs: Arc<Outputs>,
    /// Gives the time at which a page is read.
    pub(crate) clock: Clock,
    /// Receives the duration of each step.
    pub(crate) metrics: Metrics,
    /// Bounds the memory of all threads.
    pub(crate) trees: Arc<TreeBudget>,
    /// Event time of a page without any timestamp.
    pub(crate) untimed: Timestamp,
    /// How far the time that a page gives may be ahead of the record's.
    pub(crate) max_future_skew: Duration,
}

pub(crate) struct Named<'r>(pub(crate) &'r [Header]);

impl Headers for Named<'_> {
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        self.0.iter().rev().find(|header| is_meant(&header.name))?.value.as_deref()
    }
}

impl RecordProcessor {
    /// Reads a record. A panic in the text work withdraws the page and does not end the process.
    pub(crate) fn page(
        &self,
        source: Source,
        record: &Arc<ConsumedRecord>,
        scratch: &mut Scratch,
    ) -> Page<PagePayload> {
        if let Some((action, event_time, payload)) = shielded(|| self.action(&source, record, scratch)) {
            page(source, record, action, event_time, payload)
        } else {
            *scratch = Scratch::default();
            self.withdrawn(source, record, Reject::TextPanic)
        }
    }

    /// Creates the page of a record whose text work failed. The page is withdrawn, because its verdict may have been
    /// requested before.
    pub(crate) fn withdrawn(&self, source: Source, record: &Arc<ConsumedRecord>, reason: Reject) -> Page<PagePayload> {
        let action = PageAction::Withdraw(self.log_of(record), reason);
        let event_time = stamp(record).unwrap_or(self.untimed);
        let payload = self.carried(record);
        page(source, record, action, event_time, payload)
    }

    /// Returns the log partition of a page, as far as its scope can be read.
    fn log_of(&self, record: &ConsumedRecord) -> LogPartition {
        let log = shielded(|| self.fingerprinter.place(&raw(record, &Named(&record.headers)))).and_then(Result::ok);
        log.map_or(LogPartition::default(), |(_, log)| LogPartition::at(log))
    }

    fn carried(&self, record: &Arc<ConsumedRecord>) -> PagePayload {
        PagePayload { record: Arc::clone(record), read_at: self.clock.now(), ..PagePayload::default() }
    }

    fn action(
        &self,
        source: &Source,
        record: &Arc<ConsumedRecord>,
        scratch: &mut Scratch,
    ) -> (PageAction, Timestamp, PagePayload) {
        let stamped = stamp(record).unwrap_or(self.untimed);
        let mut payload = self.carried(record);
        if record.headers_unreadable {
            payload.message = Some("the name of a header is not UTF-8".to_owned());
            return (PageAction::Settled(PageOutcome::DeadLetter(Reject::Undecodable)), stamped, payload);
        }
        if let Some(cut) = &record.cut {
            payload.message = Some(cut.rejection.message().to_owned());
            return (PageAction::Settled(PageOutcome::DeadLetter(cut.rejection.reason())), stamped, payload);
        }
        if record.value.is_none() {
            return (PageAction::Settled(PageOutcome::Tombstone), stamped, payload);
        }
        let headers = Named(&record.headers);
        let mut since = self.clock.now();
        let reading = self.fingerprinter.read_watched(&raw(record, &headers), scratch, |step| {
            let now = self.clock.now();
            self.metrics.series().stage_duration.of(label_of(step)).record(now.saturating_sub(since));
            since = now;
        });
        match reading {
            Ok(mut reading) => {
                self.metrics.document_tokens(segmenter(reading.cut_by), reading.tokens as u64);
                self.metrics.series().extracted.of(extraction(reading.extraction)).increment(1);
                self.metrics.series().decoded.of(encoding(reading.encoding)).increment(1);
                let event_time = reading.event_time.map_or(stamped, |given| {
                    let bounded = bounded(given, record, self.max_future_skew);
                    self.metrics.series().clamped_timestamps.increment(u64::from(bounded < given));
                    bounded
                });
                payload.extraction =
                    Some(reading.extraction).filter(|how| *how != Extraction::Text).map(Extraction::name);
                payload.id = reading.id_text.take();
                self.note_id(source, payload.id.is_some());
                let action = match self.outputs.refuse(record) {
                    None => {
                        let log = LogPartition::at(reading.partition);
                        PageAction::Ask(log, PageRequest::of(reading, source.clone(), event_time))
                    }
                    Some(reason) => PageAction::Withdraw(LogPartition::at(reading.partition), reason),
                };
                (action, event_time, payload)
            }
            Err(rejection) => {
                payload.message = Some(rejection.message().to_owned());
                let action = if rejection.is_for_now() {
                    PageAction::Withdraw(self.log_of(record), rejection.reason())
                } else {
                    PageAction::Settled(PageOutcome::DeadLetter(rejection.reason()))
                };
                (action, stamped, payload)
            }
        }
    }
}

/// Logs the first page without an id: more of them would only repeat it.
static NO_ID: Once = Once::new();

impl RecordProcessor {
    /// Counts a page without an id, if ids are read. Its copies are found, but not that it is crawled again.
    fn note_id(&self, source: &Source, has_id: bool) {
        let Some(path) = self.fingerprinter.id_path().filter(|_| !has_id) else { return };
        self.metrics.series().without_id.increment(1);
        NO_ID.call_once(|| {
            tracing::warn!(
                target: "dupgate::worker",
                %source,
                "found no id at `{path}` (input.fields.id): the page cannot be recognised when it is crawled again; further \
                 ones are only counted (dupgate_documents_without_id_total)"
            );
        });
    }
}

/// Returns a record's event time without reading its text.
pub(crate) fn event_time(
    fingerprinter: &Fingerprinter,
    (source, max_future_skew): (EventTime, Duration),
    record: &ConsumedRecord,
) -> Timestamp {
    let of_field = || shielded(|| fingerprinter.event_time(&raw(record, &Named(&record.headers)))).flatten();
    let field = if source == EventTime::Field { of_field() } else { None };
    field.map(|given| bounded(given, record, max_future_skew)).or_else(|| stamp(record)).unwrap_or_default()
}

/// Returns the time that a page gives, as far as its record permits. A page is fetched before it is written, so a time
/// after that comes from a wrong clock. The brokers' clock alone is no bound for old pages: a single one from the future
/// would move the window past all pages that are still to be read.
fn bounded(given: Timestamp, record: &ConsumedRecord, max_future_skew: Duration) -> Timestamp {
    stamp(record).map_or(given, |written| given.min(written.plus(max_future_skew)))
}

/// Returns the timestamp of a record. Kafka counts milliseconds, but producers also write seconds and finer units, which
/// their size shows: as milliseconds, they would be times long before Kafka, or of another age.
fn stamp(record: &ConsumedRecord) -> Option<Timestamp> {
    record.timestamp.map(|timestamp| Timestamp::by_size(timestamp.millis()))
}

const fn label_of(step: Step) -> labels::Step {
    match step {
        Step::Decode => labels::Step::Decode,
        Step::Extract => labels::Step::Extract,
        Step::Tokenize => labels::Step::Tokenize,
        Step::Fingerprint => labels::Step::Fingerprint,
    }
}

const fn segmenter(cut_by: CutBy) -> labels::Segmenter {
    match cut_by {
        CutBy::Jieba => labels::Segmenter::Jieba,
        CutBy::Unicode => labels::Segmenter::Unicode,
    }
}

const fn extraction(extraction: Extraction) -> labels::Extraction {
    match extraction {
        Extraction::Text => labels::Extraction::Text,
        Extraction::Main => labels::Extraction::Main,
        Extraction::All => labels::Extraction::All,
        Extraction::AllFallback => labels::Extraction::AllFallback,
        Extraction::Stripped => labels::Extraction::Stripped,
    }
}

const fn encoding(encoding: Encoding) -> labels::Encoding {
    match encoding {
        Encoding::Utf8 => labels::Encoding::Utf8,
        Encoding::Utf16 => labels::Encoding::Utf16,
        Encoding::Gb18030 => labels::Encoding::Gb18030,
        Encoding::Big5 => labels::Encoding::Big5,
        Encoding::ShiftJis => labels::Encoding::ShiftJis,
        Encoding::OtherJapanese => labels::Encoding::OtherJapanese,
        Encoding::EucKr => labels::Encoding::EucKr,
        Encoding::Windows => labels::Encoding::Windows,
        Encoding::Other => labels::Encoding::Other,
    }
}

pub(crate) fn raw<'r>(record: &'r ConsumedRecord, headers: &'r Named<'r>) -> RawRecord<'r> {
    RawRecord { key: record.key.as_deref(), value: record.value.as_deref(), headers }
}

fn page(
    source: Source,
    record: &ConsumedRecord,
    action: PageAction,
    event_time: Timestamp,
    payload: PagePayload,
) -> Page<PagePayload> {
    let bytes = record.bytes() + size_of::<Page<PagePayload>>() + size_of::<ConsumedRecord>();
    Page { source, bytes, event_time, paced_by: event_time.min(wall_time()), action, payload }
}

/// Reads a record as the service does, and returns its request or why it is a dead letter.
#[cfg(test)]
pub(crate) fn outcome(
    fingerprinter: Fingerprinter,
    source: Source,
    record: ConsumedRecord,
) -> Result<PageRequest, (Reject, Option<String>)> {
    use crate::kafka::output::{DuplicateValue, OutputTime, PartitionCounts};
    use dupgate_core::worker::HeaderSettings;

    let outputs = Outputs {
        routing: dupgate_core::worker::Routing::default(),
        headers: HeaderSettings::default(),
        topics: std::collections::BTreeMap::new(),
        partition_counts: PartitionCounts::default(),
        duplicate_value: DuplicateValue::Original,
        time: OutputTime::Source,
        now: Timestamp::default,
    };
    let processor = RecordProcessor {
        fingerprinter,
        outputs: Arc::new(outputs),
        clock: Clock::start(),
        metrics: Metrics::new(&crate::config::settings::Metrics { partition_labels: false, labels: Vec::new() })
            .unwrap(),
        trees: TreeBudget::new(1 << 20, crate::record::Format::Json),
        untimed: Timestamp::default(),
        max_future_skew: Duration::ZERO,
    };
    let page = processor.page(source, &Arc::new(record), &mut Scratch::default());
    match page.action {
        PageAction::Ask(_, request) => Ok(request),
        PageAction::Settled(PageOutcome::DeadLetter(reason)) => Err((reason, page.payload.message)),
        other @ (PageAction::Settled(_) | PageAction::Withdraw(..)) => panic!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::kafka::group_consumer::CutValue;
    use crate::record::{InputSettings, PartitionId, Rejection};
    use crate::{fingerprint, text};

    #[test]
    fn the_beginning_of_a_value_is_never_taken_for_a_page() {
        let (input, text) = (InputSettings::default(), text::Settings::default());
        let fingerprinter =
            Fingerprinter::new(&input, &text, &fingerprint::Settings::default(), NonZeroUsize::MIN).unwrap();
        let value = br#"{"url":"https://a.example/1","text":"the council closed the old bridge"}"#;
        let whole = ConsumedRecord { value: Some(Box::from(&value[..])), ..ConsumedRecord::default() };
        let source = PartitionId::new("pages.jsonl", 0).at(3);
        assert!(outcome(fingerprinter.clone(), source.clone(), whole.clone()).is_ok());
        let rejection = Rejection::too_large("the line", 5000, 1000);
        let message = Some(rejection.message().to_owned());
        let cut = ConsumedRecord { cut: Some(CutValue { bytes: 5000, rejection }), ..whole };
        assert_eq!(outcome(fingerprinter, source, cut), Err((Reject::TooLarge, message)));
    }
}
