//! What the settings say of the outputs, in the terms of the modules that write them.

use crate::config::raw::{
    DuplicateValue as ConfiguredValue, OnBadRecord, Partition, TimestampOf, Tombstones as ConfiguredTombstones,
};
use crate::config::settings::Settings;
use crate::kafka::output::{DuplicateValue, OutputTime};
use crate::worker::{BadRecords, Partitioning, Routing, Tombstones};

/// Returns where pages go.
#[must_use]
pub fn routing(settings: &Settings) -> Routing {
    Routing {
        mode: settings.mode.into(),
        tombstones: match settings.input.tombstones {
            ConfiguredTombstones::Forward => Tombstones::Forward,
            ConfiguredTombstones::Drop => Tombstones::Drop,
        },
        bad_records: match settings.processing.on_bad_record {
            OnBadRecord::DeadLetter => BadRecords::DeadLetter,
            OnBadRecord::Skip => BadRecords::Skip,
            OnBadRecord::Stop => BadRecords::Stop,
        },
        partitioning: match settings.output.partition {
            Partition::Same => Partitioning::Same,
            Partition::Key => Partitioning::Key,
            Partition::Spread => Partitioning::Spread,
        },
    }
}

/// Returns what the duplicate topic gets for a value.
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
