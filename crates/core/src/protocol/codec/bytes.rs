//! Primitive encodings: numbers, hashes and lengths as bytes.
//!
//! Numbers that are mostly small are LEB128 varints of at most ten bytes, signed ones folded by zigzag first; hashes
//! are fixed and little-endian. A [`Reader`] takes bytes from anywhere: every length is compared with what is left
//! before anything is reserved.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::CodecError;
use crate::record::Timestamp;

/// Appends values to a buffer.
pub(crate) trait Write {
    /// Appends a varint: one byte for every seven bits.
    fn varint(&mut self, value: u64);
    /// Appends a signed number as a varint; those near zero are short.
    fn signed(&mut self, value: i64);
    /// Appends eight bytes.
    fn fixed64(&mut self, value: u64);
    /// Appends a length, then the bytes.
    fn run(&mut self, bytes: &[u8]);
    /// Appends a span: seconds, nanoseconds.
    fn span(&mut self, span: Duration);
    /// Appends a time.
    fn time(&mut self, time: Timestamp);
    /// Appends whether there is a number, and the number.
    fn maybe(&mut self, value: Option<i64>);
}

impl Write for Vec<u8> {
    fn varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.push(low & 0x7F);
                return;
            }
            self.push(low | 0x80);
        }
    }

    fn signed(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    fn fixed64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn run(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn span(&mut self, span: Duration) {
        self.varint(span.as_secs());
        self.varint(u64::from(span.subsec_nanos()));
    }

    fn time(&mut self, time: Timestamp) {
        self.signed(time.millis());
    }

    fn maybe(&mut self, value: Option<i64>) {
        self.push(u8::from(value.is_some()));
        if let Some(value) = value {
            self.signed(value);
        }
    }
}

/// Reads what [`Write`] wrote; every method names what it expects, for the error.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    all: &'a [u8],
    rest: &'a [u8],
    /// The latest block that runs were copied with: see [`Reader::shared_run`].
    block: Option<Block>,
}

/// Bytes that are copied together. Whoever keeps one run of them keeps all of them.
const BLOCK: usize = 16 << 10;

/// A copy of some of the bytes.
#[derive(Debug)]
struct Block {
    bytes: Arc<[u8]>,
    /// Where it begins.
    from: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the first of these bytes.
    #[must_use]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { all: bytes, rest: bytes, block: None }
    }

    /// Takes the next `length` bytes.
    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CodecError::EndsInside { what })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CodecError::EndsInside { what })?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads one byte.
    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, CodecError> {
        self.array(what).map(u8::from_le_bytes)
    }

    /// Reads 16 bits.
    pub(crate) fn fixed16(&mut self, what: &'static str) -> Result<u16, CodecError> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Reads 32 bits.
    pub(crate) fn fixed32(&mut self, what: &'static str) -> Result<u32, CodecError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads 64 bits.
    pub(crate) fn fixed64(&mut self, what: &'static str) -> Result<u64, CodecError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads 128 bits.
    pub(crate) fn fixed128(&mut self, what: &'static str) -> Result<u128, CodecError> {
        self.array(what).map(u128::from_le_bytes)
    }

    /// Reads what [`Write::varint`] wrote.
    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, CodecError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::TooLarge { what })
    }

    /// Reads a varint that must fit a smaller type.
    pub(crate) fn small<T: TryFrom<u64>>(&mut self, what: &'static str) -> Result<T, CodecError> {
        let value = self.varint(what)?;
        T::try_from(value).map_err(|_| CodecError::BadValue { what, value })
    }

    /// Reads what [`Write::signed`] wrote.
    pub(crate) fn signed(&mut self, what: &'static str) -> Result<i64, CodecError> {
        let folded = self.varint(what)?;
        Ok((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()))
    }

    /// Reads what [`Write::run`] wrote.
    pub(crate) fn run(&mut self, what: &'static str) -> Result<&'a [u8], CodecError> {
        let length = self.count(1, what)?;
        self.take(length, what)
    }

    /// Reads what [`Write::run`] wrote, and returns a copy: bytes, and where the run is in them. Runs that are near each
    /// other are copied together.
    pub(crate) fn shared_run(&mut self, what: &'static str) -> Result<(Arc<[u8]>, Range<usize>), CodecError> {
        let length = self.run(what)?.len();
        let end = self.all.len() - self.rest.len();
        let start = end - length;
        let holds = |block: &&Block| block.from <= start && end <= block.from + block.bytes.len();
        let Block { bytes, from } = if let Some(block) = self.block.as_ref().filter(holds) {
            block
        } else {
            let to = start.saturating_add(length.max(BLOCK)).min(self.all.len());
            let bytes = Arc::from(self.all.get(start..to).unwrap_or_default());
            self.block.insert(Block { bytes, from: start })
        };
        Ok((Arc::clone(bytes), start - from..end - from))
    }

    /// Reads how many elements follow, each at least `least` bytes long. Fails if the remaining bytes cannot hold that
    /// many.
    pub(crate) fn count(&mut self, least: usize, what: &'static str) -> Result<usize, CodecError> {
        let count = self.varint(what)?;
        let most = self.rest.len() / least.max(1);
        usize::try_from(count).ok().filter(|&count| count <= most).ok_or(CodecError::TooMany { what, count, most })
    }

    /// Reads what [`Write::span`] wrote.
    pub(crate) fn span(&mut self, what: &'static str) -> Result<Duration, CodecError> {
        let seconds = self.varint(what)?;
        let nanos = self.varint(what)?;
        match u32::try_from(nanos) {
            Ok(within) if within < 1_000_000_000 => Ok(Duration::new(seconds, within)),
            Ok(_) | Err(_) => Err(CodecError::BadValue { what, value: nanos }),
        }
    }

    /// Reads what [`Write::time`] wrote.
    pub(crate) fn time(&mut self, what: &'static str) -> Result<Timestamp, CodecError> {
        self.signed(what).map(Timestamp::from_millis)
    }

    /// Reads what [`Write::maybe`] wrote.
    pub(crate) fn maybe(&mut self, what: &'static str) -> Result<Option<i64>, CodecError> {
        match self.byte(what)? {
            0 => Ok(None),
            1 => self.signed(what).map(Some),
            other => Err(CodecError::BadValue { what, value: u64::from(other) }),
        }
    }

    /// Takes all that is left.
    #[must_use]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::TrailingBytes { left: self.rest.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<u64>(), shift in 0..64_u32, signed in any::<i64>(), maybe in any::<Option<i64>>()) {
            let mut bytes = Vec::new();
            bytes.varint(value >> shift);
            bytes.signed(signed >> shift);
            bytes.maybe(maybe);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint("")?, value >> shift);
            prop_assert_eq!(reader.signed("")?, signed >> shift);
            prop_assert_eq!(reader.maybe("")?, maybe);
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn runs_come_back_from_shared_copies(lengths in prop::collection::vec(0..40_000_usize, 0..9)) {
            let run = |(number, length): (u8, &usize)| -> Vec<u8> { (number..=255).cycle().take(*length).collect() };
            let mut bytes = vec![7];
            (0..).zip(&lengths).map(run).for_each(|run| bytes.run(&run));
            let mut reader = Reader::new(&bytes);
            reader.byte("")?;
            for expected in (0..).zip(&lengths).map(run) {
                let (shared, range) = reader.shared_run("")?;
                prop_assert_eq!(&shared[range], expected.as_slice());
                prop_assert!(shared.len() <= BLOCK.max(expected.len()));
            }
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn runs_near_each_other_share_a_copy() {
        let mut bytes = Vec::new();
        (0..3).for_each(|_| bytes.run(&[1; BLOCK / 3]));
        let mut reader = Reader::new(&bytes);
        let [one, two, three] = [(); 3].map(|()| reader.shared_run("").unwrap().0);
        assert!(Arc::ptr_eq(&one, &two));
        assert!(!Arc::ptr_eq(&two, &three), "the third is beyond the block");
    }

    #[test]
    fn small_numbers_of_either_sign_take_one_byte() {
        for value in [0, -1, 1, 63, -64] {
            let mut bytes = Vec::new();
            bytes.signed(value);
            assert_eq!(bytes.len(), 1, "{value}");
        }
    }

    #[test]
    fn a_varint_past_64_bits_is_refused() {
        let mut largest = vec![0xFF; 9];
        largest.push(1);
        assert_eq!(Reader::new(&largest).varint(""), Ok(u64::MAX));
        for last in [2, 0x81, 0x80] {
            *largest.last_mut().unwrap() = last;
            assert!(matches!(Reader::new(&largest).varint(""), Err(CodecError::TooLarge { .. })), "{last}");
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_left_is_refused() {
        let mut bytes = Vec::new();
        bytes.varint(3);
        bytes.extend([0; 29]);
        assert_eq!(
            Reader::new(&bytes).count(10, "things"),
            Err(CodecError::TooMany { what: "things", count: 3, most: 2 })
        );
        assert_eq!(Reader::new(&bytes).count(9, "things"), Ok(3));
    }
}
