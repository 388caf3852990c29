//! A rolling window of codes and keys, which finds every code within a Hamming distance.
//!
//! [`HammingIndex`] holds codes of 64 or 128 bits in the order they came, and finds all of those within k bits of
//! another code: recall within the bound is exactly 1. [`Tables`] does the same for keys that are equal. Expiry deletes
//! nothing: an entry's id is its position, a tail moves over the positions, and entries before it are no longer found.
//! Single entries can be removed.
//!
//! ```
//! use dupgate_index::HammingIndex;
//!
//! let mut near = <HammingIndex>::new(3, 1_000_000);
//! let first = near.push(Some(0b1111));
//! near.push(Some(u64::MAX));
//! assert_eq!(near.nearest(0b1010, 3), Some((2, first)));
//! near.expire_to(1);
//! assert_eq!(near.nearest(0b1010, 3), None);
//! ```
//!
//! How it works: a plan (`plan`) chooses tables whose keys are parts of the code, so that any two codes within k bits
//! share a key in one of them: the pigeonhole principle, as in Manku, Jain and Das Sarma, "Detecting near-duplicates
//! for web crawling" (WWW 2007), with blocks that a table may also search under flipped bits. Before they are used, the
//! tables of a plan are proved to cover every difference ([`Proof`]). A table is an array of lines of one cache line
//! each (`table`, `buckets`, `layout`); entries that do not fit are in an overflow run (`overflow`). An entry's id
//! alone shows whether it is alive (`entries`). Tables grow a few entries with each insert (`table`), in memory
//! that another thread may prepare ([`HammingIndex::maintenance`]). All `unsafe` is in `simd`.
//!
//! Cost of a probe and an insert: one cache line for each table, and one for each bit that the plan flips. Prefetched
//! ([`HammingIndex::prefetch`], [`HammingIndex::in_order`]) they take a few hundred nanoseconds among ten million
//! codes. Memory is bounded by the entries held: 8 or 16 bytes for each code and about 14 for each table.
//!
//! What a probe finds depends only on the codes and the positions, not on the plan, the machine's instructions, time,
//! or a rebuild in progress.
#![deny(clippy::iter_over_hash_type, clippy::print_stderr)]

mod buckets;
mod codeword;
mod column;
mod hamming;
mod layout;
mod entries;
mod overflow;
mod plan;
mod shape;
mod simd;
mod table;
mod tables;
mod tasks;

pub use codeword::{Codeword, MAX_DISTANCE, Width};
pub use column::{BitColumn, Column, Rows};
pub use hamming::{HammingIndex, SharedCodes};
pub use layout::{ExactTags, FuzzyTags};
pub use plan::{Plan, PlanCandidate, PlanRequirements};
pub use simd::{Backend, prefetch, prefetch_lines};
pub use table::TableStats;
pub use tables::Tables;
pub use tasks::{Task, run_sequential};

pub use crate::column::Ranks;
pub use crate::entries::Keys;
pub use crate::hamming::HammingStats;
pub use crate::plan::{Gap, Proof};
