//! Judging the kept fingerprint log anew, beside the verdict log as it is read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::verdicts::{Extent, Read, read};
use super::wiring::{self, failure};
use crate::config::settings::Settings;
use crate::error::{Fatal, Reason};
use crate::judge::{Difference, Retrial};
use crate::kafka::admin::LogNames;
use crate::kafka::entries::Entries;
use crate::log::VerdictRecord;
use crate::record::PartitionId;
use crate::worker::LogPartition;

/// How long entries may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// One partition of the log.
pub struct Trial {
    /// The comparison, and the state that follows from what is written.
    pub retrial: Retrial,
    /// First entry that is still held.
    pub first_entry: i64,
    /// Why nothing more could be compared, if so.
    pub broken: Option<String>,
    entries: Entries,
}

/// What happens while the logs are read.
pub enum Step<'a> {
    /// The next record of the verdict log, before it is taken in.
    Next {
        /// The partition of the log.
        log: LogPartition,
        /// Its offset.
        offset: i64,
        /// The comparison so far.
        trial: &'a Trial,
    },
    /// Something does not agree.
    Found {
        /// The partition of the log.
        log: LogPartition,
        /// Offset of the record of the verdict log.
        offset: i64,
        /// What it is.
        difference: Difference,
    },
}

/// Reads both logs as far as they are kept and committed now, judges the entries anew, and shows each step.
///
/// # Errors
///
/// When a log cannot be read.
pub fn judge_anew(settings: &Settings, mut see: impl FnMut(Step<'_>)) -> Result<BTreeMap<LogPartition, Trial>, Fatal> {
    let cluster = wiring::cluster(&settings.kafka);
    let names = LogNames::new(&settings.logs.prefix, &settings.scheme().to_string());
    let config = cluster.follower(&settings.input.group);
    let mut trials: BTreeMap<LogPartition, Trial> = BTreeMap::new();
    let mut failed = None;
    read(settings, Extent::Kept, |news| {
        let Some(Read { log, offset, record, .. }) = news else { return ControlFlow::Continue(()) };
        let begun = if let Some(trial) = trials.remove(&log) {
            Ok(trial)
        } else {
            let number = i32::try_from(log).unwrap_or(i32::MAX);
            begin(&config, PartitionId::new(Arc::clone(&names.fingerprints), number))
        };
        let result = begun.and_then(|mut trial| {
            see(Step::Next { log, offset, trial: &trial });
            let found = trial.take(&record)?;
            found.into_iter().for_each(|difference| see(Step::Found { log, offset, difference }));
            trials.insert(log, trial);
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
        None => Ok(trials),
    }
}

/// The verdict log is being read already: what is trimmed from now on leaves the other log with it, or later.
fn begin(config: &crate::kafka::client::ClientSettings, partition: PartitionId) -> Result<Trial, Fatal> {
    let entries = Entries::open(config, partition, PATIENCE).map_err(failure)?;
    let first_entry = entries.first().map_err(|error| Reason::Unavailable.because(error))?;
    let mut retrial = Retrial::default();
    if first_entry > 0 {
        retrial.trust_the_trim();
    }
    Ok(Trial { retrial, first_entry, broken: None, entries })
}

impl Trial {
    fn take(&mut self, record: &VerdictRecord) -> Result<Vec<Difference>, Fatal> {
        if self.broken.is_some() {
            return Ok(Vec::new());
        }
        let asked = match record {
            VerdictRecord::Rulings(batch) if self.retrial.state().log().is_some() => {
                let from = self.retrial.state().next_entry();
                if from < self.first_entry {
                    None
                } else {
                    let asked = self.entries.between(from, batch.next_entry);
                    Some(asked.map_err(|error| Reason::Unavailable.because(error))?)
                }
            }
            VerdictRecord::Rulings(_) | VerdictRecord::Rules(_) | VerdictRecord::Checkpoint(_) => None,
        };
        match self.retrial.record(record, asked.as_deref()) {
            Ok(found) => Ok(found),
            // Rulings without the facts before them are skipped up to the first checkpoint, as judges do.
            Err(crate::judge::Diverged::NoCheckpoint) => Ok(Vec::new()),
            Err(why) => {
                self.broken = Some(why.to_string());
                Ok(Vec::new())
            }
        }
    }
}
