//! `rulings`: what was ruled, and having it ruled anew.

use std::str::FromStr;

use clap::{Args, Subcommand};

use super::Global;
use super::petition::petition;
use crate::error::Fatal;
use crate::log::EntryBody;
use crate::record::PartitionId;

/// Arguments of `rulings`.
#[derive(Clone, Debug, Args)]
pub struct RulingsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RulingsCommand,
}

/// What to do with rulings.
#[derive(Clone, Debug, Subcommand)]
pub enum RulingsCommand {
    /// have a range of the input judged anew; its originals are forgotten
    Reopen(ReopenArgs),
}

/// Arguments of `rulings reopen`.
#[derive(Clone, Debug, Args)]
pub struct ReopenArgs {
    /// offsets of an input partition: topic:partition:from-to, where `to` is the first offset behind the range
    #[arg(value_name = "RANGE", required = true)]
    pub ranges: Vec<OffsetRange>,
    /// do it; otherwise only say what would be done
    #[arg(long)]
    pub execute: bool,
}

/// Has ranges judged anew, and prints what the judges answered.
///
/// # Errors
///
/// Why it could not be done.
pub fn rulings(args: &RulingsArgs, global: &Global) -> Result<(), Fatal> {
    let RulingsCommand::Reopen(args) = &args.command;
    let ranges = args.ranges.iter().cloned();
    let bodies = ranges.map(|OffsetRange { partition, from, to }| EntryBody::Reopen { partition, from, to });
    petition(global, &bodies.collect::<Vec<_>>(), args.execute)
}

/// The offsets `from <= offset < to` of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The input partition.
    pub partition: PartitionId,
    /// First offset of the range.
    pub from: i64,
    /// First offset behind the range.
    pub to: i64,
}

impl FromStr for OffsetRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.rsplitn(3, ':');
            let (from, to) = parts.next()?.split_once('-')?;
            let (from, to) = (from.parse::<i64>().ok()?, to.parse::<i64>().ok()?);
            let number = parts.next()?.parse::<i32>().ok().filter(|number| *number >= 0)?;
            let topic = parts.next().filter(|topic| !topic.is_empty() && !topic.contains(':'))?;
            (from >= 0 && from < to).then(|| Self { partition: PartitionId::new(topic, number), from, to })
        };
        parse().ok_or_else(|| {
            format!("`{text}` is no range: expected topic:partition:from-to, such as crawl.pages:3:0-1200")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_at_least_one_offset() {
        let range = "crawl.pages:3:10-11".parse::<OffsetRange>().unwrap();
        assert_eq!(range, OffsetRange { partition: PartitionId::new("crawl.pages", 3), from: 10, to: 11 });
        for text in ["", "a:3:10-10", "a:3:11-10", "a:3:10", ":3:1-2", "a:-1:1-2", "a:b:3:1-2", "a:3:-5-2", "3:1-2"] {
            assert!(text.parse::<OffsetRange>().is_err(), "{text}");
        }
    }
}
