//! Derives the judge's settings from the configuration.

use super::random::random_id;
use super::service_context::REVOKE_GRACE;
use super::time_slice::STEP_REQUESTS;
use crate::config::settings::Settings;
use crate::fingerprint::SketchForm;
use crate::judge::JudgeSettings;
use crate::kafka::client::ProducerSettings;
use crate::kafka::fingerprint_log::MAX_REQUESTS;
use crate::protocol::{LogIdentity, max_verdict_bytes};

/// Maximum number of verdicts in one record of the verdict log.
const BATCH_VERDICTS: usize = 2_000;

/// Returns the settings of a judge whose verdict log accepts batches of this many bytes. A new log gets a new identity.
pub(super) fn judge_settings(settings: &Settings, verdict_log_bytes: usize) -> JudgeSettings {
    let producer = ProducerSettings::of_judge();
    JudgeSettings {
        rules: settings.rules.clone(),
        new_log: LogIdentity(random_id()),
        // Of a service that runs, `scheme_change` decides whether a new log may begin.
        cold_start: settings.index.cold_start.into(),
        commit_interval: settings.judge.commit_interval,
        checkpoint_interval_records: settings.judge.checkpoint_interval_records,
        keep: settings.logs.retention,
        batch_verdicts: batch_verdicts(
            verdict_log_bytes.min(producer.max_record_bytes),
            settings.rules.minhash.map(|minhash| minhash.form),
        ),
        pending_verdicts: 50_000,
        transaction_timeout: producer.transaction_timeout,
        step_requests: STEP_REQUESTS,
        snapshot_interval: Some(settings.index.snapshot_interval),
        revoke_grace: REVOKE_GRACE,
    }
}

/// Returns the number of verdicts from which on a record of the verdict log ends. It can end only where a record of
/// requests ends, so there is space left for the verdicts on one more such record within `max_bytes`.
fn batch_verdicts(max_bytes: usize, form: Option<SketchForm>) -> usize {
    (max_bytes / max_verdict_bytes(form)).saturating_sub(MAX_REQUESTS).clamp(1, BATCH_VERDICTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::SlotBits;

    #[test]
    fn a_record_of_verdicts_is_within_the_limit_of_the_log() {
        let usual = SketchForm::new(128, SlotBits::B8).unwrap().with_count();
        let large = SketchForm::new(255, SlotBits::B16).unwrap().with_count().with_bottom(255).unwrap();
        for (form, smallest) in [(None, 300_000), (Some(usual), 300_000), (Some(large), 1_000_000)] {
            for limit in [smallest, 1_048_588, 2_000_000, 2_097_152, 100_000_000] {
                let max = batch_verdicts(limit, form) - 1 + MAX_REQUESTS;
                assert!(max * max_verdict_bytes(form) <= limit, "{limit}: {max} verdicts");
            }
        }
        assert_eq!(batch_verdicts(2_000_000, Some(usual)), BATCH_VERDICTS);
    }
}
