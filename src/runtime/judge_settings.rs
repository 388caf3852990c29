//! Derives the judge's settings from the configuration.

use super::random::draw;
use super::service_context::REVOKE_GRACE;
use super::time_slice::STEP_REQUESTS;
use crate::config::raw::ColdStart as ConfiguredColdStart;
use crate::config::settings::Settings;
use crate::judge::{ColdStart, JudgeSettings};
use crate::kafka::client::ProducerSettings;
use crate::protocol::LogIdentity;

/// Returns the settings of a judge. A log that it has to begin gets an identity of its own.
pub(super) fn judge_settings(settings: &Settings) -> JudgeSettings {
    JudgeSettings {
        rules: settings.rules.clone(),
        new_log: LogIdentity(draw()),
        cold_start: match settings.index.cold_start {
            ConfiguredColdStart::Proceed => ColdStart::Proceed,
            ConfiguredColdStart::Stop => ColdStart::Stop,
        },
        commit_interval: settings.judge.commit_interval,
        checkpoint_interval_records: settings.judge.checkpoint_interval_records,
        keep: settings.logs.retention,
        batch_verdicts: 2_000,
        pending_verdicts: 50_000,
        pending_time: ProducerSettings::of_judge().transaction_timeout / 5,
        step_requests: STEP_REQUESTS,
        snapshot_interval: Some(settings.index.snapshot_interval),
        revoke_grace: REVOKE_GRACE,
    }
}
