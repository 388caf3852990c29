//! Checks the names of topics and groups: whether brokers accept them, and whether they are in use.

use dupgate_core::worker::OBSERVED;

use super::super::raw::Raw;
use super::Findings;

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
