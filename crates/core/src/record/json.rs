//! Reads the wanted members of a JSON text and skips the rest, without a tree.

use super::FieldPath;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The fields of a page, in the order of [`Found`].
pub(super) const FIELDS: usize = 7;

/// The value at each wanted place, still as JSON text. If a name occurs twice, the last value counts.
pub(super) type Found<'r> = [Option<&'r RawValue>; FIELDS];

/// The wanted places, as a tree of names.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    children: Vec<Child>,
    fields: Vec<usize>,
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
    /// Adds the place of a field, if its path points into the value.
    pub(super) fn add(&mut self, field: usize, path: Option<&FieldPath>) {
        let Some(FieldPath::Pointer(pointer)) = path else { return };
        let mut node = self;
        for step in pointer.steps() {
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

    /// Returns whether nothing in the value is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Walks a whole JSON text once. Deep nesting costs no stack: what is not wanted is skipped in a loop.
    pub(super) fn find<'r>(&self, json: &'r str) -> Result<Found<'r>, serde_json::Error> {
        let mut found = Found::default();
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Walk { node: self, found: &mut found }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found)
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name).map(|child| &child.node)
    }

    fn forget(&self, found: &mut Found<'_>) {
        for field in &self.fields {
            if let Some(place) = found.get_mut(*field) {
                *place = None;
            }
        }
        self.children.iter().for_each(|child| child.node.forget(found));
    }
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
    if child.fields.is_empty() {
        return next(Next::Walk(Walk { node: child, found })).map(drop);
    }
    let Some(raw) = next(Next::Take)? else { return Ok(()) };
    for field in &child.fields {
        if let Some(place) = found.get_mut(*field) {
            *place = Some(raw);
        }
    }
    if !child.is_empty() {
        let mut inner = serde_json::Deserializer::from_str(raw.get());
        Walk { node: child, found }.deserialize(&mut inner).map_err(E::custom)?;
    }
    Ok(())
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
pub(super) fn string(raw: &RawValue) -> Result<Cow<'_, str>, serde_json::Error> {
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
    serde_json::Deserializer::from_str(raw.get()).deserialize_str(Text)
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
