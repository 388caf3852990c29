//! Values of fields, wherever they stand.

use super::event_time::{self, NoTime, Zone};
use super::json;
use super::warc::WarcRecord;
use super::{FieldPath, RawRecord, Reject, Rejection, Timestamp, encoding, json_text};
use std::borrow::Cow;

pub(super) fn utf8<'r>(bytes: &'r [u8], what: &str) -> Result<&'r str, Rejection> {
    std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("{what} is not UTF-8 from byte {} on", error.valid_up_to());
        Rejection::new(Reject::Undecodable, message)
    })
}

pub(super) struct Values<'v, 'r> {
    pub(super) record: &'v RawRecord<'r>,
    pub(super) found: json::Found<'r>,
    pub(super) warc: Option<WarcRecord<'r>>,
}

pub(super) struct Value<'v, 'r> {
    pub(super) path: &'v FieldPath,
    pub(super) content: Content<'r>,
}

pub(super) enum Content<'r> {
    Json(Cow<'r, str>),
    Text(&'r str),
}

impl<'r> Values<'_, 'r> {
    /// Returns the value at a field's path, if there is one. A JSON null counts as absent.
    pub(super) fn get<'v>(
        &self,
        field: usize,
        path: Option<&'v FieldPath>,
    ) -> Result<Option<Value<'v, 'r>>, Rejection> {
        let Some(path) = path else { return Ok(None) };
        let record: &RawRecord<'r> = self.record;
        let content = match path {
            FieldPath::Pointer(pointer) => match &self.warc {
                Some(warc) => pointer.name().and_then(|name| warc.header(name)).map(Content::Text),
                None => self.found.values.get(field).cloned().flatten().filter(|raw| raw != "null").map(Content::Json),
            },
            FieldPath::Header(name) => {
                record.headers.last(name).map(|bytes| utf8(bytes, &format!("`{path}`"))).transpose()?.map(Content::Text)
            }
            FieldPath::Key => record.key.map(|bytes| utf8(bytes, "the key")).transpose()?.map(Content::Text),
        };
        Ok(content.map(|content| Value { path, content }))
    }
}

impl<'r> Value<'_, 'r> {
    /// Returns the bytes that it holds, if they are not a text in UTF-8.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Json(raw) => json_text::bytes(raw),
            Content::Text(_) => None,
        }
    }

    /// Reads a text. The strings of a list are its paragraphs, joined by line breaks; nulls in it count as absent.
    pub(super) fn text(&self) -> Result<Option<Cow<'r, str>>, Rejection> {
        const EXPECTED: &str = "a string or a list of strings";
        let raw = match &self.content {
            Content::Text(text) => return Ok(Some(Cow::Borrowed(*text))),
            Content::Json(raw) if raw.starts_with('"') => return self.string(raw).map(Some),
            Content::Json(raw) => raw,
        };
        let elements = json::elements(raw).ok_or_else(|| self.wrong_type(EXPECTED))?;
        let mut paragraphs = Vec::with_capacity(elements.len());
        for element in elements.iter().filter(|element| *element != "null") {
            if !element.starts_with('"') {
                return Err(self.wrong_element(EXPECTED));
            }
            paragraphs.push(self.string(element)?);
        }
        Ok(if paragraphs.len() > 1 { Some(Cow::Owned(paragraphs.join("\n"))) } else { paragraphs.pop() })
    }

    /// Returns the only element of a list, or any other value itself. A list without an element, or of null, is absent.
    pub(super) fn single(mut self) -> Result<Option<Self>, Rejection> {
        let Content::Json(raw) = &self.content else { return Ok(Some(self)) };
        let Some(mut elements) = json::elements(raw) else { return Ok(Some(self)) };
        match (elements.pop(), elements.is_empty()) {
            (None, _) => Ok(None),
            (Some(element), true) if element == "null" => Ok(None),
            (Some(element), true) if !element.starts_with(['[', '{']) => {
                self.content = Content::Json(element);
                Ok(Some(self))
            }
            (Some(_), true) => Err(self.wrong_element("a string or a number")),
            (Some(_), false) => {
                let (path, count) = (self.path, elements.len() + 1);
                let message =
                    format!("`{path}` holds a list of {count}, expected one value: {path}/0 reads the first one");
                Err(Rejection::new(Reject::WrongType, message))
            }
        }
    }

    fn wrong_element(&self, expected: &str) -> Rejection {
        let message = format!("`{}` holds a list of something else than strings, expected {expected}", self.path);
        Rejection::new(Reject::WrongType, message)
    }

    /// Reads a name: a text, or a number or boolean as it is written.
    pub(super) fn name(&self) -> Result<Cow<'r, str>, Rejection> {
        match &self.content {
            Content::Text(text) => Ok(Cow::Borrowed(*text)),
            Content::Json(raw) => match raw.as_bytes().first() {
                Some(b'"') => self.string(raw),
                Some(b'{' | b'[') | None => Err(self.wrong_type("a string or a number")),
                Some(_) => Ok(raw.clone()),
            },
        }
    }

    /// Reads a time; `None` for one that was never set.
    pub(super) fn timestamp(&self, zone: Option<&Zone>) -> Result<Option<Timestamp>, Rejection> {
        let text = match &self.content {
            Content::Json(raw) if raw.starts_with('"') => self.string(raw)?,
            Content::Json(raw) => raw.clone(),
            Content::Text(text) => Cow::Borrowed(*text),
        };
        let time = event_time::parse(&text, zone).map_err(|why| match why {
            NoTime::Form => self.wrong_type("a time: seconds or milliseconds since 1970, or an ISO 8601 text"),
            NoTime::DateDigits => {
                let message = format!("`{}` holds the digits of a date: expected a number since 1970, or ISO 8601", self.path);
                Rejection::new(Reject::WrongType, message)
            }
            NoTime::OtherEpoch => {
                let message = format!(
                    "`{}` holds a number that is not counted from 1970 (ticks of .NET, a file time): expected one since \
                     1970, or ISO 8601",
                    self.path
                );
                Rejection::new(Reject::WrongType, message)
            }
            NoTime::Zone => {
                let path = self.path;
                let message = format!(
                    "`{path}` holds a time without a zone: name it, as in input.fields.fetched_at: {{path: {path}, zone: UTC}}"
                );
                Rejection::new(Reject::WrongType, message)
            }
        })?;
        Ok(Some(time).filter(|time| !event_time::is_unset(*time)))
    }

    fn string(&self, raw: &Cow<'r, str>) -> Result<Cow<'r, str>, Rejection> {
        let refuse = |what| Rejection::new(Reject::Undecodable, format!("`{}` {what}", self.path));
        if let Some(bytes) = json_text::bytes(raw) {
            let (text, _) = encoding::decode(&bytes, None).map_err(|_| refuse("holds bytes that are no text"))?;
            return Ok(Cow::Owned(text.into_owned()));
        }
        json::string(raw).map_err(|_| refuse("is a malformed JSON string"))
    }

    fn wrong_type(&self, expected: &str) -> Rejection {
        let kind = match &self.content {
            Content::Text(_) => "a text",
            Content::Json(raw) => match raw.as_bytes().first() {
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
