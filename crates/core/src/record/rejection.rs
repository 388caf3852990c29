//! A page without a verdict, and why.

use super::Reject;
use std::fmt;

/// Why one page is refused, with a sentence for the dead letter.
///
/// The message is one line of at most [`Rejection::MAX_MESSAGE`] bytes. It names fields, places and limits, and
/// never holds text of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    reason: Reject,
    message: String,
    is_for_now: bool,
}

impl Rejection {
    /// The longest message, in bytes.
    pub const MAX_MESSAGE: usize = 1024;

    /// Refuses a page. Line breaks and control characters become spaces; a message that is too long is cut.
    #[must_use]
    pub fn new(reason: Reject, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        message.truncate(message.floor_char_boundary(Self::MAX_MESSAGE));
        let unsafe_char = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if message.contains(unsafe_char) {
            // One byte for one character: the message does not grow.
            message = message.replace(unsafe_char, " ");
        }
        Self { reason, message, is_for_now: false }
    }

    /// Refuses a value for its length in bytes: at most `limit` are read.
    #[must_use]
    pub fn too_large(what: &str, bytes: u64, limit: usize) -> Self {
        let message = format!("{what} has {bytes} bytes, at most {limit} are read (input.max_document)");
        Self::new(Reject::TooLarge, message)
    }

    /// Marks a refusal that another worker, or the same one at another time, might not find.
    #[must_use]
    pub(super) fn for_now(self) -> Self {
        Self { is_for_now: true, ..self }
    }

    /// Returns whether the page might not be refused at another time: then its verdict may have been requested before, and
    /// it leaves only by a `withdraw` that the judge has answered (law L8), whatever the reason says.
    #[must_use]
    pub const fn is_for_now(&self) -> bool {
        self.is_for_now
    }

    /// Returns the reason, from the closed list.
    #[must_use]
    pub const fn reason(&self) -> Reject {
        self.reason
    }

    /// Returns the sentence for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.message)
    }
}

impl std::error::Error for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_at_most_a_kibibyte() {
        let rejection = Rejection::new(Reject::Undecodable, format!("a\nb\u{2028}{}", "字".repeat(1000)));
        assert!(rejection.message().len() <= Rejection::MAX_MESSAGE);
        assert!(rejection.message().starts_with("a b 字字"), "{}", rejection.message());
        assert_eq!(rejection.message().lines().count(), 1);
    }
}
