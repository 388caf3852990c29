//! Collects delivery reports into the outcome of a batch: its offsets, or the record that the broker refused.

use crossbeam_channel::{Receiver, Sender, unbounded};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;

use super::Answer;
use crate::kafka::budget::InFlightGuard;
use crate::kafka::client::LoggingContext;
use crate::kafka::errors;
use crate::record::Reject;
use crate::transaction::CallError;

/// A delivery report.
pub(super) struct Report {
    batch: u64,
    index: usize,
    clues: RefusalClues,
    result: Result<i64, NotWritten>,
}

/// Why a record was not written, and to which topic.
#[derive(Debug)]
struct NotWritten {
    topic: String,
    code: RDKafkaErrorCode,
}

/// Passes the delivery reports of one client on to its session.
pub(super) struct ReportSink(Sender<Report>);

impl ReportSink {
    /// Returns the sink and the session's receiver.
    pub(super) fn new() -> (Self, Receiver<Report>) {
        let (sender, reports) = unbounded();
        (Self(sender), reports)
    }
}

/// The properties of a record that a broker may refuse it for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RefusalClues {
    pub(super) bytes: usize,
    pub(super) skew_ms: u64,
    pub(super) keyed: bool,
}

impl RefusalClues {
    /// Returns a score: the record with the highest one is most likely the cause of the refusal of its batch.
    fn blame(self, reason: Reject) -> u64 {
        if reason == Reject::TimestampRefused {
            self.skew_ms
        } else if reason == Reject::Refused && !self.keyed {
            // A compacted topic refuses records without a key.
            u64::MAX
        } else {
            u64::try_from(self.bytes).unwrap_or(u64::MAX)
        }
    }
}

/// Identifies the record of a delivery report.
pub(super) struct DeliveryContext {
    pub(super) batch: u64,
    pub(super) index: usize,
    pub(super) clues: RefusalClues,
    pub(super) in_flight: InFlightGuard,
}

impl ProducerContext for LoggingContext<ReportSink> {
    type DeliveryOpaque = Box<DeliveryContext>;

    fn delivery(&self, result: &DeliveryResult<'_>, context: Self::DeliveryOpaque) {
        let result = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, message)) => Err(NotWritten {
                topic: message.topic().to_owned(),
                code: error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown),
            }),
        };
        let DeliveryContext { batch, index, clues, in_flight } = *context;
        drop(in_flight);
        // The session of a replaced producer reads no reports.
        let _ = self.0.0.send(Report { batch, index, clues, result });
    }
}

/// The outcome of the records of one `Produce`.
pub(super) struct BatchOutcome {
    pub(super) batch: u64,
    pub(super) sent: usize,
    reported: usize,
    offsets: Vec<Option<i64>>,
    /// The record that the broker most likely refused for good, with its score.
    refused: Option<(u64, CallError)>,
    failed: Option<CallError>,
}

impl BatchOutcome {
    /// Starts a batch with this number of items.
    pub(super) fn new(batch: u64, items: usize) -> Self {
        Self { batch, sent: 0, reported: 0, offsets: vec![None; items], refused: None, failed: None }
    }

    /// Returns whether every sent record has its report.
    pub(super) const fn is_complete(&self) -> bool {
        self.reported >= self.sent
    }

    /// Counts a report, unless it is of another batch.
    pub(super) fn note(&mut self, report: &Report) {
        if report.batch != self.batch {
            return;
        }
        self.reported += 1;
        match &report.result {
            // While brokers come back, a record may be sent twice and then be acknowledged without its offset.
            Ok(..0) => self.failed = Some(CallError::Abortable("a record was written at an unknown offset".to_owned())),
            Ok(offset) => {
                if let Some(first) = self.offsets.get_mut(report.index) {
                    *first = Some(first.map_or(*offset, |known| known.min(*offset)));
                }
            }
            Err(NotWritten { topic, code }) => {
                if let Some(reason) = errors::refusal(*code) {
                    // A batch is refused as a whole: the largest record is to blame for its size, the one farthest from
                    // the clock for its timestamp, one without a key for being invalid.
                    let blame = report.clues.blame(reason);
                    if self.refused.as_ref().is_none_or(|(max, _)| *max < blame) {
                        self.refused = Some((blame, CallError::Undeliverable { index: report.index, reason }));
                    }
                } else {
                    let why = format!("{}{topic}: {code}", errors::NOT_DELIVERED);
                    self.failed = Some(errors::of_code(Some(*code), why));
                }
            }
        }
    }

    /// Returns the outcome of the batch. A fence or a fatal error outranks a refusal, and a refusal any other error.
    pub(super) fn into_answer(self) -> Answer {
        match (self.failed, self.refused) {
            (Some(error @ (CallError::Fenced(_) | CallError::Fatal(_))), _)
            | (_, Some((_, error)))
            | (Some(error), None) => Err(error),
            (None, None) => Ok(self.offsets.into_iter().map(|offset| offset.unwrap_or(-1)).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(len: usize) -> BatchOutcome {
        BatchOutcome { sent: len, ..BatchOutcome::new(7, len) }
    }

    fn report(index: usize, bytes: usize, result: Result<i64, RDKafkaErrorCode>) -> Report {
        let result = result.map_err(|code| NotWritten { topic: "crawl.pages.dead".to_owned(), code });
        Report { batch: 7, index, clues: RefusalClues { bytes, skew_ms: 0, keyed: true }, result }
    }

    #[test]
    fn offset_of_an_item_is_that_of_its_first_record() {
        let mut outcome = outcome(2);
        for (index, offset) in [(1, 14), (0, 12), (0, 11), (1, 13)] {
            outcome.note(&report(index, 1, Ok(offset)));
        }
        assert_eq!(outcome.into_answer(), Ok(vec![11, 13]));
    }

    #[test]
    fn records_without_a_known_offset_are_written_again_in_another_transaction() {
        for unknown in [-1, -1001] {
            let mut outcome = outcome(2);
            outcome.note(&report(0, 1, Ok(12)));
            outcome.note(&report(1, 1, Ok(unknown)));
            let why = "a record was written at an unknown offset".to_owned();
            assert_eq!(outcome.into_answer(), Err(CallError::Abortable(why)));
        }
    }

    #[test]
    fn largest_refused_record_of_a_batch_is_to_blame() {
        let mut outcome = outcome(3);
        for (index, bytes) in [(0, 10), (1, 900), (2, 20)] {
            outcome.note(&report(index, bytes, Err(RDKafkaErrorCode::MessageSizeTooLarge)));
        }
        assert_eq!(
            outcome.into_answer(),
            Err(CallError::Undeliverable { index: 1, reason: Reject::TooLargeForOutput })
        );
    }

    #[test]
    fn refused_record_farthest_from_the_clock_is_to_blame_for_its_timestamp() {
        let mut outcome = outcome(3);
        for (index, skew_ms) in [(0, 10), (1, 900), (2, 20)] {
            let clues = RefusalClues { bytes: 1000 - index, skew_ms, keyed: true };
            outcome.note(&Report { clues, ..report(index, 0, Err(RDKafkaErrorCode::InvalidTimestamp)) });
        }
        assert_eq!(outcome.into_answer(), Err(CallError::Undeliverable { index: 1, reason: Reject::TimestampRefused }));
    }

    #[test]
    fn refused_record_without_a_key_is_to_blame_for_an_invalid_one() {
        let mut outcome = outcome(3);
        for (index, keyed) in [(0, true), (1, false), (2, true)] {
            let clues = RefusalClues { bytes: 1000, skew_ms: 0, keyed };
            outcome.note(&Report { clues, ..report(index, 0, Err(RDKafkaErrorCode::InvalidRecord)) });
        }
        assert_eq!(outcome.into_answer(), Err(CallError::Undeliverable { index: 1, reason: Reject::Refused }));
    }

    #[test]
    fn a_record_that_was_not_delivered_is_reported_with_its_topic() {
        let mut outcome = outcome(1);
        outcome.note(&report(0, 1, Err(RDKafkaErrorCode::MessageTimedOut)));
        let Err(CallError::Abortable(why)) = outcome.into_answer() else { panic!("not abortable") };
        assert!(why.starts_with("a record was not delivered: crawl.pages.dead: "), "{why}");
    }

    #[test]
    fn fence_outranks_a_refusal() {
        let mut outcome = outcome(2);
        outcome.note(&report(0, 1, Err(RDKafkaErrorCode::InvalidTimestamp)));
        outcome.note(&report(1, 1, Err(RDKafkaErrorCode::Fenced)));
        assert!(matches!(outcome.into_answer(), Err(CallError::Fenced(_))));
    }

    #[test]
    fn late_report_of_an_earlier_transaction_is_not_counted() {
        let mut outcome = outcome(1);
        outcome.note(&Report { batch: 6, ..report(0, 1, Ok(3)) });
        assert_eq!(outcome.reported, 0);
    }
}
