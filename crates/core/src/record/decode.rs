//! Bytes of one record -> a document, from the values of its fields, wherever they stand.

use std::borrow::Cow;

use super::coding::{Announced, Coding, NotUnpacked};
use super::encoding::Encoding;
use super::event_time::{NoTime, Zone};
use super::json::Wanted;
use super::warc::WarcRecord;
use super::{
    EventTime, FieldPath, Format, InputSettings, RawRecord, Reject, Rejection, Timestamp, coding, encoding, event_time,
    framed, json, json_text,
};

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

impl Document<'_> {
    fn into_owned<'o>(self) -> Document<'o> {
        fn owned<'o>(text: Cow<'_, str>) -> Cow<'o, str> {
            Cow::Owned(text.into_owned())
        }
        Document {
            id: self.id.map(owned),
            address: self.address.map(owned),
            canonical: self.canonical.map(owned),
            encoding: self.encoding,
            body: match self.body {
                Body::Text(text) => Body::Text(owned(text)),
                Body::Html(html) => Body::Html(owned(html)),
            },
            scope: self.scope.map(owned),
            fetched_at: self.fetched_at,
        }
    }
}

/// Why input settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputSettingsError {
    /// No field can hold the text.
    #[error("input.fields names neither text nor html: one of them holds the page")]
    NoTextField,
    /// Event time is to come from a field, but no field is named.
    #[error("window.timestamp_source is field, but input.fields.fetched_at is not set")]
    NoTimeField,
    /// A WARC record has headers, which are not nested.
    #[error(
        "input.fields.{field} is {path}, but a WARC record has only headers: expected a name as in /WARC-Target-URI"
    )]
    NoWarcHeader {
        /// The field.
        field: &'static str,
        /// Its path.
        path: String,
    },
    /// A pointer needs JSON to point into.
    #[error("input.fields.{field} is the JSON pointer {path}, but values of this input.format have no fields")]
    PointerWithoutJson {
        /// The field.
        field: &'static str,
        /// Its path.
        path: String,
    },
}

/// The header that says how a value is packed, as in HTTP; in any case.
const CONTENT_ENCODING: &str = "content-encoding";

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
        if settings.format.has_fields() {
            if fields.text.is_none() && fields.html.is_none() {
                return Err(InputSettingsError::NoTextField);
            }
            wanted_for_scope.add(SCOPE, fields.scope.as_ref(), max_nesting);
            wanted.add(ID, fields.id.as_ref(), max_nesting);
            wanted.add(SCOPE, fields.scope.as_ref(), max_nesting);
            wanted.add(TIME, time, max_nesting);
            wanted.add(TEXT, fields.text.as_ref(), max_nesting);
            wanted.add(HTML, fields.html.as_ref(), max_nesting);
            wanted.add(ADDRESS, fields.address.as_ref(), max_nesting);
            wanted.add(CANONICAL, fields.canonical.as_ref(), max_nesting);
        } else {
            let scope = ("scope", fields.scope.as_ref());
            let (address, canonical) = (("address", fields.address.as_ref()), ("canonical", fields.canonical.as_ref()));
            let is_warc = settings.format == Format::Warc;
            // In text and HTML, an id that is a pointer is none.
            let id = ("id", fields.id.as_ref().filter(|_| is_warc));
            for (field, path) in [id, scope, address, canonical, ("fetched_at", time)] {
                if let Some(path @ FieldPath::Pointer(pointer)) = path {
                    if is_warc && pointer.name().is_some() {
                        continue;
                    }
                    if is_warc {
                        return Err(InputSettingsError::NoWarcHeader { field, path: path.to_string() });
                    }
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
        match self.value(record)? {
            Cow::Borrowed(value) => self.document(record, value),
            Cow::Owned(value) => self.document(record, &value).map(Document::into_owned),
        }
    }

    fn document<'r>(&self, record: &RawRecord<'r>, bytes: &'r [u8]) -> Result<Document<'r>, Rejection> {
        let fields = &self.settings.fields;
        let found = self.values(record, &self.wanted, bytes)?;
        let time = fields.fetched_at.as_ref().filter(|_| self.settings.event_time == EventTime::Field);
        let single = |field, path| found.get(field, path)?.map_or(Ok(None), Value::single);
        let fetched_at = single(TIME, time)?.map(|value| value.timestamp(fields.zone.as_ref())).transpose()?.flatten();
        let name = |field, path| single(field, path)?.map(|value: Value<'_, 'r>| value.name()).transpose();
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
            refuse_base64(&text, || "the value".to_owned(), |codings| format!("input.encoding: {codings}"))?;
            Ok::<_, Rejection>(text)
        };
        let body = match self.settings.format {
            Format::Text => Body::Text(decoded()?),
            Format::Html => Body::Html(decoded()?),
            Format::Warc => {
                let Some(warc) = &found.warc else {
                    return Err(Rejection::new(Reject::MissingField, "no WARC record"));
                };
                let payload = warc.payload(self.settings.max_document)?;
                let (text, shown) = match payload.bytes {
                    Cow::Borrowed(bytes) => encoding::decode(bytes, payload.content_type)?,
                    Cow::Owned(bytes) => {
                        let (text, shown) = encoding::decode(&bytes, payload.content_type)?;
                        (Cow::Owned(text.into_owned()), shown)
                    }
                };
                encoding = shown;
                if payload.is_html { Body::Html(text) } else { Body::Text(text) }
            }
            Format::Json | Format::Avro | Format::Protobuf | Format::JsonSchema => {
                let mut page = |field, name: &str, path: &Option<FieldPath>, codings: &[Coding]| {
                    let Some(value) = found.get(field, path.as_ref())? else { return Ok(None) };
                    let path = value.path;
                    let (text, found) = if let Some(bytes) = value.bytes() {
                        let recognised = Coding::of_compressed(&bytes);
                        let codings = if codings.is_empty() { recognised.as_slice() } else { codings };
                        self.unpacked(path, &bytes, codings)?
                    } else {
                        let Some(text) = value.text()? else { return Ok(None) };
                        if codings.is_empty() {
                            let setting =
                                |codings: &str| format!("input.fields.{name}: {{path: {path}, encoding: {codings}}}");
                            refuse_base64(&text, || format!("`{path}`"), setting)?;
                            (text, Encoding::Utf8)
                        } else {
                            self.unpacked(path, text.as_bytes(), codings)?
                        }
                    };
                    encoding = found;
                    Ok::<_, Rejection>(Some(text))
                };
                let text = page(TEXT, "text", &fields.text, &fields.text_encoding)?;
                let is_blank = text.as_ref().is_none_or(|text| text.trim().is_empty());
                let html = if is_blank { page(HTML, "html", &fields.html, &fields.html_encoding)? } else { None };
                match (text, html) {
                    (_, Some(html)) => Body::Html(html),
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
    pub(crate) fn scope<'r>(&self, record: &RawRecord<'r>) -> Result<Option<Cow<'r, str>>, Rejection> {
        let Some(path) = &self.settings.fields.scope else { return Ok(None) };
        match path {
            FieldPath::Pointer(_) => match self.value(record)? {
                Cow::Borrowed(value) => self.scope_in(record, path, value),
                Cow::Owned(value) => {
                    Ok(self.scope_in(record, path, &value)?.map(|scope| Cow::Owned(scope.into_owned())))
                }
            },
            FieldPath::Header(_) | FieldPath::Key => {
                scope_of(&Values { record, found: json::Found::default(), warc: None }, path)
            }
        }
    }

    fn scope_in<'r>(
        &self,
        record: &RawRecord<'r>,
        path: &FieldPath,
        value: &'r [u8],
    ) -> Result<Option<Cow<'r, str>>, Rejection> {
        scope_of(&self.values(record, &self.wanted_for_scope, value)?, path)
    }

    /// Finds what the settings may name in a value.
    fn values<'v, 'r>(
        &self,
        record: &'v RawRecord<'r>,
        wanted: &Wanted,
        value: &'r [u8],
    ) -> Result<Values<'v, 'r>, Rejection> {
        let (found, warc) = match self.settings.format {
            Format::Json | Format::Avro | Format::Protobuf | Format::JsonSchema => (self.find(wanted, value)?, None),
            Format::Warc => (json::Found::default(), Some(WarcRecord::parse(value, self.settings.max_document)?)),
            Format::Text | Format::Html => (json::Found::default(), None),
        };
        Ok(Values { record, found, warc })
    }

    /// Returns where the id of a page is read, if it is.
    #[must_use]
    pub(crate) fn id_path(&self) -> Option<&FieldPath> {
        self.settings.fields.id.as_ref()
    }

    /// Returns what is read of a record: its value, unpacked if it is packed, as JSON if it has fields.
    fn value<'r>(&self, record: &RawRecord<'r>) -> Result<Cow<'r, [u8]>, Rejection> {
        match self.unpacked_value(record)? {
            Cow::Borrowed(value) => self.plain(record, value),
            Cow::Owned(value) => match self.plain(record, &value)? {
                Cow::Borrowed(plain) if plain.len() == value.len() => Ok(Cow::Owned(value)),
                Cow::Borrowed(part) => Ok(Cow::Owned(part.to_vec())),
                Cow::Owned(json) => Ok(Cow::Owned(json)),
            },
        }
    }

    /// Returns the value of a record, unpacked if it is packed: as the settings say; else as its header says, if it can be
    /// unpacked so; else as its first bytes show.
    fn unpacked_value<'r>(&self, record: &RawRecord<'r>) -> Result<Cow<'r, [u8]>, Rejection> {
        let bytes = self.bytes(record)?;
        let InputSettings { encoding, format, max_document, .. } = &self.settings;
        if !encoding.is_empty() {
            return self.unpack(encoding, bytes, || "the value".to_owned()).map(Cow::Owned);
        }
        let is_readable = |bytes: &[u8]| coding::is_plain(bytes) || framed::is_framed(*format, record, bytes);
        let announced = announced(record);
        let is_said = announced != Announced::Codings(Vec::new());
        let unpacked = coding::unpack_announced(announced, bytes, *max_document, is_readable);
        let unpacked = unpacked.map_err(|why| {
            let as_said = if is_said { format!(", as its header {CONTENT_ENCODING} says") } else { String::new() };
            self.not_unpacked(why, "the value", &as_said)
        })?;
        Ok(unpacked.map_or(Cow::Borrowed(bytes), Cow::Owned))
    }

    /// Returns what fields are found in: JSON, whatever the value is written in.
    fn plain<'v, 'r: 'v>(&self, record: &RawRecord<'r>, value: &'v [u8]) -> Result<Cow<'v, [u8]>, Rejection> {
        match self.settings.format {
            // No JSON begins with a zero byte, in no encoding of it that is read.
            Format::Json if value.first() == Some(&0) => {
                let message = "the value begins with a zero byte, like one that names its schema: input.format avro, \
                               protobuf or json_schema reads those";
                Err(Rejection::new(Reject::Undecodable, message))
            }
            Format::Json | Format::Text | Format::Html | Format::Warc => Ok(Cow::Borrowed(value)),
            Format::JsonSchema => framed::json(record, value).map(Cow::Borrowed),
            Format::Avro | Format::Protobuf => {
                framed::to_json(&self.settings, self.max_nesting, record, value).map(Cow::Owned)
            }
        }
    }

    /// Returns whether a record can be decoded at once: its schema, if it needs one, is known. Of a value that is packed as a
    /// whole, that is not known without unpacking it.
    #[must_use]
    pub fn is_ready(&self, record: &RawRecord<'_>) -> bool {
        record.value.is_none_or(|value| framed::is_known(&self.settings, record, value))
    }

    /// Waits until the schema of a record is known ([`super::FindSchema::find`]).
    pub(crate) fn wait_for_schema(&self, record: &RawRecord<'_>) {
        if let Some(value) = record.value {
            framed::wait(&self.settings, record, value);
        }
    }

    /// Returns whether the page in a record is packed, so that the value shows nothing of it.
    pub(crate) fn is_packed(&self, record: &RawRecord<'_>) -> bool {
        let InputSettings { encoding, fields, .. } = &self.settings;
        let codings = [encoding, &fields.text_encoding, &fields.html_encoding];
        self.settings.format == Format::Warc
            || codings.into_iter().any(|codings| !codings.is_empty())
            || record.value.and_then(Coding::of_compressed).is_some()
            || announced(record) != Announced::Codings(Vec::new())
    }

    /// Unpacks the bytes of a field and decodes their characters, as they declare or show them.
    fn unpacked<'r>(
        &self,
        path: &FieldPath,
        bytes: &[u8],
        codings: &[Coding],
    ) -> Result<(Cow<'r, str>, Encoding), Rejection> {
        let bytes = self.unpack(codings, bytes, || format!("`{path}`"))?;
        let refuse = || {
            let what = match Coding::of_compressed(&bytes) {
                Some(coding) => format!("{} once it is unpacked: add it to the encoding", coding.name()),
                None if codings.is_empty() => "bytes that are no text".to_owned(),
                None => "no text once it is unpacked".to_owned(),
            };
            Rejection::new(Reject::Undecodable, format!("`{path}` holds {what}"))
        };
        let (text, encoding) = encoding::decode(&bytes, None).map_err(|_| refuse())?;
        Ok((Cow::Owned(text.into_owned()), encoding))
    }

    fn unpack(&self, codings: &[Coding], bytes: &[u8], what: impl Fn() -> String) -> Result<Vec<u8>, Rejection> {
        let unpacked = coding::unpack(codings, bytes, self.settings.max_document);
        unpacked.map_err(|why| self.not_unpacked(why, &what(), ""))
    }

    fn not_unpacked(&self, why: NotUnpacked, what: &str, as_said: &str) -> Rejection {
        match why {
            NotUnpacked::Malformed(coding) => {
                let message = format!("{what} is not {}{as_said}, or damaged", coding.name());
                Rejection::new(Reject::Undecodable, message)
            }
            NotUnpacked::TooLarge => {
                let limit = self.settings.max_document;
                let message =
                    format!("{what} unpacks to more than the {limit} bytes that are read (input.max_document)");
                Rejection::new(Reject::TooLarge, message)
            }
            NotUnpacked::Unknown(name) => {
                let expected = "expected base64, br, deflate, gzip or zstd";
                let message = format!("the header {CONTENT_ENCODING} of {what} says `{name}`: {expected}");
                Rejection::new(Reject::Undecodable, message)
            }
        }
    }

    fn bytes<'r>(&self, record: &RawRecord<'r>) -> Result<&'r [u8], Rejection> {
        let value = record.value.ok_or_else(|| Rejection::new(Reject::MissingField, "the record has no value"))?;
        let limit = self.settings.max_document;
        if value.len() > limit {
            return Err(Rejection::too_large("the value", value.len() as u64, limit));
        }
        Ok(value)
    }

    /// Finds values in JSON, which may begin with a byte order mark.
    fn find<'r>(&self, wanted: &Wanted, value: &'r [u8]) -> Result<json::Found<'r>, Rejection> {
        let value = utf8(value.strip_prefix(BYTE_ORDER_MARK).unwrap_or(value), "the value")?;
        if json::nesting(value.as_bytes(), self.max_nesting) > self.max_nesting {
            let message = format!("JSON is nested deeper than {} levels", self.max_nesting);
            return Err(Rejection::new(Reject::TooDeep, message));
        }
        // The library's own message may quote the document, so only the position is reported.
        let mut found = wanted.find(value).map_err(|error| {
            let what = if error.is_eof() { "truncated" } else { "malformed" };
            let message = format!("{what} JSON at line {} column {}", error.line(), error.column());
            Rejection::new(Reject::Undecodable, message)
        })?;
        found.refused.take().map_or(Ok(found), Err)
    }
}

fn announced(record: &RawRecord<'_>) -> Announced {
    let header = record.headers.last_where(&|name| name.eq_ignore_ascii_case(CONTENT_ENCODING));
    Announced::of(header.unwrap_or_default())
}

fn scope_of<'r>(values: &Values<'_, 'r>, path: &FieldPath) -> Result<Option<Cow<'r, str>>, Rejection> {
    values.get(SCOPE, Some(path))?.map_or(Ok(None), Value::single)?.map(|value| value.name()).transpose()
}

/// Refuses a text that is base64 although no setting says so. `setting` writes the setting with its value.
fn refuse_base64(
    text: &str,
    what: impl FnOnce() -> String,
    setting: impl FnOnce(&str) -> String,
) -> Result<(), Rejection> {
    let Some(codings) = coding::unannounced(text) else { return Ok(()) };
    let message = format!("{} holds base64: set {} to read it", what(), setting(codings));
    Err(Rejection::new(Reject::Undecodable, message))
}

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
