//! Checks single values.

use std::time::Duration;

use dupgate_core::worker::OBSERVED;

use super::super::raw::Raw;
use super::super::units::{ByteSize, Span};
use super::Findings;
use crate::fingerprint::PerMille;

/// The shortest time that Kafka's timestamps can distinguish.
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

/// Converts a size, and refuses one that is 0 or that the machine cannot address.
pub(super) fn bytes(path: &str, size: ByteSize, found: &mut Findings) -> usize {
    if size.0 == 0 {
        found.refuse(path, "0B is below the limit of 1B");
    }
    usize::try_from(size.0).unwrap_or_else(|_| {
        found.refuse(path, format!("{size} is more than this machine can address"));
        usize::MAX
    })
}

/// Converts a share that may be absent, as [`per_mille`] does.
pub(super) fn share_of(path: &str, share: Option<f64>, found: &mut Findings) -> Option<PerMille> {
    share.and_then(|share| per_mille(path, share, found))
}

/// Converts a share to thousandths, rounded, and refuses one that is not between 0 and 1.
pub(super) fn per_mille(path: &str, share: f64, found: &mut Findings) -> Option<PerMille> {
    let rounded = PerMille::rounded(share);
    if rounded.is_none() {
        found.refuse(path, format!("{share} is not a similarity (expected 0 to 1)"));
    }
    rounded
}

/// Longest name of a topic that brokers accept, in bytes.
const MAX_TOPIC_NAME: usize = 249;

/// Returns whether the input includes a topic of this name.
pub(super) fn is_read(raw: &Raw, name: &str) -> bool {
    raw.input.topics.iter().any(|topic| {
        if topic.starts_with('^') {
            regex::Regex::new(topic).is_ok_and(|pattern| pattern.is_match(name))
        } else {
            topic == name
        }
    })
}

/// Refuses a name that could be mistaken for one that `mode: observe` derives.
pub(super) fn check_own_name(path: &str, name: &str, found: &mut Findings) {
    check_name(path, name, found);
    if name.ends_with(OBSERVED) {
        found.refuse(
            path,
            format!("`{name}` ends in `{OBSERVED}`, which is added to it by `mode: observe`: leave that part out"),
        );
    }
}

/// Refuses a name that brokers would not accept for a topic (or as part of one).
pub(super) fn check_name(path: &str, name: &str, found: &mut Findings) {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name == "." || name == ".." || !name.chars().all(legal) {
        found.refuse(
            path,
            format!("`{name}` is not a valid name: expected letters, digits, dots, underscores and hyphens"),
        );
    } else if name.len() > MAX_TOPIC_NAME {
        found.refuse(path, format!("a name of {} bytes is above the limit of {MAX_TOPIC_NAME}", name.len()));
    }
}
