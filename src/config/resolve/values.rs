//! Checks of single values.

use std::time::Duration;

use crate::fingerprint::PerMille;

use super::super::units::{ByteSize, Span};
use super::Findings;

/// Shorter times cannot be distinguished in Kafka's timestamps.
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

/// Refuses a duration below a limit.
pub(super) fn at_least(path: &str, span: Duration, limit: Duration, found: &mut Findings) {
    if span < limit {
        found.refuse(path, format!("{} is below the limit of {}", Span(span), Span(limit)));
    }
}

/// Refuses a duration above a limit.
pub(super) fn at_most(path: &str, span: Duration, limit: Duration, found: &mut Findings) {
    if span > limit {
        found.refuse(path, format!("{} is above the limit of {}", Span(span), Span(limit)));
    }
}

/// Takes a size of at least one byte that the machine can address.
pub(super) fn bytes(path: &str, size: ByteSize, found: &mut Findings) -> usize {
    if size.0 == 0 {
        found.refuse(path, "0B is below the limit of 1B");
    }
    usize::try_from(size.0).unwrap_or_else(|_| {
        found.refuse(path, format!("{size} is more than this machine can address"));
        usize::MAX
    })
}

/// Takes a share that may be absent.
pub(super) fn share_of(path: &str, share: Option<f64>, found: &mut Findings) -> Option<PerMille> {
    share.and_then(|share| per_mille(path, share, found))
}

/// Takes a share, rounded to thousandths.
pub(super) fn per_mille(path: &str, share: f64, found: &mut Findings) -> Option<PerMille> {
    let rounded = PerMille::rounded(share);
    if rounded.is_none() {
        found.refuse(path, format!("{share} is not a similarity (expected 0 to 1)"));
    }
    rounded
}
