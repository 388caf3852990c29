//! The size of a set in two bytes.

/// Bytes for a size.
pub(super) const BYTES: usize = 2;

/// Leading bits that are kept of a size.
const KEPT: u32 = 12;

/// Encodes a size: up to 4,095 the number itself, beyond that its twelve leading bits and how many bits follow them.
/// Larger sizes have larger codes.
pub(super) fn encode(size: usize) -> [u8; BYTES] {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let dropped = (u32::BITS - size.leading_zeros()).saturating_sub(KEPT);
    // If bits were dropped, the first of the twelve is 1 and raises their number by one.
    let code = (dropped << (KEPT - 1)) + (size >> dropped);
    // At most 20 bits are dropped.
    u16::try_from(code).unwrap_or(u16::MAX).to_be_bytes()
}

/// Decodes a size: never more than was encoded, and less by at most one part in 2,048.
pub(super) fn decode(bytes: [u8; BYTES]) -> u32 {
    let code = u32::from(u16::from_be_bytes(bytes));
    let dropped = (code >> (KEPT - 1)).saturating_sub(1);
    let kept = code - (dropped << (KEPT - 1));
    // No encoded size is larger.
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
