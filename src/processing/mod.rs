//! The text work of a record: reading it, with the schema that it names, on the threads of a pool with bounded memory.

pub(crate) mod lines;
pub mod schema_registry;
pub(crate) mod text_pool;

#[cfg(test)]
pub(crate) use text_pool::outcome as outcome_of_record;
