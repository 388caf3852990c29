//! Prints the verdict on each page of a file of JSON lines (`url`, and `text` or `html`), or on some pages of its own:
//!
//! ```sh
//! cargo run --release -p dupgate-core --example deduplicate -- pages.jsonl
//! ```
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads a file and prints")]

use std::error::Error;
use std::num::NonZeroUsize;

use dupgate_core::deduplicator::{Deduplicator, DeduplicatorSettings};
use dupgate_core::fingerprint::{Fingerprinter, Scratch, Settings};
use dupgate_core::protocol::Rules;
use dupgate_core::record::{EventTime, InputSettings, PartitionId, RawRecord, Timestamp};
use dupgate_core::text;

const PAGES: &str = r#"{"url": "https://a.example/1", "text": "The ferry between the two islands will run every hour from Monday, the port authority said, after residents complained that the last boat leaves before the evening shift ends."}
{"url": "https://b.example/9", "text": "The ferry between the two islands will run every hour from Monday, the port authority said, after many residents complained that the last boat leaves before the evening shift ends."}
{"url": "https://c.example/5", "text": "A late frost has cost the orchards in the valley about a third of this year's apricots, growers estimate; cherries, which bloom two weeks later, were hardly touched by the cold nights."}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let pages = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => PAGES.to_owned(),
    };
    // A fingerprinter is shared by any number of threads; each has a scratch of its own, which is reused.
    let one = NonZeroUsize::MIN;
    let fingerprinter =
        Fingerprinter::new(&InputSettings::default(), &text::Settings::default(), &Settings::default(), one)?;
    let mut scratch = Scratch::default();
    // Times are data: pages without one get a time by their number.
    let mut deduplicator = Deduplicator::new(DeduplicatorSettings {
        rules: Rules::default(),
        event_time: EventTime::Record,
        partitions: one,
        clock: Timestamp::from_millis(i64::MAX),
    });
    let input = PartitionId::new("pages", 0);
    for (number, line) in (1..).zip(pages.lines()) {
        let record = RawRecord { key: None, value: Some(line.as_bytes()), headers: &() };
        let page = fingerprinter.read(&record, &mut scratch);
        let result = deduplicator.judge(input.at(number), page)?;
        let original = result.verdict.original().map(|original| format!(" of line {}", original.source.offset));
        println!("line {number}: {}{}", result.verdict.name(), original.unwrap_or_default());
    }
    Ok(())
}
