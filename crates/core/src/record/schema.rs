//! Schemas, and where they come from.

use super::schema_id::{SchemaId, SchemaText};
use super::{Reject, Rejection, avro, protobuf};
use std::fmt;
use std::sync::Arc;

/// A schema, ready to read values.
#[derive(Debug)]
pub struct Schema(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    Avro(avro::Schema),
    Protobuf(protobuf::Schema),
    Json,
}

impl Schema {
    /// Reads a schema of this type (`AVRO`, `PROTOBUF`, `JSON`), and those that it refers to, each of them after those that
    /// it refers to itself.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn parse(kind: &str, text: &str, references: &[SchemaText]) -> Result<Self, String> {
        Ok(Self(match kind {
            "AVRO" => Kind::Avro(avro::Schema::parse(text, references)?),
            "PROTOBUF" => Kind::Protobuf(protobuf::Schema::parse(text, references)?),
            "JSON" => Kind::Json,
            other => return Err(format!("it is of the type {other}: AVRO, PROTOBUF and JSON are read")),
        }))
    }
}

/// Finds schemas. The service asks its registry, and waits while that does not answer.
pub trait FindSchema: fmt::Debug + Send + Sync {
    /// Returns a schema, and blocks until it is known what it is.
    ///
    /// # Errors
    ///
    /// [`NoSchema`]
    fn find(&self, id: SchemaId) -> Result<Arc<Schema>, NoSchema>;

    /// Returns whether [`FindSchema::find`] would return at once.
    fn is_known(&self, id: SchemaId) -> bool;
}

/// Why there is no schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSchema {
    /// The registry does not have it, or not any more.
    Unknown(String),
    /// It has, but it cannot be used.
    Unusable(String),
}

/// Where schemas come from. Only Avro and Protobuf need them.
#[derive(Clone, Debug, Default)]
pub struct Schemas(pub(super) Option<Arc<dyn FindSchema>>);

impl Schemas {
    /// Takes schemas from `source`.
    #[must_use]
    pub fn of(source: Arc<dyn FindSchema>) -> Self {
        Self(Some(source))
    }

    pub(super) fn find(&self, id: SchemaId) -> Result<Arc<Schema>, Rejection> {
        let found = self.0.as_ref().map(|source| source.find(id));
        found.unwrap_or_else(|| Err(NoSchema::Unusable("input.schema_registry is not set".to_owned()))).map_err(|no| {
            match no {
                NoSchema::Unknown(why) => {
                    Rejection::new(Reject::Undecodable, format!("schema {id} is unknown: {why}")).for_now()
                }
                NoSchema::Unusable(why) => {
                    Rejection::new(Reject::Undecodable, format!("schema {id} cannot be used: {why}"))
                }
            }
        })
    }
}

/// All sources count as equal: a schema is the same wherever it comes from.
impl PartialEq for Schemas {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
