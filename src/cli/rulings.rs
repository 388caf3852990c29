//! `dupgate rulings reopen`: has a range of the input judged anew.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::configuration::ConfigurationArguments;
use super::print_answers;
use crate::config::Purpose;
use crate::error::Fatal;
use crate::log::EntryBody;
use crate::record::PartitionId;
use crate::runtime::petition;

/// What to do with rulings.
#[derive(Debug, Subcommand)]
pub enum RulingsCommand {
    /// Have a range of an input partition judged anew and forget the originals that it made.
    Reopen(ReopenArguments),
}

/// Options of `rulings reopen`.
#[derive(Clone, Debug, Args)]
pub struct ReopenArguments {
    /// First and last offset of one partition, as TOPIC:PARTITION:FIRST-LAST, both inclusive. Must lie below what the
    /// input group has committed.
    pub range: Range,
    /// How long to wait for the judges' answers.
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    /// The configuration.
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

/// Offsets of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The partition.
    pub partition: PartitionId,
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
}

/// Why a text names no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no range: expected topic:partition:first-last")]
pub struct NotARange(String);

impl FromStr for Range {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let refuse = || NotARange(text.to_owned());
        let mut parts = text.rsplitn(3, ':');
        let (first, last) = parts.next().and_then(|range| range.split_once('-')).ok_or_else(refuse)?;
        let number = parts.next().and_then(|number| number.parse().ok()).ok_or_else(refuse)?;
        let topic = parts.next().filter(|topic| !topic.is_empty() && !topic.contains(':')).ok_or_else(refuse)?;
        let offset = |text: &str| text.parse::<u32>().map(i64::from).or_else(|_| text.parse::<i64>());
        let (first, last) = (offset(first).map_err(|_| refuse())?, offset(last).map_err(|_| refuse())?);
        if first < 0 || first > last || last == i64::MAX {
            return Err(refuse());
        }
        Ok(Self { partition: PartitionId::new(topic, number), first, last })
    }
}

/// Does it, and prints the answers.
///
/// # Errors
///
/// Why it could not be done.
pub fn run(command: &RulingsCommand) -> Result<(), Fatal> {
    let RulingsCommand::Reopen(arguments) = command;
    let loaded = arguments.configuration.load(Purpose::Run)?;
    let Range { partition, first, last } = arguments.range.clone();
    let body = EntryBody::Reopen { partition, from: first, to: last + 1 };
    print_answers(&petition::submit(loaded.settings, &body, arguments.wait)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_names_both_ends() {
        let range: Range = "crawl.pages:3:10-20".parse().unwrap();
        assert_eq!(range, Range { partition: PartitionId::new("crawl.pages", 3), first: 10, last: 20 });
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "pages", "pages:1", "pages:1:5", "pages:1:9-5", "pages:x:1-2", ":1:1-2", "a:b:1:1-2"] {
            assert_eq!(text.parse::<Range>(), Err(NotARange(text.to_owned())), "{text}");
        }
    }
}
