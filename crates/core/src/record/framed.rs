//! Values that name their schema, in the wire format of the Schema Registry.
//!
//! A value begins with a zero byte and the number of its schema, or the header [`HEADER`] names the schema. The schema
//! itself comes from the caller ([`super::FindSchema`]): a number always means the same text, so what is read of a value depends
//! on the value alone.

use super::json_text::{JsonText, Unfit};
use super::schema::Kind;
use super::schema_id::SchemaId;
use super::{Format, InputSettings, RawRecord, Reject, Rejection};

/// The header that names the schema of a value, in place of the first bytes of the value.
const HEADER: &str = "__value_schema_id";

/// Deepest nesting of values, as readers of Protobuf have it: each level takes stack, and not every thread that reads
/// records has much.
const MAX_NESTING: usize = 100;

/// A value, split where its schema is named.
struct Framed<'r> {
    id: SchemaId,
    /// What follows the id in the header.
    in_header: Option<&'r [u8]>,
    payload: &'r [u8],
}

impl<'r> Framed<'r> {
    fn of(format: Format, record: &RawRecord<'r>, value: &'r [u8]) -> Result<Self, Rejection> {
        let headers = record.headers;
        if let Some((id, rest)) = headers.last(HEADER).and_then(SchemaId::split) {
            return Ok(Self { id, in_header: Some(rest), payload: value });
        }
        // The GUID is in a header only: a value that begins with 1 is something else.
        if let Some((id @ SchemaId::Number(_), payload)) = SchemaId::split(value) {
            return Ok(Self { id, in_header: None, payload });
        }
        let way_out =
            if value.trim_ascii_start().starts_with(b"{") { "; input.format: json reads plain JSON" } else { "" };
        let message = format!(
            "the value does not begin with the id of its schema (a zero byte and four more), and there is no header \
             {HEADER}: input.format {} reads what serializers of the Schema Registry write{way_out}",
            format.name()
        );
        Err(Rejection::new(Reject::Undecodable, message))
    }
}

/// Returns whether a value of this format, which is no text, is one that names its schema.
pub(super) fn is_framed(format: Format, record: &RawRecord<'_>, value: &[u8]) -> bool {
    let is_of_registry = format.needs_schemas() || format == Format::JsonSchema;
    is_of_registry && Framed::of(format, record, value).is_ok()
}

/// Returns whether reading this value would not have to wait for its schema.
pub(super) fn is_known(settings: &InputSettings, record: &RawRecord<'_>, value: &[u8]) -> bool {
    let (true, Some(source)) = (settings.format.needs_schemas(), &settings.schemas.0) else { return true };
    Framed::of(settings.format, record, value).map_or(true, |framed| source.is_known(framed.id))
}

/// Waits for the schema of this value. What is wrong with it is found when the value is read.
pub(super) fn wait(settings: &InputSettings, record: &RawRecord<'_>, value: &[u8]) {
    if let (true, Ok(framed)) = (settings.format.needs_schemas(), Framed::of(settings.format, record, value)) {
        drop(settings.schemas.find(framed.id));
    }
}

/// Returns the JSON in a value of [`Format::JsonSchema`].
pub(super) fn json<'r>(record: &RawRecord<'r>, value: &'r [u8]) -> Result<&'r [u8], Rejection> {
    Ok(Framed::of(Format::JsonSchema, record, value)?.payload)
}

/// Writes a value of [`Format::Avro`] or [`Format::Protobuf`] as JSON, of at most `max_document` bytes.
pub(super) fn to_json(
    settings: &InputSettings,
    max_nesting: usize,
    record: &RawRecord<'_>,
    value: &[u8],
) -> Result<Vec<u8>, Rejection> {
    let format = settings.format;
    let Framed { id, in_header, payload } = Framed::of(format, record, value)?;
    let schema = settings.schemas.find(id)?;
    let max_nesting = max_nesting.min(MAX_NESTING);
    let mut json = JsonText::new(settings.max_document, max_nesting);
    let written = match (&schema.0, format) {
        (Kind::Avro(schema), Format::Avro) => schema.write(payload, &mut json),
        (Kind::Protobuf(schema), Format::Protobuf) => schema.write(in_header, payload, &mut json),
        _ => {
            let actual = format_of(&schema.0).name();
            let message = format!("schema {id} is one of {actual}: input.format {actual} reads it");
            return Err(Rejection::new(Reject::Undecodable, message));
        }
    };
    written.map_err(|unfit| match unfit {
        Unfit::Damaged { .. } => {
            let message = format!("the value does not fit schema {id}, or is damaged: {unfit}");
            Rejection::new(Reject::Undecodable, message)
        }
        Unfit::TooDeep => {
            Rejection::new(Reject::TooDeep, format!("the value is nested deeper than {max_nesting} levels"))
        }
        Unfit::TooLarge => {
            let limit = settings.max_document;
            let message = format!("the value takes more than {limit} bytes as JSON (input.max_document)");
            Rejection::new(Reject::TooLarge, message)
        }
    })?;
    Ok(json.finish())
}

const fn format_of(kind: &Kind) -> Format {
    match kind {
        Kind::Avro(_) => Format::Avro,
        Kind::Protobuf(_) => Format::Protobuf,
        Kind::Json => Format::JsonSchema,
    }
}
