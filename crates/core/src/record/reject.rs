//! A page without a verdict, and the closed list of reasons why.

use std::fmt;

/// Why a page ends in the dead letter topic. The name is the metric label and the header value.
///
/// Reasons that are a function of the page and the scheme alone ([`Reject::is_determined_by_page`]) need no judge. For
/// any other page, a request may already have been sent, by this worker or a predecessor. So it leaves only by a
/// `withdraw` that the judge has answered (law L8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reject {
    /// Not the configured format: invalid UTF-8, truncated or malformed JSON.
    Undecodable = 1,
    /// A field holds another type than the configuration says.
    WrongType = 2,
    /// None of the fields that may hold the text is there.
    MissingField = 3,
    /// There is a text field, but no text is left in it.
    NoText = 4,
    /// JSON nested deeper than the limit.
    TooDeep = 5,
    /// Larger than `input.max_document`.
    TooLarge = 6,
    /// Larger, with all headers, than an output topic accepts.
    TooLargeForOutput = 7,
    /// Processing the text panicked.
    TextPanic = 8,
    /// Processing the text exceeded its time limit.
    TextTimeout = 9,
    /// The broker refused the record for a reason that will not go away.
    Refused = 10,
    /// The broker refused the record's timestamp.
    TimestampRefused = 11,
    /// The input no longer holds the record.
    Gone = 12,
}

impl Reject {
    /// What headers, metrics and reports name in place of a verdict.
    pub const DEAD_LETTER: &'static str = "dead_letter";

    /// Every reason, in the order of its number.
    pub const ALL: [Self; 12] = [
        Self::Undecodable,
        Self::WrongType,
        Self::MissingField,
        Self::NoText,
        Self::TooDeep,
        Self::TooLarge,
        Self::TooLargeForOutput,
        Self::TextPanic,
        Self::TextTimeout,
        Self::Refused,
        Self::TimestampRefused,
        Self::Gone,
    ];

    /// Returns the number used in the verdict log.
    #[must_use]
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// Finds the reason with this number.
    #[must_use]
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// Returns the name used in headers and metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::WrongType => "wrong_type",
            Self::MissingField => "missing_field",
            Self::NoText => "no_text",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::TooLargeForOutput => "too_large_for_output",
            Self::TextPanic => "text_panic",
            Self::TextTimeout => "text_timeout",
            Self::Refused => "refused",
            Self::TimestampRefused => "timestamp_rejected",
            Self::Gone => "gone",
        }
    }

    /// Returns the step that failed: `decode`, `extract` or `produce`.
    #[must_use]
    pub const fn stage(self) -> &'static str {
        match self {
            Self::Undecodable | Self::WrongType | Self::MissingField | Self::TooDeep | Self::TooLarge | Self::Gone => {
                "decode"
            }
            Self::NoText | Self::TextPanic | Self::TextTimeout => "extract",
            Self::TooLargeForOutput | Self::Refused | Self::TimestampRefused => "produce",
        }
    }

    /// Returns whether page and scheme alone decide: every worker, at any time, finds the same reason.
    #[must_use]
    pub const fn is_determined_by_page(self) -> bool {
        match self {
            Self::Undecodable
            | Self::WrongType
            | Self::MissingField
            | Self::NoText
            | Self::TooDeep
            | Self::TooLarge => true,
            Self::TooLargeForOutput
            | Self::TextPanic
            | Self::TextTimeout
            | Self::Refused
            | Self::TimestampRefused
            | Self::Gone => false,
        }
    }
}

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
    pub(crate) const MAX_MESSAGE: usize = 1024;

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
