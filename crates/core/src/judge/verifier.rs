//! Judges the retained requests again under the rules recorded in the log, and compares the result with the written
//! verdicts.
//!
//! Before: both logs as they are kept. After: where they disagree. By law L5 they never do: same log, same rules, same
//! verdicts. What is written stays in force: after a difference, the verifier follows the written verdict, so that one
//! difference does not cause others. If a page has two verdicts, the first one counts, as for every reader of the log;
//! the second is counted, but is not a difference.
//!
//! Cost: that of judging each request once.

use super::{Diverged, State, decide};
use crate::protocol::{Answer, Checkpoint, Request, RequestOffset, Verdict, VerdictBatch, VerdictRecord};
use crate::record::Timestamp;

/// One record of the fingerprint log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its offset.
    pub offset: RequestOffset,
    /// When the broker appended it.
    pub append_time: Timestamp,
    /// The requests that it holds.
    pub requests: Vec<Request>,
}

/// A difference between what is written and what judging again gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// One verdict.
    Verdict {
        /// Offset of the request in the fingerprint log, if there is one.
        request: Option<RequestOffset>,
        /// What the verdict log says, if anything.
        written: Option<Box<Verdict>>,
        /// What judging again gives, if anything.
        again: Option<Box<Verdict>>,
    },
    /// The expiry watermarks after a batch.
    ExpiryWatermarks,
    /// The stream time, watermarks, rules or positions in a checkpoint.
    Checkpoint,
}

/// The result of judging again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyCounts {
    /// Verdicts that were judged again.
    pub judged: u64,
    /// Those of them that came out as written.
    pub same: u64,
    /// Those of them that cannot be checked, because they name an original that is older than the kept log.
    pub unknown: u64,
    /// Verdicts whose requests the fingerprint log does not hold any more.
    pub unasked: u64,
    /// Verdicts on pages that already had one; they are ignored.
    pub second_verdicts: u64,
    /// Differences found.
    pub differences: u64,
}

/// Follows the verdict log and judges the requests that belong to it again.
#[derive(Debug, Default)]
pub struct LogVerifier {
    state: State,
    is_complete: bool,
    counts: VerifyCounts,
}

impl LogVerifier {
    /// Asserts that the kept verdict log holds every original that the kept requests can match. This is so if the
    /// fingerprint log was trimmed, because both logs are trimmed together, to a place where it holds. A verdict log
    /// that begins with its very first checkpoint needs no such assertion.
    pub fn trust_the_trim(&mut self) {
        self.is_complete = true;
    }

    /// Returns the state that follows from what is written.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns what was found so far.
    #[must_use]
    pub const fn counts(&self) -> VerifyCounts {
        VerifyCounts { second_verdicts: self.state.counts().second_verdicts, ..self.counts }
    }

    /// Takes the next record of the verdict log, with the records of the fingerprint log that it answers: those from
    /// the state's next request up to the record's. Without them, the record is only followed.
    ///
    /// # Errors
    ///
    /// [`Diverged`] when the record does not fit the ones before. Nothing more can be compared then.
    pub fn record(&mut self, record: &VerdictRecord, asked: Option<&[Asked]>) -> Result<Vec<Difference>, Diverged> {
        let mut found = Vec::new();
        match (record, asked) {
            (VerdictRecord::Checkpoint(checkpoint), _) if self.state.log().is_none() => {
                self.state.follow_record(record)?;
                self.is_complete |= checkpoint.next_sequence == 0;
            }
            (VerdictRecord::Checkpoint(checkpoint), _) => {
                if !self.is_as(checkpoint) {
                    found.push(Difference::Checkpoint);
                }
                self.state.follow_record(record)?;
            }
            (VerdictRecord::Rules(_), _) => self.state.follow_record(record)?,
            (VerdictRecord::Verdicts(batch), None) => {
                self.counts.unasked += u64::try_from(batch.verdicts.len()).unwrap_or(u64::MAX);
                self.state.follow_record(record)?;
            }
            (VerdictRecord::Verdicts(batch), Some(asked)) => self.batch(batch, asked, &mut found)?,
        }
        self.counts.differences += u64::try_from(found.len()).unwrap_or(u64::MAX);
        Ok(found)
    }

    fn is_as(&self, checkpoint: &Checkpoint) -> bool {
        let state = &self.state;
        state.rules_number() == checkpoint.rules_number
            && state.rules() == Some(&checkpoint.rules)
            && (state.stream_time(), state.leap()) == (checkpoint.stream_time, checkpoint.leap)
            && state.watermarks() == checkpoint.watermarks
            && state.next_sequence() == checkpoint.next_sequence
            && state.next_request() == checkpoint.next_request
    }

    fn batch(&mut self, batch: &VerdictBatch, asked: &[Asked], found: &mut Vec<Difference>) -> Result<(), Diverged> {
        self.state.begin_batch(batch)?;
        let second_verdicts = self.state.counts().second_verdicts;
        let mut written = batch.verdicts.as_slice();
        for asked in asked {
            for request in &asked.requests {
                let Some(again) = decide(&self.state, request, asked.append_time) else { continue };
                self.counts.judged += 1;
                // Verdicts are in the order of their requests, so the verdicts before this one have no request.
                let Some(at) = written.iter().position(|verdict| verdict.request == again.request) else {
                    let again = Some(Box::new(again));
                    found.push(Difference::Verdict { request: Some(asked.offset), written: None, again });
                    continue;
                };
                let (unasked, rest) = written.split_at(at);
                self.follow_unasked(unasked, found);
                let Some((verdict, rest)) = rest.split_first() else { continue };
                written = rest;
                self.compare(asked.offset, verdict, again, found);
                self.state.follow_written(verdict);
            }
        }
        self.follow_unasked(written, found);
        // A judge that wrote a second verdict had not followed the log up to it, so its watermarks differ.
        let is_of_this_log = self.state.counts().second_verdicts == second_verdicts;
        if is_of_this_log && self.state.watermarks() != batch.watermarks {
            found.push(Difference::ExpiryWatermarks);
        }
        self.state.end_batch(batch);
        Ok(())
    }

    fn compare(&mut self, request: RequestOffset, written: &Verdict, again: Verdict, found: &mut Vec<Difference>) {
        if *written == again {
            self.counts.same += 1;
        } else if self.is_older_than_the_log(written) {
            self.counts.unknown += 1;
        } else {
            let (written, again) = (Some(Box::new(written.clone())), Some(Box::new(again)));
            found.push(Difference::Verdict { request: Some(request), written, again });
        }
    }

    fn follow_unasked(&mut self, unasked: &[Verdict], found: &mut Vec<Difference>) {
        for verdict in unasked {
            if self.state.follow_written(verdict) {
                found.push(Difference::Verdict {
                    request: None,
                    written: Some(Box::new(verdict.clone())),
                    again: None,
                });
            }
        }
    }

    /// Returns whether a verdict names an original from the part of the verdict log that is gone.
    fn is_older_than_the_log(&self, written: &Verdict) -> bool {
        let Answer::Page(page) = &written.answer else { return false };
        let Some(of) = page.decision.matched().filter(|_| !self.is_complete) else { return false };
        self.state.index().of_source(&of.source, &self.state.watermarks()).is_empty()
    }
}

#[cfg(test)]
mod tests;
