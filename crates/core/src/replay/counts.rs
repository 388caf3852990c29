//! The totals of a replay so far.
//!
//! A digest over a sequence, whose state can be written down between any two elements.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::protocol::{Verdict, VerdictKind};
use crate::record::Reject;
use crate::worker::PageOutcome;

/// Name of a verdict, or `dead_letter`, `tombstone`, `withdrawn`.
pub type VerdictName = &'static str;

/// Totals of a replay. They are committed with the pages that they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Pages read in the range.
    pub pages: u64,
    /// Bytes of their keys, values and headers.
    pub bytes: u64,
    /// Pages read for the warm-up, which are judged and not produced.
    pub warm_up: u64,
    /// Pages of the range by verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// Dead letters by reason.
    pub dead_letters: BTreeMap<String, u64>,
    /// In the order of the log: pages whose verdict is another than the live one, as `live -> replay`.
    pub changed: BTreeMap<String, u64>,
    /// In the order of the log: verdicts taken from the log, because what they were matched with is older than the log.
    pub taken_over: u64,
    /// In the order of the log: verdicts that were skipped, because their pages had one already in the live log.
    pub second_verdicts: u64,
    /// In the order of the log: pages with a second verdict in the live log, because their range was reopened. They are
    /// counted above with their first verdict.
    pub reopened: u64,
    /// Pages that the input does not hold any more.
    pub gone: u64,
}

impl Counts {
    /// Counts a page of the range with its end.
    pub fn note(&mut self, bytes: usize, outcome: &PageOutcome) {
        self.pages += 1;
        self.bytes += u64::try_from(bytes).unwrap_or(0);
        if let PageOutcome::DeadLetter(reason) = outcome {
            self.note_dead_letter(*reason);
        }
        let name = name_of(outcome);
        if let Some(count) = self.verdicts.get_mut(name) {
            *count += 1;
        } else {
            self.verdicts.insert(name.to_owned(), 1);
        }
    }

    fn note_dead_letter(&mut self, reason: Reject) {
        *self.dead_letters.entry(reason.name().to_owned()).or_default() += 1;
    }

    /// Counts a page of the range that the brokers did not take: it is a dead letter, not what it was counted as.
    pub fn note_refused(&mut self, was: VerdictName, reason: Reject) {
        if let Some(count) = self.verdicts.get_mut(was) {
            *count = count.saturating_sub(1);
        }
        self.verdicts.retain(|_, count| *count > 0);
        *self.verdicts.entry(Reject::DEAD_LETTER.to_owned()).or_default() += 1;
        self.note_dead_letter(reason);
    }

    /// Counts a verdict that is not the live one.
    pub fn note_change(&mut self, live: VerdictName, replayed: VerdictName) {
        *self.changed.entry(format!("{live} -> {replayed}")).or_default() += 1;
    }

    /// Returns how many pages had this outcome.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        self.verdicts.get(name).copied().unwrap_or(0)
    }

    /// Returns how many pages are duplicates.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        VerdictKind::ALL.iter().filter(|kind| kind.is_duplicate()).map(|kind| self.of(kind.name())).sum()
    }
}

/// Returns the name of a verdict.
#[must_use]
pub fn name_of_verdict(verdict: &Verdict) -> VerdictName {
    verdict.answer.kind().unwrap_or(VerdictKind::Withdrawn).name()
}

/// Returns the name of a page's outcome.
#[must_use]
pub fn name_of(outcome: &PageOutcome) -> VerdictName {
    match outcome {
        PageOutcome::Judged(verdict) => name_of_verdict(verdict),
        PageOutcome::DeadLetter(_) => Reject::DEAD_LETTER,
        PageOutcome::Tombstone => "tombstone",
    }
}

/// Digest of a sequence so far: the XXH3 hash of the digest before and the hash of the next element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Returns the digest of the sequence with one more element. The fields of an element do not run into each other.
    #[must_use]
    pub fn with(self, fields: &[Option<&[u8]>]) -> Self {
        self.with_in(fields, &mut Vec::new())
    }

    /// Like [`Digest::with`]; puts the element into `room`, instead of what that holds.
    #[must_use]
    pub fn with_in(self, fields: &[Option<&[u8]>], room: &mut Vec<u8>) -> Self {
        room.clear();
        for field in fields {
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            room.extend_from_slice(&length.to_le_bytes());
            room.extend_from_slice(field.unwrap_or_default());
        }
        let mut both = [0; 32];
        let (before, next) = both.split_at_mut(16);
        before.copy_from_slice(&self.0.to_le_bytes());
        next.copy_from_slice(&xxh3_128(room).to_le_bytes());
        Self(xxh3_128(&both))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_brokers_refuse_is_counted_once_and_as_a_dead_letter() {
        let mut counts = Counts { verdicts: [("unique".to_owned(), 1)].into(), pages: 1, ..Counts::default() };
        counts.note_refused("unique", Reject::TooLargeForOutput);
        assert_eq!((counts.of("dead_letter"), counts.of("unique"), counts.verdicts.len()), (1, 0, 1));
        assert_eq!(counts.verdicts.values().sum::<u64>(), counts.pages);
        assert_eq!(counts.dead_letters, [(Reject::TooLargeForOutput.name().to_owned(), 1)].into());
    }

    #[test]
    fn order_fields_and_absence_count() {
        let one = Digest::default().with(&[Some(b"a"), Some(b"b")]);
        assert_ne!(one, Digest::default().with(&[Some(b"ab"), Some(b"")]));
        assert_ne!(one, Digest::default().with(&[Some(b"a"), None]));
        assert_ne!(Digest::default().with(&[None]), Digest::default().with(&[Some(b"")]));
        let two = Digest::default().with(&[Some(b"b")]).with(&[Some(b"a")]);
        assert_ne!(two, Digest::default().with(&[Some(b"a")]).with(&[Some(b"b")]));
    }

    #[test]
    fn replays_of_earlier_versions_have_the_same_digests() {
        let long = [7; 1_000];
        let digest = Digest::default().with(&[Some(b"pages:0:1"), Some(b"unique"), None]).with(&[Some(&long)]);
        assert_eq!(digest.to_string(), "1544384b34038360564db5857390fc2b");
    }

    #[test]
    fn it_goes_on_from_where_it_was_written_down() {
        let one = Digest::default().with(&[Some(b"a")]);
        let read: Digest = one.to_string().parse().unwrap();
        assert_eq!(read.with(&[Some(b"b")]), one.with(&[Some(b"b")]));
    }
}
