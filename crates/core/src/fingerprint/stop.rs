//! Stop shingles: boilerplate phrases that occur on many pages.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::shingle::{ShingleUnit, Shingling, hash_of};
use crate::text::{IdentityHasher, is_han};

/// The first line of every file of stop-shingles.
pub const STOP_SHINGLES_HEAD: &str = "# stop-shingles 1";

/// A set of shingles that are left out of sketches (`match.minhash.stop_shingles`), as
/// `dupgate tune stop-shingles` finds them.
///
/// It is given as the contents of a file: the line [`STOP_SHINGLES_HEAD`], then one shingle on each line; empty lines
/// and those that begin with `#` are skipped. The set is part of the scheme; comments and order are not.
///
/// ```
/// # use dupgate_core::fingerprint::{Shingling, StopShingles};
/// let shingling = Shingling::of_characters(4, 7);
/// assert!(StopShingles::parse("# stop-shingles 1\n责任编辑\nallrigh\n", shingling).is_ok());
/// assert!(StopShingles::parse("# stop-shingles 1\n编辑\n", shingling).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopShingles {
    hashes: Arc<HashSet<u64, BuildHasherDefault<IdentityHasher>>>,
    digest: u128,
}

/// Why a text is not a list of stop-shingles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopShinglesError {
    /// The first line is another one.
    #[error("line 1 is `{0}`, not `{STOP_SHINGLES_HEAD}`: expected a file that `dupgate tune stop-shingles` wrote")]
    Head(String),
    /// A line that is longer or shorter than a shingle.
    #[error(
        "line {line}: `{shingle}` has {found} {unit}, but a shingle that begins like this has {expected} (match.minhash.shingle)"
    )]
    Length {
        /// The line's number, from 1.
        line: usize,
        /// The line.
        shingle: String,
        /// How long it is.
        found: usize,
        /// How long shingles are.
        expected: usize,
        /// The unit of both lengths.
        unit: &'static str,
    },
    /// A line with a space or a mark in it.
    #[error("line {line}: `{shingle}` holds `{mark}`, which is neither a letter nor a digit: no shingle has one")]
    Mark {
        /// The line's number, from 1.
        line: usize,
        /// The line.
        shingle: String,
        /// The first such character.
        mark: char,
    },
}

impl StopShingles {
    /// Reads the contents of a file, for shingles that are cut like this.
    ///
    /// # Errors
    ///
    /// [`StopShinglesError`] for the first wrong line.
    pub fn parse(contents: &str, Shingling { unit, lengths }: Shingling) -> Result<Self, StopShinglesError> {
        let head = contents.lines().next().unwrap_or_default();
        if head.trim_end() != STOP_SHINGLES_HEAD {
            return Err(StopShinglesError::Head(head.chars().take(40).collect()));
        }
        let lines = (1..).zip(contents.lines().map(str::trim_end));
        let mut shingles: Vec<&str> = Vec::new();
        for (line, shingle) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let is_part = |c: &char| unit == ShingleUnit::Words || c.is_alphanumeric();
            if let Some(mark) = shingle.chars().find(|c| !is_part(c)) {
                return Err(StopShinglesError::Mark { line, shingle: shingle.to_owned(), mark });
            }
            let expected = lengths.of(shingle.chars().next().is_some_and(is_han));
            let found = match unit {
                ShingleUnit::Characters => shingle.chars().count(),
                ShingleUnit::Words => shingle.split(' ').filter(|word| !word.is_empty()).count(),
            };
            if found != expected {
                let (shingle, unit) = (shingle.to_owned(), unit.name());
                return Err(StopShinglesError::Length { line, shingle, found, expected, unit });
            }
            shingles.push(shingle);
        }
        shingles.sort_unstable();
        shingles.dedup();
        let hashes: HashSet<u64, _> = shingles.iter().map(|shingle| u64::from(hash_of(shingle))).collect();
        let digest = if shingles.is_empty() { 0 } else { xxh3_128(shingles.join("\n").as_bytes()) };
        Ok(Self { hashes: Arc::new(hashes), digest })
    }

    /// Returns whether there are no stop-shingles, so that every shingle counts.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns whether the shingle with this hash is a stop-shingle. Shingles with equal hashes are treated alike,
    /// because sketches hold only hashes.
    #[inline]
    #[must_use]
    pub(crate) fn has(&self, hash: u32) -> bool {
        self.hashes.contains(&u64::from(hash))
    }

    /// Removes the hashes of stop-shingles.
    pub fn drop_from(&self, hashes: &mut Vec<u32>) {
        if !self.is_empty() {
            hashes.retain(|hash| !self.has(*hash));
        }
    }

    /// Returns a hash of the whole set, the same for equal sets, 0 for none.
    #[must_use]
    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Shingling = Shingling::of_characters(2, 3);

    fn parse(lines: &str) -> Result<StopShingles, String> {
        StopShingles::parse(&format!("{STOP_SHINGLES_HEAD}\n{lines}"), LENGTHS).map_err(|error| error.to_string())
    }

    #[test]
    fn order_repeats_and_comments_do_not_count() {
        let one = parse("首页\nabc\n").unwrap();
        assert_eq!(parse("# of 100 pages\nabc\r\n\n首页\nabc"), Ok(one.clone()));
        assert_ne!(parse("首页").unwrap().digest(), one.digest());
        assert_eq!((one.hashes.len(), one.has(hash_of("abc")), one.has(hash_of("abd"))), (2, true, false));
        assert_eq!(parse("# none"), Ok(StopShingles::default()));
    }

    #[test]
    fn hashes_of_others_stay_in_their_order() {
        let mut hashes = ["abd", "abc", "abe", "abc", "abd"].map(hash_of).to_vec();
        parse("abc").unwrap().drop_from(&mut hashes);
        assert_eq!(hashes, ["abd", "abe", "abd"].map(hash_of));
    }

    #[test]
    fn a_file_of_something_else_is_refused_with_the_line() {
        assert_eq!(
            StopShingles::parse("the\nof\n", LENGTHS).unwrap_err().to_string(),
            "line 1 is `the`, not `# stop-shingles 1`: expected a file that `dupgate tune stop-shingles` wrote"
        );
        assert_eq!(
            parse("abc\n首页新闻").unwrap_err(),
            "line 3: `首页新闻` has 4 characters, but a shingle that begins like this has 2 (match.minhash.shingle)"
        );
        assert_eq!(
            parse("a b").unwrap_err(),
            "line 2: `a b` holds ` `, which is neither a letter nor a digit: no shingle has one"
        );
    }
}
