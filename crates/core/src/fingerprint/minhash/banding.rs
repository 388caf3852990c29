//! Banding: selects the candidate pairs to estimate.

use std::ops::Range;

use super::{SketchForm, SlotBits};
use crate::fingerprint::seed::split_mix;

/// A cut of a sketch's first slots into `bands` of `rows` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Banding {
    bands: u8,
    rows: u8,
}

/// The default number of rows. The key of so many slots of 8 bits is that of one number, without a loop.
const USUAL_ROWS: usize = 3;

#[inline]
fn key_of(band: usize, slots: impl Iterator<Item = u64>) -> u64 {
    split_mix(slots.fold(band as u64 + 1, |key, slot| key.wrapping_mul(0x0100_0000_01b3) ^ slot))
}

/// Returns a key for the usual slots of a band.
#[inline]
fn usual_key_of(band: usize, [first, second, third]: [u8; USUAL_ROWS]) -> u64 {
    split_mix(u64::from(u32::from_le_bytes([first, second, third, 0])) | (band as u64 + 1) << 24)
}

/// Why a sketch cannot be cut like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandingError {
    /// Bands without rows would find everything; no bands would find nothing.
    #[error("{bands} bands of {rows} rows (at least 1 of each)")]
    Empty {
        /// Bands asked for.
        bands: usize,
        /// Rows asked for.
        rows: usize,
    },
    /// The bands need more slots than the sketch has.
    #[error("{bands} bands of {rows} rows need {} slots, the sketch has {slots}", bands * rows)]
    TooMany {
        /// Bands asked for.
        bands: usize,
        /// Rows asked for.
        rows: usize,
        /// Slots of a sketch.
        slots: u8,
    },
}

impl Banding {
    /// Cuts the first `bands * rows` slots.
    ///
    /// # Errors
    ///
    /// [`BandingError`] when `bands` or `rows` is 0 or the sketch has fewer slots. The numbers are never adjusted:
    /// users of other tools were given "thresholds of 0.8" whose bands found a fifth of the pairs at 0.8.
    pub fn new(bands: usize, rows: usize, form: SketchForm) -> Result<Self, BandingError> {
        if bands == 0 || rows == 0 {
            return Err(BandingError::Empty { bands, rows });
        }
        let too_many = BandingError::TooMany { bands, rows, slots: form.slots() };
        if bands.checked_mul(rows).is_none_or(|needed| needed > usize::from(form.slots())) {
            return Err(too_many);
        }
        match (u8::try_from(bands), u8::try_from(rows)) {
            (Ok(bands), Ok(rows)) => Ok(Self { bands, rows }),
            _ => Err(too_many),
        }
    }

    /// Returns the number of bands.
    #[must_use]
    pub const fn bands(self) -> u8 {
        self.bands
    }

    /// Returns the number of slots in a band.
    #[must_use]
    pub const fn rows(self) -> u8 {
        self.rows
    }

    /// Returns the key of each band: two sketches that agree in all slots of a band share its key. Keys of different
    /// bands differ, and all bits of a key are well mixed.
    pub(crate) fn keys(self, form: SketchForm, sketch: &[u8]) -> impl Iterator<Item = u64> + '_ {
        let bands = usize::from(self.bands);
        let usual = if self.is_usual(form) { sketch.as_chunks().0 } else { &[] };
        let usual = usual.iter().take(bands);
        let others = usual.len()..bands;
        let usual = usual.enumerate().map(|(band, slots)| usual_key_of(band, *slots));
        usual.chain(others.map(move |band| self.key(form, sketch, band)))
    }

    /// Returns whether [`usual_key_of`] computes the keys.
    fn is_usual(self, form: SketchForm) -> bool {
        form.bits() == SlotBits::B8 && usize::from(self.rows) == USUAL_ROWS
    }

    /// Passes the key of one band, from 0, of each of these sketches to `take`.
    #[inline]
    pub(crate) fn keys_in<'s>(
        self,
        form: SketchForm,
        sketches: impl Iterator<Item = &'s [u8]>,
        band: usize,
        mut take: impl FnMut(u64),
    ) {
        let is_usual = self.is_usual(form);
        sketches.for_each(|sketch| take(self.key_if(is_usual, form, sketch, band)));
    }

    /// Returns the key of one band, from 0.
    #[must_use]
    #[inline]
    pub fn key(self, form: SketchForm, sketch: &[u8], band: usize) -> u64 {
        self.key_if(self.is_usual(form), form, sketch, band)
    }

    #[inline]
    fn key_if(self, is_usual: bool, form: SketchForm, sketch: &[u8], band: usize) -> u64 {
        let slots = self.slots(band);
        match sketch.get(slots.start..).and_then(<[u8]>::first_chunk::<USUAL_ROWS>) {
            Some(bytes) if is_usual => usual_key_of(band, *bytes),
            _ => key_of(band, slots.map(|slot| u64::from(form.slot(sketch, slot)))),
        }
    }

    /// Returns whether two sketches agree in all slots of a band, and so share its key.
    #[must_use]
    pub(crate) fn agree(self, form: SketchForm, one: &[u8], other: &[u8], band: usize) -> bool {
        let slots = self.slots(band);
        if form.bits() == SlotBits::B8
            && let (Some(one), Some(other)) = (one.get(slots.clone()), other.get(slots.clone()))
        {
            return one.iter().zip(other).all(|(one, other)| one == other);
        }
        slots.into_iter().all(|slot| form.slot(one, slot) == form.slot(other, slot))
    }

    /// Returns the bands, from 0, whose keys two sketches share.
    pub(crate) fn agreeing<'s>(
        self,
        form: SketchForm,
        one: &'s [u8],
        other: &'s [u8],
    ) -> impl Iterator<Item = usize> + 's {
        (0..usize::from(self.bands)).filter(move |band| self.agree(form, one, other, *band))
    }

    /// Returns how many keys two sketches share.
    #[must_use]
    pub fn shared(self, form: SketchForm, one: &[u8], other: &[u8]) -> usize {
        self.agreeing(form, one, other).count()
    }

    fn slots(self, band: usize) -> Range<usize> {
        let rows = usize::from(self.rows);
        band * rows..(band + 1) * rows
    }

    /// Returns the chance that a pair of this Jaccard index shares at least `least` of the keys; for 1 it is `1 - (1 -
    /// j^rows)^bands`. Agreement by chance is not included.
    #[must_use]
    pub fn recall(self, jaccard: f64, least: u8) -> f64 {
        let one = jaccard.clamp(0.0, 1.0).powi(i32::from(self.rows));
        let bands = f64::from(self.bands);
        let mut below = 0.0;
        let mut ways = 1.0;
        for shared in 0..least {
            let shared_bands = f64::from(shared);
            below += ways * one.powi(i32::from(shared)) * (1.0 - one).powf(bands - shared_bands);
            ways *= (bands - shared_bands) / (shared_bands + 1.0);
        }
        (1.0 - below).clamp(0.0, 1.0)
    }
}
