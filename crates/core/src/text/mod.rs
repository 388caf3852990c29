//! Text -> words.
//!
//! Before: `record` gives the body of a page, as plain text or HTML. After: `fingerprint` hashes the normalised text
//! and weighs its words. In order: HTML to main text, Unicode NFKC, ASCII digits, no vowel marks, lower case,
//! traditional to simplified Chinese, web addresses dropped, white space collapsed; then words, without stop words.
//!
//! Laws: the result is a function of the page and the settings alone; the stack does not grow with the input. Cost:
//! some tens of microseconds for 2 KB, most of it segmentation; HTML costs about as much again.

mod analyzer;
mod consent;
mod extract;
mod frame;
mod head;
mod markup;
mod minify;
mod normalize;
mod outline;
mod settings;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub use analyzer::{Analyzer, NormalText, SettingsError, UnusedWords, Word};
pub use extract::Extraction;
pub(crate) use head::HeadLinks;
pub(crate) use normalize::urls;
pub use normalize::{TextUrls, is_han, simplified};
pub use settings::{
    Digits, Han, HtmlText, JiebaSettings, Normalize, Segmenter, Settings, StopWords, UnicodeForm, Urls, VERSIONS,
};
pub use tree::max_tree_bytes;
pub use words::{CutBy, Run, WordKind, runs, segmenter};
pub(crate) use words::{IdentityHasher, ONE, WordMap, idf, is_frequency_telling};
