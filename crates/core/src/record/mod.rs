//! A record that arrived, and its position.
//!
//! Before: `kafka::group_consumer` (or a file) hands over the bytes of one record. After: `text` reads the [`Document`]
//! that a [`Decoder`] found in them. Pure: bytes in, a document or a [`Rejection`] out.
//!
//! Laws: a rejection is a function of the page and the settings alone; no input makes it panic or grow the stack
//! (nesting is counted before anything is parsed). Cost: one pass to count nesting, one to check UTF-8, one to find the
//! wanted fields; only strings with escapes, and pages in another encoding than UTF-8, are copied.

mod address;
mod avro;
mod coding;
mod decode;
mod encoding;
mod event_time;
mod field_path;
mod framed;
mod json;
mod json_text;
mod place;
mod protobuf;
mod reject;
mod schema;
mod schema_id;
mod settings;
mod warc;
#[cfg(test)]
mod tests;

pub(crate) use address::Address;
pub use coding::Coding;
pub use decode::{Body, Decoder, Document, InputSettingsError};
pub use encoding::Encoding;
pub use event_time::{ParseZoneError, Zone};
pub use field_path::{FieldPath, ParseFieldPathError, Pointer};
pub use place::{Headers, PartitionId, RawRecord, Source, Timestamp};
pub use reject::{Reject, Rejection};
pub use schema::{FindSchema, NoSchema, Schema, Schemas};
pub use schema_id::{SchemaId, SchemaText};
pub use settings::{EventTime, Fields, Format, InputSettings};
