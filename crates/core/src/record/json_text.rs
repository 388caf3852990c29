//! JSON of a value that is not JSON, so that its fields are found like those of any other.
//!
//! [`Wire`] reads what the binary encodings of Avro and Protobuf have in common. Nothing is allocated for a length
//! before the bytes are there.

use std::fmt::{self, Display};

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// How bytes that are no text begin: two tildes, escaped in two ways, as no string is written by anybody. Base64 follows.
const BYTES: &str = r#""\u007e\u007E"#;

/// Why a value cannot be written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It ends early, or holds what cannot be there.
    Damaged {
        /// The names on the way to the place, the innermost first.
        path: Vec<String>,
        why: String,
    },
    /// It is nested too deeply.
    TooDeep,
    /// The JSON would be too long.
    TooLarge,
}

impl Unfit {
    pub(super) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged { path: Vec::new(), why: why.into() }
    }

    /// Adds the name of the member that the place is in.
    pub(super) fn inside(mut self, name: &str) -> Self {
        if let Self::Damaged { path, .. } = &mut self {
            path.push(name.to_owned());
        }
        self
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { path, why } if path.is_empty() => f.write_str(why),
            Self::Damaged { path, why } => {
                f.write_str("`")?;
                path.iter().rev().try_for_each(|name| write!(f, "/{name}"))?;
                write!(f, "`: {why}")
            }
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::TooLarge => f.write_str("too large as JSON"),
        }
    }
}

/// JSON that is being written. Every step writes at least one byte, so the limit ends all work on a value, too.
#[derive(Debug)]
pub(super) struct JsonText {
    text: Vec<u8>,
    limit: usize,
    depth: usize,
    max_depth: usize,
    /// Whether the next value is not the first one in its list or object.
    follows: bool,
}

impl JsonText {
    pub(super) const fn new(limit: usize, max_depth: usize) -> Self {
        Self { text: Vec::new(), limit, depth: 0, max_depth, follows: false }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.text
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        if self.text.len().saturating_add(bytes.len()) > self.limit {
            return Err(Unfit::TooLarge);
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    /// Begins a value of a list, or a member: a comma stands before all but the first one.
    fn next(&mut self) -> Result<(), Unfit> {
        if self.follows { self.put(b",") } else { Ok(()) }
    }

    fn nested(
        &mut self,
        [open, close]: [&[u8]; 2],
        inner: impl FnOnce(&mut Self) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        self.next()?;
        if self.depth >= self.max_depth {
            return Err(Unfit::TooDeep);
        }
        self.depth += 1;
        self.put(open)?;
        self.follows = false;
        inner(self)?;
        self.depth -= 1;
        self.follows = true;
        self.put(close)
    }

    pub(super) fn object(&mut self, inner: impl FnOnce(&mut Self) -> Result<(), Unfit>) -> Result<(), Unfit> {
        self.nested([b"{", b"}"], inner)
    }

    pub(super) fn list(&mut self, inner: impl FnOnce(&mut Self) -> Result<(), Unfit>) -> Result<(), Unfit> {
        self.nested([b"[", b"]"], inner)
    }

    /// Writes a member of an object. `inner` writes its value.
    pub(super) fn member(
        &mut self,
        name: &str,
        inner: impl FnOnce(&mut Self) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        self.string(name)?;
        self.put(b":")?;
        self.follows = false;
        let written = inner(self).map_err(|unfit| unfit.inside(name));
        self.follows = true;
        written
    }

    /// Writes what is JSON itself: a number, a boolean or null.
    pub(super) fn plain(&mut self, value: &str) -> Result<(), Unfit> {
        self.next()?;
        self.follows = true;
        self.put(value.as_bytes())
    }

    /// Writes a number, or null if JSON does not have it.
    pub(super) fn float(&mut self, value: f64) -> Result<(), Unfit> {
        self.plain(&serde_json::Number::from_f64(value).map_or_else(|| "null".to_owned(), |number| number.to_string()))
    }

    pub(super) fn string(&mut self, text: &str) -> Result<(), Unfit> {
        self.next()?;
        self.follows = true;
        if text.len() > self.limit {
            return Err(Unfit::TooLarge);
        }
        let quoted = serde_json::to_vec(text).map_err(|error| Unfit::damaged(error.to_string()))?;
        self.put(&quoted)
    }

    /// Writes bytes: a text in UTF-8 as a string, anything else so that [`bytes`] returns it.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        // The encoding of these may be another one, or is to be recognised.
        let is_plain = |text: &&str| !text.starts_with('\u{feff}') && !text.contains(['\0', '\x1b']);
        if let Some(text) = std::str::from_utf8(bytes).ok().filter(is_plain) {
            return self.string(text);
        }
        self.next()?;
        self.follows = true;
        if bytes.len() > self.limit {
            return Err(Unfit::TooLarge);
        }
        self.put(BYTES.as_bytes())?;
        self.put(BASE64_STANDARD.encode(bytes).as_bytes())?;
        self.put(b"\"")
    }
}

/// Returns the bytes that a JSON string stands for, if [`JsonText::bytes`] has written it as bytes.
pub(super) fn bytes(raw: &str) -> Option<Vec<u8>> {
    let base64 = raw.strip_prefix(BYTES)?.strip_suffix('"')?;
    BASE64_STANDARD.decode(base64).ok()
}

/// What is left to read of a value.
pub(super) struct Wire<'r> {
    pub(super) rest: &'r [u8],
}

impl<'r> Wire<'r> {
    /// Takes bytes, or says that the value ends before.
    pub(super) fn take(&mut self, length: usize) -> Result<&'r [u8], Unfit> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            let left = self.rest.len();
            return Err(Unfit::damaged(format!("{length} bytes should follow, and {left} are left")));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unfit> {
        self.take(N)?.try_into().map_err(|_| Unfit::damaged("the end"))
    }

    /// Reads a number of seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, Unfit> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unfit::damaged("a number has more than ten bytes"))
    }

    /// Reads a number with its sign in the lowest bit.
    pub(super) fn zigzag(&mut self) -> Result<i64, Unfit> {
        self.varint().map(unzigzag)
    }

    /// Takes as many bytes as the value says.
    pub(super) fn take_as_said(&mut self, length: impl TryInto<usize> + Display + Copy) -> Result<&'r [u8], Unfit> {
        let bytes = length.try_into().map_err(|_| Unfit::damaged(format!("a length of {length}")))?;
        self.take(bytes)
    }
}

pub(super) const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Returns the text that these bytes are in UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Unfit> {
    std::str::from_utf8(bytes)
        .map_err(|error| Unfit::damaged(format!("a string is not UTF-8 from its byte {} on", error.valid_up_to())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(limit: usize, write: impl FnOnce(&mut JsonText) -> Result<(), Unfit>) -> Result<String, Unfit> {
        let mut json = JsonText::new(limit, 3);
        write(&mut json)?;
        Ok(String::from_utf8(json.finish()).unwrap())
    }

    #[test]
    fn commas_separate_values_and_members() {
        let text = written(99, |json| {
            json.object(|json| {
                json.member("a", |json| json.list(|json| json.plain("1").and_then(|()| json.string("\"\n"))))?;
                json.member("b", |json| json.object(|_| Ok(())))?;
                json.member("c", |json| json.float(f64::NAN))
            })
        });
        assert_eq!(text.unwrap(), r#"{"a":[1,"\"\n"],"b":{},"c":null}"#);
    }

    #[test]
    fn bytes_come_back_and_texts_are_strings() {
        for (given, is_text) in [
            (&b"a \xe5\xad\x97"[..], true),
            (b"\xff", false),
            (b"\xef\xbb\xbfa", false),
            (b"a\0", false),
            (b"\x1b$B", false),
        ] {
            let raw = written(99, |json| json.bytes(given)).unwrap();
            assert_eq!(bytes(&raw), (!is_text).then(|| given.to_vec()), "{raw}");
            serde_json::from_str::<String>(&raw).unwrap();
        }
        assert_eq!(bytes(r#""~~AAAA""#), None, "a text of the page");
    }

    #[test]
    fn length_and_depth_are_bounded() {
        fn deep(json: &mut JsonText, levels: usize) -> Result<(), Unfit> {
            if levels == 0 { Ok(()) } else { json.list(|json| deep(json, levels - 1)) }
        }
        assert_eq!(written(4, |json| json.string("abc")), Err(Unfit::TooLarge));
        assert_eq!(written(5, |json| json.string("abc")).unwrap(), r#""abc""#);
        assert_eq!(written(20, |json| json.bytes(&[0xff; 6])), Err(Unfit::TooLarge));
        assert_eq!(written(99, |json| deep(json, 3)).unwrap(), "[[[]]]");
        assert_eq!(written(99, |json| deep(json, 4)), Err(Unfit::TooDeep));
    }
}
