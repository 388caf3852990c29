//! `MinHash`: a set becomes a few bytes from which its likeness to other sets can be determined (Broder, 1997).
//!
//! Each of M functions puts all shingles of the world into an order of its own; a set keeps the first of its shingles
//! under each. Two sets keep the same one with probability |A and B| / |A or B|, their Jaccard index: the share of
//! slots in which two [`Sketch`]es agree estimates it, with standard error sqrt(J (1 - J) / M). A slot holds a few
//! bits of the shingle's hash (Li and König, WWW 2010): unrelated texts agree in one of 2^bits, which is subtracted.
//!
//! [`Banding`] finds the pairs worth estimating: they agree in all slots of at least one band. [`BottomK`] is the other
//! form of the idea: one function, the k first shingles.
//!
//! All numbers that decide a verdict are integers. Cost: one multiplication, addition and comparison for each shingle
//! and slot, as many at once as the processor has lanes: about 2 us for 500 shingles and 128 slots.

mod banding;
mod bottom_k;
mod count;
mod distinct;
mod permutations;
mod sketch;
mod evidence;
#[cfg(test)]
mod tests;

pub use banding::{Banding, BandingError};
pub use bottom_k::BottomK;
pub(super) use distinct::Distinct;
pub use evidence::{Evidence, EvidenceLimits, LowConfidence, SameSite, TwoPages};
pub use permutations::Permutations;
pub use sketch::{Sketch, SketchForm, SketchFormError, SlotBits};
