//! Edge: turns what the operator wrote into [`Settings`].
//!
//! Each layer overrides those before it: built-in defaults, files in order (maps are merged, lists replaced),
//! `DUPGATE_…` variables (`__` between levels, commas in lists), `--set path=value`. There are three steps; only
//! [`load()`] does I/O:
//!
//! 1. [`Layers`] puts the texts together and remembers where each value came from,
//! 2. [`Raw`] is the exact mirror of the file, which declares each key once, with its default and its range: unknown keys
//!    and wrong types end here,
//! 3. [`resolve()`] checks the ranges, and the values together and returns [`Settings`], or every problem at once.
//!
//! Steps 2 and 3 are functions of their arguments: variables and the contents of named files are passed in.
//! A secret is never printed: not by `Debug`, not in a problem, not in the hash.

pub mod raw;
pub mod settings;
mod assignment;
mod field;
mod impact;
mod layers;
mod load;
mod problem;
mod range;
mod resolve;
mod schema;
mod show;
mod secret;
mod tree;
mod values;

pub use impact::{ChangeImpact, decides};
pub use layers::Layers;
pub use load::{Loaded, Sources, gather, load};
pub use problem::{Excerpt, Origin, Problem, Refused};
pub use raw::Raw;
pub use resolve::{BYTES_PER_ORIGINAL, ExternalInputs, Purpose, RESERVED_LABELS, resolve};
pub use schema::{SAMPLE, schema};
pub use secret::{Properties, PropertyValue, RawSecret, SECRET_SLOTS};
pub use settings::Settings;
pub use show::Shown;
pub use values::{ByteSize, Endpoint, LOG_PARTS, Levels, ParseEndpointError, Span, Start};
