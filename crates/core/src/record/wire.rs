//! What the binary encodings of Avro and Protobuf have in common. Nothing is allocated for a length before the bytes are
//! there.

use super::json_text::Unfit;
use std::fmt::Display;

/// What is left to read of a value.
pub(super) struct Wire<'r> {
    pub(super) rest: &'r [u8],
}

impl<'r> Wire<'r> {
    /// Takes bytes, or says that the value ends before.
    pub(super) fn take(&mut self, length: usize) -> Result<&'r [u8], Unfit> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            let left = self.rest.len();
            return Err(Unfit::damaged(format!("{length} bytes should follow, and {left} are left")));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unfit> {
        self.take(N)?.try_into().map_err(|_| Unfit::damaged("the end"))
    }

    /// Reads a number of seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, Unfit> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unfit::damaged("a number has more than ten bytes"))
    }

    /// Reads a number with its sign in the lowest bit.
    pub(super) fn zigzag(&mut self) -> Result<i64, Unfit> {
        self.varint().map(unzigzag)
    }

    /// Takes as many bytes as the value says.
    pub(super) fn take_as_said(&mut self, length: impl TryInto<usize> + Display + Copy) -> Result<&'r [u8], Unfit> {
        let bytes = length.try_into().map_err(|_| Unfit::damaged(format!("a length of {length}")))?;
        self.take(bytes)
    }
}

pub(super) const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Returns the text that these bytes are in UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Unfit> {
    std::str::from_utf8(bytes)
        .map_err(|error| Unfit::damaged(format!("a string is not UTF-8 from its byte {} on", error.valid_up_to())))
}
