//! Reads both logs side by side and judges the retained requests again (`index verify`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::judge::{Difference, LogVerifier};

use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::kafka::admin::LogNames;
use crate::kafka::requests::Requests;
use crate::operators::verdicts::{LogExtent, Read, read};
use crate::protocol::{LogPartition, RequestOffset, VerdictOffset, VerdictRecord};
use crate::record::PartitionId;
use crate::runtime::context;
use crate::runtime::fatal::failure;

/// Time-out for reading requests.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(30);

/// The verification of one log partition.
pub struct PartitionVerification {
    /// The comparison, and the state that the log leads to.
    pub verifier: LogVerifier,
    /// Offset of the first request that the fingerprint log still holds.
    pub first_request: RequestOffset,
    /// Why the comparison had to stop, if it did.
    pub broken: Option<String>,
    requests: Requests,
}

/// Events while the logs are read.
pub enum Step<'a> {
    /// The next record of the verdict log, before it is processed.
    Next {
        /// The partition of the log.
        log: LogPartition,
        /// Its offset.
        offset: VerdictOffset,
        /// The comparison so far.
        verification: &'a PartitionVerification,
    },
    /// A difference was found.
    Found {
        /// The partition of the log.
        log: LogPartition,
        /// Offset of the record of the verdict log.
        offset: VerdictOffset,
        /// The difference.
        difference: Difference,
    },
}

/// Reads both logs as far as they are kept and committed now, judges the requests again, and calls `on_step` for each
/// step.
///
/// # Errors
///
/// A log cannot be read.
pub fn verify_logs(
    settings: &Settings,
    mut on_step: impl FnMut(Step<'_>),
) -> Result<BTreeMap<LogPartition, PartitionVerification>, Fatal> {
    let connection = context::connection(&settings.kafka);
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let config = connection.follower(&settings.input.group);
    let mut partitions: BTreeMap<LogPartition, PartitionVerification> = BTreeMap::new();
    let mut failed = None;
    read(settings, LogExtent::Kept, |event| {
        let Some(Read { log, offset, record, .. }) = event else { return ControlFlow::Continue(()) };
        let begun = if let Some(verification) = partitions.remove(&log) {
            Ok(verification)
        } else {
            let number = log.number();
            begin(&config, PartitionId::new(Arc::clone(&names.fingerprints), number))
        };
        let result = begun.and_then(|mut verification| {
            on_step(Step::Next { log, offset, verification: &verification });
            let found = verification.take(&record)?;
            found.into_iter().for_each(|difference| on_step(Step::Found { log, offset, difference }));
            partitions.insert(log, verification);
            Ok(())
        });
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(fatal) => {
                failed = Some(fatal);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(fatal) => Err(fatal),
        None => Ok(partitions),
    }
}

/// Opens the requests of one log partition. Call it only once the verdict log is being read: trimming removes requests
/// together with their verdicts or later, so the requests of the verdicts to come are still there.
fn begin(
    config: &crate::kafka::client::ClientSettings,
    partition: PartitionId,
) -> Result<PartitionVerification, Fatal> {
    let requests = Requests::open(config, partition, REQUESTS_TIMEOUT).map_err(failure)?;
    let first_request = requests.first().map_err(|error| Reason::Unavailable.because(error))?;
    let mut verifier = LogVerifier::default();
    if first_request > RequestOffset(0) {
        verifier.trust_the_trim();
    }
    Ok(PartitionVerification { verifier, first_request, broken: None, requests })
}

impl PartitionVerification {
    fn take(&mut self, record: &VerdictRecord) -> Result<Vec<Difference>, Fatal> {
        if self.broken.is_some() {
            return Ok(Vec::new());
        }
        let requests_of = match record {
            VerdictRecord::Verdicts(batch) if self.verifier.state().log().is_some() => {
                let from = self.verifier.state().next_request();
                if from < self.first_request {
                    None
                } else {
                    let requests_of = self.requests.between(from, batch.next_request);
                    Some(requests_of.map_err(|error| Reason::Unavailable.because(error))?)
                }
            }
            VerdictRecord::Verdicts(_) | VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        };
        match self.verifier.record(record, requests_of.as_deref()) {
            Ok(found) => Ok(found),
            // Verdicts before the first checkpoint lack earlier state and are skipped, as judges do.
            Err(dupgate_core::judge::Diverged::NoCheckpoint) => Ok(Vec::new()),
            Err(why) => {
                self.broken = Some(why.to_string());
                Ok(Vec::new())
            }
        }
    }
}
