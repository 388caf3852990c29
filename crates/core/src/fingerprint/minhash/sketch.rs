//! Sketches: what is kept of a set, and the shares, in thousandths, that are estimated from it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::permutations;

/// The form of a sketch: how many slots it has, how many bits each, and what follows them. Two sketches are compared by
/// their slots, or by their smallest elements if the form includes these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SketchForm {
    slots: u8,
    bits: SlotBits,
    counts: bool,
    /// Number of smallest hashes that are kept besides the slots; 0 if slots are compared.
    bottom: u8,
}

/// Bits kept of the minimum in each slot (`match.minhash.bits_per_slot`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotBits {
    /// 4: unrelated texts agree in one slot of 16.
    B4,
    /// 8: unrelated texts agree in one slot of 256.
    #[default]
    B8,
    /// 16: unrelated texts hardly agree.
    B16,
}

impl SlotBits {
    /// Returns the number of bits.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::B4 => 4,
            Self::B8 => 8,
            Self::B16 => 16,
        }
    }
}

/// Containment is not reported if the estimated Jaccard index is less than one divided by this.
const MIN_JACCARD_DIVISOR: u64 = 16;

/// Why no sketch can have a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SketchFormError {
    /// Too few slots to estimate anything, or more than a one-byte distance can express.
    #[error("{0} slots (expected 16 to 255)")]
    Slots(usize),
    /// Too few of the smallest elements to estimate anything, or more than a one-byte distance can express.
    #[error("the {0} smallest shingles (expected 16 to 255)")]
    BottomK(usize),
    /// The last byte would be half empty.
    #[error("{0} slots of 4 bits do not fill whole bytes (expected an even number)")]
    HalfByte(usize),
}

impl SketchForm {
    /// Describes sketches of 16 to 255 slots.
    ///
    /// # Errors
    ///
    /// [`SketchFormError`] for another number, or for one that does not fill whole bytes.
    pub const fn new(slots: usize, bits: SlotBits) -> Result<Self, SketchFormError> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 255, looked at one line above")]
        match slots {
            0..16 | 256.. => Err(SketchFormError::Slots(slots)),
            _ if slots % 2 == 1 && matches!(bits, SlotBits::B4) => Err(SketchFormError::HalfByte(slots)),
            _ => Ok(Self { slots: slots as u8, bits, counts: false, bottom: 0 }),
        }
    }

    /// Returns the same form with the size of the set after the slots, in two bytes. With it, sketches can estimate how
    /// much of one set is in the other ([`SketchForm::contained`]).
    #[must_use]
    pub const fn with_count(self) -> Self {
        Self { counts: true, ..self }
    }

    /// Returns the same form with the `k` smallest of the elements, 16 to 255, at the end, in four bytes each. Sketches
    /// are then compared by these; their slots serve only the bands.
    ///
    /// # Errors
    ///
    /// [`SketchFormError::BottomK`] for another number.
    pub fn with_bottom(self, k: usize) -> Result<Self, SketchFormError> {
        match u8::try_from(k) {
            Ok(bottom @ 16..) => Ok(Self { bottom, ..self }),
            _ => Err(SketchFormError::BottomK(k)),
        }
    }

    /// Returns how many of the smallest elements are kept, if sketches are compared by them.
    #[must_use]
    pub const fn bottom(self) -> Option<u8> {
        if self.bottom == 0 { None } else { Some(self.bottom) }
    }

    /// Returns whether sketches hold the size of their set.
    #[must_use]
    pub(crate) const fn has_count(self) -> bool {
        self.counts
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn slots(self) -> u8 {
        self.slots
    }

    /// Returns the number of bits in a slot.
    #[must_use]
    pub const fn bits(self) -> SlotBits {
        self.bits
    }

    /// Returns the size of a sketch in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bottom_at() + self.bottom as usize * permutations::SMALLEST_BYTES
    }

    /// Returns where the smallest elements begin.
    const fn bottom_at(self) -> usize {
        self.slot_bytes() + if self.counts { COUNT_BYTES } else { 0 }
    }

    const fn slot_bytes(self) -> usize {
        self.slots as usize * self.bits.count() as usize / 8
    }

    /// Creates a sketch from the form's bits of each minimum and, if the form includes them, the size of the set and
    /// the smallest of its elements, which may repeat.
    #[must_use]
    pub fn cut(self, minima: &[u32], elements: &[u32], size: usize) -> Sketch {
        let mixed = minima.iter().take(usize::from(self.slots)).map(|minimum| mix(*minimum).to_be_bytes());
        let mut bytes: Vec<u8> = Vec::with_capacity(self.bytes());
        match self.bits {
            SlotBits::B16 => bytes.extend(mixed.flat_map(|[a, b, ..]| [a, b])),
            SlotBits::B8 => bytes.extend(mixed.map(|[a, ..]| a)),
            SlotBits::B4 => {
                let nibbles: Vec<u8> = mixed.map(|[a, ..]| a >> 4).collect();
                bytes.extend(nibbles.chunks(2).map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble)));
            }
        }
        if self.counts {
            bytes.extend(encode_count(size));
        }
        if let Some(k) = self.bottom() {
            permutations::write_smallest(elements, k.into(), &mut bytes);
        }
        Sketch::from_bytes(&bytes)
    }

    /// Returns in how many slots two sketches of this form differ, from 0 to the number of slots. If they are compared
    /// by their smallest elements, returns how many of the k smallest of the union are in only one of them, or the same
    /// share of k if the union is smaller.
    #[must_use]
    pub fn distance(self, one: &[u8], other: &[u8]) -> u8 {
        if let Some(k) = self.bottom() {
            let at = self.bottom_at();
            let [one, other] =
                [one, other].map(|sketch| permutations::read_smallest(sketch.get(at..).unwrap_or_default()));
            return permutations::distance_of_smallest(one, other, k);
        }
        let (one, other) = (self.slots_of(one), self.slots_of(other));
        let pairs = one.iter().zip(other);
        match self.bits {
            SlotBits::B8 => pairs.map(|(a, b)| u8::from(a != b)).fold(0, u8::wrapping_add),
            SlotBits::B4 => pairs
                .map(|(a, b)| a ^ b)
                .map(|x| u8::from(x & 0xf != 0) + u8::from(x >> 4 != 0))
                .fold(0, u8::wrapping_add),
            SlotBits::B16 => {
                let pairs = one.as_chunks::<2>().0.iter().zip(other.as_chunks::<2>().0);
                pairs.map(|(a, b)| u8::from(a != b)).fold(0, u8::wrapping_add)
            }
        }
    }

    /// Returns the largest distance at which the estimated Jaccard index is still `least`: inclusive. `None` if no
    /// distance reaches it (`least` is more than [`PerMille::ONE`]).
    #[must_use]
    pub(crate) fn reach(self, least: PerMille) -> Option<u8> {
        let farthest = self.bottom().unwrap_or(self.slots);
        (0..=farthest).rev().find(|distance| self.similarity(*distance) >= least)
    }

    /// Returns the Jaccard index estimated from a distance, rounded down. The agreement to be expected of unrelated
    /// texts is subtracted; if nothing remains, returns 0.
    #[must_use]
    pub fn similarity(self, distance: u8) -> PerMille {
        let (part, whole) = self.jaccard(distance, 0);
        PerMille::of(part, whole)
    }

    /// Returns the standard error of an estimate of this Jaccard index: `sqrt(J (1 - J) / n)` for n slots or n smallest
    /// elements.
    #[must_use]
    pub(crate) fn standard_error(self, jaccard: PerMille) -> PerMille {
        let jaccard = u32::from(jaccard.min(PerMille::ONE).0);
        let slots = u32::from(self.bottom().unwrap_or(self.slots)).max(1);
        PerMille(u16::try_from((jaccard * (1000 - jaccard) / slots).isqrt()).unwrap_or(u16::MAX))
    }

    /// Returns the Jaccard index estimated from a distance as a fraction. `known` slots are left out: they are
    /// known to agree, because without them the pair would not have been compared.
    fn jaccard(self, distance: u8, known: u8) -> (u64, u64) {
        if let Some(k) = self.bottom() {
            // The smallest elements do not depend on the slots by which a pair was found, and unrelated texts share
            // none of them.
            return (u64::from(k.saturating_sub(distance)), u64::from(k));
        }
        let values = 1_u64 << self.bits.count();
        let slots = u64::from(self.slots);
        let agreeing = slots.saturating_sub(u64::from(distance) + u64::from(known));
        let slots = slots.saturating_sub(u64::from(known));
        ((agreeing * values).saturating_sub(slots), slots * (values - 1))
    }

    /// Returns the share of the smaller set that is in the other one, rounded down. It follows from the Jaccard index
    /// and both sizes, because |A and B| is J (|A| + |B|) / (1 + J). `known` slots agree because the pair was found by
    /// them: they say nothing about the others, and of texts of very different length they are most of what agrees.
    ///
    /// `None` when the form has no counts, or when the Jaccard index is so low that the estimate could come from
    /// chance: less than a sixteenth.
    #[must_use]
    pub fn contained(self, one: &[u8], other: &[u8], distance: u8, known: u8) -> Option<PerMille> {
        let [one, other] = [self.count(one)?, self.count(other)?].map(u128::from);
        let (part, whole) = self.jaccard(distance, known);
        if part == 0 || part * MIN_JACCARD_DIVISOR < whole {
            return None;
        }
        let [part, whole] = [part, whole].map(u128::from);
        let per_mille = part * (one + other) * 1000 / ((whole + part) * one.min(other).max(1));
        Some(u16::try_from(per_mille).map_or(PerMille::ONE, |per_mille| PerMille(per_mille).min(PerMille::ONE)))
    }

    /// Returns the size of the set that a sketch was made from: exact up to 4,095, within 0.05 % beyond. `None` when
    /// the form has no counts.
    #[must_use]
    pub fn count(self, sketch: &[u8]) -> Option<u32> {
        let bytes = self.counts.then(|| sketch.get(self.slot_bytes()..))??;
        Some(decode_count(*bytes.first_chunk()?))
    }

    fn slots_of(self, sketch: &[u8]) -> &[u8] {
        sketch.get(..self.slot_bytes()).unwrap_or(sketch)
    }

    /// Returns the number that a slot holds; 0 past the end.
    #[must_use]
    pub fn slot(self, sketch: &[u8], slot: usize) -> u16 {
        let byte = |at: usize| sketch.get(at).copied().map_or(0, u16::from);
        match self.bits {
            SlotBits::B4 => (byte(slot / 2) >> (if slot.is_multiple_of(2) { 4 } else { 0 })) & 0xf,
            SlotBits::B8 => byte(slot),
            SlotBits::B16 => byte(2 * slot) << 8 | byte(2 * slot + 1),
        }
    }
}

/// A set's minima, cut to a few bits each.
#[derive(Clone)]
pub struct Sketch {
    /// Sketches that were read together share one allocation.
    shared: Arc<[u8]>,
    from: u32,
    to: u32,
}

impl Sketch {
    /// Creates a sketch from its bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::within(Arc::from(bytes), 0..bytes.len())
    }

    /// Creates a sketch whose bytes are a range of these, of which the first 4 GiB count. The sketch keeps all of them in
    /// memory.
    #[must_use]
    pub(crate) fn within(shared: Arc<[u8]>, range: Range<usize>) -> Self {
        let [from, to] = [range.start, range.end].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        Self { shared, from, to }
    }

    /// Returns the bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.shared.get(self.from as usize..self.to as usize).unwrap_or_default()
    }

    /// Returns whether one of the two was cloned from the other, so that they are surely equal.
    #[must_use]
    #[inline]
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && (self.from, self.to) == (other.from, other.to)
    }
}

impl PartialEq for Sketch {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Sketch {}

impl PartialOrd for Sketch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sketch {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl Hash for Sketch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl Deref for Sketch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sketch({self})")
    }
}

/// Spreads a minimum, whose upper bits are mostly 0, over all bits (the finaliser of `MurmurHash3`).
const fn mix(mut bits: u32) -> u32 {
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}

/// Bytes for a size.
pub(super) const COUNT_BYTES: usize = 2;

/// Leading bits that are kept of a size.
const KEPT: u32 = 12;

/// Encodes a size: up to 4,095 the number itself, beyond that its twelve leading bits and how many bits follow them.
/// Larger sizes have larger codes.
pub(super) fn encode_count(size: usize) -> [u8; COUNT_BYTES] {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let dropped = (u32::BITS - size.leading_zeros()).saturating_sub(KEPT);
    // If bits were dropped, the first of the twelve is 1 and raises their number by one.
    let code = (dropped << (KEPT - 1)) + (size >> dropped);
    // At most 20 bits are dropped.
    u16::try_from(code).unwrap_or(u16::MAX).to_be_bytes()
}

/// Decodes a size: never more than was encoded, and less by at most one part in 2,048.
pub(super) fn decode_count(bytes: [u8; COUNT_BYTES]) -> u32 {
    let code = u32::from(u16::from_be_bytes(bytes));
    let dropped = (code >> (KEPT - 1)).saturating_sub(1);
    let kept = code - (dropped << (KEPT - 1));
    // No encoded size is larger.
    u32::try_from(u64::from(kept) << dropped).unwrap_or(u32::MAX)
}

/// Places for each element of a list.
const PLACES: usize = 64;

/// Counts distinct hashes, in a buffer that is reused for list after list.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Distinct {
    /// One bit for each place.
    taken: Vec<u64>,
}

impl Distinct {
    /// Returns the number of distinct elements, or slightly fewer: two of them may fall into the same place, which on
    /// average happens to at most one in 128 (as in linear counting: Whang, Vander-Zanden and Taylor, TODS 1990).
    /// Sorting takes ten times as long.
    pub(in super::super) fn count(&mut self, elements: &[u32]) -> usize {
        let words = (elements.len() * PLACES).div_ceil(u64::BITS as usize).next_power_of_two();
        self.taken.clear();
        self.taken.resize(words, 0);
        let mut count = 0;
        for &element in elements {
            let place = 1_u64 << (element % u64::BITS);
            if let Some(word) = self.taken.get_mut((element / u64::BITS) as usize & (words - 1)) {
                count += usize::from(*word & place == 0);
                *word |= place;
            }
        }
        count
    }
}

/// A share in whole thousandths. Estimates are rounded down. No share reaches a limit above [`PerMille::ONE`].
///
/// Displayed as people write a share: `0.85`, `0.857`, `1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerMille(pub u16);

impl PerMille {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All.
    pub const ONE: Self = Self(1000);

    /// Returns the share of a part in the whole, rounded down, at most [`PerMille::ONE`]; if both are 0, it is
    /// [`PerMille::ZERO`].
    #[must_use]
    pub(crate) fn of(part: u64, whole: u64) -> Self {
        let thousandths = part.saturating_mul(1000) / whole.max(1);
        u16::try_from(thousandths).map_or(Self::ONE, |thousandths| Self(thousandths).min(Self::ONE))
    }

    /// Returns a share between 0 and 1, rounded to the nearest thousandth; `None` for any other number.
    #[must_use]
    pub fn rounded(share: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        (0.0..=1.0).contains(&share).then(|| Self((share * 1000.0).round() as u16))
    }

    /// Returns the share as a number from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for PerMille {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.share().fmt(f)
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_of_usual_pages_are_exact() {
        for size in 0..4096_u32 {
            assert_eq!(decode_count(encode_count(size as usize)), size);
        }
        assert_eq!(decode_count(encode_count(4096)), 4096);
        assert_eq!((decode_count(encode_count(4097)), decode_count(encode_count(8191))), (4096, 8190));
        assert_eq!((encode_count(0), encode_count(4096), encode_count(usize::MAX)), ([0, 0], [0x10, 0], [0xaf, 0xff]));
        assert_eq!(decode_count([0xff, 0xff]), u32::MAX, "no encoder writes it, and reading it does not overflow");
    }

    proptest! {
        #[test]
        fn a_size_loses_less_than_a_thousandth_and_keeps_its_order(one: u32, other: u32) {
            let read = decode_count(encode_count(one as usize));
            prop_assert!(read <= one && u64::from(one - read) * 1000 <= u64::from(one));
            prop_assert!(one < other || encode_count(one as usize) >= encode_count(other as usize));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn different_ones_are_counted_but_for_those_that_share_a_place(
            lists in prop::collection::vec((prop::collection::vec(any::<u32>(), 1..4_000), 1_usize..4), 1..4),
        ) {
            let mut distinct = Distinct::default();
            for (hashes, times) in lists {
                let different = hashes.iter().collect::<BTreeSet<_>>().len();
                let counted = distinct.count(&hashes.repeat(times));
                // Pairs that share a place are as many as Poisson has it: six standard deviations are never seen.
                let places = (64 * (hashes.len() * times).next_power_of_two()) as f64;
                let pairs = (different * different) as f64 / (2.0 * places);
                let missed = different.checked_sub(counted).map(|missed| missed as f64);
                let most = pairs + 6.0 * pairs.sqrt() + 2.0;
                prop_assert!(missed.is_some_and(|missed| missed <= most), "{counted} of {different}, {most} may be missed");
            }
        }
    }

    #[test]
    fn a_share_is_rounded_down_and_no_more_than_all() {
        let found =
            [(0, 0), (0, 3), (2, 3), (3, 3), (4, 3), (u64::MAX, 1)].map(|(part, whole)| PerMille::of(part, whole).0);
        assert_eq!(found, [0, 0, 666, 1000, 1000, 1000]);
    }

    #[test]
    fn a_setting_is_rounded_to_the_nearest_and_refused_where_it_is_no_share() {
        let found = [0.0, 0.8504, 0.8506, 1.0].map(|share| PerMille::rounded(share).map(|rounded| rounded.0));
        assert_eq!(found, [Some(0), Some(850), Some(851), Some(1000)]);
        assert_eq!([-0.1, 1.1, f64::NAN].map(PerMille::rounded), [None; 3]);
    }

    #[test]
    fn a_share_is_shown_as_people_write_it() {
        assert_eq!([0, 850, 857, 1000].map(|share| PerMille(share).to_string()), ["0", "0.85", "0.857", "1"]);
    }
}
