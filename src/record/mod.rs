//! Room 1: what arrived, and where it stood.
//!
//! Before: `kafka::input` (or a file) hands over the bytes of one record. After: `text` reads the [`Document`]
//! that [`decode`] found in them. Pure: bytes in, a document or a [`Reject`] out.

mod field_path;
mod place;
mod reject;
mod settings;

pub use field_path::{FieldPath, NotAFieldPath, Pointer};
pub use place::{PartitionId, Source, Timestamp};
pub use reject::Reject;
pub use settings::{EventTime, Fields, Format, InputSettings};
