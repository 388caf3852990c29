//! What a generated page is, as its header says.

use std::fmt;
use std::str::FromStr;

use dupgate_core::record::Reject;

/// What was done to a page so that its copy is near and not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edit {
    /// Some of the punctuation replaced by other punctuation.
    Punctuation,
    /// 1 to 2 % of the letters wrong.
    Typo,
    /// A line of the re-publisher put before the text.
    HeadLine,
    /// A line of the re-publisher put after the text.
    FootLine,
    /// The line with the time of publication and the number of readers changed.
    TimeLine,
    /// One sentence left out.
    SentenceDeleted,
    /// One sentence added.
    SentenceInserted,
    /// Cut off after 60 to 85 % of the text.
    Truncated,
    /// Chinese in traditional characters, English in capitals.
    Script,
}

impl Edit {
    /// Every kind of edit.
    pub const ALL: [Self; 9] = [
        Self::Punctuation,
        Self::Typo,
        Self::HeadLine,
        Self::FootLine,
        Self::TimeLine,
        Self::SentenceDeleted,
        Self::SentenceInserted,
        Self::Truncated,
        Self::Script,
    ];

    /// Returns the name used in headers and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Punctuation => "punctuation",
            Self::Typo => "typo",
            Self::HeadLine => "head_line",
            Self::FootLine => "foot_line",
            Self::TimeLine => "time_line",
            Self::SentenceDeleted => "sentence_deleted",
            Self::SentenceInserted => "sentence_inserted",
            Self::Truncated => "truncated",
            Self::Script => "script",
        }
    }
}

/// What is wrong with a record that has no readable page in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// A byte that UTF-8 does not know, in the middle of the text.
    InvalidUtf8,
    /// Cut off in the middle.
    TruncatedJson,
    /// Neither `text` nor `html`.
    MissingField,
    /// A list of numbers where the text should be.
    WrongType,
    /// A text of white space.
    EmptyText,
    /// A thousand lists, one inside the other, beside the text.
    DeepNesting,
}

impl Damage {
    /// Every kind of damage.
    pub const ALL: [Self; 6] = [
        Self::InvalidUtf8,
        Self::TruncatedJson,
        Self::MissingField,
        Self::WrongType,
        Self::EmptyText,
        Self::DeepNesting,
    ];

    /// Returns the name used in headers and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::TruncatedJson => "truncated_json",
            Self::MissingField => "missing_field",
            Self::WrongType => "wrong_type",
            Self::EmptyText => "empty_text",
            Self::DeepNesting => "deep_nesting",
        }
    }

    /// Returns the reason that the dead letter of such a record must carry.
    #[must_use]
    pub const fn reason(self) -> Reject {
        match self {
            Self::InvalidUtf8 | Self::TruncatedJson => Reject::Undecodable,
            Self::MissingField => Reject::MissingField,
            Self::WrongType => Reject::WrongType,
            Self::EmptyText => Reject::NoText,
            Self::DeepNesting => Reject::TooDeep,
        }
    }
}

/// What a page is: the value of the header [`Truth::HEADER`], written `unique`, `exact:URL`, `near:EDIT:URL` or
/// `broken:DAMAGE`.
///
/// The URL is the key of an earlier page that is itself unique: a copy of a copy does not exist, so it names the
/// root of its family.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// Like no page before it.
    Unique,
    /// The text of another page, on another site.
    Exact {
        /// Key of the page with the same text.
        original: String,
    },
    /// The text of another page, edited.
    Near {
        /// What was done to it.
        edit: Edit,
        /// Key of the page as it was.
        original: String,
    },
    /// No page can be read here.
    Broken {
        /// Why not.
        damage: Damage,
    },
}

impl Truth {
    /// Name of the header that carries the truth.
    pub const HEADER: &'static str = "demo.truth";

    /// Returns the key of the page that this one is a copy of.
    #[must_use]
    pub fn original(&self) -> Option<&str> {
        match self {
            Self::Exact { original } | Self::Near { original, .. } => Some(original),
            Self::Unique | Self::Broken { .. } => None,
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unique => f.write_str("unique"),
            Self::Exact { original } => write!(f, "exact:{original}"),
            Self::Near { edit, original } => write!(f, "near:{}:{original}", edit.name()),
            Self::Broken { damage } => write!(f, "broken:{}", damage.name()),
        }
    }
}

/// A header that tells no truth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a ground truth: expected unique, exact:URL, near:EDIT:URL or broken:DAMAGE")]
pub struct NoTruth(String);

impl FromStr for Truth {
    type Err = NoTruth;

    fn from_str(text: &str) -> Result<Self, NoTruth> {
        let refuse = || NoTruth(text.to_owned());
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("unique", "") if text == kind => Ok(Self::Unique),
            ("exact", original) if !original.is_empty() => Ok(Self::Exact { original: original.to_owned() }),
            ("near", rest) => {
                let (name, original) = rest.split_once(':').ok_or_else(refuse)?;
                let edit = Edit::ALL.into_iter().find(|edit| edit.name() == name).ok_or_else(refuse)?;
                if original.is_empty() { Err(refuse()) } else { Ok(Self::Near { edit, original: original.to_owned() }) }
            }
            ("broken", name) => {
                let damage = Damage::ALL.into_iter().find(|damage| damage.name() == name).ok_or_else(refuse)?;
                Ok(Self::Broken { damage })
            }
            _ => Err(refuse()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_truth_is_read_back_as_it_was_written() {
        let original = || "https://a.example/p/1".to_owned();
        let near = Edit::ALL.into_iter().map(|edit| Truth::Near { edit, original: original() });
        let broken = Damage::ALL.into_iter().map(|damage| Truth::Broken { damage });
        let plain = [Truth::Unique, Truth::Exact { original: original() }];
        for truth in plain.into_iter().chain(near).chain(broken) {
            assert_eq!(truth.to_string().parse(), Ok(truth));
        }
    }

    #[test]
    fn what_is_no_truth_is_refused() {
        for text in ["", "uniq", "unique:", "exact", "exact:", "near:typo", "near:typo:", "near:love:u", "broken:heart"]
        {
            assert_eq!(text.parse::<Truth>(), Err(NoTruth(text.to_owned())), "{text}");
        }
    }
}
