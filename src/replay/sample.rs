//! How long a replay takes, measured on the first pages that it would read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dupgate_core::replay::{FilePlace, Plan};
use dupgate_core::worker::HeaderSettings;

use super::feed::{Extents, FeedEvent};
use super::setup;
use crate::clock::{Clock, wall_time};
use crate::config::settings::Settings;
use crate::error::Fatal;
use crate::kafka::output::{Outputs, PartitionCounts};
use crate::telemetry::Metrics;
use crate::{context, topics};

/// Maximum number of pages and maximum duration of the sample for an estimate.
const SAMPLE_PAGES: usize = 5000;
const SAMPLE_TIME: Duration = Duration::from_secs(10);

/// Rate and page size of a sample of the range.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Pages of the sample.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their part of the plan: records of topics, or bytes of files.
    pub done: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Reads a sample of the range, text work included, to estimate how long all of it takes.
///
/// # Errors
///
/// The input cannot be read.
pub fn estimate(plan: &Plan, settings: &Settings, metrics: &Metrics) -> Result<Sample, Fatal> {
    let clock = Clock::start();
    let outputs = Outputs {
        routing: topics::routing(settings),
        headers: HeaderSettings::default(),
        topics: BTreeMap::new(),
        partition_counts: PartitionCounts::default(),
        duplicate_value: topics::duplicate_value(settings),
        time: topics::output_time(settings),
        now: wall_time,
    };
    let extents: Extents = plan.input.iter().map(|range| (range.id(), range.range())).collect();
    let config = context::connection(&settings.kafka).follower(&settings.input.group);
    let from = plan.is_of_files().then(FilePlace::default);
    let mut feed = setup::feed(plan, settings, (&extents, from), Arc::new(outputs), (&config, metrics, clock))?;
    let (mut pages, mut bytes, mut since) = (0_u64, 0_u64, None);
    let mut open = extents.len() + plan.files.len();
    let mut place = FilePlace::default();
    while open > 0 && pages < SAMPLE_PAGES as u64 && clock.now() < SAMPLE_TIME {
        match feed.wait()? {
            FeedEvent::Page(partition, _) => {
                since.get_or_insert(clock.now());
                if let Some(page) = feed.take(&partition) {
                    pages += 1;
                    bytes += page.payload.record.bytes() as u64;
                    place = feed.place(&partition).max(place);
                }
            }
            FeedEvent::Ended(_) => open -= 1,
            FeedEvent::Nothing => {}
        }
    }
    let elapsed = clock.now().saturating_sub(since.unwrap_or_default());
    let done = if plan.is_of_files() { plan.file_bytes_before(&place) } else { pages };
    Ok(Sample { pages, bytes, done, elapsed })
}
