//! `MinHash`: a set becomes a few bytes, from which its similarity to other sets can be estimated (Broder, 1997).
//!
//! Each of M functions puts all possible shingles into an order of its own, and a set keeps its first shingle in each
//! order. Two sets keep the same one with probability |A and B| / |A or B|, their Jaccard index. So the share of slots
//! in which two [`Sketch`]es agree estimates that index, with standard error sqrt(J (1 - J) / M). A slot holds only a
//! few bits of the shingle's hash (Li and König, WWW 2010): unrelated texts agree in one slot of 2^bits, which the
//! estimate subtracts.
//!
//! [`Banding`] finds the pairs worth estimating: they agree in all slots of at least one band.
//! [`permutations::smallest`] is the other form of the idea: one order, of which a set keeps its first k shingles.
//!
//! All numbers that decide a verdict are integers. Cost: one multiplication, addition and comparison for each shingle
//! and slot, as many at once as the processor has lanes: about 2 us for 500 shingles and 128 slots.

mod banding;
mod permutations;
mod sketch;
mod evidence;
#[cfg(test)]
mod tests;

pub use banding::{Banding, BandingError};
pub use evidence::{Evidence, EvidenceLimits, LowConfidence, SameSite, TwoPages};
pub use permutations::Permutations;
pub use sketch::{PerMille, Sketch, SketchForm, SketchFormError, SlotBits};

pub(super) use sketch::Distinct;
