//! Banding: selects the candidate pairs to estimate.

use super::SketchForm;
use crate::fingerprint::split_mix::mix;

/// A cut of a sketch's first slots into `bands` of `rows` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Banding {
    bands: u8,
    rows: u8,
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
    pub fn keys(self, form: SketchForm, sketch: &[u8]) -> impl Iterator<Item = u64> + '_ {
        (0..usize::from(self.bands)).map(move |band| self.key(form, sketch, band))
    }

    /// Returns the key of one band, from 0.
    #[must_use]
    pub fn key(self, form: SketchForm, sketch: &[u8], band: usize) -> u64 {
        let rows = usize::from(self.rows);
        let slots = (band * rows..(band + 1) * rows).map(|slot| u64::from(form.slot(sketch, slot)));
        mix(slots.fold(band as u64 + 1, |key, slot| key.wrapping_mul(0x0100_0000_01b3) ^ slot))
    }

    /// Returns how many of its keys a sketch shares with another one, whose keys are given by band.
    #[must_use]
    pub fn shared(self, form: SketchForm, sketch: &[u8], keys: &[u64]) -> usize {
        self.keys(form, sketch).zip(keys).filter(|(own, key)| own == *key).count()
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
