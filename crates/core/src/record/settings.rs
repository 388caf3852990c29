//! Which parts of a record are read, and how.

use super::field_path::Pointer;
use super::{Coding, FieldPath, Schemas, Zone};
use std::fmt::Write as _;

/// How the bytes of a record become a document (config keys `input.*` and `window.timestamp_source`).
#[derive(Clone, Debug, PartialEq)]
pub struct InputSettings {
    /// The format of the values.
    pub format: Format,
    /// The fields of a page.
    pub fields: Fields,
    /// Whether event time comes from Kafka's record timestamp or from [`Fields::fetched_at`]
    /// (`window.timestamp_source`).
    pub event_time: EventTime,
    /// How the whole value is packed, the outermost coding first (`input.encoding`). Values that are compressed with gzip
    /// or zstd are recognised without it.
    pub encoding: Vec<Coding>,
    /// The largest value that is read, in bytes, inclusive, packed or not (`input.max_document`).
    pub max_document: usize,
    /// Where the schemas of [`Format::Avro`] and [`Format::Protobuf`] come from.
    pub schemas: Schemas,
}

/// What the value of a record is (`input.format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// A JSON document with fields.
    #[default]
    Json,
    /// An Avro record in the wire format of the Schema Registry, with fields.
    Avro,
    /// A Protobuf message in the wire format of the Schema Registry, with fields.
    Protobuf,
    /// A JSON document with fields, in the wire format of the Schema Registry. Its schema is not needed.
    JsonSchema,
    /// The whole value is plain text, in any encoding that can be recognised from its bytes.
    Text,
    /// The whole value is an HTML page, in any encoding that it declares or that can be recognised from its bytes.
    Html,
    /// The whole value is one WARC record. Pointers name its headers.
    Warc,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::Json, Self::Avro, Self::Protobuf, Self::JsonSchema, Self::Text, Self::Html, Self::Warc];

    /// Returns the name, which is part of the scheme.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Avro => "avro",
            Self::Protobuf => "protobuf",
            Self::JsonSchema => "json_schema",
            Self::Text => "text",
            Self::Html => "html",
            Self::Warc => "warc",
        }
    }

    /// Returns whether a value has fields, which JSON pointers find. In the other formats, the page is the whole
    /// value, or the payload of a WARC record.
    #[must_use]
    pub const fn has_fields(self) -> bool {
        match self {
            Self::Json | Self::Avro | Self::Protobuf | Self::JsonSchema => true,
            Self::Text | Self::Html | Self::Warc => false,
        }
    }

    /// Returns whether values name schemas that have to be found to read them.
    #[must_use]
    pub const fn needs_schemas(self) -> bool {
        match self {
            Self::Avro | Self::Protobuf => true,
            Self::Json | Self::JsonSchema | Self::Text | Self::Html | Self::Warc => false,
        }
    }
}

/// Where event time is read (`window.timestamp_source`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventTime {
    /// The timestamp of the Kafka record.
    #[default]
    Record,
    /// The field [`Fields::fetched_at`].
    Field,
}

/// The fields of a page (`input.fields`). A field without a path is not read.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// The page's own id, for instance its URL: it shows which records are re-crawls of a page.
    pub id: Option<FieldPath>,
    /// Ready text. Not used when the value has no fields: then it is the text.
    pub text: Option<FieldPath>,
    /// How the text is packed, the outermost coding first.
    pub text_encoding: Vec<Coding>,
    /// HTML, used when there is no ready text. Not used when the value has no fields.
    pub html: Option<FieldPath>,
    /// How the HTML is packed, the outermost coding first.
    pub html_encoding: Vec<Coding>,
    /// Event time: a number since 1970, whose size shows its unit, or an ISO 8601 or RFC 2822 text.
    pub fetched_at: Option<FieldPath>,
    /// The zone of event times that name none. Without it, they are no times.
    pub zone: Option<Zone>,
    /// The page's scope: pages match only within the same scope.
    pub scope: Option<FieldPath>,
    /// The page's web address, if its id is not one.
    pub address: Option<FieldPath>,
    /// The address that all variants of the page have in common; an HTML page may name it itself.
    pub canonical: Option<FieldPath>,
    /// Name of the header that holds the page's content type, which may name its encoding. Not used when the value
    /// has fields.
    pub content_type: Option<String>,
}

impl Default for InputSettings {
    fn default() -> Self {
        Self {
            format: Format::default(),
            fields: Fields::default(),
            event_time: EventTime::default(),
            encoding: Vec::new(),
            max_document: 8 << 20,
            schemas: Schemas::default(),
        }
    }
}

impl Default for Fields {
    fn default() -> Self {
        let pointer = |name: &str| Some(FieldPath::Pointer(Pointer::of(name)));
        Self { id: pointer("url"), text: pointer("text"), html: pointer("html"), ..Self::nowhere() }
    }
}

impl Fields {
    /// Names no field.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self {
            id: None,
            text: None,
            text_encoding: Vec::new(),
            html: None,
            html_encoding: Vec::new(),
            fetched_at: None,
            zone: None,
            scope: None,
            address: None,
            canonical: None,
            content_type: None,
        }
    }
}

impl InputSettings {
    /// Writes everything that determines the fingerprints of a page and its partition as lines of text, with one form
    /// for each meaning.
    ///
    /// The scheme is a hash of these lines, so their form cannot change without a new scheme.
    pub(crate) fn write_canonical(&self, out: &mut String) {
        let format = self.format.name();
        let fields = &self.fields;
        let read = |wanted: bool, path: &Option<FieldPath>| match path {
            Some(path) if wanted => format!("{:?}", path.to_string()),
            Some(_) | None => "-".to_owned(),
        };
        let json = self.format.has_fields();
        let has_pointers = json || self.format == Format::Warc;
        let packed = |codings: &[Coding]| codings.iter().flat_map(|coding| [" ", coding.name()]).collect::<String>();
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "input.format={format}{}", packed(&self.encoding));
        let _ = writeln!(
            out,
            "input.id={}",
            read(has_pointers || !matches!(fields.id, Some(FieldPath::Pointer(_))), &fields.id)
        );
        let _ = writeln!(out, "input.text={}{}", read(json, &fields.text), packed(&fields.text_encoding));
        let _ = writeln!(out, "input.html={}{}", read(json, &fields.html), packed(&fields.html_encoding));
        let has_time = self.event_time == EventTime::Field;
        let zone =
            fields.zone.as_ref().filter(|_| has_time).map_or_else(String::new, |zone| format!(" {}", zone.name()));
        let _ = writeln!(out, "input.event_time={}{zone}", read(has_time, &fields.fetched_at));
        let _ = writeln!(out, "input.scope={}", read(true, &fields.scope));
        let _ = writeln!(out, "input.address={}", read(true, &fields.address));
        let _ = writeln!(out, "input.canonical={}", read(true, &fields.canonical));
        let content_type = fields.content_type.as_deref().unwrap_or("-");
        let _ = writeln!(out, "input.content_type={content_type:?}");
        let _ = writeln!(out, "input.max_document={}", self.max_document);
    }
}
