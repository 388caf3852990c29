//! Reads the wanted members of a JSON text and skips the rest, without a tree.
//!
//! What common writers of JSON write although no standard has it is read, too: `NaN` and `Infinity` count as null, and
//! half a surrogate pair as U+FFFD. Only a text that the library refuses is searched for these.

use super::coding::from_base64;
use super::field_path::Step;
use super::{FieldPath, Reject, Rejection};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The fields of a page, in the order of [`Found`].
pub(super) const FIELDS: usize = 7;

/// What was found in a JSON text.
#[derive(Clone, Debug, Default)]
pub(super) struct Found<'r> {
    /// The value at each wanted place, still as JSON text. If a name occurs twice, the last value counts.
    pub(super) values: [Option<Cow<'r, str>>; FIELDS],
    /// Why a string that should hold JSON cannot be read.
    pub(super) refused: Option<Rejection>,
}

impl<'r> Found<'r> {
    fn put(&mut self, field: usize, value: Option<Cow<'r, str>>) {
        if let Some(place) = self.values.get_mut(field) {
            *place = value;
        }
    }

    fn into_owned<'o>(self) -> Found<'o> {
        let values = self.values.map(|value| value.map(|value| Cow::Owned(value.into_owned())));
        Found { values, refused: self.refused }
    }
}

/// The wanted places, as a tree of names.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    children: Vec<Child>,
    fields: Vec<usize>,
    inside: Option<Box<Inside>>,
}

/// The wanted places in the JSON that a string holds.
#[derive(Clone, Debug)]
struct Inside {
    /// The string's own path.
    path: String,
    max_nesting: usize,
    wanted: Wanted,
}

/// A wanted member of an object, or element of an array.
#[derive(Clone, Debug)]
struct Child {
    name: String,
    /// Which element it is, if the name can be one: a decimal number without leading zeros (RFC 6901).
    element: Option<usize>,
    node: Wanted,
}

impl Child {
    fn new(name: &str) -> Self {
        let element = name.parse().ok().filter(|number: &usize| number.to_string() == name);
        Self { name: name.to_owned(), element, node: Wanted::default() }
    }
}

impl Wanted {
    /// Adds the place of a field, if its path points into the value. JSON in strings is read up to `max_nesting` levels.
    pub(super) fn add(&mut self, field: usize, path: Option<&FieldPath>, max_nesting: usize) {
        let Some(FieldPath::Pointer(pointer)) = path else { return };
        let mut node = self;
        let mut above = String::new();
        for step in pointer.steps() {
            let Step::Member(step) = step else {
                let new = || Box::new(Inside { path: above.clone(), max_nesting, wanted: Self::default() });
                node = &mut node.inside.get_or_insert_with(new).wanted;
                above.push_str("/~json");
                continue;
            };
            above.push('/');
            above.push_str(step);
            let known = node.children.iter().position(|child| child.name == *step);
            let at = known.unwrap_or_else(|| {
                node.children.push(Child::new(step));
                node.children.len() - 1
            });
            let Some(child) = node.children.get_mut(at) else { return };
            node = &mut child.node;
        }
        node.fields.push(field);
    }

    /// Returns whether only members of the value are wanted.
    fn is_passed(&self) -> bool {
        self.fields.is_empty() && self.inside.is_none()
    }

    /// Walks a whole JSON text once. Deep nesting costs no stack: what is not wanted is skipped in a loop.
    pub(super) fn find<'r>(&self, json: &'r str) -> Result<Found<'r>, serde_json::Error> {
        self.find_strictly(json).or_else(|error| {
            let Some(repaired) = repaired(json) else { return Err(error) };
            self.find_strictly(&repaired).map(Found::into_owned).map_err(|_| error)
        })
    }

    fn find_strictly<'r>(&self, json: &'r str) -> Result<Found<'r>, serde_json::Error> {
        let mut found = Found::default();
        let mut deserializer = serde_json::Deserializer::from_str(json);
        if self.is_passed() {
            Walk { node: self, found: &mut found }.deserialize(&mut deserializer)?;
            deserializer.end()?;
        } else {
            let raw: &RawValue = serde::Deserialize::deserialize(&mut deserializer)?;
            deserializer.end()?;
            self.take(raw.get(), &mut found)?;
        }
        Ok(found)
    }

    /// Finds what is wanted of one value, and the value itself.
    fn take<'r>(&self, raw: &'r str, found: &mut Found<'r>) -> Result<(), serde_json::Error> {
        self.fields.iter().for_each(|field| found.put(*field, Some(Cow::Borrowed(raw))));
        if !self.children.is_empty() {
            let mut inner = serde_json::Deserializer::from_str(raw);
            Walk { node: self, found }.deserialize(&mut inner)?;
        }
        self.inside.as_ref().map_or(Ok(()), |inside| inside.find(raw, found))
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name).map(|child| &child.node)
    }

    fn forget(&self, found: &mut Found<'_>) {
        self.fields.iter().for_each(|field| found.put(*field, None));
        self.children.iter().for_each(|child| child.node.forget(found));
        if let Some(inside) = &self.inside {
            inside.wanted.forget(found);
        }
    }
}

impl Inside {
    /// Reads the JSON in a string, plain or in base64. An object or a list is read as it is, and a blank string or null
    /// holds nothing.
    fn find<'r>(&self, raw: &'r str, found: &mut Found<'r>) -> Result<(), serde_json::Error> {
        if raw.starts_with(['{', '[']) {
            return self.wanted.take(raw, found);
        }
        if !raw.starts_with('"') {
            return Ok(());
        }
        let refuse =
            |reason, what: &str| Some(Rejection::new(reason, format!("the string `{}` holds {what}", self.path)));
        let Ok(text) = leniently(raw) else {
            found.refused = refuse(Reject::Undecodable, "a malformed escape");
            return Ok(());
        };
        if text.trim().is_empty() {
            return Ok(());
        }
        let text = json_in_base64(&text).map_or(text, Cow::Owned);
        if nesting(text.as_bytes(), self.max_nesting) > self.max_nesting {
            found.refused = refuse(Reject::TooDeep, &format!("JSON nested deeper than {} levels", self.max_nesting));
            return Ok(());
        }
        match self.wanted.find(&text) {
            Ok(inner) => {
                let inner = inner.into_owned();
                for (field, value) in inner.values.into_iter().enumerate().filter(|(_, value)| value.is_some()) {
                    found.put(field, value);
                }
                found.refused = found.refused.take().or(inner.refused);
            }
            Err(_) => found.refused = refuse(Reject::Undecodable, "no JSON, or malformed JSON"),
        }
        Ok(())
    }
}

/// Returns the object or the list that is written in base64. No text is both: base64 has no brackets.
fn json_in_base64(text: &str) -> Option<String> {
    if text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    String::from_utf8(from_base64(text.as_bytes())?).ok().filter(|json| json.trim_start().starts_with(['{', '[']))
}

struct Walk<'w, 'f, 'r> {
    node: &'w Wanted,
    found: &'f mut Found<'r>,
}

/// Reads the member that `child` represents.
fn enter<'r, E, F>(child: &Wanted, found: &mut Found<'r>, next: F) -> Result<(), E>
where
    E: serde::de::Error,
    F: FnOnce(Next<'_, '_, 'r>) -> Result<Option<&'r RawValue>, E>,
{
    child.forget(found);
    if child.is_passed() {
        return next(Next::Walk(Walk { node: child, found })).map(drop);
    }
    let Some(raw) = next(Next::Take)? else { return Ok(()) };
    child.take(raw.get(), found).map_err(E::custom)
}

enum Next<'w, 'f, 'r> {
    Walk(Walk<'w, 'f, 'r>),
    Take,
}

impl<'r> DeserializeSeed<'r> for Walk<'_, '_, 'r> {
    type Value = ();

    fn deserialize<D: Deserializer<'r>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'r> Visitor<'r> for Walk<'_, '_, 'r> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'r>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(Name(self.node))? {
            match child {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(child) => enter(child, self.found, |next| match next {
                    Next::Walk(walk) => map.next_value_seed(walk).map(|()| None),
                    Next::Take => map.next_value::<&RawValue>().map(Some),
                })?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'r>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut element = 0_usize;
        loop {
            let child = self.node.children.iter().find(|child| child.element == Some(element));
            let ended = match child.map(|child| &child.node) {
                None => seq.next_element::<IgnoredAny>()?.is_none(),
                Some(child) => {
                    let mut ended = false;
                    enter(child, self.found, |next| match next {
                        Next::Walk(walk) => {
                            ended = seq.next_element_seed(walk)?.is_none();
                            Ok(None)
                        }
                        Next::Take => {
                            let raw = seq.next_element::<&RawValue>()?;
                            ended = raw.is_none();
                            Ok(raw)
                        }
                    })?;
                    ended
                }
            };
            if ended {
                return Ok(());
            }
            element += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Finds the wanted member with a name, without keeping the name.
struct Name<'w>(&'w Wanted);

impl<'r, 'w> DeserializeSeed<'r> for Name<'w> {
    type Value = Option<&'w Wanted>;

    fn deserialize<D: Deserializer<'r>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for Name<'w> {
    type Value = Option<&'w Wanted>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.child(name))
    }
}

/// Decodes a JSON string; borrows when it holds no escape.
pub(super) fn string<'r>(raw: &Cow<'r, str>) -> Result<Cow<'r, str>, serde_json::Error> {
    match raw {
        Cow::Borrowed(raw) => leniently(raw),
        Cow::Owned(raw) => leniently(raw).map(|text| Cow::Owned(text.into_owned())),
    }
}

fn leniently(raw: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    if let Some(text) = unescaped(raw) {
        return Ok(Cow::Owned(text));
    }
    strictly(raw).or_else(|error| {
        let Some(repaired) = repaired(raw) else { return Err(error) };
        strictly(&repaired).map(|text| Cow::Owned(text.into_owned())).map_err(|_| error)
    })
}

/// Decodes a JSON string with escapes of whole characters, in one allocation: the library grows a buffer and copies the
/// text out of it. `None` for all other strings.
fn unescaped(raw: &str) -> Option<String> {
    let mut rest = raw.strip_prefix('"')?.strip_suffix('"').filter(|text| text.contains('\\'))?;
    let mut text = String::with_capacity(rest.len());
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        text.push_str(before);
        let (c, length) = match escape.as_bytes().get(1)? {
            b'"' => ('"', 2),
            b'\\' => ('\\', 2),
            b'/' => ('/', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'n' => ('\n', 2),
            b'r' => ('\r', 2),
            b't' => ('\t', 2),
            b'u' => (char::from_u32(utf16_unit(escape.as_bytes(), 0)?.into())?, 6),
            _ => return None,
        };
        text.push(c);
        rest = escape.get(length..)?;
    }
    text.push_str(rest);
    Some(text)
}

fn strictly(raw: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    struct Text;
    impl<'r> Visitor<'r> for Text {
        type Value = Cow<'r, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_borrowed_str<E>(self, text: &'r str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    }
    serde_json::Deserializer::from_str(raw).deserialize_str(Text)
}

/// Splits a list into its elements; `None` for any other value.
pub(super) fn elements<'r>(raw: &Cow<'r, str>) -> Option<Vec<Cow<'r, str>>> {
    fn list(raw: &str) -> Option<Vec<&RawValue>> {
        Some(raw).filter(|raw| raw.starts_with('[')).and_then(|raw| serde_json::from_str(raw).ok())
    }
    Some(match raw {
        Cow::Borrowed(raw) => list(raw)?.into_iter().map(|element| Cow::Borrowed(element.get())).collect(),
        Cow::Owned(raw) => list(raw)?.into_iter().map(|element| Cow::Owned(element.get().to_owned())).collect(),
    })
}

/// Numbers that JSON does not have. Python writes them, and pandas for every missing value.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Returns the text with null for each of [`NO_NUMBERS`], and with the escape of U+FFFD for each escape of half a
/// surrogate pair (half an emoji: writers that count in UTF-16 cut texts there). `None` if it has neither.
fn repaired(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let (mut fixed, mut copied, mut at) = (String::new(), 0, 0);
    let (mut in_string, mut may_begin) = (false, true);
    while let Some(byte) = bytes.get(at) {
        let (length, instead) = match byte {
            b'"' => {
                (in_string, may_begin) = (!in_string, false);
                (1, None)
            }
            b'\\' if in_string => match utf16_unit(bytes, at) {
                Some(0xd800..=0xdbff) if matches!(utf16_unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => (12, None),
                Some(0xd800..=0xdfff) => (6, Some("\\ufffd")),
                _ => (2, None),
            },
            _ if in_string => (1, None),
            b':' | b',' | b'[' => {
                may_begin = true;
                (1, None)
            }
            b' ' | b'\t' | b'\r' | b'\n' => (1, None),
            _ => {
                let word = NO_NUMBERS
                    .iter()
                    .find(|word| bytes.get(at..).is_some_and(|rest| rest.starts_with(word.as_bytes())));
                let word = word.filter(|_| may_begin);
                may_begin = false;
                word.map_or((1, None), |word| (word.len(), Some("null")))
            }
        };
        if let Some(instead) = instead {
            fixed.push_str(json.get(copied..at)?);
            fixed.push_str(instead);
            copied = at + length;
        }
        at += length;
    }
    fixed.push_str(json.get(copied..)?);
    (copied > 0).then_some(fixed)
}

/// Returns the number in the escape `\uXXXX` at a place.
fn utf16_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the deepest nesting of arrays and objects, counted in one pass over the bytes; stops above `limit`.
///
/// The text need not be valid JSON: brackets in strings are skipped, all others count.
pub(super) fn nesting(json: &[u8], limit: usize) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > limit {
                    break;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}
