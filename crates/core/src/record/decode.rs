//! Bytes of one record -> a document.

use super::encoding::{self, Encoding};
use super::json::{self, Wanted};
use super::{EventTime, FieldPath, Format, InputSettings, RawRecord, Reject, Rejection, Timestamp};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What one record says about its page. Borrows from the record wherever the bytes allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document<'r> {
    /// The page's own id, never blank.
    pub id: Option<Cow<'r, str>>,
    /// Its web address, if that has a field of its own; otherwise, the id may be one.
    pub address: Option<Cow<'r, str>>,
    /// The address that the record gives for all its variants.
    pub canonical: Option<Cow<'r, str>>,
    /// What the page was encoded in.
    pub encoding: Encoding,
    /// The page.
    pub body: Body<'r>,
    /// The page's scope.
    pub scope: Option<Cow<'r, str>>,
    /// Event time, if it is read from a field and the record has that field; otherwise, the record's timestamp counts.
    /// It may be absurd: the brokers' clock bounds it later.
    pub fetched_at: Option<Timestamp>,
}

/// The text of a page, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'r> {
    /// Ready text.
    Text(Cow<'r, str>),
    /// An HTML page.
    Html(Cow<'r, str>),
}

/// Why input settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputSettingsError {
    /// No field can hold the text.
    #[error("input.fields names neither text nor html: one of them is needed when input.format is json")]
    NoTextField,
    /// Event time is to come from a field, but no field is named.
    #[error("window.timestamp_source is field, but input.fields.fetched_at is not set")]
    NoTimeField,
    /// A pointer needs JSON to point into.
    #[error("input.fields.{field} is the JSON pointer {path}, but input.format is not json")]
    PointerWithoutJson {
        /// The field.
        field: &'static str,
        /// Its path.
        path: String,
    },
}

const ID: usize = 0;
const SCOPE: usize = 1;
const TIME: usize = 2;
const TEXT: usize = 3;
const HTML: usize = 4;
const ADDRESS: usize = 5;
const CANONICAL: usize = 6;

/// Decodes records with preprocessed settings.
#[derive(Clone, Debug)]
pub struct Decoder {
    settings: InputSettings,
    max_nesting: usize,
    wanted: Wanted,
    wanted_for_scope: Wanted,
}

impl Decoder {
    /// Prepares decoding. JSON nested deeper than `max_nesting` levels is refused.
    ///
    /// # Errors
    ///
    /// [`InputSettingsError`] when the settings contradict each other.
    pub fn new(settings: &InputSettings, max_nesting: usize) -> Result<Self, InputSettingsError> {
        let fields = &settings.fields;
        let time = Some(&fields.fetched_at).filter(|_| settings.event_time == EventTime::Field);
        if time.is_some_and(Option::is_none) {
            return Err(InputSettingsError::NoTimeField);
        }
        let time = time.and_then(Option::as_ref);
        let (mut wanted, mut wanted_for_scope) = (Wanted::default(), Wanted::default());
        if settings.format == Format::Json {
            if fields.text.is_none() && fields.html.is_none() {
                return Err(InputSettingsError::NoTextField);
            }
            wanted_for_scope.add(SCOPE, fields.scope.as_ref());
            wanted.add(ID, fields.id.as_ref());
            wanted.add(SCOPE, fields.scope.as_ref());
            wanted.add(TIME, time);
            wanted.add(TEXT, fields.text.as_ref());
            wanted.add(HTML, fields.html.as_ref());
            wanted.add(ADDRESS, fields.address.as_ref());
            wanted.add(CANONICAL, fields.canonical.as_ref());
        } else {
            let scope = ("scope", fields.scope.as_ref());
            let (address, canonical) = (("address", fields.address.as_ref()), ("canonical", fields.canonical.as_ref()));
            for (field, path) in [scope, address, canonical, ("fetched_at", time)] {
                if let Some(path @ FieldPath::Pointer(_)) = path {
                    return Err(InputSettingsError::PointerWithoutJson { field, path: path.to_string() });
                }
            }
        }
        Ok(Self { settings: settings.clone(), max_nesting, wanted, wanted_for_scope })
    }

    /// Finds the document in a record.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] for a reason that is a function of the page and the settings alone.
    pub fn decode<'r>(&self, record: &RawRecord<'r>) -> Result<Document<'r>, Rejection> {
        let bytes = self.bytes(record)?;
        let fields = &self.settings.fields;
        let json = self.settings.format == Format::Json;
        let found = if json { self.find(&self.wanted, utf8(bytes, "the value")?)? } else { json::Found::default() };
        let found = Values { record, found };
        let time = fields.fetched_at.as_ref().filter(|_| self.settings.event_time == EventTime::Field);
        let fetched_at = found.get(TIME, time)?.map(|value| value.timestamp()).transpose()?;
        let name = |field, path| found.get(field, path)?.map(|value: Value<'_, 'r>| value.name()).transpose();
        // Pages with a blank id are not the same page.
        let id = name(ID, fields.id.as_ref())?.filter(|id| !id.trim().is_empty());
        let scope = name(SCOPE, fields.scope.as_ref())?;
        let address = name(ADDRESS, fields.address.as_ref())?;
        let canonical = name(CANONICAL, fields.canonical.as_ref())?;
        let mut encoding = Encoding::Utf8;
        let mut decoded = || {
            let content_type = fields.content_type.as_deref().and_then(|name| record.headers.last(name));
            let content_type = content_type.and_then(|value| std::str::from_utf8(value).ok());
            let (text, found) = encoding::decode(bytes, content_type)?;
            encoding = found;
            Ok::<_, Rejection>(text)
        };
        let body = match self.settings.format {
            Format::Text => Body::Text(decoded()?),
            Format::Html => Body::Html(decoded()?),
            Format::Json => {
                let text = found.get(TEXT, fields.text.as_ref())?.map(|text| text.text()).transpose()?;
                let is_blank = text.as_ref().is_none_or(|text| text.trim().is_empty());
                let html = if is_blank { found.get(HTML, fields.html.as_ref())? } else { None };
                match (text, html) {
                    (_, Some(html)) => Body::Html(html.text()?),
                    (Some(text), None) => Body::Text(text),
                    (None, None) => {
                        let named = [&fields.text, &fields.html];
                        let named: Vec<String> = named.into_iter().flatten().map(|path| format!("`{path}`")).collect();
                        return Err(Rejection::new(Reject::MissingField, format!("no {}", named.join(" and no "))));
                    }
                }
            }
        };
        Ok(Document { id, address, canonical, encoding, body, scope, fetched_at })
    }

    /// Reads only the scope. It determines the partition of a page whose text could not be processed.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode`], if the scope cannot be read.
    pub fn scope<'r>(&self, record: &RawRecord<'r>) -> Result<Option<Cow<'r, str>>, Rejection> {
        let Some(path) = &self.settings.fields.scope else { return Ok(None) };
        let found = match path {
            FieldPath::Pointer(_) => self.find(&self.wanted_for_scope, utf8(self.bytes(record)?, "the value")?)?,
            FieldPath::Header(_) | FieldPath::Key => json::Found::default(),
        };
        Values { record, found }.get(SCOPE, Some(path))?.map(|value| value.name()).transpose()
    }

    fn bytes<'r>(&self, record: &RawRecord<'r>) -> Result<&'r [u8], Rejection> {
        let value = record.value.ok_or_else(|| Rejection::new(Reject::MissingField, "the record has no value"))?;
        let limit = self.settings.max_document;
        if value.len() > limit {
            let message = format!("the value has {} bytes, at most {limit} are read", value.len());
            return Err(Rejection::new(Reject::TooLarge, message));
        }
        Ok(value)
    }

    fn find<'r>(&self, wanted: &Wanted, value: &'r str) -> Result<json::Found<'r>, Rejection> {
        if json::nesting(value.as_bytes(), self.max_nesting) > self.max_nesting {
            let message = format!("JSON is nested deeper than {} levels", self.max_nesting);
            return Err(Rejection::new(Reject::TooDeep, message));
        }
        // The library's own message may quote the document, so only the position is reported.
        wanted.find(value).map_err(|error| {
            let what = if error.is_eof() { "truncated" } else { "malformed" };
            let message = format!("{what} JSON at line {} column {}", error.line(), error.column());
            Rejection::new(Reject::Undecodable, message)
        })
    }
}

fn utf8<'r>(bytes: &'r [u8], what: &str) -> Result<&'r str, Rejection> {
    std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("{what} is not UTF-8 from byte {} on", error.valid_up_to());
        Rejection::new(Reject::Undecodable, message)
    })
}

struct Values<'v, 'r> {
    record: &'v RawRecord<'r>,
    found: json::Found<'r>,
}

struct Value<'v, 'r> {
    path: &'v FieldPath,
    content: Content<'r>,
}

enum Content<'r> {
    Json(&'r RawValue),
    Text(&'r str),
}

impl<'r> Values<'_, 'r> {
    /// Returns the value at a field's path, if there is one. A JSON null counts as absent.
    fn get<'v>(&self, field: usize, path: Option<&'v FieldPath>) -> Result<Option<Value<'v, 'r>>, Rejection> {
        let Some(path) = path else { return Ok(None) };
        let record: &RawRecord<'r> = self.record;
        let content = match path {
            FieldPath::Pointer(_) => {
                self.found.get(field).copied().flatten().filter(|raw| raw.get() != "null").map(Content::Json)
            }
            FieldPath::Header(name) => {
                record.headers.last(name).map(|bytes| utf8(bytes, &format!("`{path}`"))).transpose()?.map(Content::Text)
            }
            FieldPath::Key => record.key.map(|bytes| utf8(bytes, "the key")).transpose()?.map(Content::Text),
        };
        Ok(content.map(|content| Value { path, content }))
    }
}

impl<'r> Value<'_, 'r> {
    /// Reads a text.
    fn text(&self) -> Result<Cow<'r, str>, Rejection> {
        match self.content {
            Content::Text(text) => Ok(Cow::Borrowed(text)),
            Content::Json(raw) if raw.get().starts_with('"') => self.string(raw),
            Content::Json(_) => Err(self.wrong_type("a string")),
        }
    }

    /// Reads a name: a text, or a number or boolean as it is written.
    fn name(&self) -> Result<Cow<'r, str>, Rejection> {
        match self.content {
            Content::Text(text) => Ok(Cow::Borrowed(text)),
            Content::Json(raw) => match raw.get().as_bytes().first() {
                Some(b'"') => self.string(raw),
                Some(b'{' | b'[') | None => Err(self.wrong_type("a string or a number")),
                Some(_) => Ok(Cow::Borrowed(raw.get())),
            },
        }
    }

    /// Reads a time: whole milliseconds since 1970, or RFC 3339. The unit of a number is never guessed.
    fn timestamp(&self) -> Result<Timestamp, Rejection> {
        const EXPECTED: &str = "whole milliseconds since 1970 or an RFC 3339 time";
        let text = match self.content {
            Content::Json(raw) if raw.get().starts_with('"') => self.string(raw)?,
            Content::Json(raw) => Cow::Borrowed(raw.get()),
            Content::Text(text) => Cow::Borrowed(text),
        };
        if let Ok(millis) = text.parse::<i64>() {
            return Ok(Timestamp::from_millis(millis));
        }
        let time: jiff::Timestamp = text.parse().map_err(|_| self.wrong_type(EXPECTED))?;
        Ok(Timestamp::from_millis(time.as_millisecond()))
    }

    fn string(&self, raw: &'r RawValue) -> Result<Cow<'r, str>, Rejection> {
        let refuse = |_| Rejection::new(Reject::Undecodable, format!("`{}` is a malformed JSON string", self.path));
        json::string(raw).map_err(refuse)
    }

    fn wrong_type(&self, expected: &str) -> Rejection {
        let kind = match self.content {
            Content::Text(_) => "a text",
            Content::Json(raw) => match raw.get().as_bytes().first() {
                Some(b'"') => "a string",
                Some(b'{') => "an object",
                Some(b'[') => "an array",
                Some(b't' | b'f') => "a boolean",
                Some(_) | None => "a number",
            },
        };
        Rejection::new(Reject::WrongType, format!("`{}` holds {kind}, expected {expected}", self.path))
    }
}
