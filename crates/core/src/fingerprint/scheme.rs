//! The scheme: a name for everything that determines the fingerprints of a page and its partition.

use super::{SchemeId, ScopeHash, Settings};
use crate::record::InputSettings;
use crate::text;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use xxhash_rust::xxh3::xxh3_64;

/// Raised when the same pages get other fingerprints under the same settings, and only then: every index starts empty
/// under a new scheme. `tests/consistency/scheme.rs` decides with a corpus of pages, whatever versions our dependencies
/// have.
pub const CODE_VERSION: u32 = 15;

/// Names the scheme of these settings: `sh`, the width of the `SimHash`, a hyphen and six hexadecimal digits.
#[must_use]
pub fn scheme_id(
    input: &InputSettings,
    text: &text::Settings,
    fingerprint: &Settings,
    partitions: NonZeroUsize,
) -> SchemeId {
    let hash = xxh3_64(canonical(input, text, fingerprint, partitions).as_bytes());
    SchemeId(format!("sh{}-{:06x}", fingerprint.simhash.bits.bits(), hash >> 40))
}

/// Returns whether a text has the form of the names that [`scheme_id`] gives.
#[must_use]
pub fn is_scheme_id(name: &str) -> bool {
    let parts = name.strip_prefix("sh").and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(bits, hash)| {
        bits.parse::<u32>().is_ok() && hash.len() == 6 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns the text that the scheme is a hash of, one `name=value` on each line.
#[must_use]
pub fn canonical(
    input: &InputSettings,
    text: &text::Settings,
    fingerprint: &Settings,
    partitions: NonZeroUsize,
) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "code={CODE_VERSION}");
    input.write_canonical(&mut out);
    text.write_canonical(&mut out);
    fingerprint.write_canonical(&mut out);
    let _ = writeln!(out, "judge.partitions={partitions}");
    out
}

/// Returns the partition of the fingerprint log that a page of this scope goes to; pages without a scope go to 0.
#[must_use]
pub fn partition_of(scope: Option<ScopeHash>, partitions: NonZeroUsize) -> usize {
    let Some(ScopeHash(hash)) = scope else { return 0 };
    let partitions = u64::try_from(partitions.get()).unwrap_or(u64::MAX);
    usize::try_from(hash % partitions).unwrap_or(0)
}
