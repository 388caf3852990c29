//! The size of a set in two bytes.

/// Bytes of a size.
pub(super) const BYTES: usize = 2;

/// Leading bits that are kept of a size.
const KEPT: u32 = 12;

/// Writes a size: the number itself up to 4,095, beyond it twelve leading bits and how many follow. Larger sizes have
/// larger codes.
pub(super) fn encode(size: usize) -> [u8; BYTES] {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let dropped = (u32::BITS - size.leading_zeros()).saturating_sub(KEPT);
    // The first of the twelve bits is 1 where bits were dropped: it counts one more of them.
    let code = (dropped << (KEPT - 1)) + (size >> dropped);
    // At most 20 bits are dropped.
    u16::try_from(code).unwrap_or(u16::MAX).to_be_bytes()
}

/// Reads what [`encode`] wrote: never more than was written, and less by at most one part of 2,048.
pub(super) fn decode(bytes: [u8; BYTES]) -> u32 {
    let code = u32::from(u16::from_be_bytes(bytes));
    let dropped = (code >> (KEPT - 1)).saturating_sub(1);
    let kept = code - (dropped << (KEPT - 1));
    // No size that was written is larger.
    u32::try_from(u64::from(kept) << dropped).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_of_usual_pages_are_exact() {
        for size in 0..4096_u32 {
            assert_eq!(decode(encode(size as usize)), size);
        }
        assert_eq!(decode(encode(4096)), 4096);
        assert_eq!((decode(encode(4097)), decode(encode(8191))), (4096, 8190));
        assert_eq!((encode(0), encode(4096), encode(usize::MAX)), ([0, 0], [0x10, 0], [0xaf, 0xff]));
        assert_eq!(decode([0xff, 0xff]), u32::MAX, "no encoder writes it, and reading it does not overflow");
    }

    proptest! {
        #[test]
        fn a_size_loses_less_than_a_thousandth_and_keeps_its_order(one: u32, other: u32) {
            let read = decode(encode(one as usize));
            prop_assert!(read <= one && u64::from(one - read) * 1000 <= u64::from(one));
            prop_assert!(one < other || encode(one as usize) >= encode(other as usize));
        }
    }
}
