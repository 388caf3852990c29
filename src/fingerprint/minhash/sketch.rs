//! What is kept of a set.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// How many slots a sketch has and how many bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SketchForm {
    slots: u8,
    bits: SlotBits,
}

/// Bits kept of the minimum in each slot (`match.minhash.bits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotBits {
    /// 4: strangers agree in one slot of 16.
    B4,
    /// 8: strangers agree in one slot of 256.
    #[default]
    B8,
    /// 16: strangers hardly agree.
    B16,
}

impl SlotBits {
    /// Returns the number.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::B4 => 4,
            Self::B8 => 8,
            Self::B16 => 16,
        }
    }
}

/// No sketch has this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    /// Too few slots to estimate anything, or more than a distance of one byte can tell.
    #[error("{0} slots (expected 16 to 255)")]
    Slots(usize),
    /// The last byte would be half empty.
    #[error("{0} slots of 4 bits do not fill whole bytes (expected an even number)")]
    HalfByte(usize),
}

impl SketchForm {
    /// Describes sketches of 16 to 255 slots.
    ///
    /// # Errors
    ///
    /// [`BadForm`] for another number, or for one that does not fill whole bytes.
    pub const fn new(slots: usize, bits: SlotBits) -> Result<Self, BadForm> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 255, looked at one line above")]
        match slots {
            0..16 | 256.. => Err(BadForm::Slots(slots)),
            _ if slots % 2 == 1 && matches!(bits, SlotBits::B4) => Err(BadForm::HalfByte(slots)),
            _ => Ok(Self { slots: slots as u8, bits }),
        }
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn slots(self) -> u8 {
        self.slots
    }

    /// Returns the bits of a slot.
    #[must_use]
    pub const fn bits(self) -> SlotBits {
        self.bits
    }

    /// Returns the bytes of a sketch.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.slots as usize * self.bits.count() as usize / 8
    }

    /// Keeps the form's bits of each minimum.
    #[must_use]
    pub fn cut(self, minima: &[u32]) -> Sketch {
        let mixed = minima.iter().take(usize::from(self.slots)).map(|minimum| mix(*minimum).to_be_bytes());
        match self.bits {
            SlotBits::B16 => Sketch(mixed.flat_map(|[a, b, ..]| [a, b]).collect()),
            SlotBits::B8 => Sketch(mixed.map(|[a, ..]| a).collect()),
            SlotBits::B4 => {
                let nibbles: Vec<u8> = mixed.map(|[a, ..]| a >> 4).collect();
                let pairs = nibbles.chunks(2).map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble));
                Sketch(pairs.collect())
            }
        }
    }

    /// Returns in how many slots two sketches of this form differ: 0 for equal ones, the number of slots at most.
    #[must_use]
    pub fn distance(self, one: &[u8], other: &[u8]) -> u8 {
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

    /// Returns the largest distance at which the estimated Jaccard index is still `per_mille` thousandths: inclusive.
    /// `None` when no distance is so small (more than 1000 thousandths).
    #[must_use]
    pub fn reach(self, per_mille: u16) -> Option<u8> {
        (0..=self.slots).rev().find(|distance| self.similarity(*distance) >= per_mille)
    }

    /// Returns the Jaccard index estimated from a distance, in thousandths, rounded down, with what strangers would
    /// agree in taken off; 0 when that is all.
    #[must_use]
    pub fn similarity(self, distance: u8) -> u16 {
        let values = 1_u64 << self.bits.count();
        let slots = u64::from(self.slots);
        let agreeing = slots - slots.min(u64::from(distance));
        let per_mille = (agreeing * values).saturating_sub(slots) * 1000 / (slots * (values - 1));
        u16::try_from(per_mille).unwrap_or(1000)
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sketch(Arc<[u8]>);

impl Sketch {
    /// Takes the bytes of a sketch as they were written.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
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
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sketch({self})")
    }
}

/// Returns thousandths, as estimates are kept, as a share of one.
#[must_use]
pub fn share(per_mille: u16) -> f64 {
    f64::from(per_mille) / 1000.0
}

/// Spreads a minimum, whose upper bits are mostly 0, over all bits (the finaliser of `MurmurHash3`).
const fn mix(mut bits: u32) -> u32 {
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}
