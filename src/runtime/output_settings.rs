//! Converts the settings of the outputs for the modules that write them.

use crate::config::raw::{DuplicateValue as ConfiguredValue, TimestampOf};
use crate::config::settings::Settings;
use crate::kafka::output::{DuplicateValue, OutputTime};
use crate::worker::Routing;

/// Returns the routes of pages.
#[must_use]
pub fn routing(settings: &Settings) -> Routing {
    Routing {
        mode: settings.mode.into(),
        tombstones: settings.input.tombstones.into(),
        bad_records: settings.processing.on_bad_record.into(),
        partitioning: settings.output.partition.into(),
    }
}

/// Returns the value of records in the duplicate topic.
#[must_use]
pub const fn duplicate_value(settings: &Settings) -> DuplicateValue {
    match settings.output.duplicate_value {
        ConfiguredValue::Original => DuplicateValue::Original,
        ConfiguredValue::Reference => DuplicateValue::Reference,
        ConfiguredValue::None => DuplicateValue::None,
    }
}

/// Returns which timestamp the outputs carry.
#[must_use]
pub const fn output_time(settings: &Settings) -> OutputTime {
    match settings.output.timestamp {
        TimestampOf::Source => OutputTime::Source,
        TimestampOf::Now => OutputTime::Now,
    }
}
