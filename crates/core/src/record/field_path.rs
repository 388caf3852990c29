//! Where a field is in a record.

use std::fmt;
use std::str::FromStr;

/// Where one field of a page is read from.
///
/// ```
/// # use dupgate_core::record::FieldPath;
/// let path: FieldPath = "/meta/url".parse()?;
/// assert_eq!(path.to_string(), "/meta/url");
/// assert_eq!("header:site".parse(), Ok(FieldPath::Header("site".to_owned())));
/// assert_eq!("key".parse(), Ok(FieldPath::Key));
/// # Ok::<(), dupgate_core::record::ParseFieldPathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldPath {
    /// A header of a WARC record (`/WARC-Target-URI`), or a JSON pointer (RFC 6901) into the record's value, or into JSON
    /// that a string in it holds (`/message/~json/url`), plain or in base64.
    Pointer(Pointer),
    /// The last header of this name.
    Header(String),
    /// The record's key.
    Key,
}

/// A JSON pointer (RFC 6901), split into its unescaped steps. Without steps, it means the whole value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer(Vec<Step>);

/// One step of a [`Pointer`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The member of this name, or the element at this position.
    Member(String),
    /// The JSON that the string holds, plain or in base64, written `~json`: no name is written so, because `~` must be followed by a digit.
    Json,
}

/// How [`Step::Json`] is written.
const JSON: &str = "~json";

impl Pointer {
    /// The longest pointer, in steps.
    pub(crate) const MAX_STEPS: usize = 64;

    /// Points at one member of the outermost object.
    pub(super) fn of(name: &str) -> Self {
        Self(vec![Step::Member(name.to_owned())])
    }

    /// Returns the name, if the pointer has one step.
    pub(super) fn name(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Step::Member(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns the names (or array positions) to walk, outermost first.
    #[must_use]
    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            Step::Member(name) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Json => write!(f, "/{JSON}"),
        })
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer(pointer) => pointer.fmt(f),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Key => f.write_str("key"),
        }
    }
}

/// Why a text names no field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFieldPathError {
    /// The text has none of the three forms.
    #[error("`{0}` names no field: expected a JSON pointer as in /url, header:<name>, or key")]
    Form(String),
    /// A header without a name.
    #[error("`{0}` is not a header path: expected header:<name>")]
    NamelessHeader(String),
    /// RFC 6901 knows only `~0` and `~1`.
    #[error(
        "`{0}` is no JSON pointer: a ~ must be followed by 0 (for ~) or 1 (for /), except in ~json (JSON in a string)"
    )]
    Escape(String),
    /// Deeper than any real page, and deeper than the JSON reader walks.
    #[error("the JSON pointer has {0} steps, at most {max} are followed", max = Pointer::MAX_STEPS)]
    TooLong(usize),
}

impl FromStr for FieldPath {
    type Err = ParseFieldPathError;

    fn from_str(text: &str) -> Result<Self, ParseFieldPathError> {
        if text == "key" {
            return Ok(Self::Key);
        }
        if let Some(name) = text.strip_prefix("header:") {
            let nameless = name.trim().is_empty();
            return if nameless {
                Err(ParseFieldPathError::NamelessHeader(text.to_owned()))
            } else {
                Ok(Self::Header(name.to_owned()))
            };
        }
        let steps = text.strip_prefix('/').ok_or_else(|| ParseFieldPathError::Form(text.to_owned()))?;
        let count = steps.split('/').count();
        if count > Pointer::MAX_STEPS {
            return Err(ParseFieldPathError::TooLong(count));
        }
        let step = |step: &str| if step == JSON { Some(Step::Json) } else { unescape(step).map(Step::Member) };
        let steps: Option<Vec<Step>> = steps.split('/').map(step).collect();
        steps.map(|steps| Self::Pointer(Pointer(steps))).ok_or_else(|| ParseFieldPathError::Escape(text.to_owned()))
    }
}

fn unescape(step: &str) -> Option<String> {
    let mut parts = step.split('~');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escaped, rest) = match part.as_bytes().first()? {
            b'0' => ('~', part.strip_prefix('0')?),
            b'1' => ('/', part.strip_prefix('1')?),
            _ => return None,
        };
        plain.push(escaped);
        plain.push_str(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_written_as_it_was_read() {
        for text in [
            "/url",
            "/a/b/0",
            "/with~1slash/with~0tilde",
            "/",
            "//",
            "header:X-Site",
            "header:a:b",
            "key",
            "/~json",
            "/a/~json/b/~json",
            "/~0json",
        ] {
            assert_eq!(text.parse::<FieldPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_pointer_is_unescaped_into_its_steps() {
        let Ok(FieldPath::Pointer(pointer)) = "/a~1b/~01/".parse() else { panic!("a pointer") };
        let member = |name: &str| Step::Member(name.to_owned());
        assert_eq!(pointer.steps(), ["a/b", "~1", ""].map(member));
        let Ok(FieldPath::Pointer(pointer)) = "/~json/~0json".parse() else { panic!("a pointer") };
        assert_eq!(pointer.steps(), [Step::Json, member("~json")]);
    }

    #[test]
    fn what_names_no_field_is_refused_with_the_value() {
        for text in [
            "", "url", "Key", "header", "header:", "header: ", "$.url", "/a~", "/a~2", "/~1~", "/~jso", "/a~json",
            "/~json2",
        ] {
            let error = text.parse::<FieldPath>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
        assert!("/a".repeat(64).parse::<FieldPath>().is_ok());
        assert_eq!("/a".repeat(65).parse::<FieldPath>(), Err(ParseFieldPathError::TooLong(65)));
    }
}
