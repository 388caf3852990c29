//! What names a schema, and its text.

use std::fmt;

/// The first byte of a schema's number, and of its GUID.
const BEFORE_NUMBER: u8 = 0;
const BEFORE_GUID: u8 = 1;

/// What identifies a schema. It never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemaId {
    /// Its number in one registry.
    Number(u32),
    /// Its GUID in all registries, as it is written in a header.
    Guid([u8; 16]),
}

impl SchemaId {
    /// Splits `bytes` after the id that they begin with.
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (magic, rest) = bytes.split_first()?;
        match *magic {
            BEFORE_NUMBER => rest.split_first_chunk().map(|(id, rest)| (Self::Number(u32::from_be_bytes(*id)), rest)),
            BEFORE_GUID => rest.split_first_chunk().map(|(id, rest)| (Self::Guid(*id), rest)),
            _ => None,
        }
    }
}

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Guid(guid) => {
                let number = u128::from_be_bytes(*guid);
                let part = |shift: u32, digits: u32| (number >> shift) & ((1 << (4 * digits)) - 1);
                let [time_low, mid, high] = [part(96, 8), part(80, 4), part(64, 4)];
                let [clock, node] = [part(48, 4), part(0, 12)];
                write!(f, "{time_low:08x}-{mid:04x}-{high:04x}-{clock:04x}-{node:012x}")
            }
        }
    }
}

/// One schema as the registry gives it: the name that others refer to it by, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaText {
    /// The name by which others refer to it: of a type for Avro, of a file for Protobuf.
    pub name: String,
    /// The schema.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_registries_write_them() {
        assert_eq!(SchemaId::Number(100_001).to_string(), "100001");
        let guid: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap() + 0xf0);
        assert_eq!(SchemaId::Guid(guid).to_string(), "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
    }
}
