//! A digest over a sequence, whose state can be written down between any two elements.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_128;

/// Digest of a sequence so far: the XXH3 hash of the digest before and the hash of the next element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Returns the digest of the sequence with one more element. The fields of an element do not run into each other.
    #[must_use]
    pub fn with(self, fields: &[Option<&[u8]>]) -> Self {
        self.with_in(fields, &mut Vec::new())
    }

    /// Like [`Digest::with`]; puts the element into `room`, instead of what that holds.
    #[must_use]
    pub fn with_in(self, fields: &[Option<&[u8]>], room: &mut Vec<u8>) -> Self {
        room.clear();
        for field in fields {
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            room.extend_from_slice(&length.to_le_bytes());
            room.extend_from_slice(field.unwrap_or_default());
        }
        let mut both = [0; 32];
        let (before, next) = both.split_at_mut(16);
        before.copy_from_slice(&self.0.to_le_bytes());
        next.copy_from_slice(&xxh3_128(room).to_le_bytes());
        Self(xxh3_128(&both))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_fields_and_absence_count() {
        let one = Digest::default().with(&[Some(b"a"), Some(b"b")]);
        assert_ne!(one, Digest::default().with(&[Some(b"ab"), Some(b"")]));
        assert_ne!(one, Digest::default().with(&[Some(b"a"), None]));
        assert_ne!(Digest::default().with(&[None]), Digest::default().with(&[Some(b"")]));
        let two = Digest::default().with(&[Some(b"b")]).with(&[Some(b"a")]);
        assert_ne!(two, Digest::default().with(&[Some(b"a")]).with(&[Some(b"b")]));
    }

    #[test]
    fn replays_of_earlier_versions_have_the_same_digests() {
        let long = [7; 1_000];
        let digest = Digest::default().with(&[Some(b"pages:0:1"), Some(b"unique"), None]).with(&[Some(&long)]);
        assert_eq!(digest.to_string(), "1544384b34038360564db5857390fc2b");
    }

    #[test]
    fn it_goes_on_from_where_it_was_written_down() {
        let one = Digest::default().with(&[Some(b"a")]);
        let read: Digest = one.to_string().parse().unwrap();
        assert_eq!(read.with(&[Some(b"b")]), one.with(&[Some(b"b")]));
    }
}
